/* SPDX-License-Identifier: Apache-2.0
 *
 * The program: process 2 of a box and a child of the warden (it was cloned with CLONE_PARENT). It
 * is started ahead, so that giving up and loading the filter cost nothing once there is something
 * to run: it locks itself in, then waits for its order. The setup process sets its limits from
 * outside and builds the root directory around it meanwhile.
 *
 * With a compiler it forks once: the child compiles, this process waits and then becomes what was
 * compiled. Until its last exec it is not dumpable, so what the compiler runs cannot touch it. */
#include "base/fd.h"
#include "base/message.h"
#include "kernel/apparmor.h"
#include "kernel/landlock.h"
#include "kernel/privilege.h"
#include "kernel/seccomp.h"
#include "kernel/sys.h"
#include "runner/first.h"
#include "runner/runner.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define FRAMES_FD 3

static char *words[ARG_COUNT_MAX + COMMAND_WORDS_MAX + 1];
static char *variables[ENV_COUNT_MAX + 1];

/* The frame socket once the order has come; the socket of the order before. */
static int frames = -1;

static _noreturn_ void _printf_(3, 4) fail(int code, int errnum, const char *format, ...)
{
        struct setup_frame frame = {.kind = SETUP_FAILED, .error = {.code = code, .errnum = errnum}};

        va_list ap;
        va_start(ap, format);
        vsnprintf(frame.error.message, sizeof(frame.error.message), format, ap);
        va_end(ap);
        message_send(frames, &frame, sizeof(frame), NULL, 0);
        _exit(127);
}

static void check(int r, const char *what)
{
        if (r < 0)
                fail(GB_E_UNENFORCEABLE, -r, "cannot %s: %s", what, strerror(-r));
}

static void lock_in(struct program_layers layers)
{
        check(privilege_new_keyring(), "make a session keyring");
        if (layers.capabilities)
                check(privilege_drop_capabilities(), "drop the capabilities");
        check(privilege_no_new(), "give up new privileges");
        check(negative(prctl(PR_SET_DUMPABLE, 0)), "forbid dumps");
        /* After the last change of credentials: those would clear it. */
        check(negative(prctl(PR_SET_PDEATHSIG, SIGKILL)), "tie the program to the warden");
        if (layers.seccomp)
                check(layers.template ? seccomp_load_template() : seccomp_load(), "load the system call filter");
}

static const struct payload *map_payload(int fd)
{
        struct stat st;

        check(negative(fstat(fd, &st)), "look at the payload");
        const void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
                check(-errno, "map the payload");
        return p; /* the setup process has checked it, and it is sealed */
}

/* Copies a descriptor to where the program will look for it. */
static void place(int fd, int where)
{
        check(negative(dup2(fd, where)), "hand the program its channel");
}

/* Takes what the order brings; closes everything else. */
static const struct payload *obey(int socket)
{
        struct program_order order = {0};
        int fds[BOX_FDS_MAX], n_fds;

        if (message_receive(socket, 0, &order, sizeof(order), fds, &n_fds) != sizeof(order) || order.n_join > CGROUP_KIND_COUNT ||
            n_fds != (int)(PROGRAM_REST + !!order.has_ruleset + !!order.has_control + !!order.has_orders + order.n_join))
                _exit(127);
        frames = fds[PROGRAM_FRAMES];

        const int *rest = fds + PROGRAM_REST;
        int ruleset = order.has_ruleset ? *rest++ : -1;
        int control = order.has_control ? *rest++ : -1;
        int orders = order.has_orders ? *rest++ : -1;
        for (uint32_t i = 0; i < order.n_join; i++)
                if (write(rest[i], "0", 1) != 1)
                        check(-errno, "put the program into its cgroup");
        /* Not sooner: the profile forbids writes to files of a cgroup, and Landlock those to /proc. */
        if (order.apparmor)
                check(apparmor_ask(APPARMOR_CHANGE APPARMOR_NATIVE), "change to the AppArmor profile " APPARMOR_NATIVE);
        if (ruleset >= 0)
                check(landlock_enforce(ruleset), "enforce the Landlock ruleset");
        const struct payload *payload = map_payload(fds[PROGRAM_PAYLOAD]);

        /* All of these lie above what they are copied to: 0 to 2 are /dev/null in the warden, and what came
         * with the order are the lowest numbers after that, fewer than BOX_CONTROL_FD. */
        for (int i = 0; i < 3; i++)
                check(negative(dup2(fds[i], i)), "take the standard streams");
        check(negative(dup3(frames, FRAMES_FD, O_CLOEXEC)), "keep the frame socket");
        frames = FRAMES_FD;
        sys_close_range(BOX_CONTROL_FD, ~0U, 0);
        if (control >= 0)
                place(control, BOX_CONTROL_FD);
        if (orders >= 0)
                place(orders, BOX_TEMPLATE_FD);
        sys_close_range(FRAMES_FD + 1, BOX_CONTROL_FD - 1, 0);
        return payload;
}

