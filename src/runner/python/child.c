/* SPDX-License-Identifier: Apache-2.0
 *
 * A child of a template is two clones away from it. A pid namespace can only be given to one's children, so a
 * middle process joins the session's namespaces and forks the child there:
 *
 *   template --vfork--> middle: setns() x 7, --clone--> child: locks itself in, returns into the interpreter
 *            <-resumes- middle: sends the child's pidfd to the warden, ends
 *
 * The middle process shares the template's memory while that sleeps (CLONE_VM | CLONE_VFORK), so it costs no page
 * tables; only the second clone copies. Both are made with CLONE_PARENT: they are children of the warden, which
 * sees their ends itself.
 *
 * The template holds no capability. It may join because the user namespaces were made under its own uid, and by
 * joining the middle process gets all capabilities over that session and none elsewhere. The child gives
 * them up before the warden hands its control channel to anybody.
 *
 * Raw clones skip the handlers that libraries register for fork(). The template has one thread, so no lock can be
 * held; what must differ in a child (random state, cached ids) the Python half renews (glovebox_runner_warm.after_fork). */
#include "runner/python/child.h"

#include "base/fd.h"
#include "base/message.h"
#include "kernel/apparmor.h"
#include "kernel/landlock.h"
#include "kernel/privilege.h"
#include "kernel/seccomp.h"
#include "kernel/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define PR_GET_TID_ADDRESS_ 40

/* The order that is being obeyed. It is on the stack and not in the data of this module, which is part of the image: that no page
 * of the image is written to makes the forks cheap. */
struct work {
        int socket;
        struct fork_order order;
        int fds[BOX_FDS_MAX];
        int n_fds;
        const struct image_hot *hot;
        int *tid_place;
        cpu_set_t cpus; /* before the template kept to one */
        int middle_pidfd;
};

/* clone() as the kernel has it, on the caller's own stack. Inline, so that no return address lies where the other
 * process could overwrite it. */
static inline __attribute__((always_inline)) long raw_clone(unsigned long flags, int *pidfd, int *tid)
{
#if defined(__x86_64__)
        long result;
        register long r10 __asm__("r10") = (long)tid;
        register long r8 __asm__("r8") = 0;
        __asm__ volatile("syscall"
                         : "=a"(result)
                         : "0"((long)SYS_clone), "D"(flags), "S"(0L), "d"(pidfd), "r"(r10), "r"(r8)
                         : "rcx", "r11", "memory");
        return result;
#else /* aarch64: meson.build of kernel/seccomp lets no other pass */
        register long x8 __asm__("x8") = SYS_clone;
        register long x0 __asm__("x0") = (long)flags;
        register long x1 __asm__("x1") = 0;
        register long x2 __asm__("x2") = (long)pidfd;
        register long x3 __asm__("x3") = 0;
        register long x4 __asm__("x4") = (long)tid;
        __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
        return x0;
#endif
}

/* Where the C library keeps the number of this thread, so that the kernel writes the child's there; NULL where
 * the kernel does not tell. */
static int *thread_id_place(void)
{
        int *place = NULL;

        return prctl(PR_GET_TID_ADDRESS_, &place) == 0 ? place : NULL;
}

static unsigned long thread_id_flags(const int *place)
{
        return place ? CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID : 0;
}

static void answer(const struct work *w, uint32_t kind, int errnum, const char *what, const int *fd)
{
        struct fork_answer a = {.kind = kind, .number = w->order.number, .errnum = errnum};

        snprintf(a.what, sizeof(a.what), "%s", what);
        (void)message_send(w->socket, &a, sizeof(a), fd, fd ? 1 : 0);
}

static _noreturn_ void fail(const struct work *w, int errnum, const char *what)
{
        answer(w, FORK_FAILED, errnum, what, NULL);
        syscall(SYS_exit_group, 127);
        __builtin_unreachable();
}

static void check(const struct work *w, int r, const char *what)
{
        if (r < 0)
                fail(w, -r, what);
}

/* ---- the child ---- */

static void set_limits(const struct work *w)
{
        const struct {
                int resource;
                uint64_t value;
        } limits[] = {
                {RLIMIT_NOFILE, w->order.nofile},
                {RLIMIT_FSIZE, w->order.file_bytes > 0 ? w->order.file_bytes : RLIM_INFINITY},
        };

        /* The others are the template's own. */
        for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
                check(w, rlimit_lower(0, limits[i].resource, limits[i].value), "set its resource limits");
}

/* Takes 0 to 2 and the control channel, closes everything else but the socket for the last word. */
static void take_streams(const struct work *w)
{
        for (int i = 0; i < 3; i++)
                check(w, negative(dup2(w->fds[FORK_STDIN + i], i)), "take its standard streams");
        /* By now nothing else that came along is needed, should it have this number. */
        if (w->fds[FORK_CONTROL] != BOX_CONTROL_FD)
                check(w, negative(dup3(w->fds[FORK_CONTROL], BOX_CONTROL_FD, O_CLOEXEC)), "take its control channel");
        sys_close_range(3, BOX_CONTROL_FD - 1, 0);
        sys_close_range(BOX_TEMPLATE_FD + 1, ~0U, 0);
}

