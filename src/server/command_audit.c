/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox-server audit: who ran what, from the journal; a server may run beside it or not.
 *
 *   audit [--since TIME] [--until TIME] [--tenant NAME] [--session ID] [--verdict KIND] [--limit N]
 *
 * It takes --directory DIR, --config FILE and --json, too. Oldest first, as a table, or with --json one object a line. A TIME is 2026-01-05T10:00:00Z, or a
 * span ago: 2h. --limit: the newest so many. */
#include "base/json.h"
#include "base/parse.h"
#include "base/quote.h"
#include "engine/verdict.h"
#include "journal/journal.h"
#include "server/command_state.h"
#include "server/commands.h"
#include "server/live.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define PAGE 500 /* records that are read at a time */

struct flags {
        const char *directory, *config, *since, *until, *limit;
        bool json;
        struct journal_query query;
};

static const struct option options[] = {
        {"directory", required_argument, NULL, 'd'}, {"config", required_argument, NULL, 'c'}, {"since", required_argument, NULL, 's'},
        {"until", required_argument, NULL, 'u'}, {"tenant", required_argument, NULL, 't'}, {"session", required_argument, NULL, 'S'},
        {"verdict", required_argument, NULL, 'v'}, {"limit", required_argument, NULL, 'l'}, {"json", no_argument, NULL, 'j'}, {0},
};

static const char **place_of(struct flags *f, int option)
{
        switch (option) {
        case 'd':
                return &f->directory;
        case 'c':
                return &f->config;
        case 's':
                return &f->since;
        case 'u':
                return &f->until;
        case 't':
                return &f->query.tenant;
        case 'S':
                return &f->query.session;
        case 'v':
                return &f->query.verdict;
        default:
                return &f->limit;
        }
}

static int read_time(const char *name, const char *text, uint64_t *ret, gb_error *err)
{
        uint64_t span, now = live_wall_usec();

        if (!text || journal_time_parse(text, ret) == 0)
                return 0;
        if (command_span(text, &span) < 0)
                return error_set(err, GB_E_USAGE, EINVAL, "%s: %s is neither a time such as 2026-01-05T10:00:00Z nor a span ago such as 2h", name, quote(text).text);
        *ret = span < now ? now - span : 1;
        return 0;
}

static int check_verdict(const char *name, gb_error *err)
{
        if (!name)
                return 0;
        for (int i = 0; i <= VERDICT_LOST; i++)
                if (strcmp(verdict_name((enum verdict_kind)i), name) == 0)
                        return 0;
#define ONE(id, text, exit_status) " " text
        return error_set(err, GB_E_USAGE, EINVAL, "--verdict: there is no %s; there are:" VERDICTS(ONE), quote(name).text);
#undef ONE
}

static int parse_flags(int argc, char **argv, struct flags *f, uint64_t *ret_limit, gb_error *err)
{
        int option;

        opterr = 0;
        optind = 1;
        while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
                if (option == '?')
                        return command_wrong_option(argc, argv, "audit", err);
                if (option == 'j')
                        f->json = true;
                else
                        *place_of(f, option) = optarg;
        }
        if (optind < argc)
                return error_set(err, GB_E_USAGE, EINVAL, "audit: %s is too much", quote(argv[optind]).text);
        *ret_limit = UINT64_MAX;
        if (f->limit && (parse_count(f->limit, ret_limit) < 0 || *ret_limit == 0))
                return error_set(err, GB_E_USAGE, EINVAL, "--limit: %s is not a number from 1 on", quote(f->limit).text);
        int e = read_time("--since", f->since, &f->query.since_usec, err);
        e = e < 0 ? e : read_time("--until", f->until, &f->query.until_usec, err);
        return e < 0 ? e : check_verdict(f->query.verdict, err);
}

/* ---- the table ---- */

static const char *word(const json_t *record, const char *key)
{
        const char *text = json_string_value(json_object_get(record, key));

        return text ? text : "-";
}

