/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests and answers over real sockets: what a client sees. */
#include "base/buffer.h"
#include "base/fd.h"
#include "server/loop.h"
#include "server/test_fixture.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#define HOST "Host: localhost\r\n"

static int setup(void **state)
{
        static struct fixture f;

        fixture_init(&f);
        fixture_start(&f);
        *state = &f;
        return 0;
}

static int teardown(void **state)
{
        fixture_stop(*state);
        return 0;
}

static void test_answer(void **state)
{
        _cleanup_answer_ struct answer a = ask(*state, "GET /echo/w%C3%A9?x=a+b%26&n=7 HTTP/1.1\r\n" HOST "\r\n");

        assert_int_equal(a.status, 200);
        assert_string_equal(a.body, "{\"word\":\"w\xc3\xa9\",\"x\":\"a b&\",\"n\":7,\"tenant\":\"local\",\"scopes\":15,\"local\":true}");
        assert_non_null(strstr(a.head, "\r\nContent-Type: application/json\r\n"));
        assert_non_null(strstr(a.head, "\r\nX-Content-Type-Options: nosniff\r\n"));
        assert_non_null(strstr(a.head, "\r\nCache-Control: no-store\r\n"));
        assert_non_null(strstr(a.head, "\r\nServer: glovebox\r\n"));
        assert_non_null(strstr(a.head, "\r\nX-Word: w\xc3\xa9\r\n"));
        assert_null(strstr(a.head, "Access-Control"));
        assert_null(strstr(a.head, "Connection:"));
}

static void test_keep_alive(void **state)
{
        _cleanup_close_ int fd = fixture_connect(*state);

        for (int i = 0; i < 200; i++) {
                say(fd, i % 3 ? "GET /echo/a HTTP/1.1\r\n" HOST "\r\n" : i % 2 ? "GET /open HTTP/1.1\r\n" HOST "\r\n" : "GET /none HTTP/1.1\r\n" HOST "\r\n");
                _cleanup_answer_ struct answer a = hear(fd);
                assert_int_equal(a.status, i % 3 || i % 2 ? 200 : 404);
        }
        say(fd, "GET /echo/a HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
        _cleanup_answer_ struct answer a = hear(fd);
        assert_int_equal(a.status, 200);
        assert_non_null(strstr(a.head, "\r\nConnection: close\r\n"));
        assert_true(is_closed(fd));
}

/* Answers come in the order of the requests, whatever kind they are of. */
static void test_pipeline(void **state)
{
        _cleanup_close_ int fd = fixture_connect(*state);
        _cleanup_buffer_ struct buffer text = {0};

        buffer_init(&text, 1 << 20);
        for (int i = 0; i < 500; i++) {
                buffer_printf(&text, "GET /echo/w%d HTTP/1.1\r\n" HOST "\r\n", i);
                if (i % 7 == 0)
                        buffer_add_string(&text, "GET /open HTTP/1.1\r\n" HOST "\r\n");
                if (i % 11 == 0)
                        buffer_add_string(&text, "POST /json HTTP/1.1\r\n" HOST "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n");
        }
        say_bytes(fd, text.data, text.size);
        for (int i = 0; i < 500; i++) {
                char expected[64];
                _cleanup_answer_ struct answer a = hear(fd);
                snprintf(expected, sizeof(expected), "{\"word\":\"w%d\",", i);
                assert_int_equal(a.status, 200);
                assert_memory_equal(a.body, expected, strlen(expected));
                if (i % 7 == 0) {
                        _cleanup_answer_ struct answer b = hear(fd);
                        assert_string_equal(b.body, "{\"status\":\"ok\"}");
                }
                if (i % 11 == 0) {
                        _cleanup_answer_ struct answer b = hear(fd);
                        assert_string_equal(b.body, "{\"a\":1}");
                }
        }
}

static void test_byte_by_byte(void **state)
{
        static const char text[] = "POST /json HTTP/1.1\r\n" HOST "Content-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\":1}";
        _cleanup_close_ int fd = fixture_connect_tcp(*state);

        for (size_t i = 0; i < strlen(text); i++)
                say_bytes(fd, text + i, 1);
        _cleanup_answer_ struct answer a = hear(fd);
        assert_int_equal(a.status, 200);
}

static void test_half_closed_client_is_answered(void **state)
{
        _cleanup_close_ int fd = fixture_connect_tcp(*state);

        say(fd, "GET /echo/a HTTP/1.1\r\n" HOST "\r\nGET /echo/b HTTP/1.1\r\n" HOST "\r\nGET /ec");
        shutdown(fd, SHUT_WR);
        _cleanup_answer_ struct answer a = hear(fd), b = hear(fd);
        assert_int_equal(a.status, 200);
        assert_int_equal(b.status, 200);
        assert_true(is_closed(fd));
}

static void test_old_http(void **state)
{
        _cleanup_close_ int fd = fixture_connect(*state);

        say(fd, "GET /large?size=50000&chunked=true HTTP/1.0\r\n\r\n");
        _cleanup_answer_ struct answer a = hear(fd);
        assert_int_equal(a.status, 200);
        assert_int_equal(a.body_size, 50000);
        assert_null(strstr(a.head, "chunked"));
}

static void test_head(void **state)
{
        _cleanup_close_ int fd = fixture_connect(*state);
        static const char *const targets[] = {"/echo/a", "/large?size=1000000", "/large?size=100&chunked=true", "/none", "/stream", "/open"};

        for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
                char text[256], head[4096] = "";
                size_t n = 0;
                snprintf(text, sizeof(text), "HEAD %s HTTP/1.1\r\n" HOST "Accept: text/event-stream\r\n\r\n", targets[i]);
                say(fd, text);
                while (n < 4 || memcmp(head + n - 4, "\r\n\r\n", 4) != 0)
                        assert_int_equal(recv(fd, head + n++, 1, 0), 1);
        }
        say(fd, "GET /echo/last HTTP/1.1\r\n" HOST "\r\n");
        _cleanup_answer_ struct answer a = hear(fd);
        assert_int_equal(a.status, 200);
        assert_non_null(strstr(a.body, "last"));
}

