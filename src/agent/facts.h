/* SPDX-License-Identifier: Apache-2.0
 *
 * What the agent sees around itself. */
#ifndef AGENT_FACTS_H
#define AGENT_FACTS_H

#include "agent/wire.h"

#include <stdbool.h>
#include <sys/types.h>

/* Whether only the agent can count the tasks of the code: the host sees gVisor's own. After facts_hello(). */
bool facts_count_for_host(void);

/* Before anything was started. 0 or a negative errno: what must be known is not. */
int facts_hello(struct wire_hello *ret);

/* Notes what is in the private places by now. */
void facts_note_start(void);
/* own: the processes of the agent that are no program's, up to 0. Counts the processes again when the last count is
 * old, or with `exact`. ret->known says which numbers could be read. */
void facts_usage(struct wire_usage *ret, const pid_t *own, int exact);

/* A Landlock ruleset: writes only in what is mounted writable, and on devices. 0, and a descriptor or (the kernel has no Landlock) -1; or a negative errno. */
int facts_ruleset(int *ret);

#endif
