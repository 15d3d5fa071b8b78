/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread of a line, and what others ask of it. */
#include "backend/docker/line.h"

#include "base/chunk.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define LINE_OUT_MAX (2 * WIRE_PLAN_MAX + 4 * MIB)
#define LINE_OUT_FULL (1 * MIB)  /* no more is read from sources then */
#define LINE_IN_MAX (512 * KIB)
#define POLLS_MAX (2 + WIRE_PROGRAMS_MAX * (3 + WIRE_STREAMS_MAX) + WIRE_CONNECTIONS_MAX)
#define SILENCE_USEC 1500000ULL     /* then the agent is asked whether it is there */
#define ANSWER_USEC 1500000ULL      /* and when it does not answer, the engine is */
#define PATIENCE_USEC 20000000ULL   /* an agent that says nothing though its engine does */
#define STOP_GRACE_USEC 1500000ULL  /* for a program to end when it was told to; then its container is */
#define GREETING_USEC 30000000ULL
#define CONTROL_FDS_MAX 4

/* What a descriptor in the set is. */
struct line_poll {
        struct backend_program *program; /* NULL: the line itself, or the wake-up */
        int stream;                      /* enum wire_stream, or one of these */
        uint32_t connection;             /* the number of one; 0: it is none */
};
#define POLL_LINE (-1)
#define POLL_WAKE (-2)
#define POLL_DEADLINE (-3)
#define POLL_SINK (-4)

void line_wake(struct line *l)
{
        (void)eventfd_write(l->wake, 1);
}

/* ---- losing it ---- */

/* Whether a run is in progress: its deadline is armed, or has expired. */
static bool has_run(const struct backend_program *p)
{
        struct pollfd expired = {p->deadline, POLLIN, 0};
        struct itimerspec t;

        if (timerfd_gettime(p->deadline, &t) < 0)
                return false;
        return t.it_value.tv_sec > 0 || t.it_value.tv_nsec > 0 || poll(&expired, 1, 0) > 0;
}

/* Drops the output that was not read. */
static void cut(struct backend_program *p)
{
        p->cut = true;
        line_queue_clear(p);
        line_program_over(p);
}

/* Programs whose output was not read yet are over when it is: drain(). */
static void end_all(struct line *l, const gb_error *why)
{
        line_end_connections(l);
        for (uint32_t i = 1; i <= WIRE_PROGRAMS_MAX; i++) {
                struct backend_program *p = l->programs[i];
                if (!p)
                        continue;
                if (p->abandoned || p->released) {
                        line_program_free(p);
                        continue;
                }
                p->error = p->state == PROGRAM_STARTING || p->state == PROGRAM_RUNNING ? *why : p->error;
                if (p->state == PROGRAM_STARTING) {
                        p->state = PROGRAM_FAILED;
                        p->ended = true;
                } else if (p->state == PROGRAM_RUNNING && !p->ended) {
                        line_queue_end(p);
                }
        }
        pthread_cond_broadcast(&l->changed);
}

/* Without the lock at its beginning and end; engine_lost: it is the engine that does not answer. */
static void lose(struct line *l, const gb_error *why, bool engine_lost)
{
        gb_error told = *why;
        enum line_end end = l->owner.explain ? l->owner.explain(l->owner.data, engine_lost, &told) : LINE_END_OTHER;

        (void)shutdown(l->fd, SHUT_RDWR); /* who sends on is not left waiting for us to read */
        pthread_mutex_lock(&l->lock);
        if (!l->lost) {
                l->lost = true;
                /* Only the end of the stream can mean that the container has ended; otherwise it is ended from here. */
                l->end = why->errnum == EPIPE ? end : LINE_END_OTHER;
                for (uint32_t i = 1; i <= WIRE_PROGRAMS_MAX; i++)
                        l->memory_lost = l->memory_lost || (l->programs[i] && line_ended_for_memory(l->programs[i]));
                l->why = told;
                end_all(l, &told);
        }
        pthread_mutex_unlock(&l->lock);
}

/* ---- the thread ---- */

static void poll_add(struct line *l, int fd, short events, struct backend_program *p, int stream)
{
        if (fd < 0 || l->n_polls == POLLS_MAX)
                return;
        l->polls[l->n_polls] = (struct pollfd){fd, events, 0};
        l->polled[l->n_polls++] = (struct line_poll){p, stream, 0};
}

