/* SPDX-License-Identifier: Apache-2.0
 *
 * One row for each keyword: how a value is held against it, and how it must look itself. What is said about a value tells its type, its length or its number, and
 * never its text: that may be a secret, or long. */
#include "mcp/schema.h"

#include "base/limits.h"
#include "base/macro.h"
#include "base/suggest.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define WHERE_MAX 128
#define KEY_SHOWN_MAX 40                  /* characters of a name that is not known; a longer one is not repeated */
#define NAMES_MAX LANGUAGE_COUNT_MAX      /* properties, or values of an enum: the languages are the longest */
#define EXACT_MAX 9007199254740992.0      /* whole numbers up to here have a double of their own */

struct place {
        const char *where;
        const json_t *schema; /* of the place: for what belongs to another keyword */
        char *why;
};

static int fail(const struct place *p, const char *format, ...) _printf_(2, 3);
static int fail(const struct place *p, const char *format, ...)
{
        va_list ap;
        int n = snprintf(p->why, SCHEMA_WHY_MAX, "%s", p->where);

        if (n < 0 || n >= SCHEMA_WHY_MAX)
                return -EINVAL;
        va_start(ap, format);
        (void)vsnprintf(p->why + n, SCHEMA_WHY_MAX - (size_t)n, format, ap);
        va_end(ap);
        return -EINVAL;
}

/* Adds what still fits. */
static void join(char *text, size_t max, const char *format, ...) _printf_(3, 4);
static void join(char *text, size_t max, const char *format, ...)
{
        size_t used = strlen(text);
        va_list ap;

        va_start(ap, format);
        if (vsnprintf(text + used, max - used, format, ap) >= (int)(max - used))
                text[used] = '\0';
        va_end(ap);
}

/* The names of a list or of an object; how many. */
static size_t names_of(const json_t *json, const char *ret[static NAMES_MAX])
{
        size_t n = 0, i;
        const char *key;
        json_t *value;

        json_array_foreach(json, i, value)
                if (n < NAMES_MAX && json_is_string(value))
                        ret[n++] = json_string_value(value);
        json_object_foreach((json_t *)json, key, value)
                if (n < NAMES_MAX)
                        ret[n++] = key;
        return n;
}

static void join_names(char *text, size_t max, const json_t *json)
{
        const char *names[NAMES_MAX];
        size_t n = names_of(json, names);

        for (size_t i = 0; i < n; i++)
                join(text, max, "%s%s", i == 0 ? "" : ", ", names[i]);
}

/* ---- type ---- */

static const struct type {
        const char *name, *text;
} types[] = {
        {"object", "an object"}, {"array", "an array"}, {"string", "a string"}, {"integer", "a whole number"},
        {"number", "a number"}, {"boolean", "a boolean"}, {"null", "null"},
};

static const struct type *type_by_name(const char *name)
{
        for (size_t i = 0; name && i < ARRAY_SIZE(types); i++)
                if (strcmp(types[i].name, name) == 0)
                        return &types[i];
        return NULL;
}

/* 5.0 is a whole number, too. Who reads it takes json_number_value(). */
static bool is_whole(double number)
{
        return number >= -EXACT_MAX && number <= EXACT_MAX && (double)(json_int_t)number == number;
}

static bool is_of_type(const json_t *value, const char *name)
{
        switch (json_typeof(value)) {
        case JSON_OBJECT:
                return strcmp(name, "object") == 0;
        case JSON_ARRAY:
                return strcmp(name, "array") == 0;
        case JSON_STRING:
                return strcmp(name, "string") == 0;
        case JSON_INTEGER:
                return strcmp(name, "integer") == 0 || strcmp(name, "number") == 0;
        case JSON_REAL:
                return strcmp(name, "number") == 0 || (strcmp(name, "integer") == 0 && is_whole(json_real_value(value)));
        case JSON_TRUE:
        case JSON_FALSE:
                return strcmp(name, "boolean") == 0;
        case JSON_NULL:
                return strcmp(name, "null") == 0;
        }
        return false;
}

