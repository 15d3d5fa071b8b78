/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads of tar archives, and the set of paths. That others read the archives is tested end to end. */
#include "base/path_set.h"
#include "server/archive.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static size_t header_of(const char *path, const struct stat *st, char **ret)
{
        struct buffer b;

        buffer_init(&b, 64 * KIB);
        assert_int_equal(tar_add_header(&b, path, st), 0);
        assert_int_equal(b.size % TAR_BLOCK_BYTES, 0);
        *ret = b.data;
        return b.size;
}

static unsigned long octal(const char *field, size_t size)
{
        char text[16] = "";

        memcpy(text, field, size);
        return strtoul(text, NULL, 8);
}

/* As every reader does. */
static void check_sum(const char *block)
{
        unsigned long sum = 0;

        for (int i = 0; i < TAR_BLOCK_BYTES; i++)
                sum += i >= 148 && i < 156 ? ' ' : (unsigned char)block[i];
        assert_int_equal(octal(block + 148, 8), sum);
        assert_memory_equal(block + 257, "ustar\00000", 8);
}

static void test_plain(void **state)
{
        struct stat st = {.st_mode = S_IFREG | 04755, .st_size = 1234, .st_mtime = 1700000000};
        char *b;

        assert_int_equal(header_of("a/b", &st, &b), TAR_BLOCK_BYTES);
        check_sum(b);
        assert_string_equal(b, "a/b");
        assert_int_equal(octal(b + 100, 8), 0755); /* no set-user-id bit */
        assert_int_equal(octal(b + 108, 8), 1000);
        assert_int_equal(octal(b + 116, 8), 1000);
        assert_int_equal(octal(b + 124, 12), 1234);
        assert_int_equal(octal(b + 136, 12), 1700000000);
        assert_int_equal(b[156], '0');
        free(b);
        st.st_mode = S_IFDIR | 01777;
        assert_int_equal(header_of("d", &st, &b), TAR_BLOCK_BYTES);
        check_sum(b);
        assert_string_equal(b, "d/");
        assert_int_equal(octal(b + 100, 8), 0777);
        assert_int_equal(octal(b + 124, 12), 0);
        assert_int_equal(b[156], '5');
        free(b);
}

static void test_times(void **state)
{
        static const struct {
                int64_t time;
                uint64_t becomes;
        } rows[] = {{-1, 0}, {INT64_MIN, 0}, {0, 0}, {077777777777, 077777777777}, {077777777777 + 1LL, 077777777777}, {INT64_MAX, 077777777777}};
        char *b;

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct stat st = {.st_mode = S_IFREG | 0644, .st_mtime = rows[i].time};
                header_of("f", &st, &b);
                assert_int_equal(octal(b + 136, 12), rows[i].becomes);
                free(b);
        }
}

/* A path of each length comes back whole: in the fields, or by the record before. */
static void test_paths(void **state)
{
        struct stat st = {.st_mode = S_IFREG | 0644};
        char path[HOST_PATH_MAX], whole[HOST_PATH_MAX + 64], *b;

        for (size_t size = 1; size < sizeof(path); size = size < 300 ? size + 1 : size + 97) {
                for (size_t i = 0; i < size; i++)
                        path[i] = i % 60 == 30 && i + 1 < size ? '/' : 'a' + (char)(i % 26);
                path[size] = '\0';
                size_t n = header_of(path, &st, &b);
                check_sum(b);
                if (b[156] == 'x') {
                        size_t records = octal(b + 124, 12);
                        snprintf(whole, sizeof(whole), "%d path=%s\n", (int)records, path);
                        assert_int_equal(strlen(whole), records);
                        assert_memory_equal(b + TAR_BLOCK_BYTES, whole, records);
                        check_sum(b + n - TAR_BLOCK_BYTES);
                } else if (b[345]) {
                        snprintf(whole, sizeof(whole), "%.155s/%.100s", b + 345, b);
                        assert_string_equal(whole, path);
                } else {
                        snprintf(whole, sizeof(whole), "%.100s", b);
                        assert_string_equal(whole, path);
                }
                free(b);
        }
}

static void test_large(void **state)
{
        struct stat st = {.st_mode = S_IFREG | 0644, .st_size = 1LL << 40};
        char *b;

        assert_int_equal(header_of("large", &st, &b), 3 * TAR_BLOCK_BYTES);
        assert_int_equal(b[156], 'x');
        assert_memory_equal(b + TAR_BLOCK_BYTES, "22 size=1099511627776\n", 22);
        assert_string_equal(b + 2 * TAR_BLOCK_BYTES, "large");
        free(b);
}

static void test_set(void **state)
{
        struct path_set *s;

        assert_int_equal(path_set_new(8, &s), 0);
        assert_int_equal(path_set_add(s, "a/b/c", false), 0);
        assert_int_equal(path_set_size(s), 3);
        assert_int_equal(path_set_add(s, "a", true), 0);
        assert_int_equal(path_set_add(s, "a/b", true), 0);
        assert_int_equal(path_set_size(s), 3);
        assert_int_equal(path_set_add(s, "a/b/c", false), -EEXIST);
        assert_int_equal(path_set_add(s, "a/b/c", true), -EEXIST);
        assert_int_equal(path_set_add(s, "a/b", false), -EEXIST);
        assert_int_equal(path_set_add(s, "a/b/c/d", false), -EEXIST);
        assert_int_equal(path_set_add(s, "ab", false), 0);
        assert_int_equal(path_set_add(s, "x/y/z", true), 0);
        assert_int_equal(path_set_size(s), 7);
        assert_int_equal(path_set_add(s, "p/q", false), -E2BIG);
        path_set_free(s);
        path_set_free(NULL);
}

static void test_many(void **state)
{
        struct path_set *s;
        char path[32];

        assert_int_equal(path_set_new(200000, &s), 0);
        for (int round = 0; round < 2; round++)
                for (int i = 0; i < 100000; i++) {
                        snprintf(path, sizeof(path), "d%d/%d", i % 100, i);
                        assert_int_equal(path_set_add(s, path, false), round == 0 ? 0 : -EEXIST);
                }
        assert_int_equal(path_set_size(s), 100100);
        path_set_free(s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_plain), cmocka_unit_test(test_times), cmocka_unit_test(test_paths), cmocka_unit_test(test_large),
                cmocka_unit_test(test_set), cmocka_unit_test(test_many),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