static void poll_connection(struct line *l, const struct line_connection *c)
{
        short events = line_connection_events(c);

        if (events == 0 || l->n_polls == POLLS_MAX)
                return;
        l->polls[l->n_polls] = (struct pollfd){c->fd, events, 0};
        l->polled[l->n_polls++] = (struct line_poll){NULL, 0, c->number};
}

bool line_is_full(const struct line *l)
{
        return l->out.size - l->out_sent >= LINE_OUT_FULL;
}

static void poll_program(struct line *l, struct backend_program *p)
{
        bool may_read = !line_is_full(l) && p->state == PROGRAM_RUNNING && !p->ended;
        int head = line_queue_head(p);
        short control = 0;

        if (p->abandoned)
                return;
        if (p->stop == BOX_STOP_NONE && p->state == PROGRAM_RUNNING && !p->ended)
                poll_add(l, p->deadline, POLLIN, p, POLL_DEADLINE);
        if (head == WIRE_STDOUT || head == WIRE_STDERR)
                poll_add(l, p->sinks[head], POLLOUT, p, POLL_SINK);
        if (may_read && !p->control_shut && p->sources[WIRE_CONTROL].credit > 0)
                control |= POLLIN;
        if (head == WIRE_CONTROL)
                control |= POLLOUT;
        if (control)
                poll_add(l, p->control, control, p, WIRE_CONTROL);
        for (int i = 0; may_read && i < WIRE_STREAMS_MAX; i++)
                if (i != WIRE_CONTROL && p->sources[i].credit > 0)
                        poll_add(l, p->sources[i].fd, POLLIN, p, i);
}

static void fill_polls(struct line *l)
{
        l->n_polls = 0;
        poll_add(l, l->fd, (short)(POLLIN | (l->out.size > l->out_sent ? POLLOUT : 0)), NULL, POLL_LINE);
        poll_add(l, l->wake, POLLIN, NULL, POLL_WAKE);
        for (uint32_t i = 1; i <= WIRE_PROGRAMS_MAX; i++) {
                struct backend_program *p = l->programs[i];
                /* Here, and nowhere else while the thread lives: it has no pointer to it now. */
                if (p && p->abandoned && p->ended)
                        line_program_free(p);
                else if (p)
                        poll_program(l, p);
        }
        for (uint32_t i = 1; i <= WIRE_CONNECTIONS_MAX; i++)
                if (l->connections[i])
                        poll_connection(l, l->connections[i]);
}

/* Who cannot be told anything any more may have left a last word: the end is where reading ends. */
static void send_out(struct line *l)
{
        while (l->out_sent < l->out.size) {
                ssize_t n = send(l->fd, l->out.data + l->out_sent, l->out.size - l->out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return;
                l->out_sent = n < 0 ? l->out.size : l->out_sent + (size_t)n;
        }
        l->out_sent = 0;
        l->out.size = 0;
        if (l->out.allocated > LINE_OUT_FULL)
                buffer_done(&l->out);
}

static int read_line(struct line *l, char *chunk, gb_error *why)
{
        ssize_t n = recv(l->fd, chunk, OUTPUT_CHUNK_BYTES, MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n <= 0)
                return error_set(why, GB_E_LOST, EPIPE, "the container has ended%s%s", l->last_words[0] ? ": " : "", l->last_words);
        return line_take(l, chunk, (size_t)n, why);
}

static void end_source(struct backend_program *p, uint16_t stream)
{
        struct wire_frame frame = {.type = WIRE_EOF, .stream = stream, .program = p->number};

        if (stream == WIRE_CONTROL)
                p->control_shut = true;
        else
                p->sources[stream].fd = safe_close(p->sources[stream].fd);
        (void)line_send(p->line, &frame, NULL);
}

static void read_source(struct backend_program *p, uint16_t stream, char *chunk)
{
        struct line_source *s = &p->sources[stream];
        size_t want = MIN((size_t)s->credit, (size_t)WIRE_DATA_MAX);
        ssize_t n = read(s->fd, chunk, want);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n <= 0) {
                end_source(p, stream);
                return;
        }
        struct wire_frame frame = {.type = WIRE_DATA, .stream = stream, .program = p->number, .size = (uint32_t)n};
        s->credit -= (uint32_t)n;
        (void)line_send(p->line, &frame, chunk);
}

