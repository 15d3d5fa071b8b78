/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may ask: Host, Origin, tokens, scopes, and what is said to whom. */
#include "base/buffer.h"
#include "base/fd.h"
#include "server/loop.h"
#include "server/test_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define NAMED "tools.example.com"

static char all_token[TOKEN_TEXT_MAX], read_token[TOKEN_TEXT_MAX], revoked_token[TOKEN_TEXT_MAX];

static void make_token(struct tokens *t, const char *tenant, unsigned scopes, char text[static TOKEN_TEXT_MAX], struct token *ret)
{
        gb_error err = {0};

        *ret = (struct token){.scopes = scopes};
        snprintf(ret->tenant, sizeof(ret->tenant), "%s", tenant);
        assert_int_equal(tokens_create(t, ret, text, &err), 0);
}

static int setup(void **state)
{
        static struct fixture f;
        static char name[] = NAMED, proxied[] = "proxy.example.com:443", origin[] = "https://pages.example.com";
        gb_error err = {0};
        struct token token;

        fixture_init(&f);
        struct server_config *c = &f.server.config;
        c->tokens = true;
        c->hosts[c->n_hosts++] = name;
        c->hosts[c->n_hosts++] = proxied;
        c->origins[c->n_origins++] = origin;
        assert_int_equal(tokens_open(f.directory, true, &f.server.tokens, &err), 0);
        make_token(f.server.tokens, "acme", SCOPE_READ | SCOPE_RUN | SCOPE_METRICS | SCOPE_ADMIN, all_token, &token);
        make_token(f.server.tokens, "acme", SCOPE_READ, read_token, &token);
        make_token(f.server.tokens, "acme", SCOPE_READ, revoked_token, &token);
        assert_true(tokens_revoke(f.server.tokens, token.id, false, &err) >= 0);
        fixture_start(&f);
        *state = &f;
        return 0;
}

static int teardown(void **state)
{
        fixture_stop(*state);
        return 0;
}

/* A request over TCP: %p in a field is the port. */
static struct answer ask_tcp(const struct fixture *f, const char *target, const char *token, const char *fields)
{
        _cleanup_close_ int fd = fixture_connect_tcp(f);
        _cleanup_buffer_ struct buffer text = {0};

        buffer_init(&text, 65536);
        buffer_printf(&text, "GET %s HTTP/1.1\r\n", target);
        if (token)
                buffer_printf(&text, "Authorization: Bearer %s\r\n", token);
        for (const char *p = fields; *p; p++) {
                if (p[0] == '%' && p[1] == 'p') {
                        buffer_printf(&text, "%d", f->port);
                        p++;
                } else {
                        buffer_add(&text, p, 1);
                }
        }
        buffer_add_string(&text, "\r\n");
        say_bytes(fd, text.data, text.size);
        return hear(fd);
}

static void check(void **state, const char *target, const char *token, const char *fields, int status)
{
        _cleanup_answer_ struct answer a = ask_tcp(*state, target, token, fields);

        if (a.status != status)
                print_error("%s %s gives %s%s\n", target, fields, a.head, a.body);
        assert_int_equal(a.status, status);
}

static void test_host(void **state)
{
        static const char *const ours[] = {
                "localhost", "LOCALHOST:%p", "127.0.0.1", "127.0.0.1:%p", "[::1]", "[::1]:%p", NAMED, NAMED ":%p", "proxy.example.com:443", "proxy.example.com",
        };
        static const char *const foreign[] = {
                "evil.example.com", "localhost:1", "127.0.0.1:1", "127.0.0.2", "0.0.0.0", "[::2]", "localhost.evil.com", NAMED ".", NAMED ":443", "proxy.example.com:%p",
                "localhost:%p0",
        };
        char field[128];

        for (size_t i = 0; i < ARRAY_SIZE(ours); i++) {
                snprintf(field, sizeof(field), "Host: %s\r\n", ours[i]);
                check(state, "/echo/a", all_token, field, 200);
        }
        for (size_t i = 0; i < ARRAY_SIZE(foreign); i++) {
                snprintf(field, sizeof(field), "Host: %s\r\n", foreign[i]);
                _cleanup_answer_ struct answer a = ask_tcp(*state, "/open", all_token, field);
                assert_true(a.status == 403 || a.status == 400);
        }
        check(state, "/open", NULL, "Host:\r\n", 400);
        check(state, "/open", NULL, "Host: a/b\r\n", 400);
        check(state, "/open", NULL, "Host: evil.example.com\r\n", 403);
        check(state, "/none", NULL, "Host: evil.example.com\r\n", 403);
}

