/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON as text. The bytes are those of jansson's json_dumps(JSON_COMPACT), for about a quarter of the time: jansson writes piece by piece through a
 * callback, and keeps a table of the addresses of all containers it is in, as printed text, to find loops. Our values are trees. */
#include "base/json.h"

#include "base/buffer.h"
#include "base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 256 /* a request has JSON_DEPTH_MAX at most, and the stack of a thread is small */
#define NUMBER_MAX 128

static int add_escaped(struct buffer *b, unsigned char c)
{
        static const char shorts[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r', ['"'] = '"', ['\\'] = '\\'};
        char text[8];

        if (c < sizeof(shorts) && shorts[c])
                return buffer_add(b, (char[]){'\\', shorts[c]}, 2);
        snprintf(text, sizeof(text), "\\u%04X", (unsigned)c);
        return buffer_add(b, text, 6);
}

static int add_text(struct buffer *b, const char *text, size_t size)
{
        size_t begin = 0;
        int r = buffer_add(b, "\"", 1);

        for (size_t i = 0; i < size && r == 0; i++) {
                unsigned char c = (unsigned char)text[i];
                if (c >= ' ' && c != '"' && c != '\\')
                        continue;
                r = buffer_add(b, text + begin, i - begin);
                if (r == 0)
                        r = add_escaped(b, c);
                begin = i + 1;
        }
        if (r == 0)
                r = buffer_add(b, text + begin, size - begin);
        return r < 0 ? r : buffer_add(b, "\"", 1);
}

static int add_number(struct buffer *b, const json_t *value, size_t flags)
{
        char text[NUMBER_MAX];
        size_t n;

        if (json_is_integer(value))
                n = (size_t)snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        else
                n = json_dumpb(value, text, sizeof(text), flags | JSON_ENCODE_ANY);
        return n == 0 || n >= sizeof(text) ? -EINVAL : buffer_add(b, text, n);
}

static int add_value(struct buffer *b, const json_t *value, size_t flags, int depth);

/* jansson's own loop over members takes a value that may change. */
static int add_object(struct buffer *b, const json_t *value, size_t flags, int depth)
{
        json_t *object = (json_t *)(uintptr_t)value;
        int r = buffer_add(b, "{", 1);
        bool first = true;

        for (void *i = json_object_iter(object); i && r == 0; i = json_object_iter_next(object, i), first = false) {
                const char *key = json_object_iter_key(i);
                r = first ? 0 : buffer_add(b, ",", 1);
                if (r == 0)
                        r = add_text(b, key, strlen(key));
                if (r == 0)
                        r = buffer_add(b, ":", 1);
                if (r == 0)
                        r = add_value(b, json_object_iter_value(i), flags, depth);
        }
        return r < 0 ? r : buffer_add(b, "}", 1);
}

static int add_array(struct buffer *b, const json_t *value, size_t flags, int depth)
{
        int r = buffer_add(b, "[", 1);

        for (size_t i = 0; i < json_array_size(value) && r == 0; i++) {
                r = i == 0 ? 0 : buffer_add(b, ",", 1);
                if (r == 0)
                        r = add_value(b, json_array_get(value, i), flags, depth);
        }
        return r < 0 ? r : buffer_add(b, "]", 1);
}

static int add_value(struct buffer *b, const json_t *value, size_t flags, int depth)
{
        if (depth == DEPTH_MAX)
                return -ELOOP;
        switch (json_typeof(value)) {
        case JSON_OBJECT: return add_object(b, value, flags, depth + 1);
        case JSON_ARRAY: return add_array(b, value, flags, depth + 1);
        case JSON_STRING: return add_text(b, json_string_value(value), json_string_length(value));
        case JSON_INTEGER:
        case JSON_REAL: return add_number(b, value, flags);
        case JSON_TRUE: return buffer_add(b, "true", 4);
        case JSON_FALSE: return buffer_add(b, "false", 5);
        case JSON_NULL: return buffer_add(b, "null", 4);
        }
        return -EINVAL;
}

char *json_print(const json_t *value, size_t flags)
{
        _cleanup_buffer_ struct buffer b;

        buffer_init(&b, SIZE_MAX - 1);
        int r = value ? add_value(&b, value, flags, 0) : -EINVAL;
        if (json_lacked_memory() || r < 0)
                return NULL;
        return TAKE_PTR(b.data);
}

json_t *json_readable(const void *bytes, size_t size)
{
        if (utf8_is_valid(bytes, size))
                return json_stringn_nocheck(size > 0 ? bytes : "", size);

        /* Each wrong byte becomes three. */
        _cleanup_buffer_ struct buffer text = {0};
        buffer_init(&text, size * 3);
        if (utf8_replace(&text, bytes, size) < 0)
                return NULL;
        return json_stringn_nocheck(text.data, text.size);
}
