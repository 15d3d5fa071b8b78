/* SPDX-License-Identifier: Apache-2.0 */
#include "server/json_scan.h"

#include "base/limits.h"

#include <errno.h>
#include <string.h>

static int scan_structure(struct json_scan *s, char c, gb_error *err)
{
        switch (c) {
        case '{':
        case '[':
                s->depth++;
                s->nodes++;
                if (s->depth > JSON_DEPTH_MAX)
                        return error_set(err, GB_E_USAGE, E2BIG, "the JSON is nested more than %d deep", JSON_DEPTH_MAX);
                break;
        case '}':
        case ']':
                if (s->depth > 0)
                        s->depth--;
                break;
        case ',':
        case ':':
                s->nodes++;
                break;
        }
        if (s->nodes > JSON_NODES_MAX)
                return error_set(err, GB_E_USAGE, E2BIG, "the JSON has more than %d keys and values", JSON_NODES_MAX);
        bool number = (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
        s->number = number ? s->number + 1 : 0;
        if (s->number > JSON_NUMBER_BYTES_MAX)
                return error_set(err, GB_E_USAGE, E2BIG, "a number of the JSON has more than %d characters", JSON_NUMBER_BYTES_MAX);
        return 0;
}

/* In a string: up to the next character that means something. */
static size_t skip_text(const char *bytes, size_t size)
{
        size_t i = 0;

        while (i < size && bytes[i] != '"' && bytes[i] != '\\')
                i++;
        return i;
}

int json_scan(struct json_scan *s, const char *bytes, size_t size, gb_error *err)
{
        if (!s->begun && size > 0 && (unsigned char)bytes[0] == 0xef)
                return error_set(err, GB_E_USAGE, EINVAL, "the JSON begins with a byte-order mark");
        s->begun |= size > 0;
        for (size_t i = 0; i < size; i++) {
                if (s->escaped) {
                        s->escaped = false;
                } else if (s->string) {
                        i += skip_text(bytes + i, size - i);
                        if (i == size)
                                break;
                        s->escaped = bytes[i] == '\\';
                        s->string = bytes[i] != '"';
                } else if (bytes[i] == '"') {
                        s->string = true;
                        s->number = 0;
                } else {
                        int r = scan_structure(s, bytes[i], err);
                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

int json_scan_end(const struct json_scan *s, gb_error *err)
{
        if (s->string || s->depth > 0)
                return error_set(err, GB_E_USAGE, EINVAL, "the body is not JSON: it ends in the middle of %s", s->string ? "a text" : "an object or array");
        return 0;
}
