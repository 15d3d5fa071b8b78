/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection ends in one of three ways: both sides have said all that they had to say; the code's end is broken; or the host says WIRE_CONNECTION_CLOSE, and
 * the code has taken what came before that. Then its socket is closed and WIRE_CONNECTION_CLOSE is sent. Its number is used again when the host has said the same. */
#include "agent/connection.h"

#include "agent/link.h"
#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CREDIT_BYTES (WIRE_CONNECTION_WINDOW / 4) /* credit is given for so much at a time */
#define BACKLOG 128
#define ACCEPTS_MAX 16               /* in one turn of the loop */
#define ACCEPT_PAUSE_USEC 100000ULL  /* when the kernel has no descriptor or no memory for another one */

struct connection {
        int fd;
        bool used;                 /* its number is */
        bool said_eof, said_close; /* to the host */
        bool got_eof, got_close;   /* from it */
        uint32_t window;           /* that may be sent */
        uint32_t taken, written;   /* as in struct sink */
        char *data;                /* WIRE_CONNECTION_WINDOW bytes, while something waits */
        size_t start, size;
};

static struct connection connections[WIRE_CONNECTIONS_MAX + 1]; /* by number */
static int listener = -1;
static uint32_t last_number;  /* that was given away */
static uint64_t pause_usec;   /* until when nothing is accepted; 0: something is */

static uint32_t number_of(const struct connection *c)
{
        return (uint32_t)(c - connections);
}

static void say(uint16_t type, const struct connection *c, uint32_t value)
{
        struct wire_frame frame = {.type = type, .program = number_of(c), .value = value};

        link_send(&frame, NULL);
}

/* ---- the end ---- */

static void drop_data(struct connection *c)
{
        free(c->data);
        c->data = NULL;
        c->start = c->size = 0;
}

/* What lies unread in a socket that is closed makes the kernel take back what was written: an answer to somebody who was still sending would be lost. */
static void drop_unread(const struct connection *c)
{
        static char bytes[WIRE_CONNECTION_WINDOW];

        (void)shutdown(c->fd, SHUT_WR);
        for (int i = 0; i < 4 && recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0; i++)
                ;
}

static void close_connection(struct connection *c)
{
        if (c->fd >= 0)
                drop_unread(c);
        c->fd = safe_close(c->fd);
        drop_data(c);
        if (!c->said_close)
                say(WIRE_CONNECTION_CLOSE, c, 0);
        c->said_close = true;
        c->used = !c->got_close;
}

/* Nothing waits for the code: perhaps there was an end behind it. */
static void conclude(struct connection *c)
{
        if (c->got_close || (c->got_eof && c->said_eof))
                close_connection(c);
        else if (c->got_eof)
                (void)shutdown(c->fd, SHUT_WR);
}

/* ---- from the code ---- */

static bool is_wanted(const struct connection *c)
{
        return !c->said_eof && !c->got_close && c->window > 0 && link_has_room();
}

static void pull(struct connection *c)
{
        struct wire_frame frame = {.type = WIRE_CONNECTION_DATA, .program = number_of(c)};
        ssize_t n;

        if (!is_wanted(c))
                return;
        while ((n = recv(c->fd, link_payload(), MIN((size_t)c->window, (size_t)WIRE_DATA_MAX), MSG_DONTWAIT)) < 0 && errno == EINTR)
                ;
        if (n < 0 && errno == EAGAIN)
                return;
        if (n < 0) {
                close_connection(c);
                return;
        }
        if (n == 0) {
                c->said_eof = true;
                say(WIRE_CONNECTION_EOF, c, 0);
                if (c->size == 0)
                        conclude(c);
                return;
        }
        frame.size = (uint32_t)n;
        link_commit(&frame);
        c->window -= frame.size;
}