/* A pipe that came along with bytes of the control channel gets a stream of its own. */
static uint16_t new_pipe(struct backend_program *p, int fd)
{
        for (int i = 0; i < WIRE_STREAMS_MAX - WIRE_PIPE_FIRST; i++) {
                uint16_t stream = (uint16_t)(WIRE_PIPE_FIRST + p->next_pipe++ % (WIRE_STREAMS_MAX - WIRE_PIPE_FIRST));
                if (p->sources[stream].fd >= 0)
                        continue;
                p->sources[stream] = (struct line_source){fd, WIRE_WINDOW};
                return stream;
        }
        safe_close(fd);
        return 0;
}

static void read_control(struct backend_program *p, char *chunk)
{
        union {
                char bytes[CMSG_SPACE(sizeof(int) * CONTROL_FDS_MAX)];
                struct cmsghdr align;
        } control;
        struct line_source *s = &p->sources[WIRE_CONTROL];
        size_t want = MIN((size_t)s->credit, (size_t)WIRE_DATA_MAX);
        struct iovec iov = {chunk, want};
        struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
        int passed = -1;

        ssize_t n = recvmsg(p->control, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        for (struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL; c; c = CMSG_NXTHDR(&m, c)) {
                size_t n_fds = c->cmsg_type == SCM_RIGHTS ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
                for (size_t i = 0; i < n_fds; i++) {
                        int fd;
                        memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
                        safe_close(passed); /* our own side sends one */
                        passed = fd;
                }
        }
        if (n <= 0) {
                end_source(p, WIRE_CONTROL);
                return;
        }
        uint16_t stream = 0;
        if (passed >= 0) {
                (void)fd_set_nonblock(passed);
                stream = new_pipe(p, passed);
        }
        struct wire_frame frame = {
                .type = stream > 0 ? WIRE_PASS : WIRE_DATA, .stream = WIRE_CONTROL, .program = p->number, .value = stream, .size = (uint32_t)n,
        };
        s->credit -= (uint32_t)n;
        (void)line_send(p->line, &frame, chunk);
}

void line_tell_stop(struct backend_program *p, enum box_stop why)
{
        struct wire_frame frame = {.type = WIRE_STOP, .program = p->number};

        if (p->ended || p->stop_usec > 0)
                return;
        p->stop = why;
        p->stop_usec = monotonic_usec();
        (void)line_send(p->line, &frame, NULL);
}

static int take_polls(struct line *l, char *chunk, gb_error *why)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < l->n_polls; i++) {
                struct line_poll *what = &l->polled[i];
                struct backend_program *p = what->program;
                eventfd_t count;
                if (!l->polls[i].revents || (p && p->abandoned))
                        continue;
                if (what->connection > 0)
                        line_serve_connection(l, what->connection, chunk);
                else if (what->stream == POLL_WAKE)
                        (void)eventfd_read(l->wake, &count);
                else if (what->stream == POLL_LINE)
                        r = l->polls[i].revents & ~POLLOUT ? read_line(l, chunk, why) : 0;
                else if (what->stream == POLL_DEADLINE)
                        line_tell_stop(p, BOX_STOP_TIMEOUT);
                else if (what->stream == POLL_SINK)
                        line_deliver(p);
                else if (what->stream == WIRE_CONTROL) {
                        if (l->polls[i].revents & POLLOUT)
                                line_deliver(p);
                        if (l->polls[i].revents & ~POLLOUT && p->control >= 0 && !p->control_shut && p->sources[WIRE_CONTROL].credit > 0)
                                read_control(p, chunk);
                } else {
                        read_source(p, (uint16_t)what->stream, chunk);
                }
        }
        if (r == 0 && l->send_failed < 0)
                r = error_set(why, GB_E_LOST, -l->send_failed, "too much is under way to the container, or there is no memory for it: it was ended");
        if (r == 0)
                send_out(l);
        return r;
}

static bool is_armed(const struct backend_program *p)
{
        struct itimerspec t;

        return !p->abandoned && p->state == PROGRAM_RUNNING && !p->ended && timerfd_gettime(p->deadline, &t) == 0 &&
               (t.it_value.tv_sec > 0 || t.it_value.tv_nsec > 0);
}

