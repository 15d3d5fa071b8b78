/* SPDX-License-Identifier: Apache-2.0
 *
 * Theory of operation. A request goes through the states
 *
 *   connecting -> sending -> head -> body -> done
 *
 * and each call of client_step() moves it as far as the socket lets it. An answer may begin before the request was sent
 * whole (a refusal of something large): then sending stops, and the connection is not used again. A connection that
 * is used again may have been closed by the server meanwhile: that shows before anything is sent, by a look whether it
 * is readable, and a new one is made. Once a request has left and no answer came, nobody knows whether it was carried
 * out: GB_E_LOST, and nothing is sent twice. */
#include "client/client.h"

#include "base/fd.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE_BYTES (64 * KIB)
#define AGENT "glovebox/" GLOVEBOX_VERSION

void client_init(struct client *c, const struct client_address *address, const char *token)
{
        *c = (struct client){.address = *address, .token = token, .fd = -1};
        buffer_init(&c->head, CLIENT_HEAD_BYTES_MAX);
        buffer_init(&c->body, CLIENT_BODY_BYTES_MAX);
        response_init(&c->response);
        c->response.stage = RESPONSE_DONE;
}

static void disconnect(struct client *c)
{
        c->fd = safe_close(c->fd);
        c->connecting = false;
        c->ended = false;
}

void client_done(struct client *c)
{
        disconnect(c);
        buffer_done(&c->head);
        buffer_done(&c->body);
        response_done(&c->response);
}

static int no_server(int errnum, gb_error *err)
{
        return error_set(err, GB_E_UNAVAILABLE, errnum, "no server answers there: %s", strerror(errnum));
}

int client_connect(struct client *c, gb_error *err)
{
        if (c->fd >= 0)
                return 0;
        _cleanup_close_ int fd = socket(c->address.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a socket: %s", strerror(errno));
        if (connect(fd, (const struct sockaddr *)&c->address.address, c->address.size) < 0) {
                if (errno != EINPROGRESS)
                        return no_server(errno == EAGAIN ? EBUSY : errno, err);
                c->connecting = true;
        }
        c->fd = TAKE_FD(fd);
        c->ended = false;
        c->fresh = true;
        return 0;
}

/* Whether the connection of the request before can serve another. */
static bool is_usable(const struct client *c)
{
        struct pollfd p = {.fd = c->fd, .events = POLLIN};

        if (c->fresh && c->head.size == 0)
                return true; /* nothing was ever sent */
        return c->response.stage == RESPONSE_DONE && c->sent_all && !c->response.closes && !c->ended && poll(&p, 1, 0) == 0;
}

static int write_head(struct client *c, const struct client_request *q)
{
        c->head.size = 0;
        int r = buffer_printf(&c->head, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: " AGENT "\r\nAccept: %s\r\n", q->method, q->target,
                              c->address.authority, q->accept ? q->accept : "application/json");
        if (r == 0 && c->token)
                r = buffer_printf(&c->head, "Authorization: Bearer %s\r\n", c->token);
        if (r == 0 && q->upgrade)
                r = buffer_printf(&c->head, "Connection: Upgrade\r\nUpgrade: %s\r\n", q->upgrade);
        if (r == 0 && q->headers)
                r = buffer_add_string(&c->head, q->headers);
        if (r == 0 && q->type)
                r = buffer_printf(&c->head, "Content-Type: %s\r\n", q->type);
        /* A request that has no body says so where one could be. */
        if (r == 0 && (q->type || strcmp(q->method, "GET") != 0))
                r = buffer_printf(&c->head, "Content-Length: %zu\r\n", q->body_size);
        return r < 0 ? r : buffer_add_string(&c->head, "\r\n");
}

int client_start(struct client *c, const struct client_request *request, gb_error *err)
{
        if (c->fd >= 0 && !is_usable(c))
                disconnect(c);
        c->fresh = c->fd >= 0 && c->fresh && c->head.size == 0;
        int r = client_connect(c, err);
        if (r < 0)
                return r;
        response_done(&c->response);
        response_init(&c->response);
        c->response.foreign = c->foreign;
        c->body.size = c->taken = 0;
        c->request = *request;
        c->request.headers = NULL; /* it is in the head, or nowhere */
        c->head_sent = c->body_sent = 0;
        c->sent_all = false;
        if (write_head(c, request) < 0)
                return error_set(err, GB_E_LIMIT, E2BIG, "the request is too long");
        return 0;
}

short client_events(const struct client *c)
{
        if (client_is_done(c) || c->fd < 0)
                return 0;
        return (short)(POLLIN | (c->connecting || !c->sent_all ? POLLOUT : 0));
}

/* The connection failed. */
static int fail(struct client *c, int errnum, gb_error *err)
{
        bool nothing_sent = c->head_sent == 0;

        disconnect(c);
        c->response.stage = RESPONSE_DONE;
        if (nothing_sent)
                return no_server(errnum, err);
        return error_set(err, GB_E_LOST, errnum, "the connection to the server was lost: %s", strerror(errnum));
}

static int finish_connecting(struct client *c, gb_error *err)
{
        int errnum = 0;
        socklen_t size = sizeof(errnum);
        struct pollfd p = {.fd = c->fd, .events = POLLOUT};

        if (poll(&p, 1, 0) <= 0)
                return 0;
        if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &errnum, &size) < 0)
                errnum = errno;
        if (errnum != 0)
                return fail(c, errnum, err);
        c->connecting = false;
        return 0;
}