/* Should: join the cgroups, give up every privilege and load the filter. Mustn't: keep anything of the template's but
 * its memory. No user code runs before it is done. */
static void lock_in(const struct work *w)
{
        const struct fork_order *o = &w->order;
        const int *rest = w->fds + FORK_REST;
        int ruleset = o->has_ruleset ? *rest++ : -1;

        for (uint32_t i = 0; i < o->n_join; i++)
                check(w, negative((int)write(rest[i], "0", 1)), "join its cgroup");
        check(w, negative(setresgid(o->gid, o->gid, o->gid)), "take its group");
        check(w, negative(setresuid(o->uid, o->uid, o->uid)), "take its user");
        set_limits(w);
        (void)sched_setaffinity(0, sizeof(w->cpus), &w->cpus); /* at worst it keeps to one */
        check(w, privilege_new_keyring(), "make a session keyring");
        check(w, privilege_drop_capabilities(), "drop its capabilities");
        /* After the last change of credentials: those clear it. */
        check(w, negative(prctl(PR_SET_PDEATHSIG, SIGKILL)), "tie itself to the warden");
        check(w, negative(setsid()), "start a process session");
        check(w, negative(chdir("/sandbox")), "enter the workspace");
        /* The template has none: it needs rights that the profile does not give. */
        if (o->apparmor)
                check(w, apparmor_ask(APPARMOR_CHANGE APPARMOR_NATIVE), "change to the AppArmor profile " APPARMOR_NATIVE);
        if (ruleset >= 0)
                check(w, landlock_enforce(ruleset), "enforce the Landlock ruleset");
        check(w, seccomp_load_child(), "load the system call filter");
        take_streams(w);
        answer(w, FORK_LOCKED, 0, "", NULL);
        close(w->socket);
        /* Joining has made us opaque, which a fresh exec would not be. Until here that kept what else runs in the session
         * from looking into us and taking over: we held the socket, and were not under all filters. */
        prctl(PR_SET_DUMPABLE, 1);
}

/* ---- the middle process ---- */

/* Returns in the child only. */
static __attribute__((noinline)) void join_and_fork(const struct work *w)
{
        int pidfd = -1;

        for (int i = 0; i < FORK_NAMESPACE_COUNT; i++)
                check(w, negative(setns(w->fds[i], 0)), "join its namespaces");
        long child = raw_clone(CLONE_PARENT | CLONE_PIDFD | thread_id_flags(w->tid_place), &pidfd, w->tid_place);
        if (child == 0) {
                lock_in(w);
                if (w->hot)
                        image_prefault(w->hot); /* charged to the session it has joined; meanwhile the warden looks at us */
                return;
        }
        if (child < 0)
                fail(w, (int)-child, "be forked");
        answer(w, FORK_FORKED, 0, "", &pidfd);
        syscall(SYS_exit_group, 0);
        __builtin_unreachable();
}

/* True in the child. The middle process runs in frames below this one, whose contents it leaves alone. */
static __attribute__((noinline)) bool fork_into_session(struct work *w)
{
        long middle = raw_clone(CLONE_VM | CLONE_VFORK | CLONE_PARENT | CLONE_PIDFD, &w->middle_pidfd, NULL);

        if (middle == 0) {
                join_and_fork(w);
                return true;
        }
        if (middle < 0) {
                answer(w, FORK_FAILED, (int)-middle, "be forked", NULL);
                return false;
        }
        answer(w, FORK_MIDDLE, 0, "", &w->middle_pidfd);
        close(w->middle_pidfd);
        return false;
}

/* Keeps the template to the processor it runs on. A new process is born on an idle one otherwise, and to wake that takes
 * longer than the fork, three times in a row; here one runs as soon as the one before sleeps. */
static void keep_to_one_cpu(struct work *w)
{
        cpu_set_t one;
        int cpu = sched_getcpu();

        CPU_ZERO(&one);
        if (cpu >= 0 && sched_getaffinity(0, sizeof(w->cpus), &w->cpus) == 0) {
                CPU_SET(cpu, &one);
                (void)sched_setaffinity(0, sizeof(one), &one);
        }
}

void child_serve(int socket, const struct image_hot *hot, const char *missing)
{
        struct work memory = {.socket = socket, .hot = hot, .tid_place = thread_id_place()}, *w = &memory;

        keep_to_one_cpu(w);
        answer(w, FORK_READY, 0, missing, NULL);
        for (;;) {
                ssize_t n = message_receive(socket, 0, &w->order, sizeof(w->order), w->fds, &w->n_fds);
                if (n == -EINTR)
                        continue;
                if (n != sizeof(w->order) || w->order.n_join > CGROUP_KIND_COUNT ||
                    w->n_fds != (int)(FORK_REST + !!w->order.has_ruleset + w->order.n_join))
                        _exit(0);
                if (fork_into_session(w))
                        return;
                for (int i = 0; i < w->n_fds; i++)
                        safe_close(w->fds[i]);
        }
}

pid_t child_fork(void)
{
        int *tid_place = thread_id_place();

        return (pid_t)raw_clone(SIGCHLD | thread_id_flags(tid_place), NULL, tid_place);
}
