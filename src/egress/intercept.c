/* SPDX-License-Identifier: Apache-2.0
 *
 * Two sides that speak TLS, each with a bufferevent of its own; forward.c is between them. The process has no files: all that OpenSSL would look for
 * (its configuration, the certificates of the system) is either not looked for or was given to us.
 *
 * Callbacks of these bufferevents are deferred: whoever frees one is never inside of OpenSSL. */
#include "egress/intercept.h"

#include "egress/forward.h"

#include <errno.h>
#include <event2/bufferevent_ssl.h>
#include <event2/bufferevent_struct.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static SSL_CTX *to_box, *to_upstream;
static BIO_METHOD *early_method;

static const unsigned char protocols[] = "\x08http/1.1";
#define PROTOCOLS_BYTES (sizeof(protocols) - 1)

DEFINE_CLEANUP(SSL, SSL_free)
#define _cleanup_ssl_ _cleanup_(SSL_free_ptr)

/* ---- who it is that the client wants ---- */

/* NULL: not known, so nobody. */
static const struct target *wanted(const SSL *ssl)
{
        const struct connection *c = SSL_get_app_data(ssl);

        return c && c->forward && c->forward->has_fixed ? &c->forward->fixed : NULL;
}

static int on_name(SSL *ssl, int *alert, void *data)
{
        const struct target *t = wanted(ssl);
        const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
        struct connection *c = SSL_get_app_data(ssl);
        struct host host;

        *alert = SSL_AD_UNRECOGNIZED_NAME;
        if (!t)
                return SSL_TLSEXT_ERR_ALERT_FATAL;
        /* An address has no place in that field (RFC 6066 3). */
        bool named = name && host_parse(name, strlen(name), &host) == 0;
        if (name ? named && host_equals(&host, &t->host) : t->host.kind == HOST_ADDRESS)
                return SSL_TLSEXT_ERR_OK;
        ledger_count(c->box->ledger, ledger_row(c->box->ledger, named ? host.text : t->host.text, t->port, EGRESS_NO_SNI, EGRESS_HTTPS, NULL));
        return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int on_protocols(SSL *ssl, const unsigned char **ret, unsigned char *ret_size, const unsigned char *offered, unsigned size, void *data)
{
        unsigned char *chosen;

        if (SSL_select_next_proto(&chosen, ret_size, protocols, PROTOCOLS_BYTES, offered, size) != OPENSSL_NPN_NEGOTIATED)
                return SSL_TLSEXT_ERR_ALERT_FATAL;
        *ret = chosen;
        return SSL_TLSEXT_ERR_OK;
}

/* ---- bytes that were read before TLS began ---- */

struct early {
        int fd;
        bool ended;
        size_t size, at;
        char bytes[];
};

static int early_read(BIO *bio, char *to, int size)
{
        struct early *e = BIO_get_data(bio);
        ssize_t n = size > 0 ? (ssize_t)MIN((size_t)size, e->size - e->at) : 0;

        BIO_clear_retry_flags(bio);
        if (n > 0) {
                memcpy(to, e->bytes + e->at, (size_t)n);
                e->at += (size_t)n;
                return (int)n;
        }
        n = size > 0 ? read(e->fd, to, (size_t)size) : 0;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                BIO_set_retry_read(bio);
        e->ended = n == 0;
        return (int)n;
}

static long early_control(BIO *bio, int command, long number, void *data)
{
        struct early *e = BIO_get_data(bio);

        switch (command) {
        case BIO_CTRL_EOF:
                return e && e->ended;
        case BIO_CTRL_PENDING:
                return e ? (long)(e->size - e->at) : 0;
        case BIO_CTRL_FLUSH:
                return 1;
        default:
                return 0;
        }
}

static int early_free(BIO *bio)
{
        free(BIO_get_data(bio));
        BIO_set_data(bio, NULL);
        return 1;
}

static int set_early(SSL *ssl, int fd, const void *bytes, size_t size)
{
        struct early *e = malloc(sizeof(*e) + size);
        BIO *in = BIO_new(early_method), *out = BIO_new_socket(fd, BIO_NOCLOSE);

        if (!e || !in || !out) {
                free(e);
                BIO_free(in);
                BIO_free(out);
                return -ENOMEM;
        }
        *e = (struct early){.fd = fd, .size = size};
        memcpy(e->bytes, bytes, size);
        BIO_set_data(in, e);
        BIO_set_init(in, 1);
        SSL_set_bio(ssl, in, out);
        return 0;
}

/* ---- at the start ---- */

static SSL_CTX *make_context(const SSL_METHOD *method)
{
        SSL_CTX *context = SSL_CTX_new(method);

        if (!context)
                return NULL;
        SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
        SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
        SSL_CTX_set_num_tickets(context, 0);
        SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
        SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
        return context;
}

static bool make_early_method(void)
{
        early_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "early");
        return early_method && BIO_meth_set_read(early_method, early_read) == 1 && BIO_meth_set_ctrl(early_method, early_control) == 1 &&
               BIO_meth_set_destroy(early_method, early_free) == 1;
}

