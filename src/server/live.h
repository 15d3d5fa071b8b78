/* SPDX-License-Identifier: Apache-2.0
 *
 * What lives: sessions and runs, by id and tenant, with their quotas and their time to live.
 *
 * A session is held by a table and by whoever works with it (a reference). Deleting or expiring it takes it out of the table at
 * once (nobody finds it any more), cancels its runs, and closes the box when the last reference is gone: live_session_end()
 * waits for that. So nobody holds a reference for as long as a client likes: who streams takes one for each piece, or
 * looks at `ended`. */
#ifndef SERVER_LIVE_H
#define SERVER_LIVE_H

#include "engine/context.h"
#include "engine/session.h"
#include "server/admission.h"
#include "server/request.h"

#include <pthread.h>

struct live;
struct server;
struct server_config;

enum live_state { LIVE_OPENING, LIVE_READY, LIVE_ENDED };

/* An interpreter of a session, and how many use it: so long it is not closed. */
struct live_context {
        struct context *context; /* NULL: a free place */
        unsigned users;
        bool running;
};

struct live_session {
        /* Set once */
        char id[JOURNAL_ID_MAX]; /* the API's, made before the box: journalled first */
        char tenant[TENANT_NAME_MAX];
        struct session *session; /* NULL while it is opened: nobody finds it then */
        struct policy *policy; /* its own, with its secrets */
        struct living_secrets *secrets; /* scrubbing.h */
        const struct template *template; /* borrowed from the server's table; NULL: none */
        char *workspace;       /* directory of the host; NULL: private */
        bool one_shot;         /* the box of a single run: not listed, not found by id */
        bool kept;             /* the workspace is below the base of the configuration */
        bool warm;             /* its interpreters come from the template */
        uint64_t created_usec; /* since 1970 */
        uint64_t born_usec;    /* the same, by CLOCK_MONOTONIC */
        uint64_t memory_bytes; /* what it counts for in the quota */
        struct live *live;
        struct reservation reservation;

        /* Of the table: by its lock */
        unsigned references;
        unsigned waiters; /* for the end */
        enum live_state state;
        bool closed;      /* the box is given up */
        bool gone;        /* and was seen to end */
        const char *end;  /* why: see journal.h */
        gb_error error;   /* of an opening that failed */
        uint64_t watch;   /* of the box's death */
        struct live_session *next;

        _Atomic bool ended;

        pthread_mutex_t lock; /* of the rest */
        char *name;
        json_t *metadata; /* never NULL; replaced, not changed */
        uint64_t idle_usec, lifetime_usec, used_usec; /* used: CLOCK_MONOTONIC */
        unsigned runs_active;
        uint64_t runs_total;
        struct live_context contexts[CONTEXTS_MAX];
        pthread_cond_t freed; /* CLOCK_MONOTONIC: a context does not run anything any more */
        char (*defaults)[CONTEXT_ID_MAX]; /* by the language's place in its table; empty: none yet */

        _Atomic uint64_t output_bytes; /* of all its runs */
};

/* A run that goes on, or has just ended; who follows it waits on `changed`. */
struct live_run {
        char id[JOURNAL_ID_MAX];
        char tenant[TENANT_NAME_MAX];
        struct live_session *session; /* a reference until the run has ended: live_run_session() */
        int cancel_fd;                /* an eventfd for the engine: 1st count interrupts, 2nd kills */
        struct live *live;
        struct reservation reservation;

        struct live_later *later;     /* a place for its end, should the journal not take it; NULL: it is used */

        /* Of the table: by its lock */
        unsigned references;
        struct live_run *next;

        pthread_mutex_t lock;
        pthread_cond_t changed; /* CLOCK_MONOTONIC */
        int stdin_fd;           /* our end of the socket of an interactive run; -1: none, or closed */
        uint64_t next_seq;      /* events in the journal */
        uint64_t gone;          /* clients of it that went away: whoever waits looks whether it was his */
        bool ended;
        bool input_busy; /* somebody writes to stdin_fd: what two send is not mixed */
};

int live_new(struct server *server, struct live **ret, gb_error *err);
/* Ends everything. Takes NULL. */
void live_free(struct live *l);
/* Lets nobody in any more, interrupts what runs, kills what goes on all the same, and ends the sessions ("stopped"). Returns when all that is over, and in the
 * journal, or has not ended in time: how many sessions that is. A second call only counts. */
size_t live_stop(struct live *l);

/* The policy of a trust level; borrowed. NULL: the default one. */
int live_policy(struct live *l, const char *trust, const struct policy **ret, gb_error *err);

/* The server's configuration. */
const struct server_config *live_config(const struct live *l);

/* ---- sessions ---- */

/* What a session is made of; text and metadata are copied, the policy is taken (also when this fails). */
struct live_session_request {
        const struct caller *caller;
        struct policy *policy;
        const struct template *template;
        const char *workspace; /* directory of the host; NULL: private */
        bool kept, one_shot;
        const char *name;      /* NULL: none */
        json_t *metadata;      /* NULL: none; borrowed */
        uint64_t idle_usec, lifetime_usec;
};

/* Its id and its place in the quota; no box yet. With a reference. */
int live_session_new(struct live *l, const struct live_session_request *q, struct live_session **ret, gb_error *err);
/* Builds the box. When this fails the session has ended. */
int live_session_open(struct live_session *s, gb_error *err);
/* What people have said of one, without secrets. *name and *metadata may be NULL, and are replaced where something was found. 0 or -ENOMEM. */
int live_texts_scrub(const struct scrub *scrub, char **name, json_t **metadata);
/* Ends it, unless somebody else has done that, and waits until its box is gone. False when that was not seen: something
 * in it may still run. The caller's reference is given up. why: see journal.h; NULL: nothing is journalled, there never
 * was one. */
