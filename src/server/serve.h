/* SPDX-License-Identifier: Apache-2.0
 *
 * What main's thread knows of the server it runs. */
#ifndef SERVER_SERVE_H
#define SERVER_SERVE_H

#include "server/listen.h"
#include "server/options.h"
#include "server/server.h"

#include <pthread.h>

struct ssl_ctx_st;
struct event;

struct serve {
        struct server server;
        struct listeners listeners;
        const char *user;       /* whom root becomes; NULL: the default one */
        struct ssl_ctx_st *tls; /* NULL: none */
        int signals;            /* a signalfd */

        pthread_t loop_thread;
        bool loop_started;
        int loop_over; /* an eventfd: loop_run() has returned */
        int loop_result;
        gb_error loop_error;
        _Atomic uint64_t loop_alive_usec; /* CLOCK_MONOTONIC: when the loop last came round */

        int reload;                          /* an eventfd, for the loop: there is another certificate */
        _Atomic(struct ssl_ctx_st *) next_tls; /* that one */
        struct event *reload_event, *beat_event;
        struct upkeep *upkeep; /* upkeep.h */
        int rules_told;        /* readable when rules were read again; -1: nobody reads them */
        bool rules_again;      /* and then once more */
        size_t left;           /* sessions that had not ended in time when it stopped */
};

/* Reads all that the configuration names, and no more. */
int serve_look(struct serve *s, gb_error *err);
/* Everything up to the threads; what fails is undone by serve_done(). */
int serve_start(struct serve *s, gb_error *err);
/* Until it is told to end. */
int serve_run(struct serve *s, gb_error *err);
void serve_done(struct serve *s);

/* Rules of the guard that are wrong, and switches of rules that are not there, would be told with each run: they are told before. */
int serve_check_rules(const struct server *server, gb_error *err);

/* reload.c: what main has to do in the loop's thread: showing that it lives, taking another certificate. Before loop_run(). */
#define LOOP_BEAT_USEC 1000000ULL
int serve_join_loop(struct serve *s, gb_error *err);
/* At SIGHUP, by main: reads the rules of the guard again, and the certificate and its key; when they are wrong the old ones stay. */
void serve_reload(struct serve *s);
void serve_take_rules(struct serve *s);
void serve_leave_loop(struct serve *s);

#endif