static void check_status(void **state, const char *text, int status, const char *code, bool closed)
{
        _cleanup_close_ int fd = fixture_connect(*state);

        say(fd, text);
        _cleanup_answer_ struct answer a = hear(fd);
        if (a.status != status)
                print_error("%s\n gives %s%s\n", text, a.head, a.body);
        assert_int_equal(a.status, status);
        assert_true(a.whole);
        if (code) {
                char expected[64];
                snprintf(expected, sizeof(expected), "{\"error\":{\"code\":\"%s\",", code);
                assert_memory_equal(a.body, expected, strlen(expected));
        }
        if (closed) {
                assert_non_null(strstr(a.head, "\r\nConnection: close\r\n"));
                assert_true(is_closed(fd));
                return;
        }
        say(fd, "GET /echo/after HTTP/1.1\r\n" HOST "\r\n");
        _cleanup_answer_ struct answer b = hear(fd);
        if (b.status != 200)
                print_error("%s\n gives %s%s\nand then %s%s\n", text, a.head, a.body, b.head, b.body);
        assert_int_equal(b.status, 200);
}

static void test_refused(void **state)
{
        check_status(state, "GET /none HTTP/1.1\r\n" HOST "\r\n", 404, "not_found", false);
        check_status(state, "GET /echo HTTP/1.1\r\n" HOST "\r\n", 404, "not_found", false);
        check_status(state, "GET /echo/ HTTP/1.1\r\n" HOST "\r\n", 404, "not_found", false);
        check_status(state, "GET /echo/a/b HTTP/1.1\r\n" HOST "\r\n", 404, "not_found", false);
        check_status(state, "GET /echo/%zz HTTP/1.1\r\n" HOST "\r\n", 400, "usage", false);
        check_status(state, "GET /echo/%00 HTTP/1.1\r\n" HOST "\r\n", 400, "usage", false);
        check_status(state, "GET /echo/a?x=%f HTTP/1.1\r\n" HOST "\r\n", 400, "usage", false);
        check_status(state, "GET /echo/a?y=1 HTTP/1.1\r\n" HOST "\r\n", 400, "usage", false);
        check_status(state, "GET /echo/a?x=1&x=1 HTTP/1.1\r\n" HOST "\r\n", 400, "usage", false);
        check_status(state, "GET /echo/a?n=11 HTTP/1.1\r\n" HOST "\r\n", 400, "usage", false);
        check_status(state, "BREW /echo/a HTTP/1.1\r\n" HOST "\r\n", 405, "method", false);
        check_status(state, "GET /stream HTTP/1.1\r\n" HOST "Accept: image/png\r\n\r\n", 406, "media", false);
        check_status(state, "GET /nothing HTTP/1.1\r\n" HOST "\r\n", 500, "internal", false);
        check_status(state, "GET /none HTTP/1.1\r\n" HOST "Authorization: Bearer x\r\n\r\n", 401, "unauthorized", false);
        check_status(state, "GET /none HTTP/1.1\r\n" HOST "Authorization: Basic x\r\n\r\n", 401, "unauthorized", false);
        check_status(state, "POST /none HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello", 404, "not_found", true);
        check_status(state, "PUT /bytes/a HTTP/1.1\r\n" HOST "Content-Length: 8388609\r\n\r\nhello", 413, "too_large", true);
        check_status(state, "POST /json HTTP/1.1\r\n" HOST "Content-Length: 33554433\r\n\r\n", 413, "too_large", true);
        check_status(state, "PUT /bytes/a HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n7fffff\r\n", 413, "too_large", true);
        check_status(state, "PUT /bytes/a HTTP/1.1\r\n" HOST "Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello", 415, "media", true);
        check_status(state, "GET / HTTP/1.1\nHost: a\n\n", 400, "protocol", true);
        check_status(state, "GET /a HTTP/1.1\r\n" HOST "X : y\r\n\r\n", 400, "protocol", true);
        check_status(state, "GET /a HTTP/3.0\r\n" HOST "\r\n", 505, "protocol", true);
        check_status(state, "GET /a HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "protocol", true);
}

static void test_allow(void **state)
{
        _cleanup_answer_ struct answer a = ask(*state, "GET /bytes/a/b HTTP/1.1\r\n" HOST "\r\n");

        assert_int_equal(a.status, 405);
        assert_non_null(strstr(a.head, "\r\nAllow: PUT, DELETE\r\n"));
}

/* Nobody takes a part for the whole. */
static void test_cut(void **state)
{
        _cleanup_answer_ struct answer a = ask(*state, "GET /large?size=50000&cut=true HTTP/1.1\r\n" HOST "\r\n"),
                                       b = ask(*state, "GET /large?size=50000&cut=true&chunked=true HTTP/1.1\r\n" HOST "\r\n"),
                                       c = ask(*state, "GET /some HTTP/1.1\r\n" HOST "\r\n");

        assert_int_equal(a.status, 200);
        assert_false(a.whole);
        assert_int_equal(b.status, 200);
        assert_false(b.whole);
        assert_false(c.whole);
}

static void test_streams(void **state)
{
        static const char object[] = "\"data\":\"a\\n\\nevent: fake\\r\\ndata: x\xe2\x80\xa8y\"}";
        char sse[1024] = "", ndjson[1024] = "";

        for (int i = 0; i < 3; i++) {
                size_t n = strlen(sse), m = strlen(ndjson);
                snprintf(sse + n, sizeof(sse) - n, "id: %d\nevent: stdout\ndata: {\"seq\":%d,%s\n\n", i, i, object);
                snprintf(ndjson + m, sizeof(ndjson) - m, "{\"seq\":%d,%s\n", i, object);
        }
        strcat(sse, ": ping\n\n");
        strcat(ndjson, "{\"event\":\"ping\"}\n");
        _cleanup_answer_ struct answer a = ask(*state, "GET /stream HTTP/1.1\r\n" HOST "Accept: text/html, text/event-stream;q=0.5, application/json\r\n\r\n"),
                                       b = ask(*state, "GET /stream HTTP/1.1\r\n" HOST "Accept: application/x-ndjson\r\n\r\n"),
                                       c = ask(*state, "GET /stream HTTP/1.1\r\n" HOST "Accept: */*\r\n\r\n");
        assert_non_null(strstr(a.head, "\r\nContent-Type: text/event-stream\r\n"));
        assert_string_equal(a.body, sse);
        assert_true(a.whole);
        assert_non_null(strstr(b.head, "\r\nContent-Type: application/x-ndjson\r\n"));
        assert_string_equal(b.body, ndjson);
        assert_string_equal(c.body, "{}");
}

/* The first of the client's types that we write. */
static void test_accept(void **state)
{
        static const struct {
                const char *accept, *type;
        } rows[] = {
                {"*/*", "application/json"}, {"", "application/json"}, {"application/*", "application/json"}, {"text/html, */*;q=0.1", "application/json"},
                {"text/event-stream;q=0, application/x-ndjson", "application/x-ndjson"}, {"text/event-stream ; q=0.000, */*", "application/json"},
                {"text/event-stream; a=b; q=0 , application/x-ndjson; q=0.001", "application/x-ndjson"}, {"TEXT/Event-Stream;q=0.0001", "text/event-stream"},
                {"text/event-stream;q=1", "text/event-stream"}, {"text/event-streams, application/x-ndjson", "application/x-ndjson"}, {",, application/json", "application/json"},
                {"text/html\r\nAccept: application/x-ndjson", "application/x-ndjson"}, {"text/html;q=0", NULL}, {"text/*", NULL}, {"*/*;q=0", NULL},
        };
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                char text[512], expected[128];
                snprintf(text, sizeof(text), "GET /stream HTTP/1.1\r\n" HOST "Accept: %s\r\n\r\n", rows[i].accept);
                _cleanup_answer_ struct answer a = ask(*state, text);
                snprintf(expected, sizeof(expected), "\r\nContent-Type: %s\r\n", rows[i].type ? rows[i].type : "application/json");
                if (a.status != (rows[i].type ? 200 : 406) || !strstr(a.head, expected))
                        print_error("%s gives %s\n", rows[i].accept, a.head);
                assert_int_equal(a.status, rows[i].type ? 200 : 406);
                assert_non_null(strstr(a.head, expected));
        }
}

