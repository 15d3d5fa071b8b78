/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox logs: the output of a run, from the journal of the server. */
#include "cli/command.h"
#include "cli/ids.h"
#include "cli/remote.h"
#include "cli/show.h"

#include "base/parse.h"
#include "base/quote.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct logs {
        struct service service;
        struct show show;
        char run[RESPONSE_ID_MAX];
        uint64_t from;
        json_t *all;  /* with --json: the events */
        json_t *last; /* the verdict, when there is one */
        bool ended;
};

static int on_event(void *data, const char *kind, const json_t *event)
{
        struct logs *l = data;
        _cleanup_free_ void *decoded = NULL;
        const char *bytes;
        size_t size;

        if (l->all)
                return json_array_append(l->all, (json_t *)event) < 0 ? -ENOMEM : 0;
        if (l->show.events_wanted)
                return sink_write_json(&l->show.sinks[RUN_STDOUT], event, JSON_COMPACT);
        if (strcmp(kind, "stdout") != 0 && strcmp(kind, "stderr") != 0)
                return 0;
        enum run_stream stream = kind[3] == 'o' ? RUN_STDOUT : RUN_STDERR;
        if (remote_bytes(event, &bytes, &size, &decoded) < 0)
                return -EBADMSG;
        return sink_write(&l->show.sinks[stream], bytes, size);
}

/* Until the end of the run. */
static int follow(struct logs *l, gb_error *err)
{
        struct remote remote = {.service = &l->service, .from = l->from, .cancel_fd = -1, .stdin_fd = -1, .keep_error = true,
                                .sinks = l->show.sinks, .event = on_event, .data = l};

        show_waits_not(&l->show);
        memcpy(remote.run, l->run, sizeof(remote.run));
        int r = remote_run(&remote, &l->last, err);
        l->ended = r == 0;
        return r;
}

static int take_page(struct logs *l, const json_t *page, bool *ret_more, gb_error *err)
{
        const json_t *events = json_object_get(page, "events"), *next = json_object_get(page, "next");
        const json_t *ended = json_object_get(page, "ended");
        json_t *event;
        size_t i;

        if (!json_is_array(events) || !json_is_integer(next) || !json_is_boolean(ended))
                return error_set(err, GB_E_LOST, EBADMSG, "the server's answer is no page of events");
        json_array_foreach(events, i, event) {
                const char *kind = json_member(event, "event", "");
                int r = 0;
                if (strcmp(kind, "verdict") == 0 || strcmp(kind, "error") == 0)
                        l->last = json_incref(event);
                else
                        r = on_event(l, kind, event);
                if (r == -EBADMSG || r == -ENOMEM)
                        return error_set(err, GB_E_LOST, -r, "an event of the run cannot be read: %s", strerror(-r));
                if (r < 0) { /* nobody reads: the report says so */
                        *ret_more = false;
                        return 0;
                }
        }
        uint64_t number = (uint64_t)json_integer_value(next);
        *ret_more = number > l->from && !l->last;
        l->from = MAX(number, l->from);
        l->ended = json_is_true(ended);
        return 0;
}

/* What there is now: pages of events. */
static int read_all(struct logs *l, gb_error *err)
{
        bool more = true;
        int r = 0;

        while (r == 0 && more) {
                _cleanup_json_ json_t *page = NULL;
                char target[128];

                snprintf(target, sizeof(target), "/v1/runs/%s/events?from=%" PRIu64, l->run, l->from);
                r = service_call(&l->service, "GET", target, NULL, &page, err);
                if (r == 0)
                        r = take_page(l, page, &more, err);
        }
        return r;
}

static int report(struct logs *l)
{
        struct result result = {0};

        if (l->all) {
                if (l->last)
                        json_array_append(l->all, l->last);
                _cleanup_json_ json_t *whole = json_pack("{s:s, s:O, s:I, s:b}", "run", l->run, "events", l->all, "next",
                                                         (json_int_t)l->from, "ended", l->ended);
                sink_write_json(&l->show.sinks[RUN_STDOUT], whole, JSON_COMPACT);
        } else if (l->show.events_wanted && l->last)
                sink_write_json(&l->show.sinks[RUN_STDOUT], l->last, JSON_COMPACT);
        else if (json_object_get(l->last, "verdict")) {
                remote_result(l->last, &result);
                result.controls = (struct controls){0}; /* who ran it was told */
        } else if (l->last)
                message_print(MESSAGE_ERROR, "nothing was run: %s", json_member(json_object_get(l->last, "error"), "message", ""));
        /* What the run ended with is told; the status of this verb is its own. */
        l->show.quiet |= l->all || l->show.events_wanted || !json_object_get(l->last, "verdict");
        l->show.json = l->show.events_wanted = false;
        int status = show_report(&l->show, &result, NULL, json_incref(l->last));
        return l->show.sinks[RUN_STDOUT].error == 0 && l->show.sinks[RUN_STDERR].error == 0 ? 0 : status;
}

static int prepare(struct logs *l, const struct command *command, const struct arguments *a, gb_error *err)
{
        const char *from = arguments_get(a, OPT_FROM);

        if (a->n_words != 1)
                return error_set(err, GB_E_USAGE, 0, "give the run: its id, or the beginning of that ('glovebox ps --all' lists them)");
        if (arguments_has(a, OPT_JSON) && arguments_has(a, OPT_EVENTS))
                return error_set(err, GB_E_USAGE, 0, "--json and --events exclude each other");
        if (from && parse_count(from, &l->from) < 0)
                return error_set(err, GB_E_USAGE, EINVAL, "--from takes the number of an event, not %s", quote(from).text);
        int r = service_open(&command->options, a, &l->service, err);
        if (r == 0)
                r = ids_find_run(&l->service, a->words[0], l->run, err);
        if (r == 0 && arguments_has(a, OPT_JSON))
                l->all = json_array();
        return r;
}

int command_logs(const struct command *command, const struct arguments *arguments)
{
        struct logs l = {.service = {.client = {.fd = -1}}};
        gb_error err = {0};

        show_init(&l.show, arguments, 0, -1);
        int r = prepare(&l, command, arguments, &err);
        if (r == 0)
                r = arguments_has(arguments, OPT_FOLLOW) ? follow(&l, &err) : read_all(&l, &err);
        if (r == 0)
                r = report(&l);
        json_decref(l.all);
        json_decref(l.last);
        show_done(&l.show);
        service_done(&l.service);
        return r < 0 ? command_fail(arguments, &err) : r;
}
