/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses of host names. The command is linked statically, and glibc's resolver loads shared libraries; so the
 * question goes to getent(1), which belongs to the C library of the host. */
#include "client/address.h"

#include "base/fd.h"
#include "base/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOKUP_USEC 10000000ULL /* names that take longer are not waited for */
#define GETENT_NOT_FOUND 2      /* its exit status */
#define ANSWER_BYTES_MAX 4096   /* the first line has the first address */

extern char **environ;

static int start_getent(const char *host, pid_t *ret_pid, int *ret_fd)
{
        char *argv[] = {(char *)"getent", (char *)"ahosts", (char *)host, NULL};
        posix_spawn_file_actions_t actions;
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        _cleanup_close_ int reader = fds[0], writer = fds[1];
        int r = posix_spawn_file_actions_init(&actions);
        if (r != 0)
                return -r;
        r = posix_spawn_file_actions_adddup2(&actions, writer, STDOUT_FILENO);
        if (r == 0)
                r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        if (r == 0)
                r = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        if (r == 0)
                r = posix_spawnp(ret_pid, "getent", &actions, NULL, argv, environ);
        posix_spawn_file_actions_destroy(&actions);
        if (r != 0)
                return -r;
        *ret_fd = TAKE_FD(reader);
        return 0;
}

/* Reads up to the end, or as much as fits. -ETIMEDOUT when the time is up. */
static ssize_t read_answer(int fd, char *buf, size_t size)
{
        uint64_t end = monotonic_usec() + LOOKUP_USEC;
        size_t used = 0;

        while (used < size) {
                struct pollfd p = {.fd = fd, .events = POLLIN};
                uint64_t now = monotonic_usec();
                if (now >= end)
                        return -ETIMEDOUT;
                int n = poll(&p, 1, (int)((end - now) / 1000) + 1);
                ssize_t got = n > 0 ? read(fd, buf + used, size - used) : n;
                if (n == 0 || (got < 0 && errno == EINTR))
                        continue;
                if (got < 0)
                        return -errno;
                if (got == 0)
                        break;
                used += (size_t)got;
        }
        return (ssize_t)used;
}

/* The end of getent, which has closed its output or is not waited for. -errno when it was not seen. */
static int end_getent(pid_t pid, bool at_once, int *ret_status)
{
        if (at_once)
                kill(pid, SIGKILL);
        while (waitpid(pid, ret_status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return 0;
}

int client_lookup(const char *host, struct sockaddr_storage *ret, socklen_t *ret_size, gb_error *err)
{
        _cleanup_close_ int fd = -1;
        char answer[ANSWER_BYTES_MAX + 1];
        pid_t pid;

        int r = start_getent(host, &pid, &fd);
        if (r < 0)
                return error_set(err, GB_E_UNAVAILABLE, -r, "names are looked up with getent, which cannot be started (%s): give the address of %s in numbers",
                                 strerror(-r), quote(host).text);
        ssize_t n = read_answer(fd, answer, ANSWER_BYTES_MAX);
        int status = 0, ended = end_getent(pid, n < 0 || n == ANSWER_BYTES_MAX, &status);
        if (n < 0)
                return error_set(err, GB_E_UNAVAILABLE, (int)-n, "the address of %s could not be looked up: %s",
                                 quote(host).text, strerror((int)-n));
        answer[n] = '\0';
        answer[strcspn(answer, " \t\n")] = '\0';
        if (client_numeric(answer, ret, ret_size) == 0)
                return 0;
        if (ended == 0 && WIFEXITED(status) && WEXITSTATUS(status) == GETENT_NOT_FOUND)
                return error_set(err, GB_E_UNAVAILABLE, ENOENT, "there is no host %s", quote(host).text);
        return error_set(err, GB_E_UNAVAILABLE, EIO, "the address of %s could not be looked up: getent failed",
                         quote(host).text);
}
