/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a program:
 *
 *   WIRE_PLAN ... WIRE_START   its pipes are made, its supervisor is forked          PROGRAM_STARTING
 *   report: started            WIRE_STARTED                                          PROGRAM_RUNNING
 *   report: ended              its supervisor is reaped, and its leader with it      PROGRAM_ENDING
 *   what its pipes still held was sent: WIRE_ENDED                                   PROGRAM_NONE
 *
 * A supervisor that dies without a report was killed by the code: what was below it are strays now, children of ours. All of them are killed before the
 * program is said to have ended; so is who is still there after KILL_WAIT_USEC, but then it is said to be unkillable. A supervisor that does not obey
 * (the code may have stopped it) is killed itself. */
#include "agent/program.h"

#include "agent/facts.h"
#include "agent/link.h"
#include "agent/spare.h"
#include "agent/supervisor.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SUPERVISOR_SLACK_USEC 500000ULL /* above KILL_WAIT_USEC, for a supervisor to report */
#define CLEAR_WAIT_USEC 1000000ULL      /* for killed processes to die; a busy machine is slow */
#define CLEAR_PAUSE_NSEC 1000000L
#define STRAYS_LOOK_USEC 5000ULL        /* between two looks at strays */

static struct program programs[WIRE_PROGRAMS_MAX + 1]; /* by number */
static struct tree tree;
static uint64_t strays_usec; /* since when there may be strays */
static bool unreaped; /* children have ended for whose news there was no room */

struct tree *program_tree(void)
{
        return &tree;
}

int programs_init(void)
{
        for (uint32_t i = 0; i <= WIRE_PROGRAMS_MAX; i++)
                programs[i].number = i;
        int r = tree_open(&tree);
        return r < 0 ? r : program_start_init();
}

struct program *program_by_number(uint32_t number)
{
        return number >= 1 && number <= WIRE_PROGRAMS_MAX ? &programs[number] : NULL;
}

void program_say(uint16_t type, const struct program *p, uint32_t value, const void *payload, size_t size)
{
        struct wire_frame frame = {.type = type, .program = p ? p->number : 0, .value = value, .size = (uint32_t)size};

        link_send(&frame, payload);
}

static const pid_t *own_processes(bool with_agent)
{
        static pid_t own[WIRE_PROGRAMS_MAX + SPARES_MAX + 2];
        size_t n = spare_list(own);

        if (with_agent)
                own[n++] = getpid();
        for (uint32_t i = 1; i <= WIRE_PROGRAMS_MAX; i++)
                if (programs[i].state != PROGRAM_NONE && programs[i].supervisor > 0)
                        own[n++] = programs[i].supervisor;
        own[n] = 0;
        return own;
}

size_t programs_own_tasks(void)
{
        size_t n = 0;

        for (uint32_t i = 1; i <= WIRE_PROGRAMS_MAX; i++)
                if (programs[i].state != PROGRAM_NONE && programs[i].supervisor > 0)
                        n += programs[i].serves_files ? 2 : 1;
        return n;
}

static struct wire_usage sent_usage;

void program_send_usage(void)
{
        struct wire_usage usage;

        facts_usage(&usage, own_processes(true), false);
        if (memcmp(&usage, &sent_usage, sizeof(usage)) == 0)
                return;
        sent_usage = usage;
        program_say(WIRE_USAGE, NULL, 0, &usage, sizeof(usage));
}

void program_look(uint32_t value)
{
        facts_usage(&sent_usage, own_processes(true), true);
        program_say(WIRE_USAGE, NULL, value, &sent_usage, sizeof(sent_usage));
}

/* ---- the end ---- */

void program_release(struct program *p)
{
        for (uint32_t i = WIRE_STDOUT; i <= WIRE_CONTROL; i++)
                source_close(&p->sources[i]);
        for (uint32_t i = 0; i < WIRE_STREAMS_MAX; i++)
                if (p->sinks[i].used)
                        sink_close(&p->sinks[i]);
        safe_close(p->report);
        free(p->plan);
        free(p->held);
        *p = (struct program){.number = p->number};
}

/* Sends what it has written last; then that it has ended. */
static void go_on_ending(struct program *p)
{
        source_send_held(p);
        if (p->held || !source_pull_owed(p))
                return;
        struct source *control = &p->sources[WIRE_CONTROL];
        while (control->fd >= 0 && control->owed > 0) {
                uint64_t before = control->owed;
                source_pull_control(p);
                if (p->held || (control->fd >= 0 && control->owed == before))
                        return;
        }
        if (!link_has_room())
                return;
        facts_usage(&p->end.usage, own_processes(true), true);
        p->end.starved = p->starved;
        program_say(WIRE_ENDED, p, 0, &p->end, sizeof(p->end));
        program_release(p);
}

