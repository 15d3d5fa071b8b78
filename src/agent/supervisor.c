/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor of a program: a child of the agent, and the parent of the program's first process, its leader.
 *
 *   agent (process 1) --- supervisor --- leader --- whatever that starts
 *
 * It is a subreaper: whoever loses its parent below it becomes its child, so that nothing which the program starts can get out from under it.
 * When the leader has ended, or when the agent wants it to, the supervisor ends all of them: stops all first, so that they cannot fork while they
 * are counted, then kills. Then it reports and ends itself. It does not reap the leader: as long as the agent has not, the number of its process
 * group is nobody else's.
 *
 * gVisor knows subreapers since 2023. Before, the agent inherits orphans at once; the program's processes are known by a mark then (tree_owner).
 *
 * It runs as the same user as the program, which may therefore kill or stop it. It holds nothing that the program could want: the agent inherits all
 * that was below it, and ends that. */
#include "agent/supervisor.h"

#include "agent/link.h"
#include "agent/tree.h"
#include "base/fd.h"
#include "kernel/sys.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STOP_ROUNDS_MAX 6  /* looks at what is not stopped yet before all of it is killed anyway */
/* Leftover processes are counted at this interval, until their number has not grown for LEFT_QUIET_USEC, at most for
 * LEFT_WAIT_USEC. */
#define LEFT_LOOK_NSEC 1000000L
#define LEFT_QUIET_USEC 20000ULL
#define LEFT_WAIT_USEC 1000000ULL
#define KILL_PAUSE_NSEC 2000000L /* between two looks at what was killed, when nobody dies */

static struct tree tree;
static const pid_t no_stops[] = {0};

struct supervisor {
        int agent, status, children; /* children: a signalfd of SIGCHLD */
        pid_t leader;
        uint32_t number;
        bool marked; /* as in struct launch */
        char name[TASK_NAME_MAX];
        bool started, compiling, compiled;
        uint64_t began_usec, ended_usec;
};

void close_all_but(int first, const int *keep, size_t n)
{
        int next = first;

        for (;;) {
                int lowest = -1;
                for (size_t i = 0; i < n; i++)
                        if (keep[i] >= next && (lowest < 0 || keep[i] < lowest))
                                lowest = keep[i];
                if (lowest < 0)
                        break;
                if (lowest > next)
                        sys_close_range((unsigned)next, (unsigned)lowest - 1, 0);
                next = lowest + 1;
        }
        sys_close_range((unsigned)next, INT_MAX, 0); /* gVisor takes no more */
}

static void report(const struct supervisor *s, struct report *r)
{
        r->leader = s->leader;
        r->marked = s->marked;
        r->compiling = s->compiling;
        while (send(s->agent, r, sizeof(*r), MSG_NOSIGNAL) < 0 && errno == EINTR)
                ;
}

static _noreturn_ void fail(const struct supervisor *s, int code, const char *what)
{
        struct report r = {.kind = REPORT_FAILED};
        int errnum = errno;

        error_set(&r.error, code, errnum, "cannot %s: %s", what, strerror(errnum));
        report(s, &r);
        _exit(1);
}

/* What has died below us, but for the leader. */
static void reap(const struct supervisor *s)
{
        for (size_t i = 0; i < tree.n; i++)
                if (tree.tasks[i].parent == getpid() && tree.tasks[i].pid != s->leader && !task_is_alive(&tree.tasks[i]))
                        (void)waitpid(tree.tasks[i].pid, NULL, WNOHANG);
}

/* How many there are that are the program's. The dead count, but for the leader: one that was alive a moment ago may have a child that is younger than
 * our list. Once such a one is reaped, and nobody is there, there is none. Who cannot be counted is alive: end_tree() gives up on it in time. */
