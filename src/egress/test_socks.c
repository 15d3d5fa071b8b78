/* SPDX-License-Identifier: Apache-2.0
 *
 * What clients say in SOCKS5, at once and byte by byte. */
#include "egress/socks.h"

#include "base/macro.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GREETING "\x05\x01\x00"
#define NAME "\x05\x01\x00\x03\x05" "a.com" "\x01\xbb"

static const char *const words[] = {[SOCKS_MORE] = "more", [SOCKS_GREETED] = "greeted", [SOCKS_REQUEST] = "request", [SOCKS_REFUSED] = "refused"};

/* Of bytes that come one by one; from a copy that ends where they end. *ret_at: how many had come. */
static enum socks_step feed_slowly(struct socks *s, const char *bytes, size_t size, size_t *ret_used, size_t *ret_at)
{
        enum socks_step step = SOCKS_MORE;

        for (*ret_at = 0; *ret_at <= size; ++*ret_at) {
                _cleanup_free_ uint8_t *copy = malloc(*ret_at + 1);
                assert_non_null(copy);
                memcpy(copy + 1, bytes, *ret_at);
                step = socks_feed(s, copy + 1, *ret_at, ret_used);
                if (step != SOCKS_MORE)
                        break;
                assert_int_equal(*ret_used, 0);
        }
        return step;
}

struct row {
        const char *what, *bytes;
        size_t size;
        enum socks_step step;
        const char *host;
        unsigned port;
        const char *answer;
        size_t answer_size;
};
#define ROW(what, bytes, step) {what, bytes, sizeof(bytes) - 1, step, NULL, 0, NULL, 0}
#define REFUSED(what, bytes, answer) {what, bytes, sizeof(bytes) - 1, SOCKS_REFUSED, NULL, 0, answer, sizeof(answer) - 1}
#define REQUEST(what, bytes, host, port) {what, bytes, sizeof(bytes) - 1, SOCKS_REQUEST, host, port, NULL, 0}
#define REPLY(code) "\x05" code "\x00\x01\x00\x00\x00\x00\x00\x00"

static void check_row(const struct row *row, bool greeted)
{
        static const char rest[] = "\x16\x03\x01 bytes that are for somebody else";
        struct socks at_once = {.greeted = greeted}, slow = {.greeted = greeted};
        size_t used, slow_used, at;
        char more[400];

        /* What stands behind it is not touched. */
        memcpy(more, row->bytes, row->size);
        memcpy(more + row->size, rest, sizeof(rest));
        enum socks_step step = socks_feed(&at_once, (const uint8_t *)more, row->size + (row->step == SOCKS_MORE ? 0 : sizeof(rest)), &used);
        if (step != row->step)
                fail_msg("%s: %s", row->what, words[step]);
        if (step != feed_slowly(&slow, row->bytes, row->size, &slow_used, &at) || used != slow_used)
                fail_msg("%s: not the same when it comes slowly", row->what);
        assert_int_equal(at_once.greeted, greeted || step == SOCKS_GREETED);
        assert_int_equal(slow.greeted, at_once.greeted);
        switch (step) {
        case SOCKS_MORE:
                assert_int_equal(used, 0);
                break;
        case SOCKS_GREETED:
                assert_int_equal(used, row->size);
                assert_int_equal(at, row->size);
                break;
        case SOCKS_REQUEST:
                assert_int_equal(used, row->size);
                assert_int_equal(at, row->size);
                assert_string_equal(at_once.host.text, row->host);
                assert_int_equal(at_once.port, row->port);
                assert_true(host_equals(&at_once.host, &slow.host));
                assert_int_equal(slow.port, row->port);
                break;
        case SOCKS_REFUSED:
                assert_non_null(at_once.why);
                assert_ptr_equal(slow.why, at_once.why);
                assert_int_equal(at_once.answer_size, row->answer_size);
                assert_memory_equal(at_once.answer, row->answer, row->answer_size);
                assert_memory_equal(slow.answer, row->answer, row->answer_size);
        }
}

