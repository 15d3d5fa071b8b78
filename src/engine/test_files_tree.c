/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole directories of a workspace: pages, trees that are made and removed, walks; and files that come in pieces. */
#include "base/fd.h"
#include "engine/files.h"
#include "engine/test_files_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define BOX_UID 64001 /* when root runs the test: no right of root's must be needed */

static char base[64], root[80], outside[80];
static struct files files;

static int set_up(void **state)
{
        /* In memory where that is possible: tens of thousands of directories are made. */
        strcpy(base, "/dev/shm/glovebox-test-tree-XXXXXX");
        if (!mkdtemp(base)) {
                strcpy(base, "/tmp/glovebox-test-tree-XXXXXX");
                if (!mkdtemp(base))
                        return -1;
        }
        snprintf(root, sizeof(root), "%s/root", base);
        snprintf(outside, sizeof(outside), "%s/outside", base);
        if (chmod(base, 0755) < 0 || mkdir(root, 0755) < 0 || mkdir(outside, 0777) < 0)
                return -1;
        files = (struct files){.uid = geteuid(), .gid = getegid()};
        if (geteuid() == 0) {
                files.uid = files.gid = BOX_UID;
                if (chown(root, BOX_UID, BOX_UID) < 0)
                        return -1;
        }
        files.root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        files_go(&files);
        return files.root_fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
        char command[256];

        files_reap();
        close(files.root_fd);
        snprintf(command, sizeof(command), "chmod -R u+rwx %s; rm -rf %s", base, base);
        return system(command);
}

static char *at(const char *name)
{
        static char path[4300];

        snprintf(path, sizeof(path), "%s/%s", root, name);
        return path;
}

/* As the box's user does. */
static void in_box(void (*f)(void))
{
        int status = 0;
        pid_t child = fork();

        if (child == 0) {
                if (geteuid() == 0 && (setgid(BOX_UID) < 0 || setuid(BOX_UID) < 0))
                        _exit(1);
                if (chdir(root) < 0)
                        _exit(2);
                f();
                _exit(0);
        }
        waitpid(child, &status, 0);
        assert_int_equal(status, 0);
}

#define GOOD(call)                                     \
        do {                                           \
                gb_error err_ = {0};                   \
                gb_error *err = &err_;                 \
                if ((call) < 0)                        \
                        fail_msg("%s", err->message);  \
        } while (0)

/* ---- files in pieces ---- */

struct pieces {
        size_t given, fail_at;
};

static int give(void *data, void *bytes, size_t size)
{
        struct pieces *p = data;

        if (p->given + size > p->fail_at)
                return -EPIPE;
        memset(bytes, 'p', size);
        p->given += size;
        return 0;
}

static void test_put(void **state)
{
        struct pieces p = {.fail_at = SIZE_MAX};
        struct file_source stream = {.fd = -1, .read = give, .data = &p, .size = 3 * FILE_PIECE_BYTES + 17};
        gb_error error = {0};
        struct stat st;
        uint64_t size;

        GOOD(files_put(&files, "a/b/c", &stream, 06640, true, err));
        assert_int_equal(stat(at("a/b/c"), &st), 0);
        assert_int_equal(st.st_size, stream.size);
        assert_int_equal(st.st_mode & 07777, 0640);
        assert_int_equal(st.st_uid, files.uid);
        assert_int_equal(stat(at("a"), &st), 0);
        assert_int_equal(st.st_mode & 07777, 0755);

        /* And back, by its descriptor into another. */
        _cleanup_close_ int fd = files_open(&files, "a/b/c", &size, &error);
        assert_true(fd >= 0 && size == stream.size);
        struct file_source copy = {.fd = fd, .size = size};
        GOOD(files_put(&files, "copy", &copy, 0600, false, err));
        assert_int_equal(stat(at("copy"), &st), 0);
        assert_int_equal(st.st_size, size);
        copy.size++; /* more than there is */
        assert_int_equal(files_put(&files, "copy", &copy, 0600, false, &error), -EIO);
        assert_int_equal(stat(at("copy"), &st), 0);
        assert_int_equal(st.st_size, size);
        assert_int_equal(files_put(&files, "no/copy", &copy, 0600, false, &error), -ENOENT);
}

