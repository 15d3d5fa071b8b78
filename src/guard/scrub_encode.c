/* SPDX-License-Identifier: Apache-2.0
 *
 * How a secret may look in text: what the usual libraries and shells make of it. A form that is the secret itself comes again; who collects them keeps one. */
#include "base/utf8.h"
#include "guard/scrub.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char digits_lower[] = "0123456789abcdef", digits_upper[] = "0123456789ABCDEF";

/* The secret, and where its forms go. */
struct forms {
        const unsigned char *bytes;
        size_t size;
        bool is_text; /* UTF-8 */
        struct buffer form;
        int (*put)(void *data, const char *name, const void *bytes, size_t n);
        void *data;
};

/* A form grows byte by byte, mostly where there is room. */
static int form_add(struct buffer *b, const void *bytes, size_t n)
{
        if (n >= b->allocated - b->size)
                return buffer_add(b, bytes, n);
        memcpy(b->data + b->size, bytes, n);
        b->size += n;
        return 0;
}

static int form_add_string(struct buffer *b, const char *text)
{
        return form_add(b, text, strlen(text));
}

static int put_form(struct forms *f, const char *name, int made)
{
        int r = made;

        if (r == 0 && f->form.size >= SCRUB_SECRET_MIN)
                r = f->put(f->data, name, f->form.data, f->form.size);
        f->form.size = 0;
        return r;
}

static int add_hex(struct buffer *b, const char *before, unsigned value, int n_digits, const char *digits)
{
        char text[16];
        size_t used = 0;

        while (before[used]) {
                text[used] = before[used];
                used++;
        }
        for (int i = n_digits - 1; i >= 0; i--)
                text[used++] = digits[value >> (4 * i) & 15];
        return form_add(b, text, used);
}

/* ---- base64 ---- */

static const char base64_standard[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char base64_url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

#define BASE64_LINE 76 /* characters, where base64(1) and MIME break lines */

/* Byte i of the secret with `before` bytes in front of it. */
static unsigned byte_at(const struct forms *f, size_t before, size_t i)
{
        return i < before || i - before >= f->size ? 0 : f->bytes[i - before];
}

/* Six bits of that, from bit 6 * i on. */
static unsigned base64_bits(const struct forms *f, size_t before, size_t i)
{
        size_t at = 6 * i / 8;

        return (byte_at(f, before, at) << 8 | byte_at(f, before, at + 1)) >> (10 - 6 * i % 8) & 63;
}

/* Only the characters that hold nothing but bits of the secret: what stands around it may be anything. */
static int add_base64(struct forms *f, size_t before, const char *alphabet, const char *line_end)
{
        int r = 0;

        for (size_t i = (8 * before + 5) / 6; r == 0 && i < 8 * (before + f->size) / 6; i++) {
                if (line_end && i > 0 && i % BASE64_LINE == 0)
                        r = form_add_string(&f->form, line_end);
                if (r == 0)
                        r = form_add(&f->form, &alphabet[base64_bits(f, before, i)], 1);
        }
        return r;
}

static int base64_forms(struct forms *f)
{
        int r = 0;

        for (size_t before = 0; r == 0 && before < 3; before++) {
                r = put_form(f, "base64", add_base64(f, before, base64_standard, NULL));
                if (r == 0)
                        r = put_form(f, "base64url", add_base64(f, before, base64_url, NULL));
        }
        /* In lines, as base64(1) prints a secret that is all there is. */
        if (r == 0)
                r = put_form(f, "base64 in lines", add_base64(f, 0, base64_standard, "\n"));
        return r < 0 ? r : put_form(f, "base64 in lines", add_base64(f, 0, base64_standard, "\r\n"));
}

/* ---- hexadecimal, and one escape for every byte ---- */

/* between: `before` stands only between two. */
static int add_each(struct forms *f, const char *before, bool between, const char *digits)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < f->size; i++)
                r = add_hex(&f->form, between && i == 0 ? "" : before, f->bytes[i], 2, digits);
        return r;
}

static int hex_forms(struct forms *f)
{
        static const struct {
                const char *name, *before;
                bool between;
        } rows[] = {{"hex", ""}, {"percent", "%"}, {"escaped bytes", "\\x"}, {"hex with colons", ":", true}, {"hex with spaces", " ", true}};
        int r = 0;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rows); i++) {
                r = put_form(f, rows[i].name, add_each(f, rows[i].before, rows[i].between, digits_lower));
                if (r == 0)
                        r = put_form(f, rows[i].name, add_each(f, rows[i].before, rows[i].between, digits_upper));
        }
        return r;
}

/* ---- percent ---- */

