/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes from inside a box, made safe to show on a terminal. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>

#define TERMINAL_SEQUENCE_MAX 48 /* the longest colour sequence that is let through */
#define TERMINAL_GROWTH_MAX 8    /* one byte becomes at most this many, in the worst case */
#define TERMINAL_SLACK_BYTES 128 /* and what was held back is added to that */

enum terminal_state { TERMINAL_TEXT, TERMINAL_CR, TERMINAL_ESCAPE, TERMINAL_CSI, TERMINAL_UTF8 };

struct terminal {
        bool colours;       /* let colour sequences through */
        bool one_line;      /* newlines are shown, too: for our own messages */
        enum terminal_state state;
        unsigned char held[TERMINAL_SEQUENCE_MAX]; /* what began a sequence that is not whole yet */
        size_t n_held;
        size_t n_needed; /* length of the UTF-8 sequence that has begun */
        bool coloured;   /* a colour was set since the last reset */
        bool in_line;    /* something was written since the last newline */
};

/* Adds what may be shown; pieces may be cut anywhere. 0, or what buffer_add() returned. */
int terminal_add(struct terminal *t, struct buffer *out, const void *bytes, size_t size);
/* The stream ended: adds what was held, and resets colours. */
int terminal_flush(struct terminal *t, struct buffer *out);

#endif
