/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines that were typed, kept from one time to the next in the caller's own state directory. Where that cannot
 * be had nothing is kept, and nobody is bothered. */
#ifndef CLI_HISTORY_FILE_H
#define CLI_HISTORY_FILE_H

#include <stddef.h>

struct history_file {
        int fd; /* -1: nothing is kept */
};

/* Calls each for the lines of before, oldest first. */
void history_file_open(struct history_file *h, void (*each)(void *data, const char *line), void *data);
/* Adds a line; one with a newline, a NUL or more than HISTORY_LINE_BYTES_MAX bytes is left out. */
void history_file_add(struct history_file *h, const char *line, size_t size);
void history_file_close(struct history_file *h);

#endif
