/* SPDX-License-Identifier: Apache-2.0 */
#include "server/fields.h"

#include "base/base64.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/quote.h"
#include "base/suggest.h"
#include "server/reply.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SECONDS_MAX 1e9 /* more than any duration has, and less than what overflows */

void fields_refuse(struct request *r, const struct fields *f, const gb_error *err)
{
        reply_error_with(r, err, NULL, f->wrong[0] ? json_pack("{s:s}", "field", f->wrong) : NULL);
}

/* A name that came from a client is shortened, at the end of a character. */
static void note_wrong(struct fields *f, const char *key)
{
        int n = snprintf(f->wrong, sizeof(f->wrong), "%s%s", f->prefix, key);

        if (n < (int)sizeof(f->wrong))
                return;
        size_t end = sizeof(f->wrong) - 1;
        while (end > 0 && ((unsigned char)f->wrong[end - 1] & 0xc0) == 0x80)
                end--;
        f->wrong[end > 0 ? end - 1 : 0] = '\0';
}

int fields_error(struct fields *f, const char *key, gb_error_code code, gb_error *err, const char *format, ...)
{
        char message[GB_ERROR_MESSAGE_MAX];

        va_list ap;
        va_start(ap, format);
        vsnprintf(message, sizeof(message), format, ap);
        va_end(ap);
        note_wrong(f, key);
        return error_set(err, code, EINVAL, "%s: %s", f->wrong, message);
}

static const char *type_name(const json_t *value)
{
        switch (json_typeof(value)) {
        case JSON_OBJECT:
                return "an object";
        case JSON_ARRAY:
                return "a list";
        case JSON_STRING:
                return "text";
        case JSON_INTEGER:
        case JSON_REAL:
                return "a number";
        case JSON_TRUE:
        case JSON_FALSE:
                return "true or false";
        case JSON_NULL:
                return "null";
        }
        return "something else";
}

static int wrong_type(struct fields *f, const char *key, const json_t *value, const char *wanted, gb_error *err)
{
        return fields_error(f, key, GB_E_USAGE, err, "%s is wanted, not %s", wanted, type_name(value));
}

int fields_unknown(struct fields *f, const char *key, const char *nearest, gb_error *err)
{
        note_wrong(f, key);
        return nearest ? error_set(err, GB_E_USAGE, EINVAL, "unknown field %s; did you mean \"%s%s\"?", quote(f->wrong).text, f->prefix, nearest)
                       : error_set(err, GB_E_USAGE, EINVAL, "unknown field %s", quote(f->wrong).text);
}

static bool is_one_of(const char *key, const char *const names[])
{
        for (size_t i = 0; names[i]; i++)
                if (strcmp(key, names[i]) == 0)
                        return true;
        return false;
}

int fields_check(struct fields *f, const char *const names[], gb_error *err)
{
        const char *key;
        json_t *value;
        size_t n = 0;

        while (names[n])
                n++;
        json_object_foreach((json_t *)(uintptr_t)f->object, key, value) {
                if (is_one_of(key, names))
                        continue;
                return fields_unknown(f, key, suggest_nearest(key, names, n), err);
        }
        return 0;
}

int fields_text(struct fields *f, const char *key, const char **ret, size_t *ret_size, gb_error *err)
{
        const json_t *value = json_object_get(f->object, key);

        if (!value)
                return 0;
        if (!json_is_string(value))
                return wrong_type(f, key, value, "text", err);
        *ret = json_string_value(value);
        if (ret_size)
                *ret_size = json_string_length(value);
        return 0;
}

int fields_bool(struct fields *f, const char *key, bool *ret, gb_error *err)
{
        const json_t *value = json_object_get(f->object, key);

        if (!value)
                return 0;
        if (!json_is_boolean(value))
                return wrong_type(f, key, value, "true or false", err);
        *ret = json_is_true(value);
        return 0;
}

int fields_object(struct fields *f, const char *key, const json_t **ret, gb_error *err)
{
        const json_t *value = json_object_get(f->object, key);

        if (!value)
                return 0;
        if (!json_is_object(value))
                return wrong_type(f, key, value, "an object", err);
        *ret = value;
        return 0;
}

/* ---- amounts ---- */

/* The time that a value says; a text without a unit says none. */
static int read_duration(const json_t *value, uint64_t *ret)
{
        if (json_is_number(value)) {
                double seconds = json_number_value(value);
                if (!isfinite(seconds) || seconds > SECONDS_MAX)
                        return -ERANGE;
                if (seconds < 0)
                        return -EINVAL;
                *ret = (uint64_t)llround(seconds * 1e6);
                return 0;
        }
        const char *text = json_string_value(value);
        size_t size = text ? json_string_length(value) : 0;
        return size > 0 && isalpha((unsigned char)text[size - 1]) ? parse_duration(text, ret) : -EINVAL;
}

