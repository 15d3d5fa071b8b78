/* SPDX-License-Identifier: Apache-2.0
 *
 * Files behind a server in the box that lies or dies in the middle. Attack catalogue: 129 to 143, by a box that has taken over its server. */
#include "base/buffer.h"
#include "base/fd.h"
#include "engine/files_wire.h"
#include "engine/test_files_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64];
static struct files local; /* by the directory */

static int set_up(void **state)
{
        strcpy(root, "/tmp/glovebox-test-remote-XXXXXX");
        if (!mkdtemp(root))
                return -1;
        local = (struct files){.root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .uid = geteuid(), .gid = getegid()};
        return local.root_fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
        char command[128];

        close(local.root_fd);
        snprintf(command, sizeof(command), "rm -rf %s", root);
        return system(command);
}

static char *at(const char *name)
{
        static char path[4200];

        snprintf(path, sizeof(path), "%s/%s", root, name);
        return path;
}

/* ---- a server that says what it likes ---- */

static struct buffer said;
static int other_end = -1;
static size_t said_size;

static int dial_liar(void *data, gb_error *err)
{
        int ends[2], room = 1 << 20;

        safe_close(other_end);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
        other_end = ends[1];
        assert_int_equal(fd_write_all(ends[1], said.data, said_size), 0);
        shutdown(ends[1], SHUT_WR);
        return ends[0];
}

static struct files_remote liar = {.dial = dial_liar, .bytes_max = 100, .entries_max = 3};
static struct files lied = {.root_fd = -1, .remote = &liar};

static void say(uint32_t type, const void *head, size_t head_size, const void *tail, size_t tail_size)
{
        struct files_frame frame = {type, (uint32_t)(head_size + tail_size)};

        assert_int_equal(buffer_add(&said, &frame, sizeof(frame)), 0);
        assert_int_equal(buffer_add(&said, head ? head : "", head_size), 0);
        assert_int_equal(buffer_add(&said, tail ? tail : "", tail_size), 0);
        said_size = said.size;
}

static void say_item(uint32_t type, mode_t mode, uint64_t size, const char *name)
{
        struct files_item item = {.mode = mode, .size = size};

        say(type, &item, sizeof(item), name, strlen(name));
}

static void say_done(bool truncated, const char *last)
{
        struct files_done done = {.truncated = truncated};

        say(FILES_DONE, &done, sizeof(done), last, strlen(last));
}

static void say_hole(uint64_t to)
{
        say(FILES_HOLE, &to, sizeof(to), NULL, 0);
}

static void begin_lie(void)
{
        buffer_done(&said);
        buffer_init(&said, 1 * MIB);
        said_size = 0;
}

static void expect_lost(enum operation what, int r, const char *why)
{
        int before = count_entries("/proc/self/fd") + (other_end < 0);
        gb_error err = {0};

        int got = operate(&lied, what, ".", &err);
        if (got != r || err.code != (r == -EFBIG || r == -EOVERFLOW ? GB_E_LIMIT : GB_E_LOST))
                fail_msg("%s: %d, not %d: %s %s", why, got, r, error_code_name(err.code), err.message);
        assert_int_equal(count_entries("/proc/self/fd"), before);
}

static void lie_entry(const char *name, mode_t mode)
{
        begin_lie();
        say_item(FILES_ENTRY, mode, 1, name);
        say_done(false, "");
        expect_lost(LIST, -EPROTO, name);
}

