/* SPDX-License-Identifier: Apache-2.0
 *
 * The text is known to be JSON, so that walking over it is a matter of strings and brackets. jansson could write it anew, but not as it was: 0.1 becomes
 * 0.10000000000000001, and what stood in one line stands in ten. */
#include "cli/json_edit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SPACE " \t\r\n"
#define UNIT "  "
#define INDENT_MAX 128 /* more is taken for none */

struct text {
        const char *data;
        size_t size;
};

struct member {
        size_t key, value, end;
};

struct object {
        size_t open, close; /* its brackets */
        size_t n;
        struct member first, last;
        bool has_found, has_before, has_after;
        struct member found, before, after; /* the one that was looked for, and its neighbours */
};

struct indent {
        char text[INDENT_MAX];
};

static size_t skip_space(const struct text *t, size_t at)
{
        while (at < t->size && strchr(SPACE, t->data[at]) && t->data[at])
                at++;
        return at;
}

static size_t skip_string(const struct text *t, size_t at)
{
        for (at++; at < t->size && t->data[at] != '"'; at++)
                if (t->data[at] == '\\')
                        at++;
        return at + 1;
}

static size_t skip_value(const struct text *t, size_t at)
{
        size_t depth = 0;

        do {
                char c = t->data[at];
                if (c == '"') {
                        at = skip_string(t, at);
                        continue;
                }
                if (c == '{' || c == '[')
                        depth++;
                else if (c == '}' || c == ']')
                        depth--;
                else if (depth == 0) { /* a number or a word */
                        while (at < t->size && !strchr(",]}" SPACE, t->data[at]))
                                at++;
                        return at;
                }
                at++;
        } while (depth > 0 && at < t->size);
        return at;
}

