/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside engine/: a run from a template that somebody keeps warm, in a session that is only for it. */
#ifndef ENGINE_RUN_WARM_H
#define ENGINE_RUN_WARM_H

#include "engine/run.h"

#define RUN_WHY_MAX 128

/* A negative errno: nothing was run, and why says why it cannot come from a template. */
int run_warm(const struct run_request *request, struct result **ret, char why[static RUN_WHY_MAX]);

#endif
