/* SPDX-License-Identifier: Apache-2.0
 *
 * From a head that was read to the handler, and from there to the end of the answer. */
#ifndef SERVER_DISPATCH_H
#define SERVER_DISPATCH_H

#include "server/request.h"

/* In the loop's thread. The head of the connection's request is complete; body_came: some of its body lies behind it. 0: go on and read the
 * body; negative: it was answered. */
int dispatch_head(struct connection *c, bool body_came);
/* The body is, too. */
void dispatch_request(struct connection *c);
/* Something that was no request, or ended one early: answers it, and the connection ends. */
void dispatch_bad(struct connection *c, int status, const gb_error *err);

/* A request that waited for a worker too long. */
void dispatch_late(struct request *r);

/* request.c */
struct request *request_new(struct connection *c, struct http_message *message);
void request_free(struct request *r); /* takes NULL */

#endif