static bool is_plain(unsigned char c)
{
        return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static int add_percent(struct forms *f, const char *safe, bool plus, const char *digits)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < f->size; i++) {
                unsigned char c = f->bytes[i];
                if (plus && c == ' ')
                        r = form_add(&f->form, "+", 1);
                else if (is_plain(c) || (c && strchr(safe, c)))
                        r = form_add(&f->form, &c, 1);
                else
                        r = add_hex(&f->form, "%", c, 2, digits);
        }
        return r;
}

static int percent_forms(struct forms *f)
{
        static const struct {
                const char *safe;
                bool plus;
        } rows[] = {{"-_.!~*'()", false}, {"_.-~/", false}, {"_.-~", false}, {"_.-~", true}, {"*-._", true}};
        int r = 0;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rows); i++) {
                r = put_form(f, "percent", add_percent(f, rows[i].safe, rows[i].plus, digits_upper));
                if (r == 0)
                        r = put_form(f, "percent", add_percent(f, rows[i].safe, rows[i].plus, digits_lower));
        }
        return r;
}

/* ---- escapes of strings ---- */

enum escape {
        ESCAPE_JSON = 1,         /* \" and the control characters */
        ESCAPE_SLASH = 2,        /* \/ */
        ESCAPE_ASCII = 4,        /* \uXXXX for what is not ASCII */
        ESCAPE_HTML = 8,         /* \u003c and its kin, as Go does */
        ESCAPE_ALL = 16,         /* \uXXXX for everything */
        ESCAPE_PYTHON = 32,      /* repr(): the quote, \\, \n, \xHH */
        ESCAPE_PYTHON_ASCII = 64, /* ascii() */
        ESCAPE_BYTES = 128,      /* repr() of bytes */
        ESCAPE_DOUBLE = 256,     /* the quote is " */
};

static int add_utf16(struct buffer *b, uint32_t c, const char *digits)
{
        if (c < 0x10000)
                return add_hex(b, "\\u", c, 4, digits);
        int r = add_hex(b, "\\u", 0xd800 + ((c - 0x10000) >> 10), 4, digits);
        return r < 0 ? r : add_hex(b, "\\u", 0xdc00 + (c & 0x3ff), 4, digits);
}

/* Python's: \xHH, \uXXXX or \UXXXXXXXX. */
static int add_python(struct buffer *b, uint32_t c)
{
        return c < 0x100 ? add_hex(b, "\\x", c, 2, digits_lower)
                         : c < 0x10000 ? add_hex(b, "\\u", c, 4, digits_lower) : add_hex(b, "\\U", c, 8, digits_lower);
}

/* One that has a letter of its own: "\n". 0 when it has none. */
static char short_escape(uint32_t c, unsigned how)
{
        static const char json[] = "\bb\ff\nn\rr\tt", python[] = "\nn\rr\tt";
        const char *list = how & ESCAPE_JSON ? json : python;

        for (; *list; list += 2)
                if ((unsigned char)*list == c)
                        return list[1];
        if (c == '\\' || (c == '"' && how & (ESCAPE_JSON | ESCAPE_DOUBLE)) || (c == '\'' && !(how & (ESCAPE_JSON | ESCAPE_DOUBLE))))
                return (char)c;
        return c == '/' && how & ESCAPE_SLASH ? '/' : 0;
}

static int add_escaped(struct buffer *b, uint32_t c, const char *raw, size_t length, unsigned how, const char *digits)
{
        char letter = short_escape(c, how), pair[2] = {'\\', letter};

        if (how & ESCAPE_ALL)
                return add_utf16(b, c, digits);
        if (letter)
                return form_add(b, pair, 2);
        if (how & ESCAPE_JSON && (c < 0x20 || (how & ESCAPE_ASCII && c > 0x7e) || (how & ESCAPE_HTML && c && c < 0x80 && strchr("<>&", (int)c))))
                return add_utf16(b, c, digits);
        if (how & (ESCAPE_PYTHON | ESCAPE_PYTHON_ASCII | ESCAPE_BYTES) && (c < 0x20 || c == 0x7f))
                return add_hex(b, "\\x", c, 2, digits_lower);
        if (how & (ESCAPE_PYTHON_ASCII | ESCAPE_BYTES) && c > 0x7f)
                return add_python(b, c);
        return form_add(b, raw, length);
}

static int add_string(struct forms *f, unsigned how, const char *digits)
{
        const char *at = (const char *)f->bytes, *end = at + f->size;
        int r = 0;

        while (r == 0 && at < end) {
                uint32_t c = (unsigned char)*at;
                size_t length = 1;
                if (!(how & ESCAPE_BYTES) && f->is_text)
                        length = utf8_decode(at, (size_t)(end - at), &c);
                r = add_escaped(&f->form, c, at, length, how, digits);
                at += length;
        }
        return r;
}

