/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams of a program, with their windows.
 *
 * A source is read only while its window and our own buffer have room. What a control channel says comes after the output that was written before
 * it: its bytes are read first, then the pipes hold all of that output and perhaps more. That much is sent, then the bytes. When the window of the
 * output does not have the room they wait, and nothing more is read from the control channel.
 *
 * A sink is written to as long as the program reads. What it does not take waits here, at most a window of it. */
#include "agent/link.h"
#include "agent/program.h"
#include "base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define CREDIT_BYTES (WIRE_WINDOW / 4) /* credit is given for so much at a time */

static struct wire_frame frame_of(uint16_t type, const struct program *p, uint32_t stream)
{
        return (struct wire_frame){.type = type, .program = p->number, .stream = (uint16_t)stream};
}

static void say(uint16_t type, const struct program *p, uint32_t stream, uint32_t value)
{
        struct wire_frame frame = frame_of(type, p, stream);

        frame.value = value;
        link_send(&frame, NULL);
}

/* ---- sources ---- */

void source_open(struct program *p, uint32_t stream, int fd)
{
        p->sources[stream] = (struct source){.fd = fd, .window = WIRE_WINDOW};
}

void source_close(struct source *s)
{
        s->fd = safe_close(s->fd);
        s->owed = 0;
}

bool source_is_wanted(const struct source *s)
{
        return s->fd >= 0 && s->window > 0 && link_has_room();
}

void source_owe(struct source *s)
{
        int held = 0;

        if (s->fd < 0)
                return;
        s->owed = ioctl(s->fd, FIONREAD, &held) < 0 ? WIRE_WINDOW : (uint64_t)held;
}

size_t source_pull(struct program *p, uint32_t stream, size_t max)
{
        struct source *s = &p->sources[stream];
        struct wire_frame frame = frame_of(WIRE_DATA, p, stream);
        ssize_t n;

        if (!source_is_wanted(s))
                return 0;
        max = MIN(max, (size_t)WIRE_DATA_MAX);
        max = MIN(max, (size_t)s->window);
        while ((n = read(s->fd, link_payload(), max)) < 0 && errno == EINTR)
                ;
        if (n < 0 && errno == EAGAIN) {
                s->owed = 0; /* somebody else has read it */
                return 0;
        }
        if (n <= 0) {
                source_close(s);
                say(WIRE_EOF, p, stream, 0);
                return 0;
        }
        frame.size = (uint32_t)n;
        link_commit(&frame);
        s->window -= (uint32_t)n;
        s->owed -= MIN(s->owed, (uint64_t)n);
        return (size_t)n;
}

static bool pull_owed_of(struct program *p, uint32_t stream)
{
        struct source *s = &p->sources[stream];

        while (s->fd >= 0 && s->owed > 0)
                if (source_pull(p, stream, (size_t)MIN(s->owed, (uint64_t)WIRE_DATA_MAX)) == 0)
                        break;
        return s->fd < 0 || s->owed == 0;
}

bool source_pull_owed(struct program *p)
{
        bool out = pull_owed_of(p, WIRE_STDOUT), err = pull_owed_of(p, WIRE_STDERR);

        return out && err;
}

static void send_control(struct program *p, const char *bytes, size_t size)
{
        struct wire_frame frame = frame_of(WIRE_DATA, p, WIRE_CONTROL);

        program_send_usage();
        frame.size = (uint32_t)size;
        link_send(&frame, bytes);
        p->sources[WIRE_CONTROL].window -= (uint32_t)size;
}

void source_send_held(struct program *p)
{
        if (!p->held || !source_pull_owed(p) || !link_has_room())
                return;
        if (p->sources[WIRE_CONTROL].fd >= 0)
                send_control(p, p->held, p->held_size);
        free(p->held);
        p->held = NULL;
}

void source_pull_control(struct program *p)
{
        static char bytes[WIRE_DATA_MAX];
        struct source *s = &p->sources[WIRE_CONTROL];
        ssize_t n;

        if (p->held || !source_is_wanted(s))
                return;
        while ((n = recv(s->fd, bytes, MIN(sizeof(bytes), (size_t)s->window), MSG_DONTWAIT)) < 0 && errno == EINTR)
                ;
        if (n < 0 && errno == EAGAIN) {
                s->owed = 0;
                return;
        }
        source_owe(&p->sources[WIRE_STDOUT]);
        source_owe(&p->sources[WIRE_STDERR]);
        if (n <= 0) {
                source_pull_owed(p);
                source_close(s);
                say(WIRE_EOF, p, WIRE_CONTROL, 0);
                return;
        }
        s->owed -= MIN(s->owed, (uint64_t)n);
        if (source_pull_owed(p) && link_has_room()) {
                send_control(p, bytes, (size_t)n);
                return;
        }
        p->held = malloc((size_t)n);
        if (!p->held) { /* its channel has lost something: it is of no use any more */
                source_close(s);
                say(WIRE_EOF, p, WIRE_CONTROL, 0);
                return;
        }
        memcpy(p->held, bytes, (size_t)n);
        p->held_size = (size_t)n;
}

/* ---- sinks ---- */

