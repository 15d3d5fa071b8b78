/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <stdbool.h>

/* From here on SIGINT counts 1 and SIGTERM and SIGHUP count 2 on the eventfd that is returned
 * (or a negative errno); SIGPIPE is ignored. Signals that were ignored stay so. */
int signals_start(void);
/* Back to the defaults: the next signal ends the command. The eventfd stays open. */
void signals_stop(void);

/* Adds to the count, as a signal would. */
void signals_cancel(unsigned count);
/* Somebody wants the run to end. */
bool signals_pending(void);
/* SIGTERM or SIGHUP came: the command itself is to end. */
bool signals_must_end(void);
/* Forgets what was counted so far: the next run is another one. Not that the command is to end. */
void signals_clear(void);

#endif
