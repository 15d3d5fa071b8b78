/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox policy show, glovebox policy check. */
#include "policy/policy.h"

#include "base/json.h"
#include "base/quote.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/settings.h"
#include "policy/network.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* The value in its smallest unit, which its name in JSON tells. */
static int set_value(json_t *object, const struct policy *p, const struct policy_option *row)
{
        static const char *const units[] = {[OPTION_SIZE] = "_bytes", [OPTION_DURATION] = "_usec",
                                            [OPTION_CPUS] = "_milli"};
        const void *field = (const char *)p + row->offset;
        char name[96], text[POLICY_VALUE_MAX];
        const char *unit = (size_t)row->type < ARRAY_SIZE(units) && units[row->type] ? units[row->type] : "";
        size_t n = strlen(row->key), k = strlen(unit);

        /* "network_bytes" has it already. */
        snprintf(name, sizeof(name), "%s%s", row->key, k <= n && strcmp(row->key + n - k, unit) == 0 ? "" : unit);
        if (row->type == OPTION_BOOL)
                return json_object_set_new(object, name, json_boolean(*(const bool *)field));
        if (policy_option_is_word(row))
                return json_object_set_new(object, name, json_string(policy_option_value(row, p, text)));
        return json_object_set_new(object, name, json_integer((json_int_t) * (const uint64_t *)field));
}

/* Text that may be any bytes: what is not UTF-8 is left out, by its quoted form. */
static json_t *json_any(const char *text)
{
        json_t *json = text ? json_string(text) : json_null();

        return json ? json : json_string(quote(text).text);
}

static json_t *rules_to_json(const struct policy *p)
{
        json_t *o = json_object();

        for (size_t i = 0; i < p->n_rules; i++)
                json_object_set_new(o, p->rules[i].name, json_string(rule_action_name(p->rules[i].action)));
        return o;
}

/* null: those of the rule itself. */
static json_t *imports_to_json(const struct policy *p)
{
        json_t *list = p->has_imports ? json_array() : json_null();

        for (size_t i = 0; i < p->n_imports; i++)
                json_array_append_new(list, json_string(p->imports[i]));
        return list;
}

/* Their names: what they are nobody is shown. */
static json_t *secrets_to_json(const struct policy *p)
{
        json_t *list = json_array();

        for (size_t i = 0; i < p->n_secrets; i++)
                json_array_append_new(list, json_string(p->secrets[i].name));
        return list;
}

static json_t *allow_to_json(const struct policy *p)
{
        json_t *list = json_array();

        for (size_t i = 0; i < p->n_network_allow; i++)
                json_array_append_new(list, network_rule_to_json(p->network_allow[i]));
        return list;
}

static json_t *ranges_to_json(const struct policy *p)
{
        char text[ADDRESS_TEXT_MAX + 4];
        json_t *list = json_array();

        for (size_t i = 0; i < p->n_network_ranges; i++)
                json_array_append_new(list, json_string(address_range_format(&p->network_ranges[i], text)));
        return list;
}

static json_t *show_json(const struct policy *p)
{
        json_t *o = json_object(), *mounts = json_array(), *env = json_object(), *weaker = json_array();

        json_object_set_new(o, "origin", json_any(p->origin));
        json_object_set_new(o, "trust", json_any(p->trust));
        for (size_t i = 0; i < n_policy_options; i++)
                set_value(o, p, &policy_options[i]);
        for (int i = 0; i < CONTROL_COUNT; i++)
                if (p->allow_weaker & 1u << i)
                        json_array_append_new(weaker, json_string(control_name((enum control_id)i)));
        for (size_t i = 0; i < p->n_mounts; i++)
                json_array_append_new(mounts, json_pack("{s:o, s:o, s:b, s:b}", "source", json_any(p->mounts[i].source),
                                                        "target", json_any(p->mounts[i].target), "writable",
                                                        p->mounts[i].writable, "hide", p->mounts[i].hides));
        for (size_t i = 0; i < p->n_env; i++)
                json_object_set_new(env, p->env[i].name, json_any(p->env[i].value));
        json_object_set_new(o, "guard_rules", rules_to_json(p));
        json_object_set_new(o, "guard_imports", imports_to_json(p));
        json_object_set_new(o, "secrets", secrets_to_json(p));
        json_object_set_new(o, "network_allow", allow_to_json(p));
        json_object_set_new(o, "network_ranges", ranges_to_json(p));
        json_object_set_new(o, "allow_weaker", weaker);
        json_object_set_new(o, "mounts", mounts);
        json_object_set_new(o, "env", env);
        return o;
}

static int show_guard(const struct policy *p, struct buffer *out)
{
        int r = p->n_rules > 0 ? buffer_add_string(out, "guard_rules:\n") : 0;

        for (size_t i = 0; i < p->n_rules && r == 0; i++)
                r = buffer_printf(out, "  %s: %s\n", p->rules[i].name, rule_action_name(p->rules[i].action));
        if (r == 0 && p->has_imports)
                r = buffer_add_string(out, p->n_imports > 0 ? "guard_imports:\n" : "guard_imports: []\n");
        for (size_t i = 0; i < p->n_imports && r == 0; i++)
                r = buffer_printf(out, "  - %s\n", p->imports[i]);
        for (size_t i = 0; i < p->n_secrets && r == 0; i++)
                r = network_uses_secret(p, p->secrets[i].name)
                            ? buffer_printf(out, "# secret %s, for a rule of the network, not in the box\n", p->secrets[i].name)
                            : buffer_printf(out, "# secret %s, as %s %s\n", p->secrets[i].name, p->secrets[i].path ? "the file" : "the variable",
                                            p->secrets[i].path ? p->secrets[i].path : p->secrets[i].name);
        return r;
}

