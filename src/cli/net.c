/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox net: what a session may reach, what it has reached, and other rules for one that lives. */
#include "cli/command.h"
#include "cli/findings.h"
#include "cli/human.h"
#include "cli/ids.h"
#include "cli/output.h"
#include "cli/table.h"

#include "base/parse.h"
#include "base/quote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TITLES_EVERY 20 /* lines of --follow between its titles */
#define RED "\033[31m"
#define PLAIN "\033[0m"
#define OTHERS "(others)" /* hosts that the ledger had no place for */

struct net {
        struct service service;
        char target[96];
        uint64_t interval_usec;
        bool json, follow;
};

static const struct table_column columns[] = {
        {.title = "HOST", .min = 12},
        {.title = "PORT", .right = true},
        {.title = "DECISION"},
        {.title = "RULE", .min = 8, .drop = 2},
        {.title = "REQUESTS", .right = true},
        {.title = "UP", .right = true, .drop = 1},
        {.title = "DOWN", .right = true, .drop = 1},
};

static void add_row(struct table *t, const json_t *row)
{
        char port[HUMAN_TEXT_MAX], requests[HUMAN_TEXT_MAX], up[HUMAN_TEXT_MAX], down[HUMAN_TEXT_MAX];
        const char *host = json_member(row, "host", ""), *rule = json_member(row, "rule", "");

        table_add(t, (const char *const[]){*host ? host : OTHERS, human_json_count(json_object_get(row, "port"), port), json_member(row, "decision", NULL),
                                           *rule ? rule : NULL, human_json_count(json_object_get(row, "requests"), requests),
                                           human_json_size(json_object_get(row, "bytes_up"), up), human_json_size(json_object_get(row, "bytes_down"), down)});
}

/* A line of the table, to stand out when it was refused. */
static int add_coloured(struct buffer *out, const char *line, size_t size, bool red)
{
        int r = red ? buffer_add_string(out, RED) : 0;

        if (r == 0)
                r = buffer_add(out, line, size);
        return r < 0 || !red ? r : buffer_add_string(out, PLAIN);
}

/* Lines of a table: the titles, then one for each row. */
static int colour_rows(const struct buffer *lines, const json_t *rows, struct buffer *out)
{
        const char *at = lines->data, *end = lines->data + lines->size;
        int r = 0;

        for (size_t i = 0; at < end && r == 0; i++) {
                const char *newline = memchr(at, '\n', (size_t)(end - at));
                const char *stop = newline ? newline : end;
                r = add_coloured(out, at, (size_t)(stop - at), i > 0 && findings_is_refused(json_array_get(rows, i - 1)));
                if (r == 0)
                        r = buffer_add_string(out, "\n");
                at = stop + 1;
        }
        return r;
}

static int write_rows(const json_t *rows, struct buffer *out)
{
        _cleanup_table_ struct table table;
        _cleanup_buffer_ struct buffer lines;
        bool colours = output_wants_colour(STDOUT_FILENO);
        const json_t *row;
        size_t i;

        table_init(&table, columns, ARRAY_SIZE(columns));
        buffer_init(&lines, TEXT_BYTES_MAX);
        json_array_foreach((json_t *)rows, i, row) {
                add_row(&table, row);
        }
        int r = table_write(&table, 0, SIZE_MAX, terminal_size(STDOUT_FILENO, NULL), colours, &lines);
        if (r < 0)
                return r;
        return colours ? colour_rows(&lines, rows, out) : buffer_add(out, lines.data, lines.size);
}

/* ---- all of it, for people ---- */

/* "1.2M of 100M", or without a limit "1.2M". */
static const char *of_limit(const char *used, const char *limit, bool limited, char buf[static 2 * HUMAN_TEXT_MAX + 4])
{
        snprintf(buf, 2 * HUMAN_TEXT_MAX + 4, "%s%s%s", used, limited ? " of " : "", limited ? limit : "");
        return buf;
}

static bool is_limited(const json_t *answer, const char *key)
{
        return json_integer_value(json_inner(answer, "limits", key)) > 0;
}

