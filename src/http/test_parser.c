/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests, good and bad, each cut at every place: where the bytes were cut must change nothing. */
#include "http/parser.h"

#include "base/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define BODY_MAX 1024

/* All that can be seen of a request. */
struct outcome {
        int status; /* 0: it is whole; -1: more is needed */
        size_t used;
        char text[65536]; /* head and body, as text */
        size_t size;
};

static void note(struct outcome *o, const char *text, size_t size)
{
        assert_true(o->size + size < sizeof(o->text));
        memcpy(o->text + o->size, text, size);
        o->size += size;
        o->text[o->size] = '\0';
}

static void note_head(struct outcome *o, const struct http_message *m)
{
        char line[128];

        note(o, http_message_method(m), strlen(http_message_method(m)));
        note(o, "|", 1);
        note(o, http_message_target(m), strlen(http_message_target(m)));
        snprintf(line, sizeof(line), "|%u close=%d continue=%d chunked=%d length=%llu\n", m->version, m->close, m->expect_continue, m->chunked,
                 (unsigned long long)m->content_length);
        note(o, line, strlen(line));
        for (size_t i = 0; i < m->n_fields; i++) {
                const char *name = m->bytes + m->fields[i].name, *value = m->bytes + m->fields[i].value;
                note(o, name, strlen(name));
                note(o, "=", 1);
                note(o, value, strlen(value));
                note(o, "\n", 1);
        }
}

/* Feeds one piece; true: it is decided. */
static bool feed(struct http_parser *p, const char *bytes, size_t size, struct outcome *o)
{
        for (;;) {
                const char *piece;
                size_t used, piece_size;
                enum http_step step = http_parser_feed(p, bytes, size, &used, &piece, &piece_size);
                assert_true(used <= size);
                o->used += used;
                bytes += used;
                size -= used;
                switch (step) {
                case HTTP_MORE:
                        assert_int_equal(size, 0);
                        return false;
                case HTTP_HEAD:
                        note_head(o, p->message);
                        p->body_max = BODY_MAX;
                        break;
                case HTTP_BODY:
                        note(o, piece, piece_size);
                        break;
                case HTTP_END:
                        o->status = 0;
                        return true;
                case HTTP_FAILED:
                        assert_non_null(p->why);
                        o->status = p->status;
                        return true;
                }
        }
}

static void parse(const char *bytes, size_t size, size_t cut, bool singly, struct outcome *o)
{
        struct http_parser p;

        *o = (struct outcome){.status = -1};
        http_parser_init(&p);
        if (singly) {
                for (size_t i = 0; i < size; i++)
                        if (feed(&p, bytes + i, 1, o))
                                break;
        } else if (!feed(&p, bytes, cut, o)) {
                feed(&p, bytes + cut, size - cut, o);
        }
        http_parser_done(&p);
}

/* At every place, and byte by byte. */
static void parse_all_ways(const char *bytes, size_t size, struct outcome *whole)
{
        static struct outcome other;

        parse(bytes, size, size, false, whole);
        size_t step = size > 4096 ? size / 97 : 1;
        for (size_t cut = 0; cut < size; cut += step) {
                parse(bytes, size, cut, false, &other);
                assert_int_equal(other.status, whole->status);
                assert_string_equal(other.text, whole->text);
                if (whole->status == 0)
                        assert_int_equal(other.used, whole->used);
        }
        parse(bytes, size, 0, true, &other);
        assert_int_equal(other.status, whole->status);
        assert_string_equal(other.text, whole->text);
        if (whole->status == 0)
                assert_int_equal(other.used, whole->used);
}

#define H "Host: a\r\n"

