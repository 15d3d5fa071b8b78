/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of a workspace in which somebody else is at work. */
#include "base/fd.h"
#include "engine/files.h"
#include "engine/files_state.h"
#include "engine/test_files_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64], outside[64];
static struct files files;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        return remove(path);
}

static int set_up(void **state)
{
        strcpy(root, "/tmp/glovebox-test-files-XXXXXX");
        strcpy(outside, "/tmp/glovebox-test-outside-XXXXXX");
        if (!mkdtemp(root) || !mkdtemp(outside))
                return -1;
        files = (struct files){open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC), geteuid(), getegid()};
        files_go(&files);
        return files.root_fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
        files_reap();
        close(files.root_fd);
        nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        nftw(outside, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        return 0;
}

static char *at(const char *name)
{
        static char path[4200];

        snprintf(path, sizeof(path), "%s/%s", root, name);
        return path;
}

static void expect_content(const char *path, const char *content)
{
        _cleanup_free_ char *bytes = NULL;
        size_t size;
        gb_error err = {0};

        if (files_read(&files, path, &bytes, &size, &err) < 0)
                fail_msg("%s", err.message);
        assert_int_equal(size, strlen(content));
        assert_string_equal(bytes, content);
}

static void expect_refused(const char *path, int r)
{
        char *bytes = NULL;
        size_t size = 0;
        gb_error err = {0};

        int got = files_read(&files, path, &bytes, &size, &err);
        if (got != r)
                fail_msg("read %s: %d, not %d (%s)", path, got, r, err.message);
        assert_null(bytes);
        assert_true(err.message[0] != '\0');
}

static void test_paths(void **state)
{
        static const struct {
                const char *path;
                const char *becomes; /* NULL: refused */
        } rows[] = {
                {"a", "a"}, {"a/b", "a/b"}, {"./a//b/", "a/b"}, {".", "."}, {"/sandbox", "."}, {"/sandbox/", "."}, {"/sandbox/a/b", "a/b"},
                {"/workspace//a", "a"}, {"/tmp/sandbox/a", "a"}, {"/tmp/sandbox", "."},
                {"/tmp/sandboxes/a", NULL}, {"/tmp/a", NULL}, {"/tmp", NULL}, {"...", "..."}, {"..a/.b", "..a/.b"}, {"a/./b", "a/b"}, {"-x", "-x"}, {"a\nb", "a\nb"},
                {"..", NULL}, {"a/..", NULL}, {"a/../b", NULL}, {"/sandbox/../etc", NULL}, {"/", NULL}, {"/etc/passwd", NULL}, {"/sandboxes/a", NULL},
                {"//sandbox/a", NULL}, {"", NULL},
        };
        char ret[HOST_PATH_MAX], *longest = malloc(HOST_PATH_MAX);
        gb_error err = {0};

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                int r = files_check_path(rows[i].path, strlen(rows[i].path), ret, &err);
                if ((r == 0) != (rows[i].becomes != NULL) || (r == 0 && strcmp(ret, rows[i].becomes) != 0))
                        fail_msg("\"%s\": %d, \"%s\"", rows[i].path, r, r == 0 ? ret : err.message);
        }
        assert_int_equal(files_check_path("a\0b", 3, ret, &err), -EINVAL);
        memset(longest, 'x', HOST_PATH_MAX);
        assert_int_equal(files_check_path(longest, HOST_PATH_MAX - 1, ret, &err), 0);
        assert_int_equal(files_check_path(longest, HOST_PATH_MAX, ret, &err), -ENAMETOOLONG);
        assert_int_equal(err.code, GB_E_USAGE);
        longest[HOST_PATH_MAX - 1] = '\0';
        expect_refused(longest, -ENAMETOOLONG); /* of a name, by the kernel */
        free(longest);
}

static void test_write_and_read(void **state)
{
        gb_error err = {0};
        struct stat st;

        assert_int_equal(files_write(&files, "a", "hello", 5, 0644, &err), 0);
        expect_content("a", "hello");
        expect_content("/sandbox/a", "hello");
        assert_int_equal(files_write(&files, "a", "", 0, 04777, &err), 0);
        expect_content("a", "");
        assert_int_equal(stat(at("a"), &st), 0);
        assert_int_equal(st.st_mode, S_IFREG | 0777); /* no set-user-id bit */
        assert_int_equal(files_make_directory(&files, "d", 06755, &err), 0);
        assert_int_equal(stat(at("d"), &st), 0);
        assert_int_equal(st.st_mode & 07777, 0755);
        assert_int_equal(files_make_directory(&files, "d", 0755, &err), -EEXIST);
        assert_int_equal(files_write(&files, "d/x", "1", 1, 0600, &err), 0);
        assert_int_equal(files_write(&files, "d", "1", 1, 0600, &err), -EISDIR);
        assert_int_equal(files_write(&files, "none/x", "1", 1, 0600, &err), -ENOENT);
        assert_int_equal(err.code, GB_E_NOT_FOUND);
        assert_int_equal(files_write(&files, "a/x", "1", 1, 0600, &err), -ENOTDIR);
        assert_int_equal(files_write(&files, ".", "1", 1, 0600, &err), -EISDIR);
        assert_int_equal(files_write(&files, "b", "1", FILE_BYTES_MAX + 1, 0600, &err), -EFBIG);
        assert_int_equal(err.code, GB_E_LIMIT);
        expect_refused("none", -ENOENT);
        expect_refused("d", -EISDIR);
        assert_int_equal(count_entries(root), 2); /* nothing half-made */
}

