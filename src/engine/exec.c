/* SPDX-License-Identifier: Apache-2.0
 *
 * One loop around ppoll(), without allocation: in a context a run may be over in a tenth of a millisecond. It
 * carries output to the callbacks and standard input into the box, sends the code, takes frames, and watches
 * limits. Only what the program itself has in hand is waited for; each wait has an end:
 *
 *   timeout of the policy -> interrupt -> INTERRUPT_GRACE_USEC -> kill -> STOP_WAIT_USEC -> lost
 *
 * A run in a context is interrupted first, because an interpreter that obeys keeps its state; a program that runs
 * to its end is killed at once, as in a box of its own. A script is such a program, in an interpreter that was
 * there before it: it gets its code through a channel, which has no further use then. When a callback stands still, the backend does the
 * last two steps by the program's deadline.
 *
 * Frames come by another way than output. The interpreter has written its output before a frame, so
 * when a frame is there, the pipes are emptied before it is looked at. */
#include "engine/exec.h"

#include "base/fd.h"
#include "engine/exec_end.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* A process that exits closes its channel a moment before it is reaped. One that goes on without a channel
 * has lost its use. */
#define CLOSED_GRACE_USEC 200000ULL
/* An interrupt has no effect on an interpreter that has not begun with the code it was just sent. So it is
 * repeated after this time, and once more in the middle of the grace. */
#define INTERRUPT_AGAIN_USEC 100000ULL
/* The same for a script that has printed nothing yet: what its interpreter does before the first line of the code
 * takes a millisecond. */
#define SCRIPT_BEGIN_USEC 20000ULL
/* What is printed between two runs waits in its pipe for the next. A question of our own leaves it there, unless the answer does not come: an
 * interpreter whose pipe is full may have to write first. */
#define OURS_PATIENCE_USEC 500000ULL
/* Reads of the channel of a dead interpreter; more than its socket holds. As many rounds are given to data that was
 * waiting to be read when the time was over. */
#define LAST_READS_MAX 16

/* Of each stream of a context, what was printed by processes that were killed before a run: a backend holds a window and a
 * pipe of it. */
#define DROPPED_BYTES_MAX (1 * MIB)

enum slot { SLOT_CONTROL, SLOT_OUT, SLOT_ERR, SLOT_PROGRAM, SLOT_SESSION, SLOT_INTERRUPT, SLOT_CANCEL, SLOT_INPUT, SLOT_COUNT };

static struct run_facts *facts_of(struct exec *x)
{
        return &x->result->facts;
}

/* The outcome is not known, whatever was thought of it before. The first reason stays. */
static void note_lost(struct exec *x, const char *reason)
{
        struct run_facts *f = facts_of(x);

        f->stop = STOP_LOST;
        f->lost_reason = f->lost_reason ? f->lost_reason : reason;
}

/* The same, for an error of the host. */
static void note_host_error(struct exec *x, const char *what, int errnum)
{
        if (facts_of(x)->lost_reason)
                return;
        snprintf(x->reason, sizeof(x->reason), "%s: %s", what, strerror(errnum));
        note_lost(x, x->reason);
}

static void note_reason(struct exec *x, enum stop_reason why)
{
        if (facts_of(x)->stop == STOP_NONE)
                facts_of(x)->stop = why;
}

static void stop(struct exec *x, enum stop_reason why)
{
        note_reason(x, why);
        if (x->stopped)
                return;
        x->stopped = true;
        x->lost_usec = monotonic_usec() + STOP_WAIT_USEC;
        x->session->backend->program_stop(x->program);
}

/* Whether the code is still all ours. An interpreter that does not come up within the time limit is of no use,
 * but one that the caller does not want to wait for is. */
static bool is_unsent(const struct exec *x, enum stop_reason why)
{
        return x->channel->stage == CHANNEL_INPUT || (x->channel->stage == CHANNEL_HELLO && why == STOP_CANCELLED);
}

