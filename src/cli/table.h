/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables for people: columns as wide as they need to be, and no wider than the terminal. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>

#define TABLE_COLUMNS_MAX 16

struct table_column {
        const char *title;
        bool right;   /* numbers */
        unsigned min; /* where there is no room it may become as narrow as this; 0: never */
        unsigned drop; /* and where that does not help it is left out, the highest of these first; 0: never */
};

struct table {
        const struct table_column *columns;
        size_t n_columns;
        char **cells; /* row after row */
        size_t n_rows, allocated;
        bool failed;  /* out of memory: nothing more is added */
};

void table_init(struct table *t, const struct table_column *columns, size_t n_columns);
void table_done(struct table *t);
#define _cleanup_table_ _cleanup_(table_done)
/* Forgets the rows. */
void table_clear(struct table *t);

/* One row; as many cells as there are columns, NULL is "-". What could drive a terminal or break a line is shown, not sent. */
void table_add(struct table *t, const char *const cells[]);

/* Rows from `from` on, at most max of them. width 0: as wide as it needs to be. bold: the titles stand out. 0, or -ENOMEM. */
int table_write(const struct table *t, size_t from, size_t max, unsigned width, bool bold, struct buffer *out);

/* Of a terminal; 0: it is none. rows may be NULL. */
unsigned terminal_size(int fd, unsigned *ret_rows);

/* The whole of it to standard output, fitted to that; an exit status. */
int table_print(const struct table *t);

/* How many places a text takes. */
unsigned text_width(const char *text);

#endif