bool line_has_runs(struct line *l)
{
        bool any = false;

        pthread_mutex_lock(&l->lock);
        for (uint32_t i = 1; i <= WIRE_PROGRAMS_MAX && !any; i++)
                any = l->programs[i] && is_armed(l->programs[i]);
        pthread_mutex_unlock(&l->lock);
        return any;
}

/* Somebody waits for something of the agent. */
static bool is_awaited(const struct line *l)
{
        bool any = l->waiting;

        for (uint32_t i = 1; i <= WIRE_PROGRAMS_MAX && !any; i++)
                any = l->programs[i] && (l->programs[i]->state == PROGRAM_STARTING || is_armed(l->programs[i]));
        return any;
}

static bool is_stuck(const struct line *l, uint64_t now)
{
        for (uint32_t i = 1; i <= WIRE_PROGRAMS_MAX; i++) {
                const struct backend_program *p = l->programs[i];
                if (p && ((p->stop_usec > 0 && !p->ended && now >= p->stop_usec + STOP_GRACE_USEC) || (p->ended && p->end.unkillable)))
                        return true;
        }
        return false;
}

void line_look(struct line *l, uint64_t now)
{
        struct wire_frame frame = {.type = WIRE_LOOK};

        if (l->looking || !l->greeted)
                return;
        l->looking = true;
        l->looked_usec = now;
        (void)line_send(l, &frame, NULL);
}

enum health { HEALTH_GOOD, HEALTH_STUCK, HEALTH_SILENT, HEALTH_DEAF };

static enum health check_health(struct line *l)
{
        uint64_t now = monotonic_usec();

        if (is_stuck(l, now))
                return HEALTH_STUCK;
        bool awaited = is_awaited(l);
        if (awaited != l->awaited)
                l->heard_usec = now; /* silence counts from here */
        l->awaited = awaited;
        if (!awaited)
                return HEALTH_GOOD;
        if (now - l->heard_usec < SILENCE_USEC)
                return HEALTH_GOOD;
        line_look(l, now);
        if (now - l->heard_usec >= PATIENCE_USEC)
                return HEALTH_DEAF;
        return now - l->heard_usec >= SILENCE_USEC + ANSWER_USEC ? HEALTH_SILENT : HEALTH_GOOD;
}

/* When the next look at the clock is due. */
static int poll_msec(const struct line *l)
{
        bool stopping = false;

        for (uint32_t i = 1; i <= WIRE_PROGRAMS_MAX; i++)
                stopping = stopping || (l->programs[i] && l->programs[i]->stop_usec > 0 && !l->programs[i]->ended);
        return stopping || is_awaited(l) ? SAMPLE_PERIOD_USEC / 1000 : 10000;
}

/* What stands in the way of an end is removed with its container: those that were told to end have ended then. */
static bool kill_container(struct line *l)
{
        if (!l->owner.kill || l->owner.kill(l->owner.data) != 0)
                return false;
        pthread_mutex_lock(&l->lock);
        for (uint32_t i = 1; i <= WIRE_PROGRAMS_MAX; i++) {
                struct backend_program *p = l->programs[i];
                if (!p || p->state != PROGRAM_RUNNING || p->ended || p->stop_usec == 0)
                        continue;
                /* Dead, but its end was not observed, nor how full its places were. */
                p->end = (struct wire_end){.wall_usec = monotonic_usec() - p->started_usec};
                p->ended = true;
                if (!p->abandoned)
                        line_queue_end(p);
        }
        pthread_mutex_unlock(&l->lock);
        return true;
}

/* True: it goes on. Without the lock. */
static bool mend(struct line *l, enum health health)
{
        gb_error why = {0};

        if (health == HEALTH_GOOD)
                return true;
        if (health == HEALTH_SILENT && l->owner.engine_answers && l->owner.engine_answers(l->owner.data))
                return true;
        if (health == HEALTH_SILENT) {
                error_set(&why, GB_E_LOST, ETIMEDOUT, "the engine does not answer any more");
                lose(l, &why, true);
                return false;
        }
        bool dead = kill_container(l);
        error_set(&why, GB_E_LOST, ETIMEDOUT, "%s%s", health == HEALTH_DEAF ? "the container did not answer any more" : "a program in the container could not be ended",
                  dead ? ": the container was ended" : ", and the engine could not end the container");
        lose(l, &why, !dead);
        return false;
}

