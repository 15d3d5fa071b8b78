/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NATIVE_COMMAND_H
#define NATIVE_COMMAND_H

#include "backend/backend.h"
#include "backend/native/payload.h"

/* Plans what runs in the box: the language's commands with {file} and {out} filled in, the
 * program's arguments, and its variables (ours, the language's, the policy's: the last one wins). */
int command_plan(struct box_plan *p, const struct box_request *request, gb_error *err);

#endif