int intercept_init(void)
{
        unsigned char random[16];

        if (to_box)
                return 0;
        if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_LOAD_CRYPTO_STRINGS, NULL) != 1 ||
            OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_LOAD_SSL_STRINGS, NULL) != 1 || RAND_bytes(random, sizeof(random)) != 1)
                return -EIO;
        to_upstream = make_context(TLS_client_method());
        to_box = make_context(TLS_server_method());
        if (!to_upstream || !to_box || !make_early_method())
                return -ENOMEM;
        SSL_CTX_set_tlsext_servername_callback(to_box, on_name);
        SSL_CTX_set_alpn_select_cb(to_box, on_protocols, NULL);
        SSL_CTX_set_verify(to_upstream, SSL_VERIFY_PEER, NULL);
        return SSL_CTX_set_alpn_protos(to_upstream, protocols, PROTOCOLS_BYTES) == 0 ? 0 : -ENOMEM;
}

int intercept_set_roots(const char *pem, size_t size, gb_error *err)
{
        if (size > INT32_MAX || intercept_init() < 0)
                return error_set(err, GB_E_INTERNAL, EIO, "TLS cannot be used");
        BIO *in = BIO_new_mem_buf(pem, (int)size);
        X509_STORE *store = X509_STORE_new();
        size_t n = 0;

        /* One that cannot be read ends the list, as it does for everybody else. */
        for (X509 *x; in && store && (x = PEM_read_bio_X509_AUX(in, NULL, NULL, NULL)) != NULL; n++) {
                X509_STORE_add_cert(store, x);
                X509_free(x);
        }
        BIO_free(in);
        ERR_clear_error();
        if (n == 0) {
                X509_STORE_free(store);
                return error_set(err, GB_E_USAGE, EINVAL, "there is no certificate in the list of those that are trusted");
        }
        SSL_CTX_set_cert_store(to_upstream, store);
        return 0;
}

/* ---- the upstream's side ---- */

int intercept_upstream(int fd, const struct host *host, struct bufferevent **ret)
{
        _cleanup_ssl_ SSL *ssl = intercept_init() == 0 ? SSL_new(to_upstream) : NULL;

        if (!ssl)
                return -ENOMEM;
        SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        int good = host->kind == HOST_ADDRESS ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host->text)
                                              : SSL_set1_host(ssl, host->text) == 1 && SSL_set_tlsext_host_name(ssl, host->text) == 1;
        if (good != 1)
                return -EINVAL;
        struct bufferevent *b = bufferevent_openssl_socket_new(egress_base, fd, ssl, BUFFEREVENT_SSL_CONNECTING, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
        if (!b)
                return -ENOMEM;
        ssl = NULL; /* goes with it */
        *ret = b;
        return 0;
}

