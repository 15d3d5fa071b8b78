/* SPDX-License-Identifier: Apache-2.0
 *
 * The policy file. For each trust level a policy is made from scratch: the option table's
 * defaults, then the top level of the file, then the level's own keys, each replacing what was
 * there. All levels are made and checked, so that a file with a mistake in a level nobody asked
 * for is refused as well; the one that was asked for is kept. */
#include "policy/file.h"

#include "base/path.h"
#include "base/suggest.h"
#include "base/quote.h"
#include "base/document.h"
#include "policy/list.h"
#include "policy/network.h"
#include "policy/option.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TRUST_NAME_MAX 32

/* Used when no file is installed. config/sandbox.yaml says the same; a test compares them. */
static const char builtin_text[] = "trust_levels:\n"
                                   "  untrusted: {mem_limit: 256m, timeout: 10s, timeout_max: 60s, pids_limit: 64, disk_limit: 50m}\n"
                                   "  standard: {}\n"
                                   "  trusted: {cpu_count: 2, mem_limit: 1g, timeout: 120s, guard: off}\n";

struct reader {
        const struct document *doc;
        struct policy *policy;
        gb_error *err;
};

struct special {
        const char *key;
        int (*read)(struct reader *rd, const struct place *at); /* NULL: read elsewhere */
        bool top_only;
};

static int read_fixed_list(struct reader *rd, const struct place *at, const char *only, const char *why)
{
        const json_t *list = place_value(at);
        struct place item = {rd->doc, list, NULL, 0};

        if (json_is_array(list) && json_array_size(list) == 1 && place_text(&item) && strcmp(place_text(&item), only) == 0)
                return 0;
        return place_error(at, NULL, rd->err, "allowed: exactly [%s]; %s", only, why);
}

static int read_cap_drop(struct reader *rd, const struct place *at)
{
        return read_fixed_list(rd, at, "ALL", "all capabilities are always dropped");
}

static int read_security_opt(struct reader *rd, const struct place *at)
{
        return read_fixed_list(rd, at, "no-new-privileges", "new privileges are always refused");
}

static int read_mount_map(struct reader *rd, const struct place *at)
{
        static const char *const names[] = {"source", "target", "read_only", "hide"};
        const json_t *map = place_value(at);
        const char *text[4] = {NULL, NULL, "true", "false"};
        const char *key;
        json_t *value;

        json_object_foreach((json_t *)map, key, value) {
                struct place field = {rd->doc, map, key, 0};
                size_t i = 0;
                while (i < ARRAY_SIZE(names) && strcmp(names[i], key) != 0)
                        i++;
                if (i == ARRAY_SIZE(names))
                        return place_unknown_key(&field, names, ARRAY_SIZE(names), rd->err);
                text[i] = place_text(&field);
                if (!text[i])
                        return place_error(&field, NULL, rd->err, "%s; allowed: %s", place_kind(&field),
                                           i >= 2 ? "true or false" : "a path");
                if (i >= 2 && strcmp(text[i], "true") != 0 && strcmp(text[i], "false") != 0)
                        return place_error(&field, NULL, rd->err, "%s; allowed: true or false", quote(text[i]).text);
        }
        if (!text[0] || !text[1])
                return place_error(at, "mounts", rd->err, "a mount needs source and target");
        bool writable = text[2][0] == 'f', hides = text[3][0] == 't';
        if (writable && hides)
                return place_error(at, "mounts", rd->err, "a mount that hides credential files is read-only");
        if (mount_add(rd->policy, text[0], text[1], hides ? MOUNT_HIDE : writable ? MOUNT_RW : MOUNT_RO, rd->err) < 0)
                return place_fail(at, "mounts", rd->err);
        return 0;
}