static void test_lying_lists(void **state)
{
        char longest[NAME_MAX + 2];

        memset(longest, 'x', sizeof(longest));
        longest[NAME_MAX + 1] = '\0';
        lie_entry("", S_IFREG);
        lie_entry(".", S_IFREG);
        lie_entry("..", S_IFDIR);
        lie_entry("../x", S_IFREG);
        lie_entry("/", S_IFREG);
        lie_entry("a/b", S_IFREG);
        lie_entry(longest, S_IFREG);
        lie_entry("a", 0);
        lie_entry("a", S_IFMT);
        lie_entry("a", 0644);

        begin_lie(); /* a NUL */
        struct files_item item = {.mode = S_IFREG};
        say(FILES_ENTRY, &item, sizeof(item), "a\0b", 3);
        expect_lost(LIST, -EPROTO, "NUL");
        begin_lie();
        item.size = (uint64_t)INT64_MAX + 1;
        say(FILES_ENTRY, &item, sizeof(item), "a", 1);
        expect_lost(LIST, -EPROTO, "size");
        begin_lie(); /* twice; and behind each other */
        say_item(FILES_ENTRY, S_IFREG, 1, "c");
        say_item(FILES_ENTRY, S_IFREG, 1, "c");
        say_done(false, "");
        expect_lost(LIST, -EPROTO, "twice");
        begin_lie();
        say_item(FILES_ENTRY, S_IFREG, 1, "b"); /* it was asked for those behind b */
        say_done(false, "");
        expect_lost(PAGE, -EPROTO, "before");
        begin_lie(); /* three, of two */
        say_item(FILES_ENTRY, S_IFREG, 1, "c");
        say_item(FILES_ENTRY, S_IFREG, 1, "d");
        say_item(FILES_ENTRY, S_IFREG, 1, "e");
        say_done(false, "");
        expect_lost(PAGE, -EPROTO, "three");
        static const char *const lasts[] = {"", "..", "b", "a", "bb/b"};
        for (size_t i = 0; i < ARRAY_SIZE(lasts); i++) { /* the next page would begin before this one */
                begin_lie();
                say_done(true, lasts[i]);
                expect_lost(PAGE, -EPROTO, lasts[i]);
        }
        begin_lie();
        say_item(FILES_ENTRY, S_IFREG, 1, "d");
        say_done(true, "c");
        expect_lost(PAGE, -EPROTO, "last");
        begin_lie();
        say_done(false, "x");
        expect_lost(PAGE, -EPROTO, "last without more");
}

static void test_lying_files(void **state)
{
        static char bytes[FILE_PIECE_BYTES + 1];

        begin_lie(); /* more than it said */
        say_item(FILES_FILE, S_IFREG, 3, "");
        say(FILES_DATA, "1234", 4, NULL, 0);
        say(FILES_END, NULL, 0, NULL, 0);
        expect_lost(READ, -EPROTO, "more");
        begin_lie(); /* more than a workspace has */
        say_item(FILES_FILE, S_IFREG, 200, "");
        say(FILES_DATA, bytes, 101, NULL, 0);
        say(FILES_END, NULL, 0, NULL, 0);
        expect_lost(READ, -EFBIG, "bytes_max");
        begin_lie();
        say_item(FILES_FILE, S_IFREG, FILE_BYTES_MAX + 1ULL, "");
        expect_lost(READ, -EFBIG, "FILE_BYTES_MAX");
        static const uint64_t holes[] = {0, 4, UINT64_MAX};
        for (size_t i = 0; i < ARRAY_SIZE(holes); i++) {
                begin_lie();
                say_item(FILES_FILE, S_IFREG, 3, "");
                say_hole(holes[i]);
                say(FILES_END, NULL, 0, NULL, 0);
                expect_lost(READ, -EPROTO, "hole");
        }
        begin_lie(); /* back */
        say_item(FILES_FILE, S_IFREG, 3, "");
        say(FILES_DATA, "12", 2, NULL, 0);
        say_hole(1);
        expect_lost(READ, -EPROTO, "hole");
        begin_lie();
        say_item(FILES_FILE, S_IFREG, 1 * MIB, "");
        say(FILES_DATA, bytes, sizeof(bytes), NULL, 0);
        expect_lost(READ, -EPROTO, "piece");
        begin_lie();
        say_item(FILES_FILE, S_IFREG, 3, "");
        say(FILES_DATA, bytes, 0, NULL, 0);
        expect_lost(READ, -EPROTO, "empty piece");
        begin_lie();
        say_item(FILES_FILE, S_IFREG, 3, "a");
        expect_lost(READ, -EPROTO, "a name");
        begin_lie();
        say_item(FILES_FILE, S_IFREG, UINT64_MAX, "");
        expect_lost(OPEN, -EPROTO, "size");
}