/* When the interrupt that is sent now is to be repeated, or 0. */
static uint64_t when_again(const struct exec *x, uint64_t now)
{
        if (x->channel && now < x->asked_usec + x->result->setup_usec + INTERRUPT_AGAIN_USEC)
                return now + INTERRUPT_AGAIN_USEC;
        if (x->channel)
                return now + INTERRUPT_GRACE_USEC / 2;
        bool early = x->script && now < x->began_usec + SCRIPT_BEGIN_USEC && x->result->facts.output_bytes == 0;
        return early ? now + SCRIPT_BEGIN_USEC : 0;
}

/* Asks the code to end. What was not sent to the interpreter yet is never sent. */
static void interrupt(struct exec *x, enum stop_reason why)
{
        note_reason(x, why);
        if (x->channel && !x->script && is_unsent(x, why) && !x->stopped) {
                x->over = true;
        } else if (x->channel && x->channel->stage != CHANNEL_RUNNING) {
                stop(x, why);
        } else if (!x->stopped) {
                uint64_t now = monotonic_usec();
                x->session->backend->program_signal(x->program, SIGINT);
                if (x->kill_usec > 0)
                        return;
                x->kill_usec = now + INTERRUPT_GRACE_USEC;
                x->again_usec = when_again(x, now);
        }
}

static void interrupt_again(struct exec *x, uint64_t now)
{
        uint64_t middle = x->kill_usec - INTERRUPT_GRACE_USEC / 2;

        if (!x->stopped)
                x->session->backend->program_signal(x->program, SIGINT);
        x->again_usec = x->channel && now < middle ? middle : 0;
}

/* A limit is passed. */
static void end_for(struct exec *x, enum stop_reason why)
{
        if (x->channel)
                interrupt(x, why);
        else
                stop(x, why);
}

static void note_broken(struct exec *x, const char *rule)
{
        if (rule == claims_no_memory) { /* that is not the code's fault */
                stop(x, STOP_LOST);
                note_lost(x, verdict_no_memory);
        }
        if (rule == claims_no_memory || facts_of(x)->channel_broken)
                return;
        facts_of(x)->channel_broken = true;
        facts_of(x)->broken_rule = rule;
        /* not read from here on: data that the backend still has must not delay the end */
        (void)shutdown(x->io->control, SHUT_RD);
        stop(x, STOP_NONE);
}

/* Told once, and before any output. */
static void note_started(struct exec *x)
{
        if (facts_of(x)->started)
                return;
        facts_of(x)->started = true;
        uint64_t t_usec = monotonic_usec() - x->asked_usec;
        x->result->setup_usec = t_usec;
        x->result->setup_known = true;
        if (x->callbacks->started)
                x->callbacks->started(x->callbacks->data, t_usec);
}

static void deliver(struct exec *x, enum run_stream stream, size_t size)
{
        note_started(x);
        int r = outlet_write(&x->outlet, stream, x->chunk->data, size);
        if (r < 0) {
                stop(x, STOP_LOST);
                note_lost(x, verdict_no_memory);
        } else if (r == 1 && !x->over)
                end_for(x, STOP_OUTPUT);
}

/* The program's output can no longer be read. */
static void lose_output(struct exec *x, int errnum)
{
        stop(x, STOP_LOST);
        note_host_error(x, "its output could not be read", errnum);
}

/* Reads up to want bytes, in one chunk at most. Returns how many came; closes the pipe at its end. */
static size_t read_output(struct exec *x, enum run_stream stream, size_t want)
{
        int *fd = stream == RUN_STDOUT ? &x->io->out : &x->io->err;
        size_t used = 0;

        want = MIN(want, (size_t)OUTPUT_CHUNK_BYTES);
        while (*fd >= 0 && used < want) {
                ssize_t n = read(*fd, x->chunk->data + used, want - used);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno != EAGAIN)
                        lose_output(x, errno);
                if (n == 0 || (n < 0 && errno != EAGAIN))
                        *fd = safe_close(*fd);
                if (n <= 0)
                        break;
                used += (size_t)n;
        }
        chunk_mark(x->chunk, used);
        if (used > 0)
                deliver(x, stream, used);
        return used;
}

