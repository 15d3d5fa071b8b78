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
#include <unistd.h>

#define SUPERVISOR_SLACK_USEC 500000ULL /* above KILL_WAIT_USEC, for a supervisor to report */
#define STRAYS_LOOK_USEC 5000ULL        /* between two looks at strays */
#define LAST_OOM_SCORE "1000"           /* of programs and their supervisors: they go before the agent */

static struct program programs[WIRE_PROGRAMS_MAX + 1]; /* by number */
static struct tree tree;
static int ruleset = -1, oom_score = -1;
static char own_oom_score[16];
static uint64_t strays_usec; /* since when there may be strays */
static bool unreaped; /* children have ended for whose news there was no room */

struct tree *program_tree(void)
{
        return &tree;
}

int programs_init(void)
{
        /* While it can be opened: a process that is not dumpable does not own its files. */
        oom_score = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
        if (oom_score >= 0 && read(oom_score, own_oom_score, sizeof(own_oom_score) - 1) <= 0)
                oom_score = safe_close(oom_score);
        for (uint32_t i = 0; i <= WIRE_PROGRAMS_MAX; i++)
                programs[i].number = i;
        int r = tree_open(&tree);
        return r < 0 ? r : facts_ruleset(&ruleset);
}

static void say(uint16_t type, const struct program *p, uint32_t value, const void *payload, size_t size)
{
        struct wire_frame frame = {.type = type, .program = p ? p->number : 0, .value = value, .size = (uint32_t)size};

        link_send(&frame, payload);
}

static const pid_t *own_processes(bool with_agent)
{
        static pid_t own[WIRE_PROGRAMS_MAX + 2];
        size_t n = 0;

        if (with_agent)
                own[n++] = getpid();
        for (uint32_t i = 1; i <= WIRE_PROGRAMS_MAX; i++)
                if (programs[i].state != PROGRAM_NONE && programs[i].supervisor > 0)
                        own[n++] = programs[i].supervisor;
        own[n] = 0;
        return own;
}

static struct wire_usage sent_usage;

void program_send_usage(void)
{
        struct wire_usage usage;

        facts_usage(&usage, own_processes(true), false);
        if (memcmp(&usage, &sent_usage, sizeof(usage)) == 0)
                return;
        sent_usage = usage;
        say(WIRE_USAGE, NULL, 0, &usage, sizeof(usage));
}

static void look(uint32_t value)
{
        facts_usage(&sent_usage, own_processes(true), true);
        say(WIRE_USAGE, NULL, value, &sent_usage, sizeof(sent_usage));
}

/* ---- the end ---- */

static void release(struct program *p)
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
        say(WIRE_ENDED, p, 0, &p->end, sizeof(p->end));
        release(p);
}

