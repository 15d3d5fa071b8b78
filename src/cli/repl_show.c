/* SPDX-License-Identifier: Apache-2.0
 *
 * What the caller sees of a run. Everything that comes from the box passes a sink, which on a terminal lets only
 * text and colours through (terminal.c). */
#include "cli/repl.h"

#include "base/fd.h"
#include "base/json.h"
#include "cli/signals.h"
#include "engine/network.h"
#include "engine/result_values.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define RED "\033[31m"

void repl_write(struct repl *r, enum run_stream stream, const void *bytes, size_t size)
{
        if (size == 0)
                return;
        /* Nobody reads: the run has no purpose any more. */
        if (sink_write(&r->sinks[stream], bytes, size) < 0)
                signals_cancel(2);
        bool open = ((const char *)bytes)[size - 1] != '\n';
        r->in_line[stream] = open;
        if (r->sinks[RUN_STDOUT].is_terminal && r->sinks[RUN_STDERR].is_terminal)
                r->in_line[RUN_STDOUT] = r->in_line[RUN_STDERR] = open;
}

void repl_fresh_line(struct repl *r, enum run_stream stream)
{
        if (r->in_line[stream])
                repl_write(r, stream, "\n", 1);
}

void repl_print(struct repl *r, const char *format, ...)
{
        _cleanup_free_ char *text = NULL;
        va_list ap;

        va_start(ap, format);
        int n = vasprintf(&text, format, ap);
        va_end(ap);
        if (n < 0) {
                text = NULL;
                return;
        }
        repl_write(r, RUN_STDOUT, text, (size_t)n);
}

void repl_say(struct repl *r, enum message_kind kind, const char *format, ...)
{
        char text[1024];
        va_list ap;

        va_start(ap, format);
        vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        repl_fresh_line(r, RUN_STDERR);
        message_print(kind, "%s", text);
}

void repl_show_begin(struct repl *r)
{
        for (size_t i = 0; i < ARRAY_SIZE(r->sinks); i++) {
                r->sinks[i].deadline_usec = monotonic_usec() + r->policy->timeout_usec;
                r->sinks[i].cancel_fd = r->cancel_fd;
        }
}

void repl_show_end(struct repl *r)
{
        for (size_t i = 0; i < ARRAY_SIZE(r->sinks); i++)
                sink_finish(&r->sinks[i]);
}

static void on_output(void *data, enum run_stream stream, const void *bytes, size_t size, uint64_t _unused_ t_usec)
{
        struct repl *r = data;

        if (!r->json)
                repl_write(r, stream, bytes, size);
}

static const struct result_part *find_part(const struct result_value *v, const char *mime)
{
        for (size_t i = 0; i < v->n_parts; i++)
                if (strcmp(v->parts[i].mime, mime) == 0)
                        return &v->parts[i];
        return NULL;
}

static void on_result(void *data, const struct result_value *value, uint64_t _unused_ t_usec)
{
        struct repl *r = data;
        const struct result_part *text = find_part(value, "text/plain");

        if (r->json || repl_show_picture(r, value))
                return;
        repl_fresh_line(r, RUN_STDOUT);
        if (text)
                repl_write(r, RUN_STDOUT, text->bytes, text->size);
        else
                for (size_t i = 0; i < value->n_parts; i++)
                        repl_print(r, "%s(%s, %zu bytes: cannot be shown as text)", i > 0 ? " " : "", value->parts[i].mime,
                                   value->parts[i].size);
        repl_fresh_line(r, RUN_STDOUT);
}

/* Each line in red. The sink ends the colour with the line. */
static void write_red(struct repl *r, const char *text, size_t size)
{
        _cleanup_buffer_ struct buffer shown;
        struct terminal t = {0}; /* its own colours would end ours */

        buffer_init(&shown, size * TERMINAL_GROWTH_MAX + TERMINAL_SLACK_BYTES);
        if (terminal_add(&t, &shown, text, size) < 0 || terminal_flush(&t, &shown) < 0)
                return;
        for (size_t at = 0; at < shown.size;) {
                size_t n = strcspn(shown.data + at, "\n");
                n += at + n < shown.size;
                repl_write(r, RUN_STDERR, RED, strlen(RED));
                repl_write(r, RUN_STDERR, shown.data + at, n);
                at += n;
        }
}

