/* SPDX-License-Identifier: Apache-2.0
 *
 * The program: process 2 of a box and a child of the warden (it was cloned with CLONE_PARENT).
 * With a compiler it forks once: the child compiles, this process waits and then becomes what was
 * compiled. Until its last exec it is not dumpable, so what the compiler runs cannot touch it. */
#include "base/fd.h"
#include "kernel/seccomp.h"
#include "kernel/sys.h"
#include "runner/runner.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define FRAME_FD 3

/* Directories where the first word of a command is looked up. */
static const char *const search_path[] = {"/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"};

static char *words[ARG_COUNT_MAX + COMMAND_WORDS_MAX + 1];
static char *variables[ENV_COUNT_MAX + 1];

static _noreturn_ void _printf_(3, 4) fail(int code, int errnum, const char *format, ...)
{
        struct setup_frame frame = {.kind = SETUP_FAILED, .error = {.code = code, .errnum = errnum}};

        va_list ap;
        va_start(ap, format);
        vsnprintf(frame.error.message, sizeof(frame.error.message), format, ap);
        va_end(ap);
        runner_send(FRAME_FD, &frame, NULL, 0);
        _exit(127);
}

/* Points words[] at the NUL-terminated strings of a range. */
static void split(const struct payload *p, struct payload_range range, char **list, size_t max)
{
        char *at = (char *)(uintptr_t)p + range.offset, *end = at + range.size;
        size_t n = 0;

        while (at < end && n < max) {
                list[n++] = at;
                at += strlen(at) + 1;
        }
        list[n] = NULL;
}

static void become_session(void)
{
        static const unsigned long standard[4]; /* the kernel's struct sigaction: all default */
        sigset_t none;

        /* Not by glibc, which keeps two for itself and would leave them as the caller had them. */
        for (int sig = 1; sig < NSIG; sig++)
                syscall(SYS_rt_sigaction, sig, standard, NULL, 8);
        sigemptyset(&none);
        if (sigprocmask(SIG_SETMASK, &none, NULL) < 0 || setsid() < 0)
                fail(GB_E_INTERNAL, errno, "cannot start a process session in the box: %s", strerror(errno));
        umask(022);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                fail(GB_E_INTERNAL, errno, "cannot tie the program to the warden: %s", strerror(errno));
}

static void join_cgroups(const struct runner_program *p)
{
        for (int i = 0; i < p->n_join; i++)
                if (write(p->join[i], "0", 1) != 1)
                        fail(GB_E_INTERNAL, errno, "cannot put the program into its cgroup: %s", strerror(errno));
}

static void take_descriptors(const struct runner_program *p)
{
        /* Sources lie above what they are copied to: the warden's descriptors begin at 3, and
         * 0 to 2 are /dev/null there. The frame socket goes last, over whatever 3 was. */
        for (int i = 0; i < 3; i++)
                if (dup2(p->stdio[i], i) < 0)
                        _exit(127);
        if (p->socket != FRAME_FD && dup3(p->socket, FRAME_FD, O_CLOEXEC) < 0)
                _exit(127);
        sys_close_range(FRAME_FD + 1, ~0U, 0);
}

static void execute(const struct payload *p, uint32_t command)
{
        char path[BOX_PATH_MAX];

        split(p, p->commands[command], words, ARRAY_SIZE(words) - 1);
        if (!words[0])
                fail(GB_E_INTERNAL, 0, "the box has no command to run");

        if (strchr(words[0], '/')) {
                execve(words[0], words, variables);
                fail(GB_E_NOT_FOUND, errno, "cannot execute %s in the box: %s", words[0], strerror(errno));
        }
        int errnum = ENOENT;
        for (size_t i = 0; i < ARRAY_SIZE(search_path); i++) {
                snprintf(path, sizeof(path), "%s/%s", search_path[i], words[0]);
                execve(path, words, variables);
                if (errno != ENOENT && errno != ENOTDIR)
                        errnum = errno;
        }
        if (errnum == ENOENT)
                fail(GB_E_NOT_FOUND, ENOENT,
                     "%s is not installed in the box (looked in /usr/local/bin, /usr/bin, /bin); install it on the host "
                     "or use --rootfs with an image that has it", words[0]);
        fail(GB_E_NOT_FOUND, errnum, "cannot execute %s in the box: %s%s", words[0], strerror(errnum),
             errnum == E2BIG ? " (the arguments and variables are too long)" : "");
}

/* Returns when the compiler was content; ends as the compiler ended otherwise. */
static void compile(const struct payload *p)
{
        int status;

        pid_t pid = fork();
        if (pid < 0)
                fail(GB_E_INTERNAL, errno, "cannot start the compiler: %s", strerror(errno));
        if (pid == 0)
                execute(p, 0);
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        _exit(127);
        if (WIFSIGNALED(status)) {
                kill(getpid(), WTERMSIG(status));
                _exit(128 + WTERMSIG(status));
        }
        if (WEXITSTATUS(status) != 0)
                _exit(WEXITSTATUS(status));
}

_noreturn_ void runner_program(const struct runner_program *p)
{
        const struct payload *payload = p->payload;

        join_cgroups(p);
        take_descriptors(p);
        become_session();
        split(payload, payload->env, variables, ARRAY_SIZE(variables) - 1);
        if (chdir(payload->cwd) < 0)
                fail(GB_E_INTERNAL, errno, "cannot enter %s in the box: %s", payload->cwd, strerror(errno));
        if (p->seccomp) {
                int r = seccomp_load();
                if (r < 0)
                        fail(GB_E_UNENFORCEABLE, -r, "cannot load the system call filter: %s", strerror(-r));
        }
        for (uint32_t i = 0; i < payload->n_commands; i++) {
                struct setup_frame frame = {.kind = SETUP_PHASE, .value = payload->n_commands - 1 - i};
                runner_send(FRAME_FD, &frame, NULL, 0);
                if (i + 1 < payload->n_commands)
                        compile(payload);
                else
                        execute(payload, i);
        }
        _exit(127);
}
