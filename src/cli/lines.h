/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of standard input: typed at a prompt, with editing and history where that can be had, or from a pipe. */
#ifndef CLI_LINES_H
#define CLI_LINES_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct editor;

struct lines {
        int cancel_fd;         /* readable: a signal came */
        FILE *terminal;        /* where to; NULL without one */
        struct editor *editor; /* NULL: the terminal's own editing, or a pipe */
        struct buffer input;   /* what was read of a pipe */
        size_t at;             /* how much of that was given */
};

/* ask_fd is the terminal for prompts; -1: nobody is asked. */
void lines_init(struct lines *l, int ask_fd, int cancel_fd);
void lines_done(struct lines *l);

/* The next line, without its newline and with a NUL behind it; valid until the next call. 1, 0 at the end, -EINTR
 * when a signal came first, or another negative errno: -EFBIG for a line that is longer than any code. */
int lines_read(struct lines *l, const char *prompt, const char **ret, size_t *ret_size);

#endif
