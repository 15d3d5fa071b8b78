/* SPDX-License-Identifier: Apache-2.0
 *
 * What the operator reads: one line per event that matters, on standard error. A line never waits: what the reader does not take at
 * once is dropped and counted. Texts of others come through quote(), and secrets are taken out of them; tokens and code never come here at all. */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H

#include "base/limits.h"
#include "base/macro.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO };

/* Once, before threads and while standard error may still be opened again. Without it lines go out as text. */
void log_open(bool json);
/* What each message goes through before it is written, in a buffer with so much room. Once there are no threads, and before there are. NULL: nothing. */
typedef void log_scrubber(void *data, char *message, size_t room);
void log_scrub_by(log_scrubber *scrubber, void *data);
/* From any thread. event: a word for programs, such as "ready"; the message: a sentence for people. */
void log_event(enum log_level level, const char *event, const char *format, ...) _printf_(3, 4);
#define log_error(event, ...) log_event(LOG_LEVEL_ERROR, event, __VA_ARGS__)
#define log_warning(event, ...) log_event(LOG_LEVEL_WARNING, event, __VA_ARGS__)
#define log_info(event, ...) log_event(LOG_LEVEL_INFO, event, __VA_ARGS__)
/* Lines that nobody took. */
uint64_t log_dropped(void);

#endif
