/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs as they are read. Of a run that goes on, the row says only that it does; the rest is in memory, or is
 * counted from its events by who reads another process's journal. */
#include "journal/state.h"

#include "base/buffer.h"
#include "base/limits.h"
#include "base/quote.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define EVENTS_AT_ONCE_MAX 4096
#define GET_ATTEMPTS_MAX 8

void journal_run_done(struct journal_run *run)
{
        free(run->result);
        run->result = NULL;
}

void journal_runs_free(struct journal_run *runs, size_t n)
{
        for (size_t i = 0; i < n; i++)
                journal_run_done(&runs[i]);
        free(runs);
}

uint64_t journal_run_from_row(sqlite3_stmt *s, struct journal_run *ret)
{
        *ret = (struct journal_run){0};
        statement_text(s, 1, ret->id, sizeof(ret->id));
        statement_text(s, 2, ret->tenant, sizeof(ret->tenant));
        statement_text(s, 3, ret->session, sizeof(ret->session));
        statement_text(s, 4, ret->context, sizeof(ret->context));
        statement_text(s, 5, ret->language, sizeof(ret->language));
        statement_text(s, 6, ret->trust, sizeof(ret->trust));
        statement_text(s, 7, ret->token, sizeof(ret->token));
        ret->state = sqlite3_column_int(s, 8) == JOURNAL_ENDED ? JOURNAL_ENDED : JOURNAL_QUEUED;
        ret->created_usec = statement_u64(s, 9);
        ret->started_usec = statement_u64(s, 10);
        ret->ended_usec = statement_u64(s, 11);
        const void *hash = sqlite3_column_blob(s, 12);
        if (hash && sqlite3_column_bytes(s, 12) == JOURNAL_HASH_BYTES)
                memcpy(ret->code_hash, hash, JOURNAL_HASH_BYTES);
        statement_text(s, 13, ret->verdict, sizeof(ret->verdict));
        ret->failed = sqlite3_column_int(s, 14) != 0;
        ret->next_seq = statement_u64(s, 15);
        ret->out_bytes = statement_u64(s, 16);
        ret->err_bytes = statement_u64(s, 17);
        return statement_u64(s, 0);
}

int journal_run_count(struct database *d, uint64_t number, struct journal_run *run, uint64_t *ret_last_usec)
{
        _cleanup_statement_ sqlite3_stmt *s = database_statement(d, ST_RUN_TOTALS);

        if (!s)
                return sqlite3_extended_errcode(d->db);
        statement_bind_u64(s, 1, EVENT_KEY(number, 0));
        statement_bind_u64(s, 2, EVENT_KEY(number, SEQ_RESULT));
        int r = sqlite3_step(s);
        if (r != SQLITE_ROW)
                return r == SQLITE_DONE ? SQLITE_CORRUPT : r;
        run->next_seq = statement_u64(s, 0);
        run->started_usec = statement_u64(s, 1);
        run->out_bytes = statement_u64(s, 2);
        run->err_bytes = statement_u64(s, 3);
        run->state = run->started_usec > 0 ? JOURNAL_RUNNING : JOURNAL_QUEUED;
        if (ret_last_usec)
                *ret_last_usec = statement_u64(s, 4);
        return SQLITE_OK;
}

/* ---- one ---- */

static char *column_copy(sqlite3_stmt *s, int at)
{
        const char *bytes = sqlite3_column_blob(s, at);

        return bytes ? strndup(bytes, (size_t)sqlite3_column_bytes(s, at)) : NULL;
}

/* Row and result as they are in the file. SQLITE_ROW, SQLITE_DONE when there is none, or what went wrong. */
static int get_row(struct database *d, const char *id, struct journal_run *ret, uint64_t *ret_number)
{
        _cleanup_statement_ sqlite3_stmt *s = database_statement(d, ST_RUN_GET);

        if (!s)
                return sqlite3_extended_errcode(d->db);
        statement_bind_text(s, 1, id);
        int r = sqlite3_step(s);
        if (r != SQLITE_ROW)
                return r;
        *ret_number = journal_run_from_row(s, ret);
        if (ret->state == JOURNAL_ENDED && sqlite3_column_type(s, 18) != SQLITE_NULL) {
                ret->result = column_copy(s, 18);
                if (!ret->result)
                        return SQLITE_NOMEM;
        }
        return SQLITE_ROW;
}

