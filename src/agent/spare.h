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

/* Ends or starts spares, so that they, the agent and this many other processes of its own are AGENT_OWN_TASKS. */
void spare_adjust(size_t others);
bool spare_is(pid_t pid);
/* It is reaped. Returns whether it was one. */
bool spare_forget(pid_t pid);
/* Puts those that are alive into the list; returns how many. */
size_t spare_list(pid_t list[static SPARES_MAX]);

#endif
