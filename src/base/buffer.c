/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buffer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void buffer_init(struct buffer *b, size_t max)
{
        *b = (struct buffer){.max = max};
}

/* From this size on a secret buffer has pages of its own. The kernel moves them when it grows, so that it is never held
 * twice, and nothing of it stays behind. */
#define MAPPED_BYTES ((size_t)1 << 20)

static void release(struct buffer *b)
{
        if (b->mapped) {
                munmap(b->data, b->allocated);
                return;
        }
        if (b->secret && b->data)
                explicit_bzero(b->data, b->allocated);
        free(b->data);
}

void buffer_done(struct buffer *b)
{
        release(b);
        *b = (struct buffer){.max = b->max, .secret = b->secret};
}

static char *map(size_t size)
{
        void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        return p == MAP_FAILED ? NULL : p;
}

/* realloc() would leave what it had where it was. */
static char *grow_secret(struct buffer *b, size_t want)
{
        if (b->mapped) {
                void *moved = mremap(b->data, b->allocated, want, MREMAP_MAYMOVE);
                return moved == MAP_FAILED ? NULL : moved;
        }
        char *grown = want >= MAPPED_BYTES ? map(want) : malloc(want);
        if (!grown)
                return NULL;
        if (b->data)
                memcpy(grown, b->data, b->size);
        release(b);
        b->mapped = want >= MAPPED_BYTES;
        return grown;
}

int buffer_add(struct buffer *b, const void *data, size_t size)
{
        if (size > b->max - b->size)
                return -EFBIG;
        if (b->size + size + 1 > b->allocated) {
                size_t want = MAX(b->allocated * 2, b->size + size + 1);
                want = MAX(want, (size_t)256);
                char *grown = b->secret || b->mapped ? grow_secret(b, want) : realloc(b->data, want);
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
