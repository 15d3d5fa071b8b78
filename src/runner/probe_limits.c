/* SPDX-License-Identifier: Apache-2.0
 *
 * Attacks on limits and on the end of a run. Most have no end of their own: the host judges them by
 * the verdict. */
#include "runner/probe_report.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIECE_BYTES (1 << 20)

void probe_memory(void)
{
        for (unsigned mib = 0;; mib++) {
                char *p = mmap(NULL, PIECE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (p == MAP_FAILED) {
                        probe_tell("note", "stopped by mmap after %u MiB: %s", mib, strerror(errno));
                        exit(1);
                }
                memset(p, (int)mib | 1, PIECE_BYTES);
        }
}

void probe_forks(void)
{
        unsigned seen, limit = (unsigned)atoi(probe_arguments[PROBE_ARG_PIDS]);

        pid_t bomb = fork();
        while (bomb == 0)
                if (fork() < 0)
                        usleep(10000);
        usleep(300000);
        if (bomb < 0 || !probe_count_processes(&seen))
                probe_unsure("a fork bomb");
        else /* init does not count, and a bomb that is not there is no test */
                probe_report(seen > 2 && seen <= limit + 1, "%u processes when it had all it could get", seen);
        for (;;)
                pause();
}

static _noreturn_ void fill(const char *directory)
{
        static char piece[PIECE_BYTES];

        memset(piece, 'x', sizeof(piece));
        for (unsigned i = 0;; i++) {
                char path[64];
                snprintf(path, sizeof(path), "%s/fill%u", directory, i);
                int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
                if (fd < 0 || write(fd, piece, sizeof(piece)) != (ssize_t)sizeof(piece)) {
                        probe_tell("note", "stopped by the kernel after %u MiB: %s", i, strerror(errno));
                        exit(1);
                }
                close(fd);
        }
}

void probe_disk_tmp(void)
{
        fill("/tmp");
}

void probe_disk_workspace(void)
{
        fill("/workspace");
}

void probe_output(void)
{
        static char piece[65536];

        memset(piece, 'x', sizeof(piece));
        while (write(STDOUT_FILENO, piece, sizeof(piece)) > 0)
                ;
        exit(1);
}

static void ignore_signals(void)
{
        for (int i = 1; i < NSIG; i++)
                signal(i, SIG_IGN);
}

void probe_loop(void)
{
        ignore_signals();
        for (volatile unsigned long n = 0;; n++)
                ;
}

void probe_survivor(void)
{
        int alive[2];
        char c;

        if (pipe2(alive, O_CLOEXEC) < 0) {
                probe_unsure("a daemon");
                return;
        }
        pid_t pid = fork();
        if (pid == 0) {
                ignore_signals();
                if (setsid() < 0 || fork() != 0)
                        _exit(0);
                setsid();
                if (write(alive[1], "x", 1) != 1)
                        _exit(0);
                for (int i = 0; i < 3; i++) /* nobody can notice it by a pipe */
                        close(i);
                for (;;)
                        sleep(60);
        }
        close(alive[1]);
        probe_report(pid > 0 && read(alive[0], &c, 1) == 1, "a daemon was started");
        usleep(300000); /* the host looks for it now */
}

void probe_kill_all(void)
{
        /* All but ourselves and init, if there is a pid namespace: without, the caller's whole session. */
        int r = kill(-1, SIGKILL);
        probe_report(true, "kill(-1) %s", r == 0 ? "was sent" : strerror(errno));
}
