/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests through the proxy: a real client, a real upstream, and what each of them gets to see. */
#include "egress/test_world.h"

#include "base/fd.h"
#include "egress/forward.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint16_t all_ports[][2] = {{1, 65535}};
static const char *const some_methods[] = {"GET", "HEAD", "POST"}, *const some_paths[] = {"/ok/"};
static const char *const secret[][2] = {{"Authorization", "Bearer s3cret"}, {"X-Api-Key", "k3y"}};

static struct egress_rule_source rules[3];
static uint16_t port, other_port;
static int server, other_server;

static void make_rule(struct egress_rule_source *r, const char *host)
{
        *r = (struct egress_rule_source){.protocol = EGRESS_HTTP, .n_ports = 1, .ports = all_ports, .text = host};
        assert_int_equal(host_pattern_parse(host, strlen(host), &r->pattern), 0);
}

static int setup(void **state)
{
        make_rule(&rules[0], "a.test");
        make_rule(&rules[1], "b.test");
        rules[1].methods = some_methods;
        rules[1].n_methods = ARRAY_SIZE(some_methods);
        rules[1].headers = secret;
        rules[1].n_headers = ARRAY_SIZE(secret);
        make_rule(&rules[2], "c.test");
        rules[2].paths = some_paths;
        rules[2].n_paths = ARRAY_SIZE(some_paths);
        world_open(rules, ARRAY_SIZE(rules), NULL, NULL);
        server = server_open(&port);
        other_server = server_open(&other_port);
        return 0;
}

static int teardown(void **state)
{
        world_close();
        server = safe_close(server);
        other_server = safe_close(other_server);
        return 0;
}

/* Texts in which @ is the port of the server, and & that of the other one. */
static char *fill(const char *text)
{
        _cleanup_buffer_ struct buffer b = {0};

        buffer_init(&b, 1 << 20);
        buffer_add_string(&b, "");
        for (; *text; text++) {
                if (*text == '@' || *text == '&')
                        buffer_printf(&b, "%u", *text == '@' ? port : other_port);
                else
                        buffer_add(&b, text, 1);
        }
        return TAKE_PTR(b.data);
}

static void say_filled(int fd, const char *text)
{
        _cleanup_free_ char *filled = fill(text);
        say(fd, filled);
}

static void hear_filled(int fd, const char *text)
{
        _cleanup_free_ char *filled = fill(text);
        hear(fd, filled);
}

#define OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

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

/* An answer of ours: all of it. */
static void hear_refusal(int client, int status, const char *word, bool stays)
{
        _cleanup_buffer_ struct buffer head = {0};
        char text[64];

        hear_head(client, &head);
        snprintf(text, sizeof(text), "HTTP/1.1 %d ", status);
        if (strncmp(head.data, text, strlen(text)) != 0)
                fail_msg("not %d: %s", status, head.data);
        snprintf(text, sizeof(text), "\r\nGlovebox-Denied: %s\r\n", word);
        if (!strstr(head.data, text))
                fail_msg("not %s: %s", word, head.data);
        assert_non_null(strstr(head.data, "\r\nContent-Type: text/plain; charset=utf-8\r\n"));
        assert_int_equal(strstr(head.data, "\r\nConnection: close\r\n") == NULL, stays);
        size_t length = strtoul(strstr(head.data, "Content-Length: ") + strlen("Content-Length: "), NULL, 10);
        _cleanup_free_ char *body = calloc(1, length + 1);
        for (size_t i = 0; i < length; i++)
                while (recv(client, body + i, 1, 0) < 0)
                        world_turn();
        assert_memory_equal(body, "glovebox: ", strlen("glovebox: "));
        assert_int_equal(body[length - 1], '\n');
}

static void test_refused(void **state)
{
        for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
                _cleanup_close_ int client = client_open();
                say_filled(client, refused[i].client);
                hear_refusal(client, refused[i].status, refused[i].word, refused[i].stays);
                assert_true(server_is_alone(server));
                if (!refused[i].stays) {
                        hear_end(client);
                        continue;
                }
                say_filled(client, "GET http://a.test:@/again HTTP/1.1\r\nHost: a.test:@\r\n\r\n");
                _cleanup_close_ int upstream = server_accept(server);
                hear_filled(upstream, "GET /again HTTP/1.1\r\nHost: a.test:@\r\n\r\n");
        }
        assert_true(world_requests("d.test", EGRESS_NO_RULE) > 0);
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

/* ---- more than one request ---- */

#define GET_A "GET http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\n\r\n"
#define GOT_A "GET / HTTP/1.1\r\nHost: a.test:@\r\n\r\n"

