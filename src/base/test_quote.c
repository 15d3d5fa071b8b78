/* SPDX-License-Identifier: Apache-2.0 */
#include "base/quote.h"

#include "base/macro.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

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
                cmocka_unit_test(test_quote),
                cmocka_unit_test(test_quote_path),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
