/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside engine/: a run in a session that is only for it. */
#ifndef ENGINE_RUN_SESSION_H
#define ENGINE_RUN_SESSION_H

#include "engine/run.h"

/* only_warm: from a template that waits already, or not at all. A negative errno: nothing was run. */
int run_in_session(const struct run_request *request, bool only_warm, struct result **ret, gb_error *err);

#endif