static const struct {
        const char *text;
        const char *expected;
} good[] = {
        {"GET / HTTP/1.1\r\n" H "\r\n", "GET|/|11 close=0 continue=0 chunked=0 length=0\nHost=a\n"},
        {"GET / HTTP/1.0\r\n\r\n", "GET|/|10 close=1 continue=0 chunked=0 length=0\n"},
        {"GET /a/b%20c?x=1&y=@:!$'()*+,;=/? HTTP/1.1\r\n" H "\r\n", "GET|/a/b%20c?x=1&y=@:!$'()*+,;=/?|11 close=0 continue=0 chunked=0 length=0\nHost=a\n"},
        {"ODD~METHOD / HTTP/1.1\r\n" H "\r\n", "ODD~METHOD|/|11 close=0 continue=0 chunked=0 length=0\nHost=a\n"},
        {"GET / HTTP/1.1\r\n" H "X:\r\nY:   a  b\t \r\nZ: caf\xc3\xa9\r\n\r\n",
         "GET|/|11 close=0 continue=0 chunked=0 length=0\nHost=a\nX=\nY=a  b\nZ=caf\xc3\xa9\n"},
        {"GET / HTTP/1.1\r\n" H "Connection: foo , Close\r\n\r\n", "GET|/|11 close=1 continue=0 chunked=0 length=0\nHost=a\nConnection=foo , Close\n"},
        {"GET / HTTP/1.1\r\n" H "Connection: not-close\r\n\r\n", "GET|/|11 close=0 continue=0 chunked=0 length=0\nHost=a\nConnection=not-close\n"},
        {"POST / HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhello", "POST|/|11 close=0 continue=0 chunked=0 length=5\nHost=a\nContent-Length=5\nhello"},
        {"POST / HTTP/1.1\r\n" H "content-length: 000\r\n\r\n", "POST|/|11 close=0 continue=0 chunked=0 length=0\nHost=a\ncontent-length=000\n"},
        {"POST / HTTP/1.1\r\n" H "Content-Length: 2\r\nExpect: 100-Continue\r\n\r\nhi",
         "POST|/|11 close=0 continue=1 chunked=0 length=2\nHost=a\nContent-Length=2\nExpect=100-Continue\nhi"},
        {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0A\r\n, world...\r\n0\r\n\r\n",
         "POST|/|11 close=0 continue=0 chunked=1 length=0\nHost=a\nTransfer-Encoding=chunked\nhello, world..."},
        {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n000\r\n\r\n", "POST|/|11 close=0 continue=0 chunked=1 length=0\nHost=a\nTransfer-Encoding=chunked\n"},
};

static void test_good(void **state)
{
        static struct outcome o;

        for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
                parse_all_ways(good[i].text, strlen(good[i].text), &o);
                assert_int_equal(o.status, 0);
                assert_int_equal(o.used, strlen(good[i].text));
                assert_string_equal(o.text, good[i].expected);
        }
}

#define GET(fields) "GET / HTTP/1.1\r\n" H fields "\r\n"
#define POST(fields, body) "POST / HTTP/1.1\r\n" H fields "\r\n" body
#define CHUNKS(body) POST("Transfer-Encoding: chunked\r\n", body)
/* With NULs in it. */
#define TEXT(text) (text), sizeof(text) - 1