static void print_head(void)
{
        printf("%-19s  %-12s  %-8s  %-15s  %-8s  %-8s  %-10s  %-9s  %s\n", "TIME", "TENANT", "TOKEN", "ACTION", "RUN", "SESSION", "LANGUAGE", "VERDICT", "CODE");
}

static void print_row(const json_t *record)
{
        const char *verdict = json_is_true(json_object_get(record, "failed")) ? "(not run)" : word(record, "verdict");

        printf("%.19s  %-12s  %-8s  %-15s  %-8.8s  %-8.8s  %-10s  %-9s  %.12s\n", word(record, "at"), quote_path(word(record, "tenant")).text, word(record, "token"),
               quote_path(word(record, "action")).text, word(record, "run"), word(record, "session"), quote_path(word(record, "language")).text, verdict,
               word(record, "code_sha256"));
}

struct printer {
        bool json;
        uint64_t n;
};

static int print_record(void *data, uint64_t cursor, const char *json)
{
        struct printer *p = data;

        (void)cursor;
        p->n++;
        if (p->json)
                return printf("%s\n", json) < 0 ? -EPIPE : 0;
        _cleanup_json_ json_t *record = json_loads(json, 0, NULL);
        if (!record)
                return -ENOMEM;
        if (p->n == 1)
                print_head();
        print_row(record);
        return 0;
}

/* ---- which ones ---- */

struct mark {
        uint64_t n, cursor;
};

static int count_record(void *data, uint64_t cursor, const char *json)
{
        struct mark *m = data;

        (void)json;
        m->n++;
        m->cursor = cursor;
        return 0;
}

/* Where the newest so many begin: right behind *ret; 0: with the first. */
static int find_start(struct journal *j, const struct journal_query *wanted, uint64_t limit, uint64_t *ret, gb_error *err)
{
        struct journal_query q = *wanted;
        struct mark mark = {0};

        do {
                q.limit = (size_t)MIN(limit - mark.n, (uint64_t)PAGE);
                int e = journal_audit(j, &q, count_record, &mark, &q.before, err);
                if (e < 0)
                        return e;
        } while (q.before > 0 && mark.n < limit);
        *ret = q.before > 0 ? mark.cursor - 1 : 0;
        return 0;
}

static int print_all(struct journal *j, const struct flags *f, uint64_t limit, gb_error *err)
{
        struct journal_query q = f->query;
        struct printer printer = {.json = f->json};

        int e = limit < UINT64_MAX ? find_start(j, &q, limit, &q.before, err) : 0;
        q.oldest_first = true;
        q.limit = PAGE;
        do {
                e = e < 0 ? e : journal_audit(j, &q, print_record, &printer, &q.before, err);
        } while (e == 0 && q.before > 0 && !ferror(stdout));
        if (e < 0 && err->code == GB_E_NONE)
                return error_set(err, GB_E_INTERNAL, -e, "cannot print a record: %s", strerror(-e));
        if (e == 0 && printer.n == 0 && !f->json)
                fprintf(stderr, "there is no such record\n");
        return e;
}

int command_audit(int argc, char **argv)
{
        struct flags flags = {.query = {.state = -1}};
        _cleanup_journal_ struct journal *j = NULL;
        _cleanup_free_ char *directory = NULL;
        uint64_t limit;
        gb_error err = {0};

        int e = parse_flags(argc, argv, &flags, &limit, &err);
        e = e < 0 ? e : command_directory(flags.directory, flags.config, &directory, &err);
        e = e < 0 ? e : journal_open_reader(directory, &j, &err);
        if (e < 0 && err.code == GB_E_NOT_FOUND)
                (void)error_prefix(&err, "no server has written a journal in %s", quote_path(directory ? directory : "").text);
        e = e < 0 ? e : print_all(j, &flags, limit, &err);
        return e < 0 ? command_failed(&err, flags.json) : command_end(0);
}
