/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that hold what the agent's own ones need of the container's task limit, so that the code cannot have it. */
#ifndef AGENT_SPARE_H
#define AGENT_SPARE_H

#include "agent/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define SPARES_MAX (AGENT_OWN_TASKS - 2) /* besides the agent and one supervisor */

/* Starts or ends spares so that agent, spares and `others` make AGENT_OWN_TASKS. */
void spare_adjust(size_t others);
bool spare_is(pid_t pid);
/* Removes a reaped pid from the list. Returns whether it was a spare. */
bool spare_forget(pid_t pid);
/* Puts those that are alive into the list; returns how many. */
size_t spare_list(pid_t list[static SPARES_MAX]);

#endif
