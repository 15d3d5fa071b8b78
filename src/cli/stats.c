/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox stats: what a session or a run uses, now or as it changes. */
#include "cli/command.h"
#include "cli/human.h"
#include "cli/ids.h"
#include "cli/output.h"
#include "cli/samples.h"

#include "base/parse.h"
#include "base/quote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TITLES_EVERY 20 /* lines of a stream between its titles */

static int add_line(struct buffer *out, const char *name, const char *format, ...) _printf_(3, 4);
static int add_line(struct buffer *out, const char *name, const char *format, ...)
{
        char text[256];
        va_list ap;

        va_start(ap, format);
        vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        return buffer_printf(out, "%-8s %s\n", name, text);
}

/* One sample, for people. */
static int write_sample(const json_t *s, struct buffer *out)
{
        char a[HUMAN_TEXT_MAX], b[HUMAN_TEXT_MAX], c[HUMAN_TEXT_MAX];
        const json_t *milli = json_inner(s, "cpu", "limit_milli");

        int r = milli ? add_line(out, "cpu", "%s of processor time; at most %g CPU%s", human_json_time(json_inner(s, "cpu", "usec"), a),
                                 (double)json_integer_value(milli) / 1000.0, json_integer_value(milli) > 1000 ? "s" : "")
                      : add_line(out, "cpu", "%s of processor time", human_json_time(json_inner(s, "cpu", "usec"), a));
        if (r == 0)
                r = add_line(out, "memory", "%s of %s (peak %s)", human_json_size(json_inner(s, "memory", "bytes"), a),
                             human_json_size(json_inner(s, "memory", "limit_bytes"), b),
                             human_json_size(json_inner(s, "memory", "peak_bytes"), c));
        if (r == 0)
                r = add_line(out, "pids", "%s of %s (peak %s)", human_json_count(json_inner(s, "pids", "current"), a),
                             human_json_count(json_inner(s, "pids", "limit"), b), human_json_count(json_inner(s, "pids", "peak"), c));
        if (r == 0)
                r = add_line(out, "disk", "%s of %s, %s files", human_json_size(json_inner(s, "disk", "bytes"), a),
                             human_json_size(json_inner(s, "disk", "limit_bytes"), b), human_json_count(json_inner(s, "disk", "inodes"), c));
        if (r == 0)
                r = add_line(out, "io", "%s read, %s written", human_json_size(json_inner(s, "io", "read_bytes"), a),
                             human_json_size(json_inner(s, "io", "write_bytes"), b));
        if (r == 0)
                r = add_line(out, "output", "%s, %s/s now", human_json_size(json_inner(s, "output", "bytes"), a),
                             human_json_size(json_inner(s, "output", "bytes_per_second"), b));
        if (r == 0)
                r = add_line(out, "runs", "%s now, %s in all", human_json_count(json_inner(s, "runs", "active"), a),
                             human_json_count(json_inner(s, "runs", "total"), b));
        return r;
}

static int show_once(struct service *s, const char *target, bool json, gb_error *err)
{
        _cleanup_json_ json_t *sample = NULL;
        _cleanup_buffer_ struct buffer text;

        buffer_init(&text, TEXT_BYTES_MAX);
        int r = service_call(s, "GET", target, NULL, &sample, err);
        if (r < 0)
                return r;
        if (json)
                return output_json(sample);
        return write_sample(sample, &text) < 0 ? service_out_of_memory(err) : output_text(&text);
}

/* ---- a stream ---- */

/* A row, with the titles before it from time to time. */
static int write_row(const json_t *sample, unsigned count, struct sink *out)
{
        _cleanup_table_ struct table table;
        _cleanup_buffer_ struct buffer text;
        struct table_column fixed[TABLE_COLUMNS_MAX];

        /* Rows come one at a time, so each column has a width that does not depend on what is in it. */
        static const char *const sizes[] = {"123456789012", "session", "1234.5", "10m20s", "MEMORY", "1023M", "1023M",
                                            "12345",        "1023M",   "1023M",  "WRITTEN", "OUTPUT", "1023M", "RUNS"};
        memcpy(fixed, sample_columns, n_sample_columns * sizeof(fixed[0]));
        table_init(&table, fixed, n_sample_columns);
        buffer_init(&text, TEXT_BYTES_MAX);
        table_add(&table, sizes);
        samples_add(&table, sample);
        if (table_write(&table, 1, 1, 0, false, &text) < 0)
                return -ENOMEM;
        const char *line = text.data;
        if (count % TITLES_EVERY != 0)
                line = strchr(line, '\n') + 1;
        return sink_write(out, line, strlen(line));
}

static int watch(struct service *s, const char *target, bool json, gb_error *err)
{
        _cleanup_sink_ struct sink out;
        unsigned count = 0;

        sink_init(&out, STDOUT_FILENO, false);
        int r = service_stream(s, "GET", target, NULL, -1, err);
        while (r >= 0 && out.error == 0) {
                _cleanup_json_ json_t *sample = NULL;
                r = service_wait_next(&s->client, 0, -1, &sample, err);
                if (r == 0)
                        break; /* it has ended */
                if (r < 0 || !json_object_get(sample, "cpu"))
                        continue;
                if (json)
                        sink_write_json(&out, sample, JSON_COMPACT);
                else
                        write_row(sample, count, &out);
                count++;
        }
        return r;
}

int command_stats(const struct command *command, const struct arguments *arguments)
{
        _cleanup_service_ struct service s = {.client = {.fd = -1}};
        const char *interval = arguments_get(arguments, OPT_INTERVAL);
        bool watched = arguments_has(arguments, OPT_FOLLOW);
        char id[RESPONSE_ID_MAX], target[128];
        uint64_t usec = 1000000;
        bool is_run;
        gb_error err = {0};

        int r = arguments->n_words == 1 ? 0 : error_set(&err, GB_E_USAGE, 0, "give a session or a run: its id, or the beginning of that");
        if (r == 0 && interval && (parse_duration(interval, &usec) < 0 || usec < 100000 || usec > 60000000))
                r = error_set(&err, GB_E_USAGE, EINVAL, "--interval takes a time from 100ms to 60s, not %s", quote(interval).text);
        if (r == 0)
                r = service_open(&command->options, arguments, &s, &err);
        if (r == 0)
                r = ids_find(&s, arguments->words[0], id, &is_run, &err);
        if (r == 0) {
                int n = snprintf(target, sizeof(target), "/v1/%s/%s/stats", is_run ? "runs" : "sessions", id);
                if (watched)
                        snprintf(target + n, sizeof(target) - (size_t)n, "?interval=%.3f", (double)usec / 1e6);
                r = watched ? watch(&s, target, arguments_has(arguments, OPT_JSON), &err)
                            : show_once(&s, target, arguments_has(arguments, OPT_JSON), &err);
        }
        return r < 0 ? command_fail(arguments, &err) : r;
}
