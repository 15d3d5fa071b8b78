/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox session ls, show and rm. */
#include "cli/command.h"
#include "cli/human.h"
#include "cli/ids.h"
#include "cli/output.h"
#include "cli/table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct table_column columns[] = {
        {.title = "ID"},
        {.title = "NAME", .min = 8},
        {.title = "TEMPLATE", .min = 6},
        {.title = "TRUST", .min = 6},
        {.title = "AGE", .right = true},
        {.title = "IDLE", .right = true},
        {.title = "RUNS", .right = true},
        {.title = "STATE"},
};

static void add_session(struct table *t, const json_t *session)
{
        char id[HUMAN_TEXT_MAX], age[HUMAN_TEXT_MAX], idle[HUMAN_TEXT_MAX], runs[HUMAN_TEXT_MAX];
        bool busy = json_integer_value(json_inner(session, "runs", "active")) > 0;

        human_json_ago(json_object_get(session, "created_at"), age);
        human_json_ago(json_object_get(session, "last_used_at"), idle);
        human_json_count(json_inner(session, "runs", "total"), runs);
        table_add(t, (const char *const[]){human_id(json_member(session, "id", ""), id), json_member(session, "name", NULL),
                                           json_member(session, "template", NULL),
                                           json_member(json_object_get(session, "policy"), "trust", NULL), age, busy ? "-" : idle, runs,
                                           busy ? "busy" : json_member(session, "state", NULL)});
}

static int print_ids(const json_t *list)
{
        _cleanup_buffer_ struct buffer text;
        const json_t *item;
        size_t i;

        buffer_init(&text, TEXT_BYTES_MAX);
        json_array_foreach((json_t *)list, i, item) {
                buffer_printf(&text, "%s\n", json_member(item, "id", ""));
        }
        return output_text(&text);
}

int command_session_ls(const struct command *command, const struct arguments *arguments)
{
        _cleanup_service_ struct service s = {.client = {.fd = -1}};
        _cleanup_json_ json_t *list = NULL;
        _cleanup_table_ struct table table;
        gb_error err = {0};
        const json_t *item;
        size_t i;

        table_init(&table, columns, ARRAY_SIZE(columns));
        int r = service_open(&command->options, arguments, &s, &err);
        if (r == 0)
                r = service_list(&s, "/v1/sessions", "sessions", &list, &err);
        if (r < 0)
                return command_fail(arguments, &err);
        if (arguments_has(arguments, OPT_JSON)) {
                _cleanup_json_ json_t *whole = json_pack("{s:O}", "sessions", list);
                return output_json(whole);
        }
        if (arguments_has(arguments, OPT_QUIET))
                return print_ids(list);
        json_array_foreach(list, i, item) {
                add_session(&table, item);
        }
        return table_print(&table);
}

/* ---- show ---- */

static int add_line(struct buffer *out, const char *name, const char *value)
{
        return value ? buffer_printf(out, "%-12s %s\n", name, value) : 0;
}

static int write_limits(const json_t *limits, struct buffer *out)
{
        const char *key;
        json_t *value;
        int r = 0;

        json_object_foreach((json_t *)limits, key, value) {
                _cleanup_free_ char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
                if (r == 0 && text)
                        r = buffer_printf(out, "  %-16s %s\n", key, text);
        }
        return r;
}

/* Modes, and the names of secrets; what a server of before does not tell is left out. */
static int write_guard(const json_t *session, struct buffer *out)
{
        const json_t *policy = json_object_get(session, "policy"), *secrets = json_object_get(session, "secrets"), *name;
        size_t i;

        int r = add_line(out, "guard", json_member(policy, "guard", NULL));
        if (r == 0)
                r = add_line(out, "scrub", json_member(policy, "scrub", NULL));
        json_array_foreach(secrets, i, name)
                if (r == 0 && json_is_string(name))
                        r = add_line(out, i == 0 ? "secrets" : "", json_string_value(name));
        return r;
}