/* Points list[] at the NUL-terminated strings of a range. */
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

static _noreturn_ void execute(const struct payload *p, uint32_t command)
{
        split(p, p->commands[command], words, ARRAY_SIZE(words) - 1);
        if (!words[0])
                fail(GB_E_INTERNAL, 0, "the box has no command to run");

        int errnum = -first_execute(words, variables);
        if (errnum == ENOENT && !strchr(words[0], '/'))
                fail(GB_E_NOT_FOUND, ENOENT,
                     "%s is not installed in the box (looked in /usr/local/bin, /usr/bin, /bin); install it on the host "
                     "or use --rootfs with an image that has it", words[0]);
        fail(GB_E_NOT_FOUND, errnum, "cannot execute %s in the box: %s%s", words[0], strerror(errnum),
             errnum == E2BIG ? " (the arguments and variables are too long)" : "");
}

static void compile(const struct payload *p)
{
        pid_t pid = fork();

        check(negative(pid), "start the compiler");
        if (pid == 0)
                execute(p, 0);
        first_wait_for_compiler(pid);
}

/* In a session the root stands already: what the program needs of files it writes itself, as the box's user. */
static void write_files(const struct payload *p)
{
        for (uint32_t i = 0; i < p->n_ops; i++) {
                const struct box_op *op = &p->ops[i];
                if (op->kind == BOX_OP_DIR && mkdir(op->path, op->mode) < 0 && errno != EEXIST)
                        fail(GB_E_LIMIT, errno, "cannot make %s in the session: %s", op->path, strerror(errno));
                if (op->kind != BOX_OP_FILE)
                        continue;
                (void)unlink(op->path); /* of an earlier run */
                _cleanup_close_ int fd = open(op->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, op->mode);
                int r = fd < 0 ? -errno : fd_write_all(fd, (const char *)p + op->data.offset, op->data.size);
                if (r < 0)
                        fail(GB_E_LIMIT, -r, "cannot write %s in the session: %s", op->path, strerror(-r));
        }
}

_noreturn_ void runner_program(int socket, struct program_layers layers)
{
        const char *what;
        char kept;

        if (read(socket, &kept, 1) != 1)
                _exit(127);
        frames = socket;
        int r = first_become_session(&what);
        check(r, what);
        lock_in(layers);

        const struct payload *payload = obey(socket);
        split(payload, payload->env, variables, ARRAY_SIZE(variables) - 1);
        if (chdir(payload->cwd) < 0)
                fail(GB_E_USAGE, errno, "the box's user cannot enter the workspace: %s; its owner needs the right to (chmod u+rwx)",
                     strerror(errno));
        if (layers.files)
                write_files(payload);
        for (uint32_t i = 0; i < payload->n_commands; i++) {
                struct setup_frame frame = {.kind = SETUP_PHASE, .value = payload->n_commands - 1 - i};
                /* A warden that died before we were tied to it would not be there to end us. */
                if (message_send(frames, &frame, sizeof(frame), NULL, 0) < 0)
                        _exit(127);
                if (i + 1 < payload->n_commands)
                        compile(payload);
                else
                        execute(payload, i);
        }
        _exit(127);
}
