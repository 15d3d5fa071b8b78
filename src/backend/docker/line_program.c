/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs in a container, as those see them who have started them. */
#include "backend/docker/line.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define QUEUE_MAX (32 * WIRE_WINDOW) /* the windows of three streams, and a head for each byte: single bytes may come from them in turn */
#define CLEAR_USEC 5000000ULL
#define LOOK_AGAIN_USEC 500000ULL /* numbers older than this are asked for again when somebody reads them */
#define SETTLE_USEC 1000000ULL
#define FIRST_USAGE_USEC 2000000ULL

void line_program_free(struct backend_program *p)
{
        if (p->line && p->line->programs[p->number] == p)
                p->line->programs[p->number] = NULL;
        for (int i = 0; i < WIRE_CONTROL; i++)
                safe_close(p->sinks[i]);
        for (int i = 0; i < WIRE_STREAMS_MAX; i++)
                safe_close(p->sources[i].fd);
        safe_close(p->control);
        safe_close(p->deadline);
        safe_close(p->event);
        buffer_done(&p->queue);
        free(p);
}

static struct backend_program *program_new(void)
{
        struct backend_program *p = calloc(1, sizeof(*p));

        if (!p)
                return NULL;
        *p = (struct backend_program){.event = -1, .deadline = -1, .control = -1};
        for (int i = 0; i < WIRE_CONTROL; i++)
                p->sinks[i] = -1;
        for (int i = 0; i < WIRE_STREAMS_MAX; i++)
                p->sources[i] = (struct line_source){-1, i == WIRE_STDIN || i == WIRE_CONTROL ? WIRE_WINDOW : 0};
        buffer_init(&p->queue, QUEUE_MAX);
        p->queue.secret = true;
        return p;
}

/* Our ends go to the program, the caller's to io. */
static int open_streams(struct backend_program *p, int stdin_fd, bool control, struct program_io *io)
{
        int pair[2];

        for (int i = 0; i < 2; i++) {
                if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
                        return -errno;
                p->sinks[WIRE_STDOUT + i] = pair[1];
                *(i == 0 ? &io->out : &io->err) = pair[0];
        }
        if (control) {
                if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                        return -errno;
                p->control = pair[0];
                io->control = pair[1];
        }
        if (stdin_fd >= 0) {
                p->sources[WIRE_STDIN].fd = fcntl(stdin_fd, F_DUPFD_CLOEXEC, 3);
                if (p->sources[WIRE_STDIN].fd < 0)
                        return -errno;
                (void)fd_set_nonblock(p->sources[WIRE_STDIN].fd);
        }
        io->deadline = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        p->deadline = io->deadline < 0 ? -1 : fcntl(io->deadline, F_DUPFD_CLOEXEC, 3);
        p->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        return p->deadline < 0 || p->event < 0 ? -errno : 0;
}

/* With the lock. */
static int enter(struct line *l, struct backend_program *p, gb_error *err)
{
        for (uint32_t i = 0; i < WIRE_PROGRAMS_MAX; i++) {
                uint32_t number = l->next_number++ % WIRE_PROGRAMS_MAX + 1;
                if (l->programs[number])
                        continue;
                p->line = l;
                p->number = number;
                l->programs[number] = p;
                return 0;
        }
        return error_set(err, GB_E_LIMIT, EAGAIN, "the session has %d programs, which is the most: wait until one has ended", WIRE_PROGRAMS_MAX);
}

static int send_plan(struct line *l, struct backend_program *p, const struct buffer *plan)
{
        struct wire_frame start = {.type = WIRE_START, .program = p->number};

        for (size_t at = 0; at < plan->size;) {
                size_t size = MIN(plan->size - at, (size_t)WIRE_DATA_MAX);
                struct wire_frame frame = {.type = WIRE_PLAN, .program = p->number, .size = (uint32_t)size};
                int r = line_send(l, &frame, plan->data + at);
                if (r < 0)
                        return r;
                at += frame.size;
        }
        return line_send(l, &start, NULL);
}

/* With the lock: sends the plan and waits for the answer. */
static int begin(struct line *l, struct backend_program *p, const struct buffer *plan, gb_error *err)
{
        uint64_t until = monotonic_usec() + BUILD_TIMEOUT_USEC;

        if (l->lost) {
                if (err)
                        *err = l->why;
                return -EPIPE;
        }
        int r = enter(l, p, err);
        if (r < 0)
                return r;
        r = send_plan(l, p, plan);
        if (r < 0)
                return error_set(err, GB_E_LOST, -r, "cannot send the program to the container: %s", strerror(-r));
        line_wake(l);
        while (p->state == PROGRAM_STARTING && line_wait_change(l, until))
                ;
        if (p->state == PROGRAM_RUNNING || p->state == PROGRAM_OVER)
                return 0;
        if (p->state == PROGRAM_STARTING)
                return error_set(err, GB_E_LOST, ETIMEDOUT, "the program was not started within %llu s", BUILD_TIMEOUT_USEC / 1000000);
        if (err)
                *err = p->error;
        return p->error.errnum > 0 ? -p->error.errnum : -EINVAL;
}

