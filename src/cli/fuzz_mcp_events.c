/* SPDX-License-Identifier: Apache-2.0
 *
 * Whatever comes: the cuts between pieces change nothing, what comes out is one line, and an id is fit for a header. */
#include "cli/mcp_events.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
        if (!condition)
                abort();
}

static int collect(void *data, const char *text, size_t size)
{
        require(size > 0 && !memchr(text, '\n', size) && !memchr(text, '\r', size));
        require(buffer_add(data, text, size) == 0 && buffer_add(data, "\n", 1) == 0);
        return 0;
}

static void feed(struct event_reader *r, struct buffer *out, const uint8_t *data, size_t size, size_t piece)
{
        buffer_init(out, 2 * size + 1);
        event_reader_init(r, size + 1);
        for (size_t i = 0; i < size; i += piece)
                require(event_reader_take(r, (const char *)data + i, MIN(piece, size - i), collect, out) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct event_reader whole, split;
        struct buffer all, pieces;

        feed(&whole, &all, data, size, size > 0 ? size : 1);
        feed(&split, &pieces, data, size, size > 0 ? 1 + data[0] % 7 : 1);
        require(all.size == pieces.size && (all.size == 0 || memcmp(all.data, pieces.data, all.size) == 0));
        require(strcmp(whole.id, split.id) == 0 && whole.retry_usec == split.retry_usec);
        for (const char *p = whole.id; *p; p++)
                require(*p > ' ' && *p < 0x7f);
        event_reader_done(&whole);
        event_reader_done(&split);
        buffer_done(&all);
        buffer_done(&pieces);
        return 0;
}