static int read_mounts(struct reader *rd, const struct place *at)
{
        const json_t *list = place_value(at);

        if (!json_is_array(list))
                return place_error(at, NULL, rd->err, "%s; allowed: a list of SOURCE:TARGET[:ro|:rw|:hide] or {source, target, read_only, hide}",
                                   place_kind(at));
        mounts_clear(rd->policy);
        for (size_t i = 0; i < json_array_size(list); i++) {
                struct place item = {rd->doc, list, NULL, i};
                int r = 0;

                if (json_is_object(place_value(&item)))
                        r = read_mount_map(rd, &item);
                else if (!place_text(&item))
                        r = place_error(&item, "mounts", rd->err, "%s; allowed: SOURCE:TARGET[:ro|:rw|:hide] or {source, target, read_only, hide}",
                                        place_kind(&item));
                else if (mount_add_text(rd->policy, place_text(&item), NULL, rd->err) < 0)
                        r = place_fail(&item, "mounts", rd->err);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int read_env(struct reader *rd, const struct place *at)
{
        const json_t *map = place_value(at);
        const char *key;
        json_t *value;

        if (!json_is_object(map))
                return place_error(at, NULL, rd->err, "%s; allowed: a mapping of NAME: value", place_kind(at));
        env_clear(rd->policy);
        json_object_foreach((json_t *)map, key, value) {
                struct place item = {rd->doc, map, key, 0};

                if (!place_text(&item))
                        return place_error(&item, "env", rd->err, "%s is %s; allowed: a text or number, \"\" for an empty one",
                                           quote(key).text, place_kind(&item));
                if (env_add(rd->policy, key, place_text(&item), rd->err) < 0)
                        return place_fail(&item, "env", rd->err);
        }
        return 0;
}

static int read_allow_weaker(struct reader *rd, const struct place *at)
{
        const json_t *list = place_value(at);

        if (!json_is_array(list))
                return place_error(at, NULL, rd->err, "%s; allowed: a list of controls, such as [cgroup]", place_kind(at));
        rd->policy->allow_weaker = 0;
        for (size_t i = 0; i < json_array_size(list); i++) {
                struct place item = {rd->doc, list, NULL, i};
                uint32_t mask;

                if (!place_text(&item))
                        return place_error(&item, "allow_weaker", rd->err, "%s; allowed: names of controls", place_kind(&item));
                if (control_weaker_mask(place_text(&item), &mask, rd->err) < 0)
                        return place_fail(&item, "allow_weaker", rd->err);
                rd->policy->allow_weaker |= mask;
        }
        return 0;
}

static int read_rules(struct reader *rd, const struct place *at)
{
        const json_t *map = place_value(at);
        const char *key;
        json_t *value;

        if (!json_is_object(map))
                return place_error(at, NULL, rd->err, "%s; allowed: a mapping of rules or sets to off, log, warn or block", place_kind(at));
        rules_clear(rd->policy);
        json_object_foreach((json_t *)map, key, value) {
                struct place item = {rd->doc, map, key, 0};

                if (!place_text(&item))
                        return place_error(&item, "guard_rules", rd->err, "%s; allowed: off, log, warn, block", place_kind(&item));
                if (rule_add(rd->policy, key, place_text(&item), rd->err) < 0)
                        return place_fail(&item, "guard_rules", rd->err);
        }
        return 0;
}

static int read_imports(struct reader *rd, const struct place *at)
{
        const json_t *list = place_value(at);

        if (!json_is_array(list))
                return place_error(at, NULL, rd->err, "%s; allowed: a list of Python modules", place_kind(at));
        imports_clear(rd->policy);
        rd->policy->has_imports = true;
        for (size_t i = 0; i < json_array_size(list); i++) {
                struct place item = {rd->doc, list, NULL, i};

                if (!place_text(&item))
                        return place_error(&item, "guard_imports", rd->err, "%s; allowed: names of modules", place_kind(&item));
                if (import_add(rd->policy, place_text(&item), rd->err) < 0)
                        return place_fail(&item, "guard_imports", rd->err);
        }
        return 0;
}

static int read_allow(struct reader *rd, const struct place *at)
{
        const json_t *list = place_value(at);

        if (!json_is_array(list))
                return place_error(at, NULL, rd->err, "%s; allowed: a list of rules, such as [pypi.org:443, \"*.a.com\", python-packages], [] for none", place_kind(at));
        if (rd->policy->network_is_whitelist && json_array_size(list) == 0)
                return 0; /* no rules are named */
        network_allow_clear(rd->policy);
        for (size_t i = 0; i < json_array_size(list); i++) {
                struct place item = {rd->doc, list, NULL, i};

                if (network_allow_add_json(rd->policy, json_array_get(list, i), true, rd->err) < 0)
                        return place_fail(&item, "network_allow", rd->err);
        }
        return 0;
}

static int read_ranges(struct reader *rd, const struct place *at)
{
        const json_t *list = place_value(at);

        if (!json_is_array(list))
                return place_error(at, NULL, rd->err, "%s; allowed: a list of ranges of addresses, such as [10.1.2.0/24]", place_kind(at));
        rd->policy->n_network_ranges = 0;
        for (size_t i = 0; i < json_array_size(list); i++) {
                struct place item = {rd->doc, list, NULL, i};

                if (!place_text(&item))
                        return place_error(&item, "network_ranges", rd->err, "%s; allowed: ranges of addresses, such as 10.1.2.0/24", place_kind(&item));
                if (network_range_add_text(rd->policy, place_text(&item), rd->err) < 0)
                        return place_fail(&item, "network_ranges", rd->err);
        }
        return 0;
}

static const struct special specials[] = {
        {"cap_drop", read_cap_drop, false},
        {"security_opt", read_security_opt, false},
        {"mounts", read_mounts, false},
        {"env", read_env, false},
        {"allow_weaker", read_allow_weaker, false},
        {"guard_rules", read_rules, false},
        {"guard_imports", read_imports, false},
        {"network_allow", read_allow, false},
        {"network_ranges", read_ranges, false},
        {"default_trust", NULL, true},
        {"trust_levels", NULL, true},
};

static int unknown_key(struct reader *rd, const struct place *at, bool top)
{
        const char *names[ARRAY_SIZE(specials) + 32];
        size_t n = 0;

        for (size_t i = 0; i < n_policy_options && n < 32; i++)
                names[n++] = policy_options[i].key;
        for (size_t i = 0; i < ARRAY_SIZE(specials); i++)
                if (top || !specials[i].top_only)
                        names[n++] = specials[i].key;
        return place_unknown_key(at, names, n, rd->err);
}

static int read_option(struct reader *rd, const struct place *at, const struct policy_option *o)
{
        const char *text = place_text(at);
        char range[POLICY_RANGE_MAX];

        if (!text)
                return place_error(at, NULL, rd->err, "%s; allowed: %s", place_kind(at), policy_option_range(o, range));
        return option_apply(o, rd->policy, text, rd->err) < 0 ? place_fail(at, NULL, rd->err) : 0;
}

static int read_key(struct reader *rd, const struct place *at, bool top)
{
        const struct policy_option *o = policy_option_by_key(at->key);

        if (o)
                return read_option(rd, at, o);
        for (size_t i = 0; i < ARRAY_SIZE(specials); i++) {
                if (strcmp(specials[i].key, at->key) != 0)
                        continue;
                if (specials[i].top_only && !top)
                        return place_error(at, NULL, rd->err, "stands only at the top level, not in a trust level");
                return specials[i].read ? specials[i].read(rd, at) : 0;
        }
        return unknown_key(rd, at, top);
}

static int read_map(struct reader *rd, const json_t *map, bool top)
{
        const char *key;
        json_t *value;

        json_object_foreach((json_t *)map, key, value) {
                int r = read_key(rd, &(struct place){rd->doc, map, key, 0}, top);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Where the value of key came from that a level ended up with: the level, the top, or, when it
 * is a default, the key that clashes with it. */
static struct place giver(const struct reader *rd, const json_t *level, const char *key, const char *other)
{
        const json_t *root = rd->doc->yaml->root;
        const char *const keys[] = {key, other};

        for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
                if (json_object_get(level, keys[i]))
                        return (struct place){rd->doc, level, keys[i], 0};
                if (json_object_get(root, keys[i]))
                        return (struct place){rd->doc, root, keys[i], 0};
        }
        return (struct place){rd->doc, NULL, NULL, 0};
}

static int check_joint_rules(struct reader *rd, const json_t *level)
{
        if (policy_check_timeout(rd->policy, rd->err) < 0) {
                struct place at = giver(rd, level, "timeout", "timeout_max");
                return place_fail(&at, "timeout", rd->err);
        }
        if (policy_check_network(rd->policy, rd->err) < 0) {
                struct place at = giver(rd, level, "network_mode", "network_mode");
                return place_fail(&at, "network_mode", rd->err);
        }
        if (policy_check_places(rd->policy, rd->err) < 0) {
                struct place at = giver(rd, level, "scratch_only", "read_only");
                return place_fail(&at, "scratch_only", rd->err);
        }
        if (policy_check_backend(rd->policy, rd->err) < 0) {
                struct place at = giver(rd, level, "runtime", "backend");
                return place_fail(&at, "runtime", rd->err);
        }
        return 0;
}

/* level may be NULL: the top level as it stands. */
static int resolve(const struct document *doc, const char *trust, const json_t *level, struct policy **ret, gb_error *err)
{
        _cleanup_policy_ struct policy *p = NULL;

        int r = policy_new(&p, err);
        if (r < 0)
                return r;
        p->origin = strdup(doc->name);
        p->trust = strdup(trust);
        if (!p->origin || !p->trust)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");

        struct reader rd = {doc, p, err};
        r = read_map(&rd, doc->yaml->root, true);
        if (r == 0 && level)
                r = read_map(&rd, level, false);
        if (r == 0)
                r = check_joint_rules(&rd, level);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(p);
        return 0;
}

static int check_trust_name(const struct place *at, const char *name, gb_error *err)
{
        size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");

        if (name[n] == '\0' && n > 0 && n <= TRUST_NAME_MAX && name[0] >= 'a' && name[0] <= 'z')
                return 0;
        return place_error(at, "trust_levels", err,
                           "%s is not a name; allowed: a small letter, then small letters, digits, _ and -, at most %d in all",
                           quote(name).text, TRUST_NAME_MAX);
}

static int check_levels(const struct document *doc, const json_t *levels, gb_error *err)
{
        struct place at = {doc, doc->yaml->root, "trust_levels", 0};
        const char *name;
        json_t *level;

        if (!json_is_object(levels))
                return place_error(&at, NULL, err, "%s; allowed: a mapping of names to their keys", place_kind(&at));
        if (json_object_size(levels) > TRUST_LEVELS_MAX)
                return place_error(&at, NULL, err, "too many; at most %d", TRUST_LEVELS_MAX);
        json_object_foreach((json_t *)levels, name, level) {
                struct place one = {doc, levels, name, 0};
                int r = check_trust_name(&one, name, err);
                if (r < 0)
                        return r;
                if (!json_is_object(level) && !json_is_null(level))
                        return place_error(&one, NULL, err, "%s; allowed: a mapping of keys, {} for none", place_kind(&one));
        }
        return 0;
}

/* Says that there is no level of that name, and which there are. */
static int no_such_level(const struct document *doc, const json_t *levels, const char *trust, gb_error *err)
{
        const char *names[TRUST_LEVELS_MAX + 1] = {TRUST_DEFAULT};
        char list[240] = TRUST_DEFAULT, *end = list + strlen(list);
        size_t n = 1;
        const char *name;
        json_t *level;

        json_object_foreach((json_t *)levels, name, level) {
                if (strcmp(name, TRUST_DEFAULT) == 0)
                        continue;
                names[n++] = name;
                if (strlen(name) + 3 < (size_t)(list + sizeof(list) - end))
                        end += sprintf(end, ", %s", name);
        }
        const char *nearest = suggest_nearest(trust, names, n);
        return error_set(err, GB_E_USAGE, ENOENT, "there is no trust level %s in %s%s%s%s%s", quote(trust).text,
                         quote_path(doc->name).text, nearest ? "; did you mean \"" : "", nearest ? nearest : "",
                         nearest ? "\"? There are: " : "; there are: ", list);
}

/* The level a file resolves to when nobody names one. */
static int read_default_trust(const struct document *doc, const json_t *levels, const char **ret, gb_error *err)
{
        struct place at = {doc, doc->yaml->root, "default_trust", 0};

        *ret = TRUST_DEFAULT;
        if (!json_object_get(doc->yaml->root, "default_trust"))
                return 0;
        const char *name = place_text(&at);
        if (!name)
                return place_error(&at, NULL, err, "%s; allowed: the name of a trust level", place_kind(&at));
        if (strcmp(name, TRUST_DEFAULT) != 0 && !json_object_get(levels, name)) {
                no_such_level(doc, levels, name, err);
                return place_fail(&at, NULL, err);
        }
        *ret = name;
        return 0;
}

static int policy_from_document(const struct document *doc, const char *trust, struct policy **ret, gb_error *err)
{
        _cleanup_policy_ struct policy *chosen = NULL, *standard = NULL;
        const json_t *root = doc->yaml->root, *levels = json_object_get(root, "trust_levels");
        const char *name, *preset;
        json_t *level;

        if (!json_is_object(root) && !json_is_null(root)) {
                struct place at = {doc, NULL, NULL, 0};
                return place_error(&at, NULL, err, "%s; allowed: a mapping of keys", place_kind(&at));
        }
        /* First the top level alone, so that its mistakes are told before those of a level. */
        int r = resolve(doc, TRUST_DEFAULT, json_object_get(levels, TRUST_DEFAULT), &standard, err);
        if (r == 0 && levels)
                r = check_levels(doc, levels, err);
        if (r == 0)
                r = read_default_trust(doc, levels, &preset, err);
        if (r < 0)
                return r;
        trust = trust ? trust : preset;
        json_object_foreach((json_t *)levels, name, level) {
                _cleanup_policy_ struct policy *p = NULL;

                r = resolve(doc, name, level, &p, err);
                if (r < 0)
                        return r;
                if (strcmp(name, trust) == 0)
                        chosen = TAKE_PTR(p);
        }
        if (!chosen && strcmp(trust, TRUST_DEFAULT) == 0)
                chosen = TAKE_PTR(standard);
        if (!chosen)
                return no_such_level(doc, levels, trust, err);
        *ret = TAKE_PTR(chosen);
        return 0;
}

int policy_parse(const char *name, const char *text, size_t size, const char *trust, struct policy **ret, gb_error *err)
{
        _cleanup_document_ struct document *doc = NULL;

        int r = document_parse(name, text, size, &doc, err);
        return r < 0 ? r : policy_from_document(doc, trust, ret, err);
}

/* The file, or what stands for one that need not be there. */
static int open_document(const char *file, struct document **ret, gb_error *err)
{
        _cleanup_free_ char *path = NULL;
        int r;

        if (!file) {
                r = policy_default_path(&path);
                if (r < 0)
                        return error_set(err, GB_E_INTERNAL, -r, "out of memory");
        }
        r = document_read(file ? file : path, ret, err);
        if (r == -ENOENT && !file && path_config_is_optional())
                return document_parse("built-in", builtin_text, strlen(builtin_text), ret, err);
        return r;
}

int policy_load(const char *file, const char *trust, struct policy **ret, gb_error *err)
{
        _cleanup_document_ struct document *doc = NULL;

        int r = open_document(file, &doc, err);
        return r < 0 ? r : policy_from_document(doc, trust, ret, err);
}

void policy_levels_done(struct policy_levels *l)
{
        while (l->n > 0)
                policy_free(l->rows[--l->n]);
}

int policy_load_levels(const char *file, struct policy_levels *ret, gb_error *err)
{
        _cleanup_document_ struct document *doc = NULL;
        _cleanup_policy_ struct policy *checked = NULL;
        _cleanup_(policy_levels_done) struct policy_levels l = {0};
        const char *name;
        json_t *level;

        int r = open_document(file, &doc, err);
        if (r == 0)
                r = policy_from_document(doc, NULL, &checked, err); /* all of them, and how many */
        if (r < 0)
                return r;
        const json_t *levels = json_object_get(doc->yaml->root, "trust_levels");
        if (!json_object_get(levels, TRUST_DEFAULT))
                r = resolve(doc, TRUST_DEFAULT, NULL, &l.rows[l.n++], err);
        json_object_foreach((json_t *)levels, name, level) {
                if (r == 0)
                        r = resolve(doc, name, level, &l.rows[l.n++], err);
        }
        if (r < 0)
                return r;
        *ret = l;
        l.n = 0;
        return 0;
}
