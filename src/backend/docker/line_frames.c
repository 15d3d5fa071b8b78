/* SPDX-License-Identifier: Apache-2.0
 *
 * What comes over a line: the engine's frames (eight bytes of head, then standard output or error of the container), in them the agent's, and
 * from those the queue of each program. A program's output, its control channel and its end are handed on in the order in which they came,
 * so that whoever sees a word of the interpreter can read all that was printed before. */
#include "backend/docker/line.h"

#include "base/fd.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define ENGINE_STDOUT 1
#define ENGINE_STDERR 2
#define SENT_BYTES_MAX (1 * MIB) /* that are kept before they are dropped */

enum entry_kind { ENTRY_DATA, ENTRY_EOF, ENTRY_END };

struct entry {
        uint16_t kind;
        uint16_t stream;
        uint32_t size;
};

int line_broken(gb_error *why, const char *rule)
{
        return error_set(why, GB_E_LOST, EPROTO, "the agent in the container broke the rules of its channel (%s): the container was ended", rule);
}

/* While something is always under way, what was sent would stay: it must not count as full. */
static void drop_sent(struct line *l)
{
        if (l->out_sent < SENT_BYTES_MAX)
                return;
        l->out.size -= l->out_sent;
        memmove(l->out.data, l->out.data + l->out_sent, l->out.size);
        l->out_sent = 0;
}

int line_send(struct line *l, const struct wire_frame *frame, const void *payload)
{
        struct wire_frame tagged = *frame;

        if (l->lost || l->send_failed < 0)
                return -EPIPE;
        drop_sent(l);
        size_t before = l->out.size;
        if (l->has_keys)
                tagged.tag = wire_tag(l->keys.to_agent, l->n_sent++, frame, payload);
        int r = buffer_add(&l->out, &tagged, sizeof(tagged));
        if (r == 0 && frame->size > 0)
                r = buffer_add(&l->out, payload, frame->size);
        if (r < 0) { /* one that is missing puts all that follow out of step */
                l->out.size = before;
                l->send_failed = r;
        }
        return r;
}

/* ---- the queue ---- */

/* Bytes of one stream in a row are one entry: a window full of single bytes has room, too. Whether they are with the last one now. */
static bool queue_extend(struct backend_program *p, uint16_t stream, const void *bytes, uint32_t size)
{
        struct entry last;

        if (p->queue.size == 0)
                return false;
        memcpy(&last, p->queue.data + p->queue_last, sizeof(last));
        if (last.kind != ENTRY_DATA || last.stream != stream || (size > 0 && buffer_add(&p->queue, bytes, size) < 0))
                return false;
        last.size += size;
        memcpy(p->queue.data + p->queue_last, &last, sizeof(last));
        return true;
}

/* What was handed on of the first entry has been credited, and is sent again as other bytes: kept, it would make the queue grow without end. */
static void queue_drop_done(struct backend_program *p)
{
        struct entry first;

        if (p->head_done == 0 || p->queue.size == 0)
                return;
        memcpy(&first, p->queue.data, sizeof(first));
        first.size -= (uint32_t)p->head_done;
        memcpy(p->queue.data, &first, sizeof(first));
        p->queue.size -= p->head_done;
        memmove(p->queue.data + sizeof(first), p->queue.data + sizeof(first) + p->head_done, p->queue.size - sizeof(first));
        p->queue_last -= MIN(p->queue_last, p->head_done);
        p->head_done = 0;
}

static int queue_add(struct backend_program *p, enum entry_kind kind, uint16_t stream, const void *bytes, uint32_t size)
{
        struct entry e = {kind, stream, size};

        if (p->queue_at > 0) {
                memmove(p->queue.data, p->queue.data + p->queue_at, p->queue.size - p->queue_at);
                p->queue.size -= p->queue_at;
                p->queue_last -= MIN(p->queue_last, p->queue_at);
                p->queue_at = 0;
        }
        queue_drop_done(p);
        if (kind == ENTRY_DATA && queue_extend(p, stream, bytes, size))
                return 0;
        p->queue_last = p->queue.size;
        int r = buffer_add(&p->queue, &e, sizeof(e));
        if (r == 0 && size > 0)
                r = buffer_add(&p->queue, bytes, size);
        return r;
}

