/* SPDX-License-Identifier: Apache-2.0
 *
 * From the fork of a program's first process to its exec. It locks itself in as a program in a native box does (runner/program.c).
 *
 * With a compiler it forks once: the child compiles, this process waits and then becomes what was compiled. Until its last exec it is not dumpable,
 * so what the compiler runs cannot touch it. */
#include "agent/files_serve.h"
#include "agent/supervisor.h"
#include "agent/tree.h"
#include "base/fd.h"
#include "kernel/landlock.h"
#include "kernel/privilege.h"
#include "kernel/seccomp.h"
#include "kernel/sys.h"
#include "runner/first.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define STATUS_FD_MIN 32 /* above what the program gets */

static int status_fd = -1;
static bool is_started; /* the compiler was executed */

static _noreturn_ void _printf_(3, 4) fail(int code, int errnum, const char *format, ...)
{
        struct report r = {.kind = REPORT_FAILED, .error = {.code = code, .errnum = errnum}};

        va_list ap;
        va_start(ap, format);
        vsnprintf(r.error.message, sizeof(r.error.message), format, ap);
        va_end(ap);
        if (is_started) /* what the supervisor cannot take back any more: as a shell would say it */
                dprintf(STDERR_FILENO, "glovebox: %s\n", r.error.message);
        send(status_fd, &r, sizeof(r), MSG_NOSIGNAL);
        _exit(127);
}

static void check(int r, const char *what)
{
        if (r < 0)
                fail(GB_E_UNENFORCEABLE, -r, "cannot %s: %s", what, strerror(-r));
}

static int negative(int r)
{
        return r < 0 ? -errno : 0;
}

static void say(enum report_kind kind)
{
        struct report r = {.kind = kind};

        is_started = true;
        send(status_fd, &r, sizeof(r), MSG_NOSIGNAL);
}

static void become_session(void)
{
        const char *what;
        int r = first_become_session(&what);

        check(r, what);
}

static void lower_limits(const struct launch *launch)
{
        const struct wire_plan *plan = &launch->plan->head;
        const struct {
                int resource;
                uint64_t value;
                bool set, must;
        } limits[] = {
                {RLIMIT_CORE, 1, true, true}, /* 0 would still start a piped crash handler on the host */
                {RLIMIT_NOFILE, plan->rlimit_nofile, plan->rlimit_nofile > 0, true},
                {RLIMIT_MEMLOCK, 64 * KIB, true, true},
                {RLIMIT_MSGQUEUE, 0, true, false},
                {RLIMIT_RTPRIO, 0, true, false},
                {RLIMIT_NICE, 0, true, false},
                {RLIMIT_SIGPENDING, 1024, true, false},
                {RLIMIT_FSIZE, plan->rlimit_fsize, plan->rlimit_fsize > 0, true},
        };

        for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
                int r = limits[i].set ? rlimit_lower(0, limits[i].resource, limits[i].value) : 0;
                if (r == -EPERM && !limits[i].must)
                        continue; /* gVisor: it does not have what is limited by them */
                check(r, "set the resource limits");
        }
        if (launch->marked)
                check(tree_set_owner(launch->number), "mark the program's processes");
}

static void lock_in(const struct launch *launch)
{
        check(privilege_no_new(), "give up new privileges");
        check(negative(prctl(PR_SET_DUMPABLE, 0)), "forbid dumps");
        check(negative(prctl(PR_SET_PDEATHSIG, SIGKILL)), "tie the program to its supervisor");
        if (launch->ruleset >= 0)
                check(landlock_enforce(launch->ruleset), "enforce the Landlock ruleset");
        check(seccomp_load(), "load the system call filter");
}

/* Standard input is /dev/null already. All that is not copied to its place is closed by the exec. */
static void place_descriptors(const struct launch *launch)
{
        status_fd = fcntl(status_fd, F_DUPFD_CLOEXEC, STATUS_FD_MIN);
        if (status_fd < 0)
                _exit(127);
        for (int i = 0; i < 3; i++)
                if (launch->streams[i] >= 0)
                        check(negative(dup2(launch->streams[i], i)), "take the standard streams");
        if (launch->control == WIRE_CONTROL_FD)
                check(negative(fcntl(WIRE_CONTROL_FD, F_SETFD, 0)), "hand the program its channel");
        else if (launch->control >= 0)
                check(negative(dup2(launch->control, WIRE_CONTROL_FD)), "hand the program its channel");
}

