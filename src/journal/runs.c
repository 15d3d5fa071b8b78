/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs as they are written: begin, events, end. That a run has started is not written by itself, but with what comes next of it: most runs
 * have ended, or printed something, a moment later. */
#include "journal/state.h"

#include "base/limits.h"
#include "base/quote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- begin ---- */

struct run_begin {
        struct key_use use;
        struct underway *entry;
        bool is_added; /* to those that are under way */
};

static int add_run(struct journal *j, uint64_t number, const struct journal_run *run)
{
        _cleanup_statement_ sqlite3_stmt *s = database_statement(&j->writer, ST_RUN_ADD);

        if (!s)
                return sqlite3_extended_errcode(j->writer.db);
        statement_bind_u64(s, 1, number);
        statement_bind_text(s, 2, run->id);
        statement_bind_text(s, 3, run->tenant);
        statement_bind_text(s, 4, run->session);
        statement_bind_text(s, 5, run->context);
        statement_bind_text(s, 6, run->language);
        statement_bind_text(s, 7, run->trust);
        statement_bind_text(s, 8, run->token);
        statement_bind_u64(s, 9, run->created_usec);
        (void)sqlite3_bind_blob(s, 10, run->code_hash, JOURNAL_HASH_BYTES, SQLITE_STATIC);
        return statement_run(s);
}

static int write_begin(struct journal *j, void *args)
{
        struct run_begin *b = args;
        int r = journal_key_look(&j->writer, &b->use);

        if (r != SQLITE_OK || b->use.found)
                return r;
        /* In memory first: who finds the row finds it there, too. */
        b->entry->number = j->next_run++;
        underway_add(j, b->entry);
        b->is_added = true;
        r = journal_key_add(j, &b->use);
        return r != SQLITE_OK ? r : add_run(j, b->entry->number, &b->entry->run);
}

static void settle_begin(struct journal *j, void *args, bool kept)
{
        struct run_begin *b = args;

        if (!b->is_added)
                return;
        b->is_added = false;
        if (!kept) {
                underway_remove(j, b->entry);
                return;
        }
        b->entry = NULL; /* it is the table's */
        j->runs++;
}

int journal_run_begin(struct journal *j, const struct journal_run *run, const struct journal_key *key, char ret_id[static JOURNAL_ID_MAX], gb_error *err)
{
        static const struct journal_step step = {write_begin, settle_begin, "journal a run", false};
        _cleanup_free_ struct underway *entry = calloc(1, sizeof(*entry));
        int e = journal_key_check(key, err);

        if (e < 0)
                return e;
        if (!entry)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        entry->run = *run;
        entry->run.result = NULL;
        entry->run.state = JOURNAL_QUEUED;
        entry->run.verdict[0] = '\0';
        entry->run.next_seq = entry->run.out_bytes = entry->run.err_bytes = entry->run.started_usec = entry->run.ended_usec = 0;
        if (run->created_usec == 0)
                entry->run.created_usec = journal_now();
        struct run_begin b = {.use = {.tenant = run->tenant, .id = run->id, .key = key}, .entry = entry};
        e = journal_write(j, &step, &b, err);
        entry = b.entry;
        return e < 0 ? e : journal_key_answer(&b.use, ret_id, err);
}

/* ---- events ---- */

struct event {
        const char *run;
        enum journal_kind kind;
        uint64_t t_usec;
        const void *data;
        size_t size;
        int64_t seq; /* -1: there is no such run; -2: it has too many */
        struct underway *entry;
        uint64_t started_usec;
};

static int add_event(struct journal *j, uint64_t key, enum journal_kind kind, uint64_t t_usec, uint64_t offset, const void *data, size_t size)
{
        _cleanup_statement_ sqlite3_stmt *s = database_statement(&j->writer, ST_EVENT_ADD);

        if (!s)
                return sqlite3_extended_errcode(j->writer.db);
        statement_bind_u64(s, 1, key);
        (void)sqlite3_bind_int(s, 2, (int)kind);
        statement_bind_u64(s, 3, t_usec);
        statement_bind_u64(s, 4, offset);
        (void)sqlite3_bind_blob64(s, 5, data ? data : "", size, SQLITE_STATIC);
        return statement_run(s);
}