/* A run as it is now. Between the look at its row and the look into memory it may end: then the row is looked at again. */
static int get_run(struct journal *j, struct database *d, const char *id, struct journal_run *ret)
{
        for (int i = 0; i < GET_ATTEMPTS_MAX; i++) {
                uint64_t number = 0;
                int r = get_row(d, id, ret, &number);
                if (r != SQLITE_ROW || ret->state == JOURNAL_ENDED)
                        return r;
                if (j->read_only) {
                        r = journal_run_count(d, number, ret, NULL);
                        return r == SQLITE_OK ? SQLITE_ROW : r;
                }
                if (underway_get(j, id, ret))
                        return SQLITE_ROW;
        }
        return SQLITE_CORRUPT; /* a row that goes on, and nobody who knows of it */
}

static int not_found(const char *id, gb_error *err)
{
        return error_set(err, GB_E_NOT_FOUND, ENOENT, "there is no run %s", quote(id).text);
}

int journal_run_get(struct journal *j, const char *tenant, const char *id, struct journal_run *ret, gb_error *err)
{
        _cleanup_reader_ struct database *d = journal_reader(j);
        _cleanup_journal_run_ struct journal_run run = {0};

        int r = get_run(j, d, id, &run);
        if (r == SQLITE_DONE || (r == SQLITE_ROW && tenant && strcmp(tenant, run.tenant) != 0))
                return not_found(id, err);
        if (r != SQLITE_ROW)
                return database_error(d, r, err, "read");
        *ret = run;
        run.result = NULL;
        return 0;
}

/* ---- many ---- */

struct page {
        struct journal_run *runs;
        uint64_t *numbers;
        size_t n;
        uint64_t before; /* where to go on */
        bool more;       /* there is one behind the last */
};

static void page_done(struct page *p)
{
        journal_runs_free(p->runs, p->n);
        free(p->numbers);
}

static bool matches(const struct journal_run *run, const struct journal_query *q)
{
        return (q->state < 0 || (int)run->state == q->state) && (!q->tenant || strcmp(q->tenant, run->tenant) == 0) &&
               (!q->session || strcmp(q->session, run->session) == 0) && (!q->verdict || strcmp(q->verdict, run->verdict) == 0) &&
               run->created_usec >= q->since_usec && (q->until_usec == 0 || run->created_usec < q->until_usec);
}

/* What a row does not say of a run that goes on. Not while a statement is under way: its look at the file would be an old one.
 * SQLITE_ROW; SQLITE_DONE: the run is gone. */
static int complete(struct journal *j, struct database *d, struct journal_run *run)
{
        char id[JOURNAL_ID_MAX];

        if (run->state == JOURNAL_ENDED || j->read_only || underway_get(j, run->id, run))
                return SQLITE_ROW;
        memcpy(id, run->id, sizeof(id));
        int r = get_run(j, d, id, run);
        if (r == SQLITE_ROW)
                journal_run_done(run);
        return r;
}

static int complete_page(struct journal *j, struct database *d, struct page *p)
{
        size_t kept = 0;

        for (size_t i = 0; i < p->n; i++) {
                int r = complete(j, d, &p->runs[i]);
                if (r != SQLITE_ROW && r != SQLITE_DONE)
                        return r;
                if (r == SQLITE_DONE)
                        continue;
                p->numbers[kept] = p->numbers[i];
                p->runs[kept++] = p->runs[i];
        }
        p->n = kept;
        return SQLITE_OK;
}

/* SQLITE_DONE when that is enough. */
static int page_add(struct page *p, const struct journal_query *q, uint64_t number, const struct journal_run *run)
{
        p->before = number;
        if (!matches(run, q))
                return SQLITE_ROW;
        if (p->n == q->limit) {
                p->more = true;
                return SQLITE_DONE;
        }
        p->numbers[p->n] = number;
        p->runs[p->n++] = *run;
        return SQLITE_ROW;
}

static int list_statement(const struct journal_query *q, const char **ret_value)
{
        *ret_value = q->session ? q->session : q->tenant;
        return q->session ? ST_RUNS_SESSION : q->tenant ? ST_RUNS_TENANT : ST_RUNS_ALL;
}

