/* SPDX-License-Identifier: Apache-2.0
 *
 * Files behind a server in the box: what differs from a directory, and a server whose other side dies. What both ways have in common is in
 * test_files.c and test_files_tree.c; servers that lie are in test_files_liar.c. Attack catalogue: 142, 143. */
#include "base/buffer.h"
#include "base/fd.h"
#include "engine/files_wire.h"
#include "engine/test_files_fixture.h"

#include <errno.h>
#include <fcntl.h>
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64];
static struct files files, local; /* by the server; by the directory */

static int set_up(void **state)
{
        strcpy(root, "/tmp/glovebox-test-remote-XXXXXX");
        if (!mkdtemp(root))
                return -1;
        local = files = (struct files){.root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .uid = geteuid(), .gid = getegid()};
        files_way = WAY_SERVER;
        files_go(&files);
        return files.root_fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
        char command[128];

        files_reap();
        close(files.root_fd);
        snprintf(command, sizeof(command), "rm -rf %s", root);
        return system(command);
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

        if (files_read(&local, path, &bytes, &size, &err) < 0)
                fail_msg("%s", err.message);
        assert_string_equal(bytes, content);
}

/* ---- the same words ---- */

static void test_same_words(void **state)
{
        static const char *const paths[] = {"none/x", "", "/etc/x", "a/../b", ".", "plain/below", "link/x", "\x1b[31m\xff\xe2\x80\xae/x", "sp\xc3\xa4t/\"x\"", "full"};
        char longest[HOST_PATH_MAX + 10];

        memset(longest, 'x', sizeof(longest));
        longest[sizeof(longest) - 1] = '\0';
        assert_int_equal(files_write(&local, "plain", "x", 1, 0644, NULL), 0);
        assert_int_equal(symlink("/", at("link")), 0);
        assert_int_equal(mkdir(at("full"), 0755), 0);
        assert_int_equal(files_write(&local, "full/x", "x", 1, 0644, NULL), 0);
        for (size_t i = 0; i <= ARRAY_SIZE(paths); i++)
                for (enum operation what = 0; what < OPERATIONS; what++) {
                        const char *path = i < ARRAY_SIZE(paths) ? paths[i] : longest;
                        gb_error here = {0}, there = {0};
                        /* What works would not work twice. */
                        if ((strcmp(path, "full") == 0 && what == REMOVE_TREE) || what == MAKE_ALL)
                                continue;
                        int r = operate(&local, what, path, &here), q = operate(&files, what, path, &there);
                        if (r != q || here.code != there.code || here.errnum != there.errnum || strcmp(here.message, there.message) != 0)
                                fail_msg("%u, %s: %d \"%s\", and by the server %d \"%s\"", what, path, r, here.message, q, there.message);
                }
}

/* ---- a server whose other side dies ---- */

static void test_cut_requests(void **state)
{
        _cleanup_buffer_ struct buffer question, answer;

        buffer_init(&question, 1 * MIB);
        buffer_init(&answer, 1 * MIB);
        assert_int_equal(files_write(&local, "file", "old", 3, 0600, NULL), 0);
        assert_int_equal(add_request(&question, FILES_PUT, "file", 7), 0);
        assert_int_equal(buffer_add(&question, &(struct files_frame){FILES_DATA, 4}, sizeof(struct files_frame)), 0);
        assert_int_equal(buffer_add(&question, "12\n4", 4), 0);
        assert_int_equal(buffer_add(&question, &(struct files_frame){FILES_DATA, 3}, sizeof(struct files_frame)), 0);
        assert_int_equal(buffer_add(&question, "567", 3), 0);
        for (size_t size = 0; size < question.size; size++) {
                (void)ask_server(&local, question.data, size, NULL);
                expect_content("file", "old");
                assert_int_equal(count_entries(root), 1);
        }
        assert_int_equal(ask_server(&local, question.data, question.size, &answer), 0);
        expect_content("file", "12\n4567");
        assert_int_equal(answer.size, sizeof(struct files_frame) + sizeof(struct files_done));
}

