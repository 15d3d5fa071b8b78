/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox guard list, glovebox guard test. */
#include "base/json.h"
#include "base/quote.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/settings.h"
#include "cli/table.h"
#include "guard/code.h"
#include "guard/examples.h"
#include "guard/reader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LANGUAGES_TEXT_MAX 256
#define EXAMPLE_SHOWN_BYTES 400 /* of one that failed; --json has all of it */
#define STATUS_FAILED 1

/* ---- list ---- */

struct row {
        const char *rule, *set, *message, *remedy;
        const char *languages; /* names, each with its NUL, an empty one at the end; NULL: all */
        const char *files[RULE_FILES_KINDS]; /* the same; NULL: none */
        enum guard_action action;
};

/* Settings point to the switches. */
static void make_settings(const struct policy *p, struct guard_switch *switches, struct guard_settings *ret)
{
        for (size_t i = 0; i < p->n_rules; i++)
                switches[i] = (struct guard_switch){p->rules[i].name, (enum guard_action)p->rules[i].action};
        *ret = (struct guard_settings){.mode = (enum guard_mode)p->guard, .switches = switches, .n_switches = p->n_rules, .strict_scrub = p->scrub == WATCH_STRICT};
}

/* Those that no file has: the guard's own. */
static const struct {
        const char *rule, *set, *message;
} own[] = {
        {GUARD_UNREADABLE_RULE, GUARD_UNREADABLE_RULE,
         "The code could not be read to its end: it is too large, too deeply nested, or took too long."},
        {GUARD_SECRET_RULE, GUARD_SECRETS_SET, "The code carries what looks like a secret."},
        {GUARD_SECRET_INPUT_RULE, GUARD_SECRETS_SET, "A secret goes to the program's standard input."},
};

static void make_own(size_t i, const struct policy *p, const struct guard_settings *s, struct row *ret)
{
        bool secret = strcmp(own[i].set, GUARD_SECRETS_SET) == 0;
        enum guard_action action = guard_action_of(s, own[i].rule, own[i].set, secret && s->strict_scrub ? GUARD_BLOCK : GUARD_WARN);

        *ret = (struct row){.rule = own[i].rule, .set = own[i].set, .message = own[i].message, .remedy = secret ? GUARD_SECRET_REMEDY : "", .action = action};
        if (secret ? p->scrub == WATCH_OFF : p->guard == WATCH_OFF)
                ret->action = GUARD_OFF;
}

static void make_row(const struct rules *r, size_t i, const struct guard_settings *s, struct row *ret)
{
        const struct code_rule *rule = &r->code[i];

        *ret = (struct row){.rule = rules_text(r, rule->id), .set = rules_text(r, rule->set), .message = rules_text(r, rule->message), .remedy = rules_text(r, rule->remedy),
                            .languages = rule->languages ? rules_text(r, rule->languages) : NULL};
        for (int kind = 0; kind < RULE_FILES_KINDS; kind++)
                ret->files[kind] = rule->files[kind] ? rules_text(r, rule->files[kind]) : NULL;
        ret->action = s->mode == GUARD_MODE_OFF ? GUARD_OFF : guard_action_of(s, ret->rule, ret->set, (enum guard_action)rule->action);
}

static json_t *names_to_json(const char *names)
{
        json_t *list = json_array();

        for (; names && *names; names += strlen(names) + 1)
                json_array_append_new(list, json_string(names));
        return list;
}

static json_t *files_to_json(const struct row *row)
{
        return json_pack("{s:o, s:o, s:o}", "hidden", names_to_json(row->files[RULE_FILES_HIDDEN]), "shown", names_to_json(row->files[RULE_FILES_SHOWN]),
                         "hidden_with_keys", names_to_json(row->files[RULE_FILES_KEYS]));
}

static json_t *row_to_json(const struct row *row)
{
        return json_pack("{s:s, s:s, s:s, s:o, s:s, s:s, s:o}", "rule", row->rule, "set", row->set, "action", guard_action_name(row->action), "languages",
                         row->languages ? names_to_json(row->languages) : json_null(), "message", row->message, "remedy", row->remedy, "files", files_to_json(row));
}

static void add_row(struct table *t, const struct row *row)
{
        char languages[LANGUAGES_TEXT_MAX] = "all";
        size_t n = 0;

        for (const char *l = row->languages; l && *l && n < sizeof(languages); l += strlen(l) + 1)
                n += (size_t)snprintf(languages + n, sizeof(languages) - n, "%s%s", n > 0 ? " " : "", l);
        table_add(t, (const char *const[]){row->rule, row->set, guard_action_name(row->action), languages, row->message});
}

