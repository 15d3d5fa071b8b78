/* SPDX-License-Identifier: Apache-2.0 */
#include "client/response.h"

#include "base/limits.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* All of the bytes in pieces of that size. 0, or the failure; *ret_taken: how many were taken. */
static int feed(struct response *r, struct buffer *body, const char *bytes, size_t size, size_t piece, size_t *ret_taken)
{
        size_t at = 0;

        response_init(r);
        buffer_init(body, MIB);
        while (at < size && r->stage != RESPONSE_DONE) {
                size_t end = MIN(at - at % piece + piece, size);
                long n = response_take(r, bytes + at, end - at, body);
                if (n < 0)
                        return (int)n;
                assert_true(n > 0);
                at += (size_t)n;
        }
        *ret_taken = at;
        return 0;
}

static void expect(const char *bytes, size_t size, int status, const char *content)
{
        for (size_t piece = 1; piece <= size; piece++) {
                struct response r;
                struct buffer body;
                size_t taken;

                assert_int_equal(feed(&r, &body, bytes, size, piece, &taken), 0);
                assert_int_equal(r.stage, RESPONSE_DONE);
                assert_int_equal(taken, size);
                assert_int_equal(r.status, status);
                assert_int_equal(body.size, strlen(content));
                assert_memory_equal(body.size > 0 ? body.data : "", content, body.size);
                response_done(&r);
                buffer_done(&body);
        }
}

static void refuse(const char *bytes, const char *why)
{
        size_t size = strlen(bytes);

        for (size_t piece = 1; piece <= size; piece++) {
                struct response r;
                struct buffer body;
                size_t taken;

                assert_int_equal(feed(&r, &body, bytes, size, piece, &taken), -EBADMSG);
                assert_non_null(r.why);
                if (!strstr(r.why, why))
                        fail_msg("%s: refused because %s, not because %s", bytes, r.why, why);
                response_done(&r);
                buffer_done(&body);
        }
}

#define EXPECT(text, status, content) expect(text, sizeof(text) - 1, status, content)