static void make_some(void)
{
        assert_int_equal(mkdir(at("d"), 0755), 0);
        assert_int_equal(files_write(&local, "d/one", "12345", 5, 0644, NULL), 0);
        assert_int_equal(files_write(&local, "file", "123", 3, 0644, NULL), 0);
        assert_int_equal(symlink("x", at("link")), 0);
}

/* Every byte of a request, wrong: it may do what it says then, but nothing outside, and it comes to an end. */
static void test_wrong_requests(void **state)
{
        _cleanup_buffer_ struct buffer question;

        buffer_init(&question, 1 * MIB);
        assert_int_equal(add_request(&question, FILES_LIST, "d", 10), 0);
        make_some();
        for (size_t i = 0; i < question.size; i++)
                for (int k = 0; k < 256; k++) {
                        char was = question.data[i];
                        question.data[i] = (char)k;
                        (void)ask_server(&local, question.data, question.size, NULL);
                        question.data[i] = was;
                }
        assert_true(count_entries(root) >= 2);
}

/* ---- honest ones ---- */

static void test_copies(void **state)
{
        gb_error err = {0};
        struct stat st;
        uint64_t size;
        char byte;

        assert_int_equal(files_write(&local, "large", "x", 1, 0644, &err), 0);
        assert_int_equal(truncate(at("large"), 1LL << 38), 0);
        int fd = open(at("large"), O_WRONLY);
        assert_int_equal(pwrite(fd, "y", 1, (1LL << 37) + 5), 1);
        close(fd);
        fd = files_open(&files, "large", &size, &err);
        if (fd < 0)
                fail_msg("%s", err.message);
        assert_int_equal(size, 1LL << 38);
        assert_int_equal(fstat(fd, &st), 0);
        assert_true(st.st_size == 1LL << 38 && st.st_nlink == 0 && st.st_blocks < 10000); /* its holes are still holes */
        assert_true(pread(fd, &byte, 1, 0) == 1 && byte == 'x');
        assert_true(pread(fd, &byte, 1, 77777) == 1 && byte == 0);
        assert_true(pread(fd, &byte, 1, (1LL << 37) + 5) == 1 && byte == 'y');
        close(fd);
        assert_int_equal(files_write(&local, "small", "abc", 3, 0644, &err), 0);
        fd = files_open(&files, "small", &size, &err);
        assert_true(fd >= 0 && size == 3);
        assert_true(pread(fd, &byte, 1, 2) == 1 && byte == 'c' && pread(fd, &byte, 1, 3) == 0);
        close(fd);
}

static int refuse(void *data, gb_error *err)
{
        return error_set(err, GB_E_LOST, ESRCH, "the session has ended");
}

static void test_no_server(void **state)
{
        static const struct files_remote none = {.dial = refuse};
        struct files f = {.root_fd = -1, .remote = &none};

        for (enum operation what = 0; what < OPERATIONS; what++) {
                gb_error err = {0};
                assert_int_equal(operate(&f, what, "x", &err), -ESRCH);
                assert_int_equal(err.code, GB_E_LOST);
                assert_string_equal(err.message, "the session has ended");
        }
}

static void test_silence(void **state)
{
        struct files_stream *s = NULL;
        static char bytes[FILES_STREAM_BYTES];
        int ends[2], r = 0;

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        assert_int_equal(files_stream_new(ends[0], 20000, &s), 0);
        assert_int_equal(files_stream_read(s, bytes, 1), -ETIMEDOUT);
        assert_false(files_stream_answers(s));
        for (int i = 0; r == 0 && i < 1000; i++) /* nobody reads */
                r = files_stream_write(s, bytes, sizeof(bytes));
        assert_int_equal(r, -ETIMEDOUT);
        close(ends[1]);
        assert_true(files_stream_answers(s));
        assert_int_equal(files_stream_read(s, bytes, 1), -EPIPE);
        assert_int_equal(files_stream_flush(s), 0);
        assert_int_equal(files_stream_write(s, bytes, sizeof(bytes)), 0);
        assert_int_equal(files_stream_flush(s), -EPIPE);
        files_stream_free(s);
}

static int give_letter(void *data, void *bytes, size_t size)
{
        memset(bytes, *(char *)data, size);
        return 0;
}