static void test_large_answers(void **state)
{
        _cleanup_close_ int fd = fixture_connect_tcp(*state);

        for (int i = 0; i < 4; i++) {
                char text[128];
                size_t size = (size_t)i * 3000001;
                snprintf(text, sizeof(text), "GET /large?size=%zu&chunked=%s HTTP/1.1\r\n" HOST "\r\n", size, i % 2 ? "true" : "false");
                say(fd, text);
                _cleanup_answer_ struct answer a = hear(fd);
                assert_int_equal(a.status, 200);
                assert_true(a.whole);
                assert_int_equal(a.body_size, size);
        }
}

/* ---- bodies ---- */

static void test_bodies(void **state)
{
        _cleanup_close_ int fd = fixture_connect_tcp(*state);
        static const size_t sizes[] = {0, 1, 65535, BODY_MEMORY_MAX, BODY_MEMORY_MAX + 1, 5000000, 8 * MIB};

        for (size_t i = 0; i < 2 * ARRAY_SIZE(sizes); i++) {
                size_t size = sizes[i / 2];
                bool chunked = i % 2;
                _cleanup_buffer_ struct buffer text = {0};
                char expected[128];
                buffer_init(&text, 1 << 24);
                buffer_printf(&text, "PUT /bytes/a%%2Fb/c HTTP/1.1\r\n" HOST);
                if (chunked)
                        buffer_add_string(&text, "Transfer-Encoding: chunked\r\n\r\n");
                else
                        buffer_printf(&text, "Content-Length: %zu\r\n\r\n", size);
                for (size_t left = size; left > 0;) {
                        static const char block[7777] = {0};
                        size_t n = MIN(left, sizeof(block));
                        if (chunked)
                                buffer_printf(&text, "%zX\r\n", n);
                        for (size_t k = 0; k < n; k++)
                                buffer_add(&text, "\x03", 1);
                        if (chunked)
                                buffer_add_string(&text, "\r\n");
                        left -= n;
                }
                if (chunked)
                        buffer_add_string(&text, "0\r\n\r\n");
                say_bytes(fd, text.data, text.size);
                _cleanup_answer_ struct answer a = hear(fd);
                assert_int_equal(a.status, 201);
                snprintf(expected, sizeof(expected), "{\"path\":\"a/b/c\",\"size\":%zu,\"sum\":%zu,\"file\":%s}", size, 3 * size, size > BODY_MEMORY_MAX ? "true" : "false");
                assert_string_equal(a.body, expected);
        }
}

