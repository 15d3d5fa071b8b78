/* SPDX-License-Identifier: Apache-2.0
 *
 * Answering, from a worker thread. What the socket does not take at once waits in a bounded buffer; when that is full
 * the writer waits, up to STALLED_USEC, and then the client counts as gone: -EPIPE from then on. A handler answers exactly once;
 * one that returned without is answered for with `internal`. */
#ifndef SERVER_REPLY_H
#define SERVER_REPLY_H

#include "server/request.h"

/* One more field of the head; before reply_begin() or reply_json(). Values are checked: no CR, LF, NUL. */
int reply_header(struct request *r, const char *name, const char *format, ...) _printf_(3, 4);

/* Takes the object. NULL: out of memory, which is answered as such. */
void reply_json(struct request *r, int status, json_t *body);
/* With the status of its code. quota, unavailable: with Retry-After. */
void reply_error(struct request *r, const gb_error *err);
/* The same with a hint of its own and details (taken; may be NULL). */
void reply_error_with(struct request *r, const gb_error *err, const char *hint, json_t *details);
void reply_empty(struct request *r, int status); /* 204, 202 */

/* A body in pieces. size -1: chunked. 0, or -EPIPE when nobody reads any more. */
int reply_begin(struct request *r, int status, const char *content_type, int64_t size);
int reply_write(struct request *r, const void *bytes, size_t size);
int reply_end(struct request *r);
/* Something went wrong in the middle: the connection is cut, so that nobody takes a part for the whole. */
void reply_abort(struct request *r);

/* A stream of events, SSE or NDJSON as the request wants it; each is sent at once. The object is not taken. seq < 0: it has none. */
int reply_stream_begin(struct request *r);
int reply_stream_event(struct request *r, int64_t seq, const char *kind, json_t *object);
int reply_stream_ping(struct request *r);

/* The error object of the API: {"error": {"code", "message", "hint", "details"}}. Takes details, may be NULL; hint NULL: the code's own. */
json_t *reply_error_object(const gb_error *err, const char *hint, json_t *details);

#endif
