/* SPDX-License-Identifier: Apache-2.0
 *
 * What a policy changes about the rules for code. Which rules there are is not known here: guard/ says when a name is none. */
#include "policy/list.h"

#include "base/quote.h"

#include <errno.h>
#include <string.h>

static const char *const actions[] = {[RULE_OFF] = "off", [RULE_LOG] = "log", [RULE_WARN] = "warn", [RULE_BLOCK] = "block"};

const char *rule_action_name(enum rule_action action)
{
        return actions[action];
}

static int parse_action(const char *text, enum rule_action *ret, gb_error *err)
{
        for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
                if (strcmp(text, actions[i]) == 0) {
                        *ret = (enum rule_action)i;
                        return 0;
                }
        return error_set(err, GB_E_USAGE, EINVAL, "%s is not an action; allowed: off, log, warn, block", quote(text).text);
}

int rule_add(struct policy *p, const char *name, const char *action, gb_error *err)
{
        size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-"), i = 0;
        enum rule_action value = RULE_OFF;

        int r = parse_action(action, &value, err);
        if (r < 0)
                return r;
        if (n == 0 || name[n] != '\0' || n >= RULE_NAME_MAX)
                return error_set(err, GB_E_USAGE, EINVAL, "%s is not the name of a rule or a set; 'glovebox guard list' has them", quote(name).text);
        while (i < p->n_rules && strcmp(p->rules[i].name, name) != 0)
                i++;
        if (i == POLICY_RULES_MAX)
                return error_set(err, GB_E_LIMIT, E2BIG, "too many rules; at most %d", POLICY_RULES_MAX);
        if (i == p->n_rules) {
                char *copy = strdup(name);
                if (!copy)
                        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
                p->rules[p->n_rules++] = (struct policy_rule){.name = copy};
        }
        p->rules[i].action = value;
        return 0;
}

int rule_add_text(struct policy *p, const char *text, gb_error *err)
{
        const char *equals = strchr(text, '=');

        if (!equals)
                return error_set(err, GB_E_USAGE, EINVAL, "%s has no \"=\"; allowed: NAME=off|log|warn|block", quote(text).text);
        _cleanup_free_ char *name = strndup(text, (size_t)(equals - text));
        return name ? rule_add(p, name, equals + 1, err) : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
}

void rules_clear(struct policy *p)
{
        while (p->n_rules > 0)
                free(p->rules[--p->n_rules].name);
}

/* "selenium", "os.path" */
static bool is_module(const char *text)
{
        size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.");

        return n > 0 && text[n] == '\0' && n < MODULE_NAME_MAX && text[0] != '.' && text[n - 1] != '.' && !strstr(text, "..");
}

int import_add(struct policy *p, const char *module, gb_error *err)
{
        if (!is_module(module))
                return error_set(err, GB_E_USAGE, EINVAL, "%s is not the name of a module", quote(module).text);
        if (p->n_imports == POLICY_IMPORTS_MAX)
                return error_set(err, GB_E_LIMIT, E2BIG, "too many modules; at most %d", POLICY_IMPORTS_MAX);
        char *copy = strdup(module);
        if (!copy)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        p->imports[p->n_imports++] = copy;
        p->has_imports = true;
        return 0;
}

void imports_clear(struct policy *p)
{
        while (p->n_imports > 0) {
                free(p->imports[--p->n_imports]);
                p->imports[p->n_imports] = NULL;
        }
        p->has_imports = false;
}

int policy_set_imports(struct policy *p, const char *const *modules, gb_error *err)
{
        int r = 0;

        imports_clear(p);
        p->has_imports = true;
        for (size_t i = 0; r == 0 && modules[i]; i++)
                r = import_add(p, modules[i], err);
        return r;
}
