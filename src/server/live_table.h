/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside live: the table, and what its parts share. Locks are taken in this order: the table's, a session's or a run's, admission's. */
#ifndef SERVER_LIVE_TABLE_H
#define SERVER_LIVE_TABLE_H

#include "server/live.h"
#include "server/opening.h"
#include "server/server.h"

#define LIVE_BUCKETS 1024
#define BOX_USER 1000 /* inside, and its group */

/* Something that becomes readable: the death of a box, or of a client. */
struct live_watch {
        uint64_t serial;
        int fd; /* our own */
        struct live_session *session; /* borrowed: it takes its watch with it */
        struct live_run *run;         /* the same */
        bool cancel;
        struct live_watch *next;
};

/* The end of a run that could not be written. */
struct live_later {
        char run[JOURNAL_ID_MAX];
        struct journal_end end; /* its texts are owned */
        bool ran;               /* it had a verdict */
        struct live_later *next;
};

struct live {
        struct server *server;
        struct admission *admission;
        struct openings *openings;

        pthread_mutex_t lock;
        pthread_cond_t changed; /* a session was opened or closed, a run has ended; CLOCK_MONOTONIC */
        struct live_session *sessions[LIVE_BUCKETS];
        struct live_run *runs[LIVE_BUCKETS];
        size_t n_sessions, n_runs; /* that exist: also those that nobody finds any more */
        struct live_watch *watches;
        uint64_t last_watch;
        struct live_later *later;
        bool stopping;

        pthread_t keeper;
        bool has_keeper;
        int epoll, wake; /* wake: an eventfd, the keeper's */
};

/* Takes it out of the table. With the lock; false: somebody else did. cancel: what runs in it is killed. */
bool session_take_out(struct live_session *s, const char *why, bool cancel);
void session_free(struct live_session *s);
void live_lock(struct live *l);
void live_unlock(struct live *l);

/* live_keeper.c */
int keeper_start(struct live *l, gb_error *err);
void keeper_stop(struct live *l);
/* With the lock. 0: it cannot be watched. */
uint64_t live_watch_add(struct live *l, int fd, struct live_session *session, struct live_run *run, bool cancel);
void live_watch_remove(struct live *l, uint64_t serial);

#endif
