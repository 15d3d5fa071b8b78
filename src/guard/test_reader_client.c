/* SPDX-License-Identifier: Apache-2.0
 *
 * The real program: answers, many at once, what it dies of, and who goes on without it. */
#include "guard/reader.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef GLOVEBOX_SANITIZED
#define GLOVEBOX_SANITIZED 0
#endif

struct told {
        char text[4096];
        size_t used;
        uint32_t n;
};

static void take(void *data, const struct reader_item *item)
{
        struct told *t = data;

        t->n++;
        if (t->used + item->size + 64 > sizeof(t->text))
                return;
        t->used += (size_t)snprintf(t->text + t->used, 64, "%u:%u %c ", item->line, item->column, " ISC"[item->kind]);
        memcpy(t->text + t->used, item->text, item->size);
        t->used += item->size;
        t->text[t->used++] = '\n';
        t->text[t->used] = '\0';
}

static int ask(const char *code, struct told *t)
{
        gb_error err = {0};

        memset(t, 0, sizeof(*t));
        int r = reader_ask(code, strlen(code), take, t, &err);
        if (r < 0)
                print_error("%s\n", err.message);
        return r;
}

static void assert_works(void)
{
        struct told t;

        assert_int_equal(ask("import os\nos.system('l' + 's')", &t), 0);
        assert_string_equal(t.text, "1:8 I os\n2:1 C os.system(\"ls\")\n2:11 S ls\n");
}

/* The child of ours that is the master; 0: none. */
static pid_t find_master(void)
{
        char path[64], line[256];
        pid_t found = 0;
        DIR *d = opendir("/proc");

        assert_non_null(d);
        for (struct dirent *e; (e = readdir(d)) && !found;) {
                int pid = atoi(e->d_name), parent = 0;
                if (pid <= 0)
                        continue;
                snprintf(path, sizeof(path), "/proc/%d/stat", pid);
                int fd = open(path, O_RDONLY | O_CLOEXEC);
                ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
                safe_close(fd);
                line[n > 0 ? n : 0] = '\0';
                if (strstr(line, "(glovebox-reader") && sscanf(strrchr(line, ')') + 2, "%*c %d", &parent) == 1 && parent == getpid())
                        found = pid;
        }
        closedir(d);
        return found;
}

static void test_answers(void **state)
{
        struct told t;

        reader_prepare(2);
        reader_prepare(3);
        assert_works();
        assert_int_equal(ask("", &t), 0);
        assert_int_equal(t.n, 0);
        for (int i = 0; i < 50; i++)
                assert_works();
}

static void test_too_much(void **state)
{
        size_t size = READER_CODE_BYTES_MAX;
        _cleanup_free_ char *code = malloc(size + 1);
        struct told t = {0};

        assert_non_null(code);
        for (size_t i = 0; i + 4 <= size; i += 4)
                memcpy(code + i, "f();", 4); /* NOLINT: no text ends here */
        assert_int_equal(reader_ask(code, size, take, &t, NULL), 1);
        assert_int_equal(t.n, READER_ITEMS_MAX);

        /* The whole size, and one more. */
        memset(code, '#', size + 1);
        memset(&t, 0, sizeof(t));
        assert_int_equal(reader_ask(code, size, take, &t, NULL), 0);
        assert_int_equal(reader_ask(code, size + 1, take, &t, NULL), 1);
        assert_int_equal(t.n, 0);

        /* One item as large as the code. */
        memset(code, 'a', size);
        memcpy(code, "x='", 3); /* NOLINT: no text ends here */
        code[size - 1] = '\'';
        assert_int_equal(reader_ask(code, size, take, &t, NULL), 0);
        assert_int_equal(t.n, 1);

        memset(code, '(', size);
        assert_int_equal(reader_ask(code, size, take, &t, NULL), 1);
        assert_works();
}

static void *ask_often(void *data)
{
        unsigned own = *(unsigned *)data;
        char code[128], expected[256];

        for (unsigned i = 0; i < 40; i++) {
                struct told t;
                snprintf(code, sizeof(code), "f('thread%u' + '-%u')", own, i);
                snprintf(expected, sizeof(expected), "1:1 C f(\"thread%u-%u\")\n1:3 S thread%u-%u\n", own, i, own, i);
                if (ask(code, &t) != 0 || strcmp(t.text, expected) != 0)
                        return data;
        }
        return NULL;
}

static void test_threads(void **state)
{
        pthread_t threads[8];
        unsigned numbers[8];

        for (unsigned i = 0; i < 8; i++) {
                numbers[i] = i;
                assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &numbers[i]), 0);
        }
        for (unsigned i = 0; i < 8; i++) {
                void *wrong;
                assert_int_equal(pthread_join(threads[i], &wrong), 0);
                assert_null(wrong);
        }
}

static void test_killed(void **state)
{
        assert_works();
        for (int i = 0; i < 3; i++) {
                pid_t pid = find_master();
                assert_true(pid > 0);
                assert_int_equal(kill(pid, SIGKILL), 0);
                assert_works(); /* its readers may still be going */
                for (int tries = 0; i == 1 && find_master() == pid && tries < 4000; tries++) {
                        usleep(5000);
                        assert_works();
                }
                if (i == 1)
                        assert_int_not_equal(find_master(), pid);
        }
}

