/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS that ends in the proxy: the box's side with a certificate of the session's own authority, the upstream's side verified by the host's roots. */
#ifndef EGRESS_INTERCEPT_H
#define EGRESS_INTERCEPT_H

#include "base/buffer.h"
#include "base/error.h"
#include "egress/core.h"

/* The certificates by which upstreams are verified (PEM). */
int intercept_set_roots(const char *pem, size_t size, gb_error *err);

/* PEM of certificate and key. */
int authority_new(const char *pem, size_t size, struct authority **ret, gb_error *err);
void authority_free(struct authority *a); /* takes NULL */
/* Makes such a PEM: EC P-256, a certificate that signs for some days, its name random. */
int authority_make(struct buffer *ret, gb_error *err);

/* Takes over a tunnel that was decided for a rule with intercept and dialled: client (a descriptor to which the answer to CONNECT or SOCKS was written already), what it has
 * sent, and reached. The requests inside go to forward_new(). 0, or a negative errno: nothing was taken. */
int intercept_start(struct connection *c, int client, const void *early, size_t early_size, const struct host *host, uint16_t port, struct reached *reached);

#endif
