/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy.h"

#include "base/path.h"
#include "base/quote.h"
#include "policy/file.h"
#include "policy/list.h"
#include "policy/network.h"
#include "policy/option.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

int policy_default_path(char **ret)
{
        return path_config_file("sandbox.yaml", ret);
}

int policy_new(struct policy **ret, gb_error *err)
{
        _cleanup_policy_ struct policy *p = calloc(1, sizeof(*p));

        if (!p)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        for (size_t i = 0; i < n_policy_options; i++) {
                int r = option_apply(&policy_options[i], p, policy_options[i].fallback, err);
                if (r < 0)
                        return error_prefix(err, "the built-in default of %s", policy_options[i].key);
        }
        *ret = TAKE_PTR(p);
        return 0;
}

struct policy *policy_copy(const struct policy *p)
{
        _cleanup_policy_ struct policy *copy = malloc(sizeof(*copy));

        if (!copy)
                return NULL;
        *copy = *p;
        /* Nothing may be freed twice when the memory runs out half-way. */
        memset(copy->mounts, 0, sizeof(copy->mounts));
        memset(copy->env, 0, sizeof(copy->env));
        memset(copy->rules, 0, sizeof(copy->rules));
        memset(copy->imports, 0, sizeof(copy->imports));
        copy->n_mounts = copy->n_env = copy->n_rules = copy->n_imports = copy->n_secrets = 0;
        memset(copy->secrets, 0, sizeof(copy->secrets));
        copy->network_allow = NULL;
        copy->n_network_allow = 0;
        copy->trust = copy->runtime = copy->image = NULL;
        copy->origin = strdup(p->origin);
        if (copy->origin)
                copy->trust = strdup(p->trust);
        if (p->runtime)
                copy->runtime = strdup(p->runtime);
        if (p->image)
                copy->image = strdup(p->image);
        bool good = copy->origin && copy->trust && !p->runtime == !copy->runtime && !p->image == !copy->image;
        for (size_t i = 0; good && i < p->n_mounts; i++) {
                struct policy_mount *m = &copy->mounts[copy->n_mounts++];
                *m = (struct policy_mount){strdup(p->mounts[i].source), strdup(p->mounts[i].target), p->mounts[i].writable, p->mounts[i].hides};
                good = m->source && m->target;
        }
        for (size_t i = 0; good && i < p->n_env; i++) {
                struct policy_env *e = &copy->env[copy->n_env++];
                *e = (struct policy_env){strdup(p->env[i].name), strdup(p->env[i].value)};
                good = e->name && e->value;
        }
        for (size_t i = 0; good && i < p->n_rules; i++) {
                struct policy_rule *rule = &copy->rules[copy->n_rules++];
                *rule = (struct policy_rule){strdup(p->rules[i].name), p->rules[i].action};
                good = rule->name;
        }
        for (size_t i = 0; good && i < p->n_imports; i++)
                good = (copy->imports[copy->n_imports++] = strdup(p->imports[i]));
        for (size_t i = 0; good && i < p->n_secrets; i++)
                good = policy_add_secret(copy, p->secrets[i].name, p->secrets[i].value, p->secrets[i].size, p->secrets[i].path, NULL) == 0;
        good = good && network_allow_copy(copy, p) == 0;
        return good ? TAKE_PTR(copy) : NULL;
}

void policy_free(struct policy *p)
{
        if (!p)
                return;
        mounts_clear(p);
        env_clear(p);
        rules_clear(p);
        imports_clear(p);
        secrets_clear(p);
        network_allow_clear(p);
        free(p->origin);
        free(p->trust);
        free(p->runtime);
        free(p->image);
        free(p);
}

int policy_check_timeout(const struct policy *p, gb_error *err)
{
        char timeout[POLICY_VALUE_MAX], max[POLICY_VALUE_MAX];

        if (p->timeout_usec <= p->timeout_max_usec)
                return 0;
        return error_set(err, GB_E_LIMIT, ERANGE, "%s is above timeout_max, which is %s at trust level \"%s\"; ask for less or raise timeout_max in the policy file",
                         policy_option_value(policy_option_by_key("timeout"), p, timeout),
                         policy_option_value(policy_option_by_key("timeout_max"), p, max), p->trust);
}

int policy_check_network(const struct policy *p, gb_error *err)
{
        if (p->network_mode != NETWORK_HOST || strcmp(p->trust, TRUST_UNTRUSTED) != 0)
                return 0;
        return error_set(err, GB_E_USAGE, EPERM, "\"host\" is refused at trust level \"untrusted\"; allowed: none, allowlist, or run at another trust level");
}

