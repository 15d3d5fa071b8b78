/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/reader/state.h"

#include <string.h>

size_t utf8_put(uint32_t c, char out[4])
{
        if (c < 0x80) {
                out[0] = (char)c;
                return 1;
        }
        if (c < 0x800) {
                out[0] = (char)(0xc0 | c >> 6);
                out[1] = (char)(0x80 | (c & 0x3f));
                return 2;
        }
        if (c < 0x10000) {
                out[0] = (char)(0xe0 | c >> 12);
                out[1] = (char)(0x80 | (c >> 6 & 0x3f));
                out[2] = (char)(0x80 | (c & 0x3f));
                return 3;
        }
        out[0] = (char)(0xf0 | (c >> 18 & 7));
        out[1] = (char)(0x80 | (c >> 12 & 0x3f));
        out[2] = (char)(0x80 | (c >> 6 & 0x3f));
        out[3] = (char)(0x80 | (c & 0x3f));
        return 4;
}

static int digit_of(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        c |= 0x20;
        return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

/* Digits at p; how many were there. */
static size_t read_digits(const char *p, const char *end, size_t most, int radix, uint32_t *ret)
{
        size_t n = 0;

        *ret = 0;
        while (n < most && p + n < end && digit_of(p[n]) < radix) {
                *ret = *ret * (uint32_t)radix + (uint32_t)digit_of(p[n]);
                n++;
        }
        return n;
}

struct decoder {
        const char *at, *end;
        char *out;
        bool bytes, holes;
};

static void put_code(struct decoder *d, uint32_t c)
{
        if (d->bytes && c < 256)
                *d->out++ = (char)c;
        else
                d->out += utf8_put(c > 0x10ffff ? 0xfffd : c, d->out);
}

/* \x41 \u0041 \U00000041; what has too few digits stays as it is. */
static void decode_code(struct decoder *d, char kind)
{
        size_t most = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
        uint32_t c;

        if ((kind != 'x' && d->bytes) || read_digits(d->at, d->end, most, 16, &c) < most) {
                *d->out++ = '\\';
                *d->out++ = kind;
                return;
        }
        d->at += most;
        put_code(d, c);
}

static void decode_named(struct decoder *d)
{
        const char *close = d->at < d->end && *d->at == '{' ? memchr(d->at, '}', (size_t)(d->end - d->at)) : NULL;

        if (d->bytes || !close) {
                memcpy(d->out, "\\N", 2);
                d->out += 2;
                return;
        }
        d->at = close + 1;
        memcpy(d->out, "{}", 2);
        d->out += 2;
        d->holes = true;
}

/* Behind a backslash. Never writes more than it reads. */
static void decode_escape(struct decoder *d)
{
        static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
        char c = *d->at++;
        const char *simple = c ? strchr(from, c) : NULL;

        if (simple) {
                *d->out++ = to[simple - from];
        } else if (c == '\n' || c == '\r') {
                if (c == '\r' && d->at < d->end && *d->at == '\n')
                        d->at++;
        } else if (c >= '0' && c <= '7') {
                uint32_t code;
                d->at--;
                d->at += read_digits(d->at, d->end, 3, 8, &code);
                put_code(d, d->bytes ? code & 0xff : code);
        } else if (c == 'x' || c == 'u' || c == 'U') {
                decode_code(d, c);
        } else if (c == 'N') {
                decode_named(d);
        } else {
                *d->out++ = '\\';
                *d->out++ = c;
        }
}

struct value literal_string(struct reader *r, const struct token *t, const char *text, size_t size)
{
        struct value v = value_text(text, size, t->place);

        v.flags = VALUE_LONE;
        if (t->raw || size == 0 || !memchr(text, '\\', size))
                return v;
        char *out = reader_allocate(r, size);
        if (!out)
                return v;
        struct decoder d = {.at = text, .end = text + size, .out = out, .bytes = t->bytes};
        while (d.at < d.end) {
                char c = *d.at++;
                if (c == '\\' && d.at < d.end)
                        decode_escape(&d);
                else
                        *d.out++ = c;
        }
        r->top = d.out;
        v.text = out;
        v.size = (uint32_t)(d.out - out);
        if (d.holes)
                v.flags |= VALUE_HOLES;
        return v;
}

struct value literal_number(const struct token *t)
{
        int radix = 10;
        int64_t number = 0;
        size_t i = 0;

        if (t->size > 2 && t->text[0] == '0' && digit_of(t->text[1]) > 9) {
                char c = (char)(t->text[1] | 0x20);
                radix = c == 'x' ? 16 : c == 'o' ? 8 : 2;
                i = 2;
        }
        for (; i < t->size; i++) {
                if (t->text[i] == '_')
                        continue;
                int digit = digit_of(t->text[i]);
                if (digit >= radix || __builtin_mul_overflow(number, radix, &number) || __builtin_add_overflow(number, digit, &number))
                        return value_unknown(t->place);
        }
        return value_number(number, t->place);
}

/* ---- names ---- */

/* The character at p and how many bytes it takes; 0: none that is well formed. */
static uint32_t code_at(const unsigned char *p, size_t size, size_t *ret_size)
{
        size_t n = p[0] < 0xc0 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
        uint32_t c = n == 1 ? p[0] : p[0] & (0x7fu >> n);

        *ret_size = 1;
        if (n > size)
                return 0;
        for (size_t i = 1; i < n; i++) {
                if ((p[i] & 0xc0) != 0x80)
                        return 0;
                c = c << 6 | (p[i] & 0x3f);
        }
        *ret_size = n;
        return c;
}

void literal_name(struct reader *r, const char **text, size_t *size)
{
        const unsigned char *p = (const unsigned char *)*text;
        size_t i = 0;

        while (i < *size && p[i] < 0x80)
                i++;
        if (i == *size)
                return;
        char *start = reader_allocate(r, *size), *out = start;
        if (!start)
                return;
        for (i = 0; i < *size;) {
                size_t n;
                char c = letter_of(code_at(p + i, *size - i, &n));
                if (c)
                        *out++ = c;
                else
                        for (size_t k = 0; k < n; k++)
                                *out++ = (char)p[i + k];
                i += n;
        }
        r->top = out;
        *text = start;
        *size = (size_t)(out - start);
}