/* The next piece of the request; 0: that was all. */
static ssize_t next_piece(struct client *c, char *buf, const char **ret)
{
        const struct client_request *q = &c->request;
        size_t left = q->body_size - c->body_sent;

        if (c->head_sent < c->head.size) {
                *ret = c->head.data + c->head_sent;
                return (ssize_t)(c->head.size - c->head_sent);
        }
        if (left == 0)
                return 0;
        if (q->body) {
                *ret = (const char *)q->body + c->body_sent;
                return (ssize_t)left;
        }
        ssize_t n = pread(q->body_fd, buf, MIN(left, (size_t)PIECE_BYTES), (off_t)c->body_sent);
        *ret = buf;
        return n > 0 ? n : n < 0 ? -errno : -ENODATA; /* it has become shorter than it was */
}

static int send_some(struct client *c, gb_error *err)
{
        char buf[PIECE_BYTES];
        const char *piece = NULL;

        for (;;) {
                ssize_t size = next_piece(c, buf, &piece);
                if (size < 0) {
                        disconnect(c);
                        c->response.stage = RESPONSE_DONE;
                        return error_set(err, GB_E_INTERNAL, (int)-size, "cannot read what is to be sent: %s", strerror((int)-size));
                }
                if (size == 0) {
                        c->sent_all = true;
                        return 0;
                }
                ssize_t n = send(c->fd, piece, (size_t)size, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
                        return 0;
                /* The server may have said why before it closed: reading decides. */
                if (n < 0 && (errno == EPIPE || errno == ECONNRESET) && c->head_sent > 0) {
                        c->sent_all = true;
                        c->ended = true;
                        return 0;
                }
                if (n < 0)
                        return fail(c, errno, err);
                *(c->head_sent < c->head.size ? &c->head_sent : &c->body_sent) += (size_t)n;
        }
}

static int not_understood(struct client *c, int errnum, gb_error *err)
{
        const char *why = c->response.why;

        disconnect(c);
        c->response.stage = RESPONSE_DONE;
        if (errnum == EBADMSG)
                return error_set(err, GB_E_LOST, EBADMSG, "what answers there is no glovebox server: %s", why);
        return error_set(err, errnum == EFBIG ? GB_E_LIMIT : GB_E_INTERNAL, errnum,
                         errnum == EFBIG ? "the answer is larger than %llu MB" : "out of memory", CLIENT_BODY_BYTES_MAX / MIB);
}

static int take_bytes(struct client *c, const char *bytes, size_t size, gb_error *err)
{
        while (size > 0 && !client_is_done(c)) {
                long n = response_take(&c->response, bytes, size, &c->body);
                if (n < 0)
                        return not_understood(c, (int)-n, err);
                bytes += n;
                size -= (size_t)n;
                /* It does not want the rest of the request: that is not sent, and the connection is of no more use. One that is
                 * not ours may tell of its progress before it has read everything. */
                if (client_has_head(c) && !c->sent_all && (!c->foreign || c->response.status >= 300)) {
                        c->sent_all = true;
                        c->response.closes = true;
                }
        }
        if (size > 0) {
                c->response.why = "it goes on after its end";
                return not_understood(c, EBADMSG, err);
        }
        return 0;
}

static int receive_some(struct client *c, gb_error *err)
{
        char buf[PIECE_BYTES];

        while (!client_is_done(c)) {
                ssize_t n = recv(c->fd, buf, sizeof(buf), MSG_DONTWAIT);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
                        return c->ended ? fail(c, ECONNRESET, err) : 0;
                if (n < 0)
                        return fail(c, errno, err);
                if (n == 0)
                        return response_end(&c->response) ? 0 : fail(c, ECONNRESET, err);
                int r = take_bytes(c, buf, (size_t)n, err);
                if (r < 0)
                        return r;
                /* A stream's reader has something to do first. */
                if (c->body.size - c->taken >= PIECE_BYTES)
                        return 0;
        }
        return 0;
}

int client_step(struct client *c, gb_error *err)
{
        int r = 0;

        if (client_is_done(c))
                return 0;
        if (c->connecting)
                r = finish_connecting(c, err);
        if (r < 0 || c->connecting)
                return r;
        if (!c->sent_all)
                r = send_some(c, err);
        if (r == 0)
                r = receive_some(c, err);
        if (r == 0 && client_is_done(c) && c->response.closes)
                disconnect(c);
        return r;
}

static bool is_reached(const struct client *c, enum client_until until, size_t before)
{
        switch (until) {
        case CLIENT_HEAD:
                return client_has_head(c);
        case CLIENT_MORE:
                return client_is_done(c) || c->body.size > before;
        case CLIENT_WHOLE:
                return client_is_done(c);
        case CLIENT_SENDS:
                return c->sent_all || c->body_sent > before || client_is_done(c);
        }
        return true;
}

/* Milliseconds until then; -1: for ever. */
static int left_msec(uint64_t deadline_usec)
{
        uint64_t now = monotonic_usec();

        if (deadline_usec == 0)
                return -1;
        return now >= deadline_usec ? 0 : (int)MIN((deadline_usec - now + 999) / 1000, (uint64_t)INT32_MAX);
}

int client_wait(struct client *c, enum client_until until, uint64_t deadline_usec, int cancel_fd, gb_error *err)
{
        size_t before = until == CLIENT_SENDS ? c->body_sent : c->body.size;

        for (;;) {
                int r = client_step(c, err);
                if (r < 0)
                        return r;
                if (is_reached(c, until, before))
                        return 0;

                struct pollfd p[] = {{c->fd, client_events(c), 0}, {cancel_fd, POLLIN, 0}};
                int timeout = left_msec(deadline_usec);
                /* Of a stream nobody knows when there is more. */
                bool may_be_slow = c->on_slow && until != CLIENT_MORE && (timeout < 0 || timeout > CLIENT_SLOW_MSEC);
                int n = poll(p, ARRAY_SIZE(p), may_be_slow ? CLIENT_SLOW_MSEC : timeout);
                if (n < 0 && errno != EINTR)
                        return error_set(err, GB_E_INTERNAL, errno, "cannot wait for the server: %s", strerror(errno));
                if (n > 0 && p[1].revents)
                        return -ECANCELED;
                if (n == 0 && may_be_slow) {
                        c->on_slow();
                        c->on_slow = NULL;
                } else if (n == 0 && timeout >= 0) {
                        disconnect(c);
                        c->response.stage = RESPONSE_DONE;
                        return error_set(err, GB_E_LOST, ETIMEDOUT, "the server does not answer");
                }
        }
}

void client_take(struct client *c, size_t size)
{
        c->taken += size;
        if (c->taken < c->body.size && c->taken < PIECE_BYTES)
                return; /* moving the rest at every line would take longer than reading it */
        c->body.size -= c->taken;
        if (c->body.data)
                memmove(c->body.data, c->body.data + c->taken, c->body.size);
        c->taken = 0;
}

int client_add_encoded(struct buffer *out, const char *text, bool keep_slash)
{
        static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
        int r = 0;

        for (; *text && r == 0; text++)
                if (strchr(plain, *text) || (keep_slash && *text == '/'))
                        r = buffer_add(out, text, 1);
                else
                        r = buffer_printf(out, "%%%02X", (unsigned)(unsigned char)*text);
        return r;
}