static void write_error(struct repl *r, const char *text, size_t size)
{
        if (output_wants_colour(r->sinks[RUN_STDERR].fd))
                write_red(r, text, size);
        else
                repl_write(r, RUN_STDERR, text, size);
}

/* The terminal has shown the Ctrl-C that ended the run, and left the line open. */
static void note_echo(struct repl *r)
{
        if (r->asks && signals_pending())
                r->in_line[RUN_STDOUT] = r->in_line[RUN_STDERR] = true;
}

static void on_error(void *data, const struct result_error *error, uint64_t _unused_ t_usec)
{
        struct repl *r = data;

        if (r->json)
                return;
        note_echo(r);
        repl_fresh_line(r, RUN_STDERR);
        if (error->traceback.size > 0) {
                write_error(r, error->traceback.bytes, error->traceback.size);
        } else {
                _cleanup_buffer_ struct buffer line;
                buffer_init(&line, 3 * ERROR_TEXT_MAX);
                if (buffer_add(&line, error->name.bytes, error->name.size) == 0 && buffer_add_string(&line, ": ") == 0 &&
                    buffer_add(&line, error->value.bytes, error->value.size) == 0)
                        write_error(r, line.data, line.size);
        }
        repl_fresh_line(r, RUN_STDERR);
}

const struct session_callbacks repl_callbacks = {.output = on_output, .result = on_result, .error = on_error};

/* A failure of the code has shown itself, and so has an interrupt that was heard. */
static bool needs_verdict(const struct result *result)
{
        switch (result->verdict.kind) {
        case VERDICT_OK:
                return false;
        case VERDICT_ERROR:
                return !result->has_error || !result->state_kept;
        case VERDICT_CANCELLED:
                return !result->has_error && result->state_kept;
        default:
                return true;
        }
}

static void say_finding(void *data, enum message_kind kind, const char *text)
{
        repl_say(data, kind, "%s", text);
}

static void show_findings(struct repl *r, const struct result *result)
{
        _cleanup_json_ json_t *guard = result->findings ? guard_to_json(result->findings) : NULL, *scrubbed = scrubbed_to_json(result);
        _cleanup_json_ json_t *network = result->network ? network_ledger_to_json(result->network, SIZE_MAX) : NULL;

        r->view.say = say_finding;
        r->view.data = r;
        findings_tell(guard, result->verdict.kind == VERDICT_BLOCKED, &r->view);
        findings_tell_scrubbed(scrubbed, &r->view);
        findings_tell_network(network, &r->view);
}

static void show_notes(struct repl *r, const struct result *result, bool gone)
{
        if (result->state_restarted && !r->told_lost)
                repl_say(r, MESSAGE_WARNING, "the interpreter had ended since the last run: this one ran in a new one, without the variables of before");
        if (needs_verdict(result))
                repl_say(r, MESSAGE_ERROR, "%s: %s", verdict_name(result->verdict.kind), result->verdict.message);
        show_findings(r, result);
        if (result->values_dropped > 0)
                repl_say(r, MESSAGE_WARNING, "%llu %s not shown, because of result_count or result_limit of the policy",
                         (unsigned long long)result->values_dropped, result->values_dropped == 1 ? "result is" : "results are");
        if (!result->state_kept && !gone)
                repl_say(r, MESSAGE_WARNING, "the interpreter was ended: its variables are lost, the next input starts a new one");
        r->told_lost = !result->state_kept;
}

void repl_show_result(struct repl *r, const struct result *result, bool gone)
{
        if (r->json) {
                _cleanup_json_ json_t *json = result_to_json(result, r->policy);
                sink_write_json(&r->sinks[RUN_STDOUT], json, JSON_COMPACT);
        }
        repl_show_end(r);
        if (!result->has_error)
                note_echo(r);
        if (!r->json)
                show_notes(r, result, gone);
        if (r->asks)
                repl_fresh_line(r, RUN_STDOUT);
        repl_show_end(r);
}
