/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole terminal, for as long as something is shown on it: a second screen, single keys, no cursor; and all of it as before at the end,
 * also when a signal ends the command. */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include "base/buffer.h"

#include <stdbool.h>

enum screen_key { KEY_NONE, KEY_QUIT, KEY_CPU, KEY_MEMORY, KEY_UP, KEY_DOWN, KEY_PAGE_UP, KEY_PAGE_DOWN, KEY_HOME, KEY_END, KEY_REDRAW };

/* Standard input and output are terminals. 0 or a negative errno; then nothing was changed. */
int screen_open(void);
/* As it was before; may be called when nothing was opened. */
void screen_close(void);

/* Readable when keys were typed, the size has changed, or somebody wants the command to end. */
int screen_event_fd(void);
/* The next of what happened; KEY_NONE: nothing more. */
enum screen_key screen_key(void);

/* Shows lines from the top on; what is longer than the screen is left out, what was there before goes. */
int screen_draw(const struct buffer *lines, unsigned rows);

#endif