/* A box that ran out of memory ends as a whole: whom the kernel took is chance, and the rest works with half of itself. Without the lock. */
static void sample_memory(struct line *l)
{
        uint64_t now = monotonic_usec();

        if (!l->owner.memory_ran_out || now - l->sampled_usec < SAMPLE_PERIOD_USEC)
                return;
        l->sampled_usec = now;
        if (!l->owner.memory_ran_out(l->owner.data))
                return;
        pthread_mutex_lock(&l->lock);
        for (uint32_t i = 1; i <= WIRE_PROGRAMS_MAX; i++)
                if (l->programs[i] && is_armed(l->programs[i]))
                        line_tell_stop(l->programs[i], BOX_STOP_MEMORY);
        send_out(l);
        pthread_mutex_unlock(&l->lock);
}

/* Fills the set with the output that is still to be handed on; returns whether there is any. */
static bool fill_drain(struct line *l)
{
        l->n_polls = 0;
        poll_add(l, l->wake, POLLIN, NULL, POLL_WAKE);
        for (uint32_t i = 1; i <= WIRE_PROGRAMS_MAX; i++) {
                struct backend_program *p = l->programs[i];
                if (p && (p->abandoned || p->released)) {
                        line_program_free(p);
                        continue;
                }
                if (!p || p->state != PROGRAM_RUNNING)
                        continue;
                line_deliver(p);
                int head = line_queue_head(p);
                if (p->state == PROGRAM_RUNNING && (head < WIRE_STDOUT || !has_run(p)))
                        cut(p); /* no run is in progress, and there will not be another */
                else if (p->state == PROGRAM_RUNNING)
                        poll_add(l, head == WIRE_CONTROL ? p->control : p->sinks[head], POLLOUT, p, POLL_SINK);
        }
        return l->n_polls > 1;
}

/* After the loss of the line: hands on the output that had arrived, so that a program whose end is known does not lose
 * a part of it. Takes as long as the caller of the run takes to read. Only then is the end of the session announced:
 * the caller would take it for the end of the run. */
static void drain(struct line *l)
{
        eventfd_t count;

        pthread_mutex_lock(&l->lock);
        while (fill_drain(l) && !l->closing) {
                pthread_mutex_unlock(&l->lock);
                int n = poll(l->polls, l->n_polls, SAMPLE_PERIOD_USEC / 1000);
                pthread_mutex_lock(&l->lock);
                if (n > 0 && l->polls[0].revents)
                        (void)eventfd_read(l->wake, &count);
        }
        l->thread_over = true;
        (void)eventfd_write(l->ended, 1);
        pthread_mutex_unlock(&l->lock);
}

/* Until the line is lost, or (false) closed. */
static bool carry(struct line *l)
{
        _cleanup_chunk_ struct chunk chunk = {0};
        gb_error why = {0};
        int r = chunk_init(&chunk) == 0 ? 0 : error_set(&why, GB_E_LOST, ENOMEM, "out of memory");

        chunk_mark(&chunk, OUTPUT_CHUNK_BYTES); /* who reads into it does not say how much */

        while (r == 0) {
                pthread_mutex_lock(&l->lock);
                if (l->closing) {
                        l->thread_over = true;
                        pthread_mutex_unlock(&l->lock);
                        return false;
                }
                fill_polls(l);
                int msec = poll_msec(l);
                pthread_mutex_unlock(&l->lock);

                int n = poll(l->polls, l->n_polls, msec);

                pthread_mutex_lock(&l->lock);
                if (n > 0 && !l->closing)
                        r = take_polls(l, chunk.data, &why);
                enum health health = r == 0 ? check_health(l) : HEALTH_GOOD;
                bool awaited = l->awaited;
                if (r == 0)
                        send_out(l);
                pthread_mutex_unlock(&l->lock);
                if (r == 0 && !mend(l, health))
                        return true;
                if (r == 0 && awaited)
                        sample_memory(l);
        }
        lose(l, &why, false);
        return true;
}

static void *line_main(void *data)
{
        if (carry(data))
                drain(data);
        return NULL;
}

/* ---- opening and closing ---- */

