/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox ps: the sessions and runs of a server that go on; with --all the runs that have ended lately, too. */
#include "cli/command.h"
#include "cli/human.h"
#include "cli/output.h"
#include "cli/samples.h"
#include "cli/table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define RECENT_DEFAULT "50"

static const struct table_column columns[] = {
        {.title = "ID"},
        {.title = "KIND"},
        {.title = "WHAT", .min = 6},
        {.title = "NAME", .min = 8},
        {.title = "AGE", .right = true},
        {.title = "CPU", .right = true},
        {.title = "MEMORY", .right = true},
        {.title = "STATE"},
};

struct ps {
        struct service service;
        json_t *sessions, *runs, *ended, *stats;
};

static void ps_done(struct ps *p)
{
        json_decref(p->sessions);
        json_decref(p->runs);
        json_decref(p->ended);
        json_decref(p->stats);
        service_done(&p->service);
}

static void add_session(struct table *t, const struct ps *p, const json_t *s)
{
        char id[HUMAN_TEXT_MAX], age[HUMAN_TEXT_MAX], cpu[HUMAN_TEXT_MAX], memory[HUMAN_TEXT_MAX];
        const json_t *sample = samples_find(p->stats, json_member(s, "id", ""));
        bool busy = json_integer_value(json_inner(s, "runs", "active")) > 0;

        human_json_time(json_inner(sample, "cpu", "usec"), cpu);
        human_json_size(json_inner(sample, "memory", "bytes"), memory);
        table_add(t, (const char *const[]){human_id(json_member(s, "id", ""), id), "session", json_member(s, "template", NULL),
                                           json_member(s, "name", NULL), human_json_ago(json_object_get(s, "created_at"), age), cpu, memory,
                                           busy ? "busy" : json_member(s, "state", NULL)});
}

/* Of a run in a session the session's name is its id; what it uses is told with the session. */
static void add_run(struct table *t, const struct ps *p, const json_t *run)
{
        char id[HUMAN_TEXT_MAX], session[HUMAN_TEXT_MAX], age[HUMAN_TEXT_MAX], cpu[HUMAN_TEXT_MAX], memory[HUMAN_TEXT_MAX];
        const char *in = json_member(run, "session", NULL), *state = json_member(run, "state", "");
        const json_t *sample = samples_find(p->stats, json_member(run, "id", ""));
        bool ended = strcmp(state, "ended") == 0;

        human_json_time(json_inner(sample, "cpu", "usec"), cpu);
        human_json_size(json_inner(sample, "memory", "bytes"), memory);
        if (ended)
                state = json_member(run, "verdict", json_object_get(run, "failed") ? "(not run)" : state);
        table_add(t, (const char *const[]){human_id(json_member(run, "id", ""), id), "run", json_member(run, "language", NULL),
                                           in ? human_id(in, session) : NULL, human_json_ago(json_object_get(run, "created_at"), age), cpu,
                                           memory, state});
}

/* ---- what the server says ---- */

/* The kind of each verdict, where the list does not have it: of those runs alone. */
static int add_verdicts(struct ps *p, gb_error *err)
{
        json_t *run;
        size_t i;

        json_array_foreach(p->ended, i, run) {
                _cleanup_json_ json_t *whole = NULL;
                char target[64];
                if (json_is_string(json_object_get(run, "verdict")) || strcmp(json_member(run, "state", ""), "ended") != 0)
                        continue;
                snprintf(target, sizeof(target), "/v1/runs/%s", json_member(run, "id", ""));
                if (service_call(&p->service, "GET", target, NULL, &whole, err) < 0) {
                        if (err->code == GB_E_NOT_FOUND)
                                continue; /* removed meanwhile */
                        return -EIO;
                }
                const json_t *result = json_object_get(whole, "result");
                const char *kind = json_member(json_object_get(result, "verdict"), "kind", NULL);
                bool failed = !kind && json_is_string(json_object_get(json_object_get(result, "error"), "code"));
                /* As in the audit: what was never run has no verdict. */
                if (failed)
                        json_object_set_new(run, "failed", json_true());
                json_object_set_new(run, "verdict", kind ? json_string(kind) : failed ? json_null() : json_string("lost"));
        }
        return 0;
}

static int list_recent(struct ps *p, const char *limit, gb_error *err)
{
        _cleanup_json_ json_t *answer = NULL;
        char target[64];

        snprintf(target, sizeof(target), "/v1/runs?limit=%.16s", limit);
        int r = service_call(&p->service, "GET", target, NULL, &answer, err);
        if (r < 0)
                return r;
        p->ended = json_incref(json_object_get(answer, "runs"));
        return add_verdicts(p, err);
}

static int ask(struct ps *p, const struct command *command, const struct arguments *a, gb_error *err)
{
        _cleanup_json_ json_t *queued = NULL;
        const char *limit = arguments_get(a, OPT_LIMIT);

        if (limit && (strspn(limit, "0123456789") != strlen(limit) || strlen(limit) > 4 || !*limit))
                return error_set(err, GB_E_USAGE, EINVAL, "--limit takes a number from 1 to 1000");
        int r = service_open(&command->options, a, &p->service, err);
        if (r == 0)
                r = service_list(&p->service, "/v1/sessions", "sessions", &p->sessions, err);
        if (r == 0)
                r = service_list(&p->service, "/v1/runs?state=running", "runs", &p->runs, err);
        if (r == 0)
                r = service_list(&p->service, "/v1/runs?state=queued", "runs", &queued, err);
        if (r == 0)
                r = service_call(&p->service, "GET", "/v1/stats", NULL, &p->stats, err);
        if (r == 0)
                json_array_extend(p->runs, queued);
        if (r == 0 && arguments_has(a, OPT_ALL))
                r = list_recent(p, limit ? limit : RECENT_DEFAULT, err);
        return r;
}

/* ---- what is printed ---- */

static int print_table(const struct ps *p)
{
        _cleanup_table_ struct table table;
        const json_t *item;
        size_t i;

        table_init(&table, columns, ARRAY_SIZE(columns));
        json_array_foreach(p->sessions, i, item) {
                add_session(&table, p, item);
        }
        json_array_foreach(p->runs, i, item) {
                add_run(&table, p, item);
        }
        json_array_foreach(p->ended, i, item) {
                if (strcmp(json_member(item, "state", ""), "ended") == 0)
                        add_run(&table, p, item);
        }
        return table_print(&table);
}

static int print_ids(const struct ps *p)
{
        _cleanup_buffer_ struct buffer text;
        const json_t *lists[] = {p->sessions, p->runs, p->ended}, *item;
        size_t k;

        buffer_init(&text, TEXT_BYTES_MAX);
        for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
                json_array_foreach((json_t *)lists[i], k, item) {
                        if (i < 2 || strcmp(json_member(item, "state", ""), "ended") == 0)
                                buffer_printf(&text, "%s\n", json_member(item, "id", ""));
                }
        return output_text(&text);
}

int command_ps(const struct command *command, const struct arguments *arguments)
{
        _cleanup_(ps_done) struct ps p = {.service = {.client = {.fd = -1}}};
        gb_error err = {0};

        if (ask(&p, command, arguments, &err) < 0)
                return command_fail(arguments, &err);
        if (arguments_has(arguments, OPT_JSON)) {
                _cleanup_json_ json_t *whole =
                        json_pack("{s:O, s:O, s:O, s:O*}", "sessions", p.sessions, "runs", p.runs, "stats", p.stats, "recent", p.ended);
                return output_json(whole);
        }
        return arguments_has(arguments, OPT_QUIET) ? print_ids(&p) : print_table(&p);
}