bool live_session_end(struct live_session *s, const char *why);

/* A reference, or GB_E_NOT_FOUND; touch: it is used, its idle time begins anew. */
int live_session_get(struct live *l, const struct caller *caller, const char *id, bool touch, struct live_session **ret, gb_error *err);
/* The same for one that may be about to be opened: waits for that. Fails with its own error. */
int live_session_join(struct live *l, const char *tenant, const char *id, struct live_session **ret, gb_error *err);
struct live_session *live_session_ref(struct live_session *s);
void live_session_put(struct live_session *s); /* takes NULL */
DEFINE_CLEANUP(struct live_session, live_session_put)
#define _cleanup_live_session_ _cleanup_(live_session_put_ptr)

/* All sessions of a tenant (one-shot ones too when asked), each with a reference; the caller frees the array. By age. tenant NULL: of all. */
int live_sessions(struct live *l, const char *tenant, bool one_shot, struct live_session ***ret, size_t *ret_n);

/* ---- contexts ---- */

/* A context, which nobody closes until live_context_put(). id NULL: the default one of the language, which is opened when there is none. run: to run something in it;
 * GB_E_CONFLICT when somebody does. */
int live_context_get(struct live_session *s, const char *id, const struct language *language, bool run, struct context **ret, gb_error *err);
void live_context_put(struct live_session *s, struct context *c, bool run);
/* Waits until nobody runs anything in the default one of the language, or it is so late. What comes then may be faster all the same. */
void live_context_wait(struct live_session *s, const struct language *language, uint64_t until_usec);
/* A new one; to be given back as well. */
int live_context_open(struct live_session *s, const struct language *language, struct context **ret, gb_error *err);
/* The id of the default one of a language, under the session's lock; empty: there was none yet. NULL: there is no such language. */
char *live_context_default(struct live_session *s, const char *language);
/* GB_E_CONFLICT while somebody uses it. */
int live_context_close(struct live_session *s, const char *id, gb_error *err);

/* ---- runs ---- */

/* A look at code, without a run, counts as one while it lasts. admission_release() ends it. */
int live_look_take(struct live *l, const struct caller *caller, struct reservation *ret, gb_error *err);
/* A run with its id and its place in the quota. With a reference; takes one of the session. */
int live_run_new(struct live *l, const struct caller *caller, struct live_session *session, struct live_run **ret, gb_error *err);
/* The session is not needed any more. */
void live_run_leave_session(struct live_run *r);
/* It has ended, and that is in the journal (or it never began): everybody who waits is told, and nobody finds it any more. */
void live_run_end(struct live_run *r);
/* So many events are in the journal. */
void live_run_note(struct live_run *r, uint64_t next_seq);
/* Interrupts, and the second time kills. */
void live_run_cancel(struct live_run *r, bool kill);

int live_run_get(struct live *l, const struct caller *caller, const char *id, struct live_run **ret, gb_error *err);
struct live_run *live_run_ref(struct live_run *r);
void live_run_put(struct live_run *r); /* takes NULL */
DEFINE_CLEANUP(struct live_run, live_run_put)
#define _cleanup_live_run_ _cleanup_(live_run_put_ptr)

/* Its session, with a reference; NULL: the box is not there yet, or the run has ended. */
struct live_session *live_run_session(struct live_run *r);
/* The run of a one-shot session, with a reference; NULL: it is over. */
struct live_run *live_run_of(struct live *l, const struct live_session *s);

/* While a client waits for a run: when the descriptor becomes readable (request_gone_fd()) who waits on `changed` is woken, and with cancel the
 * run is killed. A number for live_unwatch(); 0: it is not watched. */
uint64_t live_watch_client(struct live *l, int fd, struct live_run *r, bool cancel);
void live_unwatch(struct live *l, uint64_t watch);

/* Constant records, for when there is no memory to make one: of a run of which nothing was run, and of one that ran.
 * The outcome of the latter is not known. */
#define RUN_NO_MEMORY                                                                                                  \
        "{\"error\":{\"code\":\"internal\",\"message\":\"nothing was run, and there was no memory for the reason\","   \
        "\"hint\":\"\",\"details\":{}}}"
#define RUN_LOST                                                                                                       \
        "{\"verdict\":{\"kind\":\"lost\","                                                                             \
        "\"message\":\"There was no memory for the result of the run: its outcome is not known.\","                    \
        "\"limit\":null,\"peak\":null,\"unit\":null},\"exit_code\":null,\"signal\":null,\"phase\":null,"               \
        "\"duration_ms\":null,\"cpu_ms\":null,\"setup_ms\":null,\"truncated\":null,\"peaks\":null,\"limits\":null,"    \
        "\"backend\":null,\"controls\":null,\"notes\":[]}"

/* The end of a run that the journal could not take: it is tried again, until it can. Texts are copied; when there is no memory for them either, the run
 * ends as RUN_LOST says, or as RUN_NO_MEMORY when nothing was run. */
void live_end_later(struct live_run *r, const struct journal_end *end);

uint64_t live_wall_usec(void); /* since 1970 */
/* By the clock that the kernel dates files with. It stands still between its ticks, and on a busy host for longer: what
 * is written from now on is never older. */
uint64_t live_file_usec(void);
/* One whose waits end by CLOCK_MONOTONIC. */
void live_cond_init(pthread_cond_t *c);

struct live_counts {
        uint64_t sessions, runs, memory_bytes;
};
void live_count(struct live *l, const char *tenant, struct live_counts *ret); /* NULL: of all */

#endif