static const struct {
        const char *text;
        size_t size;
        int status;
} bad[] = {
        /* Where the body ends */
        {TEXT(POST("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")), 400},
        {TEXT(POST("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n")), 400},
        {TEXT(POST("Content-Length: 5\r\nContent-Length: 5\r\n", "hello")), 400},
        {TEXT(POST("Content-Length: 5\r\nContent-Length: 6\r\n", "hello")), 400},
        {TEXT(POST("Content-Length: 5, 5\r\n", "hello")), 400},
        {TEXT(POST("Content-Length: +5\r\n", "hello")), 400},
        {TEXT(POST("Content-Length: -5\r\n", "hello")), 400},
        {TEXT(POST("Content-Length: 0x5\r\n", "hello")), 400},
        {TEXT(POST("Content-Length: 5 5\r\n", "hello")), 400},
        {TEXT(POST("Content-Length: 5.0\r\n", "hello")), 400},
        {TEXT(POST("Content-Length:\r\n", "hello")), 400},
        {TEXT(POST("Content-Length: 18446744073709551616\r\n", "hello")), 400},
        {TEXT(POST("Content-Length: 99999999999999999999999\r\n", "hello")), 400},
        {TEXT(POST("Content-Length: 18446744073709551615\r\n", "hello")), 413},
        {TEXT(POST("Content-Length: 1025\r\n", "hello")), 413},
        {TEXT(POST("Transfer-Encoding: Chunked\r\n", "0\r\n\r\n")), 400},
        {TEXT(POST("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n")), 400},
        {TEXT(POST("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n")), 400},
        {TEXT(POST("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n")), 400},
        {TEXT(POST("Transfer-Encoding: identity\r\n", "0\r\n\r\n")), 400},
        {TEXT(POST("Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n")), 400},
        {TEXT(POST("Transfer-Encoding:\x0b" "chunked\r\n", "0\r\n\r\n")), 400},
        {TEXT(POST("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")), 400},
        {TEXT("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400},
        /* Chunks */
        {TEXT(CHUNKS("5;a=b\r\nhello\r\n0\r\n\r\n")), 400},
        {TEXT(CHUNKS("5;\r\nhello\r\n0\r\n\r\n")), 400},
        {TEXT(CHUNKS("5 \r\nhello\r\n0\r\n\r\n")), 400},
        {TEXT(CHUNKS(" 5\r\nhello\r\n0\r\n\r\n")), 400},
        {TEXT(CHUNKS("0x5\r\nhello\r\n0\r\n\r\n")), 400},
        {TEXT(CHUNKS("+5\r\nhello\r\n0\r\n\r\n")), 400},
        {TEXT(CHUNKS("-5\r\nhello\r\n0\r\n\r\n")), 400},
        {TEXT(CHUNKS("5_0\r\nhello\r\n0\r\n\r\n")), 400},
        {TEXT(CHUNKS("g\r\nhello\r\n0\r\n\r\n")), 400},
        {TEXT(CHUNKS("\r\nhello\r\n0\r\n\r\n")), 400},
        {TEXT(CHUNKS("5\nhello\r\n0\r\n\r\n")), 400},
        {TEXT(CHUNKS("5\r\nhello\n0\r\n\r\n")), 400},
        {TEXT(CHUNKS("5\rhello\r\n0\r\n\r\n")), 400},
        {TEXT(CHUNKS("5\r\nhelloX\r\n0\r\n\r\n")), 400},
        {TEXT(CHUNKS("5\r\nhello\r\n0\r\nX: y\r\n\r\n")), 400},
        {TEXT(CHUNKS("5\r\nhello\r\n0\r\n\n")), 400},
        {TEXT(CHUNKS("5\r\nhello\r\n0\r\n\rX")), 400},
        {TEXT(CHUNKS("00000000000000005\r\nhello\r\n0\r\n\r\n")), 400},
        {TEXT(CHUNKS("ffffffffffffffff\r\nhello\r\n0\r\n\r\n")), 413},
        {TEXT(CHUNKS("10000000000000005\r\nhello\r\n0\r\n\r\n")), 400},
        {TEXT(CHUNKS("401\r\nhello")), 413},
        {TEXT(CHUNKS("5\r\nhello\r\n3fc\r\n")), 413},
        {TEXT(CHUNKS("5\r\nhello\r\nfffffffffffffffc\r\n")), 413},
        /* Lines */
        {TEXT("GET / HTTP/1.1\n" H "\r\n"), 400},
        {TEXT("GET / HTTP/1.1\r\nHost: a\n\r\n"), 400},
        {TEXT("GET / HTTP/1.1\r\nHost: a\r\n\n"), 400},
        {TEXT("GET / HTTP/1.1\rHost: a\r\n\r\n"), 400},
        {TEXT("GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n"), 400},
        {TEXT("GET / HTTP/1.1\r\nHost: a\r\n\rX"), 400},
        {TEXT("GET / HTTP/1.1\r\nHost: a\r\r\n\r\n"), 400},
        {TEXT("\r\nGET / HTTP/1.1\r\n" H "\r\n"), 400},
        {TEXT("\nGET / HTTP/1.1\r\n" H "\r\n"), 400},
        {TEXT(" GET / HTTP/1.1\r\n" H "\r\n"), 400},
        {TEXT(GET("X: a\r\n b\r\n")), 400},
        {TEXT(GET("X: a\r\n\tb\r\n")), 400},
        {TEXT("GET / HTTP/1.1\r\n X: a\r\n" H "\r\n"), 400},
        {TEXT(GET("X : a\r\n")), 400},
        {TEXT(GET("X\t: a\r\n")), 400},
        {TEXT(GET(": a\r\n")), 400},
        {TEXT(GET("X\r\n")), 400},
        {TEXT(GET("X y: a\r\n")), 400},
        {TEXT(GET("X(y): a\r\n")), 400},
        {TEXT(GET("X\xc3\xa9: a\r\n")), 400},
        {TEXT(GET("X\0: a\r\n")), 400},
        {TEXT(GET("X: a\0b\r\n")), 400},
        {TEXT(GET("X: a\x01" "b\r\n")), 400},
        {TEXT(GET("X: a\x7f" "b\r\n")), 400},
        {TEXT(GET("X: a\x0b" "b\r\n")), 400},
        {TEXT(GET("X: a\x1b[31m\r\n")), 400},
        /* The request line */
        {TEXT("GET  / HTTP/1.1\r\n" H "\r\n"), 400},
        {TEXT("GET /  HTTP/1.1\r\n" H "\r\n"), 400},
        {TEXT("GET\t/ HTTP/1.1\r\n" H "\r\n"), 400},
        {TEXT("GET / HTTP/1.1 \r\n" H "\r\n"), 400},
        {TEXT("GET /\r\n\r\n"), 400},
        {TEXT("GET / http/1.1\r\n" H "\r\n"), 400},
        {TEXT("GET / HTTP/2.0\r\n" H "\r\n"), 505},
        {TEXT("GET / HTTP/1.2\r\n" H "\r\n"), 505},
        {TEXT("GET / HTTP/0.9\r\n" H "\r\n"), 505},
        {TEXT("GET / HTTP/1.10\r\n" H "\r\n"), 400},
        {TEXT("GET / HTTP/11\r\n" H "\r\n"), 400},
        {TEXT("GET / HTTP/1,1\r\n" H "\r\n"), 400},
        {TEXT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 400},
        {TEXT("OPTIONS * HTTP/1.1\r\n" H "\r\n"), 400},
        {TEXT("GET http://a/ HTTP/1.1\r\n" H "\r\n"), 400},
        {TEXT("CONNECT a:443 HTTP/1.1\r\n" H "\r\n"), 400},
        {TEXT("GET a HTTP/1.1\r\n" H "\r\n"), 400},
        {TEXT("GET /a#b HTTP/1.1\r\n" H "\r\n"), 400},
        {TEXT("GET /a\\b HTTP/1.1\r\n" H "\r\n"), 400},
        {TEXT("GET /\xc3\xa9 HTTP/1.1\r\n" H "\r\n"), 400},
        {TEXT("GET /a\0b HTTP/1.1\r\n" H "\r\n"), 400},
        {TEXT("GET /a\x7f HTTP/1.1\r\n" H "\r\n"), 400},
        {TEXT("GE(T / HTTP/1.1\r\n" H "\r\n"), 400},
        {TEXT("GE\0T / HTTP/1.1\r\n" H "\r\n"), 400},
        {TEXT("AAAAAAAAAAAAAAAAA / HTTP/1.1\r\n" H "\r\n"), 400},
        {TEXT("\x16\x03\x01\x02"), 400},
        /* Fields that come once, and ones that are not understood */
        {TEXT("GET / HTTP/1.1\r\n\r\n"), 400},
        {TEXT(GET(H)), 400},
        {TEXT(GET("host: b\r\n")), 400},
        {TEXT("GET / HTTP/1.0\r\n" H H "\r\n"), 400},
        {TEXT(GET("Authorization: a\r\nauthorization: b\r\n")), 400},
        {TEXT(GET("Origin: a\r\nOrigin: b\r\n")), 400},
        {TEXT(GET("Idempotency-Key: a\r\nIdempotency-Key: b\r\n")), 400},
        {TEXT(GET("Expect: something\r\n")), 417},
};

static void test_bad(void **state)
{
        static struct outcome o;

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                parse_all_ways(bad[i].text, bad[i].size, &o);
                if (o.status != bad[i].status)
                        print_error("row %zu gives %d: %s\n", i, o.status, bad[i].text);
                assert_int_equal(o.status, bad[i].status);
        }
}

/* A limit, and one more. fill: a byte that is repeated between before and after. */
static void check_size(const char *before, size_t n, const char *after, int status)
{
        static struct outcome o;
        _cleanup_buffer_ struct buffer text = {0};

        buffer_init(&text, 1 << 20);
        buffer_add_string(&text, before);
        for (size_t i = 0; i < n; i++)
                buffer_add(&text, "a", 1);
        buffer_add_string(&text, after);
        parse_all_ways(text.data, text.size, &o);
        assert_int_equal(o.status, status);
}

static void test_sizes(void **state)
{
        check_size("GET /", HTTP_TARGET_MAX - 1, " HTTP/1.1\r\n" H "\r\n", 0);
        check_size("GET /", HTTP_TARGET_MAX, " HTTP/1.1\r\n" H "\r\n", 414);
        check_size("GET /", 100000, "", 414);
        size_t others = strlen(H "X: \r\n\r\n");
        check_size("GET / HTTP/1.1\r\n" H "X: ", HTTP_FIELDS_BYTES_MAX - others, "\r\n\r\n", 0);
        check_size("GET / HTTP/1.1\r\n" H "X: ", HTTP_FIELDS_BYTES_MAX - others + 1, "\r\n\r\n", 431);
        check_size("GET / HTTP/1.1\r\n" H, 65536, "", 431);
        check_size("", HTTP_METHOD_MAX, " / HTTP/1.1\r\n" H "\r\n", 0);
        check_size("", HTTP_METHOD_MAX + 1, " / HTTP/1.1\r\n" H "\r\n", 400);
}

static void test_everything_at_its_limit(void **state)
{
        static struct outcome o;
        _cleanup_buffer_ struct buffer text = {0};

        buffer_init(&text, 1 << 20);
        for (size_t i = 0; i < HTTP_METHOD_MAX; i++)
                buffer_add(&text, "M", 1);
        buffer_add_string(&text, " /");
        for (size_t i = 1; i < HTTP_TARGET_MAX; i++)
                buffer_add(&text, "t", 1);
        buffer_add_string(&text, " HTTP/1.1\r\nHost:a\r\nX:");
        for (size_t i = 0; i < HTTP_FIELDS_BYTES_MAX - strlen("Host:a\r\nX:\r\n\r\n"); i++)
                buffer_add(&text, "v", 1);
        buffer_add_string(&text, "\r\n\r\n");
        parse_all_ways(text.data, text.size, &o);
        assert_int_equal(o.status, 0);
}

static void test_number_of_fields(void **state)
{
        static struct outcome o;

        for (size_t more = 0; more < 2; more++) {
                _cleanup_buffer_ struct buffer text = {0};
                buffer_init(&text, 1 << 20);
                buffer_add_string(&text, "GET / HTTP/1.1\r\n" H);
                for (size_t i = 1; i < HTTP_FIELDS_MAX + more; i++)
                        buffer_add_string(&text, "X: y\r\n");
                buffer_add_string(&text, "\r\n");
                parse_all_ways(text.data, text.size, &o);
                assert_int_equal(o.status, more ? 431 : 0);
        }
}

static void test_what_is_behind_belongs_to_the_next(void **state)
{
        static const char text[] = "GET /1 HTTP/1.1\r\n" H "\r\nGET /2 HTTP/1.1\r\n" H "\r\n";
        static struct outcome o;

        parse_all_ways(text, strlen(text), &o);
        assert_int_equal(o.status, 0);
        assert_int_equal(o.used, strlen(text) / 2);
}

static void test_fields(void **state)
{
        static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\nAccept: x\r\nACCEPT: y\r\n\r\n";
        struct http_parser p;
        const char *piece;
        size_t used, size, i = 0;

        http_parser_init(&p);
        assert_false(http_parser_has_begun(&p));
        assert_int_equal(http_parser_feed(&p, text, strlen(text), &used, &piece, &size), HTTP_HEAD);
        assert_true(http_parser_has_begun(&p));
        assert_string_equal(http_message_field(p.message, "hOST"), "a");
        assert_null(http_message_field(p.message, "Hos"));
        assert_string_equal(http_message_next(p.message, "accept", &i), "x");
        assert_string_equal(http_message_next(p.message, "accept", &i), "y");
        assert_null(http_message_next(p.message, "accept", &i));
        http_parser_reset(&p);
        assert_false(http_parser_has_begun(&p));
        http_parser_done(&p);

        assert_true(http_list_has("a, b ,c", "B"));
        assert_true(http_list_has(",,c", "c"));
        assert_false(http_list_has("ab", "a"));
        assert_false(http_list_has("", "a"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_good),
                cmocka_unit_test(test_bad),
                cmocka_unit_test(test_sizes),
                cmocka_unit_test(test_everything_at_its_limit),
                cmocka_unit_test(test_number_of_fields),
                cmocka_unit_test(test_what_is_behind_belongs_to_the_next),
                cmocka_unit_test(test_fields),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
