/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "engine/place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[64];

static int make_tree(void **state)
{
        strcpy(top, "/tmp/glovebox-test-XXXXXX");
        if (!mkdtemp(top) || chdir(top) < 0 || mkdir("real", 0755) < 0 || mkdir("real/sub", 0755) < 0)
                return -1;
        if (symlink("real", "link") < 0 || symlink("/", "root") < 0 || symlink("loop", "loop") < 0)
                return -1;
        safe_close(open("real/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
        return 0;
}

static int remove_tree(void **state)
{
        char command[128];

        snprintf(command, sizeof(command), "rm -rf %s", top);
        return chdir("/") == 0 && system(command) == 0 ? 0 : -1;
}

static void assert_same(const char *path, const char *other, int flags)
{
        struct stat a, b;
        _cleanup_close_ int fd = place_open(path, flags);

        assert_true(fd >= 0);
        assert_int_equal(fstat(fd, &a), 0);
        assert_int_equal(stat(other, &b), 0);
        assert_true(a.st_ino == b.st_ino && a.st_dev == b.st_dev);
}

static void assert_fails(const char *path, int errnum)
{
        assert_int_equal(place_open(path, O_PATH), -1);
        assert_int_equal(errno, errnum);
}

static void test_finds_what_open_finds(void **state)
{
        char absolute[128];

        assert_same("real", "real", O_RDONLY | O_DIRECTORY);
        assert_same("./real//sub/", "real/sub", O_RDONLY | O_DIRECTORY);
        assert_same("link/sub/..", "real", O_RDONLY | O_DIRECTORY);
        assert_same("real/file", "real/file", O_PATH);
        assert_same("root/tmp", "/tmp", O_PATH);
        assert_same("/", "/", O_RDONLY | O_DIRECTORY);
        snprintf(absolute, sizeof(absolute), "%s/link/sub", top);
        assert_same(absolute, "real/sub", O_PATH);
}

static void test_fails_as_open_does(void **state)
{
        char longest[5000];

        assert_fails("", ENOENT);
        assert_fails("missing", ENOENT);
        assert_fails("real/file/x", ENOTDIR);
        assert_fails("loop", ELOOP);
        memset(longest, 'a', sizeof(longest));
        longest[sizeof(longest) - 1] = '\0';
        assert_fails(longest, ENAMETOOLONG);
        assert_int_equal(place_open("real/file", O_RDONLY | O_DIRECTORY), -1);
        assert_int_equal(errno, ENOTDIR);
}

static void test_links_of_others_are_not_followed(void **state)
{
        if (geteuid() != 0)
                skip(); /* only root can make a link of another user */
        assert_int_equal(lchown("link", 12345, 12345), 0);
        assert_fails("link", EXDEV);
        assert_fails("link/sub", EXDEV);
        assert_same("real/sub", "real/sub", O_PATH);
        assert_int_equal(lchown("link", 0, 0), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_finds_what_open_finds), cmocka_unit_test(test_fails_as_open_does),
                cmocka_unit_test(test_links_of_others_are_not_followed),
        };
        return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
