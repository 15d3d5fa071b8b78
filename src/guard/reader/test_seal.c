/* SPDX-License-Identifier: Apache-2.0
 *
 * What a sealed process can still do: the seal of the reader is put on in a child, and the child tries. */
#include "guard/reader/seal.h"

#include "base/limits.h"
#include "base/macro.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef GLOVEBOX_SANITIZED
#define GLOVEBOX_SANITIZED 0
#endif

static const struct attempt {
        const char *what;
        long number;
        long a, b, c, d;
} attempts[] = {
        {"open", SYS_openat, AT_FDCWD, (long)"/dev/null", O_RDONLY, 0},
        {"stat", SYS_newfstatat, AT_FDCWD, (long)"/", 0, 0},
        {"socket", SYS_socket, AF_UNIX, SOCK_STREAM, 0, 0},
        {"connect", SYS_connect, 0, 0, 0, 0},
        {"send with a descriptor", SYS_sendmsg, 0, 0, 0, 0},
        {"receive a descriptor", SYS_recvmsg, 0, 0, 0, 0},
        {"clone", SYS_clone, SIGCHLD, 0, 0, 0},
        {"execute", SYS_execve, (long)"/bin/true", 0, 0, 0},
        {"memory", SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS},
        {"executable memory", SYS_mprotect, 0, 4096, PROT_EXEC, 0},
        {"kill", SYS_kill, 1, 0, 0, 0},
        {"trace", SYS_ptrace, 0, 0, 0, 0},
        {"duplicate", SYS_dup, 0, 0, 0, 0},
        {"a timer", SYS_setitimer, 0, 0, 0, 0},
        {"limits", SYS_prlimit64, 0, RLIMIT_CPU, 0, 0},
        {"another filter", SYS_seccomp, 0, 0, 0, 0},
        {"prctl", SYS_prctl, 0, 0, 0, 0},
        {"sleep", SYS_nanosleep, 0, 0, 0, 0},
};

/* A sealed child that waits at its descriptor 0, whose other side is *ret. Told by a byte it makes the attempt; without one it ends with 7. */
static pid_t start(const struct attempt *a, int *ret)
{
        int pair[2];
        pid_t self = getpid();

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                char byte;
                if (dup2(pair[1], 0) < 0 || close_range(1, ~0U, 0) < 0 || seal_reader(self) < 0)
                        syscall(SYS_exit_group, 1);
                syscall(SYS_write, 0, "s", 1);
                if (syscall(SYS_read, 0, &byte, 1) == 1 && a)
                        syscall(a->number, a->a, a->b, a->c, a->d, 0, 0);
                syscall(SYS_exit_group, 7);
        }
        close(pair[1]);
        *ret = pair[0];
        char byte = 0;
        assert_int_equal(read(pair[0], &byte, 1), 1); /* it can write and read, and is sealed now */
        return pid;
}

static int end_of(pid_t pid)
{
        int status;

        assert_int_equal(waitpid(pid, &status, 0), pid);
        return status;
}

static void test_calls(void **state)
{
        int fd;

        for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
                pid_t pid = start(&attempts[i], &fd);
                assert_int_equal(write(fd, "x", 1), 1);
                int status = end_of(pid);
                if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
                        fail_msg("%s: the process ended with status 0x%x, not by the filter", attempts[i].what, status);
                close(fd);
        }
        /* And without any of that it ends as it should. */
        pid_t pid = start(NULL, &fd);
        close(fd);
        int status = end_of(pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 7);
}

#if defined(__x86_64__)
/* The numbers of another architecture mean something else: 3 is read() in 32-bit code, and close() in ours. */
static void test_other_numbers(void **state)
{
        static const struct attempt x32 = {"x32", 0x40000000 | 1, 0, 0, 0, 0};
        int fd;

        pid_t pid = start(&x32, &fd);
        assert_int_equal(write(fd, "x", 1), 1);
        int status = end_of(pid);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGSYS);
        close(fd);
}
#endif

/* Limits that the kernel holds it to, should it only compute. */
static void test_limits(void **state)
{
        static const struct {
                int resource;
                rlim_t most;
        } limits[] = {
                {RLIMIT_CPU, READER_CPU_SECONDS}, {RLIMIT_CORE, 0}, {RLIMIT_FSIZE, 0}, {RLIMIT_NOFILE, 0}, {RLIMIT_AS, READER_MEMORY_BYTES}, {RLIMIT_MEMLOCK, 0},
        };
        int fd;

        pid_t pid = start(NULL, &fd);
        for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
                struct rlimit limit;
                assert_int_equal(prlimit(pid, limits[i].resource, NULL, &limit), 0);
                assert_true(limit.rlim_cur <= limits[i].most && limit.rlim_max <= limits[i].most);
        }
        close(fd);
        (void)end_of(pid);
}

/* It does not outlive its master, though somebody still holds the other side of its socket. */
static void test_parent(void **state)
{
        struct pollfd p = {.events = POLLIN};
        int pair[2];
        char byte;

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        pid_t master = fork();
        assert_true(master >= 0);
        if (master == 0) {
                pid_t self = getpid();
                if (fork() == 0) {
                        if (dup2(pair[1], 0) < 0 || close_range(1, ~0U, 0) < 0 || seal_reader(self) < 0)
                                syscall(SYS_exit_group, 1);
                        syscall(SYS_write, 0, "s", 1);
                        syscall(SYS_read, 0, &byte, 1);
                        syscall(SYS_exit_group, 7);
                }
                close(pair[1]);
                for (;;)
                        pause();
        }
        close(pair[1]);
        assert_int_equal(read(pair[0], &byte, 1), 1);
        assert_int_equal(kill(master, SIGKILL), 0);
        (void)end_of(master);
        p.fd = pair[0];
        assert_int_equal(poll(&p, 1, 10000), 1);
        assert_int_equal(read(pair[0], &byte, 1), 0);
        close(pair[0]);

        /* Who is no child of the master any more must not go on. */
        pid_t pid = fork();
        if (pid == 0)
                _exit(seal_reader(-1) == -ESRCH ? 0 : 1);
        int status = end_of(pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_calls),
#if defined(__x86_64__)
                cmocka_unit_test(test_other_numbers),
#endif
                cmocka_unit_test(test_limits),
                cmocka_unit_test(test_parent),
        };

        if (GLOVEBOX_SANITIZED) {
                printf("the sanitizers need more than a sealed process has\n");
                return 0;
        }
        return cmocka_run_group_tests(tests, NULL, NULL);
}
