/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/show.h"

#include "base/fd.h"
#include "base/json.h"
#include "cli/signals.h"
#include "cli/weaker.h"
#include "engine/network.h"
#include "engine/result_values.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Nobody reads, or the disk is full: the run has no purpose any more. */
static void note_failure(int r)
{
        if (r < 0)
                signals_cancel(2);
}

void show_started(void *data, uint64_t t_usec)
{
        struct show *s = data;

        for (size_t i = 0; s->timeout_usec > 0 && i < ARRAY_SIZE(s->sinks); i++)
                s->sinks[i].deadline_usec = monotonic_usec() + s->timeout_usec;
        if (s->events_wanted)
                note_failure(events_started(&s->events, t_usec));
}

void show_output(void *data, enum run_stream stream, const void *bytes, size_t size, uint64_t t_usec)
{
        struct show *s = data;

        if (s->json || s->sinks[s->events_wanted ? RUN_STDOUT : stream].error < 0)
                return;
        note_failure(s->events_wanted ? events_output(&s->events, stream, bytes, size, t_usec)
                                      : sink_write(&s->sinks[stream], bytes, size));
}

void show_init(struct show *s, const struct arguments *a, uint64_t timeout_usec, int cancel_fd)
{
        *s = (struct show){
                .json = arguments_has(a, OPT_JSON),
                .events_wanted = arguments_has(a, OPT_EVENTS),
                .quiet = arguments_has(a, OPT_QUIET),
                .events = {.sink = &s->sinks[RUN_STDOUT]},
                .timeout_usec = timeout_usec,
        };
        sink_init(&s->sinks[RUN_STDOUT], STDOUT_FILENO, arguments_has(a, OPT_RAW));
        sink_init(&s->sinks[RUN_STDERR], STDERR_FILENO, arguments_has(a, OPT_RAW));
        for (size_t i = 0; i < ARRAY_SIZE(s->sinks); i++)
                s->sinks[i].cancel_fd = cancel_fd;
}

void show_waits_not(struct show *s)
{
        for (size_t i = 0; i < ARRAY_SIZE(s->sinks); i++)
                s->sinks[i].deadline_usec = 1; /* it is over */
}

void show_done(struct show *s)
{
        for (size_t i = 0; i < ARRAY_SIZE(s->sinks); i++)
                sink_done(&s->sinks[i]);
}

static void say_on_new_line(struct show *s, enum message_kind kind, const char *format, ...) _printf_(3, 4);
static void say_on_new_line(struct show *s, enum message_kind kind, const char *format, ...)
{
        char text[FINDING_TEXT_MAX];
        va_list ap;

        va_start(ap, format);
        vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        /* On a terminal what was printed may have left its line open. */
        for (size_t i = 0; s->sinks[RUN_STDERR].is_terminal && i < ARRAY_SIZE(s->sinks); i++)
                if (s->sinks[i].neutralise && s->sinks[i].terminal.in_line) {
                        if (fd_write_all(STDERR_FILENO, "\n", 1) < 0)
                                return;
                        break;
                }
        for (size_t i = 0; i < ARRAY_SIZE(s->sinks); i++)
                s->sinks[i].terminal.in_line = false;
        message_print(kind, "%s", text);
}

static void say_verdict(struct show *s, const struct result *result)
{
        enum verdict_kind kind = result->verdict.kind;

        if (kind != VERDICT_OK && (kind != VERDICT_ERROR || s->sinks[RUN_STDERR].is_terminal))
                say_on_new_line(s, MESSAGE_ERROR, "%s: %s", verdict_name(kind), result->verdict.message);
}

static void say_finding(void *data, enum message_kind kind, const char *text)
{
        say_on_new_line(data, kind, "%s", text);
}

/* How it ended, what was found before, and scrubbed and refused while it lasted. The object may be NULL: then the result itself tells. */
static void say_end(struct show *s, const struct result *result, const json_t *object)
{
        _cleanup_json_ json_t *guard = object ? json_incref(json_object_get(object, "guard")) : result->findings ? guard_to_json(result->findings) : NULL;
        _cleanup_json_ json_t *scrubbed = object ? json_incref(json_object_get(object, "scrubbed")) : scrubbed_to_json(result);
        _cleanup_json_ json_t *network = object            ? json_incref(json_object_get(object, "network"))
                                         : result->network ? network_ledger_to_json(result->network, SIZE_MAX)
                                                           : NULL;
        bool blocked = result->verdict.kind == VERDICT_BLOCKED;

        s->view.say = say_finding;
        s->view.data = s;
        if (blocked)
                say_verdict(s, result);
        findings_tell(guard, blocked, &s->view);
        findings_tell_scrubbed(scrubbed, &s->view);
        findings_tell_network(network, &s->view);
        if (!blocked)
                say_verdict(s, result);
}

int show_report(struct show *s, const struct result *result, const struct policy *policy, json_t *object)
{
        _cleanup_json_ json_t *json = object;
        struct sink *out = &s->sinks[RUN_STDOUT];
        int status = verdict_exit_status(&result->verdict, &result->facts);

        if (!json && policy && (s->json || s->events_wanted))
                json = result_to_json(result, policy);
        if (s->json)
                sink_write_json(out, json, out->is_terminal ? JSON_INDENT(2) : JSON_COMPACT);
        else if (s->events_wanted) {
                int r = events_verdict(&s->events, json_incref(json));
                if (r < 0 && out->error == 0)
                        out->error = r;
        }
        for (size_t i = 0; i < ARRAY_SIZE(s->sinks); i++) {
                int r = sink_finish(&s->sinks[i]);
                if (r == -EPIPE)
                        status = STATUS_BROKEN_PIPE;
        }
        if (out->error < 0 && out->error != -EPIPE) {
                message_print(MESSAGE_ERROR, "cannot write to standard output: %s", strerror(-out->error));
                return error_exit_status(GB_E_INTERNAL);
        }
        if (!s->quiet && status != STATUS_BROKEN_PIPE) {
                weaker_warn(&result->controls, policy);
                if (!s->json && !s->events_wanted)
                        say_end(s, result, json);
        }
        return status;
}
