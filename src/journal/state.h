/* SPDX-License-Identifier: Apache-2.0
 *
 * The journal from inside. Not for src/server.
 *
 * Connections. One writes, under the journal's lock (writer.lock); its transactions are short, and none waits for the disk. Some read, each
 * under a lock of its own, so that neither a list nor a slow scan is in a writer's way (WAL). One is for upkeep: it copies the log into the
 * file, which is where the disk is waited for.
 *
 * What goes on is also in memory (struct underway): the number, the next event and the bytes so far of each run. So an event is a
 * single INSERT into a single table, and the run's own row is written twice only, at its begin and at its end. What is in
 * memory can be counted again from the events: that is how a journal whose process died is read.
 *
 * Locks, in the order they are taken: upkeep.lock, readers[].lock, writer.lock, underway_lock. queue_lock is held for moments only, and with
 * no other. */
#ifndef JOURNAL_STATE_H
#define JOURNAL_STATE_H

#include "journal/database.h"
#include "journal/journal.h"

#include <stdatomic.h>

#define JOURNAL_READERS 4
#define UNDERWAY_BUCKETS 1024
#define TEXTS_MAX 64          /* texts that are kept once for all audit records; further ones are in the record */
#define TEXT_BYTES_MAX 16384

/* Events are numbered by their run and their place in it, in one integer: they lie in the file in the order they are read. The last place
 * of a run is not an event: it is the result, where that is another text than the last event's. */
#define SEQ_BITS 24
#define SEQ_RESULT ((1ULL << SEQ_BITS) - 1)
#define EVENT_KEY(run, seq) (((run) << SEQ_BITS) | (seq))

/* Of runs.state besides enum journal_state: nobody finds it any more, and its events are being removed. */
#define STATE_GOING 3

enum statement {
        ST_BEGIN,
        ST_COMMIT,
        ST_KEY_GET,
        ST_KEY_ADD,
        ST_KEY_FORGET,
        ST_RUN_ADD,
        ST_RUN_END,
        ST_EVENT_ADD,
        ST_EVENTS,
        ST_RUN_NUMBER,
        ST_RUN_GET,
        ST_RUN_ROW,
        ST_RUNS_ALL,
        ST_RUNS_TENANT,
        ST_RUNS_SESSION,
        ST_RUN_TOTALS,
        ST_RUNS_OPEN,
        ST_SESSION_ADD,
        ST_SESSION_END,
        ST_SESSION_GET,
        ST_SESSIONS_OPEN,
        ST_AUDIT_ADD,
        ST_AUDIT_ALL,
        ST_AUDIT_TENANT,
        ST_AUDIT_ALL_UP,
        ST_AUDIT_TENANT_UP,
        ST_MARK_ADD,
        ST_TEXT_ADD,
        ST_TEXTS,
        ST_META_SET,
        ST_OLDEST_RUNS,
        ST_OLDEST_RUNS_OF,
        ST_SHARES,
        ST_RUN_GOING,
        ST_EVENT_SIZES,
        ST_EVENTS_REMOVE,
        ST_RUN_REMOVE,
        ST_SESSIONS_REMOVE,
        ST_KEYS_REMOVE,
        ST_AUDIT_OLDEST,
        ST_AUDIT_REMOVE,
        ST_COUNT,
};
_Static_assert(ST_COUNT <= DATABASE_STATEMENTS_MAX, "a place for each");

extern const struct database_form journal_form;

/* A run that goes on. */
struct underway {
        struct underway *next;
        uint64_t number;
        struct journal_run run; /* without a result */
        bool owes_start;        /* its first event, STARTED, is only here yet; it goes with whatever is written of the run next */
        uint64_t start_usec;    /* the time of that event */
};

/* What one thread wants to be written; it lives on its stack, and in the queue until it is `over`. */
struct write {
        struct write *next;
        const struct journal_step *step;
        void *args;
        gb_error *err;
        int result; /* 0, or a negative errno with err */
        bool over, takes_over;
        pthread_cond_t wake;
};

struct text {
        uint64_t hash;
        char *text;
};

struct journal {
        struct database writer, upkeep;
        struct database readers[JOURNAL_READERS];
        _Atomic unsigned turn; /* which reader is asked next */
        bool read_only;
        int lock_fd; /* of journal.lock: there is one writer */
        int log_fd;  /* of journal.db-wal, for fdatasync() */
        struct journal_limits limits;

        pthread_mutex_t queue_lock;
        struct write *queue; /* what waits to be written, in the order it came */
        bool has_scribe;     /* somebody writes what is in the queue, or is about to */

        /* writer.lock */
        uint64_t next_run, next_session, next_key, next_audit, first_audit;
        uint64_t max_pages; /* 0: no bound */
        struct text texts[TEXTS_MAX]; /* number i is row i + 1 */
        size_t n_texts, n_texts_kept; /* kept: those whose transaction is over */
        uint64_t floor_written; /* of meta: see underway_floor() */
        char largest[JOURNAL_TENANT_MAX]; /* who has most in the file, at the last look; empty: not known */
        uint64_t largest_lead;            /* and how many bytes more than the next */

        pthread_mutex_t underway_lock;
        struct underway *underway[UNDERWAY_BUCKETS];

        _Atomic uint64_t runs, events, removed_runs;
        _Atomic uint64_t log_pages; /* of the write-ahead log */
        uint64_t log_synced;        /* upkeep.lock: commits that were on the disk at the last look */
        _Atomic uint64_t commits;
};

uint64_t journal_now(void); /* since 1970 */

/* ---- write.c ---- */

