/* SPDX-License-Identifier: Apache-2.0
 *
 * Results to make content of, and what holds for all content that is made of one. */
#ifndef MCP_TEST_CONTENT_H
#define MCP_TEST_CONTENT_H

#include "mcp/content.h"

#include "base/base64.h"
#include "base/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define RUN "0f3c0f3c0f3c0f3c0f3c0f3c0f3c0f3c"
#define SESSION "4f2a4f2a4f2a4f2a4f2a4f2a4f2a4f2a"
#define STDOUT_URI "glovebox://runs/" RUN "/stdout"
#define PNG "\x89PNG\r\n\x1a\nrest"
#define JPEG "\xff\xd8\xff\xe0rest"
#define EURO "\xe2\x82\xac"
#define FFFD "\xef\xbf\xbd" /* in the place of what is no text */

static const struct content_run plain = {.run = RUN, .session = SESSION};

static void assert_has(const char *text, const char *part)
{
        if (!strstr(text, part))
                fail_msg("\"%s\" is not in:\n%.2000s", part, text);
}

static void assert_lacks(const char *text, const char *part)
{
        if (strstr(text, part))
                fail_msg("\"%s\" is in:\n%.2000s", part, text);
}

/* JSON with ' in the place of ". */
static json_t *parse(const char *text)
{
        _cleanup_free_ char *copy = strdup(text);
        json_error_t why;

        assert_non_null(copy);
        for (char *p = copy; *p; p++)
                *p = *p == '\'' ? '"' : *p;
        json_t *value = json_loads(copy, JSON_ALLOW_NUL, &why);
        if (!value)
                fail_msg("%s: %s", why.text, text);
        return value;
}

/* A result of the kind, with more keys. */
static json_t *result_with(const char *kind, const char *message, const char *more)
{
        json_t *result = parse(more ? more : "{}");
        json_t *base = json_pack("{s:s, s:{s:s, s:s}, s:n, s:n, s:f, s:b}", "id", RUN, "verdict", "kind", kind, "message", message,
                                 "exit_code", "signal", "duration_ms", 12.3, "truncated", 0);

        assert_non_null(base);
        assert_int_equal(json_object_update_missing(result, base), 0);
        json_decref(base);
        return result;
}

static const char *text_of(const json_t *out)
{
        const char *text = json_string_value(json_object_get(json_array_get(json_object_get(out, "content"), 0), "text"));

        assert_non_null(text);
        return text;
}

static const json_t *structured(const json_t *out, const char *key)
{
        const json_t *value = json_object_get(json_object_get(out, "structuredContent"), key);

        assert_non_null(value);
        return value;
}

static size_t count_items(const json_t *out, const char *type)
{
        const json_t *item;
        size_t i, n = 0;

        json_array_foreach(json_object_get(out, "content"), i, item)
                n += strcmp(json_string_value(json_object_get(item, "type")), type) == 0;
        return n;
}

/* The text without what stands between marks; the caller's. */
static char *outside(const char *text)
{
        char *out = calloc(1, strlen(text) + 1), *end = out;

        while (*text) {
                char label[64], close[80];
                int n = 0;
                size_t line = strcspn(text, "\n");
                if (sscanf(text, "<%63[a-z0-9-] untrusted>%n", label, &n) == 1 && n > 0 && (size_t)n == line) {
                        snprintf(close, sizeof(close), "\n</%s>\n", label);
                        const char *at = strstr(text + line, close);
                        assert_non_null(at);
                        text = at + strlen(close);
                        continue;
                }
                line += text[line] == '\n';
                end = mempcpy(end, text, line);
                text += line;
        }
        return out;
}

/* What holds for each result, whatever it is about. */
static void check(const json_t *out)
{
        static const struct {
                const char *key;
                bool nullable;
                json_type type;
        } keys[] = {
                {"verdict", false, JSON_STRING}, {"ok", false, JSON_TRUE}, {"message", false, JSON_STRING}, {"exit_code", true, JSON_INTEGER},
                {"signal", true, JSON_STRING}, {"stdout", false, JSON_STRING}, {"stderr", false, JSON_STRING}, {"stdout_bytes", false, JSON_INTEGER},
                {"stderr_bytes", false, JSON_INTEGER}, {"truncated", true, JSON_TRUE}, {"value", true, JSON_STRING},
                {"error", true, JSON_OBJECT}, {"duration_ms", true, JSON_REAL}, {"session", true, JSON_STRING},
                {"run", false, JSON_STRING}, {"state_kept", true, JSON_TRUE},
                {"pictures", false, JSON_INTEGER}, {"files", false, JSON_ARRAY}, {"notes", false, JSON_ARRAY},
        };
        assert_non_null(out);
        assert_int_equal(json_object_size(json_object_get(out, "structuredContent")), ARRAY_SIZE(keys));
        for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
                const json_t *value = structured(out, keys[i].key);
                json_type type = json_is_boolean(value) ? JSON_TRUE : json_typeof(value);
                if (type != keys[i].type && !(keys[i].nullable && type == JSON_NULL))
                        fail_msg("%s has the type %d", keys[i].key, (int)type);
        }
        bool ok = strcmp(json_string_value(structured(out, "verdict")), "ok") == 0;
        assert_int_equal(json_is_true(structured(out, "ok")), ok);
        assert_int_equal(json_is_true(json_object_get(out, "isError")), !ok);
        assert_int_equal(count_items(out, "image"), json_integer_value(structured(out, "pictures")));
        assert_true(json_dumpb(out, NULL, 0, JSON_COMPACT) < MCP_MESSAGE_BYTES_MAX - 4096); /* with room for what stands around it */
        _cleanup_free_ char *ours = outside(text_of(out));
        assert_lacks(ours, "untrusted>");
        assert_lacks(ours, "--");
}

static json_t *make(json_t *result, const struct content_run *o)
{
        json_t *out = content_of_run(result, o);

        check(out);
        json_decref(result);
        return out;
}

/* {"main": false, "data": {type: {"base64": bytes}}} */
static json_t *picture(const char *type, const void *bytes, size_t size)
{
        _cleanup_free_ char *text = NULL;
        size_t length;

        assert_int_equal(base64_encode(bytes, size, &text, &length), 0);
        return json_pack("{s:b, s:{s:{s:s}}}", "main", 0, "data", type, "base64", text);
}

#endif
