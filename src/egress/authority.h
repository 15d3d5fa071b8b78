/* SPDX-License-Identifier: Apache-2.0
 *
 * The certificate authority of one session: it says "this is example.com" to the programs of one box, and to nobody else. */
#ifndef EGRESS_AUTHORITY_H
#define EGRESS_AUTHORITY_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/host.h"

struct authority;
struct x509_st;
struct evp_pkey_st;

/* PEM of certificate and key. */
int authority_new(const char *pem, size_t size, struct authority **ret, gb_error *err);
void authority_free(struct authority *a); /* takes NULL */
DEFINE_CLEANUP(struct authority, authority_free)
/* Makes such a PEM: EC P-256, a certificate that signs for some days, its name random. */
int authority_make(struct buffer *ret, gb_error *err);

/* A certificate for this host, and its key; both stay the authority's, the certificate until the next call. 0 or a negative errno. */
int authority_leaf(struct authority *a, const struct host *host, struct x509_st **ret, struct evp_pkey_st **ret_key);

#endif