static void open_connection(int fd)
{
        const int on = 1;

        for (uint32_t i = 0; i < WIRE_CONNECTIONS_MAX; i++) {
                struct connection *c = &connections[++last_number];
                last_number %= WIRE_CONNECTIONS_MAX;
                if (c->used)
                        continue;
                (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
                *c = (struct connection){.fd = fd, .used = true, .window = WIRE_CONNECTION_WINDOW};
                say(WIRE_CONNECTION_OPEN, c, 0);
                return;
        }
        safe_close(fd); /* as many as there can be */
}

static void accept_some(void)
{
        for (int i = 0; i < ACCEPTS_MAX && link_can_answer(); i++) {
                int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
                if (fd >= 0) {
                        open_connection(fd);
                        continue;
                }
                /* Whom nobody can take waits, and keeps the listener readable. */
                if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                        pause_usec = monotonic_usec() + ACCEPT_PAUSE_USEC;
                if (errno != ECONNABORTED && errno != EINTR)
                        return;
        }
}

/* ---- to the code ---- */

static ssize_t write_some(const struct connection *c, const char *bytes, size_t size)
{
        ssize_t n;

        while ((n = send(c->fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL)) < 0 && errno == EINTR)
                ;
        return n < 0 ? -errno : n;
}

static void give_credit(struct connection *c)
{
        if (c->written < CREDIT_BYTES || c->got_eof || c->got_close)
                return;
        say(WIRE_CONNECTION_CREDIT, c, c->written);
        c->taken -= c->written;
        c->written = 0;
}

static void flush(struct connection *c)
{
        while (c->size > 0) {
                ssize_t n = write_some(c, c->data + c->start, c->size);
                if (n == -EAGAIN)
                        break;
                if (n < 0) {
                        close_connection(c);
                        return;
                }
                c->start += (size_t)n;
                c->size -= (size_t)n;
                c->written += (uint32_t)n;
        }
        give_credit(c);
        if (c->size > 0)
                return;
        drop_data(c);
        conclude(c);
}

static int keep(struct connection *c, const char *bytes, size_t size)
{
        if (!c->data && !(c->data = malloc(WIRE_CONNECTION_WINDOW)))
                return -ENOMEM;
        if (c->start + c->size + size > WIRE_CONNECTION_WINDOW) {
                memmove(c->data, c->data + c->start, c->size);
                c->start = 0;
        }
        memcpy(c->data + c->start + c->size, bytes, size);
        c->size += size;
        return 0;
}

static int put(struct connection *c, const char *bytes, size_t size)
{
        ssize_t n = 0;

        if (size == 0 || c->got_eof || size > WIRE_CONNECTION_WINDOW - c->taken)
                return -EPROTO;
        c->taken += (uint32_t)size;
        while (c->size == 0 && size > 0 && (n = write_some(c, bytes, size)) >= 0) {
                bytes += n;
                size -= (size_t)n;
                c->written += (uint32_t)n;
        }
        /* One that would get only a part of what was sent to it is of no use. */
        if ((n < 0 && n != -EAGAIN) || (size > 0 && keep(c, bytes, size) < 0))
                close_connection(c);
        else
                give_credit(c);
        return 0;
}

/* ---- what the host says ---- */

static void answer_listen(uint32_t port, const gb_error *error)
{
        struct wire_frame frame = {.type = WIRE_LISTENING, .value = port, .size = port > 0 ? 0 : sizeof(*error)};

        link_send(&frame, error);
}

/* No option that would let somebody else share the port. */
static int take_listen(const struct wire_frame *f)
{
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)f->value), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(at);
        gb_error error = {0};

        if (listener >= 0 || f->value > UINT16_MAX || f->size > 0)
                return -EPROTO;
        _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, BACKLOG) < 0 || getsockname(fd, (struct sockaddr *)&at, &size) < 0) {
                error_set(&error, GB_E_UNENFORCEABLE, errno, "cannot listen on port %u of the container's loopback: %s", f->value, strerror(errno));
                answer_listen(0, &error);
                return 0;
        }
        listener = TAKE_FD(fd);
        answer_listen(ntohs(at.sin_port), NULL);
        return 0;
}

static int take_credit(struct connection *c, uint32_t value)
{
        if (value > WIRE_CONNECTION_WINDOW - c->window)
                return -EPROTO;
        c->window += value;
        return 0;
}

static int take_eof(struct connection *c)
{
        if (c->got_eof)
                return -EPROTO;
        c->got_eof = true;
        if (c->size == 0)
                conclude(c);
        return 0;
}

static void take_close(struct connection *c)
{
        c->got_close = true;
        if (c->said_close)
                c->used = false;
        else if (c->size == 0)
                conclude(c);
}

bool connections_know(uint16_t type)
{
        return type == WIRE_LISTEN || (type >= WIRE_CONNECTION_DATA && type <= WIRE_CONNECTION_CLOSE);
}

int connections_take(const struct wire_frame *f, const char *payload)
{
        if (f->type == WIRE_LISTEN)
                return take_listen(f);
        if (f->program < 1 || f->program > WIRE_CONNECTIONS_MAX || (f->size > 0 && f->type != WIRE_CONNECTION_DATA))
                return -EPROTO;
        struct connection *c = &connections[f->program];
        if (!c->used || c->got_close)
                return -EPROTO;
        if (f->type == WIRE_CONNECTION_CLOSE) {
                take_close(c);
                return 0;
        }
        if (c->said_close)
                return 0; /* said before the host knew */
        if (f->type == WIRE_CONNECTION_DATA)
                return put(c, payload, f->size);
        return f->type == WIRE_CONNECTION_EOF ? take_eof(c) : take_credit(c, f->value);
}

/* ---- what is waited for ---- */

static uint32_t owners[CONNECTION_SLOTS_MAX]; /* 0: the listener */

/* Only who wants something: the end of one that wants nothing would be told again and again. */
size_t connections_fill(struct pollfd slots[static CONNECTION_SLOTS_MAX])
{
        static uint32_t first; /* all in turn */
        size_t n = 0;

        if (listener < 0 || !link_can_answer())
                return 0;
        if (pause_usec == 0) {
                owners[n] = 0;
                slots[n++] = (struct pollfd){listener, POLLIN, 0};
        }
        first = first % WIRE_CONNECTIONS_MAX + 1;
        for (uint32_t i = 0; i < WIRE_CONNECTIONS_MAX; i++) {
                uint32_t number = (first + i) % WIRE_CONNECTIONS_MAX + 1;
                const struct connection *c = &connections[number];
                if (!c->used || c->said_close)
                        continue;
                short events = (short)((is_wanted(c) ? POLLIN : 0) | (c->size > 0 ? POLLOUT : 0));
                if (events == 0)
                        continue;
                owners[n] = number;
                slots[n++] = (struct pollfd){c->fd, events, 0};
        }
        return n;
}

void connections_serve(const struct pollfd *slots, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                struct connection *c = &connections[owners[i]];
                if (!slots[i].revents || !link_can_answer())
                        continue;
                if (owners[i] == 0) {
                        accept_some();
                        continue;
                }
                if (c->used && !c->said_close && c->size > 0)
                        flush(c);
                if (c->used && !c->said_close && slots[i].revents & ~POLLOUT)
                        pull(c);
        }
}

int connections_tick(void)
{
        uint64_t now = monotonic_usec();

        if (pause_usec == 0)
                return -1;
        if (now >= pause_usec) {
                pause_usec = 0;
                return -1;
        }
        return (int)((pause_usec - now) / 1000 + 1);
}
