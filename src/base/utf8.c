/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <string.h>

enum sequence_state { SEQUENCE_VALID, SEQUENCE_INVALID, SEQUENCE_INCOMPLETE };

/* The table of well-formed sequences: by first byte, the length and the range of the second
 * byte. The ranges leave out overlong forms, surrogates and what is above U+10FFFF; all later
 * bytes are 80..BF. */
struct lead {
        unsigned char first, last;
        unsigned char length;
        unsigned char second_min, second_max;
};

static const struct lead leads[] = {
        {0x00, 0x7f, 1, 0x00, 0x00}, {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
        {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
        {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

static const struct lead *lead_of(unsigned char byte)
{
        for (size_t i = 0; i < ARRAY_SIZE(leads); i++)
                if (byte >= leads[i].first && byte <= leads[i].last)
                        return &leads[i];
        return NULL;
}

static bool is_continuation(unsigned char byte)
{
        return (byte & 0xc0) == 0x80;
}

/* Looks at the sequence at p (size > 0) and gives its length: when it is not whole, that of the
 * longest piece that could have begun one, and at least 1. */
static enum sequence_state sequence_at(const unsigned char *p, size_t size, size_t *ret_length)
{
        const struct lead *lead = lead_of(p[0]);

        *ret_length = 1;
        if (!lead)
                return SEQUENCE_INVALID;
        for (size_t i = 1; i < lead->length; i++) {
                if (i == size)
                        return SEQUENCE_INCOMPLETE;
                if (i == 1 ? p[i] < lead->second_min || p[i] > lead->second_max : !is_continuation(p[i]))
                        return SEQUENCE_INVALID;
                *ret_length = i + 1;
        }
        return SEQUENCE_VALID;
}

size_t utf8_decode(const char *text, size_t size, uint32_t *ret)
{
        const unsigned char *p = (const unsigned char *)text;
        size_t length;

        if (size == 0 || sequence_at(p, size, &length) != SEQUENCE_VALID)
                return 0;
        uint32_t c = length == 1 ? p[0] : p[0] & (0x7fu >> length);
        for (size_t i = 1; i < length; i++)
                c = c << 6 | (p[i] & 0x3f);
        *ret = c;
        return length;
}

/* How many bytes at p are valid UTF-8. */
static size_t valid_prefix(const unsigned char *p, size_t size)
{
        size_t i = 0;

        while (i < size) {
                uint64_t word;
                /* Output is mostly ASCII: eight bytes at a time. */
                if (size - i >= sizeof(word)) {
                        memcpy(&word, p + i, sizeof(word));
                        if ((word & 0x8080808080808080ULL) == 0) {
                                i += sizeof(word);
                                continue;
                        }
                }
                size_t length;
                if (sequence_at(p + i, size - i, &length) != SEQUENCE_VALID)
                        break;
                i += length;
        }
        return i;
}

bool utf8_is_valid(const void *bytes, size_t size)
{
        return valid_prefix(bytes, size) == size;
}

size_t utf8_incomplete_tail(const void *bytes, size_t size)
{
        const unsigned char *p = bytes;

        for (size_t n = 1; n < UTF8_SEQUENCE_MAX && n <= size; n++) {
                const unsigned char *start = p + size - n;
                if (is_continuation(*start))
                        continue;
                size_t length;
                return sequence_at(start, n, &length) == SEQUENCE_INCOMPLETE ? n : 0;
        }
        return 0;
}

int utf8_replace(struct buffer *out, const void *bytes, size_t size)
{
        const unsigned char *p = bytes;

        while (size > 0) {
                size_t good = valid_prefix(p, size);
                int r = buffer_add(out, p, good);
                if (r < 0)
                        return r;
                p += good;
                size -= good;
                if (size == 0)
                        break;

                size_t bad;
                sequence_at(p, size, &bad);
                r = buffer_add_string(out, "\xef\xbf\xbd");
                if (r < 0)
                        return r;
                p += bad;
                size -= bad;
        }
        return 0;
}

/* The tail of held + bytes: when the new bytes are few, it may begin in what was held. */
static size_t tail_after(const struct utf8_splitter *s, const unsigned char *bytes, size_t size)
{
        if (size >= UTF8_SEQUENCE_MAX)
                return utf8_incomplete_tail(bytes, size);

        unsigned char joined[2 * UTF8_SEQUENCE_MAX];
        memcpy(joined, s->held, s->n_held);
        if (size > 0)
                memcpy(joined + s->n_held, bytes, size);
        return utf8_incomplete_tail(joined, s->n_held + size);
}

int utf8_splitter_add(struct utf8_splitter *s, struct buffer *out, const void *bytes, size_t size)
{
        const unsigned char *p = bytes;
        size_t tail = tail_after(s, p, size);

        if (tail > size) { /* what was held is still not complete with these few bytes */
                if (size > 0)
                        memcpy(s->held + s->n_held, p, size);
                s->n_held += size;
                return 0;
        }

        size_t before = out->size;
        int r = buffer_add(out, s->held, s->n_held);
        if (r < 0)
                return r;
        r = buffer_add(out, p, size - tail);
        if (r < 0) {
                out->size = before;
                out->data[before] = '\0';
                return r;
        }
        if (tail > 0)
                memcpy(s->held, p + size - tail, tail);
        s->n_held = tail;
        return 0;
}

int utf8_splitter_flush(struct utf8_splitter *s, struct buffer *out)
{
        int r = buffer_add(out, s->held, s->n_held);
        if (r < 0)
                return r;
        s->n_held = 0;
        return 0;
}