static void test_remove(void **state)
{
        gb_error err = {0};

        assert_int_equal(files_make_directory(&files, "d", 0755, &err), 0);
        assert_int_equal(files_write(&files, "d/x", "1", 1, 0600, &err), 0);
        assert_int_equal(files_remove(&files, "d", &err), -ENOTEMPTY);
        assert_int_equal(files_remove(&files, "d/x", &err), 0);
        assert_int_equal(files_remove(&files, "d/x", &err), -ENOENT);
        assert_int_equal(files_remove(&files, "d", &err), 0);
        assert_int_equal(files_remove(&files, "/sandbox", &err), -EISDIR);
        assert_int_equal(count_entries(root), 0);
}

static void test_list(void **state)
{
        struct file_list *l = NULL;
        gb_error err = {0};
        char name[32];

        assert_int_equal(files_list(&files, ".", &l, &err), 0);
        assert_int_equal(l->n, 0);
        file_list_free(l);
        assert_int_equal(files_write(&files, "b", "12", 2, 0600, &err), 0);
        assert_int_equal(files_make_directory(&files, "a", 0755, &err), 0);
        assert_int_equal(symlink("/etc/shadow", at("c")), 0);
        assert_int_equal(files_list(&files, "/sandbox", &l, &err), 0);
        assert_int_equal(l->n, 3);
        assert_string_equal(l->entries[0].name, "a");
        assert_true(S_ISDIR(l->entries[0].mode));
        assert_int_equal(l->entries[1].size, 2);
        assert_true(l->entries[1].modified_usec > 1000000000000000);
        assert_true(S_ISLNK(l->entries[2].mode));
        assert_false(l->truncated);
        file_list_free(l);
        l = NULL;
        assert_int_equal(files_list(&files, "b", &l, &err), -ENOTDIR);
        assert_int_equal(files_list(&files, "c", &l, &err), -ENOTDIR); /* a link, whatever it leads to */
        for (int i = 0; i < FILE_LIST_MAX + 5; i++) {
                snprintf(name, sizeof(name), "a/%d", i);
                close(open(at(name), O_WRONLY | O_CREAT, 0600));
        }
        assert_int_equal(files_list(&files, "a", &l, &err), 0);
        assert_true(l->n == FILE_LIST_MAX && l->truncated);
        file_list_free(l);
}

/* A directory that can be listed but not searched has entries that cannot be examined: it is not empty. */
static void test_list_what_cannot_be_looked_at(void **state)
{
        struct file_list *l = NULL;
        struct files other = files;
        gb_error err = {0};

        if (files_way != WAY_DIRECTORY)
                return; /* the server of files has the same code */
        assert_int_equal(files_make_directory(&files, "a", 0755, &err), 0);
        assert_int_equal(files_write(&files, "a/b", "12", 2, 0600, &err), 0);
        if (geteuid() == 0) {
                other.uid = other.gid = 65534; /* root may search everything */
                assert_int_equal(fchmod(files.root_fd, 0755), 0);
        }
        assert_int_equal(chmod(at("a"), 0444), 0);
        assert_int_equal(files_list(&other, "a", &l, &err), -EACCES);
        assert_null(l);
        assert_int_equal(chmod(at("a"), 0755), 0);
        assert_int_equal(files_list(&other, "a", &l, &err), 0);
        assert_int_equal(l->n, 1);
        file_list_free(l);
}