int policy_check_places(const struct policy *p, gb_error *err)
{
        if (!p->scratch_only || p->read_only)
                return 0;
        return error_set(err, GB_E_USAGE, EINVAL, "true cannot be combined with read_only: false, which makes all of the box writable: remove one of them");
}

int policy_check_backend(const struct policy *p, gb_error *err)
{
        if (!p->runtime || p->backend == BACKEND_DOCKER)
                return 0;
        return error_set(err, GB_E_USAGE, EINVAL, "%s is a runtime of an engine, and the backend is %s; use it with the backend docker, or the runtime \"" NAME_DEFAULT "\"",
                         quote(p->runtime).text, backend_kind_name(p->backend));
}

static int set_option(struct policy *p, const struct policy_option *o, const char *value, gb_error *err)
{
        if (!o->flag)
                return error_set(err, GB_E_USAGE, EPERM, "only the policy file can set %s", o->key);
        int r = option_apply(o, p, value, err);
        /* Said here, while the name of the flag is at hand; policy_validate() says it again. */
        if (r == 0 && strcmp(o->key, "timeout") == 0)
                r = policy_check_timeout(p, err);
        if (r == 0 && o->type == OPTION_NETWORK)
                r = policy_check_network(p, err);
        return r;
}

static int set_mount(struct policy *p, const char *value, gb_error *err)
{
        _cleanup_free_ char *cwd = NULL;

        if (value[0] != '/') {
                cwd = getcwd(NULL, 0);
                if (!cwd || cwd[0] != '/')
                        return error_set(err, GB_E_USAGE, errno, "%s is relative and the current directory is not known", quote(value).text);
        }
        return mount_add_text(p, value, cwd, err);
}

static int set_weaker(struct policy *p, const char *value, gb_error *err)
{
        uint32_t mask;

        int r = control_weaker_mask(value, &mask, err);
        if (r == 0)
                p->allow_weaker |= mask;
        return r;
}

/* Who lists what may be reached wants that and nothing else. */
static int set_allow(struct policy *p, const char *value, gb_error *err)
{
        int r = network_allow_add_text(p, value, err);
        if (r == 0)
                p->network_mode = NETWORK_ALLOWLIST;
        return r;
}

int policy_set(struct policy *p, const char *key, const char *value, const char *what, gb_error *err)
{
        const struct policy_option *o = policy_option_by_key(key);
        int r;

        if (o)
                r = set_option(p, o, value, err);
        else if (strcmp(key, "mounts") == 0)
                r = set_mount(p, value, err);
        else if (strcmp(key, "env") == 0)
                r = env_add_text(p, value, err);
        else if (strcmp(key, "guard_rules") == 0)
                r = rule_add_text(p, value, err);
        else if (strcmp(key, "allow_weaker") == 0)
                r = set_weaker(p, value, err);
        else if (strcmp(key, "network_allow") == 0)
                r = set_allow(p, value, err);
        else if (strcmp(key, "network_ranges") == 0)
                r = network_range_add_text(p, value, err);
        else
                r = error_set(err, GB_E_USAGE, 0, "a policy has no key %s", quote(key).text);
        if (r < 0)
                error_prefix(err, "%s", what);
        return r;
}

int policy_validate(const struct policy *p, gb_error *err)
{
        if (!p->trust)
                return error_set(err, GB_E_INTERNAL, 0, "a policy without a trust level");
        for (size_t i = 0; i < n_policy_options; i++) {
                int r = option_check(&policy_options[i], p, err);
                if (r < 0)
                        return r;
        }
        int r = policy_check_timeout(p, err);
        if (r < 0) {
                error_prefix(err, "timeout");
                return r;
        }
        r = policy_check_network(p, err);
        if (r < 0) {
                error_prefix(err, "network_mode");
                return r;
        }
        r = policy_check_places(p, err);
        if (r < 0) {
                error_prefix(err, "scratch_only");
                return r;
        }
        r = policy_check_backend(p, err);
        if (r < 0) {
                error_prefix(err, "runtime");
                return r;
        }
        if (p->allow_weaker & ~control_weaker_all())
                return error_set(err, GB_E_USAGE, 0, "allow_weaker: names a control that can never be weaker");
        r = mounts_check(p, err);
        if (r < 0) {
                error_prefix(err, "mounts");
                return r;
        }
        r = env_check(p, err);
        if (r < 0)
                error_prefix(err, "env");
        return r;
}
