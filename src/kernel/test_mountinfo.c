/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/mountinfo.h"

#include "base/macro.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

static void test_fields(void **state)
{
        char text[] = "36 35 98:7 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n";
        char *cursor = text;
        struct mountinfo m;

        assert_int_equal(mountinfo_next(&cursor, &m), 1);
        assert_int_equal(m.id, 36);
        assert_int_equal(m.parent_id, 35);
        assert_true(m.dev == makedev(98, 7));
        assert_string_equal(m.root, "/mnt1");
        assert_string_equal(m.target, "/mnt2");
        assert_string_equal(m.options, "rw,noatime");
        assert_string_equal(m.type, "ext3");
        assert_string_equal(m.source, "/dev/root");
        assert_string_equal(m.super_options, "rw,errors=continue");
        assert_int_equal(mountinfo_next(&cursor, &m), 0);
        assert_int_equal(mountinfo_next(&cursor, &m), 0);
}

static void test_optional_fields(void **state)
{
        char text[] = "1 2 0:3 / /none rw - tmpfs tmpfs rw\n"
                      "4 2 0:5 / /three rw shared:1 master:2 propagate_from:9 - proc proc rw\n"
                      "6 2 0:7 / /dash - - ramfs - ro\n"
                      "8 2 0:9 / /empty rw shared:1 - overlay  rw";
        char *cursor = text;
        struct mountinfo m;

        assert_int_equal(mountinfo_next(&cursor, &m), 1);
        assert_string_equal(m.type, "tmpfs");
        assert_int_equal(mountinfo_next(&cursor, &m), 1);
        assert_string_equal(m.target, "/three");
        assert_string_equal(m.type, "proc");
        assert_int_equal(mountinfo_next(&cursor, &m), 1); /* options and source may look like the end mark */
        assert_string_equal(m.options, "-");
        assert_string_equal(m.type, "ramfs");
        assert_string_equal(m.source, "-");
        assert_int_equal(mountinfo_next(&cursor, &m), 1);
        assert_string_equal(m.source, "");
        assert_string_equal(m.super_options, "rw");
        assert_int_equal(mountinfo_next(&cursor, &m), 0);
}

static void test_escapes(void **state)
{
        char text[] = "1 2 0:3 /a\\040b /c\\011d\\012e\\134f\\043g rw - tmpfs a\\040source rw\n"
                      "1 2 0:3 /\\000x /\\04 rw - tmpfs \\777 rw,\\\n"
                      "1 2 0:3 /\\134040 /\\377 rw - t s rw\n";
        char *cursor = text;
        struct mountinfo m;

        assert_int_equal(mountinfo_next(&cursor, &m), 1);
        assert_string_equal(m.root, "/a b");
        assert_string_equal(m.target, "/c\td\ne\\f#g");
        assert_string_equal(m.source, "a source");
        assert_int_equal(mountinfo_next(&cursor, &m), 1); /* no escapes: left as they are */
        assert_string_equal(m.root, "/\\000x");
        assert_string_equal(m.target, "/\\04");
        assert_string_equal(m.source, "\\777");
        assert_string_equal(m.super_options, "rw,\\");
        assert_int_equal(mountinfo_next(&cursor, &m), 1); /* unescaped once only */
        assert_string_equal(m.root, "/\\040");
        assert_string_equal(m.target, "/\377");
}

static void test_malformed(void **state)
{
        static const char *const bad[] = {
                "",
                "x",
                "1 2 0:3 / / rw - tmpfs tmpfs",          /* too short */
                "1 2 0:3 / / rw shared:1 tmpfs s rw",    /* no end of the optional fields */
                "x 2 0:3 / / rw - tmpfs tmpfs rw",
                "1 -2 0:3 / / rw - tmpfs tmpfs rw",
                "1 2 03 / / rw - tmpfs tmpfs rw",
                "1 2 0: / / rw - tmpfs tmpfs rw",
                "1 2 0:3x / / rw - tmpfs tmpfs rw",
                "99999999999999999999 2 0:3 / / rw - tmpfs tmpfs rw",
        };

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                char text[256];
                struct mountinfo m = { .id = -7 };
                char *cursor = text;

                strcpy(text, bad[i]);
                strcat(text, "\n1 2 0:3 / /good rw - tmpfs tmpfs rw\n");
                assert_int_equal(mountinfo_next(&cursor, &m), -EINVAL);
                assert_int_equal(m.id, -7);
                assert_int_equal(mountinfo_next(&cursor, &m), 1);
                assert_string_equal(m.target, "/good");
        }
}

static void test_has_option(void **state)
{
        assert_true(mountinfo_has_option("rw,cpu,cpuacct", "cpu"));
        assert_true(mountinfo_has_option("rw,cpu,cpuacct", "cpuacct"));
        assert_true(mountinfo_has_option("memory", "memory"));
        assert_false(mountinfo_has_option("rw,cpuacct", "cpu"));
        assert_false(mountinfo_has_option("rw,xcpu", "cpu"));
        assert_false(mountinfo_has_option("", "cpu"));
        assert_false(mountinfo_has_option("rw,", "cpu"));
}

/* The table of the machine itself: every line is understood, and /proc is what stat() says. */
static void test_own_table(void **state)
{
        _cleanup_free_ char *text = NULL;
        struct mountinfo m;
        struct stat st;
        int r, proc = 0;
        size_t count = 0;

        assert_int_equal(mountinfo_load(&text), 0);
        assert_int_equal(stat("/proc", &st), 0);
        char *cursor = text;
        while ((r = mountinfo_next(&cursor, &m)) != 0) {
                assert_int_equal(r, 1);
                assert_true(m.id > 0);
                count++;
                if (strcmp(m.target, "/proc") == 0 && m.dev == st.st_dev)
                        proc++;
        }
        assert_true(count > 0);
        assert_true(proc > 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_fields),     cmocka_unit_test(test_optional_fields),
                cmocka_unit_test(test_escapes),    cmocka_unit_test(test_malformed),
                cmocka_unit_test(test_has_option), cmocka_unit_test(test_own_table),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