/* Each is judged, whatever the connection was used for. */
static void test_keep_alive_is_no_pass(void **state)
{
        _cleanup_close_ int client = client_open();

        say_filled(client, GET_A);
        _cleanup_close_ int upstream = server_accept(server);
        hear_filled(upstream, GOT_A);
        say(upstream, OK);
        hear(client, OK);
        say_filled(client, "GET http://d.test:@/ HTTP/1.1\r\nHost: d.test:@\r\n\r\n");
        hear_refusal(client, 403, "no-rule", true);
        hear_end(upstream); /* it was for another host: nobody keeps it */
        say_filled(client, "GET http://a.test:@/ HTTP/1.1\r\nHost: d.test:@\r\n\r\n");
        hear_refusal(client, 400, "malformed", false);
        hear_end(client);
        assert_true(server_is_alone(server));
        assert_int_equal(world_requests("a.test", EGRESS_ALLOWED), 1);
        assert_int_equal(world_requests("d.test", EGRESS_NO_RULE), 1);
}

static void test_another_host_is_another_connection(void **state)
{
        _cleanup_close_ int client = client_open();

        say_filled(client, GET_A);
        _cleanup_close_ int first = server_accept(server);
        hear_filled(first, GOT_A);
        say(first, OK);
        hear(client, OK);
        say_filled(client, "GET http://b.test:&/ HTTP/1.1\r\nHost: b.test:&\r\n\r\n");
        _cleanup_close_ int second = server_accept(other_server);
        hear_end(first);
        hear_filled(second, "GET / HTTP/1.1\r\nHost: b.test:&\r\nAuthorization: Bearer s3cret\r\nX-Api-Key: k3y\r\n\r\n");
        say(second, OK);
        hear(client, OK);
        /* The same address, but not the same host: no credentials. */
        say_filled(client, "GET http://a.test:&/ HTTP/1.1\r\nHost: a.test:&\r\n\r\n");
        _cleanup_close_ int third = server_accept(other_server);
        hear_end(second);
        hear_filled(third, "GET / HTTP/1.1\r\nHost: a.test:&\r\n\r\n");
}

static void test_pipelining(void **state)
{
        _cleanup_close_ int client = client_open();

        say_filled(client, GET_A "POST http://a.test:@/2 HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 3\r\n\r\nabc"
                                 "GET http://d.test:@/3 HTTP/1.1\r\nHost: d.test:@\r\n\r\n" GET_A);
        _cleanup_close_ int upstream = server_accept(server);
        hear_filled(upstream, GOT_A);
        hear_nothing(upstream); /* the second waits for the answer to the first */
        say(upstream, OK);
        hear(client, OK);
        hear_filled(upstream, "POST /2 HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 3\r\n\r\nabc");
        say(upstream, OK);
        hear(client, OK);
        hear_refusal(client, 403, "no-rule", true);
        _cleanup_close_ int next = server_accept(server);
        hear_filled(next, GOT_A);
        say(next, OK);
        hear(client, OK);
}

static void test_connect_comes_first_or_not_at_all(void **state)
{
        _cleanup_close_ int client = client_open();

        say_filled(client, GET_A);
        _cleanup_close_ int upstream = server_accept(server);
        hear_filled(upstream, GOT_A);
        say(upstream, OK);
        hear(client, OK);
        say_filled(client, "CONNECT a.test:@ HTTP/1.1\r\nHost: a.test:@\r\n\r\n");
        hear_refusal(client, 400, "malformed", false);
        hear_end(client);
}

/* What an upstream says without having been asked answers nothing. */
static void test_answers_to_nothing(void **state)
{
        _cleanup_close_ int client = client_open();

        say_filled(client, GET_A);
        _cleanup_close_ int first = server_accept(server);
        hear_filled(first, GOT_A);
        say(first, OK "HTTP/1.1 200 Smuggled\r\nContent-Length: 0\r\n\r\n");
        hear(client, OK);
        hear_end(first);
        say_filled(client, GET_A);
        _cleanup_close_ int second = server_accept(server);
        hear_filled(second, GOT_A);
        say(second, OK);
        hear(client, OK);
        say(second, "HTTP/1.1 200 Later\r\nContent-Length: 0\r\n\r\n");
        hear_end(second);
        say_filled(client, GET_A);
        _cleanup_close_ int third = server_accept(server);
        hear_filled(third, GOT_A);
        say(third, OK);
        hear(client, OK);
}

/* An upstream that closes a connection just when the next request comes has not read it. */
static void test_a_kept_connection_that_closes(void **state)
{
        _cleanup_close_ int client = client_open();

        say_filled(client, GET_A);
        _cleanup_close_ int first = server_accept(server);
        hear_filled(first, GOT_A);
        say(first, OK);
        hear(client, OK);
        say_filled(client, GET_A);
        hear_filled(first, GOT_A);
        first = safe_close(first);
        _cleanup_close_ int second = server_accept(server);
        hear_filled(second, GOT_A);
        say(second, OK);
        hear(client, OK);
}

