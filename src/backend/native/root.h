/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NATIVE_ROOT_H
#define NATIVE_ROOT_H

#include "backend/backend.h"
#include "backend/command.h"
#include "backend/native/payload.h"

#define BOX_RUNNER_DIR "/run/runner" /* in sessions and templates */

/* Plans the whole root directory of a box. */
int root_plan(struct box_plan *p, const struct box_request *request, gb_error *err);

/* The same for a session: without code, with a place for it, and with what interpreters need to keep state. */
int root_plan_session(struct box_plan *p, const struct box_request *request, gb_error *err);
/* Whether it cannot be the template's, since the policy asks for what that has not. */
bool root_is_own(const struct policy *policy);
/* The same on top of the root that the template has, which is made for that. */
int root_plan_inherited(struct box_plan *p, const struct box_request *request, gb_error *err);
/* The template's own. */
int root_plan_template(struct box_plan *p, const struct box_request *request, gb_error *err);

#endif
