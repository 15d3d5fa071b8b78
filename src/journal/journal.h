/* SPDX-License-Identifier: Apache-2.0
 *
 * The journal: every run before it starts, its events as they come, its end before anybody is told. A SQLite file
 * in WAL mode. One process writes it (it holds a lock on the directory); others may read.
 *
 * Threads: every function may be called from any thread; one mutex inside. A commit reaches the kernel and not
 * always the disk: a process that dies loses nothing, a machine that loses power the last moments (never a part of
 * a transaction). */
#ifndef JOURNAL_JOURNAL_H
#define JOURNAL_JOURNAL_H

#include "base/error.h"
#include "base/macro.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOURNAL_ID_MAX 33      /* 32 hex digits of a run or session, with the NUL */
#define JOURNAL_TENANT_MAX 65
#define JOURNAL_KEY_MAX 256
#define JOURNAL_HASH_BYTES 32  /* SHA-256 */

struct journal;

struct journal_limits {
        uint64_t age_usec;   /* runs that ended longer ago go; 0: no limit */
        uint64_t bytes;      /* of the file, about; the oldest runs that have ended go first */
        uint64_t runs;       /* records of runs */
        uint64_t audit_usec; /* the same for audit records, by age */
        uint64_t audit_records;
        uint64_t key_usec;   /* Idempotency keys are kept at least so long */
        bool sync;           /* each commit reaches the disk */
};

enum journal_state { JOURNAL_QUEUED, JOURNAL_RUNNING, JOURNAL_ENDED };

enum journal_kind { JOURNAL_STARTED, JOURNAL_STDOUT, JOURNAL_STDERR, JOURNAL_RESULT, JOURNAL_EXCEPTION, JOURNAL_VERDICT, JOURNAL_ERROR };

/* Opens or makes it in a directory of ours (mode 0700). Runs and sessions that were under way belong to a process
 * that is dead: they become `lost` here, before this returns; *ret_lost says how many runs. Fails with
 * GB_E_CONFLICT when another process writes it, and refuses a file of a newer or damaged form (the message says
 * what to do). */
int journal_open(const char *directory, const struct journal_limits *limits, struct journal **ret, uint64_t *ret_lost, gb_error *err);
void journal_close(struct journal *j);
DEFINE_CLEANUP(struct journal, journal_close)
#define _cleanup_journal_ _cleanup_(journal_close_ptr)

/* For a command that has something to write and goes again: GB_E_CONFLICT at once when there is a server, who should write it then. */
int journal_open_briefly(const char *directory, struct journal **ret, gb_error *err);

/* For `glovebox audit` and `logs` beside or without a server: read-only. */
int journal_open_reader(const char *directory, struct journal **ret, gb_error *err);

/* ---- idempotency ---- */

/* What a key stands for. */
struct journal_key {
        const char *key; /* NULL: none */
        uint8_t hash[JOURNAL_HASH_BYTES]; /* of method, address and body */
};

/* Looks only: 1 and the first one's id when it was used for the same request, 0 when it is new, GB_E_CONFLICT. */
int journal_key_get(struct journal *j, const char *tenant, const struct journal_key *key, char ret_id[static JOURNAL_ID_MAX], gb_error *err);
/* Nothing was run for want of something that comes back (a worker, memory): a retry with the key of that run or session may. 1: it was forgotten; 0: it
 * is not that one's. */
int journal_key_forget(struct journal *j, const char *tenant, const struct journal_key *key, const char *id, gb_error *err);

/* ---- runs ---- */

struct journal_run {
        char id[JOURNAL_ID_MAX];
        char tenant[JOURNAL_TENANT_MAX];
        char session[JOURNAL_ID_MAX]; /* empty: one-shot */
        char context[24];             /* empty: none */
        char language[32];
        char trust[64];
        char token[JOURNAL_ID_MAX];   /* id of the caller's token; empty: by the socket */
        enum journal_state state;
        uint64_t created_usec, started_usec, ended_usec; /* since 1970; 0: not yet */
        uint8_t code_hash[JOURNAL_HASH_BYTES];
        char verdict[16];             /* empty until it has ended; "error!" never: errors have `failed` */
        bool failed;                  /* nothing was run: result is the error object */
        uint64_t next_seq;            /* number of events */
        uint64_t out_bytes, err_bytes;
        char *result;                 /* JSON text, or NULL; owned */
};

void journal_run_done(struct journal_run *run);
#define _cleanup_journal_run_ _cleanup_(journal_run_done)

/* The record of a run that is about to start, with its key: one transaction. 0; 1 when the key was used before for
 * the same request: then ret_id is the run (or session) of the first time and nothing was written (its record may have been removed
 * meanwhile, for want of room: it was run all the same); GB_E_CONFLICT when it was used for another. GB_E_DISK_FULL when there is no room. */
int journal_run_begin(struct journal *j, const struct journal_run *run, const struct journal_key *key, char ret_id[static JOURNAL_ID_MAX],
                      gb_error *err);
/* The next event of a run that goes on: its number, or a negative errno. STARTED makes the run `running`.
 * data: the bytes of output, or JSON text of the rest (value, error). VERDICT and ERROR come with journal_run_end(). */
int64_t journal_event(struct journal *j, const char *run, enum journal_kind kind, uint64_t t_usec, const void *data, size_t size, gb_error *err);

