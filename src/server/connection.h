/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection. It belongs to the loop's thread, but for the time in which a worker has its request (CONNECTION_WORKING): then the worker
 * writes, and the loop only looks whether the client goes away. What both touch is under the lock. A worker that is
 * done gives it back by connection_finish(), after which it must not touch it. */
#ifndef SERVER_CONNECTION_H
#define SERVER_CONNECTION_H

#include "base/buffer.h"
#include "http/parser.h"
#include "server/loop.h"
#include "server/request.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/uio.h>

struct ssl_st;
struct iovec;

enum connection_state {
        CONNECTION_HANDSHAKE, /* of TLS */
        CONNECTION_IDLE,      /* no byte of a request has come */
        CONNECTION_HEAD,      /* some have */
        CONNECTION_BODY,
        CONNECTION_WORKING,   /* a worker has the request */
        CONNECTION_FLUSHING,  /* it was answered; what the client has not taken yet waits */
        CONNECTION_LINGERING, /* we have said all, and wait for its close: data that nobody read would take our answer away from it */
};

struct loop_listener {
        struct loop *loop;
        struct event *event;
        struct loop_listener *next;
        int fd;
        enum listener_kind kind;
        struct ssl_ctx_st *tls;
        int port; /* TCP */
        bool paused;
};

struct connection {
        struct loop *loop;
        struct loop_listener *listener;
        int fd;
        struct ssl_st *ssl; /* under the lock; NULL: plain */
        struct in6_addr peer; /* TCP */

        /* The loop's */
        struct connection *newer, *older; /* by their last request */
        struct event read_event, timer;
        struct event *write_event; /* NULL: it was never needed */
        bool reading, writing;     /* they are added */
        bool eof;                  /* the client sends nothing more */
        bool used;                 /* a request has come */
        uint64_t armed_usec;       /* when the timer fires; 0: not */
        struct http_parser parser;
        struct request *request;   /* that is being read */
        size_t head_bytes;         /* of it, while its head comes */
        uint64_t window_usec, window_bytes; /* of the body: since when, and what had come then */
        uint64_t lingered_bytes;
        bool unread; /* the request was answered before all of it had come */

        pthread_mutex_t lock; /* of the rest */
        pthread_cond_t room;  /* in output, or none ever more */
        enum connection_state state;
        uint64_t since_usec;   /* that state; with WORKING and FLUSHING: since when the client took nothing of output */
        struct buffer pending; /* what came behind the request that is worked on; changed by the loop only */
        char *output;          /* what waits for the client */
        size_t output_start, output_end, output_allocated;
        bool gone;   /* the client sends nothing more, and may be away */
        bool cut;    /* nothing is sent any more */
        bool close;  /* after the answer */
        bool more;   /* TLS holds bytes of the next request */
        int gone_fd; /* -1: nobody asked for it */
        bool posted; /* in the loop's list */
        struct connection *next_posted;
};

/* ---- loop.c, for connection.c ---- */

struct loop {
        struct server *server;
        struct event_base *base;
        struct event *wake_event, *stop_timer, *late_timer;
        int wake_fd, reserve_fd;
        struct loop_listener *listeners;
        struct connection *oldest, *newest;
        struct gate *gate;
        pthread_t thread;
        size_t head_bytes;  /* of all heads that come */
        uint64_t stop_usec; /* when it ends whatever waits; 0: not stopping */
        uid_t uid; /* of who made it */
        _Atomic uint64_t n_connections, n_requests;
        _Atomic bool drain_wanted;
        _Atomic int stop_wanted;
        bool draining;

        pthread_mutex_t lock;      /* of the list */
        struct connection *posted; /* that workers want to be looked at */

        char bytes[READ_BYTES]; /* for a read; nothing stays in it */
};

/* Requests wait for a worker: those that do so too long are answered. */
void loop_watch_queue(struct loop *l);

/* A connection that was accepted; the descriptor is taken. */
void connection_new(struct loop_listener *listener, int fd, const struct sockaddr_storage *peer);
/* Ends it, in the loop's thread, unless a worker has it; then it is ended when that gives it back. */
void connection_close(struct connection *c);
/* A worker, or the loop itself, wants that the loop looks at it. */
void connection_post(struct connection *c);
/* The loop does. */
void connection_look(struct connection *c);
/* Frees it, whoever has it: nobody works any more. */
void connection_free(struct connection *c);

/* ---- for requests and replies, from the thread that has the request ---- */

/* Sends all of it, or puts what does not go into the buffer; waits for room there. 0 or -EPIPE. */
int connection_write(struct connection *c, const struct iovec *parts, size_t n_parts);
/* Nothing is sent any more, and the connection ends. */
void connection_cut(struct connection *c);
/* The request was answered: the next one may come. Frees nothing but what is the connection's. */
void connection_finish(struct connection *c, bool close);
bool connection_is_gone(struct connection *c);
int connection_gone_fd(struct connection *c);

/* ---- output.c, for connection.c; under the lock ---- */

/* Sends what waits. 0, also when some is left; -EPIPE. */
int output_flush(struct connection *c);
void output_free(struct connection *c);
void output_cut(struct connection *c);
void output_gone(struct connection *c);
static inline bool output_waits(const struct connection *c)
{
        return c->output_end > c->output_start;
}

#endif