static size_t look(const struct supervisor *s)
{
        size_t there = 0;

        if (tree_read(&tree) < 0) {
                tree.n = 0;
                return 1;
        }
        tree_mark(&tree, getpid(), no_stops);
        for (size_t i = 0; i < tree.n; i++) {
                struct task *task = &tree.tasks[i];
                if (s->marked && task->below != 1 && task_is_alive(task)) {
                        int owner = tree_owner(task->pid);
                        task->below = owner < 0 || owner == (int)s->number;
                }
                there += task->below == 1 && (task->pid != s->leader || task_is_alive(task));
        }
        return there;
}

/* Whether all that was below us is dead. */
static bool end_tree(const struct supervisor *s)
{
        uint64_t deadline = monotonic_usec() + KILL_WAIT_USEC;
        struct timespec pause = {.tv_nsec = KILL_PAUSE_NSEC};
        sigset_t child;

        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        for (;;) {
                size_t moving = 1;
                for (int round = 0; moving > 0 && round < STOP_ROUNDS_MAX; round++) {
                        size_t there = look(s);
                        reap(s);
                        if (there == 0)
                                return true;
                        tree_signal(&tree, SIGSTOP, &moving);
                }
                tree_signal(&tree, SIGKILL, NULL);
                if (monotonic_usec() > deadline)
                        return false;
                (void)sigtimedwait(&child, NULL, &pause);
        }
}

/* How the leader has ended; not seen: it has not, or the kernel does not say. */
static struct ending leader_end(const struct supervisor *s)
{
        siginfo_t info = {0};

        (void)waitid(P_PID, (id_t)s->leader, &info, WEXITED | WNOHANG | WNOWAIT);
        return ending_from_wait(&info);
}

static void say_started(struct supervisor *s)
{
        struct report r = {.kind = REPORT_STARTED};

        s->started = true;
        report(s, &r);
}

/* Nothing was executed, and nothing will be. */
static _noreturn_ void give_up(const struct supervisor *s, struct report *r)
{
        (void)end_tree(s);
        report(s, r);
        _exit(0);
}

/* Whether the leader is or was the program. */
static bool has_executed(const struct supervisor *s)
{
        return tree_has_executed(tree.proc, s->leader, s->name) > 0;
}

/* The leader's status socket was closed, either by the exec or by the death of the leader before the exec. */
static void take_exec(struct supervisor *s)
{
        struct report r = {.kind = REPORT_FAILED};
        int executed = tree_has_executed(tree.proc, s->leader, s->name);

        if (s->started)
                return;
        if (executed > 0) {
                say_started(s);
                return;
        }
        if (executed < 0)
                error_set(&r.error, GB_E_LOST, -executed, "whether the program was executed cannot be known: %s",
                          strerror(-executed));
        else
                error_set(&r.error, GB_E_LOST, ECHILD, "the program was killed before it could start (out of memory?)");
        give_up(s, &r);
}

/* Takes one report that the leader sends before it is the program; false: there is none now. */
static bool take_status(struct supervisor *s)
{
        struct report r = {0};
        ssize_t n = recv(s->status, &r, sizeof(r), MSG_DONTWAIT);

        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return false;
        if (n != sizeof(r)) {
                s->status = safe_close(s->status);
                take_exec(s);
        } else if (r.kind == REPORT_FAILED && !s->started) {
                give_up(s, &r);
        } else if (r.kind == REPORT_COMPILING || r.kind == REPORT_COMPILED) {
                s->compiling = r.kind == REPORT_COMPILING;
                s->compiled = !s->compiling;
                s->began_usec = monotonic_usec();
                say_started(s);
        } else if (r.kind == REPORT_SERVING && !s->started) {
                say_started(s);
        }
        return true;
}

/* The leader has ended. Waits while its leftover processes multiply: a bomb whose first process exits at once needs
 * a moment to show. Returns the largest number seen. */
static uint32_t watch_left(const struct supervisor *s)
{
        const struct timespec pause = {.tv_nsec = LEFT_LOOK_NSEC};
        uint64_t began = monotonic_usec(), grown = began;
        size_t left, most = 0;

        while ((left = look(s)) > 0) {
                uint64_t now = monotonic_usec();
                grown = left > most ? now : grown;
                most = MAX(most, left);
                if (now - grown >= LEFT_QUIET_USEC || now - began >= LEFT_WAIT_USEC)
                        break;
                reap(s);
                (void)nanosleep(&pause, NULL);
        }
        return (uint32_t)most;
}