static void test_put_that_fails(void **state)
{
        struct pieces p = {.fail_at = 2 * FILE_PIECE_BYTES};
        struct file_source stream = {.fd = -1, .read = give, .data = &p, .size = 3 * FILE_PIECE_BYTES};
        gb_error error = {0};

        GOOD(files_make_directory(&files, "old", 0755, err));
        assert_int_equal(files_put(&files, "old/new/newer/file", &stream, 0644, true, &error), -EPIPE);
        assert_int_equal(count_entries(root), 1);
        assert_int_equal(count_entries(at("old")), 0); /* the directories went again, too */
        GOOD(files_write(&files, "plain", "x", 1, 0644, err));
        assert_int_equal(files_put(&files, "plain/below", &stream, 0644, true, &error), -ENOTDIR);
        assert_int_equal(files_put(&files, "old", &stream, 0644, true, &error), -EPIPE);
        p = (struct pieces){.fail_at = SIZE_MAX};
        assert_int_equal(files_put(&files, "old", &stream, 0644, true, &error), -EISDIR);
        assert_int_equal(symlink(outside, at("way")), 0);
        assert_true(files_put(&files, "way/x/y", &stream, 0644, true, &error) < 0);
        assert_int_equal(count_entries(outside), 0);
        assert_int_equal(count_entries(root), 3);
        GOOD(files_make_directories(&files, "old/empty", 0755, err));
        assert_int_equal(files_put(&files, "old/empty/../x", &stream, 0644, true, &error), -EINVAL);
        assert_int_equal(count_entries(at("old")), 1); /* what was not made is not taken away */
}

/* ---- directories ---- */

static void test_make_directories(void **state)
{
        gb_error error = {0};
        struct stat st;

        GOOD(files_make_directories(&files, "a/b/c", 0700, err));
        GOOD(files_make_directories(&files, "a/b/c", 0755, err)); /* they may be there */
        GOOD(files_make_directories(&files, "/sandbox", 0755, err));
        assert_int_equal(stat(at("a/b/c"), &st), 0);
        assert_int_equal(st.st_mode & 07777, 0700);
        GOOD(files_write(&files, "a/f", "x", 1, 0644, err));
        assert_int_equal(files_make_directories(&files, "a/f/g", 0755, &error), -ENOTDIR);
        assert_int_equal(files_make_directories(&files, "a/f", 0755, &error), -ENOTDIR);
        assert_int_equal(files_make_directories(&files, "a/../g", 0755, &error), -EINVAL);
        assert_int_equal(symlink(outside, at("way")), 0);
        assert_true(files_make_directories(&files, "way/x", 0755, &error) < 0);
        assert_int_equal(count_entries(outside), 0);
}

static void test_check_free(void **state)
{
        gb_error error = {0};

        GOOD(files_make_directories(&files, "d/e", 0755, err));
        GOOD(files_write(&files, "d/f", "x", 1, 0644, err));
        assert_int_equal(symlink(outside, at("way")), 0);
        GOOD(files_check_free(&files, "d", true, err));
        GOOD(files_check_free(&files, "d/f", false, err));
        GOOD(files_check_free(&files, "d/new/newer", true, err));
        GOOD(files_check_free(&files, "way", false, err)); /* replaced */
        assert_int_equal(files_check_free(&files, "d", false, &error), -EISDIR);
        assert_int_equal(files_check_free(&files, "d/f", true, &error), -EEXIST);
        assert_int_equal(files_check_free(&files, "d/f/g", false, &error), -ENOTDIR);
        assert_int_equal(files_check_free(&files, "way", true, &error), -EEXIST);
        assert_int_equal(files_check_free(&files, "way/x", false, &error), -ELOOP);
}

#define MANY 1000
static void make_many(void)
{
        char name[32];

        for (int i = 0; i < MANY; i++) {
                snprintf(name, sizeof(name), "%03d", (i * 7) % MANY); /* not in order */
                close(open(name, O_WRONLY | O_CREAT, 0600));
        }
}

static void test_pages(void **state)
{
        static const size_t limits[] = {1, 7, 128, MANY - 1, MANY, MANY + 1};
        char expected[32];

        in_box(make_many);
        for (size_t k = 0; k < sizeof(limits) / sizeof(limits[0]); k++) {
                _cleanup_free_ char *after = NULL;
                int seen = 0;
                bool more = true;
                while (more) {
                        _cleanup_file_list_ struct file_list *l = NULL;
                        GOOD(files_list_page(&files, ".", after, limits[k], &l, err));
                        assert_true(l->n > 0 && l->n <= limits[k]);
                        for (size_t i = 0; i < l->n; i++, seen++) {
                                snprintf(expected, sizeof(expected), "%03d", seen);
                                assert_string_equal(l->entries[i].name, expected);
                                assert_true(S_ISREG(l->entries[i].mode));
                        }
                        more = l->truncated;
                        assert_int_equal(more, seen < MANY);
                        free(after);
                        after = TAKE_PTR(l->last);
                }
                assert_int_equal(seen, MANY);
                if (limits[k] == 1)
                        k++; /* once is enough for pages of one: the next is 128 */
        }
}

