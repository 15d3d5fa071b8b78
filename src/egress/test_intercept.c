/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS that ends in the proxy: a client that trusts the session's authority only, and a server that is verified by roots of its own. */
#include "egress/test_world.h"

#include "base/fd.h"
#include "egress/intercept.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static const uint16_t all_ports[][2] = {{1, 65535}};
static const char *const secret[][2] = {{"Authorization", "Bearer s3cret"}};
static const char *const some_methods[] = {"GET", "POST"}, *const reading[] = {"GET", "HEAD"};

static struct buffer session_pem, server_pem;
static struct authority *server_authority;
static struct egress_rule_source rule;
static uint16_t port;
static int server;

static int setup(void **state)
{
        gb_error err = {0};
        struct authority *a;

        rule = (struct egress_rule_source){
                .protocol = EGRESS_HTTPS, .intercept = true, .n_ports = 1, .ports = all_ports, .text = "a.test",
                .headers = secret, .n_headers = 1, .methods = some_methods, .n_methods = 2,
        };
        assert_int_equal(host_pattern_parse("a.test", 6, &rule.pattern), 0);
        buffer_init(&session_pem, 64 * KIB);
        buffer_init(&server_pem, 64 * KIB);
        assert_int_equal(intercept_init(), 0);
        assert_int_equal(authority_make(&session_pem, &err), 0);
        assert_int_equal(authority_make(&server_pem, &err), 0);
        assert_int_equal(authority_new(session_pem.data, session_pem.size, &a, &err), 0);
        assert_int_equal(authority_new(server_pem.data, server_pem.size, &server_authority, &err), 0);
        assert_int_equal(intercept_set_roots(server_pem.data, server_pem.size, &err), 0);
        world_open(&rule, 1, NULL, a);
        server = server_open(&port);
        return 0;
}

static int teardown(void **state)
{
        world_close();
        authority_free(server_authority);
        buffer_done(&session_pem);
        buffer_done(&server_pem);
        server = safe_close(server);
        return 0;
}

/* ---- somebody who speaks TLS, over memory that the test carries to a socket ---- */

struct speaker {
        SSL_CTX *context;
        SSL *ssl;
        int fd;
};

static void speaker_done(struct speaker *s)
{
        SSL_free(s->ssl);
        SSL_CTX_free(s->context);
        safe_close(s->fd);
        *s = (struct speaker){.fd = -1};
}
#define _cleanup_speaker_ _cleanup_(speaker_done)

