/* SPDX-License-Identifier: Apache-2.0
 *
 * Process 1 of a box. Only a process of the pid namespace may mount its /proc, so init makes that
 * mount, hands it to the setup process and locks itself in at once. From then on it has one job: to be there, so that the pid namespace lives
 * as long as the warden wants and orphans have a parent. SIGCHLD is ignored, so the kernel
 * reaps them by itself. Its death (SIGKILL from the warden, or by parent-death signal when the
 * warden dies) takes every process of the box with it. The program's exit status never passes
 * through it: the program is the warden's own child. */
#include "base/fd.h"
#include "base/message.h"
#include "kernel/mount.h"
#include "kernel/privilege.h"
#include "kernel/seccomp.h"
#include "kernel/sys.h"
#include "runner/runner.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static _noreturn_ void fail(int socket, int r, const char *what)
{
        struct setup_frame frame = {.kind = SETUP_FAILED, .error = {.code = GB_E_UNENFORCEABLE, .errnum = -r}};

        snprintf(frame.error.message, sizeof(frame.error.message), "cannot %s: %s", what, strerror(-r));
        message_send(socket, &frame, sizeof(frame), NULL, 0);
        _exit(1);
}

static void send_proc(int socket)
{
        int proc = mount_new_proc();

        if (proc == -EPERM)
                fail(socket, proc, "mount a fresh /proc in the box (inside a container the kernel forbids it while parts of the "
                                   "old one are masked: run glovebox on the host, or start the container with --security-opt "
                                   "systempaths=unconfined)");
        if (proc < 0)
                fail(socket, proc, "mount /proc in the box");
        struct setup_frame frame = {.kind = SETUP_INIT};
        message_send(socket, &frame, sizeof(frame), &proc, 1);
        safe_close(proc);
}

_noreturn_ void runner_init_stay(int socket, int warden, bool seccomp)
{
        struct sigaction ignore = {.sa_handler = SIG_IGN};
        int r;

        prctl(PR_SET_NAME, "glovebox-init");
        if ((r = privilege_new_keyring()) < 0 || (r = privilege_clear_capabilities()) < 0 || (r = privilege_no_new()) < 0)
                fail(socket, r, "take init's privileges");
        /* After the last change of credentials: those would clear it. A warden that dies in this moment has signalled its children before it looks dead
         * to a look, both while it holds the kernel's lock of all tasks. setsid() takes that lock: what was too late for the signal is seen dead below. */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0 || sigaction(SIGCHLD, &ignore, NULL) < 0 || setsid() < 0)
                fail(socket, -errno, "lock init in");
        /* A warden that died before this sends no signal any more. */
        struct pollfd alive = {.fd = warden};
        if (poll(&alive, 1, 0) != 0)
                _exit(1);
        if (seccomp && (r = seccomp_load_pause()) < 0)
                fail(socket, r, "load the system call filter");
        sys_close_range(0, ~0U, 0); /* the other end sees the end of its socket: init is harmless now */
        for (;;)
                pause();
}

_noreturn_ void runner_init(int socket, int warden, bool seccomp)
{
        char kept;

        /* From the first moment: giving up capabilities does not clear it. Set again below, where it must hold. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (read(socket, &kept, 1) != 1)
                _exit(1);
        send_proc(socket);
        runner_init_stay(socket, warden, seccomp);
}
