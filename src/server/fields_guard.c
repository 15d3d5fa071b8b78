/* SPDX-License-Identifier: Apache-2.0
 *
 * What a caller may want of the guard: more than the operator's policy has, and never less. Rules are compared by what they would do, whatever has brought that
 * about: a mode, a switch of the rule, or one of its set. */
#include "server/fields.h"

#include "engine/watch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int fields_guard_rules(struct fields *f, struct policy *p, const json_t *value, gb_error *err)
{
        const char *name;
        json_t *action;

        if (!json_is_object(value))
                return fields_error(f, "guard_rules", GB_E_USAGE, err, "an object of rules or sets and \"off\", \"log\", \"warn\" or \"block\" is wanted");
        json_object_foreach((json_t *)(uintptr_t)value, name, action) {
                char pair[2 * RULE_NAME_MAX];
                int n = json_is_string(action) ? snprintf(pair, sizeof(pair), "%s=%s", name, json_string_value(action)) : -1;
                if (n < 0 || n >= (int)sizeof(pair) || strchr(name, '='))
                        return fields_error(f, "guard_rules", GB_E_USAGE, err, "the name of a rule or set, and \"off\", \"log\", \"warn\" or \"block\" are wanted");
                int r = policy_set(p, "guard_rules", pair, "policy.guard_rules", err);
                if (r < 0) {
                        snprintf(f->wrong, sizeof(f->wrong), "policy.guard_rules");
                        return r;
                }
        }
        /* A name that is none is told now, and not when the box is made. */
        _cleanup_watch_ struct watch *watch = NULL;
        int r = watch_open(p, &watch, err);
        if (r < 0)
                snprintf(f->wrong, sizeof(f->wrong), "policy.guard_rules");
        return r;
}

int fields_guard_imports(struct fields *f, struct policy *p, const json_t *value, gb_error *err)
{
        _cleanup_free_ char **modules = NULL;
        gb_error why = {0};

        int r = fields_words(f, "guard_imports", POLICY_IMPORTS_MAX, &modules, err);
        if (r == 0 && policy_set_imports(p, (const char *const *)modules, &why) < 0)
                r = fields_error(f, "guard_imports", (gb_error_code)why.code, err, "%s", why.message);
        return r;
}

/* ---- as strict as it was ---- */

static struct guard_settings settings_of(const struct policy *p, struct guard_switch switches[static POLICY_RULES_MAX])
{
        for (size_t i = 0; i < p->n_rules; i++)
                switches[i] = (struct guard_switch){p->rules[i].name, (enum guard_action)p->rules[i].action};
        return (struct guard_settings){.mode = (enum guard_mode)p->guard, .switches = switches, .n_switches = p->n_rules};
}

struct comparison {
        struct guard_settings level, caller;
};

static bool is_weaker(const struct comparison *c, const char *rule, const char *set, enum guard_action own)
{
        return guard_action_of(&c->caller, rule, set, own) < guard_action_of(&c->level, rule, set, own);
}

/* The name of a rule about which less would be done; NULL: there is none. */
static const char *weaker_rule(const struct rules *rules, const struct policy *level, const struct policy *p)
{
        struct guard_switch old[POLICY_RULES_MAX], new[POLICY_RULES_MAX];
        struct comparison c = {settings_of(level, old), settings_of(p, new)};

        for (size_t i = 0; level->guard != WATCH_OFF && i < rules->n_code; i++) {
                const struct code_rule *rule = &rules->code[i];
                if (is_weaker(&c, rules_text(rules, rule->id), rules_text(rules, rule->set), (enum guard_action)rule->action))
                        return rules_text(rules, rule->id);
        }
        if (level->guard != WATCH_OFF && is_weaker(&c, GUARD_UNREADABLE_RULE, GUARD_UNREADABLE_RULE, GUARD_WARN))
                return GUARD_UNREADABLE_RULE;
        static const char *const of_secrets[] = {GUARD_SECRET_RULE, GUARD_SECRET_INPUT_RULE};
        for (size_t i = 0; level->scrub != WATCH_OFF && i < ARRAY_SIZE(of_secrets); i++)
                if (is_weaker(&c, of_secrets[i], GUARD_SECRETS_SET, level->scrub == WATCH_STRICT ? GUARD_BLOCK : GUARD_WARN))
                        return of_secrets[i];
        return NULL;
}

static bool is_below(const char *module, const char *of)
{
        size_t n = strlen(of);

        return strncmp(module, of, n) == 0 && (module[n] == '\0' || module[n] == '.');
}

static bool is_found(const struct policy *p, const char *module)
{
        for (size_t i = 0; i < p->n_imports; i++)
                if (is_below(module, p->imports[i]))
                        return true;
        return false;
}

/* A module that would not be found any more; NULL: there is none. */
static const char *missing_import(const struct rules *rules, const struct policy *level, const struct policy *p)
{
        for (size_t i = 0; level->has_imports && i < level->n_imports; i++)
                if (!is_found(p, level->imports[i]))
                        return level->imports[i];
        for (size_t i = 0; !level->has_imports && i < rules->n_code; i++) {
                if (strcmp(rules_text(rules, rules->code[i].id), GUARD_IMPORTS_RULE) != 0 || rules->code[i].imports == 0)
                        continue;
                for (const char *m = rules_text(rules, rules->code[i].imports); *m; m += strlen(m) + 1)
                        if (!is_found(p, m))
                                return m;
        }
        return NULL;
}

static int refuse(struct fields *f, const char *key, const char *what, gb_error *err)
{
        return fields_error(f, key, GB_E_DENIED, err, "%s would be weaker than this server has it; only callers through its unix socket may do that", what);
}

int fields_guard_check(struct fields *f, const struct policy *level, const struct policy *p, gb_error *err)
{
        const struct rules *rules;

        if (p->guard < level->guard)
                return refuse(f, "guard", watch_mode_name(p->guard), err);
        if (p->scrub < level->scrub)
                return refuse(f, "scrub", watch_mode_name(p->scrub), err);
        if (!json_object_get(f->object, "guard_rules") && !json_object_get(f->object, "guard_imports"))
                return 0;
        int r = rules_get(&rules, err);
        if (r < 0)
                return r;
        const char *rule = weaker_rule(rules, level, p);
        if (rule)
                return refuse(f, "guard_rules", rule, err);
        const char *module = json_object_get(f->object, "guard_imports") && level->guard != WATCH_OFF ? missing_import(rules, level, p) : NULL;
        return module ? fields_error(f, "guard_imports", GB_E_DENIED, err, "without %s it would be weaker than this server has it; only callers through its unix socket may do that",
                                     module)
                      : 0;
}
