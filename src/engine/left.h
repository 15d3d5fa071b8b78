/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside engine/: what a run in a session leaves running. Processes may go on after the run that started them, as a server does. A fork bomb
 * whose first process has ended is such a process as well. It is known by its growth, and when it has taken most of the tasks that the session
 * may have, all that the programs of the session have started is killed. The programs themselves, which are interpreters with their variables,
 * stay. */
#ifndef ENGINE_LEFT_H
#define ENGINE_LEFT_H

#include "engine/exec.h"

/* Before a run: ends a bomb that has shown itself since the last one. x->before is the usage of the session. */
void left_begin(struct exec *x);
/* At its end: waits while what it has left running becomes more, and ends a bomb. *now: the usage of the session, which is read again as needed. */
void left_end(struct exec *x, struct box_usage *now);

#endif
