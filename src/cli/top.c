/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox top: what lives on a server, as it changes. On a terminal a table that fills it; otherwise one table, or with
 * --json a line for each sample. */
#include "cli/command.h"
#include "cli/output.h"
#include "cli/samples.h"
#include "cli/screen.h"
#include "cli/table.h"

#include "base/fd.h"
#include "base/parse.h"
#include "base/quote.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD_LINES 2 /* summary and titles */

struct top {
        struct service service;
        char target[64];
        enum samples_order order;
        size_t first; /* row that is shown first */
        size_t n_rows;
        json_t *stats; /* the last sample */
        struct buffer lines;
};

static void top_done(struct top *t)
{
        json_decref(t->stats);
        buffer_done(&t->lines);
        service_done(&t->service);
}

static int fill(const struct top *t, struct table *table)
{
        _cleanup_json_ json_t *sorted = samples_sorted(json_object_get(t->stats, "samples"), t->order);
        const json_t *sample;
        size_t i;

        if (!sorted)
                return -ENOMEM;
        json_array_foreach(sorted, i, sample) {
                samples_add(table, sample);
        }
        return 0;
}

/* ---- on a terminal ---- */

static int draw(struct top *t)
{
        _cleanup_table_ struct table table;
        unsigned rows = 24, width = terminal_size(STDOUT_FILENO, &rows);
        size_t room = rows > HEAD_LINES + 1 ? rows - HEAD_LINES : 1;
        static const char *const orders[] = {[SAMPLES_BY_CPU] = "cpu", [SAMPLES_BY_MEMORY] = "memory"};

        table_init(&table, sample_columns, n_sample_columns);
        t->lines.size = 0;
        int r = fill(t, &table);
        t->n_rows = table.n_rows;
        t->first = MIN(t->first, t->n_rows > room ? t->n_rows - room : 0);
        if (r == 0)
                r = samples_summary(t->stats, &t->lines);
        if (r == 0)
                r = buffer_printf(&t->lines, "; by %s (c, m), q quits", orders[t->order]);
        if (r == 0 && t->n_rows > room)
                r = buffer_printf(&t->lines, "; %zu to %zu of %zu", t->first + 1, MIN(t->first + room, t->n_rows), t->n_rows);
        /* A line that is too long would become two. */
        if (r == 0 && width > 0 && t->lines.size > width)
                t->lines.size = width;
        if (r == 0)
                r = buffer_add_string(&t->lines, "\n");
        if (r == 0)
                r = table_write(&table, t->first, room, width, true, &t->lines);
        return r < 0 ? r : screen_draw(&t->lines, rows);
}

/* False: leave. */
static bool take_key(struct top *t, enum screen_key key)
{
        unsigned rows = 24;
        (void)terminal_size(STDOUT_FILENO, &rows);
        size_t page = rows > HEAD_LINES + 1 ? rows - HEAD_LINES : 1;

        switch (key) {
        case KEY_QUIT:
                return false;
        case KEY_CPU:
                t->order = SAMPLES_BY_CPU;
                break;
        case KEY_MEMORY:
                t->order = SAMPLES_BY_MEMORY;
                break;
        case KEY_UP:
                t->first -= t->first > 0;
                break;
        case KEY_DOWN:
                t->first++;
                break;
        case KEY_PAGE_UP:
                t->first -= MIN(t->first, page);
                break;
        case KEY_PAGE_DOWN:
                t->first += page;
                break;
        case KEY_HOME:
                t->first = 0;
                break;
        case KEY_END:
                t->first = t->n_rows;
                break;
        case KEY_NONE:
        case KEY_REDRAW:
                break;
        }
        return true;
}

/* Samples that have come; the last one counts. 1: there was one. */
static int take_samples(struct top *t, gb_error *err)
{
        int r, found = 0;
        json_t *stats;

        while ((r = service_next(&t->service.client, &stats, err)) > 0) {
                if (json_object_get(stats, "samples")) {
                        json_decref(t->stats);
                        t->stats = stats;
                        found = 1;
                } else
                        json_decref(stats); /* a ping */
        }
        return r < 0 ? r : found;
}

