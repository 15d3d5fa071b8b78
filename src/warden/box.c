/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of one box, seen from outside. The setup process (setup.c) has cloned init and the program
 * as the warden's own children; so their ends come from waitid(), not from anybody's word. Killing init
 * kills the pid namespace, which no fork can outrun; where tasks are left in the cgroup, that is killed
 * too. */
#include "warden/box.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/message.h"
#include "kernel/sys.h"
#include "runner/runner.h"
#include "warden/children.h"
#include "warden/inside.h"
#include "warden/loop.h"
#include "warden/program.h"
#include "warden/session.h"
#include "warden/setup.h"
#include "warden/template.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#define REMOVE_TIMEOUT_USEC 2000000ULL
#define REAP_ROUND_MSEC 5
#define TEMPLATE_SAMPLE_PERIOD_USEC 1000000ULL
#define REAP_TIMEOUT_USEC 2000000ULL
/* Leftover processes are counted at this interval, until their number has not grown for LEFT_QUIET_USEC, at most for
 * LEFT_WAIT_USEC. */
#define LEFT_LOOK_USEC 1000ULL
#define LEFT_QUIET_USEC 20000ULL
#define LEFT_WAIT_USEC 1000000ULL

static LOOP_TABLE struct box boxes[BOXES_MAX];
static size_t n_boxes; /* none after these is in use */

void box_keep_private(void)
{
        loop_keep_private(boxes, sizeof(boxes));
}

static size_t lowest; /* all before these are in use: the first free one is taken, so that few pages are ever touched */

struct box *box_new(void)
{
        for (; lowest < BOXES_MAX; lowest++) {
                struct box *b = &boxes[lowest];
                if (b->state != BOX_NONE)
                        continue;
                n_boxes = MAX(n_boxes, lowest + 1);
                box_init(b);
                return b;
        }
        return NULL;
}

void box_for_each(void (*visit)(struct box *b, void *data), void *data)
{
        while (n_boxes > 0 && boxes[n_boxes - 1].state == BOX_NONE)
                n_boxes--;
        for (size_t i = 0; i < n_boxes; i++)
                if (boxes[i].state != BOX_NONE)
                        visit(&boxes[i], data);
}

void box_init(struct box *b)
{
        *b = (struct box){
                .setup = CHILD_NONE, .init = CHILD_NONE, .program = CHILD_NONE, .foreman = CHILD_NONE,
                .socket = -1, .proc = -1, .ruleset = -1, .workspace = -1,
        };
        memset(b->cgroup_parents, -1, sizeof(b->cgroup_parents));
        memset(b->namespaces, -1, sizeof(b->namespaces));
}

/* The end of an init waits for the last process of its pid namespace to be reaped, which may be unclaimed. */
static void reap_init(struct box *b)
{
        struct pollfd end = {.fd = b->init.pidfd, .events = POLLIN};
        uint64_t give_up = monotonic_usec() + REAP_TIMEOUT_USEC; /* box_done() gives the claim back then */

        while (child_exists(&b->init) && !child_reap(&b->init, WNOHANG, NULL) && monotonic_usec() < give_up) {
                children_reap_unclaimed();
                if (b->template)
                        template_pump(b->template); /* a child may have been forked into it just now */
                (void)poll(&end, 1, REAP_ROUND_MSEC);
        }
}

void box_keep_little(struct box *b)
{
        b->workspace = safe_close(b->workspace);
        if (b->n_devices == 0 && b->spec.cgroup.pids > 0)
                b->proc = safe_close(b->proc);
        for (int i = 0; i < CGROUP_KIND_COUNT; i++)
                b->cgroup_parents[i] = safe_close(b->cgroup_parents[i]);
}