static void test_continue(void **state)
{
        _cleanup_close_ int fd = fixture_connect(*state);

        say(fd, "PUT /bytes/a HTTP/1.1\r\n" HOST "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n");
        _cleanup_answer_ struct answer a = hear(fd);
        assert_int_equal(a.status, 100);
        say(fd, "hello");
        _cleanup_answer_ struct answer b = hear(fd);
        assert_int_equal(b.status, 201);
        /* Who would be refused is refused before the body. */
        say(fd, "PUT /bytes/a HTTP/1.1\r\n" HOST "Content-Length: 500000000\r\nExpect: 100-continue\r\n\r\n");
        _cleanup_answer_ struct answer c = hear(fd);
        assert_int_equal(c.status, 413);
        assert_true(is_closed(fd));
}

/* Who sends a body that is refused, and reads only then, gets the answer all the same. */
static void test_refused_body_is_answered(void **state)
{
        _cleanup_close_ int fd = fixture_connect_tcp(*state);
        static char block[1 << 20];

        say(fd, "POST /none HTTP/1.1\r\n" HOST "Content-Length: 2097152\r\n\r\n");
        say_bytes(fd, block, sizeof(block));
        say_bytes(fd, block, sizeof(block));
        _cleanup_answer_ struct answer a = hear(fd);
        assert_int_equal(a.status, 404);
}

