/* SPDX-License-Identifier: Apache-2.0
 *
 * The container's way out. Code in it connects to a listener of the agent; each such connection comes over the line, is one end of a pair of sockets here, and the other
 * end is handed on to who decides what may be reached.
 *
 * Bytes that nobody takes wait in a queue of a window at most, and get no credit. A connection whose other end is closed says WIRE_CONNECTION_CLOSE; its number stays
 * taken until the agent has said that, too. */
#include "backend/docker/line.h"

#include "base/fd.h"
#include "base/message.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CREDIT_BYTES (WIRE_CONNECTION_WINDOW / 4) /* credit is given for so much at a time */

/* ---- listening ---- */

static int ask_to_listen(struct line *l, uint16_t port, gb_error *err)
{
        struct wire_frame frame = {.type = WIRE_LISTEN, .value = port};
        uint64_t until = monotonic_usec() + BUILD_TIMEOUT_USEC;

        l->listening = LISTEN_ASKED;
        l->waiting = true;
        if (!l->lost)
                (void)line_send(l, &frame, NULL);
        line_wake(l);
        while (l->listening == LISTEN_ASKED && !l->lost && line_wait_change(l, until))
                ;
        l->waiting = false;
        if (l->listening == LISTEN_DONE)
                return 0;
        if (l->listening == LISTEN_REFUSED || l->lost) {
                if (err)
                        *err = l->lost ? l->why : l->listen_error;
                return -EPIPE;
        }
        return error_set(err, GB_E_LOST, ETIMEDOUT, "the agent in the container did not listen within %llu s", BUILD_TIMEOUT_USEC / 1000000);
}

int line_listen(struct line *l, uint16_t port, gb_error *err)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a socket for the connections of a container: %s", strerror(errno));
        pthread_mutex_lock(&l->lock);
        l->handover = pair[0];
        l->listener = pair[1];
        int r = ask_to_listen(l, port, err);
        pthread_mutex_unlock(&l->lock);
        return r;
}

int line_take_listener(struct line *l, gb_error *err)
{
        pthread_mutex_lock(&l->lock);
        int fd = l->listening == LISTEN_DONE ? TAKE_FD(l->listener) : -1;
        pthread_mutex_unlock(&l->lock);
        return fd >= 0 ? fd : error_set(err, GB_E_INTERNAL, EBADF, "the container has no listener, or somebody has it already");
}

static int take_listening(struct line *l, const struct wire_frame *f, const char *payload, gb_error *why)
{
        bool done = f->value > 0 && f->value <= UINT16_MAX && f->size == 0, refused = f->value == 0 && f->size == sizeof(gb_error);

        if (l->listening != LISTEN_ASKED || (!done && !refused))
                return line_broken(why, "it listens out of turn");
        l->listening = done ? LISTEN_DONE : LISTEN_REFUSED;
        if (refused)
                line_take_error(&l->listen_error, payload);
        pthread_cond_broadcast(&l->changed);
        return 0;
}

/* ---- the end of one ---- */

static void say(const struct line_connection *c, uint16_t type, uint32_t value)
{
        struct wire_frame frame = {.type = type, .program = c->number, .value = value};

        (void)line_send(c->line, &frame, NULL);
}

static void connection_free(struct line_connection *c)
{
        c->line->connections[c->number] = NULL;
        safe_close(c->fd);
        buffer_done(&c->queue);
        free(c);
}

void line_end_connections(struct line *l)
{
        for (uint32_t i = 1; i <= WIRE_CONNECTIONS_MAX; i++)
                if (l->connections[i])
                        connection_free(l->connections[i]);
        l->handover = safe_close(l->handover);
}

static void connection_close(struct line_connection *c)
{
        c->fd = safe_close(c->fd);
        c->queue.size = c->queue_at = 0;
        if (!c->said_close)
                say(c, WIRE_CONNECTION_CLOSE, 0);
        c->said_close = true;
        if (c->got_close)
                connection_free(c);
}

/* ---- to the other end ---- */

static void give_credit(struct line_connection *c)
{
        if (c->delivered < CREDIT_BYTES || c->got_eof || c->got_close)
                return;
        say(c, WIRE_CONNECTION_CREDIT, c->delivered);
        c->uncredited -= c->delivered;
        c->delivered = 0;
}

/* Nobody takes them: they count as handed on, so that who sends them comes to an end. */
static void drop_queue(struct line_connection *c)
{
        c->delivered += (uint32_t)(c->queue.size - c->queue_at);
        c->queue.size = c->queue_at = 0;
}

/* Afterwards it may be gone. */
static void deliver(struct line_connection *c)
{
        while (!c->deaf && c->queue_at < c->queue.size) {
                ssize_t n = send(c->fd, c->queue.data + c->queue_at, c->queue.size - c->queue_at, MSG_DONTWAIT | MSG_NOSIGNAL);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        break;
                if (n < 0) {
                        c->deaf = true;
                        break;
                }
                c->queue_at += (size_t)n;
                c->delivered += (uint32_t)n;
        }
        if (c->deaf)
                drop_queue(c);
        give_credit(c);
        if (c->queue_at < c->queue.size)
                return;
        c->queue.size = c->queue_at = 0;
        if (c->got_close || (c->said_eof && (c->got_eof || c->deaf)))
                connection_close(c);
        else if (c->got_eof)
                (void)shutdown(c->fd, SHUT_WR);
}

/* ---- from the other end ---- */