void line_queue_clear(struct backend_program *p)
{
        p->queue.size = p->queue_at = p->queue_last = p->head_done = 0;
}

void line_queue_end(struct backend_program *p)
{
        if (queue_add(p, ENTRY_END, 0, NULL, 0) == 0) {
                line_deliver(p);
                return;
        }
        p->cut = !line_queue_is_empty(p);
        line_queue_clear(p);
        line_program_over(p);
}

bool line_queue_is_empty(const struct backend_program *p)
{
        return p->queue_at == p->queue.size;
}

static struct entry head_of(const struct backend_program *p)
{
        struct entry e;

        memcpy(&e, p->queue.data + p->queue_at, sizeof(e));
        return e;
}

int line_queue_head(const struct backend_program *p)
{
        return line_queue_is_empty(p) ? -1 : head_of(p).stream;
}

static int *sink_of(struct backend_program *p, uint16_t stream)
{
        return stream == WIRE_CONTROL ? &p->control : &p->sinks[stream];
}

static void give_credit(struct backend_program *p, uint16_t stream, uint32_t bytes)
{
        struct wire_frame frame = {.type = WIRE_CREDIT, .stream = stream, .program = p->number, .value = bytes};

        p->uncredited[stream] -= bytes;
        if (!p->ended)
                (void)line_send(p->line, &frame, NULL);
}

/* Nobody reads it any more: what the program writes there is dropped at its side. */
static void shut(struct backend_program *p, uint16_t stream)
{
        struct wire_frame frame = {.type = WIRE_SHUT, .stream = stream, .program = p->number};
        int *fd = sink_of(p, stream);

        *fd = safe_close(*fd);
        if (!p->ended)
                (void)line_send(p->line, &frame, NULL);
}

void line_program_over(struct backend_program *p)
{
        p->state = PROGRAM_OVER;
        p->abandoned = p->abandoned || p->released;
        (void)eventfd_write(p->event, 1);
        pthread_cond_broadcast(&p->line->changed);
}

/* Bytes of the entry at the head; false when they have to wait. */
static bool deliver_data(struct backend_program *p, const struct entry *e)
{
        const char *bytes = p->queue.data + p->queue_at + sizeof(*e);
        int fd = *sink_of(p, e->stream);

        while (fd >= 0 && p->head_done < e->size) {
                size_t left = e->size - p->head_done;
                ssize_t n = e->stream == WIRE_CONTROL ? send(fd, bytes + p->head_done, left, MSG_DONTWAIT | MSG_NOSIGNAL)
                                                      : write(fd, bytes + p->head_done, left);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return false;
                if (n < 0) {
                        shut(p, e->stream);
                        break;
                }
                p->head_done += (size_t)n;
                give_credit(p, e->stream, (uint32_t)n);
        }
        return true;
}

void line_deliver(struct backend_program *p)
{
        while (!line_queue_is_empty(p)) {
                struct entry e = head_of(p);
                if (e.kind == ENTRY_DATA && !deliver_data(p, &e))
                        return;
                if (e.kind == ENTRY_EOF && e.stream == WIRE_CONTROL && p->control >= 0)
                        (void)shutdown(p->control, SHUT_WR);
                else if (e.kind == ENTRY_EOF)
                        *sink_of(p, e.stream) = safe_close(*sink_of(p, e.stream));
                if (e.kind == ENTRY_END)
                        line_program_over(p);
                p->queue_at += sizeof(e) + e.size;
                p->head_done = 0;
        }
}

/* ---- frames of the agent ---- */

static int take_data(struct backend_program *p, const struct wire_frame *f, const char *payload, gb_error *why)
{
        if (f->stream < WIRE_STDOUT || f->stream > WIRE_CONTROL || p->ended)
                return line_broken(why, "bytes of a stream that is none");
        if (p->uncredited[f->stream] + f->size > WIRE_WINDOW)
                return line_broken(why, "more bytes than its window");
        p->uncredited[f->stream] += f->size;
        if (p->abandoned || *sink_of(p, f->stream) < 0) {
                p->uncredited[f->stream] = 0;
                return 0;
        }
        if (queue_add(p, ENTRY_DATA, f->stream, payload, f->size) < 0)
                return error_set(why, GB_E_LOST, ENOMEM, "out of memory for the output of a program");
        return 0;
}

