/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/archive.h"

#include "base/buffer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct text {
        const char *bytes;
        size_t size, at;
};

static int read_text(void *data, void *bytes, size_t size, gb_error *err)
{
        struct text *t = data;

        if (size > t->size - t->at)
                return error_set(err, GB_E_LOST, ENODATA, "cut off");
        memcpy(bytes, t->bytes + t->at, size);
        t->at += size;
        return 0;
}

static void add(struct buffer *out, const char *path, bool directory, const char *content, mode_t mode)
{
        static const char zeros[2 * ARCHIVE_BLOCK_BYTES];
        char head[ARCHIVE_HEAD_MAX];
        size_t size = strlen(content);

        long n = archive_head(head, path, directory, size, mode, 1700000000);
        assert_true(n > 0 && n % ARCHIVE_BLOCK_BYTES == 0);
        assert_int_equal(buffer_add(out, head, (size_t)n), 0);
        assert_int_equal(buffer_add(out, content, size), 0);
        assert_int_equal(buffer_add(out, zeros, -size & (ARCHIVE_BLOCK_BYTES - 1)), 0);
}

static void end(struct buffer *out)
{
        static const char zeros[2 * ARCHIVE_BLOCK_BYTES];

        assert_int_equal(buffer_add(out, zeros, sizeof(zeros)), 0);
}

static void test_there_and_back(void **state)
{
        _cleanup_buffer_ struct buffer out;
        char path[HOST_PATH_MAX], bytes[16];
        struct archive_entry e;
        gb_error err = {0};

        buffer_init(&out, MIB);
        add(&out, "dir", true, "", 0755);
        add(&out, "dir/a", false, "hello", 04755);
        /* Every length around those where the form changes. */
        for (size_t n = 95; n < 120; n++) {
                memset(path, 'p', n);
                path[n] = '\0';
                add(&out, path, false, "x", 0600);
        }
        end(&out);

        struct text text = {out.data, out.size, 0};
        struct archive a = {.read = read_text, .data = &text};
        assert_int_equal(archive_next(&a, &e, &err), 1);
        assert_string_equal(e.path, "dir");
        assert_int_equal(e.kind, 'd');
        assert_int_equal(archive_next(&a, &e, &err), 1);
        assert_string_equal(e.path, "dir/a");
        assert_int_equal(e.mode, 0755); /* and no more */
        assert_int_equal(e.size, 5);
        assert_int_equal(archive_content(&a, bytes, 5, &err), 0);
        assert_memory_equal(bytes, "hello", 5);
        assert_true(archive_content(&a, bytes, 1, &err) < 0);
        for (size_t n = 95; n < 120; n++) {
                assert_int_equal(archive_next(&a, &e, &err), 1);
                assert_int_equal(strlen(e.path), n);
                assert_int_equal(e.kind, 'f');
        }
        assert_int_equal(archive_next(&a, &e, &err), 0);
}

static void test_longest_path(void **state)
{
        char head[ARCHIVE_HEAD_MAX], path[HOST_PATH_MAX + 8];

        memset(path, 'p', sizeof(path));
        path[HOST_PATH_MAX - 1] = '\0';
        assert_true(archive_head(head, path, false, 1, 0644, 0) > 0);
        path[HOST_PATH_MAX - 1] = 'p';
        path[HOST_PATH_MAX] = '\0';
        assert_int_equal(archive_head(head, path, false, 1, 0644, 0), -ENAMETOOLONG);
        assert_int_equal(archive_head(head, "a", false, 1ULL << 33, 0644, 0), -ENAMETOOLONG);
}

/* An archive of one file with something changed at a place of its head. */
static int with_change(size_t at, const char *bytes, size_t size, struct archive_entry *e, gb_error *err)
{
        _cleanup_buffer_ struct buffer out;

        buffer_init(&out, MIB);
        add(&out, "file", false, "content", 0644);
        end(&out);
        memcpy(out.data + at, bytes, size);
        /* The sum is right again, so that what was changed is what counts. */
        unsigned sum = 0;
        memset(out.data + 148, ' ', 8);
        for (size_t i = 0; i < ARCHIVE_BLOCK_BYTES; i++)
                sum += (unsigned char)out.data[i];
        snprintf(out.data + 148, 8, "%06o", sum);

        struct text text = {out.data, out.size, 0};
        struct archive a = {.read = read_text, .data = &text};
        return archive_next(&a, e, err);
}

static void test_other_kinds_have_no_content(void **state)
{
        static const char kinds[] = "123467V";

        for (size_t i = 0; i < sizeof(kinds) - 1; i++) {
                struct archive_entry e;
                gb_error err = {0};
                assert_int_equal(with_change(156, &kinds[i], 1, &e, &err), 1);
                assert_int_equal(e.kind, 'l');
        }
}

static void test_what_is_broken(void **state)
{
        struct archive_entry e;
        gb_error err = {0};
        struct text text = {"", 0, 0};
        struct archive a = {.read = read_text, .data = &text};
        char noise[ARCHIVE_BLOCK_BYTES];

        assert_true(archive_next(&a, &e, &err) < 0);
        assert_int_equal(err.code, GB_E_LOST);
        memset(noise, 'n', sizeof(noise));
        text = (struct text){noise, sizeof(noise), 0};
        assert_true(archive_next(&a, &e, &err) < 0);
        assert_int_equal(err.code, GB_E_PROTOCOL);
        assert_true(with_change(124, "99999999999", 11, &e, &err) < 0);
        assert_true(with_change(124, "\x80\0\0\0\0\0\0\1\0\0\0\0", 12, &e, &err) < 0);
        assert_true(with_change(100, "7777-77", 7, &e, &err) < 0);
}

static int with_records(const char *records, struct archive_entry *e, gb_error *err)
{
        _cleanup_buffer_ struct buffer out;

        buffer_init(&out, MIB);
        add(&out, "pax", false, records, 0644);
        out.data[156] = 'x';
        unsigned sum = 0;
        memset(out.data + 148, ' ', 8);
        for (size_t i = 0; i < ARCHIVE_BLOCK_BYTES; i++)
                sum += (unsigned char)out.data[i];
        snprintf(out.data + 148, 8, "%06o", sum);
        add(&out, "file", false, "content", 0644);
        end(&out);
        struct text text = {out.data, out.size, 0};
        struct archive a = {.read = read_text, .data = &text};
        return archive_next(&a, e, err);
}

static void test_records(void **state)
{
        static const char *const wrong[] = {"x", "5", "0 path=\n", "3 a", "99 path=a\n", "12 path=ab\n", "9 pathaa\n", "18446744073709551616 path=a\n",
                                            "10 path=a\n1", "12 size=-12\n"};
        struct archive_entry e;
        gb_error err = {0};

        assert_int_equal(with_records("15 path=in/dir\n19 comment=whatever\n", &e, &err), -EBADMSG); /* 19 is 20 */
        assert_int_equal(with_records("15 path=in/dir\n20 comment=whatever\n", &e, &err), 1);
        assert_string_equal(e.path, "in/dir");
        assert_int_equal(with_records("9 size=3\n", &e, &err), 1);
        assert_int_equal(e.size, 3);
        assert_string_equal(e.path, "file");
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
                if (with_records(wrong[i], &e, &err) >= 0)
                        fail_msg("%s was taken", wrong[i]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_longest_path), cmocka_unit_test(test_other_kinds_have_no_content),
                cmocka_unit_test(test_what_is_broken), cmocka_unit_test(test_records),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
