/* SPDX-License-Identifier: Apache-2.0
 *
 * Files behind a server in the box: one that lies, one that dies, and one whose other side dies. What both ways have in common is in
 * test_files.c and test_files_tree.c. Attack catalogue: 129 to 143, by a box that has taken over its server. */
#include "base/buffer.h"
#include "base/fd.h"
#include "engine/files_wire.h"
#include "engine/test_files_fixture.h"

#include <dirent.h>
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
        strcpy(root, "/tmp/glovebox-remote-XXXXXX");
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

static int count_entries(const char *path)
{
        DIR *dir = opendir(path);
        int n = -2;

        assert_non_null(dir);
        while (readdir(dir))
                n++;
        closedir(dir);
        return n;
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

/* ---- every operation, for tables ---- */

enum operation { PUT, OPEN, READ, LIST, PAGE, MAKE, MAKE_ALL, REMOVE, REMOVE_TREE, CHECK, WALK, OPERATIONS };

/* All of it: a file and a walk to their ends. */
static int operate(const struct files *f, enum operation what, const char *path, gb_error *err)
{
        _cleanup_file_list_ struct file_list *l = NULL;
        _cleanup_files_walk_ struct files_walk *w = NULL;
        _cleanup_free_ char *bytes = NULL;
        _cleanup_close_ int fd = -1;
        struct walk_entry e;
        uint64_t size;
        size_t n;
        int r;

        switch (what) {
        case PUT:
                return files_write(f, path, "new", 3, 0644, err);
        case OPEN:
                r = fd = files_open(f, path, &size, err);
                return r < 0 ? r : 0;
        case READ:
                return files_read(f, path, &bytes, &n, err);
        case LIST:
                return files_list(f, path, &l, err);
        case PAGE:
                return files_list_page(f, path, "b", 2, &l, err);
        case MAKE:
                return files_make_directory(f, path, 0755, err);
        case MAKE_ALL:
                return files_make_directories(f, path, 0755, err);
        case REMOVE:
                return files_remove(f, path, err);
        case REMOVE_TREE:
                return files_remove_tree(f, path, err);
        case CHECK:
                return files_check_free(f, path, true, err);
        case WALK:
                r = files_walk_new(f, path, &w, err);
                while (r >= 0 && (r = files_walk_next(w, &e, err)) > 0)
                        ;
                return r;
        default:
                return -ENOSYS;
        }
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

/* What an honest server answers: it runs here, and what it says fits the socket. */
static int ask_server(const void *question, size_t size, struct buffer *answer)
{
        char bytes[4096];
        int ends[2], room = 1 << 20;
        ssize_t n;

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
        assert_int_equal(fd_write_all(ends[0], question, size), 0);
        shutdown(ends[0], SHUT_WR);
        int r = files_server_run(ends[1], &local);
        close(ends[1]);
        while (answer && (n = read(ends[0], bytes, sizeof(bytes))) > 0)
                assert_int_equal(buffer_add(answer, bytes, (size_t)n), 0);
        close(ends[0]);
        return r;
}

static void add_request(struct buffer *b, enum files_verb verb, const char *path, uint64_t size)
{
        struct files_request q = {.version = FILES_WIRE_VERSION, .verb = verb, .mode = 0644, .size = size, .path_size = (uint32_t)strlen(path)};
        struct files_frame frame = {FILES_REQUEST, (uint32_t)(sizeof(q) + q.path_size)};

        assert_int_equal(buffer_add(b, &frame, sizeof(frame)), 0);
        assert_int_equal(buffer_add(b, &q, sizeof(q)), 0);
        assert_int_equal(buffer_add_string(b, path), 0);
}

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
                add_request(&question, rows[i].verb, rows[i].path, rows[i].verb == FILES_LIST ? 10 : 0);
                begin_lie();
                assert_int_equal(ask_server(question.data, question.size, &said), 0);
                assert_true(said.size > 0);
                for (said_size = 0; said_size < said.size; said_size++)
                        expect_lost(rows[i].what, -EPIPE, rows[i].path);
                assert_int_equal(operate(&lied, rows[i].what, rows[i].path, &err), strcmp(rows[i].path, "none") == 0 ? -ENOENT : 0);
        }
        liar.entries_max = 3;
}

/* ---- a server whose other side dies ---- */

static void test_cut_requests(void **state)
{
        _cleanup_buffer_ struct buffer question, answer;

        buffer_init(&question, 1 * MIB);
        buffer_init(&answer, 1 * MIB);
        assert_int_equal(files_write(&local, "file", "old", 3, 0600, NULL), 0);
        add_request(&question, FILES_PUT, "file", 7);
        assert_int_equal(buffer_add(&question, &(struct files_frame){FILES_DATA, 4}, sizeof(struct files_frame)), 0);
        assert_int_equal(buffer_add(&question, "12\n4", 4), 0);
        assert_int_equal(buffer_add(&question, &(struct files_frame){FILES_DATA, 3}, sizeof(struct files_frame)), 0);
        assert_int_equal(buffer_add(&question, "567", 3), 0);
        for (size_t size = 0; size < question.size; size++) {
                (void)ask_server(question.data, size, NULL);
                expect_content("file", "old");
                assert_int_equal(count_entries(root), 1);
        }
        assert_int_equal(ask_server(question.data, question.size, &answer), 0);
        expect_content("file", "12\n4567");
        assert_int_equal(answer.size, sizeof(struct files_frame) + sizeof(struct files_done));
}

/* Every byte of a request, wrong: it may do what it says then, but nothing outside, and it comes to an end. */
static void test_wrong_requests(void **state)
{
        _cleanup_buffer_ struct buffer question;

        buffer_init(&question, 1 * MIB);
        add_request(&question, FILES_LIST, "d", 10);
        make_some();
        for (size_t i = 0; i < question.size; i++)
                for (int k = 0; k < 256; k++) {
                        char was = question.data[i];
                        question.data[i] = (char)k;
                        (void)ask_server(question.data, question.size, NULL);
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
                TEST(test_same_words), TEST(test_lying_lists), TEST(test_lying_files), TEST(test_lying_walks), TEST(test_lying_frames), TEST(test_lying_failures),
                TEST(test_cut_answers), TEST(test_cut_requests), TEST(test_wrong_requests), TEST(test_copies), TEST(test_no_server), TEST(test_silence),
                TEST(test_two_writers), TEST(test_full_disk_midway), TEST(test_times),
        };
        int failed = cmocka_run_group_tests(tests, NULL, NULL);

        buffer_done(&said);
        safe_close(other_end);
        return failed;
}
