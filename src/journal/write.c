/* SPDX-License-Identifier: Apache-2.0
 *
 * How things get into the file. A transaction takes about as long for twenty writes as for two, and a thread that waits for a
 * lock comes back late. So who finds nobody writing writes for all who are waiting: their steps are done one after the other, in one
 * transaction, by one thread (the scribe), and each of them is woken when it is over.
 *
 * When anything of such a group fails, all of it is undone, and each is written by itself: what one does wrong is nobody else's harm. */
#include "journal/state.h"

#include "base/limits.h"

#include <errno.h>
#include <stdio.h>

#define GROUP_MAX 64
#define ROUNDS_MAX 4          /* groups that one thread writes for others before the next takes over */
#define ROOM_ATTEMPTS_MAX 256 /* steps of journal_make_room() for one write */

int journal_begin(struct journal *j)
{
        _cleanup_statement_ sqlite3_stmt *s = database_statement(&j->writer, ST_BEGIN);

        return s ? statement_run(s) : sqlite3_extended_errcode(j->writer.db);
}

int journal_commit(struct journal *j, int rc)
{
        if (rc == SQLITE_OK) {
                _cleanup_statement_ sqlite3_stmt *s = database_statement(&j->writer, ST_COMMIT);
                rc = s ? statement_run(s) : sqlite3_extended_errcode(j->writer.db);
        }
        journal_audit_settle(j, rc == SQLITE_OK);
        return rc == SQLITE_OK ? rc : database_undo(&j->writer, rc);
}

int journal_bound_pages(struct journal *j, uint64_t pages)
{
        char text[64];

        if (pages == 0)
                return SQLITE_OK;
        snprintf(text, sizeof(text), "PRAGMA max_page_count=%llu", (unsigned long long)pages);
        return database_exec(&j->writer, text);
}

static void settle(struct journal *j, struct write *first, size_t n, bool kept)
{
        for (struct write *w = first; n > 0; n--, w = w->next)
                if (w->step->settle)
                        w->step->settle(j, w->args, kept);
}

/* One transaction for all n of them. */
static int write_together(struct journal *j, struct write *first, size_t n)
{
        int r = journal_begin(j);
        size_t begun = 0;

        for (struct write *w = first; r == SQLITE_OK && begun < n; w = w->next) {
                begun++;
                r = w->step->write(j, w->args);
        }
        r = journal_commit(j, r);
        settle(j, first, begun, r == SQLITE_OK);
        return r;
}

static bool is_full(int rc)
{
        return (rc & 0xff) == SQLITE_FULL;
}

/* The end of a run is written also when nothing else is any more: who ran what, and how it ended, must not depend on what others wrote. */
static int write_into_reserve(struct journal *j, struct write *w)
{
        (void)journal_bound_pages(j, j->max_pages + JOURNAL_RESERVE_BYTES / DATABASE_PAGE_BYTES);
        int r = write_together(j, w, 1);
        (void)journal_bound_pages(j, j->max_pages);
        return r;
}

static void write_alone(struct journal *j, struct write *w)
{
        int r = write_together(j, w, 1);

        for (int i = 0; is_full(r) && i < ROOM_ATTEMPTS_MAX && journal_make_room(j) > 0; i++)
                r = write_together(j, w, 1);
        if (is_full(r) && w->step->must && j->max_pages > 0)
                r = write_into_reserve(j, w);
        if (r != SQLITE_OK)
                w->result = database_error(&j->writer, r, w->err, w->step->doing);
}

static void write_group(struct journal *j, struct write *first, size_t n)
{
        pthread_mutex_lock(&j->writer.lock);
        if (n == 1 || write_together(j, first, n) != SQLITE_OK)
                for (struct write *w = first; n > 0; n--, w = w->next)
                        write_alone(j, w);
        j->commits++;
        /* Upkeep does this sooner and without being in anybody's way; the log has an end also when nobody calls it. */
        if (j->log_pages > JOURNAL_LOG_BYTES_MAX / DATABASE_PAGE_BYTES)
                (void)journal_restart_log(j, true);
        pthread_mutex_unlock(&j->writer.lock);
}

/* ---- the queue: under queue_lock ---- */

static struct write *take_group(struct journal *j, size_t *ret_n)
{
        struct write *first = j->queue, **end = &j->queue;

        for (*ret_n = 0; *end && *ret_n < GROUP_MAX; (*ret_n)++)
                end = &(*end)->next;
        j->queue = *end;
        return first;
}

static void tell_group(struct write *w, size_t n)
{
        for (; n > 0; n--) {
                struct write *next = w->next; /* after this it is no longer ours to read */
                w->over = true;
                pthread_cond_signal(&w->wake);
                w = next;
        }
}

static void write_for_all(struct journal *j, const struct write *own)
{
        size_t n;

        for (int i = 0; j->queue && (i < ROUNDS_MAX || !own->over); i++) {
                struct write *first = take_group(j, &n);
                pthread_mutex_unlock(&j->queue_lock);
                write_group(j, first, n);
                pthread_mutex_lock(&j->queue_lock);
                tell_group(first, n);
        }
        j->has_scribe = j->queue;
        if (j->queue) {
                j->queue->takes_over = true;
                pthread_cond_signal(&j->queue->wake);
        }
}

int journal_write(struct journal *j, const struct journal_step *step, void *args, gb_error *err)
{
        struct write w = {.step = step, .args = args, .err = err, .wake = PTHREAD_COND_INITIALIZER}, **end = &j->queue;

        if (j->read_only)
                return error_set(err, GB_E_INTERNAL, EROFS, "cannot %s: this journal was opened for reading", step->doing);
        pthread_mutex_lock(&j->queue_lock);
        while (*end)
                end = &(*end)->next;
        *end = &w;
        while (j->has_scribe && !w.over && !w.takes_over)
                pthread_cond_wait(&w.wake, &j->queue_lock);
        if (!w.over) {
                j->has_scribe = true;
                write_for_all(j, &w);
        }
        pthread_mutex_unlock(&j->queue_lock);
        pthread_cond_destroy(&w.wake);
        return w.result;
}
