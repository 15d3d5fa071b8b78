/* SPDX-License-Identifier: Apache-2.0
 *
 * The same over TLS: what only TLS can get wrong. */
#include "base/buffer.h"
#include "base/fd.h"
#include "server/loop.h"
#include "server/test_fixture.h"
#include "server/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define HOST "Host: localhost\r\n"

static char certificate_file[96], key_file[96], other_key_file[96];

static EVP_PKEY *write_key(const char *file)
{
        EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
        FILE *out = fopen(file, "we");

        assert_non_null(key);
        assert_non_null(out);
        assert_int_equal(PEM_write_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL), 1);
        fclose(out);
        return key;
}

static void write_files(const char *directory)
{
        snprintf(certificate_file, sizeof(certificate_file), "%s/certificate", directory);
        snprintf(key_file, sizeof(key_file), "%s/key", directory);
        snprintf(other_key_file, sizeof(other_key_file), "%s/other", directory);
        EVP_PKEY_free(write_key(other_key_file));
        EVP_PKEY *key = write_key(key_file);
        X509 *certificate = X509_new();
        ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
        X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
        X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
        X509_set_pubkey(certificate, key);
        X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1, -1, 0);
        X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
        assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
        FILE *out = fopen(certificate_file, "we");
        assert_int_equal(PEM_write_X509(out, certificate), 1);
        fclose(out);
        X509_free(certificate);
        EVP_PKEY_free(key);
}

static int setup(void **state)
{
        static struct fixture f;
        gb_error err = {0};

        fixture_init(&f);
        write_files(f.directory);
        assert_int_equal(tls_context_new(certificate_file, key_file, &f.tls, &err), 0);
        f.server.config.header_usec = 6000000;
        f.server.config.stalled_usec = 4000000;
        fixture_start(&f);
        *state = &f;
        return 0;
}

static int teardown(void **state)
{
        struct fixture *f = *state;
        struct ssl_ctx_st *tls = f->tls;

        unlink(certificate_file);
        unlink(key_file);
        unlink(other_key_file);
        fixture_stop(f);
        tls_context_free(tls);
        return 0;
}

struct client {
        SSL_CTX *context;
        SSL *ssl;
        int fd;
};

static bool client_open(struct client *c, const struct fixture *f, int version)
{
        c->context = SSL_CTX_new(TLS_client_method());
        SSL_CTX_set_security_level(c->context, 0);
        SSL_CTX_set_min_proto_version(c->context, version);
        SSL_CTX_set_max_proto_version(c->context, version);
        c->ssl = SSL_new(c->context);
        c->fd = fixture_connect_port(f->tls_port);
        SSL_set_fd(c->ssl, c->fd);
        return SSL_connect(c->ssl) == 1;
}

static void client_done(struct client *c)
{
        SSL_free(c->ssl);
        SSL_CTX_free(c->context);
        close(c->fd);
}

static void client_say(struct client *c, const char *text, size_t size)
{
        for (size_t at = 0; at < size;) {
                int n = SSL_write(c->ssl, text + at, (int)MIN(size - at, (size_t)16000));
                assert_true(n > 0);
                at += (size_t)n;
        }
}

/* So many bytes of answers, or what came until the end. */
static size_t client_hear(struct client *c, char *text, size_t size)
{
        size_t at = 0;
        int n;

        while (at < size && (n = SSL_read(c->ssl, text + at, (int)(size - at))) > 0)
                at += (size_t)n;
        return at;
}

static size_t count(const char *text, const char *word)
{
        size_t n = 0;

        for (const char *p = text; (p = strstr(p, word)); p += strlen(word))
                n++;
        return n;
}

static void test_requests(void **state)
{
        static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
        static const char text[] = "GET /echo/a HTTP/1.1\r\n" HOST "\r\n";

        for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
                struct client c;
                char answer[4096];
                assert_true(client_open(&c, *state, versions[v]));
                for (int i = 0; i < 20; i++) {
                        client_say(&c, text, strlen(text));
                        int n = SSL_read(c.ssl, answer, sizeof(answer) - 1);
                        assert_true(n > 0); /* a small answer is one record */
                        answer[n] = '\0';
                        assert_memory_equal(answer, "HTTP/1.1 200 ", 13);
                        assert_non_null(strstr(answer, "{\"word\":\"a\""));
                }
                client_done(&c);
        }
}

