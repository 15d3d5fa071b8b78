/* SPDX-License-Identifier: Apache-2.0
 *
 * Whatever goes in: no control reaches the terminal but newline, tab and whole colours, and the
 * cuts between pieces change nothing. */
#include "cli/terminal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
        if (!condition)
                abort();
}

static void feed(struct buffer *out, const uint8_t *data, size_t size, size_t piece)
{
        struct terminal t = {.colours = true};

        buffer_init(out, size * TERMINAL_GROWTH_MAX + TERMINAL_SLACK_BYTES);
        for (size_t i = 0; i < size; i += piece)
                require(terminal_add(&t, out, data + i, MIN(piece, size - i)) == 0);
        require(terminal_flush(&t, out) == 0);
}

/* The length of the colour sequence at p, or 0. */
static size_t colour_length(const char *p)
{
        size_t n = strspn(p + 1, "[") == 1 ? 2 + strspn(p + 2, "0123456789;:") : 0;

        return n > 0 && p[n] == 'm' ? n + 1 : 0;
}

static void check_safe(const struct buffer *out)
{
        for (size_t i = 0; i < out->size; i++) {
                unsigned char c = (unsigned char)out->data[i], next = (unsigned char)out->data[i + 1];
                if (c == 0x1b) {
                        size_t n = colour_length(out->data + i);
                        require(n > 0);
                        i += n - 1;
                        continue;
                }
                require(c == '\n' || c == '\t' || (c >= 0x20 && c != 0x7f));
                require(!(c == 0xc2 && next >= 0x80 && next < 0xa0));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const size_t pieces[] = {1, 2, 3, 7};
        _cleanup_buffer_ struct buffer whole = {0};

        if (size == 0)
                return 0;
        feed(&whole, data, size, size);
        check_safe(&whole);
        for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
                _cleanup_buffer_ struct buffer cut;
                feed(&cut, data, size, pieces[i]);
                require(cut.size == whole.size && (cut.size == 0 || memcmp(cut.data, whole.data, cut.size) == 0));
        }
        return 0;
}