static int start_thread(struct line *l)
{
        sigset_t all, before;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        int r = pthread_create(&l->thread, NULL, line_main, l);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        l->has_thread = r == 0;
        return -r;
}

/* The first thing the agent hears, before there is anybody beside it. */
static int send_keys(struct line *l)
{
        struct wire_frame frame = {.type = WIRE_KEY, .size = sizeof(l->keys)};

        if (getrandom(&l->keys, sizeof(l->keys), 0) != sizeof(l->keys))
                return -errno;
        int r = line_send(l, &frame, &l->keys);
        l->has_keys = true;
        return r;
}

int line_open(struct line *l, int fd, const struct buffer *early, const struct line_owner *owner, gb_error *err)
{
        pthread_condattr_t attributes;
        gb_error why = {0};

        *l = (struct line){.fd = fd, .owner = *owner, .heard_usec = monotonic_usec(), .waiting = true, .handover = -1, .listener = -1};
        buffer_init(&l->in, LINE_IN_MAX);
        buffer_init(&l->out, LINE_OUT_MAX);
        l->in.secret = l->out.secret = true;
        pthread_mutex_init(&l->lock, NULL);
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(&l->changed, &attributes);
        pthread_condattr_destroy(&attributes);
        l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        l->ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        l->polls = calloc(POLLS_MAX, sizeof(l->polls[0]));
        l->polled = calloc(POLLS_MAX, sizeof(l->polled[0]));
        if (l->wake < 0 || l->ended < 0 || !l->polls || !l->polled)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "cannot watch the container: out of memory, or of descriptors");
        int r = send_keys(l);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot make keys for the container: %s", strerror(-r));
        r = early->size > 0 ? line_take(l, early->data, early->size, &why) : 0;
        if (r < 0) {
                if (err)
                        *err = why;
                return r;
        }
        r = start_thread(l);
        return r < 0 ? error_set(err, GB_E_INTERNAL, -r, "cannot start a thread for the container: %s", strerror(-r)) : 0;
}

void line_quiet(struct line *l)
{
        pthread_mutex_lock(&l->lock);
        l->closing = true;
        pthread_mutex_unlock(&l->lock);
        line_wake(l);
}

void line_close(struct line *l)
{
        line_quiet(l);
        if (l->has_thread)
                pthread_join(l->thread, NULL);
        gb_error why = {0};
        error_set(&why, GB_E_LOST, ESRCH, "the session was closed");
        pthread_mutex_lock(&l->lock);
        if (!l->lost)
                end_all(l, &why);
        l->lost = true;
        line_end_connections(l); /* somebody may have asked to listen after the end */
        for (uint32_t i = 1; i <= WIRE_PROGRAMS_MAX; i++)
                if (l->programs[i])
                        l->programs[i]->line = NULL; /* who still holds it frees it by itself */
        pthread_mutex_unlock(&l->lock);
        safe_close(l->listener);
        safe_close(l->fd);
        safe_close(l->wake);
        safe_close(l->ended);
        buffer_done(&l->in);
        buffer_done(&l->out);
        free(l->polls);
        free(l->polled);
        pthread_mutex_destroy(&l->lock);
        pthread_cond_destroy(&l->changed);
}

bool line_wait_change(struct line *l, uint64_t until_usec)
{
        struct timespec until = {.tv_sec = (time_t)(until_usec / 1000000), .tv_nsec = (long)(until_usec % 1000000) * 1000};

        return pthread_cond_timedwait(&l->changed, &l->lock, &until) != ETIMEDOUT;
}

int line_greet(struct line *l, gb_error *err)
{
        uint64_t until = monotonic_usec() + GREETING_USEC;
        int r = 0;

        pthread_mutex_lock(&l->lock);
        while (!l->greeted && !l->lost && line_wait_change(l, until))
                ;
        l->waiting = false;
        if (l->greeted)
                line_look(l, monotonic_usec()); /* the usage is not known until the answer */
        if (l->lost && err)
                *err = l->why;
        if (!l->greeted)
                r = l->lost ? -EPIPE : error_set(err, GB_E_LOST, ETIMEDOUT, "the agent in the container did not answer within %llu s", GREETING_USEC / 1000000);
        pthread_mutex_unlock(&l->lock);
        line_wake(l);
        return r;
}

