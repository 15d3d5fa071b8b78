/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NATIVE_ROOT_H
#define NATIVE_ROOT_H

#include "backend/backend.h"
#include "backend/native/payload.h"

#define BOX_WORKSPACE "/sandbox"
#define BOX_CODE_DIR "/run/glovebox"
#define BOX_HOME "/tmp"

/* Plans the whole root directory of a box. */
int root_plan(struct box_plan *p, const struct box_request *request, gb_error *err);

#endif
