/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a program in a session. It is the warden's own child, whoever cloned it, so its end comes from
 * waitid(). Its time is a timerfd that the front holds too: the front arms it with each run, and when it expires
 * we end the program, whatever the front is doing. That it is armed also tells us that a run is under way. */
#include "warden/program.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/message.h"
#include "kernel/landlock.h"
#include "kernel/sys.h"
#include "runner/runner.h"
#include "warden/channel.h"
#include "warden/loop.h"
#include "warden/session.h"
#include "warden/setup.h"
#include "warden/template.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

static LOOP_TABLE struct program programs[PROGRAMS_MAX];
static size_t n_programs; /* none after these is in use */

void program_keep_private(void)
{
        loop_keep_private(programs, sizeof(programs));
}

static size_t lowest; /* all before these are in use */

struct program *program_new(struct box *b)
{
        static uint32_t generation;

        for (; lowest < PROGRAMS_MAX; lowest++) {
                struct program *p = &programs[lowest];
                if (p->state != PROGRAM_NONE)
                        continue;
                n_programs = MAX(n_programs, lowest + 1);
                *p = (struct program){
                        .state = PROGRAM_STARTING, .box = b, .entrant = CHILD_NONE, .process = CHILD_NONE, .socket = -1,
                        .timer = -1, .control = -1, .out = -1, .err = -1, .asked_usec = monotonic_usec(),
                        .number = (uint32_t)lowest + PROGRAMS_MAX * (++generation % (UINT32_MAX / PROGRAMS_MAX)), .next = b->programs,
                };
                b->programs = p;
                return p;
        }
        return NULL;
}

struct program *program_by_number(uint32_t number)
{
        struct program *p = &programs[number % PROGRAMS_MAX];

        return p->state == PROGRAM_STARTING && p->number == number ? p : NULL;
}

/* A visit may end other programs too; those stay where they are in the list, and are passed over. */
static void for_each_in(const struct box *b, void (*visit)(struct program *p, void *data), void *data)
{
        for (struct program *p = b->programs, *next; p; p = next) {
                next = p->next;
                if (p->state != PROGRAM_NONE)
                        visit(p, data);
        }
}

void program_for_each(struct box *b, void (*visit)(struct program *p, void *data), void *data)
{
        if (b) {
                for_each_in(b, visit, data);
                return;
        }
        while (n_programs > 0 && programs[n_programs - 1].state == PROGRAM_NONE)
                n_programs--;
        for (size_t i = 0; i < n_programs; i++)
                if (programs[i].state != PROGRAM_NONE)
                        visit(&programs[i], data);
}

static void close_streams(struct program *p)
{
        p->control = safe_close(p->control);
        p->out = safe_close(p->out);
        p->err = safe_close(p->err);
}

static void release(struct program *p)
{
        close_streams(p);
        p->timer = loop_close(p->timer);
        p->socket = loop_close(p->socket);
        child_release(&p->process);
        child_release(&p->entrant);
        children_look_again();
        channel_release(p->channel);
        p->channel = NULL;
        if (p->box->parked == p)
                p->box->parked = NULL;
        for (struct program **at = &p->box->programs; *at; at = &(*at)->next)
                if (*at == p) {
                        *at = p->next;
                        break;
                }
        p->state = PROGRAM_NONE;
        lowest = MIN(lowest, (size_t)(p - programs));
}

/* ---- the start ---- */