/* Something to write. write() returns SQLITE_OK, or what went wrong. It is part of a transaction, maybe with others', and may be called
 * again when that was undone: in memory it changes only its arguments, and takes numbers (there may be gaps). settle() follows each
 * write() when it is known whether it is kept; there memory is changed. Both are called with writer.lock held, by any thread. When the file
 * is as large as it may be, the oldest runs make room. */
struct journal_step {
        int (*write)(struct journal *j, void *args);
        void (*settle)(struct journal *j, void *args, bool kept); /* may be NULL */
        const char *doing;
        bool must; /* this has to be written down; there is a reserve for it */
};
int journal_write(struct journal *j, const struct journal_step *step, void *args, gb_error *err);
/* Transactions of who has writer.lock himself. */
int journal_begin(struct journal *j);
int journal_commit(struct journal *j, int rc); /* undoes it when rc says so */
/* How large the file may become; 0: no bound. SQLite's code. */
int journal_bound_pages(struct journal *j, uint64_t pages);

/* ---- journal.c ---- */

/* A connection to read with, locked. */
struct database *journal_reader(struct journal *j);
void journal_reader_done(struct database *d);
DEFINE_CLEANUP(struct database, journal_reader_done)
#define _cleanup_reader_ _cleanup_(journal_reader_done_ptr)

/* ---- underway.c: under underway_lock, which they take themselves ---- */

void underway_add(struct journal *j, struct underway *e);
bool underway_get(struct journal *j, const char *id, struct journal_run *ret);
/* For the writer, who alone changes entries: the entry itself. */
struct underway *underway_find(struct journal *j, const char *id);
/* What was noted only here; false: it must be written like any other event. By the run's own thread. */
bool underway_start(struct journal *j, const char *id, uint64_t t_usec);
bool underway_owes_start(struct journal *j, const char *id);
void underway_paid_start(struct journal *j, struct underway *e);
/* One that owes it for some time; NULL: none. */
struct underway *underway_debtor(struct journal *j, uint64_t before_usec);
void underway_event(struct journal *j, struct underway *e, enum journal_kind kind, size_t size, uint64_t started_usec);
void underway_remove(struct journal *j, struct underway *e);
void underway_clear(struct journal *j);
/* Every run with a smaller number has ended. */
uint64_t underway_floor(struct journal *j, uint64_t fallback);
/* Numbers of those that match, newest first; the caller frees. */
int underway_numbers(struct journal *j, const struct journal_query *q, uint64_t **ret, size_t *ret_n);

/* ---- audit.c: parts of somebody else's transaction ---- */

struct audit_row {
        uint64_t at_usec;
        const char *tenant, *token, *action, *run, *session, *language, *trust, *verdict;
        const uint8_t *code_hash; /* NULL: none */
        bool failed;
        const char *peaks, *controls, *more; /* JSON texts, or NULL */
};
int journal_audit_row(struct journal *j, const struct audit_row *row);
void journal_audit_settle(struct journal *j, bool kept); /* after each transaction */
int journal_audit_load(struct journal *j); /* numbers and texts, at the start */

/* ---- keys.c ---- */

/* What a key was used for; the same for runs and sessions. */
struct key_use {
        const char *tenant, *id; /* of now */
        const struct journal_key *key; /* NULL, or without a key: none */
        bool found, differs;
        char found_id[JOURNAL_ID_MAX];
};
bool journal_key_is_given(const struct key_use *u);
int journal_key_check(const struct journal_key *key, gb_error *err);
int journal_key_look(struct database *d, struct key_use *u);     /* SQLite's code; fills in the rest of u */
int journal_key_add(struct journal *j, const struct key_use *u); /* the same; in a transaction */
/* What the caller is told: 0 with its own id, 1 with the first one's, GB_E_CONFLICT. */
int journal_key_answer(const struct key_use *u, char ret_id[static JOURNAL_ID_MAX], gb_error *err);

/* ---- lost.c ---- */

/* Ends what was under way when the last process died. */
int journal_settle_lost(struct journal *j, uint64_t *ret_runs, gb_error *err);

/* ---- tidy.c ---- */

/* Removes some of the oldest ended runs: how many, or a negative errno. Under writer.lock. */
int journal_make_room(struct journal *j);
/* Copies the log into the file and begins it anew; shrink: as an empty file. Under writer.lock. */
int journal_restart_log(struct journal *j, bool shrink);

/* ---- sessions.c ---- */

void journal_session_from_row(sqlite3_stmt *statement, struct journal_session *ret);
int journal_session_write_end(struct journal *j, const struct journal_session *session, const char *why, const char *network,
                              uint64_t ended_usec); /* in a transaction; network: journal_session_end() */

/* ---- runs.c, query.c ---- */

/* What is owed of a run. In a transaction; underway_paid_start() when that is over. */
int journal_run_write_start(struct journal *j, const struct underway *e);
/* The same as a write by itself, for somebody who is about to read: nothing is told that is not written. */
int journal_run_pay_start(struct journal *j, const char *run, gb_error *err);
/* Row, last event and result of a run's end. Part of somebody else's transaction. */
int journal_run_write_end(struct journal *j, const struct underway *e, const struct journal_end *end, uint64_t ended_usec);
/* Counts again from the events what is in memory for a run that goes on. Returns SQLITE_OK or what went wrong. */
int journal_run_count(struct database *d, uint64_t number, struct journal_run *run, uint64_t *ret_last_usec);
/* A row of ST_RUN_ROW and its like, and the run's number. */
uint64_t journal_run_from_row(sqlite3_stmt *s, struct journal_run *ret);

#endif