/* 1: it is this key; 0: another. A key may be written with escapes. */
static int key_is(const struct text *t, size_t begin, size_t end, const char *key)
{
        if (!memchr(t->data + begin, '\\', end - begin))
                return end - begin - 2 == strlen(key) && memcmp(t->data + begin + 1, key, strlen(key)) == 0;
        json_t *string = json_loadb(t->data + begin, end - begin, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        if (!string)
                return -ENOMEM;
        int r = json_string_length(string) == strlen(key) && strcmp(json_string_value(string), key) == 0;
        json_decref(string);
        return r;
}

static int scan_object(const struct text *t, size_t open, const char *key, struct object *o)
{
        *o = (struct object){.open = open};
        for (size_t at = skip_space(t, open + 1); at < t->size && t->data[at] != '}';) {
                struct member m = {.key = at};
                size_t key_end = skip_string(t, at);
                m.value = skip_space(t, skip_space(t, key_end) + 1);
                m.end = skip_value(t, m.value);

                int r = key_is(t, m.key, key_end, key);
                if (r < 0)
                        return r;
                if (r > 0) {
                        o->has_before = o->n > 0;
                        o->before = o->last;
                        o->found = m;
                        o->has_found = true;
                } else if (o->has_found && !o->has_after) {
                        o->after = m;
                        o->has_after = true;
                }
                if (o->n++ == 0)
                        o->first = m;
                o->last = m;
                at = skip_space(t, m.end);
                if (at < t->size && t->data[at] == ',')
                        at = skip_space(t, at + 1);
                o->close = at;
        }
        if (o->n == 0)
                o->close = skip_space(t, open + 1);
        return 0;
}

/* What stands before this place in its line, when that is nothing but space; false: something else does. */
static bool indent_of(const struct text *t, size_t at, struct indent *ret)
{
        size_t begin = at;

        while (begin > 0 && (t->data[begin - 1] == ' ' || t->data[begin - 1] == '\t'))
                begin--;
        if (begin == 0 || t->data[begin - 1] != '\n' || at - begin >= sizeof(ret->text))
                return false;
        memcpy(ret->text, t->data + begin, at - begin);
        ret->text[at - begin] = '\0';
        return true;
}

static void indent_add(struct indent *i, const char *unit)
{
        if (strlen(i->text) + strlen(unit) < sizeof(i->text))
                strcat(i->text, unit);
}

int json_edit_print(struct buffer *out, const json_t *value, const char *indent, const char *unit, const char *newline)
{
        char *text = json_dumps(value, JSON_INDENT(1) | JSON_ENCODE_ANY);
        int r = text ? 0 : -ENOMEM;

        /* One space for each level: strings have no newline in them. */
        for (const char *line = text; r == 0 && line;) {
                size_t depth = strspn(line, " "), length = strcspn(line, "\n");
                if (line == text)
                        depth = 0;
                else
                        r = buffer_printf(out, "%s%s", newline, indent);
                for (size_t i = 0; r == 0 && i < depth; i++)
                        r = buffer_add_string(out, unit);
                if (r == 0)
                        r = buffer_add(out, line + depth, length - depth);
                line = line[length] ? line + length + 1 : NULL;
        }
        free(text);
        return r;
}

/* The text with what is between two places put in. */
static int begin_splice(const struct text *t, size_t begin, struct buffer *out)
{
        return buffer_add(out, t->data, begin);
}

static int end_splice(const struct text *t, size_t end, struct buffer *out)
{
        return buffer_add(out, t->data + end, t->size - end);
}

static int add_key(struct buffer *out, const char *key)
{
        json_t *string = json_string(key);
        char *text = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
        int r = text ? buffer_printf(out, "%s: ", text) : -ENOMEM;

        free(text);
        json_decref(string);
        return r;
}

/* A member behind the last one. inner: before a member in its line, outer: before the closing bracket in its. */
static int insert(const struct text *t, const struct object *o, const char *key, const json_t *value, const char *inner, const char *outer, const char *unit,
                  const char *newline, struct buffer *out)
{
        size_t begin = o->n > 0 ? o->last.end : o->open + 1;
        bool broken = o->n > 0 && memchr(t->data + begin, '\n', o->close - begin);

        int r = begin_splice(t, begin, out);
        if (r == 0)
                r = buffer_printf(out, "%s%s%s", o->n > 0 ? "," : "", newline, inner);
        if (r == 0)
                r = add_key(out, key);
        if (r == 0)
                r = json_edit_print(out, value, inner, unit, newline);
        if (r == 0 && !broken)
                r = buffer_printf(out, "%s%s", newline, outer);
        return r < 0 ? r : end_splice(t, broken ? begin : o->close, out);
}

static int take_out(const struct text *t, const struct object *o, struct buffer *out)
{
        size_t begin = o->has_before ? o->before.end : o->has_after ? o->found.key : o->open + 1;
        size_t end = o->has_before ? o->found.end : o->has_after ? o->after.key : o->close;

        int r = begin_splice(t, begin, out);
        return r < 0 ? r : end_splice(t, end, out);
}

static int replace(const struct text *t, const struct object *o, const json_t *value, const char *indent, const char *unit, const char *newline, struct buffer *out)
{
        int r = begin_splice(t, o->found.value, out);
        if (r == 0)
                r = json_edit_print(out, value, indent, unit, newline);
        return r < 0 ? r : end_splice(t, o->found.end, out);
}

static int insert_both(const struct text *t, const struct object *root, const char *outer, const char *name, const json_t *value, const char *unit,
                       const char *newline, struct buffer *out)
{
        json_t *object = json_object();
        int r = object && json_object_set(object, name, (json_t *)value) == 0 ? 0 : -ENOMEM;

        if (r == 0)
                r = insert(t, root, outer, object, unit, "", unit, newline, out);
        json_decref(object);
        return r;
}

int json_edit(const char *text, size_t size, const char *outer, const char *name, const json_t *value, struct buffer *out)
{
        struct text t = {text, size};
        struct object root, servers;
        struct indent unit, inner, close;

        int r = scan_object(&t, skip_space(&t, 0), outer, &root);
        if (r < 0)
                return r;
        if (root.n == 0 || !indent_of(&t, root.first.key, &unit) || !unit.text[0])
                unit = (struct indent){UNIT};
        const char *newline = memmem(text, size, "\r\n", 2) ? "\r\n" : "\n";
        if (!root.has_found)
                return value ? insert_both(&t, &root, outer, name, value, unit.text, newline, out) : -ENOENT;

        r = scan_object(&t, root.found.value, name, &servers);
        if (r < 0)
                return r;
        if (!value)
                return servers.has_found ? take_out(&t, &servers, out) : -ENOENT;
        if (!indent_of(&t, root.found.key, &close))
                close = unit;
        if (servers.n == 0 || !indent_of(&t, servers.first.key, &inner)) {
                inner = close;
                indent_add(&inner, unit.text);
        }
        if (servers.has_found)
                return replace(&t, &servers, value, inner.text, unit.text, newline, out);
        return insert(&t, &servers, name, value, inner.text, close.text, unit.text, newline, out);
}
