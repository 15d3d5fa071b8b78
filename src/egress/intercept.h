/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS that ends in the proxy: the box's side with a certificate of the session's own authority, the upstream's side verified by the host's roots. */
#ifndef EGRESS_INTERCEPT_H
#define EGRESS_INTERCEPT_H

#include "base/buffer.h"
#include "base/error.h"
#include "egress/authority.h"
#include "egress/core.h"

/* Before the process is sealed: whatever a library wants to read from files once. 0 or a negative errno. */
int intercept_init(void);

/* The certificates by which upstreams are verified (PEM). */
int intercept_set_roots(const char *pem, size_t size, gb_error *err);

/* Takes over a tunnel that was decided for a rule with intercept and dialled: client (a descriptor to which the answer to CONNECT or SOCKS was written already), what it has
 * sent, and reached. The requests inside go to forward_new(). 0, or a negative errno: nothing was taken. */
int intercept_start(struct connection *c, int client, const void *early, size_t early_size, const struct host *host, uint16_t port, struct reached *reached);

/* ---- for forward.c; those without "TLS" in their comment take any bufferevent, and do nothing where no TLS is spoken ---- */

/* TLS to an upstream, verified; fd is taken unless it fails. */
int intercept_upstream(int fd, const struct host *host, struct bufferevent **ret);
/* What went wrong, in a few words; "" when that is not known. Of any bufferevent, from its event of an error. */
void intercept_explain(struct bufferevent *b, char *buf, size_t size);
/* Says that nothing more comes. */
void intercept_hang_up(struct bufferevent *b);
/* There is room again: what TLS has read ahead is looked at, too. */
void intercept_go_on(struct bufferevent *b);
/* The client has failed in the middle of its greeting: notes it when that was no TLS. */
void intercept_note_failure(struct connection *c);
/* Frees the client's bufferevent if it speaks TLS; its descriptor stays open. */
void intercept_release(struct connection *c);

#endif