static int take_credit(struct backend_program *p, const struct wire_frame *f, gb_error *why)
{
        bool ours = f->stream == WIRE_STDIN || (f->stream >= WIRE_CONTROL && f->stream < WIRE_STREAMS_MAX);

        if (!ours || f->value > WIRE_WINDOW)
                return line_broken(why, "credit for a stream that is none");
        uint32_t *credit = &p->sources[f->stream].credit;
        *credit = *credit + f->value > WIRE_WINDOW ? (uint32_t)WIRE_WINDOW : *credit + f->value;
        return 0;
}

/* Nobody reads it inside any more. */
static void end_source(struct backend_program *p, uint16_t stream)
{
        p->sources[stream].credit = 0;
        p->sources[stream].fd = safe_close(p->sources[stream].fd);
}

/* Shown to people: no byte of it may speak to their terminal. */
static void make_printable(char *text)
{
        for (; *text; text++)
                if (*text > 0 && (*text < ' ' || *text == 127))
                        *text = ' ';
}

void line_take_error(gb_error *ret, const char payload[static sizeof(gb_error)])
{
        memcpy(ret, payload, sizeof(*ret));
        ret->message[sizeof(ret->message) - 1] = '\0';
        make_printable(ret->message);
        if (ret->code <= GB_E_NONE || ret->code > GB_E_PROTOCOL)
                ret->code = GB_E_INTERNAL;
}

static int take_answer(struct backend_program *p, const struct wire_frame *f, const char *payload, gb_error *why)
{
        switch (f->type) {
        case WIRE_STARTED:
                if (p->state != PROGRAM_STARTING)
                        return line_broken(why, "a second start");
                p->state = PROGRAM_RUNNING;
                p->started_usec = monotonic_usec();
                break;
        case WIRE_FAILED:
                if (p->state != PROGRAM_STARTING || f->size != sizeof(p->error))
                        return line_broken(why, "a failure out of turn");
                line_take_error(&p->error, payload);
                p->ended = true;
                p->state = PROGRAM_FAILED;
                break;
        case WIRE_SIGNALLED:
                p->unanswered -= p->unanswered > 0;
                break;
        default:
                if (f->size != sizeof(p->end) || p->ended || p->state == PROGRAM_STARTING)
                        return line_broken(why, "an end out of turn");
                memcpy(&p->end, payload, sizeof(p->end));
                if (!ending_is_possible(&p->end.ending))
                        return line_broken(why, "an end that is none");
                line_keep_usage(p->line, &p->end.usage);
                if (p->line->usage_is_old) /* full ones are still full; how much is in them is not known */
                        p->end.usage.disk_full = p->line->usage.disk_full;
                p->ended = true;
                if (queue_add(p, ENTRY_END, 0, NULL, 0) < 0)
                        return error_set(why, GB_E_LOST, ENOMEM, "out of memory");
        }
        pthread_cond_broadcast(&p->line->changed);
        return 0;
}

static int take_of_program(struct line *l, const struct wire_frame *f, const char *payload, gb_error *why)
{
        struct backend_program *p = f->program >= 1 && f->program <= WIRE_PROGRAMS_MAX ? l->programs[f->program] : NULL;
        int r = 0;

        if (!p)
                return line_broken(why, "a program that is none");
        if (f->type == WIRE_DATA)
                r = take_data(p, f, payload, why);
        else if (f->type == WIRE_CREDIT)
                r = take_credit(p, f, why);
        else if (f->type == WIRE_EOF && f->stream >= WIRE_STDOUT && f->stream <= WIRE_CONTROL && !p->ended)
                r = queue_add(p, ENTRY_EOF, f->stream, NULL, 0) < 0 ? error_set(why, GB_E_LOST, ENOMEM, "out of memory") : 0;
        else if (f->type == WIRE_SHUT && f->stream < WIRE_STREAMS_MAX)
                end_source(p, f->stream);
        else if (f->type >= WIRE_STARTED && f->type <= WIRE_ENDED)
                r = take_answer(p, f, payload, why);
        else
                r = line_broken(why, "a frame that is none");
        if (r == 0)
                line_deliver(p);
        return r;
}