/* ---- streams ---- */

/* What nobody reads is not read: the proxy keeps little of it. */
static void test_a_client_that_does_not_read(void **state)
{
        static char piece[64 * 1024];
        _cleanup_close_ int client = client_open();
        size_t sent = 0;

        say_filled(client, GET_A);
        _cleanup_close_ int upstream = server_accept(server);
        hear_filled(upstream, GOT_A);
        say(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n");
        for (int idle = 0; idle < 200;) {
                ssize_t n = sent < 67108864 ? send(upstream, piece, MIN(sizeof(piece), 67108864 - sent), MSG_NOSIGNAL) : -1;
                idle = n > 0 ? 0 : idle + 1;
                sent += n > 0 ? (size_t)n : 0;
                world_turn();
        }
        assert_true(sent < 32 << 20); /* the buffers of two sockets, and our own */
        struct connection *c = LIST_FIRST(&world_box()->connections);
        assert_true(evbuffer_get_length(bufferevent_get_output(c->client)) <= 256 * KIB);
        assert_true(evbuffer_get_length(bufferevent_get_input(c->forward->up.events)) <= 256 * KIB);
        /* And when it reads, all of it comes. */
        static char got[256 * 1024];
        size_t have = 0;
        hear(client, "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n");
        while (have < 67108864) {
                ssize_t n = recv(client, got, sizeof(got), 0);
                have += n > 0 ? (size_t)n : 0;
                assert_false(n == 0);
                if (sent < 67108864) {
                        n = send(upstream, piece, MIN(sizeof(piece), 67108864 - sent), MSG_NOSIGNAL);
                        sent += n > 0 ? (size_t)n : 0;
                }
                world_turn();
        }
        assert_int_equal(have, 67108864);
}

static void test_an_upstream_that_does_not_read(void **state)
{
        static char piece[64 * 1024];
        _cleanup_close_ int client = client_open();
        size_t sent = 0;

        say_filled(client, "POST http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 67108864\r\n\r\n");
        _cleanup_close_ int upstream = server_accept(server);
        for (int idle = 0; idle < 200;) {
                ssize_t n = sent < 67108864 ? send(client, piece, MIN(sizeof(piece), 67108864 - sent), MSG_NOSIGNAL) : -1;
                idle = n > 0 ? 0 : idle + 1;
                sent += n > 0 ? (size_t)n : 0;
                world_turn();
        }
        assert_true(sent < 32 << 20);
        struct connection *c = LIST_FIRST(&world_box()->connections);
        assert_true(evbuffer_get_length(bufferevent_get_output(c->forward->up.events)) <= 256 * KIB);
        assert_true(evbuffer_get_length(bufferevent_get_input(c->client)) <= 256 * KIB);
}

/* An answer before the end of the request: the rest of that is dropped, and the connection ends when it is long. */
static void test_an_early_answer(void **state)
{
        _cleanup_close_ int client = client_open();

        say_filled(client, "POST http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 10\r\n\r\nhello");
        _cleanup_close_ int upstream = server_accept(server);
        hear_filled(upstream, "POST / HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 10\r\n\r\nhello");
        say(upstream, "HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n");
        hear(client, "HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n");
        hear_end(upstream);
        say_filled(client, "world" GET_A);
        _cleanup_close_ int second = server_accept(server);
        hear_filled(second, GOT_A);
}

/* ---- budgets and rules ---- */

static void test_bytes_are_counted(void **state)
{
        _cleanup_close_ int client = client_open();
        _cleanup_free_ char *up = fill("POST / HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 5\r\n\r\nhello");

        say_filled(client, "POST http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nProxy-Authorization: long and dropped\r\nContent-Length: 5\r\n\r\nhello");
        _cleanup_close_ int upstream = server_accept(server);
        hear(upstream, up);
        say(upstream, OK);
        hear(client, OK);
        struct ledger_copy *l = ledger_read(world_box()->ledger);
        assert_int_equal(l->bytes_up, strlen(up));
        assert_int_equal(l->bytes_down, strlen(OK));
        assert_int_equal(l->requests, 1);
        free(l);
}

static void test_the_budget_of_bytes_ends_it(void **state)
{
        struct egress_rules budgets = {.bytes_max = 2000};
        _cleanup_buffer_ struct buffer rest = {0};
        char piece[1000];

        world_close();
        world_open(rules, ARRAY_SIZE(rules), &budgets, NULL);
        _cleanup_close_ int client = client_open();
        say_filled(client, GET_A);
        _cleanup_close_ int upstream = server_accept(server);
        hear_filled(upstream, GOT_A);
        say(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
        memset(piece, 'x', sizeof(piece));
        for (int i = 0; i < 100 && send(upstream, piece, sizeof(piece), MSG_NOSIGNAL) > 0; i++)
                world_turn();
        hear_rest(client, &rest);
        assert_true(rest.size < 100000);
        assert_int_equal(world_box()->ledger->cut, EGRESS_OVER_BYTES);
}

static void test_other_rules(void **state)
{
        _cleanup_close_ int client = client_open(), idle = client_open();

        say_filled(idle, GET_A);
        _cleanup_close_ int kept = server_accept(server);
        hear_filled(kept, GOT_A);
        say(kept, OK);
        hear(idle, OK);
        say_filled(client, GET_A);
        _cleanup_close_ int upstream = server_accept(server);
        hear_filled(upstream, GOT_A);
        /* Still allowed: what is under way goes on. */
        world_change(rules, ARRAY_SIZE(rules));
        say(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhi");
        hear(client, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhi");
        /* And now not: it is cut. */
        world_change(rules + 1, ARRAY_SIZE(rules) - 1);
        hear_end(client);
        hear_end(upstream);
        hear_end(kept);
        say_filled(idle, GET_A);
        hear_refusal(idle, 403, "no-rule", true);
}

/* ---- time ---- */

/* The time of the only connection is over, whatever it is waiting for. */
static void be_late(void)
{
        event_active(LIST_FIRST(&world_box()->connections)->forward->timer, EV_TIMEOUT, 0);
}

static void test_a_request_that_does_not_come(void **state)
{
        _cleanup_close_ int client = client_open(), silent = -1;

        say_filled(client, "GET http://a.test:@/ HTTP/1.1\r\nHost: a.te");
        be_late();
        hear_refusal(client, 408, "malformed", false);
        hear_end(client);
        client = safe_close(client);
        /* Between two requests nobody is told. */
        silent = client_open();
        say_filled(silent, "GET http://d.test:@/ HTTP/1.1\r\nHost: d.test:@\r\n\r\n");
        hear_refusal(silent, 403, "no-rule", true);
        be_late();
        hear_end(silent);
}

static void test_an_answer_that_does_not_come(void **state)
{
        static const char *const beginnings[] = {"", "HTTP/1.1 200 OK\r\nX:"};

        for (size_t i = 0; i < ARRAY_SIZE(beginnings); i++) {
                _cleanup_close_ int client = client_open();
                say_filled(client, GET_A);
                _cleanup_close_ int upstream = server_accept(server);
                hear_filled(upstream, GOT_A);
                say(upstream, beginnings[i]);
                be_late();
                hear_refusal(client, 504, "unreached", true);
                hear_end(upstream);
                client = safe_close(client);
                world_turn();
        }
        /* In the middle of it: the client sees that it is not whole. */
        _cleanup_close_ int client = client_open();
        say_filled(client, GET_A);
        _cleanup_close_ int upstream = server_accept(server);
        hear_filled(upstream, GOT_A);
        say(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi");
        hear(client, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi");
        be_late();
        hear_end(client);
        hear_end(upstream);
}

static void test_a_client_that_closes_its_side(void **state)
{
        _cleanup_close_ int client = client_open();

        say_filled(client, GET_A);
        shutdown(client, SHUT_WR);
        _cleanup_close_ int upstream = server_accept(server);
        hear_filled(upstream, GOT_A);
        say(upstream, OK);
        hear(client, OK);
        hear_end(client);
}

static void test_a_client_that_leaves(void **state)
{
        _cleanup_close_ int client = client_open();

        say_filled(client, "POST http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 10\r\n\r\nhello");
        _cleanup_close_ int upstream = server_accept(server);
        hear_filled(upstream, "POST / HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 10\r\n\r\nhello");
        client = safe_close(client);
        hear_end(upstream);
        assert_int_equal(world_box()->n_connections, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_passing),
                TEST(test_refused),
                TEST(test_bad_answers),
                TEST(test_a_head_without_end),
                TEST(test_bad_bodies),
                TEST(test_keep_alive_is_no_pass),
                TEST(test_another_host_is_another_connection),
                TEST(test_pipelining),
                TEST(test_connect_comes_first_or_not_at_all),
                TEST(test_answers_to_nothing),
                TEST(test_a_kept_connection_that_closes),
                TEST(test_a_client_that_does_not_read),
                TEST(test_an_upstream_that_does_not_read),
                TEST(test_an_early_answer),
                TEST(test_bytes_are_counted),
                TEST(test_the_budget_of_bytes_ends_it),
                TEST(test_other_rules),
                TEST(test_a_request_that_does_not_come),
                TEST(test_an_answer_that_does_not_come),
                TEST(test_a_client_that_closes_its_side),
                TEST(test_a_client_that_leaves),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
