/* SPDX-License-Identifier: Apache-2.0
 *
 * Upkeep: what is over the limits goes, oldest first; the log is copied into the file.
 *
 * When room is needed, it is whoever has most in the file who gives it, down to what the next one has: a tenant that writes much cannot make the
 * journal forget another's runs.
 *
 * Everything is done in steps of a bounded size, and the lock is given back between two of them. A run that is too large to be removed in
 * one step is first made invisible (STATE_GOING); the steps after that, or those of the next process, remove the rest.
 *
 * The log grows until it is JOURNAL_LOG_BYTES large. Then most of it is copied while others write. What came meanwhile is copied with all locks
 * held, so that the log can begin anew, and its first page, for which SQLite waits for the disk, is written here and not by a
 * run. */
#include "journal/state.h"

#include "base/limits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STEP_RUNS 16           /* removed in one transaction */
#define STEP_LOOK 128          /* looked at for that: not all that are old are at the front */
#define STEP_EVENTS 512        /* events of them */
#define STEP_BYTES (1 * MIB)   /* and their data */
#define STEPS_MAX 256          /* of one kind in one call */
#define STEP_PAUSE_NSEC 100000 /* for those who wait for the lock; a mutex is not fair */
#define AUDIT_BYTES 1024       /* records may have half of the file, at 512 bytes each */
#define RUN_BYTES 1024         /* about what a run has besides its output */
#define LOOKS_MAX 8            /* for who has most, in one call */
#define FLOOR_STEP 1024
#define START_USEC 100000ULL   /* what has started so long ago, and said nothing since */
#define COPY_ROUNDS_MAX 4
#define COPY_REST_PAGES 256    /* so many may be left for the moment when nobody writes */
#define VACUUM_PAGES_MIN 1024  /* free pages that are no reason to make the file smaller */

static void pause_briefly(void)
{
        (void)nanosleep(&(struct timespec){.tv_nsec = STEP_PAUSE_NSEC}, NULL);
}

/* ---- runs ---- */

struct old_run {
        uint64_t number, ended_usec, bytes;
        bool going;
};

/* Of a tenant; NULL: of all. */
static int oldest_runs(struct journal *j, const char *tenant, struct old_run ret[static STEP_LOOK], size_t *ret_n)
{
        _cleanup_statement_ sqlite3_stmt *s = database_statement(&j->writer, tenant ? ST_OLDEST_RUNS_OF : ST_OLDEST_RUNS);
        size_t n = 0;
        int r;

        if (!s)
                return sqlite3_extended_errcode(j->writer.db);
        statement_bind_u64(s, 1, STEP_LOOK);
        if (tenant)
                statement_bind_text(s, 2, tenant);
        while ((r = sqlite3_step(s)) == SQLITE_ROW && n < STEP_LOOK)
                ret[n++] = (struct old_run){.number = statement_u64(s, 0), .going = sqlite3_column_int(s, 1) == STATE_GOING, .ended_usec = statement_u64(s, 2),
                                            .bytes = statement_u64(s, 3) + RUN_BYTES};
        *ret_n = n;
        return r == SQLITE_DONE || r == SQLITE_ROW ? SQLITE_OK : r;
}

/* What a step may still do. */
struct budget {
        uint64_t events, bytes;
        unsigned removed, pieces;
};

/* The last event of the run up to which the budget reaches. *ret_all: that is all of them. */
static int choose_events(struct journal *j, uint64_t number, struct budget *b, uint64_t *ret_last, bool *ret_all)
{
        _cleanup_statement_ sqlite3_stmt *s = database_statement(&j->writer, ST_EVENT_SIZES);
        int r;

        if (!s)
                return sqlite3_extended_errcode(j->writer.db);
        statement_bind_u64(s, 1, EVENT_KEY(number, 0));
        statement_bind_u64(s, 2, EVENT_KEY(number, SEQ_RESULT));
        statement_bind_u64(s, 3, STEP_EVENTS);
        uint64_t seen = 0;
        *ret_all = false;
        while ((r = sqlite3_step(s)) == SQLITE_ROW) {
                uint64_t bytes = statement_u64(s, 1);
                *ret_last = statement_u64(s, 0);
                seen++;
                b->events -= MIN(b->events, (uint64_t)1);
                b->bytes -= MIN(b->bytes, bytes);
                if (b->events == 0 || b->bytes == 0)
                        return SQLITE_OK; /* perhaps it was the last; the next step finds out */
        }
        *ret_all = r == SQLITE_DONE && seen < STEP_EVENTS;
        return r == SQLITE_DONE ? SQLITE_OK : r;
}

