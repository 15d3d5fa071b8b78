/* SPDX-License-Identifier: Apache-2.0 */
#include "http/uri.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_decode(void **state)
{
        static const struct {
                const char *text;
                bool plus;
                const char *expected; /* NULL: refused */
        } rows[] = {
                {"", false, ""}, {"abc", false, "abc"}, {"a%20b", false, "a b"}, {"a+b", false, "a+b"}, {"a+b%2B", true, "a b+"}, {"%C3%a9", false, "\xc3\xa9"},
                {"%2f%2E", false, "/."}, {"%25%32%35", false, "%25"}, {"%", false, NULL}, {"%1", false, NULL}, {"%1g", false, NULL}, {"%g1", false, NULL},
                {"a%", false, NULL}, {"%00", false, NULL}, {"a%00b", false, NULL}, {"%ff", false, NULL}, {"%c3", false, NULL}, {"%c0%af", false, NULL},
                {"%ed%a0%80", false, NULL}, {"% 1", false, NULL}, {"%+1", false, NULL}, {"%0x", false, NULL},
        };
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_free_ char *out = NULL;
                int r = uri_decode(rows[i].text, strlen(rows[i].text), rows[i].plus, &out);
                assert_int_equal(r, rows[i].expected ? 0 : -EINVAL);
                if (rows[i].expected)
                        assert_string_equal(out, rows[i].expected);
        }
        /* The end is the size's, not the text's. */
        _cleanup_free_ char *out = NULL;
        assert_int_equal(uri_decode("%41", 2, false, &out), -EINVAL);
}

static void test_query(void **state)
{
        _cleanup_uri_query_ struct uri_query *q = NULL, *none = NULL, *bad = NULL;

        assert_int_equal(uri_query_parse("a=1&b=x%3Dy=z&&c&=v&a=2", &q), 0);
        assert_int_equal(q->n, 5);
        assert_string_equal(q->items[0].name, "a");
        assert_string_equal(q->items[0].value, "1");
        assert_string_equal(q->items[1].value, "x=y=z");
        assert_string_equal(q->items[2].name, "c");
        assert_string_equal(q->items[2].value, "");
        assert_string_equal(q->items[3].name, "");
        assert_string_equal(q->items[4].value, "2");
        assert_int_equal(uri_query_parse(NULL, &none), 0);
        assert_int_equal(none->n, 0);
        assert_int_equal(uri_query_parse("a=%", &bad), -EINVAL);
        assert_int_equal(uri_query_parse("%00=1", &bad), -EINVAL);

        char many[4 * HTTP_QUERY_MAX + 8] = "";
        for (int i = 0; i < HTTP_QUERY_MAX + 1; i++)
                strcat(many, "a&");
        assert_int_equal(uri_query_parse(many, &bad), -E2BIG);
}

static void test_host(void **state)
{
        static const struct {
                const char *text, *name;
                bool ipv6;
                int port;
        } rows[] = {
                {"localhost", "localhost", false, -1}, {"LocalHost:80", "localhost", false, 80}, {"127.0.0.1:65535", "127.0.0.1", false, 65535},
                {"[::1]", "::1", true, -1}, {"[0:0:0:0:0:0:0:1]:8080", "::1", true, 8080}, {"a-b.c_d", "a-b.c_d", false, -1},
                {"", NULL}, {":80", NULL}, {"a:", NULL}, {"a:0", NULL}, {"a:65536", NULL}, {"a:99999999999", NULL}, {"a:8o", NULL}, {"a:-1", NULL}, {"a:80:80", NULL},
                {"[::1", NULL}, {"[::1]x", NULL}, {"[::1]:", NULL}, {"[]", NULL}, {"[a]", NULL}, {"[::1%25eth0]", NULL}, {"::1", NULL}, {"a b", NULL},
                {"a/b", NULL}, {"a@b", NULL}, {"user@localhost", NULL}, {"a..b", NULL}, {".a", NULL}, {"a.", NULL}, {"-a", NULL}, {"a,b", NULL}, {"a%2e", NULL}, {"\xc3\xa9", NULL},
        };
        struct uri_host host;

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                int r = uri_host_parse(rows[i].text, &host);
                assert_int_equal(r, rows[i].name ? 0 : -EINVAL);
                if (!rows[i].name)
                        continue;
                assert_string_equal(host.name, rows[i].name);
                assert_int_equal(host.ipv6, rows[i].ipv6);
                assert_int_equal(host.port, rows[i].port);
        }
        char longest[URI_HOST_MAX + 2];
        memset(longest, 'a', sizeof(longest));
        longest[URI_HOST_MAX] = '\0';
        assert_int_equal(uri_host_parse(longest, &host), -EINVAL);
        longest[URI_HOST_MAX - 1] = '\0';
        assert_int_equal(uri_host_parse(longest, &host), 0);
}

static void test_origin(void **state)
{
        struct uri_host host;
        bool secure;

        assert_int_equal(uri_origin_parse("http://a:1", &secure, &host), 0);
        assert_false(secure);
        assert_int_equal(host.port, 1);
        assert_int_equal(uri_origin_parse("https://[::1]", &secure, &host), 0);
        assert_true(secure);
        static const char *const refused[] = {"null", "", "http://", "HTTP://a", "ftp://a", "http://a/", "http://a/b", "http://a?b", "http://u@a", "//a", "a", "file://", "http://a b"};
        for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
                assert_int_equal(uri_origin_parse(refused[i], &secure, &host), -EINVAL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_decode),
                cmocka_unit_test(test_query),
                cmocka_unit_test(test_host),
                cmocka_unit_test(test_origin),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
