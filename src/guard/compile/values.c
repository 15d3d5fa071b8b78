/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/compile/compile.h"

#include "base/quote.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct place entry_place(const struct entry *e, const char *key)
{
        return (struct place){e->doc, e->rule, key, 0};
}

int entry_error(const struct entry *e, gb_error *err, const char *format, ...)
{
        struct place at = entry_place(e, "id");
        char message[GB_ERROR_MESSAGE_MAX];

        va_list ap;
        va_start(ap, format);
        vsnprintf(message, sizeof(message), format, ap);
        va_end(ap);
        return place_error(&at, quote(e->id).text, err, "%s", message);
}

int entry_check_keys(const struct entry *e, const char *const names[], size_t n, gb_error *err)
{
        const char *key;
        json_t *value;

        json_object_foreach((json_t *)(uintptr_t)e->rule, key, value) {
                bool known = false;
                for (size_t i = 0; i < n; i++)
                        known |= strcmp(key, names[i]) == 0;
                struct place at = entry_place(e, key);
                if (!known)
                        return place_unknown_key(&at, names, n, err);
        }
        return 0;
}

int entry_text(const struct entry *e, const char *key, bool required, const char **ret, gb_error *err)
{
        struct place at = entry_place(e, key);

        *ret = NULL;
        if (!json_object_get(e->rule, key))
                return required ? entry_error(e, err, "the key \"%s\" is missing", key) : 0;
        *ret = place_text(&at);
        if (!*ret || !**ret)
                return place_error(&at, NULL, err, "%s; a text is wanted", *ret ? "an empty text" : place_kind(&at));
        return 0;
}

int entry_bool(const struct entry *e, const char *key, bool *ret, gb_error *err)
{
        const json_t *value = json_object_get(e->rule, key);
        struct place at = entry_place(e, key);

        *ret = json_is_true(value);
        return !value || json_is_boolean(value) ? 0 : place_error(&at, NULL, err, "true or false is wanted");
}

int entry_texts(const struct entry *e, const char *key, bool required, int (*take)(void *data, const struct place *at, const char *text, gb_error *err), void *data,
                gb_error *err)
{
        const json_t *value = json_object_get(e->rule, key);
        struct place at = entry_place(e, key);

        if (!value)
                return required ? entry_error(e, err, "the key \"%s\" is missing", key) : 0;
        if (!json_is_array(value)) {
                const char *text;
                int r = entry_text(e, key, true, &text, err);
                return r < 0 ? r : take(data, &at, text, err);
        }
        if (json_array_size(value) == 0)
                return place_error(&at, NULL, err, "an empty list; leave the key out");
        for (size_t i = 0; i < json_array_size(value); i++) {
                struct place item = {e->doc, value, NULL, i};
                const char *text = place_text(&item);
                if (!text || !*text)
                        return place_error(&item, key, err, "%s; a text is wanted", text ? "an empty text" : place_kind(&item));
                int r = take(data, &item, text, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

struct list_taker {
        struct piece *piece;
        uint32_t first; /* 0: none yet */
};

static int take_name(void *data, const struct place *at, const char *text, gb_error *err)
{
        struct list_taker *t = data;
        uint32_t where;

        int r = piece_text(t->piece, text, &where);
        if (r < 0)
                return error_set(err, GB_E_LIMIT, -r, "the rules are too large");
        if (t->first == 0)
                t->first = where;
        return 0;
}

int entry_list(struct piece *p, const struct entry *e, const char *key, uint32_t *ret, gb_error *err)
{
        struct list_taker t = {.piece = p};
        uint32_t end;

        int r = entry_texts(e, key, false, take_name, &t, err);
        if (r == 0 && t.first > 0 && piece_text(p, "", &end) < 0)
                r = error_set(err, GB_E_LIMIT, EFBIG, "the rules are too large");
        *ret = t.first;
        return r;
}

/* ---- examples ---- */

/* Text with "{}" taken out, so that a secret that is none does not stand in the file as one. */
static int add_joined(struct piece *p, const char *text, uint32_t *ret, uint32_t *ret_size)
{
        _cleanup_free_ char *joined = strdup(text);
        size_t n = 0;

        if (!joined)
                return -ENOMEM;
        for (const char *c = text; *c; c++)
                if (c[0] == '{' && c[1] == '}')
                        c++;
                else
                        joined[n++] = *c;
        joined[n] = '\0';
        *ret_size = (uint32_t)n;
        return piece_text(p, joined, ret);
}

static int add_example(struct piece *p, const struct entry *e, const struct place *at, struct rule_example *x, gb_error *err)
{
        const char *text = place_text(at), *language;
        int r = 0;

        if (e->is_shape && text) {
                r = add_joined(p, text, &x->text, &x->size);
        } else if (!e->is_shape && json_object_size(place_value(at)) == 1) {
                const json_t *value = place_value(at);
                language = json_object_iter_key(json_object_iter((json_t *)(uintptr_t)value));
                struct place code = {at->doc, value, language, 0};
                text = place_text(&code);
                if (!text)
                        return place_error(&code, NULL, err, "%s; code is wanted", place_kind(&code));
                r = piece_text(p, language, &x->language);
                if (r == 0)
                        r = piece_text(p, text, &x->text);
                x->size = (uint32_t)strlen(text);
        } else {
                return place_error(at, "examples", err, e->is_shape ? "a text is wanted" : "a mapping of one language to its code is wanted");
        }
        if (r == 0)
                r = buffer_add(&p->examples, x, sizeof(*x));
        return r < 0 ? error_set(err, GB_E_LIMIT, -r, "the rules are too large") : 0;
}

int piece_add_examples(struct piece *p, const struct entry *e, uint32_t rule, gb_error *err)
{
        static const char *const kinds[] = {"pass", "match"};
        const json_t *examples = json_object_get(e->rule, "examples");
        struct place at = entry_place(e, "examples");
        const char *key;
        json_t *value;

        if (!json_is_object(examples))
                return entry_error(e, err, "the key \"examples\" is missing: lists \"match\" and \"pass\"");
        json_object_foreach((json_t *)(uintptr_t)examples, key, value) {
                struct place in = {e->doc, examples, key, 0};
                if (strcmp(key, kinds[0]) != 0 && strcmp(key, kinds[1]) != 0)
                        return place_unknown_key(&in, kinds, ARRAY_SIZE(kinds), err);
        }
        for (uint32_t matches = 0; matches < 2; matches++) {
                const json_t *list = json_object_get(examples, kinds[matches]);
                if (json_array_size(list) == 0)
                        return place_error(&at, NULL, err, "at least one example under \"%s\" is wanted", kinds[matches]);
                for (size_t i = 0; i < json_array_size(list); i++) {
                        struct place item = {e->doc, list, NULL, i};
                        struct rule_example x = {.rule = rule, .is_shape = e->is_shape, .matches = matches};
                        int r = add_example(p, e, &item, &x, err);
                        if (r < 0)
                                return r;
                }
        }
        return 0;
}