int journal_run_write_start(struct journal *j, const struct underway *e)
{
        return e->owes_start ? add_event(j, EVENT_KEY(e->number, 0), JOURNAL_STARTED, e->start_usec, e->run.started_usec, NULL, 0) : SQLITE_OK;
}

static int write_event(struct journal *j, void *args)
{
        struct event *event = args;
        struct underway *e = event->entry = underway_find(j, event->run);

        event->seq = -1;
        if (!e)
                return SQLITE_OK;
        event->seq = -2;
        /* One place is kept for the last event. */
        if (e->run.next_seq >= SEQ_RESULT - 1)
                return SQLITE_OK;
        event->seq = (int64_t)e->run.next_seq;
        event->started_usec = event->kind == JOURNAL_STARTED ? journal_now() : 0;
        uint64_t offset = event->kind == JOURNAL_STDOUT ? e->run.out_bytes : event->kind == JOURNAL_STDERR ? e->run.err_bytes : event->started_usec;
        int r = journal_run_write_start(j, e);
        return r != SQLITE_OK ? r : add_event(j, EVENT_KEY(e->number, e->run.next_seq), event->kind, event->t_usec, offset, event->data, event->size);
}

static void settle_event(struct journal *j, void *args, bool kept)
{
        const struct event *event = args;

        if (!kept || event->seq < 0)
                return;
        underway_paid_start(j, event->entry);
        underway_event(j, event->entry, event->kind, event->size, event->started_usec);
        j->events++;
}

int64_t journal_event(struct journal *j, const char *run, enum journal_kind kind, uint64_t t_usec, const void *data, size_t size, gb_error *err)
{
        static const struct journal_step step = {write_event, settle_event, "journal an event", false};
        struct event event = {.run = run, .kind = kind, .t_usec = t_usec, .data = data, .size = size};

        if (kind == JOURNAL_VERDICT || kind == JOURNAL_ERROR)
                return error_set(err, GB_E_INTERNAL, EINVAL, "the last event of a run comes with its end");
        if (size > JOURNAL_EVENT_BYTES_MAX)
                return error_set(err, GB_E_LIMIT, EFBIG, "an event of %zu bytes is too large for the journal", size);
        if (kind == JOURNAL_STARTED && size == 0 && !j->read_only && underway_start(j, run, t_usec)) {
                j->events++;
                return 0;
        }
        int e = journal_write(j, &step, &event, err);
        if (e < 0)
                return e;
        if (event.seq == -1)
                return error_set(err, GB_E_NOT_FOUND, ENOENT, "there is no run %s that goes on", quote(run).text);
        if (event.seq == -2)
                return error_set(err, GB_E_LIMIT, EOVERFLOW, "the run has %llu events, and cannot have more", (unsigned long long)(SEQ_RESULT - 1));
        return event.seq;
}

struct payment {
        const char *run;
        struct underway *entry; /* NULL: it has ended meanwhile */
};

static int write_payment(struct journal *j, void *args)
{
        struct payment *p = args;

        p->entry = underway_find(j, p->run);
        return p->entry ? journal_run_write_start(j, p->entry) : SQLITE_OK;
}

static void settle_payment(struct journal *j, void *args, bool kept)
{
        const struct payment *p = args;

        if (kept && p->entry)
                underway_paid_start(j, p->entry);
}

int journal_run_pay_start(struct journal *j, const char *run, gb_error *err)
{
        static const struct journal_step step = {write_payment, settle_payment, "journal an event", false};
        struct payment p = {.run = run};

        return journal_write(j, &step, &p, err);
}

/* ---- end ---- */

