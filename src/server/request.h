/* SPDX-License-Identifier: Apache-2.0
 *
 * A request as its handler sees it. The loop (loop.h) has read all of it, head and body, before a worker thread calls
 * the handler: a client that sends slowly holds no thread. Everything here belongs to the request. */
#ifndef SERVER_REQUEST_H
#define SERVER_REQUEST_H

#include "base/buffer.h"
#include "base/error.h"
#include "journal/tokens.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROUTE_PARAMS_MAX 4

struct server;
struct route;
struct connection;

/* Who asks. */
struct caller {
        char tenant[TENANT_NAME_MAX];
        char token[TOKEN_ID_MAX]; /* empty: known by the socket */
        unsigned scopes;
        bool local; /* through the unix socket: our own user, or root */
};

/* What the client wants to read, by Accept: the first of its types that we write. */
enum answer_kind { ANSWER_JSON, ANSWER_SSE, ANSWER_NDJSON, ANSWER_OTHER };

/* A body: in memory as long as it is small, else in an unlinked file. Memory is wiped, and so is a file when it may have a secret in it. */
struct body {
        struct buffer memory;
        int fd; /* -1: in memory */
        uint64_t size;
        bool secret; /* the file is written over before it is closed */
};

struct request {
        struct server *server;
        const struct route *route;
        struct connection *connection;
        struct caller caller;
        char *target;                   /* as it was sent */
        char *params[ROUTE_PARAMS_MAX]; /* what stood for the {names} of the pattern, decoded; NUL-free UTF-8 */
        enum answer_kind answer;
        struct body body;
        uint64_t arrived_usec; /* CLOCK_MONOTONIC: when its first byte came */
        struct http_message *message; /* the head: http/message.h */
        struct uri_query *query;      /* http/uri.h */
        struct reply *reply;          /* reply.h */
};

/* A header field by its name in any case; NULL: not there. */
const char *request_header(const struct request *r, const char *name);
/* A parameter of the query, decoded; NULL: not there. */
const char *request_query(const struct request *r, const char *name);
/* Refuses parameters that are not named here (NULL-terminated), and ones that come twice: GB_E_USAGE, naming it. Every handler begins with it. */
int request_check_query(const struct request *r, const char *const names[], gb_error *err);
int request_query_number(const struct request *r, const char *name, uint64_t min, uint64_t max, uint64_t fallback, uint64_t *ret, gb_error *err);
int request_query_bool(const struct request *r, const char *name, bool *ret, gb_error *err);

/* The body as a JSON object: content type, UTF-8, depth (JSON_DEPTH_MAX), no key twice. An empty body is an empty object when that is allowed. */
int request_json(struct request *r, bool may_be_empty, json_t **ret, gb_error *err);
/* The same for a body that may be any JSON value. */
int request_json_value(struct request *r, json_t **ret, gb_error *err);

/* What was in the body is not needed any more: it is wiped, and has no size. */
void request_forget_body(struct request *r);

/* For bytes that become JSON, or come from it, when they are many: GB_E_UNAVAILABLE when there are as many as may be in memory at a time. Given back with the request. */
int request_reserve(struct request *r, uint64_t size, gb_error *err);

/* Whether the client has gone away, as far as the loop knows. */
bool request_is_gone(const struct request *r);
/* Readable (level-triggered) when it has; for poll(). */
int request_gone_fd(const struct request *r);

#endif