/* Looks at a bounded number of rows, so that the connection is not held for long. SQLITE_DONE: that was all, or enough; SQLITE_ROW: go on. */
static int look(struct journal *j, struct database *d, const struct journal_query *q, struct page *p)
{
        const char *value;
        _cleanup_statement_ sqlite3_stmt *s = database_statement(d, (unsigned)list_statement(q, &value));
        int r;

        if (!s)
                return sqlite3_extended_errcode(d->db);
        statement_bind_u64(s, 1, p->before);
        if (value)
                (void)sqlite3_bind_text(s, 2, value, -1, SQLITE_STATIC);
        for (size_t seen = 0; (r = sqlite3_step(s)) == SQLITE_ROW; seen++) {
                struct journal_run run;
                if (seen == JOURNAL_SCAN_MAX)
                        return SQLITE_ROW;
                uint64_t number = journal_run_from_row(s, &run);
                r = j->read_only && run.state != JOURNAL_ENDED ? journal_run_count(d, number, &run, NULL) : SQLITE_OK;
                r = r == SQLITE_OK ? page_add(p, q, number, &run) : r;
                if (r != SQLITE_ROW)
                        return r;
        }
        return r;
}

static int get_by_number(struct database *d, uint64_t number, struct journal_run *ret)
{
        _cleanup_statement_ sqlite3_stmt *s = database_statement(d, ST_RUN_ROW);

        if (!s)
                return sqlite3_extended_errcode(d->db);
        statement_bind_u64(s, 1, number);
        int r = sqlite3_step(s);
        if (r == SQLITE_ROW)
                (void)journal_run_from_row(s, ret);
        return r;
}

/* Those that go on: memory knows which they are, and rows need not be searched for them. */
static int look_at_live(struct journal *j, struct database *d, const struct journal_query *q, struct page *p)
{
        _cleanup_free_ uint64_t *numbers = NULL;
        size_t n;

        if (underway_numbers(j, q, &numbers, &n) < 0)
                return SQLITE_NOMEM;
        for (size_t i = 0; i < n; i++) {
                struct journal_run run;
                int r = get_by_number(d, numbers[i], &run);
                r = r == SQLITE_ROW ? complete(j, d, &run) : r;
                if (r == SQLITE_DONE)
                        continue;
                r = r == SQLITE_ROW ? page_add(p, q, numbers[i], &run) : r;
                if (r != SQLITE_ROW)
                        return r;
        }
        return SQLITE_DONE;
}

int journal_runs(struct journal *j, const struct journal_query *q, struct journal_run **ret, size_t *ret_n, uint64_t *ret_next, gb_error *err)
{
        _cleanup_(page_done) struct page p = {.before = q->before > 0 ? q->before : INT64_MAX};
        bool live = !j->read_only && (q->state == JOURNAL_QUEUED || q->state == JOURNAL_RUNNING);
        size_t room = MAX(q->limit, (size_t)1);
        int r = SQLITE_ROW;

        p.runs = calloc(room, sizeof(*p.runs));
        p.numbers = calloc(room, sizeof(*p.numbers));
        if (!p.runs || !p.numbers)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        while (r == SQLITE_ROW) {
                _cleanup_reader_ struct database *d = journal_reader(j);
                r = live ? look_at_live(j, d, q, &p) : look(j, d, q, &p);
                if (r != SQLITE_ROW && r != SQLITE_DONE)
                        return database_error(d, r, err, "read");
        }
        uint64_t next = p.more && p.n > 0 ? p.numbers[p.n - 1] : 0;
        {
                _cleanup_reader_ struct database *d = journal_reader(j);
                r = complete_page(j, d, &p);
                if (r != SQLITE_OK)
                        return database_error(d, r, err, "read");
        }
        if (ret_next)
                *ret_next = next;
        *ret_n = p.n;
        *ret = TAKE_PTR(p.runs);
        p.n = 0;
        return 0;
}

/* ---- events ---- */

struct batch {
        struct journal_event *events;
        size_t n, room, bytes;
};

static void batch_done(struct batch *b)
{
        for (size_t i = 0; i < b->n; i++)
                free((char *)b->events[i].data);
        free(b->events);
}