/* Pieces that are no records of their own, and records that hold much. */
static void test_pieces(void **state)
{
        static const char text[] = "POST /json HTTP/1.1\r\n" HOST "Content-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\":1}";
        _cleanup_buffer_ struct buffer many = {0};
        struct client c;
        static char answers[1 << 20];

        assert_true(client_open(&c, *state, TLS1_3_VERSION));
        for (size_t i = 0; i < strlen(text); i++)
                client_say(&c, text + i, 1);
        size_t one = client_hear(&c, answers, 100);
        assert_int_equal(one, 100);
        client_done(&c);

        buffer_init(&many, 1 << 20);
        for (int i = 0; i < 1000; i++)
                buffer_add_string(&many, i < 999 ? "GET /echo/a HTTP/1.1\r\n" HOST "\r\n" : "GET /echo/a HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
        assert_true(client_open(&c, *state, TLS1_3_VERSION));
        client_say(&c, many.data, many.size);
        answers[client_hear(&c, answers, sizeof(answers) - 1)] = '\0';
        assert_int_equal(count(answers, "HTTP/1.1 200 OK"), 1000);
        client_done(&c);
}

static void test_much(void **state)
{
        struct client c;
        size_t size = 6000000;
        char *body = malloc(size), head[256], answer[4096];

        assert_true(client_open(&c, *state, TLS1_3_VERSION));
        memset(body, 1, size);
        snprintf(head, sizeof(head), "PUT /bytes/a HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n", size);
        client_say(&c, head, strlen(head));
        client_say(&c, body, size);
        int n = SSL_read(c.ssl, answer, sizeof(answer) - 1);
        assert_true(n > 0);
        answer[n] = '\0';
        assert_non_null(strstr(answer, "\"size\":6000000,\"sum\":6000000,"));

        snprintf(head, sizeof(head), "GET /large?size=%zu HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", size - 1000);
        client_say(&c, head, strlen(head));
        size_t got = client_hear(&c, body, size);
        assert_true(got > size - 1000);
        assert_int_equal(SSL_get_error(c.ssl, SSL_read(c.ssl, answer, 1)), SSL_ERROR_ZERO_RETURN); /* a close that nobody can forge */
        client_done(&c);
        free(body);
}

static void test_stalled_reader(void **state)
{
        struct client c;
        static const char text[] = "GET /large?size=100000000 HTTP/1.1\r\n" HOST "\r\n";

        assert_true(client_open(&c, *state, TLS1_2_VERSION));
        client_say(&c, text, strlen(text));
        assert_true(reaches(&fixture_gone, 1));
        client_done(&c);
}

static void test_gone(void **state)
{
        struct client c;
        static const char text[] = "GET /wait HTTP/1.1\r\n" HOST "\r\n";

        assert_true(client_open(&c, *state, TLS1_3_VERSION));
        client_say(&c, text, strlen(text));
        assert_true(reaches(&fixture_waiting, 1));
        client_done(&c);
        assert_true(reaches(&fixture_gone, 1));
}

static void test_refused(void **state)
{
        const struct fixture *f = *state;
        struct client c;

        assert_false(client_open(&c, f, TLS1_1_VERSION));
        client_done(&c);
        /* Plain HTTP, nothing, and half a handshake */
        _cleanup_close_ int plain = fixture_connect_port(f->tls_port), silent = fixture_connect_port(f->tls_port), half = fixture_connect_port(f->tls_port);
        say(plain, "GET /open HTTP/1.1\r\n" HOST "\r\n");
        say_bytes(half, "\x16\x03\x01\x00\x80\x01", 6);
        assert_true(is_closed(plain));
        assert_true(is_closed(silent));
        assert_true(is_closed(half));
        /* And TLS where there is none */
        _cleanup_close_ int wrong = fixture_connect_tcp(f);
        say_bytes(wrong, "\x16\x03\x01\x00\x80\x01", 6);
        _cleanup_answer_ struct answer a = hear(wrong);
        assert_int_equal(a.status, 400);
}

static void test_files(void **state)
{
        struct ssl_ctx_st *context;
        gb_error err = {0};

        assert_true(tls_context_new("/nonexistent", key_file, &context, &err) < 0);
        assert_int_equal(err.code, GB_E_USAGE);
        assert_non_null(strstr(err.message, "/nonexistent"));
        assert_true(tls_context_new(key_file, key_file, &context, &err) < 0);
        assert_true(tls_context_new(certificate_file, certificate_file, &context, &err) < 0);
        assert_true(tls_context_new(certificate_file, other_key_file, &context, &err) < 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_requests), TEST(test_pieces), TEST(test_much), TEST(test_stalled_reader), TEST(test_gone), TEST(test_refused), TEST(test_files),
        };
        signal(SIGPIPE, SIG_IGN); /* as main() does */
        return cmocka_run_group_tests(tests, NULL, NULL);
}