static int run_on(struct journal *j, enum statement number, uint64_t first, uint64_t second)
{
        _cleanup_statement_ sqlite3_stmt *s = database_statement(&j->writer, number);

        if (!s)
                return sqlite3_extended_errcode(j->writer.db);
        statement_bind_u64(s, 1, first);
        if (sqlite3_bind_parameter_count(s) > 1)
                statement_bind_u64(s, 2, second);
        return statement_run(s);
}

static int remove_run(struct journal *j, const struct old_run *run, struct budget *b)
{
        uint64_t last = EVENT_KEY(run->number, 0);
        bool all = false;

        int r = choose_events(j, run->number, b, &last, &all);
        r = r != SQLITE_OK ? r : run_on(j, ST_EVENTS_REMOVE, EVENT_KEY(run->number, 0), last);
        if (r != SQLITE_OK)
                return r;
        b->pieces++;
        if (!all)
                return run->going ? SQLITE_OK : run_on(j, ST_RUN_GOING, run->number, 0);
        b->removed++;
        return run_on(j, ST_RUN_REMOVE, run->number, 0);
}

static int used_bytes(struct journal *j, uint64_t *ret)
{
        uint64_t pages = 0, unused = 0;

        int r = database_number(&j->writer, "PRAGMA page_count", &pages);
        r = r != SQLITE_OK ? r : database_number(&j->writer, "PRAGMA freelist_count", &unused);
        *ret = (pages - MIN(pages, unused)) * DATABASE_PAGE_BYTES;
        return r;
}

static bool is_old(const struct journal *j, const struct old_run *run, uint64_t now)
{
        return run->going || (j->limits.age_usec > 0 && run->ended_usec + j->limits.age_usec < now);
}

static bool is_full(const struct journal *j, uint64_t removed, uint64_t used)
{
        const struct journal_limits *l = &j->limits;

        return (l->runs > 0 && j->runs - removed > l->runs) || (l->bytes > 0 && used > l->bytes - l->bytes / 8);
}

/* Which are removed: those that are too old; of one tenant (or of all) as many as must go for room; or whatever is there. */
enum removal { REMOVE_OLD, REMOVE_FOR_ROOM, REMOVE_ANY };

/* One transaction. */
static int remove_some(struct journal *j, enum removal why, const char *tenant, struct budget *b)
{
        struct old_run runs[STEP_LOOK];
        uint64_t used = 0, now = journal_now(), bytes = 0;
        size_t n = 0;

        int r = oldest_runs(j, tenant, runs, &n);
        r = r != SQLITE_OK ? r : used_bytes(j, &used);
        if (r != SQLITE_OK || n == 0)
                return r;
        r = journal_begin(j);
        for (size_t i = 0; i < n && r == SQLITE_OK && b->events > 0 && b->bytes > 0 && b->pieces < STEP_RUNS; i++)
                if (why == REMOVE_ANY || (why == REMOVE_FOR_ROOM ? is_full(j, b->removed, used) : is_old(j, &runs[i], now))) {
                        r = remove_run(j, &runs[i], b);
                        bytes += runs[i].bytes;
                }
        r = journal_commit(j, r);
        if (r != SQLITE_OK) {
                *b = (struct budget){0};
                return r;
        }
        j->runs -= MIN(j->runs, (uint64_t)b->removed);
        j->removed_runs += b->removed;
        j->largest_lead -= MIN(j->largest_lead, bytes);
        return SQLITE_OK;
}