static void test_greeting(void **state)
{
        static const struct row table[] = {
                ROW("as most do", GREETING, SOCKS_GREETED),
                ROW("with others", "\x05\x03\x02\x01\x00", SOCKS_GREETED),
                ROW("nothing", "", SOCKS_MORE),
                ROW("the version", "\x05", SOCKS_MORE),
                ROW("a number", "\x05\x01", SOCKS_MORE),
                ROW("one is missing", "\x05\x02\x00", SOCKS_MORE),
                REFUSED("no methods", "\x05\x00", "\x05\xff"),
                REFUSED("a password", "\x05\x01\x02", "\x05\xff"),
                REFUSED("others only", "\x05\x02\x01\xff", "\x05\xff"),
                REFUSED("SOCKS4", "\x04\x01\x01\xbb\x01\x02\x03\x04\x00", ""),
                REFUSED("HTTP", "CONNECT", ""),
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                check_row(&table[i], false);
}

static void test_request(void **state)
{
        static const struct row table[] = {
                REQUEST("a name", NAME, "a.com", 443),
                REQUEST("upper case and a dot", "\x05\x01\x00\x03\x06" "A.cOM." "\x00\x50", "a.com", 80),
                REQUEST("one letter", "\x05\x01\x00\x03\x01" "a" "\xff\xff", "a", 65535),
                REQUEST("IPv4", "\x05\x01\x00\x01\x01\x02\x03\x04\x00\x16", "1.2.3.4", 22),
                REQUEST("IPv4 as a name", "\x05\x01\x00\x03\x07" "1.2.3.4" "\x00\x16", "1.2.3.4", 22),
                REQUEST("IPv4 as an odd name", "\x05\x01\x00\x03\x0a" "2130706433" "\x00\x16", "127.0.0.1", 22),
                REQUEST("IPv6", "\x05\x01\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x01\xbb", "2001:db8::1", 443),
                REQUEST("IPv4 in IPv6", "\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\x00\x00\x01\x01\xbb", "127.0.0.1", 443),
                REQUEST("IPv6 as a name in brackets", "\x05\x01\x00\x03\x05" "[::1]" "\x01\xbb", "::1", 443),
                ROW("nothing", "", SOCKS_MORE),
                ROW("a head", "\x05\x01\x00", SOCKS_MORE),
                ROW("a type", "\x05\x01\x00\x03", SOCKS_MORE),
                ROW("a length", "\x05\x01\x00\x03\x05", SOCKS_MORE),
                ROW("half a name", "\x05\x01\x00\x03\x05" "a.c", SOCKS_MORE),
                ROW("no port", "\x05\x01\x00\x03\x05" "a.com", SOCKS_MORE),
                ROW("half a port", "\x05\x01\x00\x03\x05" "a.com" "\x01", SOCKS_MORE),
                ROW("half of IPv4", "\x05\x01\x00\x01\x01\x02\x03\x04\x00", SOCKS_MORE),
                ROW("half of IPv6", "\x05\x01\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x01", SOCKS_MORE),
                REFUSED("another version", "\x04\x01\x00\x03\x05" "a.com" "\x01\xbb", REPLY("\x01")),
                REFUSED("BIND", "\x05\x02\x00\x03\x05" "a.com" "\x01\xbb", REPLY("\x07")),
                REFUSED("UDP", "\x05\x03\x00\x03\x05" "a.com" "\x01\xbb", REPLY("\x07")),
                REFUSED("command 0", "\x05\x00\x00\x03\x05" "a.com" "\x01\xbb", REPLY("\x07")),
                REFUSED("Tor's RESOLVE", "\x05\xf0\x00\x03\x05" "a.com" "\x00\x00", REPLY("\x07")),
                REFUSED("not 0", "\x05\x01\x01\x03\x05" "a.com" "\x01\xbb", REPLY("\x01")),
                REFUSED("type 0", "\x05\x01\x00\x00\x01\x02\x03\x04\x01\xbb", REPLY("\x08")),
                REFUSED("type 2", "\x05\x01\x00\x02\x01\x02\x03\x04\x01\xbb", REPLY("\x08")),
                REFUSED("type 5", "\x05\x01\x00\x05\x01\x02\x03\x04\x01\xbb", REPLY("\x08")),
                REFUSED("no name", "\x05\x01\x00\x03\x00\x01\xbb", REPLY("\x01")),
                REFUSED("a NUL in the name", "\x05\x01\x00\x03\x05" "a\0com" "\x01\xbb", REPLY("\x01")),
                REFUSED("a NUL behind the name", "\x05\x01\x00\x03\x06" "a.com\0" "\x01\xbb", REPLY("\x01")),
                REFUSED("a port in the name", "\x05\x01\x00\x03\x08" "a.com:80" "\x01\xbb", REPLY("\x01")),
                REFUSED("a user in the name", "\x05\x01\x00\x03\x07" "b@a.com" "\x01\xbb", REPLY("\x01")),
                REFUSED("IPv6 as a name", "\x05\x01\x00\x03\x03" "::1" "\x01\xbb", REPLY("\x01")),
                REFUSED("a zone", "\x05\x01\x00\x03\x0c" "[fe80::1%lo]" "\x01\xbb", REPLY("\x01")),
                REFUSED("a pattern", "\x05\x01\x00\x03\x07" "*.a.com" "\x01\xbb", REPLY("\x01")),
                REFUSED("not ASCII", "\x05\x01\x00\x03\x03" "\xc3\xbc" "a" "\x01\xbb", REPLY("\x01")),
                REFUSED("port 0", "\x05\x01\x00\x03\x05" "a.com" "\x00\x00", REPLY("\x01")),
                REFUSED("port 0 of IPv4", "\x05\x01\x00\x01\x01\x02\x03\x04\x00\x00", REPLY("\x01")),
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                check_row(&table[i], true);
}

/* Greeting, request and the first bytes for the other side in one piece: each is used on its own. */
static void test_in_one_piece(void **state)
{
        static const char bytes[] = GREETING NAME "\x16\x03\x01";
        const uint8_t *at = (const uint8_t *)bytes;
        size_t left = sizeof(bytes) - 1, used;
        struct socks s = {};

        assert_int_equal(socks_feed(&s, at, left, &used), SOCKS_GREETED);
        at += used;
        left -= used;
        assert_int_equal(socks_feed(&s, at, left, &used), SOCKS_REQUEST);
        assert_string_equal(s.host.text, "a.com");
        assert_int_equal(left - used, 3);
        assert_memory_equal(at + used, "\x16\x03\x01", 3);
}

/* A name of 255 letters is longer than names can be, but one of 254 has a dot at its end. */
static void test_long_names(void **state)
{
        for (unsigned size = 253; size <= 255; size++) {
                uint8_t bytes[5 + 255 + 2] = {5, 1, 0, 3, (uint8_t)size};
                struct socks s = {.greeted = true};
                size_t used;

                for (unsigned i = 0; i < size; i++)
                        bytes[5 + i] = i % 2 ? '.' : 'a';
                bytes[5 + size] = 1;
                assert_int_equal(socks_feed(&s, bytes, 5 + size + 1, &used), SOCKS_MORE);
                assert_int_equal(socks_feed(&s, bytes, 5 + size + 2, &used), size < 255 ? SOCKS_REQUEST : SOCKS_REFUSED);
                if (size < 255)
                        assert_int_equal(strlen(s.host.text), 253);
        }
}

static void test_reply(void **state)
{
        uint8_t reply[SOCKS_REPLY_BYTES];

        socks_reply(SOCKS_OK, reply);
        assert_memory_equal(reply, "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00", sizeof(reply));
        socks_reply(SOCKS_NOT_ALLOWED, reply);
        assert_memory_equal(reply, "\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00", sizeof(reply));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_greeting),
                cmocka_unit_test(test_request),
                cmocka_unit_test(test_in_one_piece),
                cmocka_unit_test(test_long_names),
                cmocka_unit_test(test_reply),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