int program_make_streams(struct program *p, int theirs[static 4], gb_error *err)
{
        int pair[2];

        theirs[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        for (int i = 1; i <= 2; i++) {
                if (pipe2(pair, O_CLOEXEC) < 0)
                        return error_set(err, GB_E_INTERNAL, errno, "cannot make a pipe: %s", strerror(errno));
                *(i == 1 ? &p->out : &p->err) = pair[0];
                theirs[i] = pair[1];
        }
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 || theirs[0] < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a control channel: %s", strerror(errno));
        p->control = pair[0];
        theirs[3] = pair[1];
        return 0;
}

static int make_timer(struct program *p, gb_error *err)
{
        p->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        if (p->timer < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a timer: %s", strerror(errno));
        loop_watch(p->timer, LOOP_PROGRAM_TIMER, p);
        return 0;
}

static struct setup_door door_of(const struct box *b)
{
        struct setup_door door = {.init_pidfd = b->init.pidfd};

        memcpy(door.namespaces, b->namespaces, sizeof(door.namespaces));
        return door;
}

/* Clones the process that enters the box; in it this does not return. */
static int clone_entrant(struct program *p, gb_error *err)
{
        struct box *b = p->box;
        int pair[2], pidfd = -1;
        struct clone_args args = {
                .flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&pidfd, .exit_signal = SIGCHLD,
        };

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a socket pair: %s", strerror(errno));
        _cleanup_close_ int theirs = pair[1];
        p->socket = pair[0];
        if (b->has_cgroup && b->cgroup.dir[CGROUP_UNIFIED] >= 0) {
                args.flags |= CLONE_INTO_CGROUP;
                args.cgroup = (uint64_t)b->cgroup.dir[CGROUP_UNIFIED];
        }
        const struct setup setup = {
                .uid = b->spec.uid, .gid = b->spec.gid, .layers_off = b->spec.layers_off, .socket = theirs,
                .host_network = b->spec.flags & BOX_NETWORK_HOST,
        };
        struct setup_door door = door_of(b); /* the child does not have the box */
        pid_t pid = sys_clone3(&args);
        if (pid == 0)
                setup_enter(&setup, &door);
        if (pid < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot start a process for the session: %s", strerror(errno));
        child_own(&p->entrant, pid, pidfd);
        loop_watch(p->socket, LOOP_PROGRAM_FRAME, p);
        loop_watch(p->entrant.pidfd, LOOP_PROGRAM_END, p);
        return write(p->socket, "g", 1) == 1 ? 0 : error_set(err, GB_E_LOST, errno, "the session's box cannot be entered");
}

static int send_order(struct program *p, const struct setup_fds *given, gb_error *err)
{
        static struct setup_order order;
        struct setup_fds fds = *given;
        struct box *b = p->box;

        int n_join = b->has_cgroup ? cgroup_box_open_join(&b->cgroup, fds.join) : 0;
        if (n_join < 0)
                return error_set(err, GB_E_UNENFORCEABLE, -n_join, "cannot open the session's cgroup: %s", strerror(-n_join));
        fds.ruleset = b->ruleset;
        order = (struct setup_order){
                .spec = b->spec, .has_stdio = true, .has_control = given->control >= 0, .has_ruleset = b->ruleset >= 0,
                .n_join = (uint32_t)n_join, .landlock_abi = (uint32_t)landlock_abi(),
        };
        int r = setup_order_send(p->socket, &order, &fds);
        for (int i = 0; i < n_join; i++)
                safe_close(fds.join[i]);
        return r < 0 ? error_set(err, GB_E_LOST, -r, "the session's box cannot be entered") : 0;
}

static int start_entering(struct program *p, struct setup_fds *fds, gb_error *err)
{
        int theirs[4] = {-1, -1, -1, -1}, r = 0;

        if (p->flags & BOX_CONTEXT) {
                r = program_make_streams(p, theirs, err);
                memcpy(fds->stdio, theirs, sizeof(fds->stdio));
                fds->control = theirs[3];
        }
        if (r == 0 && (fds->payload < 0 || fds->stdio[0] < 0 || fds->stdio[1] < 0 || fds->stdio[2] < 0))
                r = error_set(err, GB_E_INTERNAL, EPROTO, "the request lacks a descriptor");
        if (r == 0)
                r = clone_entrant(p, err);
        if (r == 0)
                r = send_order(p, fds, err);
        for (int i = 0; i < 4; i++)
                safe_close(theirs[i]);
        return r;
}

int program_start(struct program *p, const struct box_spec *spec, int *fds, gb_error *err)
{
        static struct setup_fds given;

        memset(&given, -1, sizeof(given));
        p->flags = spec->flags;
        for (uint32_t i = 0; i < spec->n_fds; i++) {
                uint32_t role = spec->fds[i].role;
                if (role == BOX_FD_PAYLOAD)
                        given.payload = fds[i]; /* still the caller's to close */
                else if (role >= BOX_FD_STDIN && role <= BOX_FD_STDERR)
                        given.stdio[role - BOX_FD_STDIN] = fds[i];
        }
        int r = make_timer(p, err);
        if (r < 0)
                return r;
        if (p->flags & BOX_WARM && p->flags & BOX_CONTEXT && p->box->template)
                return template_fork(p->box->template, p, err);
        return start_entering(p, &given, err);
}

/* ---- what it says, and its end ---- */

void program_announce(struct program *p)
{
        struct warden_event event = {.kind = WARDEN_STARTED, .warm = p->warm};
        int fds[4] = {p->timer, p->out, p->err, p->control};

        p->state = PROGRAM_RUNNING;
        p->box->parked = NULL;
        channel_send(p->channel, &event, fds, p->flags & BOX_CONTEXT ? 4 : 1);
        close_streams(p);
}

void program_ready(struct program *p)
{
        if (p->stopping)
                return;
        p->started_usec = monotonic_usec();
        if (p->channel)
                program_announce(p);
        else {
                p->state = PROGRAM_PARKED;
                p->box->parked = p;
        }
}

static void take_process(struct program *p, int *pidfd)
{
        if (child_claim(&p->process, pidfd) < 0) { /* killed before it could start: report_end() says so */
                child_kill(&p->entrant); /* it waits for a claim that cannot come */
                return;
        }
        loop_watch(p->process.pidfd, LOOP_PROGRAM_END, p);
        setup_say_claimed(p->socket);
}

static void take_frame(struct program *p, const struct setup_frame *frame, int *fds, int n_fds)
{
        if (frame->kind == SETUP_PROGRAM && !child_exists(&p->process) && n_fds == 1) {
                take_process(p, &fds[0]);
        } else if (frame->kind == SETUP_PHASE) {
                p->started_usec = p->started_usec > 0 ? p->started_usec : monotonic_usec();
                p->compiling = frame->value > 0;
                if (p->compiling && p->state == PROGRAM_STARTING && child_exists(&p->process))
                        program_ready(p); /* the compiler counts: its time is the program's */
        } else if (frame->kind == SETUP_FAILED) { /* also a compiler, or what it made, that cannot be executed */
                p->failed = true;
                p->error = frame->error;
                p->error.message[sizeof(p->error.message) - 1] = '\0';
        }
}

/* False: nobody can speak any more. */
static bool read_frame(struct program *p)
{
        struct setup_frame frame = {0};
        int fds[BOX_FDS_MAX], n_fds;

        ssize_t n = setup_frame_receive(p->socket, &frame, fds, &n_fds);
        if (n == -EAGAIN)
                return false;
        if (n == -EMSGSIZE) {
                p->failed = true;
                error_set(&p->error, GB_E_UNAVAILABLE, EMFILE, "the warden has no descriptors left");
                return true;
        }
        if (n == (ssize_t)sizeof(frame))
                take_frame(p, &frame, fds, n_fds);
        for (int i = 0; i < n_fds; i++)
                safe_close(fds[i]);
        if (n <= 0)
                p->socket = loop_close(p->socket);
        return n > 0;
}

/* The socket dies with the exec: user code runs. */
static void look_for_exec(struct program *p)
{
        if (p->socket < 0 && p->state == PROGRAM_STARTING && child_exists(&p->process) && p->started_usec > 0 &&
            !p->failed)
                program_ready(p);
}

void program_on_frame(void *program)
{
        struct program *p = program;

        if (p->state == PROGRAM_NONE || p->socket < 0)
                return;
        (void)read_frame(p);
        look_for_exec(p);
}

/* Its process is reaped: the rest is counting and telling. */
static void report_end(struct program *p, const struct ending *ending)
{
        struct box *b = p->box;
        struct warden_event event = {.kind = WARDEN_ENDED, .warm = p->warm};

        if (!p->channel || b->stopping) { /* nobody asks what it has used; and what it would have come to nobody knows */
                event.kind = WARDEN_FAILED;
                error_set(&event.error, GB_E_LOST, ECHILD, "the session was ended while the program ran: its outcome is not known");
                channel_send(p->channel, &event, NULL, 0);
                release(p);
                if (!b->channel && !b->stopping)
                        box_abandon(b); /* it was made ahead, for nobody yet: without its program nobody will want it */
                return;
        }
        box_measure(b);
        if (p->stop == WARDEN_STOP_NONE && b->report.stats.oom_kills > b->oom_kills_known &&
            ending_signal(ending) == SIGKILL)
                p->stop = WARDEN_STOP_MEMORY;
        event.report = b->report;
        if (!ending_may_be_kill(ending))
                p->stop = WARDEN_STOP_NONE;
        event.report.ending = *ending;
        event.report.stop = p->stop;
        event.report.compiling = p->compiling;
        event.report.wall_usec = p->started_usec > 0 ? monotonic_usec() - p->started_usec : 0;
        if (p->state == PROGRAM_STARTING || p->failed) {
                event.kind = WARDEN_FAILED;
                event.error = p->error;
                if (!p->failed)
                        error_set(&event.error, GB_E_LOST, ECHILD, "the program was killed before it could start (out of memory?)");
        } else if (!ending_is_seen(ending)) {
                event.kind = WARDEN_FAILED;
                error_set(&event.error, GB_E_LOST, ECHILD, "the program's end was not seen");
        }
        channel_send(p->channel, &event, NULL, 0);
        release(p);
        if (b->report.stats.oom_kills > b->oom_kills_known)
                program_end_for_memory(b);
}

static void end_for_memory(struct program *p, void *data)
{
        program_stop(p, WARDEN_STOP_MEMORY);
}

void program_end_for_memory(struct box *b)
{
        uint64_t kills = b->report.stats.oom_kills;

        program_for_each(b, end_for_memory, NULL);
        b->oom_kills_known = MAX(b->oom_kills_known, kills); /* not before: the kernel may have killed one of these, and its report says so */
}

static void count(struct program *p, void *data)
{
        *(int *)data += !p->stopping;
}

/* Whether there are tasks in the session besides one; where nothing counts them there may be. */
static bool has_company(const struct box *b)
{
        uint64_t tasks;

        return box_tasks(b, &tasks) < 0 || tasks > 1;
}

/* What it has started dies with it. Where other programs share the session, only its process group can be told
 * from theirs; what has left that stays within the session's limits. Who goes in to kill is waited for: it is our own code, and
 * nobody may be started in the session before it is done. */
static void kill_descendants(struct program *p)
{
        struct clone_args args = {.flags = 0, .exit_signal = SIGCHLD};
        int others = 0, status;

        program_for_each(p->box, count, &others);
        if (child_exists(&p->process))
                kill(-p->process.pid, SIGKILL);
        if (others > 0 || p->box->stopping || !child_exists(&p->box->init) || !has_company(p->box))
                return;
        struct setup_door door = door_of(p->box);
        pid_t pid = sys_clone3(&args);
        if (pid == 0)
                setup_kill_all(&door);
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
}

/* SIGKILL to all that is known of it. */
static void kill_it(struct program *p)
{
        child_kill(&p->entrant);
        if (!child_exists(&p->process) || p->killed)
                return;
        p->killed = true;
        child_kill(&p->process);
        kill_descendants(p);
}

/* Reaps what has ended of it, or waits for that: WNOHANG or 0. Who enters the box with it comes first: its last frames tell of
 * the program. Returns true when nothing of it is left. */
static bool reap(struct program *p, int flags, struct ending *ret)
{
        (void)child_reap(&p->entrant, flags, NULL);
        while (p->socket >= 0 && read_frame(p))
                ;
        look_for_exec(p);
        if (p->stopping)
                kill_it(p); /* it may have come to be known just now */
        *ret = (struct ending){0};
        if (!child_exists(&p->process))
                return !child_exists(&p->entrant) && (p->stopping || !p->warm); /* nothing was started */
        if (!child_reap(&p->process, flags, ret))
                return false;
        while (p->socket >= 0 && read_frame(p))
                ; /* frames sent between the last look and its end: there will be no others */
        return true;
}

void program_on_end(void *program)
{
        struct program *p = program;
        struct ending ending;

        if (p->state == PROGRAM_NONE || !reap(p, WNOHANG, &ending))
                return;
        if (ending_is_seen(&ending) && p->state == PROGRAM_STARTING && p->started_usec > 0 && !p->failed)
                program_ready(p); /* it was quick */
        report_end(p, &ending);
}

void program_on_timer(void *program)
{
        struct program *p = program;
        uint64_t count;

        if (p->state == PROGRAM_RUNNING && read(p->timer, &count, sizeof(count)) == sizeof(count))
                program_stop(p, WARDEN_STOP_TIMEOUT);
}

bool program_is_active(const struct program *p)
{
        struct itimerspec armed;

        return p->state == PROGRAM_RUNNING && !p->stopping && timerfd_gettime(p->timer, &armed) == 0 &&
               (armed.it_value.tv_sec != 0 || armed.it_value.tv_nsec != 0);
}

void program_signal(struct program *p, int sig)
{
        /* It leads its process group, and until it is reaped its number cannot belong to anybody else. */
        if (p->state == PROGRAM_RUNNING && child_exists(&p->process))
                kill(-p->process.pid, sig);
}

void program_stop(struct program *p, enum warden_stop why)
{
        if (p->state == PROGRAM_NONE || p->stopping)
                return;
        program_on_end(p); /* when it has ended already, it was not stopped */
        if (p->state == PROGRAM_NONE || p->stopping)
                return;
        p->stopping = true;
        if (p->box->parked == p)
                p->box->parked = NULL;
        p->stop = why;
        kill_it(p);
        program_on_end(p); /* it may be dead already, or have never come to life */
}

void program_end(struct program *p)
{
        struct ending ending;

        if (p->state == PROGRAM_NONE)
                return;
        p->stopping = true;
        kill_it(p);
        while (!reap(p, 0, &ending))
                ;
        report_end(p, &ending);
}