/* ---- removing ---- */

#define DEPTH 50000
static void make_deep(void)
{
        for (int i = 0; i < DEPTH; i++)
                if (mkdir("d", i % 3 == 0 ? 0300 : 0755) < 0 || chdir("d") < 0)
                        _exit(3);
        close(open("bottom", O_WRONLY | O_CREAT, 0));
        close(open("a", O_WRONLY | O_CREAT, 0600));
}

static void test_remove_deep(void **state)
{
        gb_error error = {0};
        struct rlimit few = {64, 64}, before;

        in_box(make_deep);
        getrlimit(RLIMIT_NOFILE, &before);
        few.rlim_max = before.rlim_max;
        setrlimit(RLIMIT_NOFILE, &few);
        int r;
        do
                r = files_remove_tree(&files, "d", &error);
        while (r == -ETIME); /* a machine that is busy with other things needs another turn */
        setrlimit(RLIMIT_NOFILE, &before);
        if (r < 0)
                fail_msg("%s", error.message);
        assert_int_equal(count_entries(root), 0);
}

static void make_closed(void)
{
        char name[64];

        if (mkdir("t", 0755) < 0 || mkdir("t/closed", 0755) < 0 || mkdir("t/closed/in", 0755) < 0 || mkdir("t/sticky", 01777) < 0)
                _exit(3);
        close(open("t/closed/in/file", O_WRONLY | O_CREAT, 0));
        close(open("t/sticky/file", O_WRONLY | O_CREAT, 0400));
        if (symlink("../../outside", "t/closed/way") < 0 || symlink("/", "t/root") < 0 || mkfifo("t/fifo", 0600) < 0 || symlink("loop", "t/loop") < 0)
                _exit(4);
        for (int i = 0; i < 3000; i++) {
                snprintf(name, sizeof(name), "t/sticky/%d", i);
                close(open(name, O_WRONLY | O_CREAT, 0600));
        }
        chmod("t/closed/in", 0);
        chmod("t/closed", 0);
        chmod("t", 0500);
}

static void test_remove_closed(void **state)
{
        gb_error error = {0};
        char path[128];

        snprintf(path, sizeof(path), "%s/precious", outside);
        close(open(path, O_WRONLY | O_CREAT, 0644));
        in_box(make_closed);
        assert_int_equal(files_remove(&files, "t", &error), -ENOTEMPTY);
        assert_int_equal(error.code, GB_E_CONFLICT);
        GOOD(files_remove_tree(&files, "t", err));
        assert_int_equal(count_entries(root), 0);
        assert_int_equal(count_entries(outside), 1);
        assert_int_equal(files_remove_tree(&files, "t", &error), -ENOENT);
        assert_int_equal(files_remove_tree(&files, ".", &error), -EISDIR);
        /* Of a link only itself. */
        assert_int_equal(symlink(outside, at("way")), 0);
        assert_true(files_remove_tree(&files, "way/precious", &error) < 0);
        GOOD(files_remove_tree(&files, "way", err));
        assert_int_equal(count_entries(outside), 1);
        GOOD(files_write(&files, "plain", "x", 1, 0644, err));
        GOOD(files_remove_tree(&files, "plain", err));
}

/* Somebody moves directories about, in and out of what is removed, and puts links in their place. */
static void play(void)
{
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (unsigned i = 0;; i++) {
                (void)!mkdir("t", 0755);
                (void)!mkdir("t/a", 0755);
                (void)!mkdir("t/a/b", 0755);
                (void)!mkdir("t/a/b/c", i % 2 ? 0 : 0755);
                (void)!symlink(outside, "t/a/b/l");
                (void)!renameat2(AT_FDCWD, "t/a/b/l", AT_FDCWD, "t/a/b/c", RENAME_EXCHANGE);
                (void)!rename("t/a/b", "moved");
                (void)!symlink(outside, "t/a/b");
                (void)!rename("moved", "t/a/x");
        }
}