static void make_directories(const char *path)
{
        char part[BOX_PATH_MAX];

        for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
                if (mkdir(part, 0755) < 0 && (errno == ENOSPC || errno == ENOMEM))
                        fail(GB_E_LIMIT, errno, "cannot make %s in the session: %s", part, strerror(errno));
        }
}

static void write_code(const struct plan *plan)
{
        if (plan->code_path[0] == '\0')
                return;
        make_directories(plan->code_path);
        (void)unlink(plan->code_path); /* of an earlier run */
        _cleanup_close_ int fd = open(plan->code_path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
        int r = fd < 0 ? -errno : fd_write_all(fd, plan->code, plan->head.code_size);
        if (r < 0) {
                (void)unlink(plan->code_path); /* half of it would only take room */
                fail(GB_E_LIMIT, -r, "cannot write %s in the session: %s", plan->code_path, strerror(-r));
        }
}

static _noreturn_ void execute(char *const *words, char *const *variables)
{
        int errnum = -first_execute(words, variables);

        if (errnum == ENOENT && !strchr(words[0], '/'))
                fail(GB_E_NOT_FOUND, ENOENT,
                     "%s is not installed in the box (looked in /usr/local/bin, /usr/bin, /bin); use --image with an image that has it", words[0]);
        fail(GB_E_NOT_FOUND, errnum, "cannot execute %s in the box: %s%s", words[0], strerror(errnum),
             errnum == E2BIG ? " (the arguments and variables are too long)" : "");
}

/* The compiler's process has closed its pipe: it was executed, has reported why not, or was killed. */
static void check_compiler(const struct launch *launch, pid_t pid)
{
        _cleanup_close_ int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
        int r = proc < 0 ? -errno : tree_has_executed(proc, pid, launch->name);

        if (r < 0)
                fail(GB_E_LOST, -r, "whether the compiler was executed cannot be known: %s", strerror(-r));
        if (r == 0) /* if it has sent its own report, the supervisor reads that one first */
                fail(GB_E_LOST, ECHILD, "the compiler was killed before it could start (out of memory?)");
}

static void compile(const struct launch *launch)
{
        const struct plan *plan = launch->plan;
        int exec_pipe[2];
        char dummy;

        check(negative(pipe2(exec_pipe, O_CLOEXEC)), "start the compiler");
        pid_t pid = fork();
        if (pid < 0)
                fail(GB_E_LIMIT, errno, "cannot start the compiler: %s", strerror(errno));
        if (pid == 0)
                execute(plan->compile, plan->env);
        safe_close(exec_pipe[1]);
        while (read(exec_pipe[0], &dummy, 1) < 0 && errno == EINTR)
                ;
        safe_close(exec_pipe[0]);
        check_compiler(launch, pid);
        say(REPORT_COMPILING);
        first_wait_for_compiler(pid);
        say(REPORT_COMPILED);
}

_noreturn_ void launch_run(const struct launch *launch, int status)
{
        const struct plan *plan = launch->plan;

        status_fd = status;
        prctl(PR_SET_NAME, launch->name);
        become_session();
        place_descriptors(launch); /* to numbers that the limit may not have */
        lower_limits(launch);
        lock_in(launch);
        write_code(plan);
        if (chdir(plan->cwd) < 0)
                fail(GB_E_USAGE, errno, "the box's user cannot enter the workspace: %s; its owner needs the right to (chmod u+rwx)",
                     strerror(errno));
        if (plan->head.flags & WIRE_PLAN_FILES) {
                const int keep[] = {WIRE_CONTROL_FD};
                say(REPORT_SERVING);
                prctl(PR_SET_NAME, "glovebox-files");
                close_all_but(3, keep, ARRAY_SIZE(keep));
                _exit(files_serve(WIRE_CONTROL_FD) < 0);
        }
        if (plan->head.n_compile > 0)
                compile(launch);
        execute(plan->run, plan->env);
}
