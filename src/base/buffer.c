/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buffer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buffer_init(struct buffer *b, size_t max)
{
        *b = (struct buffer){.max = max};
}

void buffer_done(struct buffer *b)
{
        if (b->secret && b->data)
                explicit_bzero(b->data, b->allocated);
        free(b->data);
        *b = (struct buffer){.max = b->max, .secret = b->secret};
}

/* From this size on the server's malloc() has pages of its own for a block, and the kernel moves them. */
#define MOVED_BYTES ((size_t)1 << 20)

/* realloc() would leave what it had where it was. Of a large one two copies would be held. */
static char *grow_secret(struct buffer *b, size_t want)
{
        if (b->allocated >= MOVED_BYTES)
                return realloc(b->data, want);
        char *grown = malloc(want);

        if (grown && b->data) {
                memcpy(grown, b->data, b->size);
                explicit_bzero(b->data, b->allocated);
                free(b->data);
        }
        return grown;
}

int buffer_add(struct buffer *b, const void *data, size_t size)
{
        if (size > b->max - b->size)
                return -EFBIG;
        if (b->size + size + 1 > b->allocated) {
                size_t want = MAX(b->allocated * 2, b->size + size + 1);
                want = MAX(want, (size_t)256);
                char *grown = b->secret ? grow_secret(b, want) : realloc(b->data, want);
                if (!grown)
                        return -ENOMEM;
                b->data = grown;
                b->allocated = want;
        }
        if (size > 0)
                memcpy(b->data + b->size, data, size);
        b->size += size;
        b->data[b->size] = '\0';
        return 0;
}

int buffer_add_string(struct buffer *b, const char *text)
{
        return buffer_add(b, text, strlen(text));
}

int buffer_printf(struct buffer *b, const char *format, ...)
{
        _cleanup_free_ char *text = NULL;

        va_list ap;
        va_start(ap, format);
        int n = vasprintf(&text, format, ap);
        va_end(ap);
        if (n < 0) {
                text = NULL;
                return -ENOMEM;
        }
        return buffer_add(b, text, (size_t)n);
}

long buffer_add_some(struct buffer *b, const void *data, size_t size)
{
        size_t fits = MIN(size, b->max - b->size);

        int r = buffer_add(b, data, fits);
        return r < 0 ? r : (long)fits;
}
