/* SPDX-License-Identifier: Apache-2.0
 *
 * disk.c and errors of the host: an amount that could not be measured is never reported as a smaller one. */
#include "base/fd.h"
#include "base/limits.h"
#include "engine/disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum call { CALL_NONE, CALL_CALLOC, CALL_STATX, CALL_OPENAT, CALL_FDOPENDIR, CALL_READDIR, CALL_FSTATFS };

/* From the call with this number on, `count` of them fail. */
static struct {
        enum call call;
        int errnum, after, count;
} fault;

static bool fails(enum call call)
{
        if (fault.call != call || fault.after-- > 0 || fault.count-- <= 0)
                return false;
        errno = fault.errnum;
        return true;
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
        return fails(CALL_CALLOC) ? NULL : __real_calloc(n, size);
}

int __real_statx(int dir, const char *path, int flags, unsigned mask, struct statx *ret);
int __wrap_statx(int dir, const char *path, int flags, unsigned mask, struct statx *ret);
int __wrap_statx(int dir, const char *path, int flags, unsigned mask, struct statx *ret)
{
        return fails(CALL_STATX) ? -1 : __real_statx(dir, path, flags, mask, ret);
}

int __real_openat64(int dir, const char *path, int flags, ...);
int __wrap_openat64(int dir, const char *path, int flags, ...);
int __wrap_openat64(int dir, const char *path, int flags, ...)
{
        va_list ap;

        va_start(ap, flags);
        mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
        va_end(ap);
        return fails(CALL_OPENAT) ? -1 : __real_openat64(dir, path, flags, mode);
}

DIR *__real_fdopendir(int fd);
DIR *__wrap_fdopendir(int fd);
DIR *__wrap_fdopendir(int fd)
{
        return fails(CALL_FDOPENDIR) ? NULL : __real_fdopendir(fd);
}

struct dirent *__real_readdir64(DIR *dir);
struct dirent *__wrap_readdir64(DIR *dir);
struct dirent *__wrap_readdir64(DIR *dir)
{
        return fails(CALL_READDIR) ? NULL : __real_readdir64(dir);
}

int __real_fstatfs64(int fd, struct statfs *ret);
int __wrap_fstatfs64(int fd, struct statfs *ret);
int __wrap_fstatfs64(int fd, struct statfs *ret)
{
        return fails(CALL_FSTATFS) ? -1 : __real_fstatfs64(fd, ret);
}

/* A directory "d" with a file of 64 KB in it. */
struct tree {
        char path[64];
        int fd;
};

static int make_tree(void **state)
{
        static struct tree t;
        static char bytes[65536];

        memset(&fault, 0, sizeof(fault));
        strcpy(t.path, "/tmp/glovebox-test-XXXXXX");
        if (!mkdtemp(t.path))
                return -1;
        t.fd = open(t.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (t.fd < 0 || mkdirat(t.fd, "d", 0755) < 0)
                return -1;
        memset(bytes, 'x', sizeof(bytes));
        _cleanup_close_ int fd = openat(t.fd, "d/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        *state = &t;
        return fd < 0 ? -1 : fd_write_all(fd, bytes, sizeof(bytes));
}

static int remove_tree(void **state)
{
        struct tree *t = *state;
        char command[256];

        memset(&fault, 0, sizeof(fault));
        safe_close(t->fd);
        snprintf(command, sizeof(command), "rm -rf %s", t->path);
        return system(command) == 0 ? 0 : -1;
}

static void arm(enum call call, int errnum, int after, int count)
{
        fault.call = call;
        fault.errnum = errnum;
        fault.after = after;
        fault.count = count;
}

static const struct {
        enum call call;
        int errnum, after; /* calls that work before */
} faults[] = {
        {CALL_CALLOC, ENOMEM, 0}, {CALL_OPENAT, EMFILE, 0}, {CALL_OPENAT, EMFILE, 1}, {CALL_OPENAT, EIO, 1},
        {CALL_STATX, EIO, 0}, {CALL_STATX, EIO, 1}, {CALL_STATX, ENOMEM, 1}, {CALL_FDOPENDIR, ENOMEM, 0},
        {CALL_FDOPENDIR, ENOMEM, 1}, {CALL_READDIR, EIO, 0}, {CALL_READDIR, EIO, 4},
};

static void test_an_error_is_no_amount(void **state)
{
        struct tree *t = *state;

        for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
                struct disk_usage usage = {.bytes = 7, .inodes = 9};
                arm(faults[i].call, faults[i].errnum, faults[i].after, 1);
                int r = disk_measure(t->fd, 1000, NULL, &usage);
                if (r != -faults[i].errnum || usage.bytes != 7 || usage.inodes != 9)
                        fail_msg("%zu: %d, %llu bytes", i, r, (unsigned long long)usage.bytes);
                assert_int_equal(fault.count, 0);
        }
}

static void test_a_look_that_fails_ends_the_run(void **state)
{
        struct tree *t = *state;
        struct disk_watch w;

        disk_watch_init(&w, 1 * MIB, 10);
        assert_int_equal(disk_watch_add(&w, t->fd), 0);
        assert_int_equal(mkdirat(t->fd, "e", 0755), 0);
        assert_int_equal(disk_watch_look(&w), DISK_FINE);
        assert_true(w.whole && w.inodes == 1);
        for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
                arm(faults[i].call, faults[i].errnum, faults[i].after, 1);
                assert_int_equal(disk_watch_look(&w), DISK_HIDDEN);
                assert_int_equal(w.error, faults[i].errnum);
                /* the amounts are those of the look before */
                assert_true(!w.whole && w.inodes == 1 && w.peak_inodes == 1);
        }
        assert_int_equal(disk_watch_look(&w), DISK_FINE);
        assert_true(w.whole && w.error == 0);
}