/* The directories above its cgroups, where they were not kept. */
static void open_parents(struct box *b)
{
        for (int i = 0; i < CGROUP_KIND_COUNT; i++)
                if (b->has_cgroup && b->cgroup.dir[i] >= 0 && b->cgroup_parents[i] < 0)
                        b->cgroup.parent[i] = b->cgroup_parents[i] = openat(b->cgroup.dir[i], "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

void box_done(struct box *b)
{
        open_parents(b);
        if (b->has_cgroup)
                cgroup_box_remove(&b->cgroup, REMOVE_TIMEOUT_USEC);
        b->has_cgroup = false;
        reap_init(b);
        child_release(&b->setup);
        child_release(&b->init);
        child_release(&b->program);
        child_release(&b->foreman);
        children_look_again();
        b->socket = loop_close(b->socket);
        box_keep_little(b);
        b->proc = safe_close(b->proc);
        b->ruleset = safe_close(b->ruleset);
        for (int i = 0; i < FORK_NAMESPACE_COUNT; i++)
                b->namespaces[i] = safe_close(b->namespaces[i]);
        while (b->n_watch > 0)
                safe_close(b->watch[--b->n_watch]);
        b->state = BOX_NONE;
        if (b >= boxes && b < boxes + BOXES_MAX)
                lowest = MIN(lowest, (size_t)(b - boxes));
}

/* What a session's box brings for its later programs and for the front. */
static void take_built(struct box *b, uint32_t value, int *fds, int n_fds)
{
        int n = 0, n_watch = (int)(value & BUILT_WATCH);

        if (b->proc >= 0 || n_fds < 1 + n_watch + !!(value & BUILT_RULESET) + !!(value & BUILT_WORKSPACE) +
                                            (value & BUILT_NAMESPACES ? FORK_NAMESPACE_COUNT : 0))
                return;
        b->proc = TAKE_FD(fds[n++]);
        for (int i = 0; i < n_watch; i++, n++)
                if (b->n_watch < BOX_WRITABLE_MAX)
                        b->watch[b->n_watch++] = TAKE_FD(fds[n]);
        if (value & BUILT_RULESET)
                b->ruleset = TAKE_FD(fds[n++]);
        if (value & BUILT_WORKSPACE)
                b->workspace = TAKE_FD(fds[n++]);
        for (int i = 0; value & BUILT_NAMESPACES && i < FORK_NAMESPACE_COUNT; i++, n++)
                b->namespaces[i] = TAKE_FD(fds[n]);
}

/* A reason that was given stays. */
static void fail_build(struct box *b, int errnum)
{
        if (!b->failed)
                error_set(&b->error, GB_E_INTERNAL, errnum, "the box could not be built: %s", errnum == EMFILE ?
                          "the warden has no descriptors left" : "a process of it was killed (out of memory?)");
        b->failed = true;
}

/* A process of the box that its maker hands over. The maker is trusted, but the process may be dead. */
static bool take_child(struct box *b, struct child *c, int *fds, int n_fds)
{
        if (n_fds == 1 && !child_exists(c) && child_claim(c, &fds[0]) == 0)
                return true;
        if (n_fds == 1)
                sys_pidfd_send_signal(fds[0], SIGKILL); /* nobody else would */
        fail_build(b, ECHILD);
        return false;
}

static void take_init(struct box *b, int *fds, int n_fds)
{
        bool taken = take_child(b, &b->init, fds, n_fds);

        if (taken && b->session)
                loop_watch(b->init.pidfd, LOOP_BOX_END, b);
        if (taken && b->template)
                setup_say_claimed(b->socket);
        else if (b->template)
                shutdown(b->socket, SHUT_WR); /* it waits for a claim that cannot come */
}

/* The process that waits to become the program. In a session it is not wanted, and may have ended by itself already. */
static void take_program(struct box *b, int *pidfd)
{
        if (child_claim(&b->program, pidfd) == 0) {
                loop_watch(b->program.pidfd, LOOP_BOX_END, b);
                setup_say_claimed(b->socket);
                return;
        }
        b->program_ended = true;
        if (!b->session && b->state != BOX_SHELL)
                child_kill(&b->setup); /* it waits for a claim that cannot come */
}

static void take_frame(struct box *b, const struct setup_frame *frame, int *fds, int n_fds)
{
        switch (frame->kind) {
        case SETUP_INIT:
                take_init(b, fds, n_fds);
                return;
        case SETUP_PROGRAM:
                if (!child_exists(&b->program) && n_fds == 1)
                        take_program(b, &fds[0]);
                return;
        case SETUP_FOREMAN:
                (void)take_child(b, &b->foreman, fds, n_fds);
                return;
        case SETUP_BUILT:
                take_built(b, frame->value, fds, n_fds);
                return;
        case SETUP_PHASE:
                if (b->started_usec == 0)
                        b->started_usec = b->sampled_usec = monotonic_usec();
                b->report.compiling = frame->value > 0;
                return;
        case SETUP_FAILED:
                b->failed = true;
                b->error = frame->error;
                b->error.message[sizeof(b->error.message) - 1] = '\0';
                return;
        default:
                return; /* not one of ours: ignored */
        }
}

/* Who built the box is done, or could not. */
static void on_built(struct box *b)
{
        if (b->proc >= 0 && !b->failed) {
                b->state = BOX_OPEN;
                return;
        }
        fail_build(b, ECHILD);
        box_stop(b, WARDEN_STOP_NONE);
}

/* The program that waited in a shell is not needed in a session. It ends by itself, too. */
static void drop_program(struct box *b)
{
        child_kill(&b->program);
        (void)child_reap(&b->program, 0, NULL);
}

void box_on_frame(struct box *b)
{
        struct setup_frame frame = {0};
        int fds[BOX_FDS_MAX], n_fds;

        ssize_t n = setup_frame_receive(b->socket, &frame, fds, &n_fds);
        if (n == -EAGAIN)
                return;
        if (n == -EMSGSIZE)
                fail_build(b, EMFILE);
        if (n == (ssize_t)sizeof(frame))
                take_frame(b, &frame, fds, n_fds);
        for (int i = 0; i < n_fds; i++)
                safe_close(fds[i]);
        if (n <= 0 && n != -EMSGSIZE)
                b->socket = loop_close(b->socket); /* the program was executed, or all who could speak are dead */
        if (b->state == BOX_BUILDING && child_exists(&b->program) && b->started_usec > 0)
                b->state = BOX_RUNNING;
        b->executed = b->executed || (n <= 0 && b->state == BOX_RUNNING && !b->failed);
        if (n <= 0 && b->template && b->state == BOX_BUILDING)
                on_built(b); /* its init was the last to speak, and has locked itself in */
}

static void drain_frames(struct box *b)
{
        while (b->socket >= 0) {
                struct setup_frame peek;
                if (recv(b->socket, &peek, sizeof(peek), MSG_PEEK | MSG_DONTWAIT) < 0 && errno != ECONNRESET)
                        return;
                box_on_frame(b);
        }
}

/* Reaps the program: its status is the run's. */
static void reap_program(struct box *b)
{
        struct ending ending = {0};

        if (!child_reap(&b->program, 0, &ending) || b->started_usec == 0)
                return; /* it never became the program */
        b->report.ending = ending;
        if (!ending_may_be_kill(&ending))
                b->report.stop = WARDEN_STOP_NONE;
        if (!ending_is_seen(&ending) && !b->failed) {
                error_set(&b->error, GB_E_LOST, ECHILD, "the program's end was not seen");
                b->failed = true;
        }
}

/* The setup process has done its part, or could not. */
static void on_setup_end(struct box *b)
{
        drain_frames(b);
        if (b->spec.flags & BOX_UNIFIED_CONTROLLERS && b->has_cgroup && b->spec.cgroup.pids > 0) {
                struct cgroup_limits exact = {.pids = b->spec.cgroup.pids + 1};
                (void)cgroup_apply_limits(b->cgroup.dir[CGROUP_UNIFIED], CGROUP_UNIFIED, &exact);
        }
        if (b->session && b->state == BOX_BUILDING) {
                drop_program(b);
                on_built(b);
                return;
        }
        if (b->proc >= 0 && !b->failed && !b->program_ended)
                return;
        fail_build(b, ECHILD);
        if (b->state != BOX_SHELL) /* a shell waits for its request to be told of */
                box_stop(b, WARDEN_STOP_NONE);
}

int box_tasks(const struct box *b, uint64_t *ret)
{
        bool unified = b->spec.flags & BOX_UNIFIED_CONTROLLERS;
        int dir = b->has_cgroup ? b->cgroup.dir[unified ? CGROUP_UNIFIED : CGROUP_PIDS] : -1;

        return dir < 0 ? -ENOENT : cgroup_read_tasks(dir, ret);
}

/* Tasks besides the program (not reaped yet) and init (in no v1 group). */
static uint64_t tasks_left(const struct box *b)
{
        bool counted = b->spec.cgroup.pids > 0;
        uint64_t own = 1 + (counted && b->spec.flags & BOX_UNIFIED_CONTROLLERS), tasks = counted ? 0 : inside_processes(b->proc);

        if (counted && box_tasks(b, &tasks) < 0)
                return 0;
        return tasks == UINT64_MAX || tasks < own ? 0 : tasks - own;
}

/* The program has ended. Waits while its leftover processes multiply: a bomb whose first process exits at once needs
 * a moment to show. */
static bool lingers(struct box *b)
{
        uint64_t now = monotonic_usec(), left = tasks_left(b);

        if (left == 0)
                return false;
        if (b->ended_usec == 0) {
                b->ended_usec = now;
                loop_forget(b->program.pidfd);
        }
        if (left > b->report.tasks_left) {
                b->report.tasks_left = left;
                b->grown_usec = now;
        }
        return now - b->grown_usec < LEFT_QUIET_USEC && now - b->ended_usec < LEFT_WAIT_USEC && now - b->started_usec < b->spec.wall_usec;
}

void box_on_end(struct box *b)
{
        if (child_reap(&b->setup, WNOHANG, NULL))
                on_setup_end(b);
        if (b->session && b->state != BOX_DEAD && child_has_ended(&b->init)) {
                b->init_ended = true;
                drain_frames(b); /* it may have said why, or its foreman will */
                if (b->state != BOX_BUILDING || b->socket < 0)
                        box_stop(b, WARDEN_STOP_NONE);
                return;
        }
        if (b->session || b->state == BOX_DEAD || b->program_ended || !child_has_ended(&b->program))
                return;
        drain_frames(b);
        if (b->started_usec == 0 && child_exists(&b->setup))
                b->program_ended = true;
        else if (b->own && template_drain(b->own))
                reap_program(b);
        else if (b->own || !lingers(b))
                box_stop(b, WARDEN_STOP_NONE);
}

/* What the front's walk of the workspace does not see. */
static void sample_unlinked(struct box *b)
{
        uint64_t start = monotonic_usec();

        /* While it compiles, the program waits as a process that cannot be looked into. */
        if (b->n_devices == 0 || b->proc < 0 || start < b->unlinked_next_usec || b->report.compiling)
                return;
        uint64_t bytes = inside_unlinked_bytes(b->proc, b->devices, b->n_devices);
        b->unlinked_over = bytes > b->spec.disk_bytes;
        b->report.disk_hidden = bytes == UINT64_MAX;
        if (bytes != UINT64_MAX)
                b->unlinked_peak_bytes = MAX(b->unlinked_peak_bytes, bytes);
        /* Who opens very many files makes this slow: it gets a tenth of a core, no more. */
        uint64_t now = monotonic_usec();
        b->unlinked_next_usec = now + (now - start) * 10;
}

static void sample_disk(struct box *b)
{
        uint64_t bytes = 0, inodes = 0;
        uint32_t full = 0;

        for (int i = 0; i < b->n_watch; i++) {
                struct statfs st;
                if (fstatfs(b->watch[i], &st) < 0)
                        continue;
                bytes += (uint64_t)(st.f_blocks - st.f_bfree) * (uint64_t)st.f_bsize;
                inodes += (uint64_t)(st.f_files - st.f_ffree);
                full |= (uint32_t)((st.f_blocks > 0 && st.f_bfree == 0) || (st.f_files > 0 && st.f_ffree == 0)) << i;
        }
        b->report.disk_peak_bytes = MAX(b->report.disk_peak_bytes, bytes);
        inodes -= MIN(inodes, (uint64_t)b->n_watch); /* the root directory of each is ours */
        b->report.inodes_peak = MAX(b->report.inodes_peak, inodes);
        b->report.disk_full = full;
}

static void sample_tasks(struct box *b)
{
        struct cgroup_stats *kept = &b->report.stats;

        uint64_t now = b->spec.cgroup.pids > 0 ? UINT64_MAX : inside_processes(b->proc);
        if (now == UINT64_MAX)
                return; /* the cgroup counts, or nobody knows */
        kept->pids_peak = MAX(kept->pids_peak, now);
        b->report.pids_full = b->spec.processes > 0 && now + 1 >= b->spec.processes; /* init is one */
}

static void sample_cgroup(struct box *b)
{
        struct cgroup_stats now = {0}, *kept = &b->report.stats;

        if (!b->has_cgroup || cgroup_box_read(&b->cgroup, &now) < 0)
                return;
        now.pids_peak = MAX(now.pids_peak, now.pids);
        now.pids_peak = MAX(now.pids_peak, kept->pids_peak);
        b->report.memory_counted = b->report.memory_counted || now.memory_peak_bytes > 0;
        now.memory_peak_bytes = MAX(now.memory_peak_bytes, kept->memory_peak_bytes);
        if (!child_exists(&b->setup) && now.pids > 1)
                b->tasks_seen = MAX(b->tasks_seen, now.pids - 1);
        *kept = now;
}

void box_measure(struct box *b)
{
        sample_disk(b);
        sample_unlinked(b);
        sample_cgroup(b);
        sample_tasks(b);
}

/* A template runs nobody's code, and waits most of the time. */
static uint64_t sample_period(const struct box *b)
{
        return b->own ? TEMPLATE_SAMPLE_PERIOD_USEC : SAMPLE_PERIOD_USEC;
}

void box_sample(struct box *b, uint64_t now_usec)
{
        if (b->state == BOX_BUILDING && b->template && !child_exists(&b->init) &&
            now_usec - b->asked_usec >= FORK_TIMEOUT_USEC) {
                error_set(&b->error, GB_E_LOST, ETIMEDOUT, "the template's foreman does not answer");
                b->failed = true;
                template_kill(b->template);
                box_stop(b, WARDEN_STOP_NONE);
                return;
        }
        if (b->state == BOX_BUILDING && now_usec - b->asked_usec >= BUILD_TIMEOUT_USEC) {
                error_set(&b->error, GB_E_UNENFORCEABLE, ETIMEDOUT, "the box was not built within %llu s: is a mounted directory on a "
                          "file system that does not answer?", BUILD_TIMEOUT_USEC / 1000000);
                b->failed = true;
                box_stop(b, WARDEN_STOP_NONE);
                return;
        }
        if (b->state != BOX_RUNNING || (b->ended_usec > 0 && lingers(b)))
                return;
        if (b->ended_usec > 0) {
                box_stop(b, WARDEN_STOP_NONE);
                return;
        }
        if (now_usec - b->started_usec >= b->spec.wall_usec) {
                box_stop(b, WARDEN_STOP_TIMEOUT);
                return;
        }
        if (now_usec - b->sampled_usec < sample_period(b))
                return;
        b->sampled_usec = now_usec;
        box_measure(b);
        if (b->spec.cpu_time_usec > 0 && b->report.stats.cpu_usec >= b->spec.cpu_time_usec)
                box_stop(b, WARDEN_STOP_CPU);
        else if (b->report.stats.oom_kills > 0) /* all of it, as memory.oom.group does on v2 */
                box_stop(b, WARDEN_STOP_MEMORY);
        else if (b->unlinked_over)
                box_stop(b, WARDEN_STOP_DISK);
}

uint64_t box_next_sample(const struct box *b)
{
        if (b->state == BOX_BUILDING)
                return b->asked_usec +
                       (b->template && !child_exists(&b->init) ? FORK_TIMEOUT_USEC : BUILD_TIMEOUT_USEC);
        if (b->state != BOX_RUNNING)
                return 0;
        if (b->ended_usec > 0)
                return monotonic_usec() + LEFT_LOOK_USEC;
        return MIN(b->started_usec + b->spec.wall_usec, b->sampled_usec + sample_period(b));
}

void box_sweep(const struct box *b)
{
        cgroup_sweep(b->cgroup_parents);
}

void box_signal(struct box *b, int sig)
{
        /* The whole process group, as a terminal would do. The program leads it, and until it is
         * reaped (which ends the state RUNNING) its number cannot belong to anybody else. */
        if (b->state == BOX_RUNNING && child_exists(&b->program))
                kill(-b->program.pid, sig);
}

/* Whether pid is init, a program's main process, or its entrant. */
static bool is_spared(const void *box, pid_t pid)
{
        const struct box *b = box;
        const struct program *p = b->programs;

        while (p && pid != p->process.pid && pid != p->entrant.pid)
                p = p->next;
        return p || pid == b->init.pid;
}

int box_clear(struct box *b)
{
        if (!b->has_cgroup || b->spec.cgroup.pids == 0 || b->state != BOX_OPEN)
                return -ENOTSUP;
        return cgroup_box_clear(&b->cgroup, is_spared, b);
}

/* Sends SIGKILL to all and reaps the program; init may still be dying. */
static void end_program(struct box *b)
{
        /* The setup process first: once it is dead, its last frames tell of every process it has handed
         * over, and those it had not end by themselves. */
        child_kill(&b->setup);
        (void)child_reap(&b->setup, 0, NULL);
        drain_frames(b);
        child_kill(&b->init);
        child_kill(&b->program);
        child_kill(&b->foreman);
        /* Before init, which cannot end while these are not reaped. */
        (void)child_reap(&b->foreman, 0, NULL);
        reap_program(b);
}

void box_kill(struct box *b)
{
        end_program(b);
        if (b->has_cgroup)
                cgroup_box_kill(&b->cgroup);
        reap_init(b);
}

/* Peaks of tasks and disk that nobody has counted as they are meant. */
static void fill_gaps(struct box *b)
{
        struct cgroup_stats *s = &b->report.stats;

        /* In a v2 group init is counted too, and so was the setup process: of a peak of three or less
         * only what was sampled later says something. */
        if (b->spec.flags & BOX_UNIFIED_CONTROLLERS)
                s->pids_peak = s->pids_peak > 3 ? s->pids_peak - 1 : MAX(b->tasks_seen, (uint64_t)1);
        b->report.disk_peak_bytes += b->unlinked_peak_bytes;
}

void box_stop(struct box *b, enum warden_stop why)
{
        uint64_t now = monotonic_usec();

        if (b->state == BOX_DEAD)
                return;
        if (b->started_usec > 0 && child_has_ended(&b->program))
                why = WARDEN_STOP_NONE; /* it was not stopped */
        b->stopping = true;
        b->report.stop = why;
        if (b->own)
                template_end(b->own);
        if (b->session)
                session_end_programs(b); /* before init, which cannot end while they are not reaped */
        b->report.wall_usec = b->started_usec > 0 ? (b->ended_usec > 0 ? b->ended_usec : now) - b->started_usec : 0;
        drain_frames(b);
        if (b->session) { /* its programs were told of what they had used */
                /* Otherwise no process of the pid namespace is alive, so none is in the cgroups. */
                if (!b->init_ended || child_exists(&b->setup))
                        box_kill(b);
                b->state = BOX_DEAD;
                return;
        }
        sample_disk(b);
        sample_unlinked(b);
        sample_tasks(b);
        if (why != WARDEN_STOP_NONE)
                sample_cgroup(b); /* the present number of tasks, where the kernel keeps no peak */
        end_program(b);
        sample_cgroup(b);
        /* Alone in its groups (init is in none of v1): all that is left is our init, and it may die while
         * we go on. Otherwise wait, and see what was counted meanwhile: an OOM kill, say. */
        if (!b->has_cgroup || b->spec.flags & BOX_UNIFIED_CONTROLLERS || b->spec.cgroup.pids == 0 || b->report.stats.pids > 0) {
                box_kill(b);
                sample_cgroup(b);
        }
        fill_gaps(b);
        b->state = BOX_DEAD;
}

void box_abandon(struct box *b)
{
        b->stopping = true;
        b->state = BOX_DYING;
        child_kill(&b->init);
}