/* ---- clients that go away, stall, and come in numbers ---- */

static void test_gone(void **state)
{
        const struct fixture *f = *state;

        for (int tcp = 0; tcp < 2; tcp++) {
                int fd = tcp ? fixture_connect_tcp(f) : fixture_connect(f);
                unsigned before = fixture_gone;
                say(fd, "GET /wait HTTP/1.1\r\n" HOST "\r\n");
                assert_true(reaches(&fixture_waiting, 1));
                close(fd);
                assert_true(reaches(&fixture_gone, before + 1));
        }
        _cleanup_close_ int fd = fixture_connect(f);
        say(fd, "GET /wait HTTP/1.1\r\n" HOST "\r\n");
        assert_true(reaches(&fixture_waiting, 1));
        fixture_release();
        _cleanup_answer_ struct answer a = hear(fd);
        assert_string_equal(a.body, "{\"gone\":false}");
}

/* A flood behind a request that is worked on is left in the socket. */
static void test_flood_while_working(void **state)
{
        _cleanup_close_ int fd = fixture_connect(*state);
        static char block[1 << 16];
        ssize_t n, sent = 0;

        say(fd, "GET /wait HTTP/1.1\r\n" HOST "\r\n");
        assert_true(reaches(&fixture_waiting, 1));
        memset(block, 'A', sizeof(block));
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        while (poll(&p, 1, 1000) == 1 && (n = send(fd, block, sizeof(block), MSG_DONTWAIT | MSG_NOSIGNAL)) > 0)
                sent += n;
        assert_true(sent < 4 << 20);
        fixture_release();
        _cleanup_answer_ struct answer a = hear(fd), b = hear(fd);
        assert_int_equal(a.status, 200);
        assert_int_equal(b.status, 400);
}