static void test_a_closed_directory_is_hidden(void **state)
{
        struct tree *t = *state;
        struct disk_watch w;

        disk_watch_init(&w, 1 * MIB, 10);
        assert_int_equal(disk_watch_add(&w, t->fd), 0);
        /* one that can be listed and not searched, and one that cannot be opened */
        arm(CALL_STATX, EACCES, 1, 1);
        assert_int_equal(disk_watch_look(&w), DISK_HIDDEN);
        assert_int_equal(w.error, 0);
        arm(CALL_OPENAT, EACCES, 1, 1);
        assert_int_equal(disk_watch_look(&w), DISK_HIDDEN);
        assert_int_equal(w.error, 0);
}

static void test_what_is_replaced_is_looked_at_again(void **state)
{
        static const int replaced[] = {ENOENT, ENOTDIR, ELOOP};
        struct tree *t = *state;
        struct disk_usage whole = {0};

        assert_int_equal(disk_measure(t->fd, 1000, NULL, &whole), 0);
        for (size_t i = 0; i < ARRAY_SIZE(replaced); i++) {
                struct disk_usage usage = {0};
                arm(CALL_OPENAT, replaced[i], 1, 1);
                assert_int_equal(disk_measure(t->fd, 1000, NULL, &usage), 0);
                assert_true(usage.bytes == whole.bytes && usage.inodes == whole.inodes && usage.hidden == 0);
                arm(CALL_OPENAT, replaced[i], 1, 1000);
                assert_int_equal(disk_measure(t->fd, 1000, NULL, &usage), 0);
                assert_int_equal(usage.hidden, 1);
        }
        struct disk_usage usage = {0};
        arm(CALL_STATX, ENOENT, 1, 1);
        assert_int_equal(disk_measure(t->fd, 1000, NULL, &usage), 0);
        assert_true(usage.inodes == 1 && usage.hidden == 0);
}

static void test_free_space_that_cannot_be_asked_for(void **state)
{
        struct tree *t = *state;
        struct disk_watch w;

        disk_watch_init(&w, 1 * MIB, 10);
        arm(CALL_FSTATFS, EIO, 0, 1);
        assert_int_equal(disk_watch_add(&w, t->fd), -EIO);
        disk_watch_init(&w, 1 * MIB, 10);
        assert_int_equal(disk_watch_add(&w, t->fd), 0);
        arm(CALL_FSTATFS, EIO, 0, 1);
        assert_int_equal(disk_watch_glance(&w), DISK_OVER);
        arm(CALL_FSTATFS, EIO, 0, 1);
        assert_int_equal(disk_watch_look(&w), DISK_HIDDEN);
        assert_int_equal(w.error, EIO);
}

#define TREE_TEST(f) cmocka_unit_test_setup_teardown(f, make_tree, remove_tree)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TREE_TEST(test_an_error_is_no_amount), TREE_TEST(test_a_look_that_fails_ends_the_run),
                TREE_TEST(test_a_closed_directory_is_hidden),
                TREE_TEST(test_what_is_replaced_is_looked_at_again),
                TREE_TEST(test_free_space_that_cannot_be_asked_for),
        };

        return cmocka_run_group_tests_name("engine/disk_faults", tests, NULL, NULL);
}