int fields_duration(struct fields *f, const char *key, uint64_t min_usec, uint64_t max_usec, uint64_t *ret_usec, gb_error *err)
{
        const json_t *value = json_object_get(f->object, key);
        char min[FORMAT_MAX], max[FORMAT_MAX];
        uint64_t usec = 0;

        if (!value)
                return 0;
        int r = read_duration(value, &usec);
        if (r == -EINVAL)
                return fields_error(f, key, GB_E_USAGE, err, "a time is wanted: seconds as a number, or text with a unit, such as \"500ms\"");
        if (r < 0 || usec > max_usec)
                return fields_error(f, key, GB_E_LIMIT, err, "too long; allowed: %s to %s", format_duration(min_usec, min), format_duration(max_usec, max));
        if (usec < min_usec)
                return fields_error(f, key, GB_E_USAGE, err, "too short; allowed: %s to %s", format_duration(min_usec, min),
                                    format_duration(max_usec, max));
        *ret_usec = usec;
        return 0;
}

int fields_bytes(struct fields *f, const char *key, const json_t *value, const char **ret, size_t *ret_size, void **ret_memory, gb_error *err)
{
        const json_t *coded = json_object_get(value, "base64");
        size_t size;

        if (json_is_string(value)) {
                *ret = json_string_value(value);
                *ret_size = json_string_length(value);
                return 0;
        }
        if (!json_is_string(coded) || json_object_size(value) != 1)
                return wrong_type(f, key, value, "text or {\"base64\": text}", err);
        int r = base64_decode(json_string_value(coded), json_string_length(coded), ret_memory, &size);
        if (r == -ENOMEM)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (r < 0)
                return fields_error(f, key, GB_E_USAGE, err, "not base64 (the standard alphabet, with padding, without line ends)");
        *ret = *ret_memory;
        *ret_size = size;
        return 0;
}

int fields_words(struct fields *f, const char *key, size_t max, char ***ret, gb_error *err)
{
        const json_t *list = json_object_get(f->object, key);
        size_t n = json_array_size(list);

        if (!list)
                return 0;
        if (!json_is_array(list))
                return wrong_type(f, key, list, "a list of texts", err);
        if (n > max)
                return fields_error(f, key, GB_E_LIMIT, err, "%zu items, at most %zu are taken", n, max);
        _cleanup_free_ char **words = calloc(n + 1, sizeof(*words)); /* NOLINT: pointers are meant */
        if (!words)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        for (size_t i = 0; i < n; i++) {
                words[i] = (char *)(uintptr_t)json_string_value(json_array_get(list, i));
                if (!words[i])
                        return wrong_type(f, key, json_array_get(list, i), "a list of texts", err);
        }
        *ret = TAKE_PTR(words);
        return 0;
}

/* ---- language, template, workspace ---- */

/* "Not found" is said of what has an address. */
static int refuse_name(struct fields *f, const char *key, gb_error *err)
{
        gb_error why = err ? *err : (gb_error){0};

        return fields_error(f, key, why.code == GB_E_NOT_FOUND ? GB_E_USAGE : (gb_error_code)why.code, err, "%s", why.message);
}

int fields_language(struct fields *f, const struct languages *all, const struct language **ret, gb_error *err)
{
        const char *name = NULL;

        int r = fields_text(f, "language", &name, NULL, err);
        if (r < 0 || !name)
                return r;
        return language_by_name(all, name, ret, err) < 0 ? refuse_name(f, "language", err) : 0;
}

static const struct template *look_for(const struct templates *all, const char *name)
{
        for (size_t i = 0; i < all->n; i++)
                if (strcmp(all->rows[i].name, name) == 0)
                        return &all->rows[i];
        return NULL;
}

#define TEMPLATE_DEFAULT "python"

int fields_template(struct fields *f, const struct templates *all, const struct policy *policy, const struct template **ret, gb_error *err)
{
        const json_t *value = json_object_get(f->object, "template");
        const char *name = NULL;

        *ret = NULL;
        if (!value && policy->backend == BACKEND_NATIVE && !policy->image)
                *ret = policy->warm ? look_for(all, TEMPLATE_DEFAULT) : NULL;
        if (!value || json_is_null(value))
                return 0;
        int r = fields_text(f, "template", &name, NULL, err);
        if (r < 0)
                return r;
        if (policy->backend != BACKEND_NATIVE || policy->image)
                return fields_error(f, "template", GB_E_USAGE, err, "%s: leave it out, or give null",
                                    policy->image ? "a template has its own image" : "templates are of the native backend");
        return template_by_name(all, name, ret, err) < 0 ? refuse_name(f, "template", err) : 0;
}

int fields_workspace(struct fields *f, const struct caller *caller, bool *ret_kept, const char **ret_path, gb_error *err)
{
        const json_t *value = json_object_get(f->object, "workspace"), *path = json_object_get(value, "path");
        const char *word = json_string_value(value);

        if (!value || (word && strcmp(word, "private") == 0))
                return 0;
        if (word && strcmp(word, "kept") == 0) {
                *ret_kept = true;
                return 0;
        }
        if (!json_is_string(path) || json_object_size(value) != 1)
                return fields_error(f, "workspace", GB_E_USAGE, err, "\"private\", \"kept\" or {\"path\": \"/directory\"} is wanted");
        if (!caller->local)
                return fields_error(f, "workspace", GB_E_DENIED, err, "directories of the host are for callers through the server's unix socket");
        if (json_string_value(path)[0] != '/')
                return fields_error(f, "workspace", GB_E_USAGE, err, "the path must begin with /");
        *ret_path = json_string_value(path);
        return 0;
}
