/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/compile/compile.h"

#include "base/quote.h"
#include "guard/scrub.h"

#include <errno.h>
#include <string.h>

static bool is_id(const char *text)
{
        size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");

        return n > 0 && text[n] == '\0' && n < SCRUB_NAME_MAX && text[0] != '-' && text[n - 1] != '-';
}

static const char *name_at(const struct place *at, const char *what, gb_error *err)
{
        const char *text = place_text(at);

        if (!text)
                place_error(at, NULL, err, "the name of %s is wanted", what);
        else if (!is_id(text))
                place_error(at, NULL, err, "%s is not a name; allowed: at most %d of a-z, 0-9 and -", quote(text).text, SCRUB_NAME_MAX - 1);
        return text && is_id(text) ? text : NULL;
}

static struct entry *find(struct entries *all, const char *id)
{
        for (size_t i = 0; i < all->n; i++)
                if (strcmp(all->rows[i].id, id) == 0)
                        return &all->rows[i];
        return NULL;
}

static int add(struct entries *all, const struct entry *e, gb_error *err)
{
        struct entry *before = find(all, e->id);

        if (before && e->is_extra && !before->is_extra && before->is_shape == e->is_shape) {
                *before = *e;
                return 0;
        }
        if (before)
                return entry_error(e, err, "there is a rule of this name already, in %s", quote_path(before->doc->name).text);
        if (all->n == RULES_MAX)
                return entry_error(e, err, "too many rules; at most %d", RULES_MAX);
        if (all->n == all->allocated) {
                size_t more = all->allocated ? 2 * all->allocated : 64;
                struct entry *grown = reallocarray(all->rows, more, sizeof(*grown));
                if (!grown)
                        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
                all->rows = grown;
                all->allocated = more;
        }
        all->rows[all->n++] = *e;
        return 0;
}

static int add_list(struct entries *all, const struct document *doc, const char *key, const char *set, bool is_extra, gb_error *err)
{
        const json_t *list = json_object_get(doc->yaml->root, key);
        struct place at = {doc, doc->yaml->root, key, 0};

        if (!list)
                return 0;
        if (!json_is_array(list))
                return place_error(&at, NULL, err, "%s; a list of rules is wanted", place_kind(&at));
        for (size_t i = 0; i < json_array_size(list); i++) {
                struct place item = {doc, list, NULL, i};
                const json_t *rule = place_value(&item);
                if (!json_is_object(rule) || !json_object_get(rule, "id"))
                        return place_error(&item, key, err, "a mapping with an \"id\" is wanted");
                struct entry e = {.doc = doc, .rule = rule, .set = set, .is_shape = strcmp(key, "secrets") == 0, .is_extra = is_extra};
                struct place id = entry_place(&e, "id");
                e.id = name_at(&id, "the rule", err);
                int r = e.id ? add(all, &e, err) : -EINVAL;
                if (r < 0)
                        return r;
        }
        return 0;
}

int entries_add(struct entries *all, const struct document *doc, bool is_extra, gb_error *err)
{
        static const char *const keys[] = {"set", "about", "code", "secrets"};
        const json_t *root = doc->yaml->root;
        struct place set = {doc, root, "set", 0}, top = {doc, NULL, NULL, 0};
        const char *key;
        json_t *value;

        if (!json_is_object(root) || !json_object_get(root, "set"))
                return place_error(&top, NULL, err, "a mapping with the keys set, about, and code or secrets is wanted");
        json_object_foreach((json_t *)(uintptr_t)root, key, value) {
                bool known = false;
                for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
                        known |= strcmp(key, keys[i]) == 0;
                struct place at = {doc, root, key, 0};
                if (!known)
                        return place_unknown_key(&at, keys, ARRAY_SIZE(keys), err);
        }
        const char *name = name_at(&set, "the set", err);
        if (!name)
                return -EINVAL;
        int r = add_list(all, doc, "code", name, is_extra, err);
        return r < 0 ? r : add_list(all, doc, "secrets", name, is_extra, err);
}