static bool reads_output(const struct exec *x)
{
        return !x->ours || monotonic_usec() >= x->asked_usec + OURS_PATIENCE_USEC;
}

/* Reads what the pipes hold now, and not what comes meanwhile: others in the box may go on writing. */
void exec_drain(struct exec *x)
{
        for (int i = 0; i < 2 && reads_output(x); i++) {
                enum run_stream stream = i == 0 ? RUN_STDOUT : RUN_STDERR;
                int fd = i == 0 ? x->io->out : x->io->err, held = 0;
                if (fd >= 0 && ioctl(fd, FIONREAD, &held) < 0)
                        lose_output(x, errno);
                for (size_t left = (size_t)held; left > 0;) {
                        size_t n = read_output(x, stream, left);
                        if (n == 0)
                                break;
                        left -= n;
                }
        }
}

/* Discards output of processes that were killed before this run, until there is no more: a backend may hold more than the pipes do. There is a bound, since a
 * process that lives may go on writing. */
void exec_drop_outputs(struct exec *x)
{
        const int fds[] = {x->io->out, x->io->err};

        for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
                for (size_t dropped = 0; fds[i] >= 0 && dropped < DROPPED_BYTES_MAX;) {
                        ssize_t n = read(fds[i], x->chunk->data, OUTPUT_CHUNK_BYTES);
                        if (n < 0 && errno == EINTR)
                                continue;
                        if (n <= 0)
                                break;
                        dropped += (size_t)n;
                }
        chunk_mark(x->chunk, OUTPUT_CHUNK_BYTES);
}

/* The interpreter of a script closes its end of the channel before the first line of the code: nobody is left
 * to say anything. Its time counts from here. */
static void hand_over(struct exec *x)
{
        x->channel = NULL;
        x->began_usec = monotonic_usec();
        exec_arm_deadline(x);
}

/* An error of the channel: the other end has closed it, or the host cannot carry it. */
static void take_channel_error(struct exec *x, int errnum)
{
        bool closed = errnum == 0 || errnum == EPIPE || errnum == ECONNRESET;

        if (!closed) {
                stop(x, STOP_LOST);
                note_host_error(x, "the control channel of the interpreter failed", errnum);
        }
        if (x->closed_usec == 0)
                x->closed_usec = monotonic_usec() + CLOSED_GRACE_USEC;
}

static void send_some(struct exec *x)
{
        int r = channel_send(x->channel);

        if (r < 0)
                take_channel_error(x, -r);
        if (x->channel->stage != CHANNEL_RUNNING)
                return;
        note_started(x);
        if (x->script)
                hand_over(x);
}

/* The interpreter is up: the code goes out as soon as its standard input is there. */
static void send_code(struct exec *x)
{
        struct channel *c = x->channel;

        if (c->stage != CHANNEL_INPUT || x->over || x->stopped)
                return;
        if (x->stdin_fd >= 0 && !c->takes_descriptors && !x->input_ended)
                return;
        if (x->stdin_fd >= 0 && c->takes_descriptors && x->pump_child < 0 && exec_open_input(x, &x->error) < 0) {
                x->status = -x->error.errnum;
                x->over = true;
                return;
        }
        channel_set_code(c, x->code, x->code_size, x->last, &x->input, x->pump_child);
        send_some(x);
}

static void take_frames(struct exec *x)
{
        ssize_t n = channel_receive(x->channel);

        if (n == -EAGAIN)
                return;
        exec_drain(x);
        if (n <= 0) {
                take_channel_error(x, (int)-n);
                return;
        }
        channel_take(x->channel, (size_t)n);
        if (x->channel->broken)
                note_broken(x, x->channel->broken);
        else if (x->channel->claims.done)
                x->over = true;
        else
                send_code(x); /* of a script the channel may be gone now */
}