void intercept_explain(struct bufferevent *b, char *buf, size_t size)
{
        SSL *ssl = bufferevent_openssl_get_ssl(b);
        unsigned long code = ssl ? bufferevent_get_openssl_error(b) : 0;
        const char *reason = code ? ERR_reason_error_string(code) : NULL;
        long verdict = ssl ? SSL_get_verify_result(ssl) : X509_V_OK;
        int error = EVUTIL_SOCKET_ERROR();

        if (verdict != X509_V_OK)
                snprintf(buf, size, "its certificate is not trusted (%s)", X509_verify_cert_error_string(verdict));
        else
                snprintf(buf, size, "%s", reason ? reason : !ssl && error ? strerror(error) : "");
}

/* ---- both ---- */

void intercept_hang_up(struct bufferevent *b)
{
        SSL *ssl = bufferevent_openssl_get_ssl(b);

        if (ssl && SSL_is_init_finished(ssl))
                SSL_shutdown(ssl);
        if (ssl)
                ERR_clear_error();
}

/* A record may have been read half when there was no more room: its rest is in OpenSSL, and no event of the socket tells of it. */
void intercept_go_on(struct bufferevent *b)
{
        SSL *ssl = bufferevent_openssl_get_ssl(b);

        if (ssl && (bufferevent_get_enabled(b) & EV_READ) && SSL_has_pending(ssl) && evbuffer_get_length(bufferevent_get_input(b)) < FORWARD_READ_MAX)
                event_active(&b->ev_read, EV_READ, 0);
}

/* ---- the client's side ---- */

void intercept_note_failure(struct connection *c)
{
        SSL *ssl = bufferevent_openssl_get_ssl(c->client);
        const struct target *t = ssl ? wanted(ssl) : NULL;
        unsigned long code = t && !SSL_is_init_finished(ssl) ? bufferevent_get_openssl_error(c->client) : 0;

        switch (ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0) {
        case SSL_R_HTTP_REQUEST:
        case SSL_R_HTTPS_PROXY_REQUEST:
        case SSL_R_WRONG_VERSION_NUMBER:
                ledger_count(c->box->ledger, ledger_row(c->box->ledger, t->host.text, t->port, EGRESS_NO_TLS, EGRESS_HTTPS, NULL));
                break;
        }
}

void intercept_release(struct connection *c)
{
        SSL *ssl = c->client ? bufferevent_openssl_get_ssl(c->client) : NULL;

        if (!ssl)
                return;
        intercept_hang_up(c->client);
        events_free(c->client);
        c->client = NULL;
        SSL_free(ssl);
}

static SSL *make_client(struct connection *c, int client, const void *early, size_t early_size, const struct host *host)
{
        _cleanup_ssl_ SSL *ssl = intercept_init() == 0 ? SSL_new(to_box) : NULL;
        X509 *certificate;
        EVP_PKEY *key;

        if (!ssl || authority_leaf(c->box->authority, host, &certificate, &key) < 0)
                return NULL;
        SSL_set_app_data(ssl, c);
        if (SSL_use_certificate(ssl, certificate) != 1 || SSL_use_PrivateKey(ssl, key) != 1 || (early_size > 0 && set_early(ssl, client, early, early_size) < 0))
                return NULL;
        return TAKE_PTR(ssl);
}

int intercept_start(struct connection *c, int client, const void *early, size_t early_size, const struct host *host, uint16_t port, struct reached *reached)
{
        _cleanup_ssl_ SSL *ssl = make_client(c, client, early, early_size, host);

        ERR_clear_error();
        if (!ssl)
                return -ENOMEM;
        /* Whoever frees the connection closes the descriptor. */
        struct bufferevent *b = bufferevent_openssl_socket_new(egress_base, client, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_DEFER_CALLBACKS);
        if (!b)
                return -ENOMEM;
        c->client = b;
        int r = forward_new(c, &(struct forward_start){.fixed = host, .port = port, .reached = reached});
        if (r < 0) {
                c->client = NULL;
                bufferevent_free(b);
                return r;
        }
        ssl = NULL; /* intercept_release() frees it */
        return 0;
}