static int update_run(struct journal *j, const struct underway *e, const struct journal_end *end, uint64_t ended_usec)
{
        _cleanup_statement_ sqlite3_stmt *s = database_statement(&j->writer, ST_RUN_END);

        if (!s)
                return sqlite3_extended_errcode(j->writer.db);
        statement_bind_u64(s, 1, e->number);
        if (e->run.started_usec > 0)
                statement_bind_u64(s, 2, e->run.started_usec);
        statement_bind_u64(s, 3, ended_usec);
        statement_bind_text(s, 4, end->verdict);
        (void)sqlite3_bind_int(s, 5, !end->verdict);
        statement_bind_u64(s, 6, e->run.next_seq + 1);
        statement_bind_u64(s, 7, e->run.out_bytes);
        statement_bind_u64(s, 8, e->run.err_bytes);
        return statement_run(s);
}

int journal_run_write_end(struct journal *j, const struct underway *e, const struct journal_end *end, uint64_t ended_usec)
{
        const struct journal_run *run = &e->run;
        const char *event = end->event ? end->event : "{}";
        struct audit_row row = {
                .at_usec = ended_usec, .tenant = run->tenant, .token = run->token, .action = "run", .run = run->id, .session = run->session,
                .language = run->language, .code_hash = run->code_hash, .trust = run->trust, .verdict = end->verdict, .failed = !end->verdict,
                .peaks = end->peaks, .controls = end->controls, .more = end->more,
        };

        int r = journal_run_write_start(j, e);
        r = r != SQLITE_OK ? r : add_event(j, EVENT_KEY(e->number, run->next_seq), end->verdict ? JOURNAL_VERDICT : JOURNAL_ERROR, end->t_usec, 0, event, strlen(event));
        /* Mostly the result is what the last event says; then it is kept once. */
        if (r == SQLITE_OK && end->result && strcmp(end->result, event) != 0)
                r = add_event(j, EVENT_KEY(e->number, SEQ_RESULT), JOURNAL_VERDICT, end->t_usec, 0, end->result, strlen(end->result));
        r = r != SQLITE_OK ? r : update_run(j, e, end, ended_usec);
        return r != SQLITE_OK ? r : journal_audit_row(j, &row);
}

struct run_end {
        const char *run;
        const struct journal_end *end;
        struct underway *entry; /* NULL: there is none */
        uint64_t ended_usec;
        bool found;
};

/* What who reads the record would find. */
static void tell_end(const struct underway *e, const struct journal_end *end, uint64_t ended_usec)
{
        struct journal_run *run = end->ret_run;

        if (!run)
                return;
        *run = e->run;
        run->result = NULL;
        run->state = JOURNAL_ENDED;
        run->ended_usec = ended_usec;
        run->next_seq++;
        run->failed = !end->verdict;
        snprintf(run->verdict, sizeof(run->verdict), "%s", end->verdict ? end->verdict : "");
}

static int write_end(struct journal *j, void *args)
{
        struct run_end *end = args;

        end->entry = underway_find(j, end->run);
        end->found = end->entry;
        end->ended_usec = journal_now();
        return end->entry ? journal_run_write_end(j, end->entry, end->end, end->ended_usec) : SQLITE_OK;
}

static void settle_end(struct journal *j, void *args, bool kept)
{
        struct run_end *end = args;

        if (!kept || !end->entry)
                return;
        tell_end(end->entry, end->end, end->ended_usec);
        j->events++;
        underway_remove(j, end->entry);
        free(TAKE_PTR(end->entry));
}

int journal_run_end(struct journal *j, const char *run, const struct journal_end *end, gb_error *err)
{
        static const struct journal_step step = {write_end, settle_end, "journal the end of a run", true};
        struct run_end args = {.run = run, .end = end};

        int e = journal_write(j, &step, &args, err);
        if (e == 0 && !args.found)
                return error_set(err, GB_E_NOT_FOUND, ENOENT, "there is no run %s that goes on", quote(run).text);
        return e;
}