static void test_bodies(void **state)
{
        EXPECT("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello");
        EXPECT("HTTP/1.1 200 \r\ncontent-length:0\r\n\r\n", 200, "");
        EXPECT("HTTP/1.1 204 No Content\r\n\r\n", 204, "");
        EXPECT("HTTP/1.1 404 Not Found\r\nContent-Length:\t3 \r\nX: a b\tc\r\n\r\nabc", 404, "abc");
        EXPECT("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0006\r\n world\r\n0\r\n\r\n", 200, "hello world");
        EXPECT("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\na\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", 200,
               "01234567890123456789");
        EXPECT("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, "");
}

static void test_fields(void **state)
{
        static const char text[] = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 7\r\nContent-Type: application/json; charset=utf-8\r\n"
                                   "GLOVEBOX-RUN: 0123456789abcdef0123456789abcdef\r\nmcp-session-id: a~1!\r\nContent-Length: 0\r\n\r\n";
        struct response r;
        struct buffer body;
        size_t taken;

        assert_int_equal(feed(&r, &body, text, sizeof(text) - 1, sizeof(text), &taken), 0);
        assert_int_equal(r.status, 503);
        assert_true(r.closes);
        assert_int_equal(r.retry_after, 7);
        assert_string_equal(r.type, "application/json");
        assert_string_equal(r.run, "0123456789abcdef0123456789abcdef");
        assert_string_equal(r.session, "a~1!");
        response_done(&r);
        buffer_done(&body);
}

static void test_what_follows_is_left(void **state)
{
        static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n";
        struct response r;
        struct buffer body;
        size_t taken;

        assert_int_equal(feed(&r, &body, text, sizeof(text) - 1, sizeof(text), &taken), 0);
        assert_int_equal(taken, strstr(text, "okHTTP") + 2 - text);
        response_done(&r);
        buffer_done(&body);
}

#define OK "HTTP/1.1 200 OK\r\n"

static void test_heads_that_are_none(void **state)
{
        refuse("HTTP/1.0 200 OK\r\n\r\n", "not HTTP/1.1");
        refuse("\r\n\r\n", "not HTTP/1.1");
        refuse("SSH-2.0-OpenSSH\r\n\r\n", "not HTTP/1.1");
        refuse("HTTP/1.1 20 OK\r\n\r\n", "no status");
        refuse("HTTP/1.1 2000 OK\r\n\r\n", "no status");
        refuse("HTTP/1.1 100 Continue\r\n\r\n", "none of an answer");
        refuse("HTTP/1.1 999 Odd\r\n\r\n", "none of an answer");
        refuse(OK "No colon\r\n\r\n", "no field");
        refuse(OK ": empty\r\n\r\n", "no field");
        refuse(OK "Name : x\r\n\r\n", "no field");
        refuse(OK "A: b\r\n folded\r\n\r\n", "no field");
        refuse(OK "A: b\nC: d\r\n\r\n", "control character");
        refuse(OK "A: b\rC: d\r\n\r\n", "control character");
        refuse("\n" OK "\r\n", "control character");
        refuse(OK "A: \x01\r\n\r\n", "control character");
        refuse(OK "Glovebox-Run: ../../etc/passwd\r\n\r\n", "id of its run");
        refuse(OK "Mcp-Session-Id: \r\n\r\n", "id of its session");
        refuse(OK "Mcp-Session-Id: a b\r\n\r\n", "id of its session");
        refuse(OK "Mcp-Session-Id: \xc3\xa4\r\n\r\n", "id of its session");
}

static void test_lengths_that_are_none(void **state)
{
        refuse(OK "\r\n", "length is not there");
        refuse(OK "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", "twice");
        refuse(OK "Content-Length: -5\r\n\r\n", "no number");
        refuse(OK "Content-Length: 5, 5\r\n\r\n", "no number");
        refuse(OK "Content-Length: 0x5\r\n\r\n", "no number");
        refuse(OK "Content-Length: 99999999999999999999\r\n\r\n", "no number");
        refuse(OK "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "two lengths");
        refuse(OK "Transfer-Encoding: gzip, chunked\r\n\r\n", "transfer encoding");
        refuse(OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "transfer encoding");
        refuse("HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\n", "body where there is none");
}

static void test_chunks_that_are_none(void **state)
{
        static const char *const wrong[][2] = {
                {"x\r\n", "no number"},     {"\r\n", "no number"},        {"5;name=value\r\n", "no number"}, {"-1\r\n", "no number"},
                {" 5\r\n", "no number"},    {"5\n", "no number"},         {"5\rx", "where it should"},       {"2\r\nabc", "where it should"},
                {"2\r\nab\n", "where it"},  {"2\r\nab\rx", "where it"},   {"0\r\nTrailer: x\r\n\r\n", "where it"},
                {"ffffffffffffffff\r\n", "too large"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                char text[256];
                snprintf(text, sizeof(text), OK "Transfer-Encoding: chunked\r\n\r\n%s", wrong[i][0]);
                refuse(text, wrong[i][1]);
        }
}

static void test_a_head_without_end(void **state)
{
        struct response r;
        struct buffer body;
        char piece[4096];
        long n = 0;

        memset(piece, 'a', sizeof(piece));
        response_init(&r);
        buffer_init(&body, MIB);
        for (size_t i = 0; i < 2 * CLIENT_HEAD_BYTES_MAX / sizeof(piece) && n >= 0; i++)
                n = response_take(&r, piece, sizeof(piece), &body);
        assert_int_equal(n, -EBADMSG);
        assert_non_null(strstr(r.why, "does not end"));
        response_done(&r);
        buffer_done(&body);
}

static void test_a_body_above_the_cap(void **state)
{
        static const char text[] = OK "Content-Length: 10\r\n\r\n0123456789";
        struct response r;
        struct buffer body;

        response_init(&r);
        buffer_init(&body, 4);
        long n = response_take(&r, text, sizeof(text) - 1, &body);
        assert_true(n > 0);
        assert_int_equal(response_take(&r, text + n, sizeof(text) - 1 - (size_t)n, &body), -EFBIG);
        response_done(&r);
        buffer_done(&body);
}

/* What only a server that is not ours may say. */
static void test_foreign(void **state)
{
        static const struct {
                const char *text;
                int status;
                const char *content, *own; /* why ours may not */
        } rows[] = {
                {"HTTP/1.1 200 OK\r\n\r\nto the end", 200, "to the end", "length is not there"},
                {"HTTP/1.1 101 UPGRADED\r\nContent-Length: 0\r\n\r\nraw", 101, "raw", "status is none"},
                {"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", 304, "", "a body where there is none"},
                {"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", 204, "", "a body where there is none"},
                {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nA: b\r\nC:\r\n\r\n", 200, "ok", "where it should"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                size_t size = strlen(rows[i].text);
                refuse(rows[i].text, rows[i].own);
                for (size_t piece = 1; piece <= size; piece++) {
                        struct response r;
                        struct buffer body;
                        response_init(&r);
                        r.foreign = true;
                        buffer_init(&body, MIB);
                        for (size_t at = 0; at < size;) {
                                long n = response_take(&r, rows[i].text + at, MIN(piece, size - at), &body);
                                assert_true(n > 0);
                                at += (size_t)n;
                        }
                        assert_true(response_end(&r));
                        assert_int_equal(r.status, rows[i].status);
                        assert_int_equal(body.size, strlen(rows[i].content));
                        assert_memory_equal(body.size > 0 ? body.data : "", rows[i].content, body.size);
                        response_done(&r);
                        buffer_done(&body);
                }
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_foreign),
                cmocka_unit_test(test_bodies),
                cmocka_unit_test(test_fields),
                cmocka_unit_test(test_what_follows_is_left),
                cmocka_unit_test(test_heads_that_are_none),
                cmocka_unit_test(test_lengths_that_are_none),
                cmocka_unit_test(test_chunks_that_are_none),
                cmocka_unit_test(test_a_head_without_end),
                cmocka_unit_test(test_a_body_above_the_cap),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