static void test_links(void **state)
{
        gb_error err = {0};
        char target[128];
        struct stat st;

        snprintf(target, sizeof(target), "%s/secret", outside);
        int fd = open(target, O_WRONLY | O_CREAT, 0600);
        assert_int_equal(write(fd, "secret", 6), 6);
        close(fd);
        assert_int_equal(symlink(target, at("link")), 0);
        assert_int_equal(symlink(outside, at("dir")), 0);
        assert_int_equal(symlink("../", at("up")), 0);
        assert_int_equal(symlink("link", at("twice")), 0);
        assert_int_equal(symlink("/proc/self/root", at("proc")), 0);
        expect_refused("link", -ELOOP);
        expect_refused("twice", -ELOOP);
        expect_refused("dir/secret", -ELOOP);
        expect_refused("up/etc/passwd", -ELOOP);
        expect_refused("proc/etc/passwd", -ELOOP);
        assert_int_equal(files_write(&files, "dir/new", "x", 1, 0600, &err), -ENOTDIR);
        assert_int_equal(files_make_directory(&files, "dir/new", 0700, &err), -ENOTDIR);
        assert_int_equal(files_remove(&files, "dir/secret", &err), -ENOTDIR);
        assert_non_null(strstr(err.message, "not followed"));
        /* A link is itself replaced or removed, not what it leads to. */
        assert_int_equal(files_write(&files, "link", "mine", 4, 0600, &err), 0);
        expect_content("link", "mine");
        assert_int_equal(files_remove(&files, "dir", &err), 0);
        assert_int_equal(stat(target, &st), 0);
        assert_int_equal(st.st_size, 6);
        assert_int_equal(count_entries(outside), 1);
}

/* Opening one of these must neither wait nor do anything. */
static void test_not_files(void **state)
{
        gb_error err = {0};
        struct sockaddr_un address = {.sun_family = AF_UNIX};

        assert_int_equal(mkfifo(at("fifo"), 0666), 0);
        alarm(60);
        expect_refused("fifo", -EINVAL);
        snprintf(address.sun_path, sizeof(address.sun_path), "%.90s", at("socket"));
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        expect_refused("socket", -ENXIO);
        close(fd);
        if (geteuid() == 0 && mknod(at("device"), S_IFCHR | 0666, makedev(1, 5)) == 0) {
                char *bytes = NULL;
                size_t size;
                assert_true(files_read(&files, "device", &bytes, &size, &err) < 0); /* /dev/zero has no end */
        }
        assert_int_equal(files_write(&files, "fifo", "x", 1, 0600, &err), 0);
        expect_content("fifo", "x");
        alarm(0);
}

static void test_large_file(void **state)
{
        assert_int_equal(close(open(at("large"), O_WRONLY | O_CREAT, 0600)), 0);
        assert_int_equal(truncate(at("large"), FILE_BYTES_MAX + 1), 0);
        expect_refused("large", -EFBIG);
        assert_int_equal(truncate(at("large"), 1LL << 40), 0);
        expect_refused("large", -EFBIG);
}

/* A lease of another process makes an open wait, unless it says that it will not. */
static void test_lease(void **state)
{
        gb_error err = {0};
        int go[2];
        char byte;

        assert_int_equal(files_write(&files, "a", "x", 1, 0600, &err), 0);
        assert_int_equal(pipe(go), 0);
        pid_t child = fork();
        if (child == 0) {
                int fd = open(at("a"), O_RDWR);
                signal(SIGIO, SIG_IGN);
                byte = fcntl(fd, F_SETLEASE, F_WRLCK) == 0 ? 'l' : 'n';
                (void)!write(go[1], &byte, 1);
                pause();
                _exit(0);
        }
        assert_int_equal(read(go[0], &byte, 1), 1);
        alarm(60);
        if (byte == 'l')
                expect_refused("a", -EAGAIN);
        alarm(0);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        close(go[0]);
        close(go[1]);
        if (byte != 'l')
                skip();
}

/* Somebody exchanges a directory with a link to the outside, again and again. */
static void swap_for_ever(void)
{
        char dir[128], link[128];

        snprintf(dir, sizeof(dir), "%s/d", root);
        snprintf(link, sizeof(link), "%s/l", root);
        for (;;)
                renameat2(AT_FDCWD, dir, AT_FDCWD, link, RENAME_EXCHANGE);
}

static void test_race(void **state)
{
        gb_error err = {0};
        int done = 0, refused = 0;

        assert_int_equal(mkdir(at("d"), 0755), 0);
        assert_int_equal(symlink(outside, at("l")), 0);
        pid_t child = fork();
        if (child == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                swap_for_ever();
        }
        /* Until both have come; on a busy machine the other process may not run for long. */
        uint64_t begin = monotonic_usec(), now = begin;
        for (; now < begin + 400000 || ((done == 0 || refused == 0) && now < begin + 30000000); now = monotonic_usec()) {
                int r = files_write(&files, "d/x", "x", 1, 0600, &err);
                done += r == 0;
                refused += r == -ELOOP || r == -ENOTDIR || r == -EAGAIN;
                if (r != 0 && r != -ELOOP && r != -ENOTDIR && r != -EAGAIN)
                        fail_msg("%d: %s", r, err.message);
                (void)files_make_directory(&files, "d/y", 0755, NULL);
                (void)files_remove(&files, "d/y", NULL);
        }
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        assert_int_equal(count_entries(outside), 0);
        assert_true(done > 0);
        assert_true(refused > 0);
}