static int take_frame(struct line *l, const struct wire_frame *f, const char *payload, gb_error *why)
{
        if (!l->greeted) {
                if (f->type != WIRE_HELLO || f->size != sizeof(l->hello))
                        return line_broken(why, "its first word is not a greeting");
                memcpy(&l->hello, payload, sizeof(l->hello));
                if (l->hello.version != WIRE_VERSION)
                        return line_broken(why, "it speaks another version");
                l->greeted = true;
                pthread_cond_broadcast(&l->changed);
                return 0;
        }
        if (l->has_keys && f->tag != wire_tag(l->keys.from_agent, l->n_heard++, f, payload))
                return line_broken(why, "a frame that is not its own: code in the container has written to its streams");
        if (line_is_of_connections(f->type))
                return line_take_connection(l, f, payload, why);
        if (f->type == WIRE_CLEARED && l->clearing > 0 && (f->size == 0 || f->size == sizeof(l->clear_error))) {
                l->cleared = f->value;
                l->clear_error = (gb_error){0};
                if (f->size > 0)
                        line_take_error(&l->clear_error, payload);
                l->clearing--;
                pthread_cond_broadcast(&l->changed);
                return 0;
        }
        if (f->type != WIRE_USAGE)
                return take_of_program(l, f, payload, why);
        struct wire_usage usage;
        if (f->size != sizeof(usage))
                return line_broken(why, "numbers that are none");
        memcpy(&usage, payload, sizeof(usage));
        line_keep_usage(l, &usage);
        l->looking = false;
        return 0;
}

/* All whole frames of l->in. */
static int take_frames(struct line *l, gb_error *why)
{
        size_t at = 0;
        int r = 0;

        while (r == 0 && l->in.size - at >= sizeof(struct wire_frame)) {
                struct wire_frame f;
                memcpy(&f, l->in.data + at, sizeof(f));
                if (f.size > WIRE_DATA_MAX)
                        return line_broken(why, "a frame that is too long");
                if (l->in.size - at < sizeof(f) + f.size)
                        break;
                r = take_frame(l, &f, l->in.data + at + sizeof(f), why);
                at += sizeof(f) + f.size;
        }
        if (at > 0) {
                memmove(l->in.data, l->in.data + at, l->in.size - at);
                l->in.size -= at;
        }
        return r;
}

/* ---- frames of the engine ---- */

static void keep_last_words(struct line *l, const char *bytes, size_t size)
{
        size_t have = strlen(l->last_words), room = sizeof(l->last_words) - 1 - have, n = MIN(size, room);

        for (size_t i = 0; i < n; i++)
                l->last_words[have + i] = (char)(bytes[i] >= ' ' && bytes[i] < 127 ? bytes[i] : ' ');
        l->last_words[have + n] = '\0';
}

static int take_head(struct line *l, gb_error *why)
{
        const uint8_t *h = l->head;

        if (h[0] > ENGINE_STDERR || h[1] != 0 || h[2] != 0 || h[3] != 0)
                return error_set(why, GB_E_LOST, EPROTO, "the engine's stream is not one: the container was ended");
        l->left = (uint32_t)h[4] << 24 | (uint32_t)h[5] << 16 | (uint32_t)h[6] << 8 | h[7];
        l->is_error = h[0] != ENGINE_STDOUT;
        l->head_size = 0;
        return 0;
}

int line_take(struct line *l, const char *bytes, size_t size, gb_error *why)
{
        int r = 0;

        l->heard_usec = monotonic_usec();
        while (r == 0 && size > 0) {
                size_t n;
                if (l->left == 0) {
                        n = MIN(size, sizeof(l->head) - l->head_size);
                        memcpy(l->head + l->head_size, bytes, n);
                        l->head_size += n;
                        if (l->head_size == sizeof(l->head))
                                r = take_head(l, why);
                } else {
                        n = MIN(size, (size_t)l->left);
                        l->left -= (uint32_t)n;
                        if (l->is_error)
                                keep_last_words(l, bytes, n);
                        else if (buffer_add(&l->in, bytes, n) < 0)
                                r = error_set(why, GB_E_LOST, ENOMEM, "out of memory");
                        if (r == 0 && !l->is_error)
                                r = take_frames(l, why);
                }
                bytes += n;
                size -= n;
        }
        return r;
}
