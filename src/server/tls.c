/* SPDX-License-Identifier: Apache-2.0 */
#include "server/tls.h"

#include "base/macro.h"
#include "base/quote.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>

DEFINE_CLEANUP(SSL_CTX, SSL_CTX_free)

static int tls_error(gb_error *err, const char *what, const char *file)
{
        unsigned long code = ERR_get_error();
        const char *reason = ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code)) : code ? ERR_reason_error_string(code) : NULL;

        ERR_clear_error();
        return error_set(err, GB_E_USAGE, EINVAL, "%s %s: %s", what, file ? quote(file).text : "", reason ? reason : "unknown");
}

int tls_context_new(const char *certificate, const char *key, struct ssl_ctx_st **ret, gb_error *err)
{
        _cleanup_(SSL_CTX_free_ptr) SSL_CTX *context = NULL;

        ERR_clear_error();
        context = SSL_CTX_new(TLS_server_method());
        if (!context)
                return tls_error(err, "cannot use TLS", NULL);
        SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
        SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
        SSL_CTX_set_num_tickets(context, 0);
        SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
        /* Released buffers: an idle connection costs little. */
        SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
        if (SSL_CTX_use_certificate_chain_file(context, certificate) != 1)
                return tls_error(err, "cannot read the certificate", certificate);
        if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
                return tls_error(err, "cannot read the key", key);
        if (SSL_CTX_check_private_key(context) != 1)
                return tls_error(err, "the certificate is not that of the key", key);
        *ret = TAKE_PTR(context);
        return 0;
}

void tls_context_free(struct ssl_ctx_st *context)
{
        SSL_CTX_free(context);
}
