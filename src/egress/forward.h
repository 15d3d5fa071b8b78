/* SPDX-License-Identifier: Apache-2.0
 *
 * What forward.c (the client's side) and forward_answer.c (the upstream's) know of each other. */
#ifndef EGRESS_FORWARD_H
#define EGRESS_FORWARD_H

#include "egress/core.h"
#include "egress/forward_message.h"
#include "http/parser.h"

#include <event2/buffer.h>

#define FORWARD_READ_MAX (64 * KIB) /* that were read of one side and not used */

enum forward_stage {
        FORWARD_HEAD,    /* of the next request is read */
        FORWARD_REACH,   /* it is judged, and somebody dialled */
        FORWARD_ANSWER,  /* it goes up, and its answer comes down */
        FORWARD_DRAIN,   /* it was answered; what is left of its body is dropped */
        FORWARD_LAST,    /* our last words are on their way */
        FORWARD_LINGER,  /* they are sent; the client has not closed yet */
        FORWARD_STOPPED, /* a budget is used up: somebody ends us soon */
};

struct upstream {
        struct bufferevent *events; /* NULL: none */
        struct host host;
        uint16_t port;
        bool answered; /* a request, before */
        bool opening;  /* TLS is not there yet */
        bool ended;    /* nothing more comes from it, */
        bool clean;    /* and it has said so */
        bool deaf;     /* nothing more goes to it */
        char problem[128]; /* what went wrong, in words; "" when that is not known */
};

struct forward {
        struct connection *c;
        bool has_fixed;
        struct target fixed;
        enum forward_stage stage;
        struct event *timer;
        struct upstream up;

        /* The request under way */
        struct http_parser request, answer;
        struct target to; /* its path lies in the request */
        struct ledger_row *row;
        struct rules_block *rules;
        const struct egress_rule *rule;
        enum forward_framing framing; /* of the answer's body */
        bool sending;   /* its body has not come to its end */
        bool answering; /* the head of its answer went to the client */
        bool retried;
        bool last;      /* of this connection */
        unsigned interim;
        uint64_t drained;

        bool client_ended;
        bool starting;  /* inside of reach_start() */
        bool has_reached;
        struct reached reached; /* what it said there */
};

enum forward_step {
        FORWARD_WAIT,  /* there is nothing to do now */
        FORWARD_MOVED, /* something was done, and there may be more */
        FORWARD_GONE,  /* f is gone, or stopped: touch nothing */
};

/* Bytes that were written to it and are not sent yet. */
static inline size_t forward_waiting(struct bufferevent *b)
{
        return evbuffer_get_length(bufferevent_get_output(b));
}

/* Does all that can be done now. f may be gone then. */
void forward_pump(struct forward *f);
void forward_deadline(struct forward *f, uint64_t usec);
enum http_step forward_feed(struct http_parser *p, struct evbuffer *in, const char **ret_piece, size_t *ret_piece_size, size_t *ret_used);

/* An answer of ours in the place of the upstream's. */
enum forward_step forward_refuse(struct forward *f, int status, enum egress_decision decision, const char *sentence);
/* The request and its answer are done. */
enum forward_step forward_next(struct forward *f);
enum forward_step forward_drain(struct forward *f);
/* Sends what was written, then ends. */
enum forward_step forward_end(struct forward *f);
/* A budget is used up. */
enum forward_step forward_stop(struct forward *f);
enum forward_step forward_no_memory(struct forward *f);
/* Judges the request once more, and dials. */
enum forward_step forward_reach(struct forward *f);

/* ---- forward_answer.c ---- */

int upstream_open(struct forward *f, int fd, const struct host *host, uint16_t port); /* takes fd unless it fails */
void upstream_close(struct forward *f);
/* Sends the head of the request. */
enum forward_step upstream_send_head(struct forward *f);
enum forward_step upstream_send(struct forward *f, const char *piece, size_t size);
enum forward_step upstream_send_end(struct forward *f);
enum forward_step upstream_read(struct forward *f);
/* The upstream has not said anything for too long. */
enum forward_step upstream_late(struct forward *f);

#endif