static int list_code(const struct rules *r, const struct policy *p, bool json)
{
        static const struct table_column columns[] = {{.title = "RULE"}, {.title = "SET"}, {.title = "ACTION"}, {.title = "LANGUAGES", .min = 9, .drop = 1}, {.title = "MESSAGE", .min = 24}};
        struct guard_switch switches[POLICY_RULES_MAX];
        struct guard_settings settings;
        _cleanup_json_ json_t *list = json_array();
        _cleanup_table_ struct table t;

        table_init(&t, columns, ARRAY_SIZE(columns));
        make_settings(p, switches, &settings);
        for (size_t i = 0; i < r->n_code + ARRAY_SIZE(own); i++) {
                struct row row;
                if (i < r->n_code)
                        make_row(r, i, &settings, &row);
                else
                        make_own(i - r->n_code, p, &settings, &row);
                if (json)
                        json_array_append_new(list, row_to_json(&row));
                else
                        add_row(&t, &row);
        }
        if (!json)
                return table_print(&t);
        _cleanup_json_ json_t *whole = json_pack("{s:s, s:O}", "guard", watch_mode_name(p->guard), "rules", list);
        return output_json(whole);
}

/* Mounts hide the same names whatever the policy says of the rules. */
static int list_files(const struct rules *r, const struct policy *p, bool json)
{
        static const struct table_column columns[] = {{.title = "FILE", .min = 16}, {.title = "HIDDEN"}, {.title = "RULE"}};
        static const char *const hidden[RULE_FILES_KINDS] = {[RULE_FILES_HIDDEN] = "yes", [RULE_FILES_SHOWN] = "no", [RULE_FILES_KEYS] = "with a private key"};
        _cleanup_table_ struct table t;

        if (json)
                return list_code(r, p, true);
        table_init(&t, columns, ARRAY_SIZE(columns));
        for (size_t i = 0; i < r->n_code; i++)
                for (int kind = 0; kind < RULE_FILES_KINDS; kind++) {
                        const char *name = r->code[i].files[kind] ? rules_text(r, r->code[i].files[kind]) : "";
                        for (; *name; name += strlen(name) + 1)
                                table_add(&t, (const char *const[]){name, hidden[kind], rules_text(r, r->code[i].id)});
                }
        return table_print(&t);
}

static int list_shapes(const struct rules *r, const struct policy *p, bool json)
{
        static const struct table_column columns[] = {{.title = "NAME"}, {.title = "SET"}, {.title = "SCRUBBED"}, {.title = "ABOUT", .min = 24}};
        _cleanup_json_ json_t *list = json_array();
        _cleanup_table_ struct table t;

        table_init(&t, columns, ARRAY_SIZE(columns));
        for (size_t i = 0; i < r->n_shapes; i++) {
                const struct shape_rule *s = &r->shapes[i];
                const char *name = rules_text(r, s->id), *set = rules_text(r, s->set), *about = rules_text(r, s->about);
                bool active = p->scrub == WATCH_STRICT || (p->scrub == WATCH_ON && !s->strict);
                if (json)
                        json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:b, s:s}", "name", name, "set", set, "scrubbed", active, "strict", (int)s->strict, "about", about));
                else
                        table_add(&t, (const char *const[]){name, set, active ? "yes" : s->strict && p->scrub == WATCH_ON ? "if strict" : "no", about});
        }
        if (!json)
                return table_print(&t);
        _cleanup_json_ json_t *whole = json_pack("{s:s, s:O}", "scrub", watch_mode_name(p->scrub), "secrets", list);
        return output_json(whole);
}

int command_guard_list(const struct command *command, const struct arguments *arguments)
{
        _cleanup_policy_ struct policy *p = NULL;
        const struct rules *rules;
        bool json = arguments_has(arguments, OPT_JSON);
        gb_error err = {0};

        if (settings_policy(&command->options, arguments, &p, &err) < 0 || rules_get(&rules, &err) < 0)
                return command_fail(arguments, &err);
        if (arguments_has(arguments, OPT_FILES_LIST))
                return list_files(rules, p, json);
        return arguments_has(arguments, OPT_SECRETS_LIST) ? list_shapes(rules, p, json) : list_code(rules, p, json);
}

/* ---- test ---- */

