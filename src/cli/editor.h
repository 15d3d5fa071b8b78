/* SPDX-License-Identifier: Apache-2.0
 *
 * A line that is edited while it is typed, with a history. All of libedit is behind this, and no other verb than
 * repl calls it. */
#ifndef CLI_EDITOR_H
#define CLI_EDITOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct editor;

/* Whether a line is to be kept out of the file of the history: it has a secret in it. */
typedef bool editor_is_secret(void *data, const char *line, size_t size);

#if GLOVEBOX_LINE_EDITING

/* NULL when the terminal cannot do it, or is not in UTF-8. cancel_fd: readable when a signal came. */
struct editor *editor_new(FILE *terminal, int cancel_fd);
/* Takes NULL. */
void editor_free(struct editor *e);
/* As lines_read(). */
int editor_read(struct editor *e, const char *prompt, const char **ret, size_t *ret_size);
void editor_keep_out(struct editor *e, editor_is_secret *is_secret, void *data);

#else

static inline void editor_keep_out(struct editor *e, editor_is_secret *is_secret, void *data)
{
        (void)e;
        (void)is_secret;
        (void)data;
}

static inline struct editor *editor_new(FILE *terminal, int cancel_fd)
{
        (void)terminal;
        (void)cancel_fd;
        return NULL;
}

static inline void editor_free(struct editor *e)
{
        (void)e;
}

static inline int editor_read(struct editor *e, const char *prompt, const char **ret, size_t *ret_size)
{
        (void)e;
        (void)prompt;
        (void)ret;
        (void)ret_size;
        return 0;
}

#endif
#endif