static int write_totals(const json_t *answer, struct buffer *out)
{
        char a[HUMAN_TEXT_MAX], b[HUMAN_TEXT_MAX], pair[2 * HUMAN_TEXT_MAX + 4];
        const char *cut = json_member(answer, "cut", NULL);
        bool red = cut && output_wants_colour(STDOUT_FILENO);
        const json_t *up = json_inner(answer, "used", "bytes_up"), *down = json_inner(answer, "used", "bytes_down");
        bool known = json_is_integer(up) && json_is_integer(down);
        _cleanup_json_ json_t *bytes = known ? json_integer(json_integer_value(up) + json_integer_value(down)) : NULL;

        human_json_count(json_inner(answer, "used", "requests"), a);
        human_json_count(json_inner(answer, "limits", "requests"), b);
        int r = buffer_printf(out, "%-12s %s, ", "requests", of_limit(a, b, is_limited(answer, "requests"), pair));
        if (r == 0)
                r = buffer_printf(out, "%s refused\n", human_json_count(json_inner(answer, "used", "denied"), a));
        human_json_size(bytes, a);
        human_json_size(json_inner(answer, "limits", "bytes"), b);
        if (r == 0)
                r = buffer_printf(out, "%-12s %s: ", "bytes", of_limit(a, b, is_limited(answer, "bytes"), pair));
        if (r == 0)
                r = buffer_printf(out, "%s up, %s down\n", human_json_size(json_inner(answer, "used", "bytes_up"), a),
                                  human_json_size(json_inner(answer, "used", "bytes_down"), b));
        human_json_count(json_object_get(answer, "open"), a);
        human_json_count(json_inner(answer, "limits", "connections"), b);
        if (r == 0)
                r = buffer_printf(out, "%-12s %s open\n", "connections", of_limit(a, b, is_limited(answer, "connections"), pair));
        if (r == 0 && cut)
                r = buffer_printf(out, "%s%-12s the budget of %s is used up%s\n", red ? RED : "", "cut", cut, red ? PLAIN : "");
        return r;
}

static int write_list(const char *name, const json_t *list, const char *key, const char *without, struct buffer *out)
{
        const json_t *item;
        size_t i;
        int r = json_array_size(list) == 0 && without ? buffer_printf(out, "%-12s %s\n", name, without) : 0;

        json_array_foreach((json_t *)list, i, item) {
                const char *text = key ? json_member(item, key, "?") : json_string_value(item);
                if (r == 0)
                        r = buffer_printf(out, "%-12s %s\n", i == 0 ? name : "", text ? text : "?");
        }
        return r;
}

static int write_whole(const json_t *answer, struct buffer *out)
{
        const char *mode = json_member(answer, "mode", "none");
        const json_t *rows = json_object_get(answer, "hosts");

        int r = buffer_printf(out, "%-12s %s\n", "network", mode);
        if (r < 0 || strcmp(mode, "allowlist") != 0)
                return r;
        r = write_list("allowed", json_object_get(answer, "rules"), "rule", "nothing", out);
        if (r == 0)
                r = write_list("ranges", json_object_get(answer, "ranges"), NULL, NULL, out);
        if (r == 0)
                r = write_totals(answer, out);
        if (r == 0 && json_array_size(rows) > 0)
                r = buffer_add_string(out, "\n");
        return r < 0 || json_array_size(rows) == 0 ? r : write_rows(rows, out);
}

static int show(const struct net *n, const json_t *answer, gb_error *err)
{
        _cleanup_buffer_ struct buffer text;

        if (!json_is_string(json_object_get(answer, "mode")))
                return error_set(err, GB_E_LOST, EBADMSG,
                                 "the server's answer does not say what network the session has");
        if (n->json)
                return output_json(answer);
        buffer_init(&text, TEXT_BYTES_MAX);
        return write_whole(answer, &text) < 0 ? service_out_of_memory(err) : output_text(&text);
}

/* ---- as it changes ---- */

static bool is_same_text(const json_t *a, const json_t *b, const char *key)
{
        return strcmp(json_member(a, key, ""), json_member(b, key, "")) == 0;
}

static bool is_same_number(const json_t *a, const json_t *b, const char *key)
{
        return json_integer_value(json_object_get(a, key)) == json_integer_value(json_object_get(b, key));
}

