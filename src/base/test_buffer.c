/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buffer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_grows_and_terminates(void **state)
{
        _cleanup_buffer_ struct buffer b;
        char chunk[100];

        memset(chunk, 'x', sizeof(chunk));
        buffer_init(&b, 100000);
        assert_int_equal(buffer_add(&b, NULL, 0), 0);
        assert_string_equal(b.data, "");
        for (int i = 0; i < 50; i++)
                assert_int_equal(buffer_add(&b, chunk, sizeof(chunk)), 0);
        assert_int_equal(b.size, 5000);
        assert_int_equal(strlen(b.data), 5000);
        assert_int_equal(buffer_add_string(&b, "end"), 0);
        assert_int_equal(buffer_printf(&b, " %d", 42), 0);
        assert_string_equal(b.data + 5000, "end 42");
}

static void test_cap_adds_nothing(void **state)
{
        _cleanup_buffer_ struct buffer b;

        buffer_init(&b, 4);
        assert_int_equal(buffer_add_string(&b, "abc"), 0);
        assert_int_equal(buffer_add_string(&b, "de"), -EFBIG);
        assert_int_equal(buffer_printf(&b, "%s", "de"), -EFBIG);
        assert_int_equal(buffer_add(&b, "x", SIZE_MAX), -EFBIG);
        assert_string_equal(b.data, "abc");
        assert_int_equal(buffer_add_string(&b, "d"), 0);
        assert_int_equal(b.size, 4);
}

static void test_add_some(void **state)
{
        _cleanup_buffer_ struct buffer b;

        buffer_init(&b, 4);
        assert_int_equal(buffer_add_some(&b, "abc", 3), 3);
        assert_int_equal(buffer_add_some(&b, "def", 3), 1);
        assert_int_equal(buffer_add_some(&b, "ghi", 3), 0);
        assert_string_equal(b.data, "abcd");
}

static void test_done_keeps_cap(void **state)
{
        struct buffer b;

        buffer_init(&b, 4);
        assert_int_equal(buffer_add_string(&b, "abcd"), 0);
        buffer_done(&b);
        assert_null(b.data);
        assert_int_equal(b.size, 0);
        assert_int_equal(buffer_add_string(&b, "abcde"), -EFBIG);
        assert_int_equal(buffer_add_string(&b, "abcd"), 0);
        buffer_done(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_grows_and_terminates),
                cmocka_unit_test(test_cap_adds_nothing),
                cmocka_unit_test(test_add_some),
                cmocka_unit_test(test_done_keeps_cap),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