/* 0, or a negative errno with the error set. */
static int keep_input(struct exec *x, size_t size)
{
        int r = buffer_add(&x->input, x->chunk->data, size);

        if (r < 0 && r != -ENOMEM)
                return error_set(&x->error, GB_E_LIMIT, EFBIG,
                                 "standard input of a %s context can have %llu bytes at most: put the data into a file "
                                 "of the workspace",
                                 x->language->name, (unsigned long long)STDIN_FRAME_MAX);
        if (r == 0)
                r = inlet_see(&x->inlet, x->chunk->data, size);
        return r < 0 ? error_set(&x->error, GB_E_INTERNAL, -r, "cannot look at standard input: %s", strerror(-r)) : 0;
}

/* One read of standard input for a runner that gets it whole. When it cannot be had, nothing is run. */
static void collect_input(struct exec *x)
{
        ssize_t n = read(x->stdin_fd, x->chunk->data, OUTPUT_CHUNK_BYTES);

        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return;
        int errnum = n < 0 ? errno : 0;
        /* A terminal whose other end is closed says EIO. */
        if (errnum != 0 && !(errnum == EIO && isatty(x->stdin_fd))) {
                x->status = error_set(&x->error, GB_E_USAGE, errnum, "standard input cannot be read: %s",
                        strerror(errnum));
        } else if (n > 0) {
                chunk_mark(x->chunk, (size_t)n);
                x->status = keep_input(x, (size_t)n);
        } else {
                x->input_ended = true;
                send_code(x);
        }
        x->over = x->over || x->status < 0;
}

/* The program must not take a part of its input for all of it. */
static void on_input_failed(void *data, int errnum)
{
        struct exec *x = data;

        stop(x, STOP_LOST);
        note_host_error(x, "standard input could not be read to its end", errnum);
}

static void take_input(struct exec *x)
{
        if (x->channel && x->channel->stage == CHANNEL_INPUT)
                collect_input(x);
        else
                pump_step(&x->pump);
}

