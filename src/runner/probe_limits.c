/* SPDX-License-Identifier: Apache-2.0
 *
 * Attacks on limits and on the end of a run, judged by the host by the verdict. Each gives up at a
 * bound far above the limit of the box: on a host whose control fails it shall prove that, not bring
 * the host down. */
#include "runner/probe_report.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define PIECE_BYTES (1 << 20)
#define MEMORY_PIECES_MAX 512
#define DISK_PIECES_MAX 1024
#define OUTPUT_PIECES_MAX 64
#define FORKS_MAX 400
#define LOOP_SEC_MAX 10
#define DAEMON_SEC_MAX 20

void probe_memory(void)
{
        for (unsigned mib = 0; mib < MEMORY_PIECES_MAX; mib++) {
                char *p = mmap(NULL, PIECE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (p == MAP_FAILED) {
                        probe_tell("note", "stopped by mmap after %u MiB: %s", mib, strerror(errno));
                        exit(1);
                }
                memset(p, (int)mib | 1, PIECE_BYTES);
        }
        probe_report(false, "%u MiB of memory were had", MEMORY_PIECES_MAX);
}

void probe_forks(void)
{
        unsigned seen, limit = (unsigned)atoi(probe_arguments[PROBE_ARG_PIDS]);
        unsigned *forks = mmap(NULL, sizeof(*forks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        pid_t bomb = forks == MAP_FAILED ? -1 : fork();
        /* Every child goes on in this loop, too. */
        while (bomb == 0 && __atomic_load_n(forks, __ATOMIC_SEQ_CST) < FORKS_MAX)
                if (fork() < 0)
                        usleep(10000);
                else
                        __atomic_add_fetch(forks, 1, __ATOMIC_SEQ_CST);
        while (bomb == 0)
                pause();
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
        for (unsigned i = 0; i < DISK_PIECES_MAX; i++) {
                char path[64];
                snprintf(path, sizeof(path), "%s/fill%u", directory, i);
                int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
                if (fd < 0 || write(fd, piece, sizeof(piece)) != (ssize_t)sizeof(piece)) {
                        probe_tell("note", "stopped by the kernel after %u MiB: %s", i, strerror(errno));
                        exit(1);
                }
                close(fd);
        }
        probe_report(false, "%u MiB were written to %s", DISK_PIECES_MAX, directory);
        exit(0);
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
        static char piece[PIECE_BYTES];

        memset(piece, 'x', sizeof(piece));
        for (unsigned i = 0; i < OUTPUT_PIECES_MAX; i++)
                if (write(STDOUT_FILENO, piece, sizeof(piece)) < 0)
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
        for (time_t end = time(NULL) + LOOP_SEC_MAX; time(NULL) < end;)
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
                sleep(DAEMON_SEC_MAX);
                _exit(0);
        }
        close(alive[1]);
        probe_report(pid > 0 && read(alive[0], &c, 1) == 1, "a daemon was started");
        usleep(300000); /* the host looks for it now */
}

/* The filter refuses even to ask for the limit of core files. */
static void check_core(void)
{
        char text[4096];
        unsigned long soft, hard;
        const char *line = probe_read_text("/proc/self/limits", text, sizeof(text)) ? strstr(text, "Max core file size") : NULL;

        bool known = line && sscanf(line, "Max core file size %lu %lu", &soft, &hard) == 2;
        probe_report(known && soft <= 1 && hard <= 1, "%s", known ? "no core files" : "core files have no limit");
        probe_refused("raising the limit of core files", setrlimit(RLIMIT_CORE, &(struct rlimit){PIECE_BYTES, PIECE_BYTES}));
}

void probe_rlimits(void)
{
        rlim_t nofile = (rlim_t)atol(probe_arguments[PROBE_ARG_NOFILE]);
        struct rlimit l;
        rlim_t n = 0;

        if (getrlimit(RLIMIT_NOFILE, &l) < 0) {
                probe_unsure("the limits");
                return;
        }
        probe_report(l.rlim_cur <= nofile && l.rlim_max <= nofile, "open files: %lu, at most %lu", (unsigned long)l.rlim_cur,
                     (unsigned long)l.rlim_max);
        while (n <= nofile && open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
                n++;
        probe_report(n > 0 && n < nofile, "%lu files could be opened", (unsigned long)n);
        close_range(STDERR_FILENO + 1, ~0U, 0);
        l = (struct rlimit){nofile * 4, nofile * 4};
        probe_refused("raising the limit of open files", setrlimit(RLIMIT_NOFILE, &l));
        check_core();
}

void probe_kill_all(void)
{
        /* Without a pid namespace it would be the caller's whole session: that is known without trying. */
        if (kill((pid_t)atol(probe_arguments[PROBE_ARG_HOST_PID]), 0) == 0 || getpid() > PID_INSIDE_MAX) {
                probe_report(false, "processes of the host can be signalled");
                return;
        }
        int r = kill(-1, SIGKILL);
        probe_report(true, "kill(-1) %s", r == 0 ? "was sent" : strerror(errno));
}
