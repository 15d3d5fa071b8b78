/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NATIVE_COMMAND_H
#define NATIVE_COMMAND_H

#include "backend/backend.h"
#include "backend/native/payload.h"

/* Plans what runs in the box, as backend/command.h makes it. */
int command_plan(struct box_plan *p, const struct box_request *request, gb_error *err);

/* An interpreter that takes code through its control channel. */
int command_plan_context(struct box_plan *p, const struct box_request *request, gb_error *err);
/* The interpreter of a template. */
int command_plan_template(struct box_plan *p, const struct box_request *request, const struct template *template, gb_error *err);
/* Code that is written to a directory of its own in a session, then compiled and run; `slot` tells it from others. -1: there are none,
 * and it lies where that of a box does. */
int command_plan_once(struct box_plan *p, const struct box_request *request, int slot, gb_error *err);

#endif