static void test_origin(void **state)
{
        check(state, "/echo/a", all_token, "Host: localhost:%p\r\nOrigin: http://localhost:%p\r\n", 200);
        check(state, "/echo/a", all_token, "Host: " NAMED "\r\nOrigin: http://" NAMED "\r\n", 200);
        check(state, "/echo/a", all_token, "Host: localhost:%p\r\nOrigin: https://localhost:%p\r\n", 403);
        check(state, "/echo/a", all_token, "Host: localhost:%p\r\nOrigin: http://localhost\r\n", 403);
        check(state, "/echo/a", all_token, "Host: localhost:%p\r\nOrigin: http://localhost:1\r\n", 403);
        check(state, "/echo/a", all_token, "Host: localhost:%p\r\nOrigin: http://127.0.0.1:%p\r\n", 403);
        check(state, "/echo/a", all_token, "Host: localhost:%p\r\nOrigin: http://evil.example.com\r\n", 403);
        check(state, "/open", NULL, "Host: localhost:%p\r\nOrigin: null\r\n", 403);
        check(state, "/open", NULL, "Host: localhost:%p\r\nOrigin:\r\n", 403);
        check(state, "/open", NULL, "Host: localhost:%p\r\nOrigin: https://pages.example.com.evil.com\r\n", 403);
        check(state, "/open", NULL, "Host: localhost:%p\r\nOrigin: https://PAGES.example.com\r\n", 403);

        _cleanup_answer_ struct answer a = ask_tcp(*state, "/echo/a", all_token, "Host: localhost:%p\r\nOrigin: https://pages.example.com\r\n");
        assert_int_equal(a.status, 200);
        assert_non_null(strstr(a.head, "\r\nAccess-Control-Allow-Origin: https://pages.example.com\r\n"));
        assert_non_null(strstr(a.head, "\r\nVary: Origin\r\n"));
        assert_null(strstr(a.head, "Credentials"));
        /* Errors, too: a page must be able to read why. */
        _cleanup_answer_ struct answer b = ask_tcp(*state, "/echo/a", NULL, "Host: localhost:%p\r\nOrigin: https://pages.example.com\r\n");
        assert_int_equal(b.status, 401);
        assert_non_null(strstr(b.head, "\r\nAccess-Control-Allow-Origin: https://pages.example.com\r\n"));
}

static void test_preflight(void **state)
{
        const struct fixture *f = *state;
        _cleanup_close_ int fd = fixture_connect_tcp(f);

        say(fd, "OPTIONS /json HTTP/1.1\r\nHost: localhost\r\nOrigin: https://pages.example.com\r\nAccess-Control-Request-Method: POST\r\n\r\n");
        _cleanup_answer_ struct answer a = hear(fd);
        assert_int_equal(a.status, 204);
        assert_non_null(strstr(a.head, "\r\nAccess-Control-Allow-Methods: "));
        assert_non_null(strstr(a.head, "\r\nAccess-Control-Allow-Origin: https://pages.example.com\r\n"));
        say(fd, "OPTIONS /json HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example.com\r\nAccess-Control-Request-Method: POST\r\n\r\n");
        _cleanup_answer_ struct answer b = hear(fd);
        assert_int_equal(b.status, 403);
        assert_null(strstr(b.head, "Access-Control"));
        /* No preflight: an address that has no such method, for who may know. */
        say(fd, "OPTIONS /json HTTP/1.1\r\nHost: localhost\r\n\r\n");
        _cleanup_answer_ struct answer c = hear(fd);
        assert_int_equal(c.status, 401);
}

static void test_tokens(void **state)
{
        char wrong[TOKEN_TEXT_MAX + 1], field[8192];

        check(state, "/echo/a", all_token, "Host: localhost\r\n", 200);
        check(state, "/admin", all_token, "Host: localhost\r\n", 200);
        check(state, "/echo/a", read_token, "Host: localhost\r\n", 200);
        check(state, "/admin", read_token, "Host: localhost\r\n", 403);
        check(state, "/open", "nonsense", "Host: localhost\r\n", 200);
        _cleanup_answer_ struct answer a = ask_tcp(*state, "/echo/a", read_token, "Host: localhost\r\n");
        assert_non_null(strstr(a.body, "\"tenant\":\"acme\",\"scopes\":1,\"local\":false"));

        snprintf(wrong, sizeof(wrong), "%s", all_token);
        wrong[strlen(wrong) - 1] = wrong[strlen(wrong) - 1] == 'A' ? 'B' : 'A';
        _cleanup_answer_ struct answer none = ask_tcp(*state, "/echo/a", NULL, "Host: localhost\r\n"), bad = ask_tcp(*state, "/echo/a", wrong, "Host: localhost\r\n"),
                                       revoked = ask_tcp(*state, "/echo/a", revoked_token, "Host: localhost\r\n"),
                                       unknown = ask_tcp(*state, "/none", "gbx_", "Host: localhost\r\n");
        assert_int_equal(none.status, 401);
        assert_non_null(strstr(none.head, "\r\nWWW-Authenticate: Bearer\r\n"));
        /* One wording for all. */
        assert_string_equal(bad.body, none.body);
        assert_string_equal(revoked.body, none.body);
        assert_string_equal(unknown.body, none.body);
        /* Not in the query, not in another scheme, not cut, not lengthened. */
        snprintf(field, sizeof(field), "/echo/a?token=%s&access_token=%s", all_token, all_token);
        check(state, field, NULL, "Host: localhost\r\n", 401);
        snprintf(field, sizeof(field), "Host: localhost\r\nAuthorization: Basic %s\r\n", all_token);
        check(state, "/echo/a", NULL, field, 401);
        snprintf(field, sizeof(field), "Host: localhost\r\nAuthorization: %s\r\n", all_token);
        check(state, "/echo/a", NULL, field, 401);
        snprintf(field, sizeof(field), "Host: localhost\r\nAuthorization: Bearer %s \r\n", all_token);
        check(state, "/echo/a", NULL, field, 200); /* blanks at the end are no part of a value */
        snprintf(field, sizeof(field), "Host: localhost\r\nAuthorization: Bearer %sA\r\n", all_token);
        check(state, "/echo/a", NULL, field, 401);
        snprintf(field, sizeof(field), "Host: localhost\r\nAuthorization: Bearer %.20s\r\n", all_token);
        check(state, "/echo/a", NULL, field, 401);
        char huge[7001];
        memset(huge, 'A', sizeof(huge) - 1);
        huge[sizeof(huge) - 1] = '\0';
        check(state, "/echo/a", huge, "Host: localhost\r\n", 401);
}