/* Keys that were typed; false: leave. */
static bool take_keys(struct top *t, bool *changed)
{
        enum screen_key key;

        while ((key = screen_key()) != KEY_NONE) {
                *changed = true;
                if (!take_key(t, key))
                        return false;
        }
        return true;
}

static int watch(struct top *t, gb_error *err)
{
        struct client *c = &t->service.client;
        bool stay = true, changed = false;
        int r = screen_open();

        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot use the terminal: %s", strerror(-r));
        while (r >= 0 && stay) {
                r = client_step(c, err);
                if (r == 0)
                        r = take_samples(t, err);
                if (r == 0 && client_is_done(c))
                        r = error_set(err, GB_E_UNAVAILABLE, ECONNRESET, "the server has ended");
                if (r >= 0 && (changed || r > 0) && t->stats && draw(t) < 0)
                        r = error_set(err, GB_E_INTERNAL, EIO, "cannot write to the terminal");
                if (r < 0)
                        break;
                changed = false;
                struct pollfd p[] = {{c->fd, client_events(c), 0}, {screen_event_fd(), POLLIN, 0}};
                if (poll(p, ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
                        r = error_set(err, GB_E_INTERNAL, errno, "cannot wait: %s", strerror(errno));
                stay = take_keys(t, &changed);
        }
        screen_close();
        return r < 0 ? r : 0;
}

/* ---- elsewhere ---- */

/* The second sample: the first one knows no percentages. */
static int print_once(struct top *t, gb_error *err)
{
        _cleanup_table_ struct table table;

        table_init(&table, sample_columns, n_sample_columns);
        for (int i = 0; i < 2;) {
                json_t *stats = NULL;
                int r = service_wait_next(&t->service.client, 0, -1, &stats, err);
                if (r <= 0)
                        return r < 0 ? r : error_set(err, GB_E_UNAVAILABLE, ECONNRESET, "the server has ended");
                i += json_object_get(stats, "samples") != NULL;
                json_decref(t->stats);
                t->stats = stats;
        }
        return fill(t, &table) < 0 ? service_out_of_memory(err) : table_print(&table);
}

static int print_lines(struct top *t, gb_error *err)
{
        _cleanup_sink_ struct sink out;
        int r = 1;

        sink_init(&out, STDOUT_FILENO, false);
        while (r > 0 && out.error == 0) {
                _cleanup_json_ json_t *stats = NULL;
                r = service_wait_next(&t->service.client, 0, -1, &stats, err);
                if (r > 0 && json_object_get(stats, "samples"))
                        sink_write_json(&out, stats, JSON_COMPACT);
        }
        return r;
}

int command_top(const struct command *command, const struct arguments *arguments)
{
        _cleanup_(top_done) struct top t = {.service = {.client = {.fd = -1}}};
        const char *sort = arguments_get(arguments, OPT_SORT), *interval = arguments_get(arguments, OPT_INTERVAL);
        uint64_t usec = 1000000;
        gb_error err = {0};
        int r = 0;

        buffer_init(&t.lines, TEXT_BYTES_MAX);
        if (sort && strcmp(sort, "cpu") != 0 && strcmp(sort, "memory") != 0)
                r = error_set(&err, GB_E_USAGE, EINVAL, "--sort takes cpu or memory, not %s", quote(sort).text);
        if (r == 0 && interval && (parse_duration(interval, &usec) < 0 || usec < 100000 || usec > 60000000))
                r = error_set(&err, GB_E_USAGE, EINVAL, "--interval takes a time from 100ms to 60s, not %s", quote(interval).text);
        t.order = sort && sort[0] == 'm' ? SAMPLES_BY_MEMORY : SAMPLES_BY_CPU;
        if (r == 0)
                r = service_open(&command->options, arguments, &t.service, &err);
        if (r == 0) {
                snprintf(t.target, sizeof(t.target), "/v1/stats?interval=%.3f", (double)usec / 1e6);
                r = service_stream(&t.service, "GET", t.target, NULL, -1, &err);
        }
        if (r == 0) {
                const char *term = getenv("TERM");
                bool screen = isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) && (!term || strcmp(term, "dumb") != 0);
                r = arguments_has(arguments, OPT_JSON) ? print_lines(&t, &err) : screen ? watch(&t, &err) : print_once(&t, &err);
        }
        return r < 0 ? command_fail(arguments, &err) : r;
}
