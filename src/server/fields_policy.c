/* SPDX-License-Identifier: Apache-2.0
 *
 * The policy of a request: that of a trust level of the server's file, with what the caller wants otherwise. Values take the same way as those of
 * flags: as text, through policy_set(). What reaches the host (mounts, its network), reaches more of the network than the level, weakens a box, or looks at code
 * less strictly is for callers through the unix socket, who could do all that themselves. */
#include "server/fields.h"

#include "base/json.h"
#include "base/parse.h"
#include "base/quote.h"
#include "server/config.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_MAX 1e15 /* of what is not whole: the product with a million is exact enough, and does not overflow */

/* A number as the text that the key's own parser reads; -EINVAL for what is none of its kind. */
static int number_text(const struct policy_option *o, const json_t *value, char ret[static FORMAT_MAX])
{
        double number = json_number_value(value);

        if (json_is_integer(value)) {
                snprintf(ret, FORMAT_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
                return 0;
        }
        if (!isfinite(number) || number < 0 || number > NUMBER_MAX)
                return -ERANGE;
        if (o->type == OPTION_DURATION)
                format_duration((uint64_t)llround(number * 1e6), ret);
        else if (o->type == OPTION_CPUS)
                format_cpus((uint64_t)llround(number * 1e3), ret);
        else
                return -EINVAL;
        return 0;
}

/* "5" is a number that lost its way: whether it means seconds only the sender knows. */
static bool has_unit(const struct policy_option *o, const char *text)
{
        size_t n = strlen(text);

        return o->type != OPTION_DURATION || (n > 0 && isalpha((unsigned char)text[n - 1]));
}

static int set_option(struct fields *f, struct policy *p, const struct policy_option *o, const json_t *value, gb_error *err)
{
        char text[FORMAT_MAX], what[FIELD_NAME_MAX];
        const char *given = text;
        bool is_switch = o->type == OPTION_BOOL, is_number = !is_switch && !policy_option_is_word(o);

        if (is_switch && json_is_boolean(value))
                strcpy(text, json_is_true(value) ? "true" : "false");
        else if (is_number && json_is_number(value)) {
                int r = number_text(o, value, text);
                if (r < 0)
                        return fields_error(f, o->key, r == -ERANGE ? GB_E_LIMIT : GB_E_USAGE, err, "%s",
                                            r == -ERANGE ? "out of range" : "a whole number is wanted");
        } else if (!is_switch && json_is_string(value) && has_unit(o, json_string_value(value)))
                given = json_string_value(value);
        else
                return fields_error(f, o->key, GB_E_USAGE, err, "%s is wanted", is_switch ? "true or false" : is_number ? "a number, or text with a unit," : "text");
        snprintf(what, sizeof(what), "%s%s", f->prefix, o->key);
        int r = policy_set(p, o->key, given, what, err);
        if (r < 0)
                snprintf(f->wrong, sizeof(f->wrong), "%s", what);
        return r;
}

static int set_env(struct fields *f, struct policy *p, const json_t *value, gb_error *err)
{
        const char *name;
        json_t *text;

        if (!json_is_object(value))
                return fields_error(f, "env", GB_E_USAGE, err, "an object of texts is wanted");
        json_object_foreach((json_t *)(uintptr_t)value, name, text) {
                _cleanup_free_ char *pair = NULL;
                if (!json_is_string(text) || strchr(name, '='))
                        return fields_error(f, "env", GB_E_USAGE, err, "%s: a name without \"=\" and a text are wanted", quote(name).text);
                if (asprintf(&pair, "%s=%s", name, json_string_value(text)) < 0) {
                        pair = NULL;
                        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
                }
                int r = policy_set(p, "env", pair, "policy.env", err);
                if (r < 0) {
                        snprintf(f->wrong, sizeof(f->wrong), "policy.env");
                        return r;
                }
        }
        return 0;
}

static int set_list(struct fields *f, struct policy *p, const char *key, const json_t *value, gb_error *err)
{
        char what[FIELD_NAME_MAX];

        if (!json_is_array(value))
                return fields_error(f, key, GB_E_USAGE, err, "a list of texts is wanted");
        snprintf(what, sizeof(what), "%s%s", f->prefix, key);
        for (size_t i = 0; i < json_array_size(value); i++) {
                const char *item = json_string_value(json_array_get(value, i));
                if (!item)
                        return fields_error(f, key, GB_E_USAGE, err, "a list of texts is wanted");
                /* There is no directory that a relative path could be relative to. */
                if (strcmp(key, "mounts") == 0 && item[0] != '/')
                        return fields_error(f, key, GB_E_USAGE, err, "%s must begin with /", quote(item).text);
                int r = policy_set(p, key, item, what, err);
                if (r < 0) {
                        snprintf(f->wrong, sizeof(f->wrong), "%s", what);
                        return r;
                }
        }
        return 0;
}

/* Whether only who could do it himself may ask for it. */
static bool needs_local(const struct policy *p, const char *key, const json_t *value)
{
        const char *text = json_string_value(value);

        if (strcmp(key, "network_mode") == 0)
                return !text || (strcmp(text, "none") != 0 && strcmp(text, "allowlist") != 0);
        return strcmp(key, "mounts") == 0 || strcmp(key, "rootfs") == 0 || strcmp(key, "allow_weaker") == 0 ||
               (strcmp(key, "read_only") == 0 && json_is_false(value)) ||
               (strcmp(key, "scratch_only") == 0 && json_is_false(value) && p->scratch_only);
}

static int set_key(struct fields *f, struct policy *p, const struct caller *caller, const char *key, const json_t *value, gb_error *err)
{
        const struct policy_option *o = policy_option_by_key(key);

        if (strcmp(key, "trust") == 0)
                return 0;
        if (needs_local(p, key, value) && !caller->local)
                return fields_error(f, key, GB_E_DENIED, err, "this is for callers through the server's unix socket");
        if (strcmp(key, "env") == 0)
                return set_env(f, p, value, err);
        if (strcmp(key, "mounts") == 0 || strcmp(key, "allow_weaker") == 0)
                return set_list(f, p, key, value, err);
        if (strcmp(key, "guard_rules") == 0)
                return fields_guard_rules(f, p, value, err);
        if (strcmp(key, "guard_imports") == 0)
                return fields_guard_imports(f, p, value, err);
        if (strcmp(key, "network_allow") == 0)
                return fields_network_allow(f, key, p, err);
        if (strcmp(key, "network_ranges") == 0)
                return fields_network_ranges(f, key, p, err);
        if (!o)
                return fields_unknown(f, key, NULL, err);
        return set_option(f, p, o, value, err);
}

/* ---- what the operator lets callers choose ---- */

static bool is_listed(char *const *names, size_t n, const char *name)
{
        for (size_t i = 0; i < n; i++)
                if (strcmp(names[i], name) == 0 || strcmp(names[i], SERVER_ANY) == 0)
                        return true;
        return false;
}

/* Two names of the same: the default image of an engine has one. */
static bool is_same(const char *a, const char *b, const char *fallback)
{
        return strcmp(a ? a : fallback, b ? b : fallback) == 0;
}

static int refuse_choice(struct fields *f, const char *key, const char *value, const char *list, gb_error *err)
{
        return fields_error(f, key, GB_E_DENIED, err, "%s is not among what callers of this server may choose: \"%s\" of its server.yaml says what is", quote(value).text,
                            list);
}

/* level: the policy as the operator has it. A caller who takes another backend leaves the names behind that were meant for the first. */
static int check_choice(struct fields *f, const struct server_config *c, const struct policy *level, struct policy *p, gb_error *err)
{
        bool same = p->backend == level->backend;
        const char *runtime = same ? level->runtime : NULL, *image = same ? level->image : NULL;
        const char *fallback = p->backend == BACKEND_DOCKER ? IMAGE_DEFAULT : NAME_DEFAULT;
        int r = 0;

        if (!same && !is_listed(c->backends, c->n_backends, backend_kind_name(p->backend)))
                return refuse_choice(f, "backend", backend_kind_name(p->backend), "backends", err);
        if (!same && !json_object_get(f->object, "runtime"))
                r = policy_set(p, "runtime", NAME_DEFAULT, "policy.runtime", err);
        if (r == 0 && !same && !json_object_get(f->object, "image"))
                r = policy_set(p, "image", NAME_DEFAULT, "policy.image", err);
        if (r < 0)
                return r;
        if (!is_same(p->runtime, runtime, NAME_DEFAULT) && !is_listed(c->runtimes, c->n_runtimes, p->runtime ? p->runtime : NAME_DEFAULT))
                return refuse_choice(f, "runtime", p->runtime ? p->runtime : NAME_DEFAULT, "runtimes", err);
        if (!is_same(p->image, image, fallback) && !is_listed(c->images, c->n_images, p->image ? p->image : NAME_DEFAULT))
                return refuse_choice(f, "image", p->image ? p->image : NAME_DEFAULT, "images", err);
        return 0;
}

static int load_level(struct fields *f, struct live *l, const char *trust, const struct policy **ret_level, struct policy **ret, gb_error *err)
{
        int r = live_policy(l, trust, ret_level, err);
        if (r < 0) {
                snprintf(f->wrong, sizeof(f->wrong), "policy.trust");
                return r;
        }
        *ret = policy_copy(*ret_level);
        return *ret ? 0 : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
}

/* What a request may ask for is less than what the file of the operator may have. */
static int check_output(struct fields *f, const struct policy *p, gb_error *err)
{
        char max[FORMAT_MAX];

        if (!json_object_get(f->object, "output_limit") || p->output_limit_bytes <= RUN_OUTPUT_MAX)
                return 0;
        return fields_error(f, "output_limit", GB_E_LIMIT, err, "a request may ask for %s at most", format_size(RUN_OUTPUT_MAX, max));
}

int fields_policy(struct fields *f, struct live *l, const struct caller *caller, struct policy **ret, gb_error *err)
{
        struct fields inner = {.prefix = "policy."};
        _cleanup_policy_ struct policy *p = NULL;
        const struct policy *level = NULL;
        const char *key, *trust = NULL;
        json_t *value;

        int r = fields_object(f, "policy", &inner.object, err);
        if (r == 0 && inner.object)
                r = fields_text(&inner, "trust", &trust, NULL, err);
        if (r == 0)
                r = load_level(&inner, l, trust, &level, &p, err);
        if (r == 0 && inner.object)
                json_object_foreach((json_t *)(uintptr_t)inner.object, key, value) {
                        r = set_key(&inner, p, caller, key, value, err);
                        if (r < 0)
                                break;
                }
        if (r == 0 && inner.object) {
                r = check_output(&inner, p, err);
                if (r == 0)
                        r = check_choice(&inner, live_config(l), level, p, err);
                if (r == 0 && !caller->local)
                        r = fields_guard_check(&inner, level, p, err);
                if (r == 0)
                        r = fields_network_check(&inner, caller, level, p, err);
                if (r == 0)
                        r = policy_validate(p, err);
        }
        if (r < 0) {
                if (inner.wrong[0])
                        memcpy(f->wrong, inner.wrong, sizeof(f->wrong));
                return r;
        }
        *ret = TAKE_PTR(p);
        return 0;
}