short line_connection_events(const struct line_connection *c)
{
        bool may_read = !c->said_eof && !c->got_close && c->credit > 0 && !line_is_full(c->line);

        /* Only for who wants something: the end of one that wants nothing would be told again and again. */
        return c->fd < 0 ? 0 : (short)((may_read ? POLLIN : 0) | (c->queue_at < c->queue.size ? POLLOUT : 0));
}

/* Afterwards it may be gone. */
static void read_end(struct line_connection *c, bool failed)
{
        struct pollfd p = {c->fd, 0, 0};

        c->said_eof = true;
        say(c, WIRE_CONNECTION_EOF, 0);
        /* Closed, not only shut for writing: nobody is there for what still comes. */
        c->deaf = failed || (poll(&p, 1, 0) == 1 && p.revents & (POLLHUP | POLLERR));
        deliver(c);
}

static void read_some(struct line_connection *c, char *chunk)
{
        ssize_t n = recv(c->fd, chunk, MIN((size_t)c->credit, (size_t)WIRE_DATA_MAX), MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n <= 0) {
                read_end(c, n < 0);
                return;
        }
        struct wire_frame frame = {.type = WIRE_CONNECTION_DATA, .program = c->number, .size = (uint32_t)n};
        c->credit -= frame.size;
        (void)line_send(c->line, &frame, chunk);
}

void line_serve_connection(struct line *l, uint32_t number, char *chunk)
{
        if (l->connections[number] && line_connection_events(l->connections[number]) & POLLIN)
                read_some(l->connections[number], chunk);
        if (l->connections[number] && line_connection_events(l->connections[number]) & POLLOUT)
                deliver(l->connections[number]);
}

/* ---- frames of the agent ---- */

/* Our end, or -1: whoever is to take the other one does not. Nothing of the kernel's memory beyond the windows is held for it. */
static int hand_on(const struct line *l)
{
        const int size = WIRE_CONNECTION_WINDOW;
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return -1;
        _cleanup_close_ int ours = pair[0], theirs = pair[1];
        (void)setsockopt(ours, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
        (void)setsockopt(theirs, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
        return message_send_now(l->handover, "", 1, &theirs, 1) < 0 ? -1 : TAKE_FD(ours);
}

static int take_open(struct line *l, uint32_t number, gb_error *why)
{
        if (l->listening != LISTEN_DONE || l->connections[number])
                return line_broken(why, "a connection that is there already, or that nobody listens for");
        struct line_connection *c = calloc(1, sizeof(*c));
        if (!c)
                return error_set(why, GB_E_LOST, ENOMEM, "out of memory");
        *c = (struct line_connection){.line = l, .number = number, .credit = WIRE_CONNECTION_WINDOW, .fd = hand_on(l)};
        buffer_init(&c->queue, WIRE_CONNECTION_WINDOW);
        c->queue.secret = true;
        l->connections[number] = c;
        if (c->fd < 0)
                connection_close(c);
        return 0;
}

static int take_data(struct line_connection *c, const struct wire_frame *f, const char *payload, gb_error *why)
{
        if (c->got_eof || f->size == 0)
                return line_broken(why, "bytes after the end of a connection, or none");
        if (f->size > WIRE_CONNECTION_WINDOW - c->uncredited)
                return line_broken(why, "more bytes than the window of a connection");
        if (c->said_close)
                return 0;
        c->uncredited += f->size;
        if (c->queue_at > 0) {
                c->queue.size -= c->queue_at;
                memmove(c->queue.data, c->queue.data + c->queue_at, c->queue.size);
                c->queue_at = 0;
        }
        if (buffer_add(&c->queue, payload, f->size) < 0)
                return error_set(why, GB_E_LOST, ENOMEM, "out of memory for a connection of the container");
        deliver(c);
        return 0;
}

static int take_credit(struct line_connection *c, uint32_t value, gb_error *why)
{
        if (c->said_close)
                return 0;
        if (value > WIRE_CONNECTION_WINDOW - c->credit)
                return line_broken(why, "credit for more than the window of a connection");
        c->credit += value;
        return 0;
}

static int take_eof(struct line_connection *c, gb_error *why)
{
        if (c->got_eof)
                return line_broken(why, "a second end of a connection");
        c->got_eof = true;
        if (!c->said_close)
                deliver(c);
        return 0;
}

static int take_close(struct line_connection *c)
{
        c->got_close = true;
        if (c->said_close)
                connection_free(c);
        else
                deliver(c);
        return 0;
}

bool line_is_of_connections(uint16_t type)
{
        return type == WIRE_LISTENING || (type >= WIRE_CONNECTION_OPEN && type <= WIRE_CONNECTION_CLOSE);
}

int line_take_connection(struct line *l, const struct wire_frame *f, const char *payload, gb_error *why)
{
        if (f->type == WIRE_LISTENING)
                return take_listening(l, f, payload, why);
        if (f->program < 1 || f->program > WIRE_CONNECTIONS_MAX || (f->size > 0 && f->type != WIRE_CONNECTION_DATA))
                return line_broken(why, "a connection that is none");
        struct line_connection *c = l->connections[f->program];
        if (f->type == WIRE_CONNECTION_OPEN)
                return take_open(l, f->program, why);
        if (!c || c->got_close)
                return line_broken(why, "a connection that is none");
        switch (f->type) {
        case WIRE_CONNECTION_DATA:
                return take_data(c, f, payload, why);
        case WIRE_CONNECTION_EOF:
                return take_eof(c, why);
        case WIRE_CONNECTION_CREDIT:
                return take_credit(c, f->value, why);
        default:
                return take_close(c);
        }
}