/* All its processes are gone. What the pipes hold now is all that it has written; who got hold of one of them meanwhile is not listened to. */
static void begin_ending(struct program *p)
{
        if (p->state == PROGRAM_STARTING && !p->failed)
                error_set(&p->error, GB_E_LOST, ECHILD,
                          "the supervisor of the program was killed: whether the program was executed is not known");
        if (p->state == PROGRAM_STARTING) {
                program_say(WIRE_FAILED, p, 0, &p->error, sizeof(p->error));
                program_release(p);
                return;
        }
        p->state = PROGRAM_ENDING;
        p->report = safe_close(p->report);
        for (uint32_t i = 0; i < WIRE_STREAMS_MAX; i++)
                if (p->sinks[i].used)
                        sink_close(&p->sinks[i]);
        for (uint32_t i = WIRE_STDOUT; i <= WIRE_CONTROL; i++)
                source_owe(&p->sources[i]);
        go_on_ending(p);
}

/* Whether there was one. */
static bool take_report(struct program *p)
{
        struct report r = {0};
        ssize_t n = recv(p->report, &r, sizeof(r), MSG_DONTWAIT);

        if (n < 0 && errno == ECONNRESET) /* it has ended before it was told to; its last word is behind that */
                n = recv(p->report, &r, sizeof(r), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return false;
        if (n != sizeof(r)) {
                p->report = safe_close(p->report); /* it is dead, or will be in a moment */
                return false;
        }
        if (r.kind == REPORT_STARTED) {
                p->compiling = r.compiling;
                p->started_usec = monotonic_usec();
        }
        if (r.kind == REPORT_STARTED && p->state == PROGRAM_STARTING) {
                p->state = PROGRAM_RUNNING;
                p->leader = r.leader;
                p->marked = r.marked;
                program_say(WIRE_STARTED, p, 0, NULL, 0);
                if (facts_count_for_host())
                        program_look(0); /* before a short program has ended */
        }
        if (r.kind == REPORT_FAILED) {
                p->leader = r.leader;
                p->failed = true;
                p->error = r.error;
        } else if (r.kind == REPORT_ENDED) {
                p->ended = true;
                p->end = r.end;
        }
        return true;
}

/* Its supervisor is reaped. That has left us the leader, dead. */
static void take_supervisor_end(struct program *p)
{
        p->supervisor = 0;
        p->stop_usec = 0;
        while (p->report >= 0 && !p->failed && !p->ended && take_report(p))
                ; /* no end comes: what it has forked may still hold the other one */
        if (p->ended && p->end.unkillable)
                strays_usec = monotonic_usec();
        if (p->ended || p->failed) {
                if (p->leader > 0)
                        (void)waitpid(p->leader, NULL, WNOHANG);
                p->leader = 0;
                begin_ending(p);
                return;
        }
        /* Its leader is our child now, or was and is reaped: how it ends is in leader_end then. */
        p->lost = true;
        p->end = (struct wire_end){
                .wall_usec = p->started_usec > 0 ? monotonic_usec() - p->started_usec : 0, .compiling = p->compiling,
        };
        strays_usec = monotonic_usec();
}

static bool has_more_to_report(const struct program *p)
{
        bool is_watched = p->state == PROGRAM_STARTING || p->state == PROGRAM_RUNNING;

        return is_watched && p->report >= 0 && !p->failed && !p->ended;
}

/* A leader becomes a child of the agent when its supervisor has died, and is known by a report that the supervisor sent
 * before. So no child is reaped while a report is unread: the end of the leader would be taken for that of a stray. */
static void take_reports(void)
{
        for (uint32_t i = 1; i <= WIRE_PROGRAMS_MAX; i++)
                while (has_more_to_report(&programs[i]) && take_report(&programs[i]))
                        ;
}

static struct program *find_process(pid_t pid)
{
        for (uint32_t i = 1; i <= WIRE_PROGRAMS_MAX; i++)
                if (programs[i].state != PROGRAM_NONE && (programs[i].supervisor == pid || programs[i].leader == pid))
                        return &programs[i];
        return NULL;
}

void programs_reap(void)
{
        for (;;) {
                siginfo_t info = {0};
                unreaped = !link_has_room();
                if (unreaped || waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 || info.si_pid == 0)
                        break;
                take_reports();
                if (waitid(P_PID, (id_t)info.si_pid, &info, WEXITED | WNOHANG | __WALL) < 0 || info.si_pid == 0)
                        break;
                if (spare_forget(info.si_pid))
                        continue;
                struct program *p = find_process(info.si_pid);
                if (p && p->leader == info.si_pid) {
                        p->leader = 0;
                        p->leader_end = ending_from_wait(&info);
                } else if (p) {
                        take_supervisor_end(p);
                }
        }
        spare_adjust(programs_own_tasks());
}

/* An orphan that belongs to a program which is watched over is none of ours: see supervisor.c. */
static void spare_owned(void)
{
        for (size_t i = 0; i < tree.n; i++) {
                struct task *task = &tree.tasks[i];
                int owner = task->below == 1 ? tree_owner(task->pid) : 0;
                if (owner > 0 && owner <= WIRE_PROGRAMS_MAX && programs[owner].supervisor > 0 && programs[owner].marked)
                        task->below = 0;
        }
}

/* One look at what is below us and no supervisor's. */
static void end_strays(void)
{
        uint64_t now = monotonic_usec();
        bool late = now > strays_usec + KILL_WAIT_USEC;

        bool blind = tree_read(&tree) < 0;
        if (blind)
                tree.n = 0;
        tree_mark(&tree, getpid(), own_processes(false));
        spare_owned();
        (void)tree_signal(&tree, SIGKILL, NULL);
        size_t left = blind; /* somebody may be there */
        for (size_t i = 0; i < tree.n; i++)
                left += tree.tasks[i].below == 1; /* the dead, too: they are reaped in a moment */
        for (uint32_t i = 1; i <= WIRE_PROGRAMS_MAX && (left == 0 || late); i++) {
                struct program *p = &programs[i];
                if (p->state == PROGRAM_NONE || p->state == PROGRAM_ENDING || !p->lost)
                        continue;
                p->end.unkillable = left > 0;
                p->end.ending = p->leader_end;
                begin_ending(p);
        }
        if (left == 0)
                strays_usec = 0;
}

int programs_tick(void)
{
        uint64_t now = monotonic_usec(), next = 0;

        if (unreaped)
                programs_reap();
        for (uint32_t i = 1; i <= WIRE_PROGRAMS_MAX; i++) {
                struct program *p = &programs[i];
                if (p->state == PROGRAM_NONE || p->stop_usec == 0)
                        continue;
                if (now >= p->stop_usec) {
                        kill(p->supervisor, SIGKILL);
                        p->stop_usec = 0;
                } else if (next == 0 || p->stop_usec < next) {
                        next = p->stop_usec;
                }
        }
        if (strays_usec > 0 && link_has_room())
                end_strays();
        if (strays_usec > 0)
                next = now + STRAYS_LOOK_USEC;
        return next == 0 ? -1 : (int)((next - now) / 1000 + 1);
}

/* What programs have left running: *ret_left are alive. On failure these are only the ones that were seen. */
static int look_at_left(size_t *ret_left)
{
        static const pid_t none[] = {0};
        size_t left = 0;

        int r = tree_read(&tree);
        tree_mark(&tree, getpid(), none);
        for (size_t i = 0; i < tree.n; i++) {
                struct task *task = &tree.tasks[i];
                task->below = task->below == 1 && !find_process(task->pid) && !spare_is(task->pid);
                left += task->below == 1 && task_is_alive(task);
        }
        *ret_left = left;
        return r;
}

/* Returns how many there were, or a negative errno: some are alive, or (the code can take our descriptors away) may be. */
static int clear_left(void)
{
        const struct timespec pause = {.tv_nsec = CLEAR_PAUSE_NSEC};
        uint64_t deadline = monotonic_usec() + CLEAR_WAIT_USEC;
        size_t left, moving, most = 0;

        for (;;) {
                int r = look_at_left(&left);
                most = MAX(most, left);
                if (r == 0 && left == 0)
                        return (int)most;
                bool late = monotonic_usec() >= deadline;
                if (r == 0 && !late) {
                        (void)tree_signal(&tree, SIGSTOP, &moving);
                        if (moving > 0)
                                continue; /* some may have forked meanwhile */
                }
                (void)tree_signal(&tree, SIGKILL, NULL);
                if (late)
                        return r < 0 ? r : -EBUSY;
                (void)nanosleep(&pause, NULL);
        }
}

void programs_clear(void)
{
        gb_error err = {0};
        int n = clear_left();

        /* What they have printed comes before the answer, as far as there is room. */
        for (uint32_t i = 1; i <= WIRE_PROGRAMS_MAX; i++) {
                struct program *p = &programs[i];
                for (uint32_t stream = WIRE_STDOUT; p->state == PROGRAM_RUNNING && stream <= WIRE_STDERR; stream++)
                        source_owe(&p->sources[stream]);
                if (p->state == PROGRAM_RUNNING)
                        (void)source_pull_owed(p);
        }
        if (n < 0) {
                error_set(&err, GB_E_INTERNAL, -n, n == -EBUSY ? "some processes in the container could not be ended" : "the processes in the container cannot be listed");
                program_say(WIRE_CLEARED, NULL, 0, &err, sizeof(err));
        } else {
                program_say(WIRE_CLEARED, NULL, (uint32_t)n, NULL, 0);
        }
}

void program_stop(struct program *p)
{
        if (p->supervisor <= 0 || p->stop_usec > 0)
                return;
        p->stop_usec = monotonic_usec() + KILL_WAIT_USEC + SUPERVISOR_SLACK_USEC;
        if (p->report >= 0)
                (void)send(p->report, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        (void)kill(p->supervisor, SIGCONT);
}

void program_starve(struct program *p)
{
        p->starved = true;
        program_stop(p);
}

void program_go_on(struct program *p)
{
        if (p->state == PROGRAM_ENDING)
                go_on_ending(p);
        else
                source_send_held(p);
}

_noreturn_ void programs_end_all(void)
{
        static const pid_t none[] = {0};
        uint64_t deadline = monotonic_usec() + KILL_WAIT_USEC;

        if (getpid() == 1) {
                kill(-1, SIGKILL);
                _exit(1); /* and the kernel ends what is left */
        }
        while (tree_read(&tree) == 0 && monotonic_usec() < deadline) {
                tree_mark(&tree, getpid(), none);
                if (tree_signal(&tree, SIGKILL, NULL) == 0)
                        break;
        }
        while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
                ;
        _exit(1);
}

/* ---- what is waited for ---- */

enum { SLOT_REPORT = WIRE_STREAMS_MAX, SLOT_CONTROL_IN, SLOT_KINDS }; /* and each stream by its number; the control channel's two directions are two */

static struct {
        uint8_t program, what;
} owners[PROGRAM_SLOTS_MAX];

static size_t add_slot(struct pollfd *slots, size_t n, const struct program *p, uint32_t what, int fd, short events)
{
        owners[n].program = (uint8_t)p->number;
        owners[n].what = (uint8_t)what;
        slots[n] = (struct pollfd){fd, events, 0};
        return n + 1;
}

static size_t fill_sources(const struct program *p, struct pollfd *slots, size_t n)
{
        for (uint32_t i = WIRE_STDOUT; i <= WIRE_STDERR; i++)
                if (source_is_wanted(&p->sources[i]))
                        n = add_slot(slots, n, p, i, p->sources[i].fd, POLLIN);
        if (!p->held && source_is_wanted(&p->sources[WIRE_CONTROL]))
                n = add_slot(slots, n, p, SLOT_CONTROL_IN, p->sources[WIRE_CONTROL].fd, POLLIN);
        return n;
}

size_t programs_fill(struct pollfd slots[static PROGRAM_SLOTS_MAX])
{
        size_t n = 0;

        for (uint32_t number = 1; number <= WIRE_PROGRAMS_MAX; number++) {
                struct program *p = &programs[number];
                if (p->state < PROGRAM_STARTING)
                        continue;
                if (p->state == PROGRAM_ENDING)
                        go_on_ending(p); /* when our buffer has room again */
                if (p->state < PROGRAM_STARTING || p->state == PROGRAM_ENDING)
                        continue;
                source_send_held(p);
                if (!link_can_answer())
                        continue;
                if (p->report >= 0)
                        n = add_slot(slots, n, p, SLOT_REPORT, p->report, POLLIN);
                n = p->state == PROGRAM_RUNNING ? fill_sources(p, slots, n) : n; /* WIRE_STARTED comes before anything of it */
                for (uint32_t i = 0; i < WIRE_STREAMS_MAX; i++) {
                        const struct sink *s = &p->sinks[i];
                        if (s->used && s->fd >= 0)
                                n = add_slot(slots, n, p, i, s->fd, s->size > 0 ? POLLOUT : 0);
                }
        }
        return n;
}

static void serve_slot(struct program *p, uint32_t what, const struct pollfd *slot)
{
        if (p->state < PROGRAM_STARTING || p->state == PROGRAM_ENDING)
                return;
        if (what == SLOT_REPORT) {
                if (p->report == slot->fd)
                        take_report(p);
        } else if (what == SLOT_CONTROL_IN) {
                source_pull_control(p);
        } else if (what == WIRE_STDOUT || what == WIRE_STDERR) {
                source_pull(p, what, WIRE_DATA_MAX);
        } else if (p->sinks[what].fd == slot->fd && p->sinks[what].used) {
                if (slot->revents & (POLLERR | POLLHUP))
                        sink_shut(p, what);
                else
                        sink_flush(p, what);
        }
}

void programs_serve(const struct pollfd *slots, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (slots[i].revents && link_can_answer())
                        serve_slot(&programs[owners[i].program], owners[i].what, &slots[i]);
}