/* As text where that says all of it, else as a mapping, which is JSON and so YAML. Values of headers are shown to nobody. */
static int show_rule(const struct network_rule *rule, struct buffer *out)
{
        _cleanup_json_ json_t *map = network_rule_to_json(rule);

        json_object_del(map, "rule");
        json_object_del(map, "headers");
        _cleanup_free_ char *text = rule->intercept || rule->n_paths > 1 ? json_dumps(map, 0) : NULL;
        int r = text ? buffer_printf(out, "  - %s", text) : buffer_printf(out, "  - \"%s\"", rule->text);
        for (size_t i = 0; i < rule->n_headers && r == 0; i++)
                r = buffer_printf(out, "%s%s", i == 0 ? " # with the header " : ", ", rule->headers[i].name);
        return r < 0 ? r : buffer_add_string(out, "\n");
}

static int show_network(const struct policy *p, struct buffer *out)
{
        char range[ADDRESS_TEXT_MAX + 4];
        int r = p->n_network_allow > 0 ? buffer_add_string(out, "network_allow:\n") : 0;

        for (size_t i = 0; i < p->n_network_allow && r == 0; i++)
                r = show_rule(p->network_allow[i], out);
        if (r == 0 && p->n_network_ranges > 0)
                r = buffer_add_string(out, "network_ranges:\n");
        for (size_t i = 0; i < p->n_network_ranges && r == 0; i++)
                r = buffer_printf(out, "  - \"%s\"\n", address_range_format(&p->network_ranges[i], range));
        return r;
}

static int show_text(const struct policy *p, struct buffer *out)
{
        char buf[POLICY_VALUE_MAX];

        int r = buffer_printf(out, "# %s, trust level %s\n", p->origin ? p->origin : "built-in", p->trust ? p->trust : "-");
        for (size_t i = 0; i < n_policy_options && r == 0; i++)
                r = buffer_printf(out, "%s: %s\n", policy_options[i].key, policy_option_value(&policy_options[i], p, buf));
        if (r == 0)
                r = show_network(p, out);
        if (r == 0)
                r = show_guard(p, out);
        if (r == 0 && p->allow_weaker)
                r = buffer_add_string(out, "allow_weaker:\n");
        for (int i = 0; i < CONTROL_COUNT && r == 0; i++)
                if (p->allow_weaker & 1u << i)
                        r = buffer_printf(out, "  - %s\n", control_name((enum control_id)i));
        if (r == 0 && p->n_mounts > 0)
                r = buffer_add_string(out, "mounts:\n");
        for (size_t i = 0; i < p->n_mounts && r == 0; i++)
                r = buffer_printf(out, "  - %s:%s%s\n", p->mounts[i].source, p->mounts[i].target,
                                  p->mounts[i].writable ? ":rw" : p->mounts[i].hides ? ":hide" : "");
        if (r == 0 && p->n_env > 0)
                r = buffer_add_string(out, "env:\n");
        for (size_t i = 0; i < p->n_env && r == 0; i++)
                r = buffer_printf(out, "  %s: %s\n", p->env[i].name, quote(p->env[i].value).text);
        return r;
}

int command_policy_show(const struct command *command, const struct arguments *arguments)
{
        _cleanup_policy_ struct policy *p = NULL;
        _cleanup_buffer_ struct buffer text;
        gb_error err = {.code = GB_E_INTERNAL, .message = "out of memory"};

        buffer_init(&text, TEXT_BYTES_MAX);
        if (settings_policy(&command->options, arguments, &p, &err) < 0)
                return command_fail(arguments, &err);
        if (arguments_has(arguments, OPT_JSON)) {
                _cleanup_json_ json_t *json = show_json(p);
                return output_json(json);
        }
        return show_text(p, &text) < 0 ? command_fail(arguments, &err) : output_text(&text);
}

int command_policy_check(const struct command *command, const struct arguments *arguments)
{
        _cleanup_policy_ struct policy *p = NULL;
        _cleanup_buffer_ struct buffer text;
        gb_error err = {.code = GB_E_INTERNAL, .message = "out of memory"};

        buffer_init(&text, TEXT_BYTES_MAX);
        if (arguments->n_words == 0)
                error_set(&err, GB_E_USAGE, 0, "which file? glovebox policy check FILE");
        if (arguments->n_words == 0 ||
            policy_load(arguments->words[0], arguments_get(arguments, OPT_TRUST), &p, &err) < 0 ||
            policy_validate(p, &err) < 0)
                return command_fail(arguments, &err);
        if (arguments_has(arguments, OPT_JSON)) {
                _cleanup_json_ json_t *json = json_pack("{s:b, s:o, s:o}", "ok", 1, "file",
                                                        json_any(arguments->words[0]), "trust", json_any(p->trust));
                return output_json(json);
        }
        if (buffer_printf(&text, "%s: right (trust level %s)\n", arguments->words[0], p->trust) < 0)
                return command_fail(arguments, &err);
        return output_text(&text);
}