static int batch_add(struct batch *b, sqlite3_stmt *s)
{
        const void *bytes = sqlite3_column_blob(s, 4);
        size_t size = (size_t)sqlite3_column_bytes(s, 4);

        if (b->n == b->room) {
                size_t room = b->room ? 2 * b->room : 16;
                struct journal_event *events = reallocarray(b->events, room, sizeof(*events));
                if (!events)
                        return SQLITE_NOMEM;
                b->events = events;
                b->room = room;
        }
        char *data = malloc(size + 1);
        if (!data)
                return SQLITE_NOMEM;
        if (size > 0)
                memcpy(data, bytes, size);
        data[size] = '\0';
        enum journal_kind kind = (enum journal_kind)sqlite3_column_int(s, 1);
        bool is_output = kind == JOURNAL_STDOUT || kind == JOURNAL_STDERR;
        b->events[b->n++] = (struct journal_event){
                .seq = statement_u64(s, 0) & SEQ_RESULT, .kind = kind, .t_usec = statement_u64(s, 2), .offset = is_output ? statement_u64(s, 3) : 0,
                .data = data, .size = size,
        };
        b->bytes += size;
        return SQLITE_OK;
}

/* SQLITE_ROW and its number, SQLITE_DONE when there is none, or what went wrong. */
static int find_number(struct database *d, const char *id, uint64_t *ret)
{
        _cleanup_statement_ sqlite3_stmt *s = database_statement(d, ST_RUN_NUMBER);

        if (!s)
                return sqlite3_extended_errcode(d->db);
        statement_bind_text(s, 1, id);
        int r = sqlite3_step(s);
        if (r == SQLITE_ROW)
                *ret = statement_u64(s, 0);
        return r;
}

static int step_events(struct database *d, uint64_t number, uint64_t from, size_t max_bytes, struct batch *b)
{
        _cleanup_statement_ sqlite3_stmt *s = database_statement(d, ST_EVENTS);
        int r;

        if (!s)
                return sqlite3_extended_errcode(d->db);
        statement_bind_u64(s, 1, EVENT_KEY(number, MIN(from, SEQ_RESULT)));
        statement_bind_u64(s, 2, EVENT_KEY(number, SEQ_RESULT));
        while ((r = sqlite3_step(s)) == SQLITE_ROW) {
                size_t size = (size_t)sqlite3_column_bytes(s, 4);
                if (b->n == EVENTS_AT_ONCE_MAX || (b->n > 0 && b->bytes + size > max_bytes))
                        return SQLITE_DONE;
                r = batch_add(b, s);
                if (r != SQLITE_OK)
                        return r;
        }
        return r;
}

/* SQLITE_OK; SQLITE_DONE: there is no such run; or what went wrong. */
static int read_events(struct database *d, const char *run, uint64_t from, size_t max_bytes, struct batch *b)
{
        uint64_t number = 0;

        int r = find_number(d, run, &number);
        if (r != SQLITE_ROW)
                return r;
        r = step_events(d, number, from, max_bytes, b);
        if (r != SQLITE_DONE)
                return r;
        /* The first events may have been removed between the two looks, and the rest would pass for all of them. Then the
         * run itself is gone. A transaction would not do: without memory it could not be ended. */
        r = find_number(d, run, &number);
        return r == SQLITE_ROW ? SQLITE_OK : r;
}

int64_t journal_events(struct journal *j, const char *run, uint64_t from, size_t max_bytes, journal_event_function *f, void *data, gb_error *err)
{
        _cleanup_(batch_done) struct batch b = {0};
        int e = underway_owes_start(j, run) ? journal_run_pay_start(j, run, err) : 0;

        if (e < 0)
                return e;
        {
                _cleanup_reader_ struct database *d = journal_reader(j);
                int r = read_events(d, run, from, max_bytes, &b);
                if (r == SQLITE_DONE)
                        return not_found(run, err);
                if (r != SQLITE_OK)
                        return database_error(d, r, err, "read");
        }
        for (size_t i = 0; i < b.n && e >= 0; i++)
                e = f(data, &b.events[i]);
        return e < 0 ? e : (int64_t)b.n;
}
