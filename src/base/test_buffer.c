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

static char piece[300000];

static void add_pieces(struct buffer *b, int n)
{
        for (int i = 0; i < n; i++) {
                memset(piece, 'a' + i, sizeof(piece));
                assert_int_equal(buffer_add(b, piece, sizeof(piece)), 0);
        }
}

static void test_large_secret_ones_have_pages_of_their_own(void **state)
{
        struct buffer b;

        buffer_init(&b, 100000000);
        b.secret = true;
        add_pieces(&b, 1);
        assert_false(b.mapped);
        add_pieces(&b, 20);
        assert_true(b.mapped);
        assert_int_equal(b.size, 21 * sizeof(piece));
        for (int i = 0; i < 21; i++)
                for (size_t at = 0; at < sizeof(piece); at += 7)
                        assert_int_equal(b.data[(size_t)i * sizeof(piece) + at], i < 1 ? 'a' : 'a' + i - 1);
        assert_int_equal(b.data[b.size], '\0');
        b.secret = false; /* that it is mapped stays true */
        add_pieces(&b, 26);
        assert_true(b.mapped);
        b.secret = true;
        buffer_done(&b);
        assert_true(b.secret && !b.mapped && !b.data && b.allocated == 0 && b.max == 100000000);
        assert_int_equal(buffer_add_string(&b, "again"), 0);
        assert_string_equal(b.data, "again");
        assert_int_equal(buffer_add(&b, NULL, 200000000), -EFBIG);
        buffer_done(&b);
}

static void test_large_others_have_not(void **state)
{
        _cleanup_buffer_ struct buffer b;

        buffer_init(&b, 100000000);
        add_pieces(&b, 20);
        assert_false(b.mapped);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_grows_and_terminates),
                cmocka_unit_test(test_cap_adds_nothing),
                cmocka_unit_test(test_large_secret_ones_have_pages_of_their_own),
                cmocka_unit_test(test_large_others_have_not),
                cmocka_unit_test(test_add_some),
                cmocka_unit_test(test_done_keeps_cap),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