static void test_fork(void **state)
{
        int status;

        assert_works();
        pid_t pid = fork();
        if (pid == 0) {
                struct told t;
                bool good = ask("f('child')", &t) == 0 && strcmp(t.text, "1:1 C f(\"child\")\n1:3 S child\n") == 0 && find_master() > 0;
                reader_forget();
                _exit(good ? 0 : 1);
        }
        for (int i = 0; i < 10; i++)
                assert_works();
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_works();
}

static void test_forgotten(void **state)
{
        assert_works();
        reader_forget();
        assert_int_equal(find_master(), 0);
        reader_forget();
        assert_works();
}

static void test_missing(void **state)
{
        const char *dir = getenv("GLOVEBOX_LIBEXEC_DIR");
        _cleanup_free_ char *kept = dir ? strdup(dir) : NULL;
        gb_error err = {0};
        struct told t = {0};

        reader_forget();
        setenv("GLOVEBOX_LIBEXEC_DIR", "/nonexistent", 1);
        assert_true(reader_ask("f()", 3, take, &t, &err) < 0);
        assert_non_null(strstr(err.message, "/nonexistent/glovebox-reader"));
        if (kept)
                setenv("GLOVEBOX_LIBEXEC_DIR", kept, 1);
        else
                unsetenv("GLOVEBOX_LIBEXEC_DIR");
        assert_works();
}

/* ---- a reader, by hand ---- */

static pid_t start_by_hand(int *ret_master, int *ret_reader)
{
        _cleanup_free_ char *program = NULL;
        int pair[2];
        char byte = 0;
        union {
                char bytes[CMSG_SPACE(sizeof(int))];
                struct cmsghdr align;
        } control;
        struct iovec iov = {.iov_base = &byte, .iov_len = 1};
        struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};

        assert_int_equal(path_libexec("glovebox-reader", &program), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        pid_t pid = fork();
        if (pid == 0) {
                if (pair[1] == READER_FD ? fcntl(READER_FD, F_SETFD, 0) == 0 : dup2(pair[1], READER_FD) >= 0)
                        execl(program, "glovebox-reader", NULL);
                _exit(127);
        }
        close(pair[1]);
        assert_int_equal(send(pair[0], &byte, 1, 0), 1);
        assert_int_equal(recvmsg(pair[0], &msg, MSG_CMSG_CLOEXEC), 1);
        assert_non_null(CMSG_FIRSTHDR(&msg));
        memcpy(ret_reader, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(int));
        *ret_master = pair[0];
        return pid;
}

/* Only a question of the right form is one; the end of the master is the end of its readers. */
static void test_by_hand(void **state)
{
        static const struct reader_request wrong[] = {{0, 1}, {READER_MAGIC, READER_CODE_BYTES_MAX + 1}, {READER_MAGIC, 5}};
        char buffer[64];
        int master, reader;

        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                pid_t pid = start_by_hand(&master, &reader);
                int status;
                assert_int_equal(write(reader, &wrong[i], sizeof(wrong[i])), sizeof(wrong[i]));
                if (i == 2) {
                        assert_int_equal(write(reader, "x=", 2), 2); /* and no more */
                        assert_int_equal(shutdown(reader, SHUT_WR), 0);
                }
                assert_int_equal(read(reader, buffer, sizeof(buffer)), 0);
                close(reader);
                close(master); /* that ends it */
                assert_int_equal(waitpid(pid, &status, 0), pid);
                assert_int_equal(status, 0);
        }
        pid_t pid = start_by_hand(&master, &reader);
        assert_int_equal(kill(pid, SIGKILL), 0);
        ssize_t n = read(reader, buffer, sizeof(buffer));
        assert_true(n == 0 || (n < 0 && errno == ECONNRESET));
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        close(reader);
        close(master);
}

/* What the kernel says of a reader that waits. */
static void test_seal(void **state)
{
        char path[64], text[4096], line[64];
        int master, reader;
        pid_t child = 0;

        if (GLOVEBOX_SANITIZED) {
                print_message("the sanitizers need more than a sealed process has\n");
                skip();
        }
        pid_t pid = start_by_hand(&master, &reader);
        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
        bool sealed = false;
        for (int i = 0; i < 4000 && !sealed; i++) {
                int fd = open(path, O_RDONLY | O_CLOEXEC);
                ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
                safe_close(fd);
                line[n > 0 ? n : 0] = '\0';
                child = atoi(line);
                char status[64];
                snprintf(status, sizeof(status), "/proc/%d/status", child);
                fd = child > 0 ? open(status, O_RDONLY | O_CLOEXEC) : -1;
                n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
                safe_close(fd);
                text[n > 0 ? n : 0] = '\0';
                sealed = strstr(text, "Seccomp:\t2\n") && strstr(text, "NoNewPrivs:\t1\n");
                if (!sealed)
                        usleep(5000);
        }
        assert_true(sealed);
        close(reader);
        close(master);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_answers), cmocka_unit_test(test_too_much), cmocka_unit_test(test_threads), cmocka_unit_test(test_killed),
                cmocka_unit_test(test_fork), cmocka_unit_test(test_forgotten), cmocka_unit_test(test_missing), cmocka_unit_test(test_by_hand),
                cmocka_unit_test(test_seal),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