/* What is known of a run at its end; also one audit record. Text is JSON, borrowed. */
struct journal_end {
        const char *verdict;  /* its name; NULL: nothing was run */
        const char *event;    /* the data of the last event: the verdict's or the error's object */
        const char *result;   /* the result object without output and values (they are events). Kept once when it is the same text as event; NULL: it is */
        const char *peaks;    /* for the audit; NULL: none */
        const char *controls;
        const char *more;     /* an object with more keys for the audit; NULL: none */
        uint64_t t_usec;
        struct journal_run *ret_run; /* the record as it is then, without its result; NULL: nobody wants it */
};
int journal_run_end(struct journal *j, const char *run, const struct journal_end *end, gb_error *err);

/* GB_E_NOT_FOUND also when it is another tenant's. tenant NULL: of any. */
int journal_run_get(struct journal *j, const char *tenant, const char *id, struct journal_run *ret, gb_error *err);

/* Newest first. before: the cursor of the page before, 0 for the first; *ret_next 0: that was all. Records without their result. */
struct journal_query {
        const char *tenant; /* NULL: all */
        const char *session, *verdict; /* NULL: any */
        int state;          /* enum journal_state, or -1: any; not for audit records */
        uint64_t since_usec, until_usec; /* 0: no bound; of runs by their creation, of audit records by their time. until is not within */
        uint64_t before;
        size_t limit;
        bool oldest_first;  /* audit records only; the cursor is then that of the last one before */
};
int journal_runs(struct journal *j, const struct journal_query *q, struct journal_run **ret, size_t *ret_n, uint64_t *ret_next, gb_error *err);
void journal_runs_free(struct journal_run *runs, size_t n);

/* Calls back with the events from number `from` on, in order, until max_bytes of data were given (at least one event is) or there are no
 * more. Returns how many. Callbacks run without the journal's lock; data is NUL-terminated behind size. */
struct journal_event {
        uint64_t seq, t_usec, offset; /* offset: bytes of that stream before these */
        enum journal_kind kind;
        const char *data;
        size_t size;
};
typedef int journal_event_function(void *data, const struct journal_event *event); /* negative: stop, and that is returned */
int64_t journal_events(struct journal *j, const char *run, uint64_t from, size_t max_bytes, journal_event_function *f, void *data, gb_error *err);

/* ---- sessions ---- */

struct journal_session {
        char id[JOURNAL_ID_MAX];
        char tenant[JOURNAL_TENANT_MAX];
        char token[JOURNAL_ID_MAX];
        char trust[64], template[32];
        uint64_t created_usec, ended_usec;
        char end[16]; /* "deleted", "expired", "idle", "died", "lost", "stopped"; empty: it lives */
};

/* As journal_run_begin(): before the session is made. */
int journal_session_begin(struct journal *j, const struct journal_session *s, const struct journal_key *key, char ret_id[static JOURNAL_ID_MAX],
                          gb_error *err);
/* network: for the audit, a JSON object of what it has sent while no run was there; NULL: nothing. */
int journal_session_end(struct journal *j, const char *id, const char *why, const char *network, gb_error *err);
int journal_session_get(struct journal *j, const char *tenant, const char *id, struct journal_session *ret, gb_error *err);

/* ---- audit ---- */

/* Each record as JSON text: {"at", "tenant", "token", "action": "run", "run", "session", "language", "code_sha256", "trust", "verdict", "peaks",
 * "controls", ...}; also of "session.create", "session.network", "session.end", "token.create", "token.revoke". */
typedef int journal_audit_function(void *data, uint64_t cursor, const char *json);
int journal_audit(struct journal *j, const struct journal_query *q, journal_audit_function *f, void *data, uint64_t *ret_next, gb_error *err);
/* json: an object with more keys, or NULL. Runs and sessions have theirs already, from the functions above. */
int journal_audit_add(struct journal *j, const char *tenant, const char *token, const char *action, const char *json, gb_error *err);
/* The same about a session that lives. */
int journal_session_note(struct journal *j, const char *session, const char *tenant, const char *token, const char *trust, const char *action, const char *json, gb_error *err);
/* The same at most once for each mark, for what another process did and nobody told: 1 when it was written, 0 when it is known. */
int journal_audit_once(struct journal *j, const char *mark, uint64_t at_usec, const char *tenant, const char *token, const char *action, const char *json,
                       gb_error *err);

/* ---- times, as the API writes them ---- */

#define JOURNAL_TIME_MAX 40
/* "2026-01-05T10:00:00.000000Z"; returns ret. */
char *journal_time_format(uint64_t usec, char ret[static JOURNAL_TIME_MAX]);
/* RFC 3339 with any offset and any fraction, or a date alone: since 1970. -EINVAL. */
int journal_time_parse(const char *text, uint64_t *ret_usec);

/* ---- upkeep, by a thread of the server, every second or so ---- */

struct journal_stats {
        uint64_t runs, events, bytes, wal_bytes, removed_runs; /* events, removed_runs: since it was opened */
};
/* Removes what is over the limits, in small transactions, and copies the log into the file. A run that goes on is never removed. */
int journal_tidy(struct journal *j, gb_error *err);
int journal_stats(struct journal *j, struct journal_stats *ret, gb_error *err);

#endif