/* Who has most, and by how much. */
static int find_largest(struct journal *j, gb_error *err)
{
        char tenant[JOURNAL_TENANT_MAX] = "";
        uint64_t shares[2] = {0};
        size_t n = 0;
        int r = SQLITE_DONE;

        pthread_mutex_lock(&j->upkeep.lock);
        sqlite3_stmt *s = database_statement(&j->upkeep, ST_SHARES);
        if (s)
                statement_bind_u64(s, 1, RUN_BYTES);
        while (s && n < ARRAY_SIZE(shares) && (r = sqlite3_step(s)) == SQLITE_ROW) {
                if (n == 0)
                        (void)snprintf(tenant, sizeof(tenant), "%s", (const char *)sqlite3_column_text(s, 0));
                shares[n++] = statement_u64(s, 1);
        }
        statement_done(s);
        int e = s && (r == SQLITE_DONE || r == SQLITE_ROW) ? 0 : database_error(&j->upkeep, sqlite3_extended_errcode(j->upkeep.db), err, "tidy");
        pthread_mutex_unlock(&j->upkeep.lock);
        if (e < 0)
                return e;
        pthread_mutex_lock(&j->writer.lock);
        memcpy(j->largest, tenant, sizeof(tenant));
        /* Alone, or level with the next: at least something, or nothing would ever go. */
        j->largest_lead = n < 2 ? UINT64_MAX : MAX(shares[0] - shares[1], (uint64_t)STEP_BYTES);
        pthread_mutex_unlock(&j->writer.lock);
        return 0;
}

int journal_make_room(struct journal *j)
{
        struct budget b = {.events = STEP_EVENTS, .bytes = STEP_BYTES};

        int r = j->largest[0] && j->largest_lead > 0 ? remove_some(j, REMOVE_ANY, j->largest, &b) : SQLITE_OK;
        if (r == SQLITE_OK && b.pieces == 0)
                r = remove_some(j, REMOVE_ANY, NULL, &b);
        return r == SQLITE_OK ? (int)b.pieces : -ENOSPC;
}

/* ---- the rest ---- */

static uint64_t before(uint64_t now, uint64_t usec)
{
        return usec > 0 && now > usec ? now - usec : 0;
}

static int remove_sessions(struct journal *j, uint64_t now, bool *ret_more)
{
        uint64_t kept = j->limits.runs, first = kept > 0 && j->next_session > kept ? j->next_session - kept : 0;

        return run_on(j, ST_SESSIONS_REMOVE, before(now, j->limits.age_usec), first);
}

static int remove_keys(struct journal *j, uint64_t now, bool *ret_more)
{
        return run_on(j, ST_KEYS_REMOVE, now - MIN(now, j->limits.key_usec), 0);
}

/* How many records there may be. An audit never goes for the sake of output, so it has a share of the file by itself. */
static uint64_t audit_max(const struct journal *j)
{
        uint64_t max = j->limits.audit_records > 0 ? j->limits.audit_records : UINT64_MAX;

        return j->limits.bytes > 0 ? MIN(max, j->limits.bytes / AUDIT_BYTES) : max;
}

static int remove_audit(struct journal *j, uint64_t now, bool *ret_more)
{
        uint64_t max = audit_max(j), count = j->next_audit - j->first_audit, age = before(now, j->limits.audit_usec), cut = j->first_audit;
        uint64_t too_many = count > max ? j->first_audit + (count - max) : 0;
        _cleanup_statement_ sqlite3_stmt *s = database_statement(&j->writer, ST_AUDIT_OLDEST);
        int r;

        if (!s)
                return sqlite3_extended_errcode(j->writer.db);
        statement_bind_u64(s, 1, j->first_audit);
        while ((r = sqlite3_step(s)) == SQLITE_ROW && (statement_u64(s, 0) < too_many || statement_u64(s, 1) < age))
                cut = statement_u64(s, 0) + 1;
        if (r != SQLITE_ROW && r != SQLITE_DONE)
                return r;
        statement_done(s);
        if (cut == j->first_audit)
                return SQLITE_OK;
        r = run_on(j, ST_AUDIT_REMOVE, cut, 0);
        if (r == SQLITE_OK)
                j->first_audit = cut;
        return r;
}

/* Gives room back to the file system when much of the file is unused. */
static int shrink(struct journal *j, uint64_t now, bool *ret_more)
{
        uint64_t pages = 0, unused = 0;

        int r = database_number(&j->writer, "PRAGMA page_count", &pages);
        r = r != SQLITE_OK ? r : database_number(&j->writer, "PRAGMA freelist_count", &unused);
        if (r != SQLITE_OK || unused < MAX((uint64_t)VACUUM_PAGES_MIN, pages / 4))
                return r;
        *ret_more = true;
        return database_exec(&j->writer, "PRAGMA incremental_vacuum(64)");
}