/* All its processes are gone. What the pipes hold now is all that it has written; who got hold of one of them meanwhile is not listened to. */
static void begin_ending(struct program *p)
{
        if (p->state == PROGRAM_STARTING && p->lost)
                error_set(&p->error, GB_E_LOST, 0, "the process that watches over the program was killed before that was executed");
        if (p->failed || (p->state == PROGRAM_STARTING && p->lost)) {
                say(WIRE_FAILED, p, 0, &p->error, sizeof(p->error));
                release(p);
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
        if (r.kind == REPORT_STARTED && p->state == PROGRAM_STARTING) {
                p->state = PROGRAM_RUNNING;
                p->leader = r.leader;
                say(WIRE_STARTED, p, 0, NULL, 0);
        } else if (r.kind == REPORT_FAILED) {
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
        if (p->leader > 0)
                (void)waitpid(p->leader, NULL, WNOHANG);
        p->leader = 0;
        if (p->ended && p->end.unkillable)
                strays_usec = monotonic_usec();
        if (p->ended || p->failed) {
                begin_ending(p);
                return;
        }
        p->lost = true;
        p->end = (struct wire_end){.exit_code = -1, .signal = SIGKILL};
        strays_usec = monotonic_usec();
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
        pid_t pid;

        for (;;) {
                unreaped = !link_has_room();
                if (unreaped || (pid = waitpid(-1, NULL, WNOHANG | __WALL)) <= 0)
                        return;
                struct program *p = find_process(pid);
                if (p && p->leader == pid)
                        p->leader = 0;
                else if (p)
                        take_supervisor_end(p);
        }
}

/* An orphan that belongs to a program which is watched over is none of ours: see supervisor.c. */
static void spare_owned(void)
{
        for (size_t i = 0; i < tree.n; i++) {
                struct task *task = &tree.tasks[i];
                int owner = task->below == 1 ? tree_owner(task->pid) : 0;
                if (owner > 0 && owner <= WIRE_PROGRAMS_MAX && programs[owner].supervisor > 0)
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

/* ---- the start ---- */

static int add_to_plan(struct program *p, const char *bytes, size_t size)
{
        if (p->plan_size + size > WIRE_PLAN_MAX)
                return -EPROTO;
        if (p->plan_size + size > p->plan_allocated && !p->plan_lost) {
                size_t want = MAX(p->plan_size + size, p->plan_allocated * 2);
                char *grown = realloc(p->plan, want);
                p->plan_lost = !grown; /* said at its start */
                p->plan = grown ? grown : p->plan;
                p->plan_allocated = grown ? want : p->plan_allocated;
        }
        if (!p->plan_lost)
                memcpy(p->plan + p->plan_size, bytes, size);
        p->plan_size += size;
        return 0;
}

/* A pipe; our end does not block. */
static int make_pipe(int *ret_read, int *ret_write, bool we_read)
{
        int pair[2];

        *ret_read = *ret_write = -1;
        if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
        *ret_read = pair[0];
        *ret_write = pair[1];
        return fd_set_nonblock(we_read ? pair[0] : pair[1]);
}

static int make_control(struct program *p, struct launch *launch)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        launch->control = pair[1];
        source_open(p, WIRE_CONTROL, pair[0]);
        int copy = fcntl(pair[0], F_DUPFD_CLOEXEC, 3); /* the two directions end by themselves */
        if (copy < 0)
                return -errno;
        sink_open(p, WIRE_CONTROL, copy);
        return 0;
}

static int make_streams(struct program *p, struct launch *launch)
{
        uint32_t flags = launch->plan->head.flags;
        int ours, r = 0;

        for (uint32_t i = WIRE_STDOUT; i <= WIRE_CONTROL; i++)
                p->sources[i].fd = -1;
        for (uint32_t i = WIRE_STDOUT; r == 0 && i <= WIRE_STDERR; i++) {
                r = make_pipe(&ours, &launch->streams[i], true);
                if (r == 0)
                        source_open(p, i, ours);
        }
        if (r == 0 && flags & WIRE_PLAN_STDIN) {
                r = make_pipe(&launch->streams[0], &ours, false);
                if (r == 0)
                        sink_open(p, WIRE_STDIN, ours);
        }
        if (r == 0 && flags & (WIRE_PLAN_CONTEXT | WIRE_PLAN_FILES))
                r = make_control(p, launch);
        return r;
}

/* Children inherit the score that we have in that moment. */
static pid_t fork_expendable(void)
{
        if (oom_score >= 0)
                (void)!pwrite(oom_score, LAST_OOM_SCORE, strlen(LAST_OOM_SCORE), 0);
        pid_t pid = fork();
        int saved = errno;
        if (pid != 0 && oom_score >= 0)
                (void)!pwrite(oom_score, own_oom_score, strlen(own_oom_score), 0);
        errno = saved;
        return pid;
}

static int fork_supervisor(struct program *p, struct launch *launch)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        pid_t pid = fork_expendable();
        if (pid == 0)
                supervisor_run(launch, pair[1]);
        int r = pid < 0 ? -errno : 0;
        safe_close(pair[1]);
        p->report = pair[0];
        p->supervisor = MAX(pid, 0);
        return r;
}

static void fail_start(struct program *p, int r, const char *what)
{
        error_set(&p->error, GB_E_LIMIT, -r, "cannot %s: %s", what, strerror(-r));
        say(WIRE_FAILED, p, 0, &p->error, sizeof(p->error));
        release(p);
}

static int start(struct program *p)
{
        static struct plan plan;
        struct launch launch = {.plan = &plan, .streams = {-1, -1, -1}, .control = -1, .ruleset = ruleset, .number = p->number};

        p->report = -1;
        if (p->plan_lost) {
                fail_start(p, -ENOMEM, "keep the program's code in the session's memory");
                return 0;
        }
        int r = plan_parse(p->plan, p->plan_size, &plan);
        if (r < 0)
                return r;
        r = make_streams(p, &launch);
        if (r == 0)
                r = fork_supervisor(p, &launch);
        for (int i = 0; i < 3; i++)
                safe_close(launch.streams[i]);
        safe_close(launch.control);
        if (r < 0) {
                fail_start(p, r, "start a process in the session");
                return 0;
        }
        free(p->plan);
        p->plan = NULL;
        p->state = PROGRAM_STARTING;
        return 0;
}

/* ---- what the host says ---- */

static int take_plan(struct program *p, const struct wire_frame *f, const char *payload)
{
        if (p->state != PROGRAM_NONE && p->state != PROGRAM_PLANNED)
                return -EPROTO;
        if (p->state == PROGRAM_NONE) {
                *p = (struct program){.state = PROGRAM_PLANNED, .number = p->number, .report = -1};
                for (uint32_t i = WIRE_STDOUT; i <= WIRE_CONTROL; i++)
                        p->sources[i].fd = -1;
        }
        return add_to_plan(p, payload, f->size);
}

static void stop(struct program *p)
{
        if (p->supervisor <= 0 || p->stop_usec > 0)
                return;
        p->stop_usec = monotonic_usec() + KILL_WAIT_USEC + SUPERVISOR_SLACK_USEC;
        if (p->report >= 0)
                (void)send(p->report, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        (void)kill(p->supervisor, SIGCONT);
}

static int take_signal(struct program *p, const struct wire_frame *f)
{
        if (f->value == 0 || f->value >= NSIG)
                return -EPROTO;
        if (p->leader > 0)
                (void)kill(-p->leader, (int)f->value);
        say(WIRE_SIGNALLED, p, f->value, NULL, 0);
        return 0;
}

/* The sink that bytes or their end are for. NULL: there is none. */
static struct sink *sink_of(struct program *p, uint32_t stream)
{
        struct sink *s = stream < WIRE_STREAMS_MAX ? &p->sinks[stream] : NULL;

        return s && s->used && !s->eof ? s : NULL;
}

static int put(struct program *p, uint32_t stream, const char *payload, size_t size, int pass)
{
        int r = sink_put(p, stream, payload, size, pass);

        if (r == -ENOMEM) { /* it would get only a part of what was sent to it */
                stop(p);
                sink_shut(p, stream);
                return 0;
        }
        return r;
}

static int take_pass(struct program *p, const struct wire_frame *f, const char *payload)
{
        int theirs, ours;

        if (f->stream != WIRE_CONTROL || f->value < WIRE_PIPE_FIRST || f->value >= WIRE_STREAMS_MAX || f->size == 0 || !sink_of(p, WIRE_CONTROL))
                return -EPROTO;
        struct sink *s = &p->sinks[f->value];
        if ((s->used && !s->eof && !s->shut) || p->sinks[WIRE_CONTROL].n_passes == PASSES_MAX)
                return -EPROTO;
        if (s->used)
                sink_close(s);
        int r = make_pipe(&theirs, &ours, false);
        sink_open(p, f->value, ours);
        if (r < 0) { /* without its input it must not go on */
                sink_shut(p, f->value);
                stop(p);
                return 0;
        }
        return put(p, WIRE_CONTROL, payload, f->size, theirs);
}

static int take_data(struct program *p, const struct wire_frame *f, const char *payload)
{
        if (f->size == 0 || !sink_of(p, f->stream))
                return -EPROTO;
        return put(p, f->stream, payload, f->size, -1);
}

static int take_eof(struct program *p, const struct wire_frame *f)
{
        if (!sink_of(p, f->stream))
                return -EPROTO;
        sink_end(p, f->stream);
        return 0;
}

/* Of a stream that is closed here it was said before the host knew. */
static int take_credit(struct program *p, const struct wire_frame *f)
{
        if (f->stream < WIRE_STDOUT || f->stream > WIRE_CONTROL || f->value > WIRE_WINDOW)
                return -EPROTO;
        struct source *s = &p->sources[f->stream];
        if (s->fd < 0)
                return 0;
        if (f->value > WIRE_WINDOW - s->window)
                return -EPROTO;
        s->window += f->value;
        return 0;
}

/* As if the host had closed its end: who writes gets a SIGPIPE. */
static int take_shut(struct program *p, const struct wire_frame *f)
{
        if (f->stream < WIRE_STDOUT || f->stream > WIRE_CONTROL)
                return -EPROTO;
        if (f->stream == WIRE_CONTROL && p->sources[WIRE_CONTROL].fd >= 0)
                shutdown(p->sources[WIRE_CONTROL].fd, SHUT_RD);
        source_close(&p->sources[f->stream]);
        return 0;
}

static void go_on(struct program *p)
{
        if (p->state == PROGRAM_ENDING)
                go_on_ending(p);
        else
                source_send_held(p);
}

/* A program that has been started. */
static int take_for(struct program *p, const struct wire_frame *f, const char *payload)
{
        bool ending = p->state == PROGRAM_ENDING; /* nobody is there who could take anything */
        int r;

        switch (f->type) {
        case WIRE_SIGNAL:
                return take_signal(p, f);
        case WIRE_STOP:
                stop(p);
                return 0;
        case WIRE_PASS:
                return ending ? 0 : take_pass(p, f, payload);
        case WIRE_DATA:
                return ending ? 0 : take_data(p, f, payload);
        case WIRE_EOF:
                return ending ? 0 : take_eof(p, f);
        case WIRE_CREDIT:
        case WIRE_SHUT:
                r = f->type == WIRE_CREDIT ? take_credit(p, f) : take_shut(p, f);
                if (r == 0)
                        go_on(p);
                return r;
        default:
                return -EPROTO;
        }
}

static bool has_payload(uint16_t type)
{
        return type == WIRE_PLAN || type == WIRE_PASS || type == WIRE_DATA;
}

static bool is_known(uint16_t type)
{
        return (type >= WIRE_PLAN && type <= WIRE_LOOK) || (type >= WIRE_DATA && type <= WIRE_SHUT);
}

int programs_take(const struct wire_frame *f, const char *payload)
{
        if (!is_known(f->type) || (f->size > 0 && !has_payload(f->type)))
                return -EPROTO;
        if (f->type == WIRE_LOOK) {
                look(f->value);
                return 0;
        }
        if (f->program < 1 || f->program > WIRE_PROGRAMS_MAX || f->stream >= WIRE_STREAMS_MAX)
                return -EPROTO;
        struct program *p = &programs[f->program];
        if (f->type == WIRE_PLAN)
                return take_plan(p, f, payload);
        if (f->type == WIRE_START)
                return p->state == PROGRAM_PLANNED ? start(p) : -EPROTO;
        if (p->state == PROGRAM_NONE)
                return 0; /* said before the host knew of its end */
        return p->state == PROGRAM_PLANNED ? -EPROTO : take_for(p, f, payload);
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
