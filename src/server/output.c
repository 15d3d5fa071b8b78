/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes to a client. The thread that has the request sends directly as long as the socket takes it; the rest waits in
 * a buffer of at most OUTPUT_BYTES_MAX, which the loop empties. A writer that finds it full waits for half of it to be free, for at most
 * the time that the configuration gives stalled clients. */
#include "server/connection.h"

#include "base/fd.h"
#include "server/metrics.h"
#include "server/server.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Of all connections. */
static _Atomic size_t memory_bytes;

void output_free(struct connection *c)
{
        memory_bytes -= c->output_allocated;
        free(TAKE_PTR(c->output));
        c->output_start = c->output_end = c->output_allocated = 0;
}

void output_gone(struct connection *c)
{
        if (c->gone)
                return;
        c->gone = true;
        if (c->gone_fd >= 0)
                (void)!write(c->gone_fd, &(uint64_t){1}, sizeof(uint64_t));
}

void output_cut(struct connection *c)
{
        c->cut = true;
        output_gone(c);
        output_free(c);
        pthread_cond_broadcast(&c->room);
}

/* How much was sent; 0: none goes now; -EPIPE. */
static ssize_t send_plain(struct connection *c, const struct iovec *parts, size_t n_parts)
{
        struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = n_parts};
        ssize_t n;

        do
                n = sendmsg(c->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        if (n >= 0)
                return n;
        return errno == EAGAIN || errno == ENOBUFS ? 0 : -EPIPE;
}

static ssize_t send_tls(struct connection *c, const void *bytes, size_t size)
{
        ERR_clear_error();
        int n = SSL_write(c->ssl, bytes, (int)MIN(size, (size_t)INT_MAX));
        if (n > 0)
                return n;
        int why = SSL_get_error(c->ssl, n);
        return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? 0 : -EPIPE;
}

int output_flush(struct connection *c)
{
        while (output_waits(c)) {
                struct iovec part = {c->output + c->output_start, c->output_end - c->output_start};
                ssize_t n = c->ssl ? send_tls(c, part.iov_base, part.iov_len) : send_plain(c, &part, 1);
                if (n < 0) {
                        output_cut(c);
                        return -EPIPE;
                }
                if (n == 0)
                        break;
                c->output_start += (size_t)n;
                c->since_usec = monotonic_usec();
        }
        if (!output_waits(c))
                output_free(c);
        if (c->output_end - c->output_start <= OUTPUT_BYTES_MAX / 2)
                pthread_cond_signal(&c->room);
        return 0;
}

/* Adds what fits; how much that was, or -ENOMEM. */
static ssize_t output_add(struct connection *c, const char *bytes, size_t size)
{
        size_t waits = c->output_end - c->output_start, n = MIN(size, OUTPUT_BYTES_MAX - waits);

        if (c->output_end + n > c->output_allocated && c->output_start > 0) {
                memmove(c->output, c->output + c->output_start, waits);
                c->output_start = 0;
                c->output_end = waits;
        }
        if (c->output_end + n > c->output_allocated) {
                size_t twice = MIN(2 * c->output_allocated + 4096, (size_t)OUTPUT_BYTES_MAX), grown = MAX(twice, c->output_end + n);
                if (memory_bytes + grown > OUTPUTS_MEMORY_MAX)
                        return -ENOMEM;
                char *output = realloc(c->output, grown);
                if (!output)
                        return -ENOMEM;
                c->output = output;
                memory_bytes += grown - c->output_allocated;
                c->output_allocated = grown;
        }
        memcpy(c->output + c->output_end, bytes, n);
        c->output_end += n;
        return (ssize_t)n;
}

/* Until half of the buffer is free. The loop itself never waits: its own answers are smaller than the buffer. */
static int wait_for_room(struct connection *c)
{
        uint64_t until_usec = monotonic_usec() + c->loop->server->config.stalled_usec;
        struct timespec until = {.tv_sec = (time_t)(until_usec / 1000000), .tv_nsec = (long)(until_usec % 1000000) * 1000};

        if (pthread_equal(pthread_self(), c->loop->thread))
                return -EPIPE;
        while (!c->cut && c->output_end - c->output_start > OUTPUT_BYTES_MAX / 2)
                if (pthread_cond_timedwait(&c->room, &c->lock, &until) == ETIMEDOUT)
                        return -EPIPE;
        return c->cut ? -EPIPE : 0;
}

static int write_part(struct connection *c, const char *bytes, size_t size)
{
        while (size > 0) {
                if (!output_waits(c))
                        c->since_usec = monotonic_usec();
                ssize_t n = output_add(c, bytes, size);
                if (n < 0)
                        return -EPIPE;
                bytes += n;
                size -= (size_t)n;
                if (size == 0)
                        break;
                int r = output_flush(c);
                if (r == 0 && output_waits(c)) {
                        connection_post(c);
                        r = wait_for_room(c);
                }
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Plain sockets: straight from the caller's memory. TLS: through the buffer, so that a small answer is one record. */
static int write_parts(struct connection *c, const struct iovec *parts, size_t n_parts)
{
        size_t skip = 0;
        int r = 0;

        if (c->cut)
                return -EPIPE;
        if (!c->ssl && !output_waits(c)) {
                ssize_t n = send_plain(c, parts, n_parts);
                if (n < 0)
                        return -EPIPE;
                skip = (size_t)n;
        }
        for (size_t i = 0; i < n_parts && r == 0; i++) {
                size_t n = MIN(skip, parts[i].iov_len);
                skip -= n;
                if (n < parts[i].iov_len) /* an empty one may be nowhere */
                        r = write_part(c, (const char *)parts[i].iov_base + n, parts[i].iov_len - n);
        }
        if (r == 0 && c->ssl)
                r = output_flush(c);
        if (r == 0 && output_waits(c))
                connection_post(c);
        return r;
}

int connection_write(struct connection *c, const struct iovec *parts, size_t n_parts)
{
        size_t size = 0;

        for (size_t i = 0; i < n_parts; i++)
                size += parts[i].iov_len;
        pthread_mutex_lock(&c->lock);
        int r = write_parts(c, parts, n_parts);
        if (r < 0 && !c->cut)
                output_cut(c);
        pthread_mutex_unlock(&c->lock);
        if (r == 0)
                metrics_add(c->loop->server->metrics, METRICS_BYTES_OUT, (int64_t)size);
        return r;
}

void connection_cut(struct connection *c)
{
        pthread_mutex_lock(&c->lock);
        output_cut(c);
        pthread_mutex_unlock(&c->lock);
}

bool connection_is_gone(struct connection *c)
{
        pthread_mutex_lock(&c->lock);
        bool gone = c->gone;
        pthread_mutex_unlock(&c->lock);
        return gone;
}

int connection_gone_fd(struct connection *c)
{
        pthread_mutex_lock(&c->lock);
        if (c->gone_fd < 0) {
                c->gone_fd = eventfd(c->gone, EFD_CLOEXEC | EFD_NONBLOCK);
        }
        int fd = c->gone_fd;
        pthread_mutex_unlock(&c->lock);
        return fd;
}