/* Everything below this number has ended: the next process need not look there for what was under way. */
static int write_floor(struct journal *j)
{
        uint64_t number = underway_floor(j, j->next_run);
        _cleanup_statement_ sqlite3_stmt *s = database_statement(&j->writer, ST_META_SET);

        if (!s)
                return sqlite3_extended_errcode(j->writer.db);
        statement_bind_text(s, 1, "floor");
        statement_bind_u64(s, 2, number);
        int r = statement_run(s);
        if (r == SQLITE_OK)
                j->floor_written = number;
        return r;
}

static int move_floor(struct journal *j, uint64_t now, bool *ret_more)
{
        return underway_floor(j, j->next_run) < j->floor_written + FLOOR_STEP ? SQLITE_OK : write_floor(j);
}

/* That a run has started, when nothing has been written of it since. */
static int write_start(struct journal *j, uint64_t now, bool *ret_more)
{
        struct underway *e = underway_debtor(j, now - MIN(now, START_USEC));
        int r = e ? journal_run_write_start(j, e) : SQLITE_OK;

        if (e && r == SQLITE_OK)
                underway_paid_start(j, e);
        return r;
}

/* ---- the log ---- */

int journal_restart_log(struct journal *j, bool shrink)
{
        int mode = shrink ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_RESTART;

        /* Who reads just now, in another process, is not waited for: there is a next time. */
        (void)sqlite3_busy_timeout(j->writer.db, 0);
        int r = sqlite3_wal_checkpoint_v2(j->writer.db, NULL, mode, NULL, NULL);
        (void)sqlite3_busy_timeout(j->writer.db, DATABASE_BUSY_MSEC);
        if ((r & 0xff) == SQLITE_BUSY || (r & 0xff) == SQLITE_LOCKED)
                return SQLITE_OK;
        return r != SQLITE_OK ? r : write_floor(j);
}

static void lock_readers(struct journal *j, bool lock)
{
        for (size_t i = 0; i < JOURNAL_READERS; i++)
                (void)(lock ? pthread_mutex_lock(&j->readers[i].lock) : pthread_mutex_unlock(&j->readers[i].lock));
}

static int copy_log(struct journal *j, bool shrink, gb_error *err)
{
        int in_log = 0, copied = 0, r = SQLITE_OK;

        for (int i = 0; i < COPY_ROUNDS_MAX && r == SQLITE_OK && (i == 0 || in_log - copied > COPY_REST_PAGES); i++)
                r = sqlite3_wal_checkpoint_v2(j->upkeep.db, NULL, SQLITE_CHECKPOINT_PASSIVE, &in_log, &copied);
        if ((r & 0xff) == SQLITE_BUSY)
                return 0;
        if (r != SQLITE_OK)
                return database_error(&j->upkeep, r, err, "copy the log of");
        lock_readers(j, true);
        pthread_mutex_lock(&j->writer.lock);
        r = journal_restart_log(j, shrink);
        int e = r == SQLITE_OK ? 0 : database_error(&j->writer, r, err, "copy the log of");
        pthread_mutex_unlock(&j->writer.lock);
        lock_readers(j, false);
        return e;
}

/* A journal that is to be small does not have a large log. */
static uint64_t log_bytes(const struct journal *j)
{
        return j->limits.bytes > 0 ? MIN(j->limits.bytes, JOURNAL_LOG_BYTES) : JOURNAL_LOG_BYTES;
}

/* What was written since the last time reaches the disk, with no lock held: so a machine that loses power loses not more than the time
 * between two calls. */