struct failures {
        json_t *list; /* NULL: as text */
        struct buffer text;
        int error;
};

/* Some lines of an example, each made harmless. */
static int add_example(struct buffer *out, const char *text, size_t size)
{
        struct terminal t = {.one_line = true};
        size_t shown = MIN(size, (size_t)EXAMPLE_SHOWN_BYTES);
        int r = 0;

        for (size_t at = 0; at < shown && r == 0;) {
                const char *newline = memchr(text + at, '\n', shown - at);
                size_t n = newline ? (size_t)(newline - (text + at)) : shown - at;
                r = buffer_add_string(out, "    ");
                if (r == 0)
                        r = terminal_add(&t, out, text + at, n);
                if (r == 0)
                        r = terminal_flush(&t, out);
                if (r == 0)
                        r = buffer_add_string(out, "\n");
                at += n + 1;
        }
        return r == 0 && shown < size ? buffer_printf(out, "    ... (%zu bytes)\n", size) : r;
}

static void on_failure(void *data, const struct example_failure *f)
{
        struct failures *all = data;

        if (all->list) {
                json_t *text = json_stringn(f->text, f->size);
                json_t *row = json_pack("{s:s, s:s, s:s?, s:s, s:o}", "rule", f->rule, "set", f->set, "language", f->language, "expected", f->must_match ? "match" : "pass", "text",
                                        text ? text : json_string(quote(f->text).text));
                if (json_array_append_new(all->list, row) < 0)
                        all->error = -ENOMEM;
                return;
        }
        int r = buffer_printf(&all->text, "%s (%s)%s%s: %s\n", f->rule, f->set, f->language ? ", " : "", f->language ? f->language : "",
                              f->must_match ? "this must be found, and is not:" : "this must be left alone, and is found:");
        if (r == 0)
                r = add_example(&all->text, f->text, f->size);
        if (r < 0)
                all->error = r;
}

static int try_all(const struct rules *r, const struct arguments *a, gb_error *err)
{
        bool json = arguments_has(a, OPT_JSON);
        struct failures all = {.list = json ? json_array() : NULL};
        struct example_counts counts;
        int status = 0;

        buffer_init(&all.text, TEXT_BYTES_MAX);
        int e = examples_try(r, on_failure, &all, &counts, err);
        if (e == 0 && !json && (counts.failed > 0 || !arguments_has(a, OPT_QUIET)))
                all.error = buffer_printf(&all.text, "%zu rules about code, %zu shapes of secrets, %zu examples: %zu failed\n", r->n_code, r->n_shapes, counts.tried, counts.failed);
        if (e == 0 && all.error < 0)
                e = error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (e == 0 && json) {
                _cleanup_json_ json_t *whole = json_pack("{s:b, s:i, s:i, s:i, s:i, s:O}", "ok", counts.failed == 0, "rules", (int)r->n_code, "secrets", (int)r->n_shapes, "examples",
                                                         (int)counts.tried, "failed", (int)counts.failed, "failures", all.list);
                status = output_json(whole);
        } else if (e == 0) {
                status = output_text(&all.text);
        }
        json_decref(all.list);
        buffer_done(&all.text);
        return e < 0 ? e : status != 0 ? status : counts.failed > 0 ? STATUS_FAILED : 0;
}

/* It takes seconds: on a terminal somebody waits. */
static void tell_compiling(const struct arguments *a, bool begins)
{
        static const char text[] = "compiling the rules...";

        if (!isatty(STDERR_FILENO) || arguments_has(a, OPT_QUIET))
                return;
        if (begins)
                dprintf(STDERR_FILENO, "%s", text);
        else
                dprintf(STDERR_FILENO, "\r%*s\r", (int)strlen(text), "");
}

static int compile(const struct arguments *a, struct rules **ret, gb_error *err)
{
        tell_compiling(a, true);
        int r = rules_compile(a->words, a->n_words, true, ret, err);
        tell_compiling(a, false);
        return r;
}

int command_guard_test(const struct command *command, const struct arguments *arguments)
{
        const struct arguments *a = arguments;
        _cleanup_rules_ struct rules *made = NULL;
        const struct rules *rules = NULL;
        gb_error err = {0};

        (void)command;
        reader_prepare(1);
        int r = a->n_words > 0 ? compile(a, &made, &err) : rules_get(&rules, &err);
        if (r == 0)
                r = try_all(made ? made : rules, a, &err);
        reader_forget();
        return r < 0 ? command_fail(a, &err) : r;
}