int line_start(struct line *l, const struct buffer *plan, int stdin_fd, bool control, struct backend_program **ret, struct program_io *ret_io,
               gb_error *err)
{
        struct program_io io = {.control = -1, .out = -1, .err = -1, .deadline = -1};
        struct backend_program *p = program_new();

        if (!p)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        int r = open_streams(p, stdin_fd, control, &io);
        if (r < 0) {
                error_set(err, GB_E_INTERNAL, -r, "cannot make pipes for a program: %s", strerror(-r));
        } else {
                pthread_mutex_lock(&l->lock);
                r = begin(l, p, plan, err);
                bool unanswered = r < 0 && p->line && p->state == PROGRAM_STARTING;
                if (unanswered) {
                        p->abandoned = true; /* its number stays taken until the agent has answered */
                        line_tell_stop(p, BOX_STOP_ASKED);
                }
                pthread_mutex_unlock(&l->lock);
                if (unanswered)
                        p = NULL;
        }
        if (r == 0) {
                *ret_io = io;
                *ret = p;
                return 0;
        }
        for (int i = 0; i < 4; i++)
                safe_close((int[]){io.control, io.out, io.err, io.deadline}[i]);
        if (p)
                line_forget(p);
        return r;
}

void line_signal(struct backend_program *p, int sig)
{
        struct wire_frame frame = {.type = WIRE_SIGNAL, .program = p->number, .value = (uint32_t)sig};
        struct line *l = p->line;

        if (!l)
                return;
        pthread_mutex_lock(&l->lock);
        if (!p->ended && !l->lost && line_send(l, &frame, NULL) == 0)
                p->unanswered++;
        pthread_mutex_unlock(&l->lock);
        line_wake(l);
}

void line_stop(struct backend_program *p, enum box_stop why)
{
        struct line *l = p->line;

        if (!l)
                return;
        pthread_mutex_lock(&l->lock);
        line_tell_stop(p, why);
        pthread_mutex_unlock(&l->lock);
        line_wake(l);
}

void line_settle(struct backend_program *p)
{
        uint64_t until = monotonic_usec() + SETTLE_USEC;
        struct line *l = p->line;

        if (!l)
                return;
        pthread_mutex_lock(&l->lock);
        while (p->unanswered > 0 && !p->ended && !l->lost && line_wait_change(l, until))
                ;
        pthread_mutex_unlock(&l->lock);
}

static void fill_end(const struct backend_program *p, struct box_end *ret)
{
        const struct wire_end *e = &p->end;
        /* Our clock says that its time was over: the agent's begins a moment later. */
        uint64_t ours = p->stop == BOX_STOP_TIMEOUT ? p->stop_usec - p->started_usec : 0, wall = MAX(e->wall_usec, ours);

        /* The agent ends programs by SIGKILL: one with another end had ended by itself when it was told to stop. So had
         * one of which the agent says so, unless it is known whose SIGKILL that was: the kernel's, for memory. */
        bool late = !ending_may_be_kill(&e->ending) || (e->by_itself && p->stop != BOX_STOP_MEMORY);

        *ret = (struct box_end){
                .ending = e->ending, .stop = late ? BOX_STOP_NONE : p->stop, .compiling = e->compiling != 0,
                .disk_full = e->usage.disk_full & FULL_ALL, .wall_usec = wall, .disk_peak_bytes = e->usage.disk_bytes,
                .inodes_peak = e->usage.inodes, .tasks_left = e->tasks_left, .disk_known = e->usage.known & WIRE_USAGE_DISK,
        };
}

/* The kernel has ended the whole container; or the program was told to stop for memory, and the container ended
 * first. */
bool line_ended_for_memory(const struct backend_program *p)
{
        const struct line *l = p->line;

        return !p->ended && (l->end == LINE_END_MEMORY || (l->end == LINE_END_GONE && p->stop == BOX_STOP_MEMORY));
}

/* The end of a program that is over. */
static int tell_end(const struct backend_program *p, struct box_event *ret, gb_error *err)
{
        const struct line *l = p->line;

        if (p->cut)
                return error_set(err, GB_E_LOST, EPIPE, "a part of what it wrote is missing: %.300s", l->why.message);
        if (p->ended && p->end.starved)
                return error_set(err, GB_E_LOST, ENOMEM,
                                 "the container had no room for what was sent to the program: the program was ended");
        if (p->ended) {
                ret->kind = BOX_EVENT_ENDED;
                fill_end(p, &ret->end);
                return 0;
        }
        /* The session reports the peak of memory. How full its places were is not known. */
        if (line_ended_for_memory(p)) {
                ret->kind = BOX_EVENT_ENDED;
                ret->end = (struct box_end){.stop = BOX_STOP_MEMORY, .wall_usec = monotonic_usec() - p->started_usec};
                return 0;
        }
        if (err)
                *err = p->error;
        return -EPIPE;
}

