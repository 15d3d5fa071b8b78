/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the command writes to. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "base/buffer.h"
#include "cli/terminal.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define TEXT_BYTES_MAX (4 << 20) /* help, man page, tables */

struct sink {
        int fd;
        bool is_terminal;
        bool neutralise;       /* it is a terminal, and bytes from inside must not drive it */
        bool may_block;        /* not a regular file */
        struct terminal terminal;
        uint64_t deadline_usec; /* nobody waits for the reader after this; 0: no end */
        int cancel_fd;          /* nor once this is readable or a signal came; -1: none */
        struct buffer shown;    /* one piece, neutralised */
        struct buffer late;     /* what the reader did not take in time; sink_finish() writes it */
        int error;              /* the first failure; everything after it is dropped */
};

void sink_init(struct sink *s, int fd, bool raw);
void sink_done(struct sink *s);
#define _cleanup_sink_ _cleanup_(sink_done)

/* 0 or the first failure of this sink. */
int sink_write(struct sink *s, const void *bytes, size_t size);
/* One line of JSON: in pure ASCII on a terminal. */
int sink_write_json(struct sink *s, const json_t *json, size_t flags);
/* For who waits for other things, too, with a deadline that is over: the descriptor at which room is wanted for what was kept, or -1; and
 * writes as much of that as there is room for. */
int sink_waits_at(const struct sink *s);
int sink_catch_up(struct sink *s);
/* Writes what is left, for as long as it takes. */
int sink_finish(struct sink *s);

/* All of the text to standard output; an exit status. */
int output_text(const struct buffer *text);
int output_json(const json_t *json);

/* It is a terminal with colours, and the caller does not mind them (NO_COLOR). */
bool output_wants_colour(int fd);

/* "glovebox: text" on standard error; what could drive a terminal is shown, not sent. */
enum message_kind { MESSAGE_ERROR, MESSAGE_WARNING, MESSAGE_PLAIN };
void message_print(enum message_kind kind, const char *format, ...) _printf_(2, 3);

#endif