#define NUMBER_TEXT_MAX 32
static const char *number_text(const json_t *value, char ret[static NUMBER_TEXT_MAX])
{
        if (json_is_integer(value))
                (void)snprintf(ret, NUMBER_TEXT_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        else
                (void)snprintf(ret, NUMBER_TEXT_MAX, "%.15g", json_real_value(value));
        return ret;
}

/* What a value is; a number that is not whole shows itself, since "must be a whole number, and is a number" explains nothing. */
static const char *value_text(const json_t *value, char ret[static NUMBER_TEXT_MAX])
{
        if (json_is_integer(value))
                return "a number";
        for (size_t i = 0; i < ARRAY_SIZE(types) && !json_is_real(value); i++)
                if (is_of_type(value, types[i].name))
                        return types[i].text;
        return number_text(value, ret);
}

static int check_type(const struct place *p, const json_t *rule, const json_t *value)
{
        const struct type *type = type_by_name(json_string_value(rule));
        char number[NUMBER_TEXT_MAX];

        if (!type || is_of_type(value, type->name))
                return 0;
        return fail(p, " must be %s, and is %s", type->text, value_text(value, number));
}

/* ---- anyOf ---- */

static int check_any(const struct place *p, const json_t *rule, const json_t *value)
{
        char wanted[SCHEMA_WHY_MAX] = "", number[NUMBER_TEXT_MAX];
        const json_t *meant = NULL;
        json_t *each;
        size_t i;

        json_array_foreach(rule, i, each) {
                const struct type *type = type_by_name(json_string_value(json_object_get(each, "type")));
                if (schema_check(each, value, p->where, p->why) == 0)
                        return 0;
                if (type)
                        join(wanted, sizeof(wanted), "%s%s", wanted[0] ? " or " : "", type->text);
                if (!type || is_of_type(value, type->name))
                        meant = each;
        }
        /* What is of the right type for one of them is told what that one lacks. */
        if (meant)
                return schema_check(meant, value, p->where, p->why);
        return fail(p, " must be %s, and is %s", wanted, value_text(value, number));
}

/* ---- values ---- */

static int check_enum(const struct place *p, const json_t *rule, const json_t *value)
{
        const char *names[NAMES_MAX], *nearest;
        char all[SCHEMA_WHY_MAX / 2] = "";
        json_t *each;
        size_t i;

        json_array_foreach(rule, i, each)
                if (json_equal(each, value))
                        return 0;
        nearest = json_is_string(value) ? suggest_nearest(json_string_value(value), names, names_of(rule, names)) : NULL;
        join_names(all, sizeof(all), rule);
        if (nearest)
                return fail(p, " must be one of %s; did you mean %s?", all, nearest);
        return fail(p, " must be one of %s", all);
}

static int check_minimum(const struct place *p, const json_t *rule, const json_t *value)
{
        char is[NUMBER_TEXT_MAX], least[NUMBER_TEXT_MAX];

        if (!json_is_number(value) || json_number_value(value) >= json_number_value(rule))
                return 0;
        return fail(p, ": %s is too small; the least is %s", number_text(value, is), number_text(rule, least));
}

static int check_maximum(const struct place *p, const json_t *rule, const json_t *value)
{
        char is[NUMBER_TEXT_MAX], most[NUMBER_TEXT_MAX];

        if (!json_is_number(value) || json_number_value(value) <= json_number_value(rule))
                return 0;
        return fail(p, ": %s is too large; the most is %s", number_text(value, is), number_text(rule, most));
}

/* Characters, as JSON Schema counts them. What was parsed is UTF-8. */
static json_int_t length_of(const json_t *value)
{
        const char *text = json_string_value(value);
        json_int_t n = 0;

        for (size_t i = 0; i < json_string_length(value); i++)
                n += ((unsigned char)text[i] & 0xc0) != 0x80;
        return n;
}

static int check_min_length(const struct place *p, const json_t *rule, const json_t *value)
{
        json_int_t length = length_of(value), least = json_integer_value(rule);

        if (!json_is_string(value) || length >= least)
                return 0;
        if (length == 0)
                return fail(p, " must not be empty");
        return fail(p, " is too short: its length is %" JSON_INTEGER_FORMAT ", and the least is %" JSON_INTEGER_FORMAT, length, least);
}

static int check_max_length(const struct place *p, const json_t *rule, const json_t *value)
{
        json_int_t length = length_of(value), most = json_integer_value(rule);

        if (!json_is_string(value) || length <= most)
                return 0;
        return fail(p, " is too long: its length is %" JSON_INTEGER_FORMAT ", and the most is %" JSON_INTEGER_FORMAT, length, most);
}

static int check_max_items(const struct place *p, const json_t *rule, const json_t *value)
{
        size_t n = json_array_size(value);

        if (!json_is_array(value) || (json_int_t)n <= json_integer_value(rule))
                return 0;
        return fail(p, " is too long: it has %zu items, and the most is %" JSON_INTEGER_FORMAT, n, json_integer_value(rule));
}

static int check_items(const struct place *p, const json_t *rule, const json_t *value)
{
        char where[WHERE_MAX];
        json_t *each;
        size_t i;

        json_array_foreach(value, i, each) {
                (void)snprintf(where, sizeof(where), "%s[%zu]", p->where, i);
                int r = schema_check(rule, each, where, p->why);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- objects ---- */

/* Whether a name that somebody has sent can stand in a sentence of ours. */
static bool can_be_shown(const char *key)
{
        size_t n = strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

        return n > 0 && n <= KEY_SHOWN_MAX && key[n] == '\0';
}

static int check_additional(const struct place *p, const json_t *rule, const json_t *value)
{
        const json_t *properties = json_object_get(p->schema, "properties");
        const char *names[NAMES_MAX], *key;
        char all[SCHEMA_WHY_MAX / 2] = "";
        size_t n = names_of(properties, names);
        json_t *each;

        if (!json_is_false(rule))
                return 0;
        json_object_foreach((json_t *)value, key, each) {
                if (json_object_get(properties, key))
                        continue;
                const char *nearest = suggest_nearest(key, names, n);
                join_names(all, sizeof(all), properties);
                if (n == 0)
                        join(all, sizeof(all), "none");
                if (!can_be_shown(key))
                        return fail(p, " has a name that is not known, of %zu bytes; there are: %s", strlen(key), all);
                if (nearest)
                        return fail(p, ".%s is not known; did you mean %s?", key, nearest);
                return fail(p, ".%s is not known; there are: %s", key, all);
        }
        return 0;
}

static int check_required(const struct place *p, const json_t *rule, const json_t *value)
{
        json_t *each;
        size_t i;

        json_array_foreach(rule, i, each)
                if (json_is_object(value) && !json_object_get(value, json_string_value(each)))
                        return fail(p, ".%s is required", json_string_value(each));
        return 0;
}

static int check_properties(const struct place *p, const json_t *rule, const json_t *value)
{
        char where[WHERE_MAX];
        const char *key;
        json_t *each;

        json_object_foreach((json_t *)rule, key, each) {
                const json_t *part = json_object_get(value, key);
                (void)snprintf(where, sizeof(where), "%s.%s", p->where, key);
                int r = part ? schema_check(each, part, where, p->why) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- all of them ---- */

/* In the order in which a value is held against them: a name that is wrong is told before the one that is missing for that reason. */
static const struct keyword {
        const char *name;
        int (*check)(const struct place *p, const json_t *rule, const json_t *value); /* NULL: it says something to people */
        const char *type;                                                             /* of its own value; NULL: any */
} keywords[] = {
        {"type", check_type, "string"},
        {"anyOf", check_any, "array"},
        {"enum", check_enum, "array"},
        {"minimum", check_minimum, "number"},
        {"maximum", check_maximum, "number"},
        {"minLength", check_min_length, "integer"},
        {"maxLength", check_max_length, "integer"},
        {"maxItems", check_max_items, "integer"},
        {"items", check_items, "object"},
        {"additionalProperties", check_additional, "boolean"},
        {"required", check_required, "array"},
        {"properties", check_properties, "object"},
        {"title", NULL, "string"},
        {"description", NULL, "string"},
        {"default", NULL, NULL},
};

int schema_check(const json_t *schema, const json_t *value, const char *where, char ret_why[static SCHEMA_WHY_MAX])
{
        const struct place p = {.where = where, .schema = schema, .why = ret_why};

        for (size_t i = 0; i < ARRAY_SIZE(keywords); i++) {
                const json_t *rule = json_object_get(schema, keywords[i].name);
                int r = rule && keywords[i].check ? keywords[i].check(&p, rule, value) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- whether a schema is one of ours ---- */

static const struct keyword *keyword_by_name(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(keywords); i++)
                if (strcmp(keywords[i].name, name) == 0)
                        return &keywords[i];
        return NULL;
}

static int look(const json_t *schema, const char *where, char *why);

static int look_at_parts(const json_t *schema, const char *where, char *why)
{
        const json_t *items = json_object_get(schema, "items");
        char below[WHERE_MAX];
        const char *key;
        json_t *each;
        size_t i;
        int r = 0;

        json_object_foreach(json_object_get(schema, "properties"), key, each) {
                (void)snprintf(below, sizeof(below), "%s.%s", where, key);
                if ((r = look(each, below, why)) < 0)
                        return r;
        }
        json_array_foreach(json_object_get(schema, "anyOf"), i, each) {
                (void)snprintf(below, sizeof(below), "%s|%zu", where, i);
                if ((r = look(each, below, why)) < 0)
                        return r;
        }
        (void)snprintf(below, sizeof(below), "%s[]", where);
        return items ? look(items, below, why) : 0;
}

/* What the type of a keyword's value does not say yet. */
static int look_at_values(const struct place *p)
{
        static const char *const lists[] = {"enum", "required"};
        const json_t *properties = json_object_get(p->schema, "properties"), *type = json_object_get(p->schema, "type"), *any = json_object_get(p->schema, "anyOf");
        json_t *each;
        size_t i;

        if (type && !type_by_name(json_string_value(type)))
                return fail(p, ": the type %s is not known", json_string_value(type));
        if (any && json_array_size(any) == 0)
                return fail(p, ": anyOf is empty");
        for (size_t k = 0; k < ARRAY_SIZE(lists); k++) {
                const json_t *list = json_object_get(p->schema, lists[k]);
                if (list && (json_array_size(list) == 0 || json_array_size(list) > NAMES_MAX))
                        return fail(p, ": %s must have 1 to %d items", lists[k], NAMES_MAX);
                json_array_foreach(list, i, each)
                        if (!json_is_string(each))
                                return fail(p, ": %s must have nothing but strings", lists[k]);
        }
        json_array_foreach(json_object_get(p->schema, "required"), i, each)
                if (!json_object_get(properties, json_string_value(each)))
                        return fail(p, ": %s is required, and no property", json_string_value(each));
        if (json_object_size(properties) > NAMES_MAX)
                return fail(p, ": there are more than %d properties", NAMES_MAX);
        return 0;
}

static int look(const json_t *schema, const char *where, char *why)
{
        const struct place p = {.where = where, .schema = schema, .why = why};
        const char *key;
        json_t *rule;

        if (!json_is_object(schema) || json_object_size(schema) == 0)
                return fail(&p, " must be an object, and say something");
        json_object_foreach((json_t *)schema, key, rule) {
                const struct keyword *keyword = keyword_by_name(key);
                if (!keyword)
                        return fail(&p, ": the keyword %s is not known", key);
                if (keyword->type && !is_of_type(rule, keyword->type))
                        return fail(&p, ": the keyword %s must have a value of type %s", key, keyword->type);
        }
        int r = look_at_values(&p);
        return r < 0 ? r : look_at_parts(schema, where, why);
}

int schema_is_known(const json_t *schema, char ret_why[static SCHEMA_WHY_MAX])
{
        return look(schema, "schema", ret_why);
}