static void test_unix_socket(void **state)
{
        const struct fixture *f = *state;
        char text[512];

        _cleanup_answer_ struct answer a = ask(f, "GET /echo/a HTTP/1.1\r\nHost: anything.at.all\r\n\r\n"), b = ask(f, "GET /echo/a HTTP/1.1\r\nHost:\r\n\r\n");
        assert_non_null(strstr(a.body, "\"tenant\":\"local\",\"scopes\":15,\"local\":true"));
        assert_int_equal(b.status, 200);
        snprintf(text, sizeof(text), "GET /echo/a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n\r\n", read_token);
        _cleanup_answer_ struct answer c = ask(f, text);
        assert_non_null(strstr(c.body, "\"tenant\":\"acme\",\"scopes\":1,\"local\":false"));
        _cleanup_answer_ struct answer d = ask(f, "GET /echo/a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n\r\n"),
                                       e = ask(f, "GET /echo/a HTTP/1.1\r\nHost: a\r\nOrigin: http://evil.example.com\r\n\r\n");
        assert_int_equal(d.status, 401);
        assert_int_equal(e.status, 403);
}

/* Without a token nobody learns what there is: the same answer to everything, but for what is open. */
static void test_nothing_is_learnt(void **state)
{
        static const char *const targets[] = {"/echo/a", "/none", "/json", "/echo/%zz", "/bytes/x", "/admin", "/"};
        _cleanup_answer_ struct answer first = ask_tcp(*state, targets[0], NULL, "Host: localhost\r\n");

        for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
                _cleanup_answer_ struct answer a = ask_tcp(*state, targets[i], NULL, "Host: localhost\r\n");
                assert_int_equal(a.status, 401);
                assert_string_equal(a.head, first.head);
                assert_string_equal(a.body, first.body);
        }
}

static void test_failures_are_limited(void **state)
{
        for (int i = 0; i < AUTH_FAILURES_MAX; i++)
                check(state, "/echo/a", "wrong", "Host: localhost\r\n", 401);
        _cleanup_answer_ struct answer a = ask_tcp(*state, "/echo/a", "wrong", "Host: localhost\r\n");
        assert_int_equal(a.status, 429);
        assert_non_null(strstr(a.head, "\r\nRetry-After: "));
        check(state, "/echo/a", NULL, "Host: localhost\r\n", 429);
        /* A token that counts is taken all the same: nobody can lock a neighbour out. */
        check(state, "/echo/a", all_token, "Host: localhost\r\n", 200);
        check(state, "/open", NULL, "Host: localhost\r\n", 200);
}

/* A loopback server without tokens. */
static void test_without_tokens(void **state)
{
        struct fixture *f = *state;

        f->server.config.tokens = false;
        _cleanup_answer_ struct answer a = ask_tcp(f, "/echo/a", NULL, "Host: localhost\r\n");
        assert_non_null(strstr(a.body, "\"tenant\":\"local\",\"scopes\":15,\"local\":false"));
        check(state, "/echo/a", "wrong", "Host: localhost\r\n", 401);
        check(state, "/echo/a", NULL, "Host: localhost\r\nOrigin: null\r\n", 403);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_host), TEST(test_origin), TEST(test_preflight), TEST(test_tokens), TEST(test_unix_socket), TEST(test_nothing_is_learnt),
                TEST(test_failures_are_limited), TEST(test_without_tokens),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