static uint64_t take_count(int fd)
{
        uint64_t count = 0;

        return read(fd, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

static void take_cancel(struct exec *x)
{
        uint64_t count = take_count(x->cancel_fd);

        x->cancels += (unsigned)MIN(count, (uint64_t)2);
        if (x->cancels >= 2)
                stop(x, STOP_CANCELLED);
        else if (x->cancels == 1)
                interrupt(x, STOP_CANCELLED);
}

/* Nothing more will be learned about the program. Its output stays. */
static void lose_program(struct exec *x, const char *reason)
{
        x->ended = x->over = x->stopped = true;
        exec_drain(x);
        note_lost(x, reason);
}

/* Decides whether we were the reason of an end. The backend looks for an end before it ends a program: a program that
 * was not stopped had ended by itself, and neither its time nor its closed channel was the reason. */
static void judge_end(struct exec *x, const struct box_end *end)
{
        struct run_facts *f = facts_of(x);

        if (end->stop == BOX_STOP_NONE && f->stop == STOP_TIMEOUT && x->kill_usec == 0)
                f->stop = STOP_NONE;
        if (end->stop == BOX_STOP_ASKED && x->suspected && f->stop == STOP_NONE) {
                f->channel_broken = true;
                f->broken_rule = "it was closed";
        }
}

static void note_memory_end(struct session *s, uint64_t kills)
{
        uint64_t known = atomic_load(&s->memory_kills);

        while (known < kills && !atomic_compare_exchange_weak(&s->memory_kills, &known, kills))
                ; /* another program of the session may have reported the same kills */
}

static void take_program_event(struct exec *x)
{
        struct box_event event = {0};
        int r = x->session->backend->program_next_event(x->program, &event, &x->error);

        if (r == 0 && event.kind != BOX_EVENT_ENDED)
                return;
        if (r < 0) {
                lose_program(x, x->error.message);
                if (x->error.code == GB_E_NOT_FOUND) /* the compiler, say: nothing of the code was run */
                        x->status = r;
                return;
        }
        /* What it wrote last is still there. Nobody is left to be ended for it. */
        x->ended = x->over = x->stopped = true;
        exec_drain(x);
        if (x->channel && !x->channel->broken && x->closed_usec == 0) {
                ssize_t n;
                for (int i = 0; i < LAST_READS_MAX && (n = channel_receive(x->channel)) > 0 && !x->channel->broken; i++)
                        channel_take(x->channel, (size_t)n);
        }
        if (x->channel && x->channel->broken == claims_no_memory)
                note_lost(x, verdict_no_memory);
        judge_end(x, &event.end);
        if (x->session->backend->memory_ends_all)
                note_memory_end(x->session, event.end.oom_kills);
        exec_take_end(x, &event.end);
}

static void take_session_event(struct exec *x)
{
        /* What the backend knows of the program's own end is better than "lost". */
        if (!x->ended)
                take_program_event(x);
        x->session->gone = true;
        if (!x->ended)
                lose_program(x, "the session has ended under the run");
}

static void fill_slots(const struct exec *x, struct pollfd p[static SLOT_COUNT])
{
        const struct backend *b = x->session->backend;
        bool listen = x->channel && !x->channel->broken && x->closed_usec == 0, reads = reads_output(x);
        short sending = listen && channel_has_to_send(x->channel) ? POLLOUT : 0, input_events = POLLIN;
        int input = -1;

        if (x->channel && x->channel->stage == CHANNEL_INPUT && !x->input_ended)
                input = x->stdin_fd;
        else if (x->pump.target >= 0)
                input = pump_wait_for(&x->pump, &input_events);
        p[SLOT_CONTROL] = (struct pollfd){listen ? x->io->control : -1, POLLIN | sending, 0};
        p[SLOT_OUT] = (struct pollfd){reads ? x->io->out : -1, POLLIN, 0};
        p[SLOT_ERR] = (struct pollfd){reads ? x->io->err : -1, POLLIN, 0};
        p[SLOT_PROGRAM] = (struct pollfd){b->program_event_fd(x->program), POLLIN, 0};
        p[SLOT_SESSION] = (struct pollfd){b->session_event_fd(x->session->box), POLLIN, 0};
        p[SLOT_INTERRUPT] = (struct pollfd){x->interrupt_fd, POLLIN, 0};
        p[SLOT_CANCEL] = (struct pollfd){x->cancel_fd, POLLIN, 0};
        p[SLOT_INPUT] = (struct pollfd){input, input_events, 0};
}

static void take_requests(struct exec *x, const struct pollfd p[static SLOT_COUNT])
{
        if (p[SLOT_INTERRUPT].revents && take_count(x->interrupt_fd) > 0)
                interrupt(x, STOP_CANCELLED);
        if (p[SLOT_CANCEL].revents && !x->over)
                take_cancel(x);
}

/* Code that was not sent yet is not sent when the caller does not want it. Once it was, an end that has happened
 * comes before a request to end it. */
static void take_slots(struct exec *x, const struct pollfd p[static SLOT_COUNT])
{
        bool begun = !x->channel || x->channel->stage == CHANNEL_RUNNING;

        if (!begun)
                take_requests(x, p);
        if (p[SLOT_CONTROL].revents & POLLOUT && !x->over && x->channel)
                send_some(x);
        if (p[SLOT_CONTROL].revents & ~POLLOUT && !x->over && x->channel)
                take_frames(x);
        if (p[SLOT_OUT].revents && !x->over)
                read_output(x, RUN_STDOUT, OUTPUT_CHUNK_BYTES);
        if (p[SLOT_ERR].revents && !x->over)
                read_output(x, RUN_STDERR, OUTPUT_CHUNK_BYTES);
        if (p[SLOT_PROGRAM].revents && !x->over)
                take_program_event(x);
        if (p[SLOT_SESSION].revents && !x->over)
                take_session_event(x);
        if (begun && !x->over)
                take_requests(x, p);
        if (p[SLOT_INPUT].revents && !x->over)
                take_input(x);
}

/* The time is over. Whatever the program has said by now counts before that: a thread of ours that was late must not
 * make a timeout of a good end. */
static bool is_late(struct exec *x, const struct pollfd p[static SLOT_COUNT])
{
        bool waits = p[SLOT_CONTROL].revents & POLLIN || p[SLOT_PROGRAM].revents;

        return !waits || x->late++ >= LAST_READS_MAX;
}

static bool is_past(uint64_t when, uint64_t now)
{
        return when > 0 && now >= when;
}

static void take_time(struct exec *x, const struct pollfd p[static SLOT_COUNT])
{
        uint64_t now = monotonic_usec(), timeout = exec_begin_usec(x) + x->timeout_usec;

        if (x->over)
                return;
        if (x->stopped && is_past(x->lost_usec, now)) {
                lose_program(x, "it was killed, and its end did not come");
        } else if (is_past(x->closed_usec, now)) {
                x->suspected = true; /* it may have ended long ago, and the backend be late: judge_end() tells */
                stop(x, STOP_NONE);
        } else if (is_past(x->kill_usec, now)) {
                stop(x, facts_of(x)->stop);
        } else if (is_past(timeout, now) && facts_of(x)->stop == STOP_NONE && x->closed_usec == 0) {
                if (is_late(x, p))
                        end_for(x, STOP_TIMEOUT);
        } else if (is_past(x->again_usec, now)) {
                interrupt_again(x, now);
        }
        if (is_past(x->outlet.pause_usec, now))
                outlet_pause(&x->outlet);
        if (is_past(x->sample_usec, now) && !x->over) {
                x->sample_usec = now + SAMPLE_PERIOD_USEC;
                enum stop_reason why = exec_sample(x);
                if (why == STOP_DISK || why == STOP_LOST)
                        stop(x, why); /* it may write much more while it is asked politely */
                if (why == STOP_LOST)
                        note_lost(x, "its processor time, which has a limit, could not be read");
                if (why == STOP_DISK || why == STOP_LOST)
                        return;
                if (why != STOP_NONE && facts_of(x)->stop == STOP_NONE)
                        end_for(x, why);
        }
}

/* Until the next thing that take_time() has to do. */
static struct timespec time_left(const struct exec *x)
{
        uint64_t now = monotonic_usec(), next = UINT64_MAX;
        const uint64_t times[] = {
                x->result->facts.stop == STOP_NONE && !x->stopped && x->closed_usec == 0
                        ? exec_begin_usec(x) + x->timeout_usec : 0,
                x->stopped ? x->lost_usec : x->kill_usec,
                x->stopped ? 0 : x->again_usec,
                x->stopped ? 0 : x->closed_usec,
                x->stopped ? 0 : x->sample_usec,
                x->outlet.pause_usec,
                reads_output(x) ? 0 : x->asked_usec + OURS_PATIENCE_USEC,
        };

        for (size_t i = 0; i < ARRAY_SIZE(times); i++)
                if (times[i] > 0)
                        next = MIN(next, times[i]);
        uint64_t left = next > now ? next - now : 0;
        left = MIN(left, (uint64_t)60 * 1000000);
        return (struct timespec){.tv_sec = (time_t)(left / 1000000), .tv_nsec = (long)(left % 1000000) * 1000};
}

int exec_run(struct exec *x, gb_error *err)
{
        struct pollfd slots[SLOT_COUNT];

        x->pump.failed = on_input_failed;
        x->pump.failed_data = x;
        /* While it runs nobody can tell. */
        x->maybe_full_before = atomic_exchange(&x->session->maybe_full, true);
        exec_arm_deadline(x);
        if (x->channel && x->channel->bombed)
                exec_drop_outputs(x);
        if (!x->channel)
                note_started(x);
        else if (x->channel->broken)
                note_broken(x, x->channel->broken);
        else
                send_code(x);
        while (!x->over) {
                struct timespec left = time_left(x);
                fill_slots(x, slots);
                int n = ppoll(slots, SLOT_COUNT, &left, NULL);
                if (n > 0)
                        take_slots(x, slots);
                take_time(x, slots);
        }
        return exec_finish(x, err);
}
