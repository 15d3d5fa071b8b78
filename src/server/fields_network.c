/* SPDX-License-Identifier: Apache-2.0
 *
 * What a caller may want of the network: callers through the unix socket anything, others what is within what the operator's policy lets pass at the trust level. A
 * list in a request takes the place of the level's: so less of it can be asked for. */
#include "server/fields.h"

#include "policy/network.h"

#include <stdio.h>
#include <string.h>

int fields_network_allow(struct fields *f, const char *key, struct policy *p, gb_error *err)
{
        const json_t *value = json_object_get(f->object, key), *item;
        gb_error why = {0};
        size_t i;

        if (!json_is_array(value))
                return fields_error(f, key, GB_E_USAGE, err, "a list of rules is wanted; an empty one lets nothing pass");
        network_allow_clear(p);
        json_array_foreach((json_t *)(uintptr_t)value, i, item) {
                if (network_allow_add_json(p, item, false, &why) < 0)
                        return fields_error(f, key, (gb_error_code)why.code, err, "%s", why.message);
        }
        return 0;
}

int fields_network_ranges(struct fields *f, const char *key, struct policy *p, gb_error *err)
{
        _cleanup_free_ char **words = NULL;
        gb_error why = {0};

        int r = fields_words(f, key, NETWORK_RANGES_MAX, &words, err);
        if (r < 0)
                return r;
        p->n_network_ranges = 0;
        for (size_t i = 0; words && words[i]; i++)
                if (network_range_add_text(p, words[i], &why) < 0)
                        return fields_error(f, key, (gb_error_code)why.code, err, "%s", why.message);
        return 0;
}

/* The field that an error of network_narrow() is about. */
static const char *field_of(const struct fields *f, const char *message)
{
        static const char *const keys[] = {"network_bytes", "network_requests", "network_connections"};

        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
                if (strncmp(message, keys[i], strlen(keys[i])) == 0)
                        return keys[i];
        if (strncmp(message, "the range", 9) == 0)
                return "network_ranges";
        return json_object_get(f->object, "network_allow") && strncmp(message, "the network ", 12) != 0 ? "network_allow" : "network_mode";
}

int fields_network_check(struct fields *f, const struct caller *caller, const struct policy *level, struct policy *p, gb_error *err)
{
        bool has_rules = json_object_get(f->object, "network_allow"), has_mode = json_object_get(f->object, "network_mode");
        gb_error why = {0};

        /* Who lists what may be reached wants that and nothing else. */
        if (has_rules && !has_mode)
                p->network_mode = NETWORK_ALLOWLIST;
        if (has_rules && p->n_network_allow > 0 && p->network_mode != NETWORK_ALLOWLIST)
                return fields_error(f, "network_allow", GB_E_USAGE, err, "rules are for network_mode allowlist, and it is %s: leave one of them out",
                                    network_mode_name(p->network_mode));
        if (caller->local || network_narrow(p, level, &why) == 0)
                return 0;
        const char *key = field_of(f, why.message);
        if (why.code != GB_E_DENIED)
                return fields_error(f, key, (gb_error_code)why.code, err, "%s", why.message);
        return fields_error(f, key, GB_E_DENIED, err, "%s; only callers through the server's unix socket may do that", why.message);
}
