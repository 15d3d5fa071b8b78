/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"

#include "base/limits.h"
#include "base/macro.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

struct row {
        const char *text;
        int r;
        uint64_t value;
};

static void check_rows(int (*parse)(const char *, uint64_t *), const struct row *rows, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                uint64_t v = 77;
                int r = parse(rows[i].text, &v);
                uint64_t want = rows[i].r < 0 ? 77 : rows[i].value; /* untouched on failure */
                if (r != rows[i].r || v != want)
                        fail_msg("\"%s\": %d, %ju", rows[i].text, r, (uintmax_t)v);
        }
}

static void test_size(void **state)
{
        static const struct row rows[] = {
                {"0", 0, 0}, {"1", 0, 1}, {"1b", 0, 1}, {"100k", 0, 100 * KIB}, {"512m", 0, 512 * MIB},
                {"512mb", 0, 512 * MIB}, {"512MB", 0, 512 * MIB}, {"1GiB", 0, GIB}, {"2T", 0, 2048 * GIB},
                {"18446744073709551615", 0, UINT64_MAX}, {"16777215t", 0, 16777215 * (1024 * GIB)},
                {"18446744073709551616", -ERANGE}, {"16777216t", -ERANGE},
                {"99999999999999999999999999m", -ERANGE}, {"99999999999999999999999999x", -EINVAL},
                {"", -EINVAL}, {"m", -EINVAL}, {"-1", -EINVAL}, {"+1", -EINVAL}, {" 1", -EINVAL}, {"1 ", -EINVAL},
                {"1 m", -EINVAL}, {"1.5g", -EINVAL}, {"0x10", -EINVAL}, {"1e3", -EINVAL}, {"nan", -EINVAL},
                {"inf", -EINVAL}, {"1mm", -EINVAL}, {"1ib", -EINVAL}, {"1bb", -EINVAL},
        };
        check_rows(parse_size, rows, ARRAY_SIZE(rows));
}

static void test_duration(void **state)
{
        static const struct row rows[] = {
                {"0", 0, 0}, {"30", 0, 30000000}, {"30s", 0, 30000000}, {"30S", 0, 30000000}, {"2m", 0, 120000000},
                {"2min", 0, 120000000}, {"1h", 0, 3600000000}, {"500ms", 0, 500000}, {"1.5s", 0, 1500000},
                {"1.5", 0, 1500000}, {"0.000001", 0, 1}, {"0.5ms", 0, 500}, {"0.5h", 0, 1800000000},
                {"1.0000000", 0, 1000000}, {"0.000001ms", 0, 0},
                {"0.0000001", -EINVAL}, {"1.", -EINVAL}, {".5", -EINVAL}, {"", -EINVAL}, {"s", -EINVAL},
                {"-1", -EINVAL}, {"+1", -EINVAL}, {"nan", -EINVAL}, {"NaN", -EINVAL}, {"inf", -EINVAL},
                {"1e308", -EINVAL}, {"1e3", -EINVAL}, {"30 s", -EINVAL}, {"30sec", -EINVAL}, {"1d", -EINVAL},
                {"1.2.3", -EINVAL}, {"30s ", -EINVAL},
                {"18446744073709551615", -ERANGE}, {"99999999999999999999", -ERANGE}, {"9999999999999999h", -ERANGE},
                {"18446744073709.551616", -ERANGE}, {"18446744073709.551615", 0, UINT64_MAX},
        };
        check_rows(parse_duration, rows, ARRAY_SIZE(rows));
}

static void test_count(void **state)
{
        static const struct row rows[] = {
                {"0", 0, 0}, {"128", 0, 128}, {"007", 0, 7}, {"18446744073709551615", 0, UINT64_MAX},
                {"18446744073709551616", -ERANGE}, {"", -EINVAL}, {"-1", -EINVAL}, {"1.0", -EINVAL}, {"1k", -EINVAL},
                {"0x1", -EINVAL}, {" 1", -EINVAL}, {"99999999999999999999z", -EINVAL},
        };
        check_rows(parse_count, rows, ARRAY_SIZE(rows));
}

static void test_cpus(void **state)
{
        static const struct row rows[] = {
                {"1", 0, 1000}, {"0.5", 0, 500}, {"2", 0, 2000}, {"0.001", 0, 1}, {"1.2500", 0, 1250}, {"0", 0, 0},
                {"0.0001", -EINVAL}, {"", -EINVAL}, {"-1", -EINVAL}, {"1m", -EINVAL}, {"nan", -EINVAL},
                {".5", -EINVAL}, {"1.", -EINVAL}, {"1e2", -EINVAL}, {"99999999999999999999", -ERANGE},
                {"18446744073709551", 0, 18446744073709551000ULL}, {"18446744073709552", -ERANGE},
        };
        check_rows(parse_cpus, rows, ARRAY_SIZE(rows));
}

static void test_format(void **state)
{
        char buf[FORMAT_MAX];

        assert_string_equal(format_size(512 * MIB, buf), "512m");
        assert_string_equal(format_size(1024 * GIB, buf), "1t");
        assert_string_equal(format_size(1025, buf), "1025");
        assert_string_equal(format_size(0, buf), "0");
        assert_string_equal(format_duration(30000000, buf), "30s");
        assert_string_equal(format_duration(86400000000, buf), "24h");
        assert_string_equal(format_duration(1500000, buf), "1.5s");
        assert_string_equal(format_duration(1000, buf), "1ms");
        assert_string_equal(format_duration(1050, buf), "1.05ms");
        assert_string_equal(format_duration(0, buf), "0s");
        assert_string_equal(format_cpus(1000, buf), "1");
        assert_string_equal(format_cpus(50, buf), "0.05");
}

static void test_format_reads_back(void **state)
{
        static const uint64_t values[] = {0, 1, 999, 1000, 1001, 1024, 65536, 1000000, 1000001, 60000000, 3600000000, UINT64_MAX};
        char buf[FORMAT_MAX];

        for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
                uint64_t v;
                assert_int_equal(parse_size(format_size(values[i], buf), &v), 0);
                assert_int_equal(v, values[i]);
                assert_int_equal(parse_duration(format_duration(values[i], buf), &v), 0);
                assert_int_equal(v, values[i]);
                assert_int_equal(parse_cpus(format_cpus(values[i], buf), &v), 0);
                assert_int_equal(v, values[i]);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_size),   cmocka_unit_test(test_duration), cmocka_unit_test(test_count),
                cmocka_unit_test(test_cpus),   cmocka_unit_test(test_format),   cmocka_unit_test(test_format_reads_back),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