/* With a workspace of its own file system, in a child: the mount is gone with it. */
static int write_to_full_disk(void)
{
        gb_error err = {0};
        static char big[256 * 1024];

        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount("none", root, "tmpfs", 0, "size=64k") < 0)
                return 77;
        struct files f = files;
        f.root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        files_go(&f);
        if (files_write(&f, "a", "old", 3, 0600, &err) < 0)
                return 1;
        if (files_write(&f, "a", big, sizeof(big), 0600, &err) != -ENOSPC || err.code != GB_E_DISK_FULL || !strstr(err.message, "full"))
                return 2;
        _cleanup_free_ char *bytes = NULL;
        size_t size;
        if (files_read(&f, "a", &bytes, &size, &err) < 0 || strcmp(bytes, "old") != 0)
                return 3;
        return count_entries(root) == 1 ? 0 : 4;
}

static void test_full_disk(void **state)
{
        int status = 0;
        pid_t child = fork();

        if (child == 0)
                _exit(write_to_full_disk());
        waitpid(child, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
                skip(); /* needs the right to mount */
        assert_int_equal(status, 0);
}

/* Run by root for a box's user: what is made is his, and his rights are all there are. */
static void test_other_owner(void **state)
{
        gb_error err = {0};
        struct stat st;
        int death_signal = 0;

        if (geteuid() != 0)
                skip();
        files.uid = 64001;
        files.gid = 64002;
        assert_int_equal(files_write(&files, "a", "x", 1, 0600, &err), -EACCES); /* the directory is still root's */
        assert_int_equal(chown(root, 64001, 64002), 0);
        prctl(PR_SET_PDEATHSIG, SIGUSR2);
        int dumpable = prctl(PR_GET_DUMPABLE);
        assert_int_equal(files_write(&files, "a", "x", 1, 0640, &err), 0);
        assert_int_equal(files_make_directory(&files, "d", 0750, &err), 0);
        for (int i = 0; i < 2; i++) {
                assert_int_equal(stat(at(i == 0 ? "a" : "d"), &st), 0);
                assert_true(st.st_uid == 64001 && st.st_gid == 64002);
        }
        /* What root has put there is not his, and we do not read it for him. */
        int fd = open(at("roots"), O_WRONLY | O_CREAT, 0600);
        close(fd);
        assert_int_equal(chmod(at("roots"), 0600), 0);
        expect_refused("roots", -EACCES);
        /* And we are ourselves again. */
        prctl(PR_GET_PDEATHSIG, &death_signal);
        assert_int_equal(death_signal, SIGUSR2);
        assert_int_equal(prctl(PR_GET_DUMPABLE), dumpable);
        prctl(PR_SET_PDEATHSIG, 0);
        fd = open(at("mine"), O_WRONLY | O_CREAT, 0600);
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(st.st_uid, 0);
        close(fd);
}

/* Only what the caller has asked for can be the caller's mistake. */
static void test_who_is_to_blame(void **state)
{
        static const struct {
                int errnum;
                gb_error_code code;
        } rows[] = {
                {EACCES, GB_E_USAGE}, {EISDIR, GB_E_USAGE}, {ENAMETOOLONG, GB_E_USAGE}, {ENOENT, GB_E_NOT_FOUND},
                {EBUSY, GB_E_CONFLICT}, {EMFILE, GB_E_UNAVAILABLE}, {EIO, GB_E_INTERNAL}, {ESTALE, GB_E_INTERNAL},
                {EPROTO, GB_E_INTERNAL},
        };
        gb_error err;

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                assert_int_equal(files_fail(&err, rows[i].errnum, "read", "x"), -rows[i].errnum);
                assert_int_equal(err.code, rows[i].code);
        }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_who_is_to_blame),
                TEST(test_paths), TEST(test_write_and_read), TEST(test_remove), TEST(test_list),
                TEST(test_list_what_cannot_be_looked_at), TEST(test_links), TEST(test_not_files),
                TEST(test_large_file), TEST(test_lease), TEST(test_race), TEST(test_full_disk), TEST(test_other_owner),
        };
        int failed = 0;

        for (files_way = WAY_DIRECTORY; files_way < WAYS_MAX; files_way++)
                failed += cmocka_run_group_tests_name(files_way_names[files_way], tests, NULL, NULL);
        return failed;
}
