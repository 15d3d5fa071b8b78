/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/docker/values.h"

#include "backend/docker/engine.h"
#include "base/json.h"

#include <errno.h>
#include <string.h>

static bool is_blank(char c)
{
        return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

size_t value_skip(const char *data, size_t size)
{
        size_t n = 0;

        while (n < size && is_blank(data[n]))
                n++;
        return n;
}

static void in_string(struct value_scan *s, char c)
{
        if (s->escaped)
                s->escaped = false;
        else if (c == '\\')
                s->escaped = true;
        else if (c == '"')
                s->in_string = false;
}

static int outside_string(struct value_scan *s, char c, const char **why)
{
        switch (c) {
        case '"':
                s->in_string = true;
                break;
        case '{':
        case '[':
                if (++s->depth > ENGINE_JSON_DEPTH_MAX) {
                        *why = "its JSON is nested too deeply";
                        return -E2BIG;
                }
                s->nodes++;
                break;
        case '}':
        case ']':
                s->depth--;
                break;
        case ',':
                s->nodes++;
                break;
        default:
                break;
        }
        if (s->nodes > ENGINE_JSON_NODES_MAX) {
                *why = "its JSON has too many parts";
                return -E2BIG;
        }
        return 0;
}

long value_scan(struct value_scan *s, const char *data, size_t size, const char **why)
{
        if (size > 0 && s->at == 0 && data[0] != '{' && data[0] != '[') {
                *why = "it is not JSON";
                return -EBADMSG;
        }
        while (s->at < size) {
                char c = data[s->at++];
                if (s->in_string) {
                        in_string(s, c);
                        continue;
                }
                int r = outside_string(s, c, why);
                if (r < 0)
                        return r;
                if (s->depth == 0) {
                        long length = (long)s->at;
                        *s = (struct value_scan){0};
                        return length;
                }
        }
        return 0;
}

int value_load(const char *data, size_t size, json_t **ret, const char **why)
{
        json_error_t error;
        json_t *value = json_parse(data, size, JSON_REJECT_DUPLICATES, &error);

        /* Podman's statistics have had counters below zero, which it writes as numbers near 2^64. */
        if (!value && json_error_code(&error) == json_error_numeric_overflow)
                value = json_parse(data, size, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
        if (value) {
                *ret = value;
                return 0;
        }
        switch (json_error_code(&error)) {
        case json_error_out_of_memory:
                *why = "out of memory";
                return -ENOMEM;
        case json_error_numeric_overflow:
                *why = "its JSON has a number that is too large";
                break;
        case json_error_duplicate_key:
                *why = "its JSON has a key twice";
                break;
        default:
                *why = "its JSON is broken";
                break;
        }
        return -EBADMSG;
}

int value_parse(const char *data, size_t size, json_t **ret, const char **why)
{
        struct value_scan scan = {0};
        size_t begin = value_skip(data, size);

        data += begin;
        size -= begin;
        if (size == 0 || (size >= 4 && memcmp(data, "null", 4) == 0 && value_skip(data + 4, size - 4) == size - 4)) {
                *ret = NULL;
                return 0;
        }
        long length = value_scan(&scan, data, size, why);
        if (length < 0)
                return (int)length;
        if (length == 0) {
                *why = "its JSON is cut off";
                return -EBADMSG;
        }
        if (value_skip(data + length, size - (size_t)length) != size - (size_t)length) {
                *why = "something follows its JSON";
                return -EBADMSG;
        }
        return value_load(data, (size_t)length, ret, why);
}
