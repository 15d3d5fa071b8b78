/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests through the proxy, one by one: a real client, a real upstream, and what each of them gets to see. */
#include "egress/test_requests.h"

#include "base/fd.h"

#include <string.h>
#include <sys/socket.h>

/* What a client says, what the upstream hears and says, and what the client hears. */
static const struct {
        const char *client, *upstream, *answer, *heard;
        bool closes; /* the connection to the client, behind it; otherwise it goes on */
        bool ends;   /* the upstream's, behind its answer */
} passing[] = {
        {"GET http://a.test:@/x?y=1 HTTP/1.1\r\nHost: a.test:@\r\nAccept: */*\r\n\r\n", "GET /x?y=1 HTTP/1.1\r\nHost: a.test:@\r\nAccept: */*\r\n\r\n", OK, OK},
        {"GET http://A.TEST.:@ HTTP/1.1\r\nHost: a.test:@\r\n\r\n", "GET / HTTP/1.1\r\nHost: a.test:@\r\n\r\n", OK, OK},
        /* Fields between neighbours, and what Connection names, go no further. */
        {"GET http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nProxy-Authorization: Basic eA==\r\nProxy-Connection: keep-alive\r\n"
         "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\n"
         "Keep-Alive: 5\r\nX-Stays: 2\r\n\r\n",
         "GET / HTTP/1.1\r\nHost: a.test:@\r\nX-Stays: 2\r\n\r\n",
         "HTTP/1.1 200 Fine\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\nProxy-Authenticate: x\r\nSet-Cookie: a\r\n"
         "Set-Cookie: b\r\nContent-Length: 0\r\n\r\n",
         "HTTP/1.1 200 Fine\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 0\r\n\r\n"},
        /* Credentials: the rule's, whatever the client says, and in whatever spelling. */
        {"GET http://b.test:@/ HTTP/1.1\r\nHost: b.test:@\r\nauthorization: mine\r\nX-API-key: mine\r\nX_Api_Key: mine\r\n\r\n",
         "GET / HTTP/1.1\r\nHost: b.test:@\r\nAuthorization: Bearer s3cret\r\nX-Api-Key: k3y\r\n\r\n", OK, OK},
        {"GET http://b.test:@/ HTTP/1.1\r\nHost: b.test:@\r\nConnection: Authorization\r\n\r\n",
         "GET / HTTP/1.1\r\nHost: b.test:@\r\nAuthorization: Bearer s3cret\r\nX-Api-Key: k3y\r\n\r\n", OK, OK},
        {"GET http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nAuthorization: mine\r\n\r\n",
         "GET / HTTP/1.1\r\nHost: a.test:@\r\nAuthorization: mine\r\n\r\n", OK, OK},
        /* Bodies: the length is said anew. */
        {"POST http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 0005\r\n\r\nhello",
         "POST / HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 5\r\n\r\nhello", OK, OK},
        {"POST http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nTransfer-Encoding: chunked\r\n\r\n005\r\nhello\r\n0\r\n\r\n",
         "POST / HTTP/1.1\r\nHost: a.test:@\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", OK, OK},
        {"GET http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\n\r\n", "GET / HTTP/1.1\r\nHost: a.test:@\r\n\r\n",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n02\r\nhi\r\n0\r\nX: y\r\n\r\n",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"},
        {"GET http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\n\r\n", "GET / HTTP/1.1\r\nHost: a.test:@\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nhi",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", .ends = true},
        {"GET http://a.test:@/ HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nHost: a.test:@\r\nConnection: close\r\n\r\n",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
         "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhi", .closes = true},
        {"GET http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nConnection: close\r\n\r\n", "GET / HTTP/1.1\r\nHost: a.test:@\r\nConnection: close\r\n\r\n", OK,
         "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi", .closes = true},
        /* Answers without a body */
        {"HEAD http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\n\r\n", "HEAD / HTTP/1.1\r\nHost: a.test:@\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 700\r\n\r\n",
         "HTTP/1.1 200 OK\r\nContent-Length: 700\r\n\r\n"},
        {"HEAD http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\n\r\n", "HEAD / HTTP/1.1\r\nHost: a.test:@\r\n\r\n",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"},
        {"GET http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\n\r\n", "GET / HTTP/1.1\r\nHost: a.test:@\r\n\r\n",
         "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n"},
        {"GET http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\n\r\n", "GET / HTTP/1.1\r\nHost: a.test:@\r\n\r\n", "HTTP/1.1 304 Same\r\nContent-Length: 5\r\n\r\n",
         "HTTP/1.1 304 Same\r\nContent-Length: 5\r\n\r\n"},
        /* 100 for who waits for it, other 1xx for nobody */
        {"POST http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\nx",
         "POST / HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\nx",
         "HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Go\r\n\r\n" OK,
         "HTTP/1.1 100 Continue\r\n\r\n" OK},
        {"GET http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\n\r\n", "GET / HTTP/1.1\r\nHost: a.test:@\r\n\r\n",
         "HTTP/1.1 100 Go\r\n\r\nHTTP/1.1 102 Wait\r\n\r\n" OK, OK},
        /* Redirects are the client's to follow. */
        {"GET http://b.test:@/ HTTP/1.1\r\nHost: b.test:@\r\n\r\n", "GET / HTTP/1.1\r\nHost: b.test:@\r\nAuthorization: Bearer s3cret\r\nX-Api-Key: k3y\r\n\r\n",
         "HTTP/1.1 302 Found\r\nLocation: http://a.test:@/\r\nContent-Length: 0\r\n\r\n",
         "HTTP/1.1 302 Found\r\nLocation: http://a.test:@/\r\nContent-Length: 0\r\n\r\n"},
        /* Bodies of GET pass where something may be written; where a rule only reads, a length of 0 is no body. */
        {"GET http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 2\r\n\r\nhi",
         "GET / HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 2\r\n\r\nhi", OK, OK},
        {"GET http://b.test:@/ HTTP/1.1\r\nHost: b.test:@\r\nContent-Length: 2\r\n\r\nhi",
         "GET / HTTP/1.1\r\nHost: b.test:@\r\nAuthorization: Bearer s3cret\r\nX-Api-Key: k3y\r\nContent-Length: 2\r\n\r\nhi", OK, OK},
        {"GET http://e.test:@/ HTTP/1.1\r\nHost: e.test:@\r\nContent-Length: 0\r\n\r\n",
         "GET / HTTP/1.1\r\nHost: e.test:@\r\nContent-Length: 0\r\n\r\n", OK, OK},
        {"HEAD http://e.test:@/ HTTP/1.1\r\nHost: e.test:@\r\nContent-Length: 00\r\n\r\n",
         "HEAD / HTTP/1.1\r\nHost: e.test:@\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"},
        {"GET http://c.test:@/ok/../ok/x HTTP/1.1\r\nHost: c.test:@\r\n\r\nX", NULL, NULL, "HTTP/1.1 403 Forbidden\r\n"},
};

static void test_passing(void **state)
{
        for (size_t i = 0; i < ARRAY_SIZE(passing); i++) {
                _cleanup_close_ int client = client_open();
                say_filled(client, passing[i].client);
                if (!passing[i].upstream) {
                        hear_filled(client, passing[i].heard);
                        continue;
                }
                _cleanup_close_ int upstream = server_accept(server);
                hear_filled(upstream, passing[i].upstream);
                say_filled(upstream, passing[i].answer);
                if (passing[i].ends)
                        upstream = safe_close(upstream);
                hear_filled(client, passing[i].heard);
                if (passing[i].closes) {
                        hear_end(client);
                        continue;
                }
                /* It goes on: with the same upstream, or a new one. */
                say_filled(client, "GET http://a.test:@/again HTTP/1.1\r\nHost: a.test:@\r\n\r\n");
                bool is_kept = !passing[i].ends && strstr(passing[i].client, "a.test");
                if (!is_kept) {
                        safe_close(upstream);
                        upstream = server_accept(server);
                }
                hear_filled(upstream, "GET /again HTTP/1.1\r\nHost: a.test:@\r\n\r\n");
                say(upstream, OK);
                hear(client, OK);
        }
}

/* Requests that go nowhere. */
static const struct {
        const char *client;
        int status;
        const char *word;
        bool stays; /* the connection does */
        bool ends;  /* the bytes behind the head are no request, so no other one is tried */
} refused[] = {
        {"GET http://d.test:@/ HTTP/1.1\r\nHost: d.test:@\r\n\r\n", 403, "no-rule", true},
        {"POST http://d.test:@/ HTTP/1.1\r\nHost: d.test:@\r\nContent-Length: 5\r\n\r\nhello", 403, "no-rule", true},
        {"POST http://d.test:@/ HTTP/1.1\r\nHost: d.test:@\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 403, "no-rule", true},
        {"POST http://d.test:@/ HTTP/1.1\r\nHost: d.test:@\r\nContent-Length: 70000\r\n\r\nhello", 403, "no-rule", false},
        {"POST http://d.test:@/ HTTP/1.1\r\nHost: d.test:@\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n", 403, "no-rule", false},
        {"DELETE http://b.test:@/ HTTP/1.1\r\nHost: b.test:@\r\n\r\n", 403, "method", true},
        {"GET http://c.test:@/no HTTP/1.1\r\nHost: c.test:@\r\n\r\n", 403, "path", true},
        {"GET http://c.test:@/ok/%2e%2e/no HTTP/1.1\r\nHost: c.test:@\r\n\r\n", 403, "path", true},
        {"TRACE http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\n\r\n", 403, "method", true},
        {"GET http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 403, "protocol", true},
        {"GET http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n"
         "", 403, "protocol", true},
        /* Bodies where a rule only reads, however their length is given. */
        {"GET http://e.test:@/ HTTP/1.1\r\nHost: e.test:@\r\nContent-Length: 5\r\n\r\nhello", 403, "body", true},
        {"GET http://e.test:@/ HTTP/1.1\r\nHost: e.test:@\r\nContent-Length: 70000\r\n\r\nhello", 403, "body", false},
        {"GET http://e.test:@/ HTTP/1.1\r\nHost: e.test:@\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n", 403, "body", false},
        {"GET http://e.test:@/ HTTP/1.1\r\nHost: e.test:@\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 403, "body", true},
        {"GET http://e.test:@/ HTTP/1.1\r\nHost: e.test:@\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 403, "body", true},
        {"GET http://e.test:@/ HTTP/1.1\r\nHost: e.test:@\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\nX: hello\r\n\r\n", 403, "body", true,
         .ends = true},
        {"GET http://e.test:@/ HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello", 403, "body", false},
        {"POST http://e.test:@/ HTTP/1.1\r\nHost: e.test:@\r\nContent-Length: 5\r\n\r\nhello", 403, "method", true},
        {"GET http://e.test:@/ HTTP/1.1\r\nHost: e.test:@\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello", 403, "protocol", true, .ends = true},
        {"GET http://e.test:@/ HTTP/1.1\r\nHost: e.test:@\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\nhello", 400, "malformed", false},
        {"GET http://e.test:@/ HTTP/1.1\r\nHost: e.test:@\r\nContent-Length: 0, 5\r\n\r\nhello", 400, "malformed", false},
        {"GET http://e.test:@/ HTTP/1.1\r\nHost: e.test:@\r\nContent-Length: -5\r\n\r\nhello", 400, "malformed", false},
        {"GET http://e.test:@/ HTTP/1.1\r\nHost: e.test:@\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 400, "malformed",
         false},
        /* What cannot be understood */
        {"GET http://a.test:@/ HTTP/1.1\r\nHost: b.test:@\r\n\r\n", 400, "malformed", false},
        {"GET http://a.test:@/ HTTP/1.1\r\nHost: a.test:&\r\n\r\n", 400, "malformed", false},
        {"GET http://a.test:@/ HTTP/1.1\r\nHost: a.test\r\n\r\n", 400, "malformed", false},
        {"GET http://a.test:@/ HTTP/1.1\r\nHost: a.test:@ b.test\r\n\r\n", 400, "malformed", false},
        {"GET http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nHost: b.test:@\r\n\r\n", 400, "malformed", false},
        {"GET http://a.test:@/ HTTP/1.1\r\n\r\n", 400, "malformed", false},
        {"GET https://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\n\r\n", 400, "malformed", false},
        {"GET ftp://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\n\r\n", 400, "malformed", false},
        {"GET http://u:p:x HTTP/1.1\r\nHost: a.test:@\r\n\r\n", 400, "malformed", false},
        {"GET / HTTP/1.1\r\nHost: a.test:@\r\n\r\n", 400, "malformed", false},
        {"GET a.test:@ HTTP/1.1\r\nHost: a.test:@\r\n\r\n", 400, "malformed", false},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "malformed", false},
        {"GET http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nExpect: something\r\n\r\n", 417, "malformed", false},
        {"POST http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nTransfer-Encoding: gzip\r\n\r\n", 400, "malformed", false},
        {"POST http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400, "malformed", false},
        {"POST http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400, "malformed", false},
        {"GET http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nX: a\r\n b\r\n\r\n", 400, "malformed", false},
        {"GET http://a.test:@/ HTTP/1.1\nHost: a.test:@\n\n", 400, "malformed", false},
};

static void test_refused(void **state)
{
        for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
                _cleanup_close_ int client = client_open();
                say_filled(client, refused[i].client);
                hear_refusal(client, refused[i].status, refused[i].word, refused[i].stays);
                assert_true(server_is_alone(server));
                if (!refused[i].stays)
                        hear_end(client);
                if (!refused[i].stays || refused[i].ends)
                        continue;
                say_filled(client, "GET http://a.test:@/again HTTP/1.1\r\nHost: a.test:@\r\n\r\n");
                _cleanup_close_ int upstream = server_accept(server);
                hear_filled(upstream, "GET /again HTTP/1.1\r\nHost: a.test:@\r\n\r\n");
        }
        assert_true(world_requests("d.test", EGRESS_NO_RULE) > 0);
        assert_int_equal(world_requests("e.test", EGRESS_NO_BODY), 7);
        assert_true(world_requests("a.test", EGRESS_MALFORMED) > 0);
        assert_true(world_requests("a.test", EGRESS_NO_PROTOCOL) > 0);
}

/* Answers that never reach a client. */
static const char *const bad_answers[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nX: a\r\n folded\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/1.1 100 a\r\n\r\nHTTP/1.1 100 a\r\n\r\nHTTP/1.1 100 a\r\n\r\nHTTP/1.1 100 a\r\n\r\nHTTP/1.1 100 a\r\n\r\nHTTP/1.1 100 a\r\n\r\n"
         "HTTP/1.1 100 a\r\n\r\nHTTP/1.1 100 a\r\n\r\n"
        "HTTP/1.1 100 a\r\n\r\n" OK,
        "", /* closes */
        "HTTP/1.1 200 OK\r\nContent-Le",
};

static void test_bad_answers(void **state)
{
        for (size_t i = 0; i < ARRAY_SIZE(bad_answers); i++) {
                _cleanup_close_ int client = client_open();
                say_filled(client, "GET http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\n\r\n");
                _cleanup_close_ int upstream = server_accept(server);
                hear_filled(upstream, "GET / HTTP/1.1\r\nHost: a.test:@\r\n\r\n");
                say(upstream, bad_answers[i]);
                shutdown(upstream, SHUT_WR);
                hear_refusal(client, 502, "unreached", true);
                hear_end(upstream);
        }
}

static void test_a_head_without_end(void **state)
{
        _cleanup_close_ int client = client_open();
        char field[1024];

        say_filled(client, "GET http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\n\r\n");
        _cleanup_close_ int upstream = server_accept(server);
        say(upstream, "HTTP/1.1 200 OK\r\nX: ");
        memset(field, 'a', sizeof(field));
        for (int i = 0; i < 70; i++)
                if (send(upstream, field, sizeof(field), MSG_NOSIGNAL) < 0)
                        break;
                else
                        world_turn();
        hear_refusal(client, 502, "unreached", true);
}

/* Truncated and smuggled bodies: the client can tell that they are not whole. */
static void test_bad_bodies(void **state)
{
        static const struct {
                const char *answer, *heard;
        } rows[] = {
                {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi"},
                {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n"},
                {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n2;x\r\nho\r\n0\r\n\r\n",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n"},
                {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n+2\r\nho\r\n0\r\n\r\n",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_close_ int client = client_open();
                say_filled(client, "GET http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\n\r\n");
                _cleanup_close_ int upstream = server_accept(server);
                say(upstream, rows[i].answer);
                shutdown(upstream, SHUT_WR);
                hear(client, rows[i].heard);
                hear_end(client);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_passing),
                TEST(test_refused),
                TEST(test_bad_answers),
                TEST(test_a_head_without_end),
                TEST(test_bad_bodies),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