static _noreturn_ void finish(struct supervisor *s)
{
        bool by_itself = s->ended_usec > 0;
        uint32_t left = by_itself ? watch_left(s) : 0;
        bool clean = (by_itself && left == 0) || end_tree(s);
        struct report r = {.kind = REPORT_ENDED};

        if (s->ended_usec == 0)
                s->ended_usec = monotonic_usec();
        while (s->status >= 0 && take_status(s))
                ;
        if (!s->started) /* a process that cannot be killed still holds the socket */
                take_exec(s);
        r.end = (struct wire_end){
                .ending = leader_end(s),
                .compiling = s->compiling,
                .unkillable = !clean,
                .by_itself = by_itself,
                .tasks_left = left,
                .wall_usec = s->ended_usec - s->began_usec,
        };
        /* The compiled program was not executed: this is the end of the process that was to execute it. */
        if (s->compiled && ending_signal(&r.end.ending) > 0 && !has_executed(s))
                r.end.ending = (struct ending){0};
        report(s, &r);
        _exit(0);
}

/* Reaps orphans; returns whether the leader has ended. */
static bool take_children(struct supervisor *s)
{
        struct signalfd_siginfo drop;
        siginfo_t info;

        (void)!read(s->children, &drop, sizeof(drop));
        for (;;) {
                info = (siginfo_t){0};
                if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
                        return false;
                if (info.si_pid == s->leader) {
                        s->ended_usec = monotonic_usec();
                        return true;
                }
                (void)waitpid(info.si_pid, NULL, WNOHANG);
        }
}

static _noreturn_ void supervise(struct supervisor *s)
{
        for (;;) {
                struct pollfd p[] = {{s->agent, POLLIN, 0}, {s->status, POLLIN, 0}, {s->children, POLLIN, 0}};
                if (poll(p, ARRAY_SIZE(p), -1) < 0)
                        continue;
                if (p[1].revents)
                        (void)take_status(s);
                if (p[2].revents && take_children(s))
                        finish(s);
                if (p[0].revents)
                        finish(s); /* the agent's word, or its end */
        }
}

_noreturn_ void supervisor_run(struct launch *launch, int socket)
{
        struct supervisor s = {.agent = socket, .number = launch->number};
        int keep[] = {socket, launch->streams[0], launch->streams[1], launch->streams[2], launch->control, launch->ruleset};
        int pair[2];
        uint64_t mark;
        sigset_t child;

        close_all_but(3, keep, ARRAY_SIZE(keep));
        link_forget();
        prctl(PR_SET_NAME, "glovebox-keeper");
        if (getrandom(&mark, sizeof(mark), 0) != sizeof(mark))
                fail(&s, GB_E_INTERNAL, "make a name for a process");
        snprintf(launch->name, sizeof(launch->name), "gb-%012" PRIx64, mark >> 16);
        memcpy(s.name, launch->name, sizeof(s.name));
        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0)
                fail(&s, GB_E_INTERNAL, "open /dev/null in the session");
        for (int i = 0; i < 3; i++)
                (void)dup2(null, i); /* the wire is the agent's alone */
        launch->marked = s.marked = prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0;
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                fail(&s, GB_E_UNENFORCEABLE, "forbid dumps");
        s.children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
        if (s.children < 0 || tree_open(&tree) < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                fail(&s, GB_E_LIMIT, "open what a program of the session is watched by");
        s.status = pair[0];
        s.began_usec = monotonic_usec();
        s.leader = fork();
        if (s.leader < 0)
                fail(&s, GB_E_LIMIT, "start a process in the session");
        if (s.leader == 0)
                launch_run(launch, pair[1]);
        const int ours[] = {s.agent, s.status, s.children, tree.proc};
        close_all_but(3, ours, ARRAY_SIZE(ours));
        supervise(&s);
}