static int write_session(const json_t *session, struct buffer *out)
{
        char age[HUMAN_TEXT_MAX], idle[HUMAN_TEXT_MAX], runs[HUMAN_TEXT_MAX];
        const json_t *policy = json_object_get(session, "policy"), *control;
        size_t i;

        int r = add_line(out, "id", json_member(session, "id", NULL));
        if (r == 0)
                r = add_line(out, "name", json_member(session, "name", NULL));
        if (r == 0)
                r = add_line(out, "state", json_member(session, "state", NULL));
        if (r == 0)
                r = add_line(out, "backend", json_member(session, "backend", NULL));
        if (r == 0 && json_member(session, "image", NULL))
                r = add_line(out, "image", json_member(session, "image", NULL));
        if (r == 0 && json_member(session, "runtime", NULL))
                r = add_line(out, "runtime", json_member(session, "runtime", NULL));
        if (r == 0)
                r = add_line(out, "template", json_member(session, "template", "none"));
        if (r == 0)
                r = add_line(out, "trust", json_member(policy, "trust", NULL));
        if (r == 0)
                r = add_line(out, "network", json_member(policy, "network", NULL));
        if (r == 0)
                r = write_guard(session, out);
        if (r == 0)
                r = add_line(out, "workspace", json_member(json_object_get(session, "workspace"), "kind", NULL));
        if (r == 0)
                r = buffer_printf(out, "%-12s %s ago, last used %s ago\n", "created", human_json_ago(json_object_get(session, "created_at"), age),
                                  human_json_ago(json_object_get(session, "last_used_at"), idle));
        if (r == 0)
                r = add_line(out, "expires", json_member(session, "expires_at", NULL));
        if (r == 0)
                r = add_line(out, "runs", human_json_count(json_inner(session, "runs", "total"), runs));
        if (r == 0)
                r = buffer_add_string(out, "limits\n");
        if (r == 0)
                r = write_limits(json_object_get(policy, "limits"), out);
        json_array_foreach(json_object_get(session, "controls"), i, control) {
                if (r == 0 && strcmp(json_member(control, "state", ""), "enforced") != 0)
                        r = buffer_printf(out, "%-12s %s is %s: %s\n", "control", json_member(control, "name", ""),
                                          json_member(control, "state", ""), json_member(control, "how", ""));
        }
        return r;
}

int command_session_show(const struct command *command, const struct arguments *arguments)
{
        _cleanup_service_ struct service s = {.client = {.fd = -1}};
        _cleanup_json_ json_t *session = NULL;
        _cleanup_buffer_ struct buffer text;
        char id[RESPONSE_ID_MAX], target[64];
        gb_error err = {0};

        buffer_init(&text, TEXT_BYTES_MAX);
        int r = arguments->n_words == 1 ? service_open(&command->options, arguments, &s, &err)
                                        : error_set(&err, GB_E_USAGE, 0, "give the session: its id, the beginning of that, or its name");
        if (r == 0)
                r = ids_find_session(&s, arguments->words[0], id, &err);
        if (r == 0) {
                snprintf(target, sizeof(target), "/v1/sessions/%s", id);
                r = service_call(&s, "GET", target, NULL, &session, &err);
        }
        if (r < 0)
                return command_fail(arguments, &err);
        if (arguments_has(arguments, OPT_JSON))
                return output_json(session);
        if (write_session(session, &text) < 0) {
                service_out_of_memory(&err);
                return command_fail(arguments, &err);
        }
        return output_text(&text);
}

/* ---- rm ---- */

static int remove_one(struct service *s, const char *name, json_t *removed, gb_error *err)
{
        char id[RESPONSE_ID_MAX], target[64];

        int r = ids_find_session(s, name, id, err);
        if (r < 0)
                return r;
        snprintf(target, sizeof(target), "/v1/sessions/%s", id);
        r = service_call(s, "DELETE", target, NULL, NULL, err);
        if (r == 0)
                json_array_append_new(removed, json_string(id));
        return r;
}

/* Every session that was named is tried; the status is that of the first that could not be removed. */
int command_session_rm(const struct command *command, const struct arguments *arguments)
{
        _cleanup_service_ struct service s = {.client = {.fd = -1}};
        _cleanup_json_ json_t *removed = json_array();
        gb_error first = {0}, err = {0};
        bool failed = false;

        int r = arguments->n_words > 0 ? service_open(&command->options, arguments, &s, &first)
                                       : error_set(&first, GB_E_USAGE, 0, "give the sessions: ids, beginnings of ids, or names");
        if (r < 0)
                return command_fail(arguments, &first);
        for (size_t i = 0; i < arguments->n_words; i++) {
                if (remove_one(&s, arguments->words[i], removed, &err) == 0)
                        continue;
                if (failed)
                        message_print(MESSAGE_ERROR, "%s", err.message);
                else
                        first = err;
                failed = true;
        }
        if (failed)
                return command_fail(arguments, &first);
        if (!arguments_has(arguments, OPT_JSON))
                return 0;
        _cleanup_json_ json_t *whole = json_pack("{s:O}", "removed", removed);
        return output_json(whole);
}
