/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include "base/macro.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_decode(void **state)
{
        static const struct {
                const char *text;
                size_t n;
                uint32_t c;
        } rows[] = {
                {"a", 1, 'a'}, {"\xc3\xbc", 2, 0xfc}, {"\xe2\x82\xac", 3, 0x20ac}, {"\xf0\x9f\x90\xb1", 4, 0x1f431},
                {"\xc3", 0, 0}, {"\xc3(", 0, 0}, {"\x80", 0, 0}, {"\xff", 0, 0}, {"\xc0\x80", 0, 0},
                {"\xe0\x80\x80", 0, 0}, {"\xed\xa0\x80", 0, 0}, {"\xf4\x90\x80\x80", 0, 0}, {"", 0, 0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                uint32_t c = 0;
                assert_int_equal(utf8_decode(rows[i].text, strlen(rows[i].text), &c), rows[i].n);
                assert_int_equal(c, rows[i].c);
        }
}

static void test_quote(void **state)
{
        char big[400];

        assert_string_equal(quote("").text, "\"\"");
        assert_string_equal(quote("512m").text, "\"512m\"");
        assert_string_equal(quote("a\"b\\").text, "\"a\\\"b\\\\\"");
        assert_string_equal(quote("\x1b[2J\n").text, "\"\\x1b[2J\\x0a\"");
        assert_string_equal(quote("\xc3\xbc\xff").text, "\"\xc3\xbc\\xff\"");
        assert_string_equal(quote("\xc2\x9b").text, "\"\\xc2\\x9b\"");
        assert_string_equal(quote("\xe2\x80\xae").text, "\"\\xe2\\x80\\xae\"");
        memset(big, 'x', sizeof(big) - 1);
        big[sizeof(big) - 1] = '\0';
        struct quoted q = quote(big);
        assert_true(strlen(q.text) < QUOTED_MAX);
        assert_string_equal(q.text + strlen(q.text) - 5, "x...\"");
}

static void test_quote_path(void **state)
{
        char big[400];

        assert_string_equal(quote_path("/etc/a \"b\"").text, "/etc/a \"b\"");
        assert_string_equal(quote_path("a\nb").text, "a\\x0ab");
        memset(big, 1, sizeof(big));
        strcpy(big + sizeof(big) - 8, "/x.yaml");
        assert_true(strlen(quote_path(big).text) < QUOTED_MAX);
        memset(big, 'x', sizeof(big) - 8);
        struct quoted q = quote_path(big);
        assert_int_equal(strncmp(q.text, "...xxx", 6), 0);
        assert_string_equal(q.text + strlen(q.text) - 7, "/x.yaml");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_decode),
                cmocka_unit_test(test_quote),
                cmocka_unit_test(test_quote_path),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