static void lie_walk(const char *first, mode_t mode, const char *path)
{
        begin_lie();
        say(FILES_READY, NULL, 0, NULL, 0);
        if (first)
                say_item(FILES_FILE, S_IFDIR | 0755, 0, first);
        say_item(FILES_FILE, mode, 0, path);
        if (S_ISREG(mode))
                say(FILES_END, NULL, 0, NULL, 0);
        say_done(false, "");
        expect_lost(WALK, -EPROTO, path);
}

static void test_lying_walks(void **state)
{
        char deep[2 * FILE_WALK_DEPTH_MAX + 8] = "d", name[NAME_MAX + 2];

        lie_walk(NULL, S_IFREG, "");
        lie_walk(NULL, S_IFDIR, ".");
        lie_walk(NULL, S_IFREG, "../x");
        lie_walk(NULL, S_IFREG, "/sandbox/x");
        lie_walk(NULL, S_IFREG, "/etc/passwd");
        lie_walk(NULL, S_IFLNK | 0777, "x");
        lie_walk(NULL, S_IFCHR | 0666, "x");
        lie_walk(NULL, S_IFIFO | 0666, "x");
        lie_walk(NULL, 0644, "x");
        lie_walk(NULL, S_IFREG, "d/x"); /* of a directory that did not come */
        lie_walk("d", S_IFREG, "dd/x");
        lie_walk("dd", S_IFREG, "d/x");
        lie_walk("d", S_IFREG, "d/../x");
        lie_walk("d", S_IFREG, "d//x");
        lie_walk("d", S_IFREG, "d/x/");
        lie_walk("d", S_IFREG, "d/e/x");
        memset(name, 'x', sizeof(name));
        name[NAME_MAX + 1] = '\0';
        lie_walk("d", S_IFREG, name);

        begin_lie(); /* a directory of a size, which an archive would wait for */
        say(FILES_READY, NULL, 0, NULL, 0);
        say_item(FILES_FILE, S_IFDIR, 5, "d");
        expect_lost(WALK, -EPROTO, "size");
        begin_lie();
        say(FILES_READY, NULL, 0, NULL, 0);
        for (int i = 0; i <= 3; i++) {
                snprintf(name, sizeof(name), "d%d", i);
                say_item(FILES_FILE, S_IFDIR, 0, name);
        }
        say_done(false, "");
        expect_lost(WALK, -EOVERFLOW, "entries_max");
        begin_lie();
        say(FILES_READY, NULL, 0, NULL, 0);
        for (int i = 0; i <= FILE_WALK_DEPTH_MAX; i++) {
                say_item(FILES_FILE, S_IFDIR, 0, deep);
                strcat(deep, "/d");
        }
        liar.entries_max = 2 * FILE_WALK_DEPTH_MAX;
        say_done(false, "");
        expect_lost(WALK, -EPROTO, "deep");
        liar.entries_max = 3;
}

/* What the next operation gets may not be what this one was answered, nor anything else. */
static void test_lying_frames(void **state)
{
        for (enum operation what = 0; what < OPERATIONS; what++) {
                for (uint32_t type = 0; type < FILES_TYPES + 3; type++) {
                        if (type == FILES_FAILED)
                                continue;
                        begin_lie(); /* none is answered by an empty frame alone */
                        say(type, NULL, 0, NULL, 0);
                        expect_lost(what, what == WALK && type == FILES_READY ? -EPIPE : -EPROTO, "empty");
                }
                static const uint32_t sizes[] = {UINT32_MAX, INT32_MAX, 1 << 20};
                for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
                        for (uint32_t type = 0; type < FILES_TYPES; type++) {
                                struct files_frame frame = {type, sizes[i]};
                                begin_lie();
                                assert_int_equal(buffer_add(&said, &frame, sizeof(frame)), 0);
                                said_size = said.size;
                                expect_lost(what, -EPROTO, "large");
                        }
        }
        begin_lie(); /* whole before it can be */
        say_done(false, "");
        expect_lost(PUT, -EPROTO, "too soon");
        begin_lie();
        say_done(false, "x");
        expect_lost(REMOVE, -EPROTO, "a name");
}

