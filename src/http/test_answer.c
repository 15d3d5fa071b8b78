/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers of upstreams, and requests to a proxy: good and bad ones, each cut at every place. */
#include "http/parser.h"

#include "base/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum outcome { WHOLE, MORE, BAD };

/* Until its first END, or its failure. Everything that was seen goes to seen. */
static enum outcome feed(struct http_parser *p, const char *bytes, size_t size, struct buffer *seen, size_t *used_all)
{
        for (;;) {
                const char *piece;
                size_t used, n;
                enum http_step step = http_parser_feed(p, bytes, size, &used, &piece, &n);
                bytes += used;
                size -= used;
                *used_all += used;
                switch (step) {
                case HTTP_MORE:
                        assert_int_equal(size, 0);
                        return MORE;
                case HTTP_HEAD:
                        p->body_max = UINT64_MAX;
                        if (p->kind == HTTP_ANSWER)
                                buffer_printf(seen, "%u|%s|%u close=%d until=%d\n", p->message->status, p->message->bytes + p->message->reason, p->message->version,
                                              p->message->close, p->message->until_close);
                        else
                                buffer_printf(seen, "%s|%s\n", http_message_method(p->message), http_message_target(p->message));
                        for (size_t i = 0; i < p->message->n_fields; i++)
                                buffer_printf(seen, "%s=%s\n", p->message->bytes + p->message->fields[i].name, p->message->bytes + p->message->fields[i].value);
                        break;
                case HTTP_BODY:
                        buffer_add(seen, piece, n);
                        break;
                case HTTP_END:
                        return WHOLE;
                case HTTP_FAILED:
                        assert_non_null(p->why);
                        return BAD;
                }
        }
}

static enum outcome parse(enum http_kind kind, bool no_body, const char *text, size_t size, size_t cut, bool closed, struct buffer *seen, size_t *used)
{
        struct http_parser p;

        *used = 0;
        http_parser_init(&p);
        p.kind = kind;
        p.no_body = no_body;
        enum outcome o = feed(&p, text, cut, seen, used);
        if (o == MORE && cut < size)
                o = feed(&p, text + cut, size - cut, seen, used);
        if (o == MORE && closed && http_parser_close(&p))
                o = WHOLE;
        http_parser_done(&p);
        return o;
}

static void check(enum http_kind kind, bool no_body, const char *text, size_t size, bool closed, enum outcome wanted, const char *expected, size_t left)
{
        for (size_t cut = 0; cut <= size; cut += size > 4096 ? size / 97 : 1) {
                _cleanup_buffer_ struct buffer seen = {0};
                size_t used;
                buffer_init(&seen, 1 << 20);
                buffer_add_string(&seen, "");
                enum outcome o = parse(kind, no_body, text, size, cut, closed, &seen, &used);
                if (o != wanted)
                        print_error("outcome %d at %zu of: %.200s\n", o, cut, text);
                assert_int_equal(o, wanted);
                if (expected)
                        assert_string_equal(seen.data, expected);
                if (o == WHOLE)
                        assert_int_equal(used, size - left);
        }
}

static const struct {
        const char *text;
        bool no_body;
        const char *expected;
        size_t left; /* bytes behind it */
} good[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", false, "200|OK|11 close=0 until=0\nContent-Length=2\nhi", 0},
        {"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", false, "200||11 close=0 until=0\nContent-Length=0\n", 0},
        {"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\nX", false, "200||11 close=0 until=0\nContent-Length=0\n", 1},
        {"HTTP/1.1 404 Not  Found, \xc3\xa9\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", false,
         "404|Not  Found, \xc3\xa9|11 close=1 until=0\nConnection=close\nContent-Length=0\n", 0},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", false, "200|OK|11 close=0 until=0\nTransfer-Encoding=Chunked\nhi", 0},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 1\r\nY:\r\n\r\nrest", false,
         "200|OK|11 close=0 until=0\nTransfer-Encoding=chunked\nhi", 4},
        {"HTTP/1.1 200 OK\r\n\r\nto the end", false, "200|OK|11 close=1 until=1\nto the end", 0},
        {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", false, "200|OK|10 close=1 until=0\nContent-Length=2\nhi", 0},
        {"HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\nHTTP", true, "200|OK|11 close=0 until=0\nContent-Length=77\n", 4},
        {"HTTP/1.1 204 No\r\nContent-Length: 7\r\n\r\nHTTP", false, "204|No|11 close=0 until=0\nContent-Length=7\n", 4},
        {"HTTP/1.1 304 No\r\n\r\nHTTP", false, "304|No|11 close=0 until=0\n", 4},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP", false, "100|Continue|11 close=0 until=0\n", 4},
        {"HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Type: x\r\nContent-Type: y\r\nContent-Length: 0\r\n\r\n", false,
         "200|OK|11 close=0 until=0\nSet-Cookie=a\nSet-Cookie=b\nContent-Type=x\nContent-Type=y\nContent-Length=0\n", 0},
};

