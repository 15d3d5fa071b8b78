/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection to a server, with one request at a time. Nothing here waits but client_wait(): who has more to watch than
 * one connection polls for client_events() and calls client_step(). */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/limits.h"
#include "client/address.h"
#include "client/response.h"

#include <stdbool.h>
#include <stdint.h>

struct client_request {
        const char *method;
        const char *target; /* path and query, encoded */
        const char *accept; /* NULL: application/json */
        const char *type;   /* of the body; NULL: there is none */
        const void *body;   /* borrowed until the answer has begun */
        size_t body_size;
        const char *upgrade; /* the protocol to switch to; NULL: none */
        const char *headers; /* more fields, each "Name: value\r\n", as the caller has checked them; borrowed as long as the call; NULL: none */
        int body_fd;        /* with body NULL: body_size bytes of this file, from its beginning; borrowed as well */
};

struct client {
        struct client_address address;
        const char *token; /* borrowed; NULL: none. Never shown */
        bool foreign;      /* the server is not ours: see client/response.h */
        int fd;            /* -1: not connected */
        bool connecting;
        bool sent_all;     /* of the request */
        bool fresh;        /* the connection was made for this request */
        bool ended;        /* the server has closed it */

        struct buffer head; /* of the request */
        size_t head_sent, body_sent;
        struct client_request request;

        struct response response;
        struct buffer body; /* of the answer, as far as it has come */
        size_t taken;       /* of that, by who reads it as it comes */

        void (*on_slow)(void); /* called once when an answer is long in coming; may be NULL */
};

/* Connects to nothing yet. */
void client_init(struct client *c, const struct client_address *address, const char *token);
void client_done(struct client *c);
#define _cleanup_client_ _cleanup_(client_done)

/* GB_E_UNAVAILABLE when nobody listens there. A unix socket answers at once, others while one waits. */
int client_connect(struct client *c, gb_error *err);

/* Begins a request; what was left of the answer before is forgotten, and the connection used again if that was whole. */
int client_start(struct client *c, const struct client_request *request, gb_error *err);
/* What to poll fd for; 0: nothing, the answer is whole. */
short client_events(const struct client *c);
/* Does what can be done without waiting. 0, or a negative errno with err: the outcome is not known then
 * (GB_E_LOST), or nothing was sent (GB_E_UNAVAILABLE). */
int client_step(struct client *c, gb_error *err);

static inline bool client_has_head(const struct client *c)
{
        return c->response.stage != RESPONSE_HEAD;
}

static inline bool client_is_done(const struct client *c)
{
        return c->response.stage == RESPONSE_DONE;
}

enum client_until {
        CLIENT_HEAD,  /* the status is there */
        CLIENT_MORE,  /* more of the body is than when it was called, or its end */
        CLIENT_WHOLE,
        CLIENT_SENDS, /* more of the request's body has left than when it was called, or all of it */
};

/* Waits. deadline_usec by CLOCK_MONOTONIC, 0: none. -ECANCELED (without err) when cancel_fd became readable before; -1: none. */
int client_wait(struct client *c, enum client_until until, uint64_t deadline_usec, int cancel_fd, gb_error *err);

/* What has come of the body and was not taken yet; may be NULL when that is nothing. */
static inline const char *client_data(const struct client *c, size_t *ret_size)
{
        *ret_size = c->body.size - c->taken;
        return c->body.data ? c->body.data + c->taken : NULL;
}

/* The first bytes of that are done with. */
void client_take(struct client *c, size_t size);

/* Adds text percent-encoded: a segment of a path (everything but unreserved characters), or with keep_slash a path. */
int client_add_encoded(struct buffer *out, const char *text, bool keep_slash);

#endif