static void test_lying_failures(void **state)
{
        static const struct {
                uint32_t code;
                int errnum;
                gb_error_code becomes;
                int r;
        } rows[] = {
                {GB_E_NOT_FOUND, ENOENT, GB_E_NOT_FOUND, -ENOENT}, {GB_E_DISK_FULL, ENOSPC, GB_E_DISK_FULL, -ENOSPC},
                {GB_E_UNAUTHORIZED, EPERM, GB_E_INTERNAL, -EPERM}, {GB_E_NONE, 0, GB_E_INTERNAL, -EIO}, {9999, 5000, GB_E_INTERNAL, -EIO},
                {UINT32_MAX, -1, GB_E_INTERNAL, -EIO}, {GB_E_USAGE, INT32_MIN, GB_E_USAGE, -EIO},
        };

        for (enum operation what = 0; what < OPERATIONS; what++)
                for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                        struct files_failure failure = {.code = rows[i].code, .errnum = rows[i].errnum};
                        gb_error err = {0};
                        memset(failure.message, '%', sizeof(failure.message)); /* without an end */
                        memcpy(failure.message, "a\x1b[0m\n\xff\xe2\x80\xae z\xc3\xa4", 14);
                        begin_lie();
                        say(FILES_FAILED, &failure, sizeof(failure), NULL, 0);
                        assert_int_equal(operate(&lied, what, "x", &err), rows[i].r);
                        assert_int_equal(err.code, rows[i].becomes);
                        assert_int_equal(strlen(err.message), GB_ERROR_MESSAGE_MAX - 1);
                        assert_memory_equal(err.message, "a?[0m????? z\xc3\xa4%", 15);
                }
        begin_lie();
        say(FILES_FAILED, &(struct files_failure){.code = GB_E_USAGE}, sizeof(struct files_failure), NULL, 0);
        gb_error err = {0};
        assert_int_equal(operate(&lied, REMOVE, "x", &err), -EIO);
        assert_true(err.message[0] != '\0');
}

/* ---- a server that dies ---- */

static void make_some(void)
{
        assert_int_equal(mkdir(at("d"), 0755), 0);
        assert_int_equal(files_write(&local, "d/one", "12345", 5, 0644, NULL), 0);
        assert_int_equal(files_write(&local, "file", "123", 3, 0644, NULL), 0);
        assert_int_equal(symlink("x", at("link")), 0);
}

/* Whatever was cut off, nothing is taken for whole. */
static void test_cut_answers(void **state)
{
        static const struct {
                enum operation what;
                enum files_verb verb;
                const char *path;
        } rows[] = {
                {OPEN, FILES_OPEN, "file"}, {READ, FILES_OPEN, "file"}, {LIST, FILES_LIST, "."}, {WALK, FILES_WALK, "."},
                {CHECK, FILES_CHECK_FREE, "new"}, {OPEN, FILES_OPEN, "none"},
        };
        make_some();
        liar.entries_max = 10;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_buffer_ struct buffer question;
                gb_error err = {0};
                buffer_init(&question, 1 * MIB);
                assert_int_equal(add_request(&question, rows[i].verb, rows[i].path, rows[i].verb == FILES_LIST ? 10 : 0), 0);
                begin_lie();
                assert_int_equal(ask_server(&local, question.data, question.size, &said), 0);
                assert_true(said.size > 0);
                for (said_size = 0; said_size < said.size; said_size++)
                        expect_lost(rows[i].what, -EPIPE, rows[i].path);
                assert_int_equal(operate(&lied, rows[i].what, rows[i].path, &err), strcmp(rows[i].path, "none") == 0 ? -ENOENT : 0);
        }
        liar.entries_max = 3;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_lying_lists), TEST(test_lying_files), TEST(test_lying_walks), TEST(test_lying_frames), TEST(test_lying_failures),
                TEST(test_cut_answers),
        };
        int failed = cmocka_run_group_tests(tests, NULL, NULL);

        buffer_done(&said);
        safe_close(other_end);
        return failed;
}
