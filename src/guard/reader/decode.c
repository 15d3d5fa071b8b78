/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/reader/state.h"

#include <string.h>

/* Room for what a text becomes; it is never longer. */
static char *prepare(struct reader *r, const struct value *v)
{
        return value_is_exact(v) && v->size > 0 && reader_spend(r, v->size) ? reader_allocate(r, v->size) : NULL;
}

static bool finish(struct reader *r, struct value *v, char *start, char *out, bool good)
{
        r->top = good ? out : start;
        if (!good)
                return false;
        struct place place = v->place;
        *v = value_text(start, (size_t)(out - start), place);
        return true;
}

static int base64_digit(char c)
{
        if (c >= 'A' && c <= 'Z')
                return c - 'A';
        if (c >= 'a' && c <= 'z')
                return c - 'a' + 26;
        if (c >= '0' && c <= '9')
                return c - '0' + 52;
        return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

static int base32_digit(char c)
{
        if (c >= 'A' && c <= 'Z')
                return c - 'A';
        if (c >= 'a' && c <= 'z')
                return c - 'a';
        return c >= '2' && c <= '7' ? c - '2' + 26 : -1;
}

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        c |= 0x20;
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Like Python's own: what is no digit is passed over. */
static bool decode_bits(struct reader *r, struct value *v, int (*digit)(char), unsigned width)
{
        char *start = prepare(r, v), *out = start;
        uint32_t bits = 0;
        unsigned n_bits = 0;

        if (!start)
                return false;
        for (uint32_t i = 0; i < v->size && v->text[i] != '='; i++) {
                int d = digit(v->text[i]);
                if (d < 0)
                        continue;
                bits = bits << width | (uint32_t)d;
                n_bits += width;
                if (n_bits >= 8) {
                        n_bits -= 8;
                        *out++ = (char)(bits >> n_bits & 0xff);
                }
        }
        return finish(r, v, start, out, out > start);
}

bool decode_base64(struct reader *r, struct value *v)
{
        return decode_bits(r, v, base64_digit, 6);
}

bool decode_base32(struct reader *r, struct value *v)
{
        return decode_bits(r, v, base32_digit, 5);
}

bool decode_hex(struct reader *r, struct value *v)
{
        return decode_bits(r, v, hex_digit, 4);
}

bool decode_percent(struct reader *r, struct value *v)
{
        char *start = prepare(r, v), *out = start;

        if (!start)
                return false;
        for (uint32_t i = 0; i < v->size; i++) {
                int high = v->text[i] == '%' && v->size - i > 2 ? hex_digit(v->text[i + 1]) : -1;
                int low = high >= 0 ? hex_digit(v->text[i + 2]) : -1;
                *out++ = low >= 0 ? (char)(high << 4 | low) : v->text[i];
                i += low >= 0 ? 2 : 0;
        }
        return finish(r, v, start, out, true);
}

bool decode_rot13(struct reader *r, struct value *v)
{
        char *start = prepare(r, v), *out = start;

        if (!start)
                return false;
        for (uint32_t i = 0; i < v->size; i++) {
                char c = v->text[i], low = c | 0x20;
                *out++ = low >= 'a' && low <= 'm' ? (char)(c + 13) : low >= 'n' && low <= 'z' ? (char)(c - 13) : c;
        }
        return finish(r, v, start, out, true);
}