static bool is_same_row(const json_t *a, const json_t *b)
{
        return is_same_text(a, b, "host") && is_same_number(a, b, "port") && is_same_text(a, b, "decision") && is_same_text(a, b, "protocol") &&
               is_same_text(a, b, "rule");
}

/* Whether there is something new in a row. */
static bool has_changed(const json_t *row, const json_t *before)
{
        const json_t *old;
        size_t i;

        json_array_foreach((json_t *)before, i, old) {
                if (is_same_row(row, old))
                        return !is_same_number(row, old, "requests") || !is_same_number(row, old, "bytes_up") || !is_same_number(row, old, "bytes_down");
        }
        return true;
}

/* Rows come one at a time, so each column has a width that does not depend on what is in it. */
static int print_line(const json_t *row, unsigned count, struct sink *out)
{
        static const char *const sizes[] = {"12345678901234567890123456789012", "65535", "server-name", "1234567890123456789012345678901234567890", "REQUESTS", "1023M", "1023M"};
        _cleanup_table_ struct table table;
        _cleanup_buffer_ struct buffer lines, text;
        bool colours = output_wants_colour(STDOUT_FILENO);
        struct table_column fixed[ARRAY_SIZE(columns)];

        memcpy(fixed, columns, sizeof(fixed));
        table_init(&table, fixed, ARRAY_SIZE(fixed));
        buffer_init(&lines, TEXT_BYTES_MAX);
        buffer_init(&text, TEXT_BYTES_MAX);
        table_add(&table, sizes);
        add_row(&table, row);
        if (table_write(&table, 1, 1, terminal_size(STDOUT_FILENO, NULL), false, &lines) < 0)
                return -ENOMEM;
        const char *titles = lines.data, *line = strchr(titles, '\n') + 1;
        int r = count % TITLES_EVERY == 0 ? buffer_add(&text, titles, (size_t)(line - titles)) : 0;
        if (r == 0)
                r = add_coloured(&text, line, strlen(line) - 1, colours && findings_is_refused(row));
        if (r == 0)
                r = buffer_add_string(&text, "\n");
        return r < 0 ? r : sink_write(out, text.data, text.size);
}

static void print_changes(const struct net *n, const json_t *now, const json_t *before, unsigned *count, struct sink *out)
{
        const json_t *row;
        size_t i;

        json_array_foreach((json_t *)now, i, row) {
                if (out->error < 0 || !has_changed(row, before))
                        continue;
                if (n->json)
                        sink_write_json(out, row, JSON_COMPACT);
                else
                        print_line(row, (*count)++, out);
        }
}

static int ask(struct net *n, json_t **ret, gb_error *err)
{
        return service_call(&n->service, "GET", n->target, NULL, ret, err);
}

static int follow(struct net *n, gb_error *err)
{
        const struct timespec pause = {(time_t)(n->interval_usec / 1000000), (long)(n->interval_usec % 1000000 * 1000)};
        _cleanup_json_ json_t *before = NULL;
        _cleanup_sink_ struct sink out;
        unsigned count = 0;

        sink_init(&out, STDOUT_FILENO, false);
        while (out.error == 0) {
                _cleanup_json_ json_t *answer = NULL;
                if (ask(n, &answer, err) < 0)
                        return before && err->code == GB_E_NOT_FOUND ? 0 : -EIO; /* it has ended */
                if (strcmp(json_member(answer, "mode", ""), "allowlist") != 0)
                        return error_set(err, GB_E_CONFLICT, 0, "the session has no allowlist, and so there is nothing to follow: its network is %s",
                                         quote(json_member(answer, "mode", "unknown")).text);
                json_t *now = json_object_get(answer, "hosts");
                print_changes(n, now, before, &count, &out);
                json_decref(before);
                before = json_incref(now);
                (void)nanosleep(&pause, NULL);
        }
        return 0;
}

/* ---- other rules ---- */