static void speaker_start(struct speaker *s, int fd)
{
        s->fd = fd;
        s->ssl = SSL_new(s->context);
        assert_non_null(s->ssl);
        SSL_set_bio(s->ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
        BIO_set_mem_eof_return(SSL_get_rbio(s->ssl), -1);
}

/* Sends what it has to say, takes what came. False: the other side has ended. */
static bool carry(struct speaker *s)
{
        char bytes[16384];
        int n;
        ssize_t got;

        while ((n = BIO_read(SSL_get_wbio(s->ssl), bytes, sizeof(bytes))) > 0)
                say_bytes(s->fd, bytes, (size_t)n);
        world_turn();
        while ((got = recv(s->fd, bytes, sizeof(bytes), 0)) > 0)
                BIO_write(SSL_get_rbio(s->ssl), bytes, (int)got);
        return got < 0 && errno == EAGAIN;
}

/* Until op is done by both; other: NULL, or who must say something, too. 1, or what SSL_get_error() says. */
enum op { SHAKE, READ, WRITE };
static int speak(struct speaker *s, struct speaker *other, enum op op, void *bytes, size_t size, size_t *ret_done)
{
        uint64_t end = monotonic_usec() + 20000000;

        for (;;) {
                ERR_clear_error();
                int r = op == SHAKE ? SSL_do_handshake(s->ssl) : op == READ ? SSL_read_ex(s->ssl, bytes, size, ret_done) : SSL_write_ex(s->ssl, bytes, size, ret_done);
                int why = r == 1 ? 0 : SSL_get_error(s->ssl, r);
                bool open = carry(s);
                if (r == 1)
                        return 1;
                if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
                        return -why;
                if (other) {
                        if (!SSL_is_init_finished(other->ssl))
                                SSL_do_handshake(other->ssl);
                        carry(other);
                }
                if (!open && BIO_ctrl_pending(SSL_get_rbio(s->ssl)) == 0)
                        return -SSL_ERROR_ZERO_RETURN;
                if (monotonic_usec() > end)
                        fail_msg("TLS does not go on");
        }
}

static void tell(struct speaker *s, const char *text)
{
        size_t done;

        assert_int_equal(speak(s, NULL, WRITE, (void *)(uintptr_t)text, strlen(text), &done), 1);
        assert_int_equal(done, strlen(text));
}

static void told(struct speaker *s, const char *text)
{
        char heard[2048] = "";
        size_t size = strlen(text), have = 0, n;

        while (have < size) {
                assert_int_equal(speak(s, NULL, READ, heard + have, size - have, &n), 1);
                have += n;
                if (memcmp(heard, text, have) != 0)
                        fail_msg("heard:\n%s\nand not:\n%s", heard, text);
        }
}

static void told_part(struct speaker *s, char *heard, size_t size, const char *end)
{
        size_t have = 0, n;

        memset(heard, 0, size);
        while (!strstr(heard, end)) {
                assert_true(have < size - 1);
                assert_int_equal(speak(s, NULL, READ, heard + have, 1, &n), 1);
                have += n;
        }
}

/* ---- client and server ---- */

/* A client that has its tunnel; name: of the ClientHello, or NULL. early: both go in one. */
static void client_start(struct speaker *s, const char *name, const char *protocols, bool early)
{
        char connect_text[128];
        BIO *in = BIO_new_mem_buf(session_pem.data, (int)session_pem.size);
        X509 *root = PEM_read_bio_X509(in, NULL, NULL, NULL);

        BIO_free(in);
        s->context = SSL_CTX_new(TLS_client_method());
        X509_STORE_add_cert(SSL_CTX_get_cert_store(s->context), root);
        X509_free(root);
        SSL_CTX_set_verify(s->context, SSL_VERIFY_PEER, NULL);
        speaker_start(s, client_open());
        SSL_set_connect_state(s->ssl);
        if (name)
                SSL_set_tlsext_host_name(s->ssl, name);
        SSL_set1_host(s->ssl, "a.test");
        if (protocols)
                assert_int_equal(SSL_set_alpn_protos(s->ssl, (const unsigned char *)protocols, (unsigned)strlen(protocols)), 0);
        snprintf(connect_text, sizeof(connect_text), "CONNECT a.test:%u HTTP/1.1\r\nHost: a.test:%u\r\n\r\n", port, port);
        if (early) {
                char hello[4096];
                size_t size = strlen(connect_text);
                memcpy(hello, connect_text, size);
                SSL_do_handshake(s->ssl);
                int n = BIO_read(SSL_get_wbio(s->ssl), hello + size, (int)(sizeof(hello) - size));
                assert_true(n > 0);
                say_bytes(s->fd, hello, size + (size_t)n);
        } else {
                say(s->fd, connect_text);
        }
        hear(s->fd, "HTTP/1.1 200 Connection established\r\n\r\n");
}

static void server_start(struct speaker *s, struct authority *a, const char *name)
{
        struct host host;
        X509 *x;
        EVP_PKEY *key;

        assert_int_equal(host_parse(name, strlen(name), &host), 0);
        assert_int_equal(authority_leaf(a, &host, &x, &key), 0);
        s->context = SSL_CTX_new(TLS_server_method());
        SSL_CTX_use_certificate(s->context, x);
        SSL_CTX_use_PrivateKey(s->context, key);
        speaker_start(s, server_accept(server));
        SSL_set_accept_state(s->ssl);
}

static void test_requests_pass(void **state)
{
        static char big[1 << 20], got[1 << 20];
        char text[256];

        for (int early = 0; early < 2; early++) {
                _cleanup_speaker_ struct speaker client = {.fd = -1}, upstream = {.fd = -1};
                client_start(&client, "a.test", "\x02h2\x08http/1.1", early);
                server_start(&upstream, server_authority, "a.test");
                assert_int_equal(speak(&client, &upstream, SHAKE, NULL, 0, NULL), 1);
                const unsigned char *protocol;
                unsigned size;
                SSL_get0_alpn_selected(client.ssl, &protocol, &size);
                assert_int_equal(size, 8);
                assert_memory_equal(protocol, "http/1.1", 8);
                assert_int_equal(speak(&upstream, &client, SHAKE, NULL, 0, NULL), 1);
                assert_string_equal(SSL_get_servername(upstream.ssl, TLSEXT_NAMETYPE_host_name), "a.test");
                for (int i = 0; i < 2; i++) {
                        snprintf(text, sizeof(text), "GET /x HTTP/1.1\r\nHost: a.test:%u\r\nAuthorization: mine\r\nAccept: b\r\n\r\n", port);
                        tell(&client, text);
                        snprintf(text, sizeof(text), "GET /x HTTP/1.1\r\nHost: a.test:%u\r\nAccept: b\r\nAuthorization: Bearer s3cret\r\n\r\n", port);
                        told(&upstream, text);
                        tell(&upstream, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
                        told(&client, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
                }
                /* What does not fit into buffers at once, and ends in the middle of a record. */
                snprintf(text, sizeof(text), "GET /big HTTP/1.1\r\nHost: a.test:%u\r\n\r\n", port);
                tell(&client, text);
                told_part(&upstream, got, sizeof(got), "\r\n\r\n");
                tell(&upstream, "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n");
                for (size_t i = 0; i < sizeof(big); i++)
                        big[i] = (char)(i * 7919 >> 8);
                size_t done, have = 0;
                assert_int_equal(speak(&upstream, NULL, WRITE, big, sizeof(big), &done), 1);
                told(&client, "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n");
                while (have < sizeof(got)) {
                        assert_int_equal(speak(&client, &upstream, READ, got + have, sizeof(got) - have, &done), 1);
                        have += done;
                }
                assert_memory_equal(big, got, sizeof(big));
        }
        assert_int_equal(world_requests("a.test", EGRESS_ALLOWED), 8);
}

static void refused(const char *name, const char *protocols, enum egress_decision d)
{
        _cleanup_speaker_ struct speaker client = {.fd = -1};

        client_start(&client, name, protocols, false);
        const char *host = name ? name : "a.test"; /* whom it wanted */
        uint64_t before = world_requests(host, d);
        assert_true(speak(&client, NULL, SHAKE, NULL, 0, NULL) < 0);
        if (d != EGRESS_ALLOWED)
                assert_int_equal(world_requests(host, d), before + 1);
}

static void test_the_name_must_be_that_of_the_tunnel(void **state)
{
        refused("b.test", NULL, EGRESS_NO_SNI);
        refused("a.test.evil.test", NULL, EGRESS_NO_SNI);
        refused(NULL, NULL, EGRESS_NO_SNI);
        refused("a.test", "\x02h2", EGRESS_ALLOWED);
}

static void test_bytes_that_are_no_tls(void **state)
{
        char text[128];
        _cleanup_buffer_ struct buffer rest = {0};
        _cleanup_close_ int client = client_open();

        snprintf(text, sizeof(text), "CONNECT a.test:%u HTTP/1.1\r\nHost: a.test:%u\r\n\r\n", port, port);
        say(client, text);
        hear(client, "HTTP/1.1 200 Connection established\r\n\r\n");
        say(client, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        hear_rest(client, &rest);
        assert_true(rest.size < 16); /* an alert */
        assert_int_equal(world_requests("a.test", EGRESS_NO_TLS), 1);
}

struct unsent {
        const char *text, *status;
};

static void check_unsent(const struct unsent *rows, size_t n);

/* Requests inside are judged and read like those outside. */
static void test_requests_that_do_not_pass(void **state)
{
        static const struct unsent rows[] = {
                {"DELETE / HTTP/1.1\r\nHost: a.test:%u\r\n\r\n", "HTTP/1.1 403 "},
                {"GET / HTTP/1.1\r\nHost: b.test:%u\r\n\r\n", "HTTP/1.1 400 "},
                {"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", "HTTP/1.1 400 "},
                {"GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 400 "},
                {"GET https://a.test/ HTTP/1.1\r\nHost: a.test:%u\r\n\r\n", "HTTP/1.1 400 "},
                {"GET /%zz HTTP/1.1\r\nHost: a.test:%u\r\n\r\n", "HTTP/1.1 400 "},
                {"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:%u\r\n\r\n", "HTTP/1.1 400 "},
                {"GET / HTTP/1.1\r\nHost: a.test:%u\r\nUpgrade: websocket\r\n\r\n", "HTTP/1.1 403 "},
        };

        check_unsent(rows, ARRAY_SIZE(rows));
}

static void test_a_rule_that_reads_takes_no_body(void **state)
{
        static const struct unsent rows[] = {
                {"GET / HTTP/1.1\r\nHost: a.test:%u\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 403 "},
                {"HEAD / HTTP/1.1\r\nHost: a.test:%u\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 403 "},
                {"GET / HTTP/1.1\r\nHost: a.test:%u\r\nContent-Length: 3000000\r\nExpect: 100-continue\r\n\r\n", "HTTP/1.1 403 "},
                {"GET / HTTP/1.1\r\nHost: a.test:%u\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "HTTP/1.1 403 "},
        };

        rule.methods = reading;
        world_change(&rule, 1);
        check_unsent(rows, ARRAY_SIZE(rows));
        assert_int_equal(world_requests("a.test", EGRESS_NO_BODY), ARRAY_SIZE(rows));
}

/* The client is answered, and nothing of its request gets to the upstream. */
static void check_unsent(const struct unsent *rows, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                _cleanup_speaker_ struct speaker client = {.fd = -1}, upstream = {.fd = -1};
                char text[256], format[256];
                client_start(&client, "a.test", NULL, false);
                server_start(&upstream, server_authority, "a.test");
                assert_int_equal(speak(&client, &upstream, SHAKE, NULL, 0, NULL), 1);
                snprintf(format, sizeof(format), "%s", rows[i].text);
                char *at = strstr(format, "%u");
                if (at)
                        *at = '\0';
                snprintf(text, sizeof(text), "%s", format);
                if (at)
                        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%u%s", port, at + 2);
                tell(&client, text);
                told(&client, rows[i].status);
                /* It has spoken TLS with us at most: not a byte of a request. */
                char byte;
                for (int turn = 0; turn < 20 && carry(&upstream); turn++)
                        assert_true(SSL_read(upstream.ssl, &byte, 1) <= 0);
        }
}

/* ---- upstreams that are not who they should be ---- */

static void check_not_trusted(struct authority *a, const char *name)
{
        _cleanup_speaker_ struct speaker client = {.fd = -1}, first = {.fd = -1}, second = {.fd = -1};
        char text[256], heard[2048];

        client_start(&client, "a.test", NULL, false);
        server_start(&first, a, name);
        assert_int_equal(speak(&client, &first, SHAKE, NULL, 0, NULL), 1);
        while (speak(&first, &client, SHAKE, NULL, 0, NULL) == 1 && carry(&first))
                ;
        snprintf(text, sizeof(text), "GET /x HTTP/1.1\r\nHost: a.test:%u\r\n\r\n", port);
        tell(&client, text);
        server_start(&second, a, name);
        while (speak(&second, &client, SHAKE, NULL, 0, NULL) == 1 && carry(&second))
                ;
        told_part(&client, heard, sizeof(heard), "\r\n\r\n");
        assert_memory_equal(heard, "HTTP/1.1 502 ", strlen("HTTP/1.1 502 "));
        told_part(&client, heard, sizeof(heard), "\n");
        if (!strstr(heard, "its certificate is not trusted"))
                fail_msg("%s", heard);
}

static void test_upstreams_are_verified(void **state)
{
        gb_error err = {0};
        struct authority *session;

        check_not_trusted(server_authority, "b.test");
        assert_int_equal(authority_new(session_pem.data, session_pem.size, &session, &err), 0);
        check_not_trusted(session, "a.test"); /* what a box trusts is no root of ours */
        authority_free(session);
}

static void test_roots(void **state)
{
        gb_error err = {0};

        assert_true(intercept_set_roots("", 0, &err) < 0);
        assert_true(intercept_set_roots("nothing", 7, &err) < 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_requests_pass),
                TEST(test_the_name_must_be_that_of_the_tunnel),
                TEST(test_bytes_that_are_no_tls),
                TEST(test_requests_that_do_not_pass),
                TEST(test_a_rule_that_reads_takes_no_body),
                TEST(test_upstreams_are_verified),
                TEST(test_roots),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
