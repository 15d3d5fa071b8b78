/* SPDX-License-Identifier: Apache-2.0
 *
 * All starts have three bytes at least. Those are hashed into a table that fits into the nearest cache, and has for each which kinds of byte may be the fourth: a
 * byte of text costs one look there. Behind it are the first eight bytes of each start. */
#include "guard/scrub_starts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(SHAPE_START_MIN == 3, "three bytes are hashed");

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "bytes of a word are in the order of the text");

/* Of the three lowest bytes: what is above them is shifted out by the factor. */
static unsigned hash(uint32_t bytes)
{
        return bytes * (0x9e3779u << 8) >> (32 - START_HASH_BITS);
}

static unsigned hash_of(const unsigned char *bytes)
{
        return hash((uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16);
}

static uint64_t eight_at(const unsigned char *bytes)
{
        uint64_t value;

        memcpy(&value, bytes, sizeof(value));
        return value;
}

static uint32_t four_at(const unsigned char *bytes)
{
        uint32_t value;

        memcpy(&value, bytes, sizeof(value));
        return value;
}

/* Bytes are of eight kinds, by chance. */
#define KIND(b) (1u << ((b) * 0x9du >> 3 & 7))
#define KINDS_4(b) KIND(b), KIND((b) + 1), KIND((b) + 2), KIND((b) + 3)
#define KINDS_16(b) KINDS_4(b), KINDS_4((b) + 4), KINDS_4((b) + 8), KINDS_4((b) + 12)
#define KINDS_64(b) KINDS_16(b), KINDS_16((b) + 16), KINDS_16((b) + 32), KINDS_16((b) + 48)
static const uint8_t kinds[256] = {KINDS_64(0), KINDS_64(64), KINDS_64(128), KINDS_64(192)};

static unsigned look(const uint8_t *known, const unsigned char *text)
{
        return known[hash(four_at(text))] & kinds[text[3]];
}

static bool has_part(const struct rules_index *x, const unsigned char *text, size_t size)
{
        unsigned pair = (unsigned)text[0] << 8 | (size > 1 ? text[1] : 0);

        return size > 1 ? x->pairs[pair / 64] >> pair % 64 & 1 : x->first[text[0]];
}

/* Whether the first eight bytes are those of a start. */
static bool is_one(const struct rules_index *x, const unsigned char *text)
{
        uint64_t value = eight_at(text);
        const struct start_row *row = &x->rows[x->row_of[hash((uint32_t)value)]];

        for (uint32_t own = row->hash; row->hash == own; row++)
                if ((value & row->mask) == row->first)
                        return true;
        return false;
}

size_t starts_next(const struct rules *r, bool strict, const unsigned char *text, size_t size, bool final, size_t at)
{
        const struct rules_index *x = r->index;
        const uint8_t *known = x->known[strict];

        for (; at + 11 <= size; at += 4) {
                unsigned a = look(known, text + at), b = look(known, text + at + 1), c = look(known, text + at + 2), d = look(known, text + at + 3);
                if (!(a | b | c | d))
                        continue;
                if (a && is_one(x, text + at))
                        return at;
                if (b && is_one(x, text + at + 1))
                        return at + 1;
                if (c && is_one(x, text + at + 2))
                        return at + 2;
                if (d && is_one(x, text + at + 3))
                        return at + 3;
        }
        for (; at + SHAPE_START_MIN <= size; at++)
                if (known[hash_of(text + at)])
                        return at;
        for (; !final && at < size; at++)
                if (has_part(x, text + at, size - at))
                        return at;
        return size;
}

const struct start_row *starts_at(const struct rules *r, const unsigned char *text, size_t size)
{
        return &r->index->rows[r->index->row_of[hash_of(text)]];
}

static int compare_rows(const void *a, const void *b)
{
        const struct start_row *x = a, *y = b;

        return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash) : (x->start > y->start) - (x->start < y->start);
}

int starts_index(struct rules *r)
{
        struct rules_index *x = r->index;

        x->rows = calloc(r->n_starts + 1, sizeof(*x->rows));
        if (!x->rows)
                return -ENOMEM;
        for (size_t i = 0; i < r->n_starts; i++) {
                const unsigned char *text = (const unsigned char *)rules_text(r, r->starts[i].text);
                unsigned own = hash_of(text), pair = (unsigned)text[0] << 8 | text[1];
                x->rows[i] = (struct start_row){.hash = own, .start = (uint32_t)i};
                memcpy(&x->rows[i].first, text, MIN(r->starts[i].size, 8u));
                memset(&x->rows[i].mask, 0xff, MIN(r->starts[i].size, 8u));
                for (unsigned k = r->shapes[r->starts[i].rule].strict ? 1 : 0; k < 2; k++)
                        x->known[k][own] |= r->starts[i].size == SHAPE_START_MIN ? 0xff : kinds[text[SHAPE_START_MIN]];
                x->pairs[pair / 64] |= (uint64_t)1 << pair % 64;
                x->first[text[0]] = true;
        }
        qsort(x->rows, r->n_starts, sizeof(*x->rows), compare_rows);
        x->rows[r->n_starts].hash = UINT32_MAX; /* none has that */
        for (size_t i = r->n_starts; i > 0; i--)
                x->row_of[x->rows[i - 1].hash] = (uint16_t)(i - 1);
        return 0;
}