static int tidy_log(struct journal *j, gb_error *err)
{
        struct stat st = {0};
        int e = 0;

        pthread_mutex_lock(&j->upkeep.lock);
        uint64_t commits = j->commits;
        if (j->log_fd >= 0 && commits != j->log_synced && fdatasync(j->log_fd) == 0)
                j->log_synced = commits;
        uint64_t bytes = j->log_pages * DATABASE_PAGE_BYTES;
        /* Writing over what is there takes half as long as writing behind its end: a large log stays large until there is less to do. */
        bool shrink = j->log_fd >= 0 && fstat(j->log_fd, &st) == 0 && (uint64_t)st.st_size > JOURNAL_LOG_KEPT_BYTES && bytes < JOURNAL_LOG_KEPT_BYTES / 4;
        if (shrink || bytes > log_bytes(j))
                e = copy_log(j, shrink, err);
        pthread_mutex_unlock(&j->upkeep.lock);
        return e;
}

/* ---- all of it ---- */

/* *ret_more is set by what changes the file without changing a row. */
typedef int step_function(struct journal *j, uint64_t now, bool *ret_more);

/* Repeats a step until it changes nothing more. */
static int repeat(struct journal *j, step_function *step, gb_error *err)
{
        int e = 0;
        bool more = true;

        for (int i = 0; i < STEPS_MAX && more && e == 0; i++) {
                pthread_mutex_lock(&j->writer.lock);
                sqlite3_int64 changes = sqlite3_total_changes64(j->writer.db);
                more = false;
                int r = step(j, journal_now(), &more);
                more |= sqlite3_total_changes64(j->writer.db) > changes;
                j->commits += more;
                e = r == SQLITE_OK ? 0 : database_error(&j->writer, r, err, "tidy");
                pthread_mutex_unlock(&j->writer.lock);
                if (more)
                        pause_briefly();
        }
        return e;
}

static int remove_old(struct journal *j, uint64_t now, bool *ret_more)
{
        struct budget b = {.events = STEP_EVENTS, .bytes = STEP_BYTES};

        return remove_some(j, REMOVE_OLD, NULL, &b);
}

static int remove_for_room(struct journal *j, uint64_t now, bool *ret_more)
{
        struct budget b = {.events = STEP_EVENTS, .bytes = STEP_BYTES};

        return j->largest_lead > 0 ? remove_some(j, REMOVE_FOR_ROOM, j->largest, &b) : SQLITE_OK;
}

static bool needs_room(struct journal *j)
{
        uint64_t used = 0;

        pthread_mutex_lock(&j->writer.lock);
        bool yes = used_bytes(j, &used) == SQLITE_OK && is_full(j, 0, used);
        pthread_mutex_unlock(&j->writer.lock);
        return yes;
}

static int make_room(struct journal *j, gb_error *err)
{
        int e = 0;

        for (int i = 0; i < LOOKS_MAX && e == 0 && needs_room(j); i++) {
                e = find_largest(j, err);
                if (e == 0)
                        e = repeat(j, remove_for_room, err);
        }
        return e;
}

int journal_tidy(struct journal *j, gb_error *err)
{
        static step_function *const steps[] = {remove_sessions, remove_keys, remove_audit, shrink, move_floor, write_start};

        if (j->read_only)
                return error_set(err, GB_E_INTERNAL, EROFS, "this journal was opened for reading");
        int e = repeat(j, remove_old, err);
        e = e < 0 ? e : make_room(j, err);
        for (size_t i = 0; i < ARRAY_SIZE(steps) && e == 0; i++)
                e = repeat(j, steps[i], err);
        /* Also when something could not be removed: the log must not grow for that. */
        int e2 = tidy_log(j, e < 0 ? NULL : err);
        return e < 0 ? e : e2;
}

int journal_stats(struct journal *j, struct journal_stats *ret, gb_error *err)
{
        struct journal_stats stats = {.runs = j->runs, .events = j->events, .removed_runs = j->removed_runs};
        uint64_t pages = 0;
        struct stat st;
        _cleanup_reader_ struct database *d = journal_reader(j);

        int r = database_number(d, "PRAGMA page_count", &pages);
        if (r == SQLITE_OK && j->read_only)
                r = database_number(d, "SELECT count(*) FROM runs WHERE state < 3", &stats.runs);
        if (r != SQLITE_OK)
                return database_error(d, r, err, "read");
        stats.bytes = pages * DATABASE_PAGE_BYTES;
        if (j->log_fd >= 0 && fstat(j->log_fd, &st) == 0)
                stats.wal_bytes = (uint64_t)st.st_size;
        *ret = stats;
        return 0;
}
