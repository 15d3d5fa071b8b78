/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/children.h"

#include "base/fd.h"
#include "kernel/sys.h"
#include "warden/inside.h"
#include "warden/loop.h"

#include <errno.h>
#include <sys/syscall.h>

/* One bit for each number that a process can have (PID_MAX_LIMIT of the kernel). Only the used pages are in memory. */
#define PIDS_MAX (4 << 20)
static LOOP_TABLE unsigned char claimed[PIDS_MAX / 8];

static bool looks_again; /* an unclaimed child may be alive */

void children_keep_private(void)
{
        loop_keep_private(claimed, sizeof(claimed));
}

static bool is_claimed(pid_t pid)
{
        return pid > 0 && pid < PIDS_MAX && claimed[pid / 8] & 1U << pid % 8;
}

static void set_claimed(pid_t pid, bool yes)
{
        unsigned char bit = (unsigned char)(1U << pid % 8);

        claimed[pid / 8] = yes ? claimed[pid / 8] | bit : claimed[pid / 8] & (unsigned char)~bit;
}

void child_own(struct child *c, pid_t pid, int pidfd)
{
        *c = (struct child){pid, pidfd};
        set_claimed(pid, true);
}

/* The number of a child of ours that is neither claimed nor reaped; 0: it is none. The number stays its own until it is
 * reaped, and nothing reaps it meanwhile in this thread. */
static pid_t unclaimed_pid(int pidfd)
{
        siginfo_t info = {0};

        if (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0)
                return 0;
        pid_t pid = info.si_pid > 0 ? info.si_pid : inside_pid(pidfd);
        return pid > 1 && pid < PIDS_MAX && !is_claimed(pid) ? pid : 0;
}

int child_claim(struct child *c, int *pidfd)
{
        pid_t pid = unclaimed_pid(*pidfd);

        if (pid == 0 || child_exists(c))
                return -ECHILD;
        child_own(c, pid, TAKE_FD(*pidfd));
        return 0;
}

void child_kill(const struct child *c)
{
        if (child_exists(c))
                sys_pidfd_send_signal(c->pidfd, SIGKILL);
}

bool child_has_ended(const struct child *c)
{
        siginfo_t info = {0};

        return child_exists(c) &&
               waitid(P_PIDFD, (id_t)c->pidfd, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 && info.si_pid != 0;
}

void child_release(struct child *c)
{
        if (child_exists(c))
                set_claimed(c->pid, false);
        loop_close(c->pidfd);
        *c = (struct child)CHILD_NONE;
}

bool child_reap(struct child *c, int flags, struct ending *ret)
{
        siginfo_t info = {0};
        long r;

        if (!child_exists(c))
                return false;
        do
                r = syscall(SYS_waitid, P_PIDFD, c->pidfd, &info, WEXITED | flags | __WALL, NULL);
        while (r < 0 && errno == EINTR);
        if (r == 0 && info.si_pid == 0)
                return false;
        if (ret) /* a failure leaves info zeroed: an end that was not seen */
                *ret = ending_from_wait(&info);
        child_release(c);
        return true;
}

void child_discard(int pidfd)
{
        if (unclaimed_pid(pidfd) == 0)
                return;
        sys_pidfd_send_signal(pidfd, SIGKILL);
        looks_again = true;
}

void children_look_again(void)
{
        looks_again = true;
}

bool children_need_look(void)
{
        return looks_again;
}

/* The kernel names the oldest child that has ended, and a claimed one hides those behind it. Their numbers are in the
 * list of all children, which comes as text. Returns whether an unclaimed child is alive; without CONFIG_PROC_CHILDREN
 * that is not known, and those that have ended wait until they are the oldest. */
static bool reap_listed(void)
{
        _cleanup_close_ int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
        char text[4096];
        bool alive = false;
        pid_t pid = 0;
        ssize_t n;

        while (fd >= 0 && (n = read(fd, text, sizeof(text))) > 0)
                for (ssize_t i = 0; i < n; i++) {
                        bool digit = text[i] >= '0' && text[i] <= '9';
                        if (!digit && pid > 0 && !is_claimed(pid))
                                alive |= waitpid(pid, NULL, WNOHANG | __WALL) == 0;
                        pid = digit ? pid * 10 + (text[i] - '0') : 0;
                }
        return alive;
}

void children_reap_unclaimed(void)
{
        siginfo_t info = {0};
        bool hidden = looks_again;

        while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 && info.si_pid != 0) {
                if (is_claimed(info.si_pid)) {
                        hidden = true;
                        break;
                }
                (void)waitpid(info.si_pid, NULL, WNOHANG | __WALL);
                info = (siginfo_t){0};
        }
        if (hidden)
                looks_again = reap_listed() && looks_again;
}
