/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/settings.h"

#include "base/parse.h"
#include "base/quote.h"
#include "cli/secrets.h"
#include "policy/network.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID_INSIDE_MAX 65533 /* 65534 is what the kernel shows for ids that are not mapped */

/* A list of controls, with commas. */
static int set_controls(struct policy *p, const char *key, const char *value, const char *what, gb_error *err)
{
        _cleanup_free_ char *list = strdup(value);
        if (!list)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");

        char *state = NULL;
        for (char *name = strtok_r(list, ",", &state); name; name = strtok_r(NULL, ",", &state)) {
                int r = policy_set(p, key, name, what, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int apply(struct policy *p, const struct option *o, const char *value, const char *what, gb_error *err)
{
        if (o->value == VALUE_OPTIONAL && !value)
                value = "true";
        if (o->id == OPT_ALLOW_WEAKER)
                return set_controls(p, o->key, value, what, err);
        return policy_set(p, o->key, value, what, err);
}

int settings_check_network(const struct arguments *a, gb_error *err)
{
        const char *mode = NULL;
        bool rules = false;

        for (size_t i = 0; i < a->n_uses; i++) {
                const char *key = a->uses[i].option.key;
                if (key && strcmp(key, "network_mode") == 0)
                        mode = a->uses[i].value;
                if (key && strcmp(key, "network_allow") == 0)
                        rules = true;
        }
        if (!rules || !mode || strcmp(mode, network_mode_name(NETWORK_ALLOWLIST)) == 0)
                return 0;
        return error_set(err, GB_E_USAGE, EINVAL, "--allow says what the network may reach, and --network %s says otherwise: leave one of them out", mode);
}

/* A flag that changes nothing was meant otherwise. Files may have it, for those who add the list. */
static int check_limits_of_network(const struct arguments *a, const struct policy *p, gb_error *err)
{
        static const char *const keys[] = {"network_ranges", "network_bytes", "network_requests", "network_connections"};

        if (p->network_mode == NETWORK_ALLOWLIST)
                return 0;
        for (size_t i = 0; i < a->n_uses; i++)
                for (size_t k = 0; a->uses[i].option.key && k < ARRAY_SIZE(keys); k++)
                        if (strcmp(a->uses[i].option.key, keys[k]) == 0)
                                return error_set(err, GB_E_USAGE, EINVAL,
                                                 "--%s is for a network with an allowlist, and the network is %s: add --allow RULE or --network allowlist",
                                                 a->uses[i].option.name, network_mode_name(p->network_mode));
        return 0;
}

int settings_policy(const struct option_set *set, const struct arguments *a, struct policy **ret, gb_error *err)
{
        _cleanup_policy_ struct policy *p = NULL;
        struct option o;

        int r = settings_check_network(a, err);
        if (r == 0)
                r = policy_load(arguments_get_or_env(set, a, OPT_POLICY), arguments_get_or_env(set, a, OPT_TRUST), &p, err);
        for (size_t i = 0; r == 0 && options_next(set, &i, &o);) {
                const char *value = o.key && o.env ? getenv(o.env) : NULL;
                if (value && *value)
                        r = apply(p, &o, value, o.env, err);
        }
        for (size_t i = 0; r == 0 && i < a->n_uses; i++) {
                const struct option_use *use = &a->uses[i];
                char what[64];
                if (!use->option.key)
                        continue;
                snprintf(what, sizeof(what), "--%s", use->option.name);
                r = apply(p, &use->option, use->value, what, err);
        }
        if (r == 0)
                r = check_limits_of_network(a, p, err);
        if (r == 0)
                r = secrets_read(a, p, err);
        if (r == 0)
                r = policy_validate(p, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(p);
        return 0;
}

int settings_user(const char *text, uid_t *ret_uid, gid_t *ret_gid, gb_error *err)
{
        char uid_text[16];
        uint64_t uid, gid;
        size_t length = strcspn(text, ":");

        snprintf(uid_text, sizeof(uid_text), "%.*s", (int)MIN(length, sizeof(uid_text)), text);
        const char *gid_text = text[length] == ':' ? text + length + 1 : uid_text;
        if (length >= sizeof(uid_text) || parse_count(uid_text, &uid) < 0 || parse_count(gid_text, &gid) < 0)
                return error_set(err, GB_E_USAGE, 0, "--user takes UID or UID:GID in numbers, not %s", quote(text).text);
        if (uid == 0 || gid == 0)
                return error_set(err, GB_E_USAGE, 0, "--user %s: nothing runs as root (0) in a box; take 1 to %d", text,
                                 ID_INSIDE_MAX);
        if (uid > ID_INSIDE_MAX || gid > ID_INSIDE_MAX)
                return error_set(err, GB_E_USAGE, 0, "--user %s: ids in a box are 1 to %d", quote(text).text,
                                 ID_INSIDE_MAX);
        *ret_uid = (uid_t)uid;
        *ret_gid = (gid_t)gid;
        return 0;
}
