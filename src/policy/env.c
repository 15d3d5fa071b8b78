/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/list.h"

#include "base/quote.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

int env_check_name(const char *name, gb_error *err)
{
        bool good = isalpha((unsigned char)name[0]) || name[0] == '_';

        for (const char *c = name; good && *c; c++)
                good = (isalnum((unsigned char)*c) || *c == '_') && (unsigned char)*c < 0x80;
        if (good)
                return 0;
        if (strchr(name, '='))
                return error_set(err, GB_E_USAGE, 0, "the name %s holds a \"=\"; allowed are letters, digits and _", quote(name).text);
        return error_set(err, GB_E_USAGE, 0,
                         "%s is not a variable's name; allowed are letters, digits and _, and no digit at its start",
                         quote(name).text);
}

/* What the variables take in the program's memory: "NAME=value" and NUL. */
static size_t env_bytes(const struct policy *p)
{
        size_t sum = 0;

        for (size_t i = 0; i < p->n_env; i++)
                sum += strlen(p->env[i].name) + strlen(p->env[i].value) + 2;
        return sum;
}

static int too_large(gb_error *err)
{
        return error_set(err, GB_E_LIMIT, E2BIG, "the environment is too large; at most %llu KiB in all", ARG_BYTES_MAX / KIB);
}

int env_add(struct policy *p, const char *name, const char *value, gb_error *err)
{
        int r = env_check_name(name, err);
        if (r < 0)
                return r;

        struct policy_env *slot = NULL;
        size_t freed = 0;
        for (size_t i = 0; i < p->n_env; i++)
                if (strcmp(p->env[i].name, name) == 0) {
                        slot = &p->env[i];
                        freed = strlen(name) + strlen(slot->value) + 2;
                }
        if (env_bytes(p) - freed + strlen(name) + strlen(value) + 2 > ARG_BYTES_MAX)
                return too_large(err);
        if (!slot && p->n_env == ENV_COUNT_MAX)
                return error_set(err, GB_E_LIMIT, E2BIG, "too many variables; at most %d", ENV_COUNT_MAX);

        _cleanup_free_ char *name_copy = strdup(name), *value_copy = strdup(value);
        if (!name_copy || !value_copy)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (slot) {
                free(slot->name);
                free(slot->value);
        } else {
                slot = &p->env[p->n_env++];
        }
        *slot = (struct policy_env){TAKE_PTR(name_copy), TAKE_PTR(value_copy)};
        return 0;
}

int env_add_text(struct policy *p, const char *text, gb_error *err)
{
        const char *equals = strchr(text, '=');

        if (!equals)
                return error_set(err, GB_E_USAGE, 0, "%s is not NAME=value", quote(text).text);
        _cleanup_free_ char *name = strndup(text, (size_t)(equals - text));
        if (!name)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        return env_add(p, name, equals + 1, err);
}

void env_clear(struct policy *p)
{
        for (size_t i = 0; i < p->n_env; i++) {
                free(p->env[i].name);
                free(p->env[i].value);
        }
        p->n_env = 0;
}

int env_check(const struct policy *p, gb_error *err)
{
        if (p->n_env > ENV_COUNT_MAX)
                return error_set(err, GB_E_LIMIT, E2BIG, "too many variables; at most %d", ENV_COUNT_MAX);
        for (size_t i = 0; i < p->n_env; i++) {
                if (!p->env[i].name || !p->env[i].value)
                        return error_set(err, GB_E_INTERNAL, 0, "a variable without name or value");
                int r = env_check_name(p->env[i].name, err);
                if (r < 0)
                        return r;
        }
        return env_bytes(p) > ARG_BYTES_MAX ? too_large(err) : 0;
}