int line_next_event(struct backend_program *p, struct box_event *ret, gb_error *err)
{
        struct line *l = p->line;
        eventfd_t count;
        int r = 0;

        *ret = (struct box_event){.kind = BOX_EVENT_NONE};
        (void)eventfd_read(p->event, &count);
        if (!l)
                return error_set(err, GB_E_LOST, ESRCH, "the session was closed");
        pthread_mutex_lock(&l->lock);
        if (p->state == PROGRAM_OVER && !p->told) {
                p->told = true;
                ret->t_usec = monotonic_usec();
                r = tell_end(p, ret, err);
        }
        pthread_mutex_unlock(&l->lock);
        return r;
}

void line_forget(struct backend_program *p)
{
        struct line *l = p->line;

        if (!l) {
                line_program_free(p);
                return;
        }
        pthread_mutex_lock(&l->lock);
        if (l->thread_over) {
                line_program_free(p);
        } else {
                line_tell_stop(p, BOX_STOP_ASKED);
                p->abandoned = true;
                line_queue_clear(p);
                for (int i = 0; i < WIRE_CONTROL; i++)
                        p->sinks[i] = safe_close(p->sinks[i]);
                p->control = safe_close(p->control);
        }
        pthread_mutex_unlock(&l->lock);
        line_wake(l);
}

void line_release(struct backend_program *p)
{
        struct line *l = p->line;

        pthread_mutex_lock(&l->lock);
        bool over = p->state == PROGRAM_OVER;
        p->released = !over; /* from then on it is the thread's */
        pthread_mutex_unlock(&l->lock);
        if (over)
                line_forget(p);
}

/* Sizes of places that cannot be read now stay as they were last seen, and are marked as old. The kernel enforces the
 * limits of these places, so an old size lets nothing pass; 0 would say that a full place is empty. An old number of
 * tasks means nothing: it is not known then. */
void line_keep_usage(struct line *l, const struct wire_usage *usage)
{
        struct wire_usage now = *usage;

        l->usage_is_old = !(now.known & WIRE_USAGE_DISK);
        if (l->usage_is_old) {
                now.disk_bytes = l->usage.disk_bytes;
                now.inodes = l->usage.inodes;
                now.disk_full = l->usage.disk_full;
                now.known |= l->usage.known & WIRE_USAGE_DISK;
        }
        l->usage = now;
        l->usage_came = true;
        l->tasks_peak = MAX(l->tasks_peak, now.tasks);
        pthread_cond_broadcast(&l->changed);
}

void line_usage(struct line *l, struct line_usage *ret)
{
        uint64_t now = monotonic_usec();

        pthread_mutex_lock(&l->lock);
        /* The first look was asked for with the session's beginning: its answer is on its way. */
        while (!l->usage_came && l->has_thread && !l->lost && line_wait_change(l, now + FIRST_USAGE_USEC))
                ;
        *ret = (struct line_usage){.seen = l->usage, .disk_is_old = l->usage_is_old, .tasks_peak = l->tasks_peak};
        bool old = now - l->looked_usec > LOOK_AGAIN_USEC && !l->lost && l->has_thread;
        if (old)
                line_look(l, now);
        pthread_mutex_unlock(&l->lock);
        if (old)
                line_wake(l);
}

int line_clear(struct line *l, unsigned *ret_ended, gb_error *err)
{
        uint64_t until = monotonic_usec() + CLEAR_USEC;
        struct wire_frame frame = {.type = WIRE_CLEAR};

        pthread_mutex_lock(&l->lock);
        int r = l->lost ? -EPIPE : line_send(l, &frame, NULL);
        l->clearing += r == 0;
        line_wake(l);
        while (r == 0 && l->clearing > 0 && !l->lost && line_wait_change(l, until))
                ;
        if (r < 0 || l->lost)
                r = error_set(err, GB_E_LOST, EPIPE, "the container is gone: %.300s", l->why.message);
        else if (l->clearing > 0)
                r = error_set(err, GB_E_LOST, ETIMEDOUT, "the agent in the container did not answer within %llu s", CLEAR_USEC / 1000000);
        else if (l->clear_error.code != GB_E_NONE)
                r = error_set(err, l->clear_error.code, l->clear_error.errnum, "%.300s", l->clear_error.message);
        *ret_ended = r == 0 ? l->cleared : 0;
        pthread_mutex_unlock(&l->lock);
        return r;
}

bool line_is_lost(struct line *l, gb_error *ret)
{
        pthread_mutex_lock(&l->lock);
        bool lost = l->lost;
        if (lost && ret)
                *ret = l->why;
        pthread_mutex_unlock(&l->lock);
        return lost;
}

size_t line_programs(struct line *l)
{
        size_t n = 0;

        pthread_mutex_lock(&l->lock);
        for (uint32_t i = 1; i <= WIRE_PROGRAMS_MAX; i++)
                n += l->programs[i] != NULL;
        pthread_mutex_unlock(&l->lock);
        return n;
}
