/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/files_wire.h"

#include "base/fd.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define FLUSH_PERIOD_USEC 1000000ULL /* what was written is held back no longer, while more is written */

int files_stream_new(int fd, uint64_t quiet_usec, struct files_stream **ret)
{
        struct files_stream *s = malloc(sizeof(*s));

        if (!s) {
                safe_close(fd);
                return -ENOMEM;
        }
        s->fd = fd;
        s->quiet_usec = quiet_usec;
        s->in_at = s->in_end = s->out_end = 0;
        s->flushed_usec = monotonic_usec();
        *ret = s;
        return 0;
}

void files_stream_free(struct files_stream *s)
{
        if (!s)
                return;
        safe_close(s->fd);
        free(s);
}

static int wait_for(const struct files_stream *s, short events)
{
        uint64_t end = monotonic_usec() + s->quiet_usec;
        struct pollfd p = {s->fd, events, 0};

        for (;;) {
                uint64_t now = monotonic_usec();
                int left = s->quiet_usec == 0 ? -1 : end > now ? (int)((end - now) / 1000) + 1 : 0;
                int n = poll(&p, 1, left);
                if (n > 0)
                        return 0;
                if (n == 0)
                        return -ETIMEDOUT;
                if (errno != EINTR)
                        return -errno;
        }
}

/* Some bytes. */
static ssize_t take(struct files_stream *s, void *bytes, size_t size)
{
        for (;;) {
                ssize_t n = recv(s->fd, bytes, size, MSG_DONTWAIT);
                if (n > 0)
                        return n;
                if (n == 0)
                        return -EPIPE;
                if (errno == EINTR)
                        continue;
                if (errno != EAGAIN)
                        return errno == ECONNRESET ? -EPIPE : -errno;
                int r = wait_for(s, POLLIN);
                if (r < 0)
                        return r;
        }
}

int files_stream_read(struct files_stream *s, void *bytes, size_t size)
{
        char *to = bytes;

        while (size > 0) {
                if (s->in_at == s->in_end) {
                        bool direct = size >= sizeof(s->in);
                        ssize_t n = take(s, direct ? to : s->in, direct ? size : sizeof(s->in));
                        if (n < 0)
                                return (int)n;
                        if (direct) {
                                to += n;
                                size -= (size_t)n;
                                continue;
                        }
                        s->in_at = 0;
                        s->in_end = (size_t)n;
                }
                size_t n = MIN(size, s->in_end - s->in_at);
                memcpy(to, s->in + s->in_at, n);
                s->in_at += n;
                to += n;
                size -= n;
        }
        return 0;
}

static int give(struct files_stream *s, const char *bytes, size_t size)
{
        while (size > 0) {
                ssize_t n = send(s->fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
                if (n >= 0) {
                        bytes += n;
                        size -= (size_t)n;
                        continue;
                }
                if (errno == EINTR)
                        continue;
                if (errno != EAGAIN)
                        return errno == ECONNRESET ? -EPIPE : -errno;
                int r = wait_for(s, POLLOUT);
                if (r < 0)
                        return r;
        }
        return 0;
}

int files_stream_flush(struct files_stream *s)
{
        size_t n = s->out_end;

        s->out_end = 0;
        s->flushed_usec = monotonic_usec();
        return give(s, s->out, n);
}

int files_stream_write(struct files_stream *s, const void *bytes, size_t size)
{
        if (size > sizeof(s->out) - s->out_end || monotonic_usec() - s->flushed_usec > FLUSH_PERIOD_USEC) {
                int r = files_stream_flush(s);
                if (r < 0)
                        return r;
        }
        if (size > sizeof(s->out))
                return give(s, bytes, size);
        if (size > 0)
                memcpy(s->out + s->out_end, bytes, size);
        s->out_end += size;
        return 0;
}

bool files_stream_answers(const struct files_stream *s)
{
        struct pollfd p = {s->fd, POLLIN, 0};

        return s->in_at < s->in_end || poll(&p, 1, 0) > 0;
}

int files_stream_frame(struct files_stream *s, enum files_frame_type type, const void *head, size_t head_size, const void *tail, size_t tail_size)
{
        struct files_frame frame = {type, (uint32_t)(head_size + tail_size)};

        int r = files_stream_write(s, &frame, sizeof(frame));
        if (r == 0)
                r = files_stream_write(s, head, head_size);
        return r < 0 ? r : files_stream_write(s, tail, tail_size);
}