static void test_remove_race(void **state)
{
        char path[128];

        chmod(outside, 0777);
        for (int i = 0; i < 20; i++) {
                snprintf(path, sizeof(path), "%s/precious%d", outside, i);
                close(open(path, O_WRONLY | O_CREAT, 0666));
        }
        pid_t child = fork();
        if (child == 0) {
                if (geteuid() == 0 && (setgid(BOX_UID) < 0 || setuid(BOX_UID) < 0))
                        _exit(1);
                if (chdir(root) == 0)
                        play();
                _exit(2);
        }
        int done = 0;
        uint64_t end = monotonic_usec() + 700000;
        while (monotonic_usec() < end || done == 0) {
                gb_error error = {0};
                done += files_remove_tree(&files, "t", &error) == 0;
                assert_true(error.code != GB_E_INTERNAL);
        }
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        for (int i = 0; i < 20; i++) { /* what else is there, it has made itself through its links */
                snprintf(path, sizeof(path), "%s/precious%d", outside, i);
                assert_int_equal(access(path, F_OK), 0);
        }
}

/* ---- walking ---- */

static void make_walk(void)
{
        if (mkdir("d", 0755) < 0 || mkdir("d/e", 0700) < 0 || symlink("/etc/passwd", "d/link") < 0 || mkfifo("d/fifo", 0600) < 0 ||
            symlink("/etc", "d/way") < 0)
                _exit(3);
        int fd = open("d/e/\xff\n", O_WRONLY | O_CREAT, 0640);
        (void)!write(fd, "bytes", 5);
        close(open("d/e/empty", O_WRONLY | O_CREAT, 0640));
}

static void test_walk(void **state)
{
        _cleanup_files_walk_ struct files_walk *w = NULL;
        struct walk_entry e;
        gb_error error = {0};
        int r, n_files = 0, directories = 0;
        char text[8] = "";

        in_box(make_walk);
        GOOD(files_walk_new(&files, "d", &w, err));
        while ((r = files_walk_next(w, &e, &error)) > 0) {
                assert_int_equal(e.fd < 0, S_ISDIR(e.st.st_mode));
                if (e.fd < 0) {
                        assert_string_equal(e.path, "e");
                        directories++;
                } else {
                        n_files++;
                        if (strcmp(e.path, "e/\xff\n") == 0)
                                assert_int_equal(pread(e.fd, text, sizeof(text), 0), 5);
                }
        }
        assert_int_equal(r, 0);
        assert_int_equal(n_files, 2);
        assert_int_equal(directories, 1);
        assert_string_equal(text, "bytes");
        assert_int_equal(files_walk_skipped(w), 3);
        struct files_walk *none = NULL;
        assert_true(files_walk_new(&files, "d/way", &none, &error) < 0);
        assert_int_equal(files_walk_new(&files, "nothing", &none, &error), -ENOENT);
}

static void make_too_deep(void)
{
        for (int i = 0; i < FILE_WALK_DEPTH_MAX + 3; i++)
                if (mkdir("d", 0755) < 0 || chdir("d") < 0)
                        _exit(3);
}

static void make_long(void)
{
        char name[256];

        memset(name, 'x', sizeof(name));
        name[250] = '\0';
        for (int i = 0; i < 20; i++)
                if (mkdir(name, 0755) < 0 || chdir(name) < 0)
                        _exit(3);
}

static int walk_all(gb_error *err)
{
        _cleanup_files_walk_ struct files_walk *w = NULL;
        struct walk_entry e;
        int r = files_walk_new(&files, ".", &w, err);

        while (r >= 0 && (r = files_walk_next(w, &e, err)) > 0)
                ;
        return r;
}

static void test_walk_bounds(void **state)
{
        gb_error error = {0};

        in_box(make_too_deep);
        assert_int_equal(walk_all(&error), -E2BIG);
        assert_int_equal(error.code, GB_E_LIMIT);
        GOOD(files_remove_tree(&files, "d", err));
        in_box(make_long);
        assert_int_equal(walk_all(&error), -ENAMETOOLONG);
        assert_int_equal(error.code, GB_E_LIMIT);
        if (geteuid() == 0 || files.uid != 0) {
                GOOD(files_write(&files, "closed", "x", 1, 0, err));
                assert_true(walk_all(&error) < 0); /* whichever comes first */
        }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_put), TEST(test_put_that_fails), TEST(test_make_directories), TEST(test_check_free), TEST(test_pages), TEST(test_remove_deep),
                TEST(test_remove_closed), TEST(test_remove_race), TEST(test_walk), TEST(test_walk_bounds),
        };

        int failed = 0;

        for (files_way = WAY_DIRECTORY; files_way < WAYS_MAX; files_way++)
                failed += cmocka_run_group_tests_name(files_way_names[files_way], tests, NULL, NULL);
        return failed;
}
