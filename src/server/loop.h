/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop: one thread that accepts, reads and times out connections, and hands whole requests to the workers. How it
 * works is told in loop.c; connections are connection.h.
 *
 * main.c does, in this order: workers_new(), loop_new(), loop_add_listener() for each socket, server->state = SERVER_READY, loop_run().
 * At SIGTERM: server->state = SERVER_DRAINING and loop_drain(); loop_stop() when nothing goes on any more or the time for it is over. When
 * loop_run() has returned: everything is ended (runs), then workers_free(), then loop_free(). */
#ifndef SERVER_LOOP_H
#define SERVER_LOOP_H

#include "base/error.h"
#include "base/macro.h"

#include <stdbool.h>
#include <stdint.h>

struct server;
struct loop;
struct event_base;
struct ssl_ctx_st;

enum listener_kind { LISTENER_UNIX, LISTENER_TCP };

/* Needs server->config and server->workers. Sets server->loop. */
int loop_new(struct server *server, struct loop **ret, gb_error *err);
/* After loop_run() and workers_free(): nobody works on a request any more. Takes NULL. */
void loop_free(struct loop *l);
DEFINE_CLEANUP(struct loop, loop_free)
#define _cleanup_loop_ _cleanup_(loop_free_ptr)

/* A listening socket, which the loop takes (also when this fails), and makes non-blocking. tls: NULL, or a context of tls.h, borrowed. */
int loop_add_listener(struct loop *l, int fd, enum listener_kind kind, struct ssl_ctx_st *tls, gb_error *err);

/* For signals, timers and descriptors of main.c: events of libevent, added before loop_run() or in its thread. They must not wait. */
struct event_base *loop_base(struct loop *l);

/* Until loop_stop(). */
int loop_run(struct loop *l, gb_error *err);

/* From here on every answer closes its connection, and those that idle after one are closed. What may still be asked is said by
 * ROUTE_DRAINING. From any thread, and from a signal handler. */
void loop_drain(struct loop *l);

/* Listeners are closed, requests that are worked on count as gone; what was answered is still sent, up to LOOP_STOP_USEC, and
 * loop_run() returns. From any thread, and from a signal handler. A second call does not wait for what is still to be sent. */
void loop_stop(struct loop *l);

/* How many there are now, from any thread; the rest is in metrics.h. requests: those that are worked on. */
void loop_count(struct loop *l, uint64_t *ret_connections, uint64_t *ret_requests);

#endif