static void test_full_pool(void **state)
{
        const struct fixture *f = *state;
        int fds[8 + WORKERS_QUEUE_MAX + 1];
        size_t n = 8 + 40; /* some wait */

        for (size_t i = 0; i < n; i++) {
                fds[i] = fixture_connect(f);
                say(fds[i], "GET /wait HTTP/1.1\r\n" HOST "\r\n");
        }
        assert_true(reaches(&fixture_waiting, 8));
        /* The loop itself answers, and those that waited too long are told. */
        _cleanup_answer_ struct answer open = ask(f, "GET /open HTTP/1.1\r\n" HOST "\r\n");
        assert_int_equal(open.status, 200);
        size_t refused = 0;
        for (size_t i = 0; i < 200 * n && refused < 40; i++) {
                struct pollfd p = {.fd = fds[i % n], .events = POLLIN};
                if (poll(&p, 1, 10) != 1)
                        continue;
                _cleanup_answer_ struct answer a = hear(fds[i % n]);
                assert_int_equal(a.status, 503);
                assert_non_null(strstr(a.head, "\r\nRetry-After: "));
                refused++;
        }
        assert_int_equal(refused, 40);
        for (size_t i = 0; i < n; i++)
                close(fds[i]);
        assert_true(reaches(&fixture_gone, 8));
}

static void test_drain(void **state)
{
        struct fixture *f = *state;
        _cleanup_close_ int idle = fixture_connect(f), busy = fixture_connect(f), fresh = fixture_connect(f);

        say(idle, "GET /open HTTP/1.1\r\n" HOST "\r\n");
        _cleanup_answer_ struct answer first = hear(idle);
        assert_int_equal(first.status, 200);
        say(busy, "GET /wait HTTP/1.1\r\n" HOST "\r\n");
        assert_true(reaches(&fixture_waiting, 1));
        f->server.state = SERVER_DRAINING;
        loop_drain(f->server.loop);
        assert_true(is_closed(idle));
        /* Who has just come is answered. */
        say(fresh, "GET /echo/a HTTP/1.1\r\n" HOST "\r\n");
        _cleanup_answer_ struct answer late = hear(fresh);
        assert_int_equal(late.status, 200);
        _cleanup_answer_ struct answer a = ask(f, "POST /json HTTP/1.1\r\n" HOST "\r\n"), b = ask(f, "GET /echo/a HTTP/1.1\r\n" HOST "\r\n");
        assert_int_equal(a.status, 503);
        assert_non_null(strstr(a.head, "\r\nRetry-After: "));
        assert_int_equal(b.status, 200);
        assert_non_null(strstr(b.head, "\r\nConnection: close\r\n"));
        fixture_release();
        _cleanup_answer_ struct answer c = hear(busy);
        assert_int_equal(c.status, 200);
        assert_true(is_closed(busy));
}

/* What is worked on when the loop stops is told, and its answer is still sent. */
static void test_stop(void **state)
{
        struct fixture *f = *state;
        _cleanup_close_ int fd = fixture_connect(f);

        say(fd, "GET /wait HTTP/1.1\r\n" HOST "\r\n");
        assert_true(reaches(&fixture_waiting, 1));
        loop_stop(f->server.loop);
        _cleanup_answer_ struct answer a = hear(fd);
        assert_string_equal(a.body, "{\"gone\":true}");
        assert_true(is_closed(fd));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_answer), TEST(test_keep_alive), TEST(test_pipeline), TEST(test_byte_by_byte), TEST(test_half_closed_client_is_answered), TEST(test_old_http),
                TEST(test_head), TEST(test_refused), TEST(test_allow), TEST(test_cut), TEST(test_streams), TEST(test_accept), TEST(test_large_answers), TEST(test_bodies), TEST(test_continue),
                TEST(test_refused_body_is_answered), TEST(test_gone), TEST(test_flood_while_working), TEST(test_full_pool), TEST(test_drain), TEST(test_stop),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