void sink_open(struct program *p, uint32_t stream, int fd)
{
        p->sinks[stream] = (struct sink){.fd = fd, .used = true};
}

void sink_close(struct sink *s)
{
        while (s->n_passes > 0)
                safe_close(s->passes[--s->n_passes].fd);
        s->fd = safe_close(s->fd);
        free(s->data);
        s->data = NULL;
        s->start = s->size = 0;
}

/* Nobody reads it. */
void sink_shut(struct program *p, uint32_t stream)
{
        struct sink *s = &p->sinks[stream];

        if (s->shut)
                return;
        sink_close(s);
        s->shut = true;
        say(WIRE_SHUT, p, stream, 0);
}

/* All is written and nothing more comes. */
static void conclude(struct program *p, uint32_t stream)
{
        struct sink *s = &p->sinks[stream];

        if (stream == WIRE_CONTROL)
                shutdown(s->fd, SHUT_WR);
        sink_close(s);
        s->used = stream < WIRE_PIPE_FIRST; /* the number of a pipe is free again */
}

static ssize_t write_some(struct sink *s, uint32_t stream, const char *bytes, size_t size, int pass)
{
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = {0};
        struct iovec iov = {(void *)(uintptr_t)bytes, size};
        struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
        ssize_t n;

        if (pass >= 0) {
                message.msg_control = &control;
                message.msg_controllen = sizeof(control);
                control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
                memcpy(CMSG_DATA(&control.header), &pass, sizeof(int));
        }
        do
                n = stream == WIRE_CONTROL ? sendmsg(s->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) : write(s->fd, bytes, size);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : n;
}

/* Writes bytes that stand at the front of the stream, up to where the next descriptor goes along. Returns how many, or a negative errno. */
static ssize_t write_front(struct sink *s, uint32_t stream, const char *bytes, size_t size)
{
        bool passing = s->n_passes > 0 && s->passes[0].at == 0;
        size_t next = passing ? 1 : 0;
        size_t limit = s->n_passes > next ? MIN(size, s->passes[next].at) : size;

        ssize_t n = write_some(s, stream, bytes, limit, passing ? s->passes[0].fd : -1);
        if (n <= 0)
                return n;
        if (passing) {
                safe_close(s->passes[0].fd);
                memmove(s->passes, s->passes + 1, --s->n_passes * sizeof(s->passes[0]));
        }
        for (size_t i = 0; i < s->n_passes; i++)
                s->passes[i].at -= (size_t)n;
        s->written += (uint32_t)n;
        return n;
}

static void give_credit(struct program *p, uint32_t stream)
{
        struct sink *s = &p->sinks[stream];

        if (s->written < CREDIT_BYTES || s->eof)
                return;
        say(WIRE_CREDIT, p, stream, s->written);
        s->taken -= s->written;
        s->written = 0;
}

void sink_flush(struct program *p, uint32_t stream)
{
        struct sink *s = &p->sinks[stream];

        while (s->fd >= 0 && s->size > 0) {
                ssize_t n = write_front(s, stream, s->data + s->start, s->size);
                if (n == -EAGAIN)
                        break;
                if (n < 0) {
                        sink_shut(p, stream);
                        return;
                }
                s->start += (size_t)n;
                s->size -= (size_t)n;
        }
        give_credit(p, stream);
        if (s->size > 0)
                return;
        free(s->data);
        s->data = NULL;
        s->start = 0;
        if (s->eof && s->fd >= 0)
                conclude(p, stream);
}

static int keep(struct sink *s, const char *bytes, size_t size)
{
        if (!s->data && !(s->data = malloc(WIRE_WINDOW)))
                return -ENOMEM;
        if (s->start + s->size + size > WIRE_WINDOW) {
                memmove(s->data, s->data + s->start, s->size);
                s->start = 0;
        }
        memcpy(s->data + s->start + s->size, bytes, size);
        s->size += size;
        return 0;
}

int sink_put(struct program *p, uint32_t stream, const char *bytes, size_t size, int pass)
{
        struct sink *s = &p->sinks[stream];

        if (s->shut) {
                safe_close(pass);
                return 0;
        }
        if (size > WIRE_WINDOW - s->taken) {
                safe_close(pass);
                return -EPROTO;
        }
        s->taken += (uint32_t)size;
        if (pass >= 0) {
                s->passes[s->n_passes].at = s->size; /* there is one for each stream that can be passed */
                s->passes[s->n_passes++].fd = pass;
        }
        while (s->size == 0 && size > 0) {
                ssize_t n = write_front(s, stream, bytes, size);
                if (n == -EAGAIN)
                        break;
                if (n < 0) {
                        sink_shut(p, stream);
                        return 0;
                }
                bytes += n;
                size -= (size_t)n;
        }
        give_credit(p, stream);
        return size > 0 ? keep(s, bytes, size) : 0;
}

void sink_end(struct program *p, uint32_t stream)
{
        struct sink *s = &p->sinks[stream];

        s->eof = true;
        if (s->shut)
                s->used = stream < WIRE_PIPE_FIRST;
        else
                sink_flush(p, stream);
}
