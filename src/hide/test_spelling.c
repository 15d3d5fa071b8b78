/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that a directory does not list, on file systems that are made up: which they are is said by fstatfs(), and a name in the other case is a hard link. */
#include "hide/spelling.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cmocka.h>

static long fs_type;
static unsigned looked;

/* As the linker calls it: sizes are of 64 bits. */
int __wrap_fstatfs64(int fd, struct statfs *st);
int __wrap_fstatfs64(int fd, struct statfs *st)
{
        looked++;
        *st = (struct statfs){.f_type = fs_type};
        return 0;
}

/* A path with "@" is found as one without it: the second name of a file. */
int tree_open(const struct hide_tree *t, const char *path, uint64_t flags)
{
        char plain[256];
        size_t n = 0;

        for (; *path && n + 1 < sizeof(plain); path++)
                if (*path != '@')
                        plain[n++] = *path;
        plain[n] = '\0';
        int fd = openat(t->root, plain[1] ? plain + 1 : ".", (int)flags | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

static void make(int root, const char *name)
{
        int fd = openat(root, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        safe_close(fd);
}

static int make_tree(struct hide_tree *t, char *path)
{
        assert_non_null(mkdtemp(path));
        t->root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(mkdirat(t->root, "d", 0700), 0);
        assert_int_equal(mkdirat(t->root, "d/e", 0700), 0);
        make(t->root, "f");
        make(t->root, "d/f");
        make(t->root, "d/e/f");
        return t->root;
}

static void remove_tree(struct hide_tree *t, const char *path, const char *further)
{
        static const char *const names[] = {"d/e/f", "d/f", "f"};

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                assert_int_equal(unlinkat(t->root, names[i], 0), 0);
        if (further)
                assert_int_equal(unlinkat(t->root, further, 0), 0);
        assert_int_equal(unlinkat(t->root, "d/e", AT_REMOVEDIR), 0);
        assert_int_equal(unlinkat(t->root, "d", AT_REMOVEDIR), 0);
        safe_close(t->root);
        assert_int_equal(rmdir(path), 0);
}

static void test_a_file_system_that_is_known(void **state)
{
        char path[] = "/tmp/test_spelling-XXXXXX";
        struct hide_tree t;

        make_tree(&t, path);
        fs_type = EXT4_SUPER_MAGIC;
        spelling_forget();
        looked = 0;
        for (int i = 0; i < 100; i++) {
                assert_true(spelling_is_listed(&t, "/d/e/f"));
                assert_true(spelling_is_listed(&t, "/d/e/none")); /* no list is looked at */
        }
        assert_in_range(looked, 3, 6); /* each directory once, or twice when the second has changed */
        assert_true(spelling_is_listed(&t, "/"));
        assert_false(spelling_is_listed(&t, "/none/f"));
        remove_tree(&t, path, NULL);
}

static void test_a_file_system_with_several_names(void **state)
{
        char path[] = "/tmp/test_spelling-XXXXXX";
        struct hide_tree t;

        make_tree(&t, path);
        fs_type = MSDOS_SUPER_MAGIC;
        spelling_forget();
        assert_true(spelling_is_listed(&t, "/"));
        assert_true(spelling_is_listed(&t, "/f"));
        assert_true(spelling_is_listed(&t, "/d/e/f"));
        assert_false(spelling_is_listed(&t, "/f@"));
        assert_false(spelling_is_listed(&t, "/d@/e/f"));
        assert_false(spelling_is_listed(&t, "/d/@e/f"));
        assert_false(spelling_is_listed(&t, "/d/none"));
        remove_tree(&t, path, NULL);
}

/* One directory that ignores case: it alone is walked. */
static void test_a_directory_that_ignores_case(void **state)
{
        char path[] = "/tmp/test_spelling-XXXXXX";
        struct hide_tree t;

        make_tree(&t, path);
        assert_int_equal(linkat(t.root, "d/e/f", t.root, "d/e/F", 0), 0);
        fs_type = EXT4_SUPER_MAGIC;
        spelling_forget();
        assert_true(spelling_is_listed(&t, "/d/none"));
        assert_false(spelling_is_listed(&t, "/d/e/none"));
        assert_false(spelling_is_listed(&t, "/d/e/f@"));
        assert_true(spelling_is_listed(&t, "/d/e/f"));
        remove_tree(&t, path, "d/e/F");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_file_system_that_is_known), cmocka_unit_test(test_a_file_system_with_several_names),
                cmocka_unit_test(test_a_directory_that_ignores_case),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