static void test_good(void **state)
{
        for (size_t i = 0; i < ARRAY_SIZE(good); i++)
                check(HTTP_ANSWER, good[i].no_body, good[i].text, strlen(good[i].text), true, WHOLE, good[i].expected, good[i].left);
}

#define OK "HTTP/1.1 200 OK\r\n"
#define CHUNKS OK "Transfer-Encoding: chunked\r\n\r\n"
#define TEXT(text) (text), sizeof(text) - 1

static const struct {
        const char *text;
        size_t size;
} bad[] = {
        {TEXT("HTTP/2 200 OK\r\n\r\n")},
        {TEXT("HTTP/1.2 200 OK\r\n\r\n")},
        {TEXT("HTTP/1.1  200 OK\r\n\r\n")},
        {TEXT("http/1.1 200 OK\r\n\r\n")},
        {TEXT("ICY 200 OK\r\n\r\n")},
        {TEXT("HTTP/1.1 20 OK\r\n\r\n")},
        {TEXT("HTTP/1.1 2000 OK\r\n\r\n")},
        {TEXT("HTTP/1.1 +20 OK\r\n\r\n")},
        {TEXT("HTTP/1.1 099 OK\r\n\r\n")},
        {TEXT("HTTP/1.1 600 OK\r\n\r\n")},
        {TEXT("HTTP/1.1 200 OK\n\r\n")},
        {TEXT("HTTP/1.1 200 O\0K\r\n\r\n")},
        {TEXT("HTTP/1.1 200 OK\rX\n\r\n")},
        {TEXT("\r\nHTTP/1.1 200 OK\r\n\r\n")},
        {TEXT("\x16\x03\x01\x02")},
        {TEXT(OK "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n")},
        {TEXT(OK "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n")},
        {TEXT(OK "Content-Length: 1\r\nContent-Length: 1\r\n\r\n")},
        {TEXT(OK "Content-Length: 1, 1\r\n\r\n")},
        {TEXT(OK "Content-Length: -1\r\n\r\n")},
        {TEXT(OK "Content-Length: 18446744073709551616\r\n\r\n")},
        {TEXT(OK "Transfer-Encoding: gzip, chunked\r\n\r\n")},
        {TEXT(OK "Transfer-Encoding: identity\r\n\r\n")},
        {TEXT(OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n")},
        {TEXT("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")},
        {TEXT(OK "X: a\r\n b\r\n\r\n")},
        {TEXT(OK " X: a\r\n\r\n")},
        {TEXT(OK "X : a\r\n\r\n")},
        {TEXT(OK "X: a\nY: b\r\n\r\n")},
        {TEXT(OK "X: a\0\r\n\r\n")},
        {TEXT(OK "no field\r\n\r\n")},
        {TEXT(CHUNKS "2;x\r\nhi\r\n0\r\n\r\n")},
        {TEXT(CHUNKS "2 \r\nhi\r\n0\r\n\r\n")},
        {TEXT(CHUNKS "2\nhi\r\n0\r\n\r\n")},
        {TEXT(CHUNKS "3\r\nhi\r\n0\r\n\r\n")},
        {TEXT(CHUNKS "x\r\n")},
        {TEXT(CHUNKS "10000000000000000\r\n")},
        {TEXT(CHUNKS "0\r\n X: y\r\n\r\n")},
        {TEXT(CHUNKS "0\r\nX: y\n\r\n")},
        {TEXT(CHUNKS "0\r\nX: \x01\r\n\r\n")},
        {TEXT(CHUNKS "0\r\n\n")},
};

static void test_bad(void **state)
{
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                check(HTTP_ANSWER, false, bad[i].text, bad[i].size, false, BAD, NULL, 0);
}

/* The connection was closed before the end: that is no end. */
static void test_closed_too_early(void **state)
{
        static const char *const texts[] = {"", "HTTP/1.1 20", OK, OK "Content-Length: 3\r\n\r\nhi", CHUNKS "2\r\nhi\r\n", CHUNKS "0\r\n"};

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
                check(HTTP_ANSWER, false, texts[i], strlen(texts[i]), true, MORE, NULL, 0);
}

static void check_long(const char *before, size_t n, const char *after, enum outcome wanted)
{
        _cleanup_buffer_ struct buffer text = {0};

        buffer_init(&text, 1 << 20);
        buffer_add_string(&text, before);
        for (size_t i = 0; i < n; i++)
                buffer_add(&text, "a", 1);
        buffer_add_string(&text, after);
        check(HTTP_ANSWER, true, text.data, text.size, false, wanted, NULL, 0);
}

static void test_limits(void **state)
{
        _cleanup_buffer_ struct buffer many = {0};

        check_long("HTTP/1.1 200 ", HTTP_REASON_MAX - 8, "\r\n\r\n", WHOLE);
        check_long("HTTP/1.1 200 ", HTTP_REASON_MAX + 8, "\r\n\r\n", BAD);
        check_long(OK "X: ", HTTP_ANSWER_FIELDS_BYTES_MAX - strlen("X: \r\n\r\n"), "\r\n\r\n", WHOLE);
        check_long(OK "X: ", HTTP_ANSWER_FIELDS_BYTES_MAX - strlen("X: \r\n\r\n") + 1, "\r\n\r\n", BAD);
        check_long(OK, 1 << 18, "", BAD);
        buffer_init(&many, 1 << 20);
        buffer_add_string(&many, OK);
        for (size_t i = 0; i < HTTP_FIELDS_MAX + 1; i++)
                buffer_add_string(&many, "X: y\r\n");
        buffer_add_string(&many, "\r\n");
        check(HTTP_ANSWER, false, many.data, many.size, false, BAD, NULL, 0);
        /* Trailers have a bound, too. */
        _cleanup_buffer_ struct buffer trailers = {0};
        buffer_init(&trailers, 1 << 20);
        buffer_add_string(&trailers, CHUNKS "0\r\n");
        for (size_t i = 0; i < HTTP_ANSWER_FIELDS_BYTES_MAX / 4; i++)
                buffer_add_string(&trailers, "X: y\r\n");
        check(HTTP_ANSWER, false, trailers.data, trailers.size, false, BAD, NULL, 0);
}

static void test_requests_to_a_proxy(void **state)
{
        static const struct {
                const char *text;
                enum outcome wanted;
                const char *expected;
        } rows[] = {
                {"GET http://a.com/x?y[]=1 HTTP/1.1\r\nHost: a.com\r\n\r\n", WHOLE, "GET|http://a.com/x?y[]=1\nHost=a.com\n"},
                {"GET http://[::1]:80/ HTTP/1.0\r\n\r\n", WHOLE, "GET|http://[::1]:80/\n"},
                {"CONNECT a.com:443 HTTP/1.1\r\nHost: a.com\r\n\r\n", WHOLE, "CONNECT|a.com:443\nHost=a.com\n"},
                {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", WHOLE, "OPTIONS|*\nHost=a\n"},
                {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", BAD, NULL},
                {"GET http://a.com/a\\b HTTP/1.1\r\nHost: a.com\r\n\r\n", BAD, NULL},
                {"GET http://a.com/#a HTTP/1.1\r\nHost: a.com\r\n\r\n", BAD, NULL},
                {"GET  HTTP/1.1\r\nHost: a.com\r\n\r\n", BAD, NULL},
                {"GET http://a.com/ HTTP/1.1\r\n\r\n", BAD, NULL},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                check(HTTP_PROXY_REQUEST, false, rows[i].text, strlen(rows[i].text), false, rows[i].wanted, rows[i].expected, 0);
}

/* A reset keeps what the parser is for. */
static void test_reset(void **state)
{
        struct http_parser p;
        const char *piece;
        size_t used, n;

        http_parser_init(&p);
        p.kind = HTTP_ANSWER;
        assert_int_equal(http_parser_feed(&p, TEXT("HTTP/1.1 100 C\r\n\r\n"), &used, &piece, &n), HTTP_HEAD);
        http_parser_reset(&p);
        assert_false(http_parser_has_begun(&p));
        assert_int_equal(http_parser_feed(&p, TEXT("HTTP/1.1 204 N\r\n\r\n"), &used, &piece, &n), HTTP_HEAD);
        assert_int_equal(p.message->status, 204);
        http_parser_done(&p);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_good),
                cmocka_unit_test(test_bad),
                cmocka_unit_test(test_closed_too_early),
                cmocka_unit_test(test_limits),
                cmocka_unit_test(test_requests_to_a_proxy),
                cmocka_unit_test(test_reset),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
