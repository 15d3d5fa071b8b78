/* SPDX-License-Identifier: Apache-2.0
 *
 * A growing byte buffer that is born with its cap. */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include "base/macro.h"

#include <stdbool.h>
#include <stddef.h>

struct buffer {
        char *data; /* always NUL-terminated once something was added */
        size_t size, allocated, max;
        bool secret; /* set after buffer_init(): nothing of it stays in memory that was freed */
        bool mapped; /* a large secret one: its memory is not malloc()'s */
};

void buffer_init(struct buffer *b, size_t max);
void buffer_done(struct buffer *b);
#define _cleanup_buffer_ _cleanup_(buffer_done)

/* 0, -ENOMEM, or -EFBIG when the cap would be passed; nothing is added then. */
int buffer_add(struct buffer *b, const void *data, size_t size);
int buffer_add_string(struct buffer *b, const char *text);
int buffer_printf(struct buffer *b, const char *format, ...) _printf_(2, 3);

/* Adds what still fits; returns how much that was, or -ENOMEM. */
long buffer_add_some(struct buffer *b, const void *data, size_t size);

#endif
