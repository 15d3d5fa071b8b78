/* SPDX-License-Identifier: Apache-2.0
 *
 * The foreman of a template: process 2 of its box, ours and static, with every capability over the template's
 * user namespace and none outside. The interpreter beside it has none at all. For each session:
 *
 *   foreman  clones an init (child of the warden, by CLONE_PARENT) into fresh user, mount, pid, net, ipc, uts and
 *            cgroup namespaces, and writes its uid map
 *   init     takes its identity, mounts /proc, raises the loopback: namespaces that wait for an order
 *   init     on the warden's order makes the listener of a session with an allowlist and sends it out, puts fresh tmpfs,
 *            /dev/pts and /proc onto the root it has inherited (or builds one of its own), makes the Landlock ruleset,
 *            sends both to the warden and locks itself in
 *
 * The interpreter owns those user namespaces as much as the foreman does (both have the uid that made them), so a
 * child that it forks may join them, and gives up there what it got by joining (runner/python). No user code runs
 * before that. */
#include "base/fd.h"
#include "base/message.h"
#include "kernel/mount.h"
#include "kernel/sys.h"
#include "runner/runner.h"
#include "warden/setup.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define FOREMAN_SOCKET_FD 3
#define FOREMAN_PROC_FD 4
#define SHELL_SOCKET_FD 5 /* to the warden */
#define SHELL_GO_FD 6     /* to the foreman */

/* Process 1 of a session, from its first moment to its last. */
static _noreturn_ void shell_main(const struct foreman_order *made)
{
        static struct setup_order order;
        static struct setup_fds fds;
        const struct setup s = {
                .uid = made->map.uid_inside, .gid = made->map.gid_inside, .host_network = made->host_network, .socket = SHELL_SOCKET_FD,
        };
        char go;

        if (read(SHELL_GO_FD, &go, 1) != 1)
                _exit(1);
        close(SHELL_GO_FD);
        prctl(PR_SET_DUMPABLE, 0);
        setup_check(&s, negative(setresgid(s.gid, s.gid, s.gid)), "take the session's group");
        setup_check(&s, negative(setresuid(s.uid, s.uid, s.uid)), "take the session's user");
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* after the change of user, which clears it */
        setup_check(&s, negative(sethostname("glovebox", 8)), "set the box's host name");
        int proc = mount_new_proc();
        setup_check(&s, proc, "mount /proc in the session");
        if (made->wants_namespaces)
                setup_open_namespaces(proc, "pid");
        setup_raise_loopback(&s);
        setup_lower_user_limits(FOREMAN_PROC_FD);
        close(FOREMAN_PROC_FD);
        close(FOREMAN_SOCKET_FD);

        int r = setup_order_receive(s.socket, &order, &fds);
        if (r == -EPIPE)
                _exit(0);
        setup_check(&s, r, "understand the warden's order");
        int root = order.spec.flags & BOX_ROOT_INHERITED ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) : setup_attach_root(&s);
        setup_check(&s, negative(root), "open the session's root");
        (void)setup_build(&s, &order, &fds, proc, root);
        /* One that the warden does not know would stay for ever. That its session was ended does not always show by the
         * end of the socket: a process that the warden is just starting may hold the other end open. */
        if (!setup_await_claim(s.socket))
                _exit(1);
        runner_init_stay(s.socket, s.socket, true);
}

/* Puts two descriptors at their fixed numbers, by way of high ones, so that neither closes the other. */
static int arrange(int a, int a_number, int b, int b_number)
{
        int high_a = fcntl(a, F_DUPFD_CLOEXEC, 64), high_b = fcntl(b, F_DUPFD_CLOEXEC, 64);

        if (dup3(high_a, a_number, O_CLOEXEC) < 0 || dup3(high_b, b_number, O_CLOEXEC) < 0)
                return -errno;
        return sys_close_range((unsigned)b_number + 1, ~0U, 0) < 0 ? -errno : 0;
}

static int make_shell(const struct foreman_order *order, int socket)
{
        int pidfd = -1, pair[2];
        struct clone_args args = {
                .flags = CLONE_PARENT | CLONE_PIDFD | CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |
                         CLONE_NEWCGROUP | (order->host_network ? 0 : CLONE_NEWNET),
                .pidfd = (uint64_t)(uintptr_t)&pidfd,
        };
        struct setup_frame frame = {.kind = SETUP_INIT};

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        _cleanup_close_ int ours = pair[0], theirs = pair[1];
        /* The files of its maps belong to whom a process that can be dumped belongs to: us. */
        prctl(PR_SET_DUMPABLE, 1);
        pid_t pid = sys_clone3(&args);
        if (pid == 0) {
                if (arrange(socket, SHELL_SOCKET_FD, theirs, SHELL_GO_FD) < 0)
                        _exit(1);
                shell_main(order);
        }
        int r = pid < 0 ? -errno : 0;
        prctl(PR_SET_DUMPABLE, 0);
        if (r < 0)
                return r;
        r = message_send(socket, &frame, sizeof(frame), &pidfd, 1); /* it has a keeper from here on */
        safe_close(pidfd);
        if (r == 0)
                r = userns_write_map_at(FOREMAN_PROC_FD, pid, &order->map);
        if (r == 0 && write(ours, "g", 1) != 1)
                r = -errno;
        return r;
}

static void serve(void)
{
        struct foreman_order order;
        int fds[BOX_FDS_MAX], n_fds;

        ssize_t n = message_receive(FOREMAN_SOCKET_FD, 0, &order, sizeof(order), fds, &n_fds);
        if (n != sizeof(order) || n_fds != 1)
                _exit(0);
        int r = make_shell(&order, fds[0]);
        if (r < 0) {
                struct setup_frame frame = {.kind = SETUP_FAILED, .error = {.code = GB_E_UNENFORCEABLE, .errnum = -r}};
                snprintf(frame.error.message, sizeof(frame.error.message), "the template cannot make namespaces for a session: %s",
                         strerror(-r));
                message_send(fds[0], &frame, sizeof(frame), NULL, 0);
        }
        safe_close(fds[0]);
}

_noreturn_ void foreman_main(const struct setup *s, int socket)
{
        int proc = mount_new_whole_proc();

        setup_check(s, proc, "mount /proc for the foreman");
        prctl(PR_SET_NAME, "glovebox-foreman");
        if (arrange(socket, FOREMAN_SOCKET_FD, proc, FOREMAN_PROC_FD) < 0)
                _exit(1);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
                _exit(1);
        for (;;)
                serve();
}
