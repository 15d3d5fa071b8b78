/* SPDX-License-Identifier: Apache-2.0
 *
 * What was under way when the process that wrote the journal died. Nobody knows how such a run ended, nor whether one that
 * was only queued has not begun after all (the program starts before its first event is written): all are `lost`. */
#include "journal/state.h"

#include "base/json.h"

#include <errno.h>
#include <string.h>

#define LOST_MESSAGE "The server died while this ran; its outcome is not known."

static json_t *lost_verdict(void)
{
        return json_pack("{s:s, s:s, s:n, s:n, s:n}", "kind", "lost", "message", LOST_MESSAGE, "limit", "peak", "unit");
}

/* The result object of docs/results.md with what is known; the rest is null. */
static char *lost_result(const struct journal_run *run)
{
        static const char *const unknown[] = {"exit_code", "signal", "phase", "duration_ms", "cpu_ms", "setup_ms", "truncated", "peaks", "limits", "backend", "controls"};
        _cleanup_json_ json_t *o = json_object();
        int r = 0;

        r |= json_object_set_new(o, "id", json_string(run->id));
        r |= json_object_set_new(o, "verdict", lost_verdict());
        for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
                r |= json_object_set_new(o, unknown[i], json_null());
        r |= json_object_set_new(o, "policy", json_pack("{s:s, s:n, s:n, s:n}", "trust", run->trust, "origin", "network", "read_only"));
        r |= json_object_set_new(o, "language", json_string(run->language));
        r |= json_object_set_new(o, "notes", json_array());
        if (run->session[0]) {
                r |= json_object_set_new(o, "session", json_string(run->session));
                r |= json_object_set_new(o, "context", run->context[0] ? json_string(run->context) : json_null());
        }
        if (run->context[0]) /* the interpreter died with the server */
                r |= json_object_set_new(o, "state", json_pack("{s:b, s:n}", "kept", 0, "restarted"));
        return r == 0 ? json_print(o, 0) : NULL;
}

static int settle_run(struct journal *j, struct underway *e, uint64_t now)
{
        uint64_t last_usec = 0;

        int r = journal_run_count(&j->writer, e->number, &e->run, &last_usec);
        if (r != SQLITE_OK)
                return r;
        _cleanup_free_ char *result = lost_result(&e->run);
        if (!result)
                return SQLITE_NOMEM;
        const struct journal_end end = {.verdict = "lost", .event = result, .result = result, .t_usec = last_usec};
        return journal_run_write_end(j, e, &end, now);
}

static int settle_runs(struct journal *j, uint64_t now, uint64_t *ret_n)
{
        _cleanup_statement_ sqlite3_stmt *s = database_statement(&j->writer, ST_RUNS_OPEN);

        if (!s)
                return sqlite3_extended_errcode(j->writer.db);
        statement_bind_u64(s, 1, j->floor_written);
        int r;
        /* Rows that are behind us are changed; the one that is read is not read again. */
        while ((r = sqlite3_step(s)) == SQLITE_ROW) {
                struct underway e = {0};
                e.number = journal_run_from_row(s, &e.run);
                r = settle_run(j, &e, now);
                if (r != SQLITE_OK)
                        return r;
                ++*ret_n;
        }
        return r == SQLITE_DONE ? SQLITE_OK : r;
}

static int settle_sessions(struct journal *j, uint64_t now)
{
        /* Each end takes it out of the index that is walked: one at a time, from the front. */
        for (;;) {
                struct journal_session session;
                sqlite3_stmt *s = database_statement(&j->writer, ST_SESSIONS_OPEN);
                if (!s)
                        return sqlite3_extended_errcode(j->writer.db);
                int r = sqlite3_step(s);
                if (r == SQLITE_ROW)
                        journal_session_from_row(s, &session);
                statement_done(s);
                if (r != SQLITE_ROW)
                        return r == SQLITE_DONE ? SQLITE_OK : r;
                r = journal_session_write_end(j, &session, "lost", NULL, now);
                if (r != SQLITE_OK)
                        return r;
        }
}

int journal_settle_lost(struct journal *j, uint64_t *ret_runs, gb_error *err)
{
        uint64_t n = 0, now = journal_now();

        pthread_mutex_lock(&j->writer.lock);
        int r = journal_begin(j);
        r = r != SQLITE_OK ? r : settle_runs(j, now, &n);
        r = journal_commit(j, r != SQLITE_OK ? r : settle_sessions(j, now));
        int e = r == SQLITE_OK ? 0 : database_error(&j->writer, r, err, "settle what was under way in");
        pthread_mutex_unlock(&j->writer.lock);
        if (e == 0)
                *ret_runs = n;
        return e;
}
