/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs one command and says how long it took, for run.py. It is a small static program because the
 * measurement must not depend on the size of who measures: a vforked child starts with its
 * parent's peak memory in its account, and an interpreter adds its own delays to both ends.
 *
 *   spawn time   USEC OUT ERR COMMAND...   sleeps USEC, then times from before vfork to after wait4
 *   spawn memory USEC OUT ERR COMMAND...   traces the tree and prints the memory of each program in it
 *
 * For check.py it also times two things that depend on the machine alone, COUNT times each:
 *
 *   spawn exec COUNT                       starts a static program that ends at once (itself), until it is reaped
 *   spawn pair COUNT                       a byte to another process and back, over a socket pair
 *
 * Memory is read when a process is about to exit (PTRACE_EVENT_EXIT), while everything is still
 * mapped: the high-water mark is the kernel's own, and nothing is sampled. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what)
{
        perror(what);
        exit(125);
}

static uint64_t now_nsec(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

static void become(char **command, int in, int out, int err)
{
        if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
                _exit(125);
        execvp(command[0], command);
        _exit(errno == ENOENT ? 127 : 126);
}

/* Exit codes as a shell gives them. */
static int code_of(int status)
{
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void run_time(char **command, int in, int out, int err)
{
        struct rusage usage;
        int status;

        uint64_t start = now_nsec();
        pid_t pid = vfork();
        if (pid == 0)
                become(command, in, out, err);
        if (pid < 0)
                die("vfork");
        while (wait4(pid, &status, 0, &usage) < 0)
                if (errno != EINTR)
                        die("wait4");
        uint64_t took = now_nsec() - start;
        printf("{\"nsec\": %llu, \"code\": %d}\n", (unsigned long long)took, code_of(status));
}

static uint64_t time_exec(void)
{
        char *command[] = {"nothing", NULL};
        int status;

        uint64_t start = now_nsec();
        pid_t pid = vfork();
        if (pid == 0) {
                execv("/proc/self/exe", command);
                _exit(126);
        }
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
                die("exec");
        uint64_t took = now_nsec() - start;
        if (status != 0) {
                fprintf(stderr, "spawn: the program ended with %d\n", code_of(status));
                exit(125);
        }
        return took;
}

/* The other side ends when ours is closed. */
static int start_echo(void)
{
        int ends[2];
        char byte;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                die("socketpair");
        pid_t pid = fork();
        if (pid < 0)
                die("fork");
        if (pid == 0) {
                close(ends[0]);
                while (read(ends[1], &byte, 1) == 1 && write(ends[1], &byte, 1) == 1)
                        ;
                _exit(0);
        }
        close(ends[1]);
        return ends[0];
}

static uint64_t time_pair(void)
{
        static int fd = -1;
        char byte = 'x';

        if (fd < 0)
                fd = start_echo();
        uint64_t start = now_nsec();
        if (write(fd, &byte, 1) != 1 || read(fd, &byte, 1) != 1)
                die("pair");
        return now_nsec() - start;
}

static void print_times(unsigned long count, uint64_t (*one)(void))
{
        printf("{\"samples\": [");
        for (unsigned long i = 0; i < count; i++)
                printf("%s%llu", i > 0 ? ", " : "", (unsigned long long)one());
        puts("]}");
}

/* The number behind `key` in a file of /proc/PID, in kB; -1 when it is not there. */
static long read_kb(pid_t pid, const char *file, const char *key)
{
        char path[64], line[256];
        long value = -1;

        snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
        FILE *f = fopen(path, "re");
        if (!f)
                return -1;
        while (value < 0 && fgets(line, sizeof(line), f))
                if (strncmp(line, key, strlen(key)) == 0)
                        value = strtol(line + strlen(key), NULL, 10);
        fclose(f);
        return value;
}

static void print_memory(pid_t pid, uint64_t start)
{
        char path[64], exe[256], name[64] = "";

        snprintf(path, sizeof(path), "/proc/%d/exe", pid);
        ssize_t n = readlink(path, exe, sizeof(exe) - 1);
        exe[n > 0 ? n : 0] = '\0';
        snprintf(path, sizeof(path), "/proc/%d/comm", pid);
        FILE *f = fopen(path, "re");
        if (f) {
                if (fgets(name, sizeof(name), f))
                        name[strcspn(name, "\n")] = '\0';
                fclose(f);
        }
        printf("{\"pid\": %d, \"exe\": \"%s\", \"comm\": \"%s\", \"at_nsec\": %llu, \"hwm_kb\": %ld, \"rss_kb\": %ld, \"pss_kb\": %ld, "
               "\"private_kb\": %ld, \"anonymous_kb\": %ld}\n",
               pid, exe, name, (unsigned long long)(now_nsec() - start), read_kb(pid, "status", "VmHWM:"),
               read_kb(pid, "smaps_rollup", "Rss:"), read_kb(pid, "smaps_rollup", "Pss:"),
               read_kb(pid, "smaps_rollup", "Private_Clean:") + read_kb(pid, "smaps_rollup", "Private_Dirty:"),
               read_kb(pid, "smaps_rollup", "Anonymous:"));
}

static void run_memory(char **command, int in, int out, int err)
{
        const long options = PTRACE_O_TRACEEXIT | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;
        uint64_t start = now_nsec();
        int status, code = -1;

        pid_t first = fork();
        if (first < 0)
                die("fork");
        if (first == 0) {
                raise(SIGSTOP);
                become(command, in, out, err);
        }
        if (waitpid(first, &status, WUNTRACED) < 0 || ptrace(PTRACE_SEIZE, first, NULL, options) < 0)
                die("ptrace");
        kill(first, SIGCONT);
        for (pid_t pid; (pid = waitpid(-1, &status, __WALL)) > 0;) {
                long sig = 0;

                if (!WIFSTOPPED(status)) {
                        if (pid == first)
                                code = code_of(status);
                        continue;
                }
                if (status >> 8 == (SIGTRAP | (PTRACE_EVENT_EXIT << 8)))
                        print_memory(pid, start);
                else if (status >> 16 == 0) /* a signal on its way, not an event of ours */
                        sig = WSTOPSIG(status);
                ptrace(PTRACE_CONT, pid, NULL, sig);
        }
        printf("{\"code\": %d}\n", code);
}

int main(int argc, char **argv)
{
        if (argc == 1) /* as time_exec() starts it */
                return 0;
        if (argc == 3 && (strcmp(argv[1], "exec") == 0 || strcmp(argv[1], "pair") == 0)) {
                print_times(strtoul(argv[2], NULL, 10), argv[1][0] == 'e' ? time_exec : time_pair);
                return 0;
        }
        if (argc < 6 || (strcmp(argv[1], "time") != 0 && strcmp(argv[1], "memory") != 0)) {
                fprintf(stderr, "usage: spawn time|memory USEC OUT ERR COMMAND... | exec|pair COUNT\n");
                return 125;
        }
        unsigned long pause_usec = strtoul(argv[2], NULL, 10);
        int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
        int out = open(argv[3], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        int err = open(argv[4], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        if (in < 0 || out < 0 || err < 0)
                die("open");
        if (pause_usec > 0)
                nanosleep(&(struct timespec){.tv_sec = (time_t)(pause_usec / 1000000), .tv_nsec = (long)(pause_usec % 1000000) * 1000}, NULL);
        if (strcmp(argv[1], "time") == 0)
                run_time(argv + 5, in, out, err);
        else
                run_memory(argv + 5, in, out, err);
        return 0;
}