/* "bytes=10m", "requests=100", "connections=8"; 0: no limit. */
static int add_budget(json_t *body, const char *text, gb_error *err)
{
        const char *equals = strchr(text, '=');
        size_t size = equals ? (size_t)(equals - text) : 0;
        uint64_t amount = 0;

        bool bytes = size == strlen("bytes") && strncmp(text, "bytes", size) == 0;
        bool counted = (size == strlen("requests") && strncmp(text, "requests", size) == 0) || (size == strlen("connections") && strncmp(text, "connections", size) == 0);
        if (!bytes && !counted)
                return error_set(err, GB_E_USAGE, EINVAL, "--set takes bytes=SIZE, requests=N or connections=N, not %s", quote(text).text);
        if ((bytes ? parse_size(equals + 1, &amount) : parse_count(equals + 1, &amount)) < 0 || amount > INT64_MAX)
                return error_set(err, GB_E_USAGE, EINVAL, "--set %.*s takes %s, not %s", (int)size, text, bytes ? "a size such as 10m" : "a number", quote(equals + 1).text);
        return json_object_setn_new(body, text, size, json_integer((json_int_t)amount)) < 0 ? service_out_of_memory(err) : 0;
}

/* The change that is asked for; NULL: none. */
static int read_change(const struct arguments *a, json_t **ret, gb_error *err)
{
        _cleanup_json_ json_t *body = json_object(), *allow = json_array(), *ranges = json_array();
        bool named = arguments_has(a, OPT_ALLOW), clear = arguments_has(a, OPT_CLEAR), more = arguments_has(a, OPT_ALLOW_RANGE) || arguments_has(a, OPT_SET);
        int r = 0;

        if (!named && !clear)
                return more ? error_set(err, GB_E_USAGE, 0, "say what may pass, too: --allow RULE for each of the rules, or --clear for none") : 0;
        if (named && clear)
                return error_set(err, GB_E_USAGE, 0, "--allow and --clear exclude each other: --allow takes the place of the rules that are there");
        for (size_t i = 0; i < a->n_uses && r == 0; i++) {
                const struct option_use *use = &a->uses[i];
                if (use->option.id == OPT_ALLOW)
                        r = json_array_append_new(allow, json_string(use->value));
                else if (use->option.id == OPT_ALLOW_RANGE)
                        r = json_array_append_new(ranges, json_string(use->value));
                else if (use->option.id == OPT_SET)
                        r = add_budget(body, use->value, err);
                if (r == -1)
                        return error_set(err, GB_E_USAGE, EINVAL, "rules and ranges have to be UTF-8");
        }
        if (r < 0)
                return r;
        if (json_object_set(body, "allow", allow) < 0 || (json_array_size(ranges) > 0 && json_object_set(body, "ranges", ranges) < 0))
                return service_out_of_memory(err);
        *ret = TAKE_PTR(body);
        return 0;
}

static int read_arguments(struct net *n, const struct arguments *a, json_t **ret_change, gb_error *err)
{
        const char *interval = arguments_get(a, OPT_INTERVAL);

        *n = (struct net){.service = {.client = {.fd = -1}}, .interval_usec = 1000000, .json = arguments_has(a, OPT_JSON), .follow = arguments_has(a, OPT_FOLLOW)};
        if (a->n_words != 1)
                return error_set(err, GB_E_USAGE, 0, "give the session: its id, the beginning of that, or its name");
        if (interval && (parse_duration(interval, &n->interval_usec) < 0 || n->interval_usec < 100000 || n->interval_usec > 60000000))
                return error_set(err, GB_E_USAGE, EINVAL, "--interval takes a time from 100ms to 60s, not %s", quote(interval).text);
        return read_change(a, ret_change, err);
}

int command_net(const struct command *command, const struct arguments *arguments)
{
        _cleanup_json_ json_t *change = NULL, *answer = NULL;
        struct net n;
        char id[RESPONSE_ID_MAX];
        gb_error err = {0};

        int r = read_arguments(&n, arguments, &change, &err);
        if (r == 0)
                r = service_open(&command->options, arguments, &n.service, &err);
        if (r == 0)
                r = ids_find_session(&n.service, arguments->words[0], id, &err);
        if (r == 0) {
                snprintf(n.target, sizeof(n.target), "/v1/sessions/%s/network", id);
                if (change)
                        r = service_call(&n.service, "PUT", n.target, change, &answer, &err);
        }
        if (r == 0 && n.follow)
                r = follow(&n, &err);
        else if (r == 0) {
                r = change ? 0 : ask(&n, &answer, &err);
                r = r < 0 ? r : show(&n, answer, &err);
        }
        service_done(&n.service);
        return r < 0 ? command_fail(arguments, &err) : r;
}
