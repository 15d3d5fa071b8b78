/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_TLS_H
#define SERVER_TLS_H

#include "base/error.h"

struct ssl_ctx_st;

/* A context for listeners: TLS 1.2 and above, no renegotiation, no compression, no tickets. The files are PEM; the key is one that belongs to the first
 * certificate of the chain. */
int tls_context_new(const char *certificate, const char *key, struct ssl_ctx_st **ret, gb_error *err);
void tls_context_free(struct ssl_ctx_st *context); /* takes NULL */

#endif
