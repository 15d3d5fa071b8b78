/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/limits.h"
#include "engine/disk.h"

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

struct tree {
        char path[64];
        int fd;
};

static int make_tree(void **state)
{
        static struct tree tree;

        strcpy(tree.path, "/tmp/glovebox-test-XXXXXX");
        if (!mkdtemp(tree.path))
                return -1;
        tree.fd = open(tree.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        *state = &tree;
        return tree.fd < 0 ? -1 : 0;
}

static int remove_tree(void **state)
{
        struct tree *tree = *state;
        char command[256];

        safe_close(tree->fd);
        snprintf(command, sizeof(command), "chmod -R u+rwx %s; rm -rf %s", tree->path, tree->path);
        return system(command) == 0 ? 0 : -1;
}

static void write_file(int dir, const char *name, size_t size)
{
        _cleanup_free_ char *bytes = malloc(size + 1);
        _cleanup_close_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

        assert_non_null(bytes);
        memset(bytes, 'x', size + 1);
        assert_true(fd >= 0);
        assert_int_equal(fd_write_all(fd, bytes, size), 0);
}

static void test_counts_blocks_and_inodes(void **state)
{
        struct tree *t = *state;
        struct disk_usage usage = {0};

        write_file(t->fd, "a", 1 * MIB);
        assert_int_equal(mkdirat(t->fd, "d", 0755), 0);
        write_file(t->fd, "d/b", 1 * MIB);
        assert_int_equal(symlinkat("/", t->fd, "link-to-everything"), 0);
        assert_int_equal(disk_measure(t->fd, 1000, NULL, &usage), 0);
        assert_int_equal(usage.inodes, 4);
        assert_true(usage.bytes >= 2 * MIB && usage.bytes < 3 * MIB);
        assert_int_equal(usage.hidden, 0);
}

static void test_hard_links_count_once(void **state)
{
        struct tree *t = *state;
        struct disk_usage usage = {0};
        char name[16];

        write_file(t->fd, "a", 1 * MIB);
        for (int i = 0; i < 9; i++) {
                snprintf(name, sizeof(name), "l%d", i);
                assert_int_equal(linkat(t->fd, "a", t->fd, name, 0), 0);
        }
        assert_int_equal(disk_measure(t->fd, 1000, NULL, &usage), 0);
        assert_true(usage.bytes >= 1 * MIB - 64 * KIB && usage.bytes < 2 * MIB);
}

static void test_sparse_files_count_blocks(void **state)
{
        struct tree *t = *state;
        struct disk_usage usage = {0};
        _cleanup_close_ int fd = openat(t->fd, "sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

        assert_int_equal(ftruncate(fd, (off_t)GIB), 0);
        assert_int_equal(disk_measure(t->fd, 1000, NULL, &usage), 0);
        assert_true(usage.bytes < 1 * MIB);
}

static void test_stops_at_the_inode_limit(void **state)
{
        struct tree *t = *state;
        struct disk_usage usage = {0};
        char name[16];

        for (int i = 0; i < 50; i++) {
                snprintf(name, sizeof(name), "f%d", i);
                write_file(t->fd, name, 0);
        }
        assert_int_equal(disk_measure(t->fd, 10, NULL, &usage), 0);
        assert_int_equal(usage.inodes, 11);
}

static void test_deep_trees_are_noticed(void **state)
{
        struct tree *t = *state;
        struct disk_usage usage = {0};
        int dir = fcntl(t->fd, F_DUPFD_CLOEXEC, 3);

        for (int i = 0; i < DISK_DEPTH_MAX + 5; i++) {
                assert_int_equal(mkdirat(dir, "d", 0755), 0);
                int next = openat(dir, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                assert_true(next >= 0);
                safe_close(dir);
                dir = next;
        }
        safe_close(dir);
        assert_int_equal(disk_measure(t->fd, 1000, NULL, &usage), 0);
        assert_true(usage.hidden > 0);
}

static void test_watch_sees_growth_only(void **state)
{
        struct tree *t = *state;
        struct disk_watch watch;

        write_file(t->fd, "before", 4 * MIB);
        disk_watch_init(&watch, 1 * MIB, 10);
        assert_int_equal(disk_watch_add(&watch, t->fd), 0);
        assert_int_equal(disk_watch_look(&watch), DISK_FINE);
        write_file(t->fd, "small", 512 * KIB);
        assert_int_equal(disk_watch_look(&watch), DISK_FINE);
        assert_true(watch.peak_bytes >= 512 * KIB);
        write_file(t->fd, "large", 2 * MIB);
        assert_int_equal(disk_watch_look(&watch), DISK_OVER);
        assert_true(watch.peak_bytes >= 2 * MIB);
}

static void test_watch_sees_too_many_files(void **state)
{
        struct tree *t = *state;
        struct disk_watch watch;
        char name[16];

        disk_watch_init(&watch, 1 * GIB, 10);
        assert_int_equal(disk_watch_add(&watch, t->fd), 0);
        for (int i = 0; i < 11; i++) {
                snprintf(name, sizeof(name), "f%d", i);
                write_file(t->fd, name, 0);
        }
        assert_int_equal(disk_watch_look(&watch), DISK_OVER);
        assert_int_equal(watch.peak_inodes, 11);
}

static void test_a_place_may_be_a_file(void **state)
{
        struct tree *t = *state;
        struct disk_watch watch;

        write_file(t->fd, "one", 64 * KIB);
        _cleanup_close_ int fd = openat(t->fd, "one", O_PATH | O_CLOEXEC);
        disk_watch_init(&watch, 1 * MIB, 10);
        assert_int_equal(disk_watch_add(&watch, fd), 0);
        assert_int_equal(disk_watch_look(&watch), DISK_FINE);
        write_file(t->fd, "one", 3 * MIB);
        assert_int_equal(disk_watch_look(&watch), DISK_OVER);
}

static void test_closed_directories_are_noticed(void **state)
{
        struct tree *t = *state;
        struct disk_watch watch;

        if (geteuid() == 0)
                skip(); /* root can look into everything */
        disk_watch_init(&watch, 1 * MIB, 10);
        assert_int_equal(disk_watch_add(&watch, t->fd), 0);
        assert_int_equal(mkdirat(t->fd, "closed", 0), 0);
        assert_int_equal(disk_watch_look(&watch), DISK_HIDDEN);
}

static void test_set_id_files_are_noticed(void **state)
{
        struct tree *t = *state;
        struct disk_usage usage = {0};

        write_file(t->fd, "plain", 1);
        write_file(t->fd, "mighty", 1);
        assert_int_equal(fchmodat(t->fd, "mighty", 04755, 0), 0);
        assert_int_equal(disk_measure(t->fd, 1000, NULL, &usage), 0);
        assert_int_equal(usage.set_id, 1);
}

#define TREE_TEST(f) cmocka_unit_test_setup_teardown(f, make_tree, remove_tree)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TREE_TEST(test_counts_blocks_and_inodes), TREE_TEST(test_hard_links_count_once),
                TREE_TEST(test_sparse_files_count_blocks), TREE_TEST(test_stops_at_the_inode_limit),
                TREE_TEST(test_deep_trees_are_noticed), TREE_TEST(test_watch_sees_growth_only),
                TREE_TEST(test_watch_sees_too_many_files), TREE_TEST(test_a_place_may_be_a_file),
                TREE_TEST(test_closed_directories_are_noticed), TREE_TEST(test_set_id_files_are_noticed),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
