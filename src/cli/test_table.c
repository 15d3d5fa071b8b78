/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/table.h"

#include "cli/human.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct table_column columns[] = {{.title = "ID"}, {.title = "NAME", .min = 6}, {.title = "N", .right = true}, {.title = "LAST", .min = 4}};

#define ROW(...) table_add(&t, (const char *const[]){__VA_ARGS__})

static void check(const struct table *t, unsigned width, const char *expected)
{
        _cleanup_buffer_ struct buffer out;

        buffer_init(&out, 65536);
        assert_int_equal(table_write(t, 0, SIZE_MAX, width, false, &out), 0);
        assert_string_equal(out.data, expected);
}

static void test_columns_fit_what_is_in_them(void **state)
{
        _cleanup_table_ struct table t;

        table_init(&t, columns, ARRAY_SIZE(columns));
        check(&t, 0, "ID  NAME  N  LAST\n");
        ROW("abcdef", "a", "7", "end");
        ROW("b", NULL, "1000", "");
        check(&t, 0, "ID      NAME     N  LAST\n"
                     "abcdef  a        7  end\n"
                     "b       -     1000  -\n");
}

static void test_narrow_terminals(void **state)
{
        _cleanup_table_ struct table t;

        table_init(&t, columns, ARRAY_SIZE(columns));
        ROW("abcdef", "a long name that goes on", "1", "something long");
        check(&t, 34, "ID      NAME        N  LAST\n"
                      "abcdef  a long na~  1  something ~\n");
        /* What may not give way does not, however narrow it becomes. */
        check(&t, 5, "ID      NAME    N  LAST\n"
                     "abcdef  a lon~  1  som~\n");
}

static void test_columns_that_can_be_left_out(void **state)
{
        static const struct table_column some[] = {{.title = "ONE"}, {.title = "TWO", .drop = 1}, {.title = "THREE", .drop = 2}, {.title = "LAST", .right = true}};
        _cleanup_table_ struct table t;

        table_init(&t, some, ARRAY_SIZE(some));
        ROW("1", "2", "3", "4");
        check(&t, 21, "ONE  TWO  THREE  LAST\n1    2    3         4\n");
        check(&t, 20, "ONE  TWO  LAST\n1    2       4\n");
        check(&t, 13, "ONE  LAST\n1       4\n");
        check(&t, 1, "ONE  LAST\n1       4\n");
}

static void test_controls_and_widths(void **state)
{
        _cleanup_table_ struct table t;

        table_init(&t, columns, ARRAY_SIZE(columns));
        ROW("a\nb", "\033[31mred\033[0m", "1", "x\ty");
        ROW("\xe4\xbd\xa0\xe5\xa5\xbd", "gr\xc3\xbc\xc3\x9f", "1", "\xff");
        check(&t, 0, "ID    NAME            N  LAST\n"
                     "a^Jb  ^[[31mred^[[0m  1  x^Iy\n"
                     "\xe4\xbd\xa0\xe5\xa5\xbd  gr\xc3\xbc\xc3\x9f            1  \\xff\n");
        assert_int_equal(text_width("\xe4\xbd\xa0"), 2);
        assert_int_equal(text_width("e\xcc\x81"), 1);
}

static void test_part_of_the_rows(void **state)
{
        _cleanup_table_ struct table t;
        _cleanup_buffer_ struct buffer out;

        table_init(&t, columns, 1);
        buffer_init(&out, 65536);
        ROW("a");
        ROW("b");
        ROW("c");
        assert_int_equal(table_write(&t, 1, 1, 0, true, &out), 0);
        assert_string_equal(out.data, "\033[1mID\033[0m\nb\n");
        table_clear(&t);
        out.size = 0;
        assert_int_equal(table_write(&t, 1, 1, 0, false, &out), 0);
        assert_string_equal(out.data, "ID\n");
}

static void test_numbers(void **state)
{
        char buf[HUMAN_TEXT_MAX];
        uint64_t usec;

        assert_string_equal(human_size(0, buf), "0B");
        assert_string_equal(human_size(999, buf), "999B");
        assert_string_equal(human_size(1000, buf), "1.0K");
        assert_string_equal(human_size(1024 * 1024, buf), "1.0M");
        assert_string_equal(human_size(512ULL << 20, buf), "512M");
        assert_string_equal(human_size(UINT64_MAX, buf), "16384P");
        assert_string_equal(human_age(0, buf), "0s");
        assert_string_equal(human_age(119000000, buf), "119s");
        assert_string_equal(human_age(120000000, buf), "2m");
        assert_string_equal(human_age(172800000000, buf), "2d");
        assert_string_equal(human_time(51234, buf), "0.05s");
        assert_string_equal(human_time(12340000, buf), "12.3s");
        assert_string_equal(human_time(200000000, buf), "3m20s");
        assert_string_equal(human_time(3660000000, buf), "1h01m");
        assert_int_equal(human_parse_time("1970-01-01T00:00:01.500000Z", &usec), 0);
        assert_int_equal(usec, 1500000);
        assert_true(human_parse_time("1970-01-01 00:00:01Z", &usec) < 0);
        assert_true(human_parse_time("1970-01-01T00:00:01", &usec) < 0);
        assert_true(human_parse_time("", &usec) < 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_columns_fit_what_is_in_them), cmocka_unit_test(test_narrow_terminals),
                cmocka_unit_test(test_controls_and_widths),         cmocka_unit_test(test_part_of_the_rows),
                cmocka_unit_test(test_numbers),
                cmocka_unit_test(test_columns_that_can_be_left_out),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