#define WRITERS_BYTES (2 * MIB + 3)
static int write_again_and_again(char letter)
{
        struct file_source source = {.fd = -1, .read = give_letter, .data = &letter, .size = WRITERS_BYTES};
        int r = 0;

        for (int i = 0; r == 0 && i < 10; i++)
                r = files_put(&files, "both", &source, 0644, false, NULL);
        return r;
}

/* Each reader sees all of the one or all of the other. */
static void test_two_writers(void **state)
{
        int status = -1;

        assert_int_equal(write_again_and_again('b'), 0);
        pid_t child = fork();
        if (child == 0)
                _exit(write_again_and_again('a') == 0 ? 0 : 1);
        for (int seen = 0; seen < 10 || waitpid(child, &status, WNOHANG) == 0; seen++) {
                _cleanup_free_ char *bytes = NULL;
                size_t size;
                gb_error err = {0};
                if (files_read(&files, "both", &bytes, &size, &err) < 0)
                        fail_msg("%s", err.message);
                assert_int_equal(size, WRITERS_BYTES);
                assert_int_equal(strspn(bytes, bytes[0] == 'a' ? "a" : "b"), size);
                if (seen == 3)
                        assert_int_equal(write_again_and_again('b'), 0);
        }
        if (status == -1)
                waitpid(child, &status, 0);
        assert_int_equal(status, 0);
        assert_int_equal(count_entries(root), 1);
}

static uint64_t given;
static int give_much(void *data, void *bytes, size_t size)
{
        memset(bytes, 'x', size);
        given += size;
        return 0;
}

#define MUCH (64 * MIB)
static int fill_disk(void)
{
        struct file_source source = {.fd = -1, .read = give_much, .size = MUCH};
        struct files f = files;
        gb_error err = {0};

        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount("none", root, "tmpfs", 0, "size=1m") < 0)
                return 77;
        f.root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        files_go(&f);
        if (files_write(&f, "a", "old", 3, 0600, &err) < 0)
                return 1;
        if (files_put(&f, "a", &source, 0600, false, &err) != -ENOSPC || err.code != GB_E_DISK_FULL || !strstr(err.message, "full"))
                return 2;
        if (given >= MUCH / 2) /* the answer was heard at once */
                return 3;
        _cleanup_free_ char *bytes = NULL;
        size_t size;
        if (files_read(&f, "a", &bytes, &size, &err) < 0 || strcmp(bytes, "old") != 0)
                return 4;
        source.size = 700 * KIB; /* and with the half file gone there is room again */
        if (count_entries(root) != 1 || files_put(&f, "b", &source, 0600, false, &err) < 0)
                return 5;
        return 0;
}

static void test_full_disk_midway(void **state)
{
        int status = 0;
        pid_t child = fork();

        if (child == 0)
                _exit(fill_disk());
        waitpid(child, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
                skip(); /* needs the right to mount */
        assert_int_equal(status, 0);
}

/* The code of a box sets any time that its file system takes. */
static void test_times(void **state)
{
        struct timespec times[2] = {{.tv_sec = INT64_MAX / 2}, {.tv_sec = INT64_MAX / 2}};
        _cleanup_file_list_ struct file_list *l = NULL;
        _cleanup_files_walk_ struct files_walk *w = NULL;
        struct walk_entry e;

        assert_int_equal(files_write(&local, "a", "x", 1, 0644, NULL), 0);
        (void)utimensat(local.root_fd, "a", times, 0);
        assert_int_equal(files_list(&files, ".", &l, NULL), 0);
        assert_int_equal(l->n, 1);
        assert_true(l->entries[0].modified_usec > 0);
        times[1].tv_sec = -100;
        times[1].tv_nsec = 250000000;
        assert_int_equal(utimensat(local.root_fd, "a", times, 0), 0);
        assert_int_equal(files_walk_new(&files, ".", &w, NULL), 0);
        assert_int_equal(files_walk_next(w, &e, NULL), 1);
        assert_true(e.st.st_mtim.tv_sec == -100 && e.st.st_mtim.tv_nsec == 250000000);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_same_words), TEST(test_cut_requests), TEST(test_wrong_requests), TEST(test_copies), TEST(test_no_server), TEST(test_silence),
                TEST(test_two_writers), TEST(test_full_disk_midway), TEST(test_times),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