static int string_forms(struct forms *f)
{
        static const struct {
                const char *name;
                unsigned how;
        } rows[] = {
                {"JSON", ESCAPE_JSON},
                {"JSON", ESCAPE_JSON | ESCAPE_SLASH},
                {"JSON", ESCAPE_JSON | ESCAPE_ASCII},
                {"JSON", ESCAPE_JSON | ESCAPE_ASCII | ESCAPE_SLASH},
                {"JSON", ESCAPE_JSON | ESCAPE_HTML},
                {"JSON, all escaped", ESCAPE_ALL},
                {"Python", ESCAPE_PYTHON},
                {"Python", ESCAPE_PYTHON | ESCAPE_DOUBLE},
                {"Python", ESCAPE_PYTHON_ASCII},
                {"Python", ESCAPE_PYTHON_ASCII | ESCAPE_DOUBLE},
                {"Python bytes", ESCAPE_BYTES},
                {"Python bytes", ESCAPE_BYTES | ESCAPE_DOUBLE},
        };
        int r = 0;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rows); i++) {
                if (!f->is_text && !(rows[i].how & ESCAPE_BYTES))
                        continue;
                r = put_form(f, rows[i].name, add_string(f, rows[i].how, digits_lower));
                if (r == 0)
                        r = put_form(f, rows[i].name, add_string(f, rows[i].how, digits_upper));
        }
        return r;
}

/* ---- words of a shell, and HTML ---- */

/* Each byte of `special` as its text in `instead`; NULL there: a backslash before it. */
static int add_replaced(struct forms *f, const char *special, const char *const *instead)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < f->size; i++) {
                const char *found = f->bytes[i] ? strchr(special, f->bytes[i]) : NULL;
                if (found && instead)
                        r = form_add_string(&f->form, instead[found - special]);
                else if (found)
                        r = form_add(&f->form, "\\", 1);
                if (r == 0 && (!found || !instead))
                        r = form_add(&f->form, &f->bytes[i], 1);
        }
        return r;
}

static int word_forms(struct forms *f)
{
        static const struct {
                const char *name, *special;
                const char *instead[6];
        } rows[] = {
                {"shell", "'", {"'\\''"}},
                {"shell", "'", {"'\"'\"'"}},
                {"HTML", "&<>\"'", {"&amp;", "&lt;", "&gt;", "&quot;", "&#x27;"}},
                {"HTML", "&<>\"'", {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"}},
                {"HTML", "&<>\"'", {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"}},
                {"HTML", "&<>", {"&amp;", "&lt;", "&gt;"}},
        };
        int r = 0;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rows); i++)
                r = put_form(f, rows[i].name, add_replaced(f, rows[i].special, rows[i].instead));
        if (r == 0)
                r = put_form(f, "shell", add_replaced(f, "\\\"$`!", NULL)); /* between double quotes */
        if (r == 0)
                r = put_form(f, "shell", add_replaced(f, "\\\"$`", NULL));
        return r < 0 ? r : put_form(f, "shell", add_replaced(f, " !\"#$&'()*,;<>?[\\]^`{|}~", NULL)); /* printf %q */
}

static int lines_form(struct forms *f)
{
        int r = 0;

        if (!memchr(f->bytes, '\n', f->size))
                return 0;
        for (size_t i = 0; r == 0 && i < f->size; i++) {
                if (f->bytes[i] == '\n' && (i == 0 || f->bytes[i - 1] != '\r'))
                        r = form_add(&f->form, "\r", 1);
                if (r == 0)
                        r = form_add(&f->form, &f->bytes[i], 1);
        }
        return put_form(f, "CRLF", r);
}

int scrub_encodings(const void *secret, size_t size, int (*put)(void *data, const char *name, const void *bytes, size_t n), void *data)
{
        struct forms f = {.bytes = secret, .size = size, .is_text = utf8_is_valid(secret, size), .put = put, .data = data};
        static int (*const kinds[])(struct forms *) = {base64_forms, hex_forms, percent_forms, string_forms, word_forms, lines_form};

        if (size < SCRUB_SECRET_MIN)
                return 0;
        buffer_init(&f.form, 12 * size + 64); /* a byte outside of ASCII becomes \uXXXX\uXXXX at most for its share */
        f.form.secret = true;
        int r = put(data, "raw", secret, size);
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(kinds); i++)
                r = kinds[i](&f);
        buffer_done(&f.form);
        return r;
}
