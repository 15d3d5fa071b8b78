/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections, in the loop's thread.
 *
 *   HANDSHAKE -> IDLE <-> HEAD -> BODY -> WORKING -> FLUSHING -> IDLE, or LINGERING and the end
 *
 * A request that comes in one piece and whose answer goes in one piece costs a read, a wake-up of a worker, and a write: the worker itself makes
 * the connection IDLE again, the loop need not be told. It is told (connection_post) when something waits to be sent, when bytes of the next
 * request came meanwhile, or when the connection ends.
 *
 * Deadlines: each state has one (deadline()). The timer is lazy: it is set when a state begins that may end sooner than the
 * timer would fire, and when it fires too early it is set again. It never fires later than the time for idle connections from now, so
 * that a worker that makes one IDLE has no need of it.
 *
 * An idle connection has no buffers. */
#include "server/connection.h"

#include "base/fd.h"
#include "server/body.h"
#include "server/dispatch.h"
#include "server/gate.h"
#include "server/metrics.h"
#include "server/server.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void on_read(evutil_socket_t fd, short what, void *data);
static void on_write(evutil_socket_t fd, short what, void *data);
static void on_timer(evutil_socket_t fd, short what, void *data);
static void input(struct connection *c, const char *bytes, size_t size);

static const struct server_config *config_of(const struct connection *c)
{
        return &c->loop->server->config;
}

static enum connection_state state_of(struct connection *c)
{
        pthread_mutex_lock(&c->lock);
        enum connection_state state = c->state;
        pthread_mutex_unlock(&c->lock);
        return state;
}

static void enter(struct connection *c, enum connection_state state)
{
        pthread_mutex_lock(&c->lock);
        c->state = state;
        c->since_usec = monotonic_usec();
        pthread_mutex_unlock(&c->lock);
}

/* ---- timers ---- */

/* Under the lock. UINT64_MAX: none. */
static uint64_t deadline(const struct connection *c)
{
        const struct server_config *config = config_of(c);

        switch (c->state) {
        case CONNECTION_HANDSHAKE:
        case CONNECTION_HEAD:
                return c->since_usec + config->header_usec;
        case CONNECTION_IDLE:
                return c->since_usec + config->keep_alive_usec;
        case CONNECTION_BODY:
                return MIN(c->since_usec + config->body_usec, c->window_usec + BODY_WINDOW_USEC);
        case CONNECTION_WORKING:
        case CONNECTION_FLUSHING:
                return output_waits(c) ? c->since_usec + config->stalled_usec : UINT64_MAX;
        case CONNECTION_LINGERING:
                return c->since_usec + LINGER_USEC;
        }
        return UINT64_MAX;
}

static void arm(struct connection *c)
{
        uint64_t now = monotonic_usec();

        pthread_mutex_lock(&c->lock);
        uint64_t at = deadline(c);
        pthread_mutex_unlock(&c->lock);
        at = MIN(at, now + config_of(c)->keep_alive_usec);
        if (c->armed_usec && c->armed_usec <= at)
                return;
        uint64_t after = at > now ? at - now : 0;
        struct timeval tv = {.tv_sec = (time_t)(after / 1000000), .tv_usec = (suseconds_t)(after % 1000000)};
        c->armed_usec = at;
        evtimer_add(&c->timer, &tv);
}

static void too_slow(struct connection *c)
{
        gb_error err = {0};

        error_set(&err, GB_E_PROTOCOL, ETIMEDOUT, "the request did not come in time");
        dispatch_bad(c, 408, &err);
}

/* Of a body: whether enough came since the last look; then another one begins. */
static bool window_passed(struct connection *c, uint64_t now)
{
        if (now >= c->since_usec + config_of(c)->body_usec || c->parser.body_bytes - c->window_bytes < BODY_WINDOW_BYTES)
                return false;
        c->window_usec = now;
        c->window_bytes = c->parser.body_bytes;
        return true;
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
        struct connection *c = data;
        uint64_t now = monotonic_usec();

        c->armed_usec = 0;
        pthread_mutex_lock(&c->lock);
        bool over = deadline(c) <= now;
        enum connection_state state = c->state;
        /* A client that takes nothing of its answer; a worker that still writes it hears of that. */
        if (over && (state == CONNECTION_WORKING || state == CONNECTION_FLUSHING))
                output_cut(c);
        pthread_mutex_unlock(&c->lock);
        if (!over || state == CONNECTION_WORKING || (state == CONNECTION_BODY && window_passed(c, now)))
                arm(c);
        else if (state == CONNECTION_HEAD || state == CONNECTION_BODY)
                too_slow(c);
        else
                connection_close(c);
}

/* ---- its life ---- */

/* What heads hold that do not come to their end: many slow clients together. False: it is too much. */
static bool count_head(struct connection *c)
{
        size_t bytes = c->parser.message ? c->parser.message->allocated + sizeof(*c->parser.message) : 0;

        c->loop->head_bytes += bytes - c->head_bytes;
        c->head_bytes = bytes;
        return c->loop->head_bytes <= HEADS_MEMORY_MAX;
}

static void touch(struct connection *c)
{
        struct loop *l = c->loop;

        if (l->newest == c)
                return;
        if (c->newer) {
                *(c->older ? &c->older->newer : &l->oldest) = c->newer;
                c->newer->older = c->older;
        }
        c->newer = NULL;
        c->older = l->newest;
        *(l->newest ? &l->newest->newer : &l->oldest) = c;
        l->newest = c;
}

static void forget(struct connection *c)
{
        struct loop *l = c->loop;

        *(c->older ? &c->older->newer : &l->oldest) = c->newer;
        *(c->newer ? &c->newer->older : &l->newest) = c->older;
        pthread_mutex_lock(&l->lock);
        for (struct connection **p = &l->posted; *p; p = &(*p)->next_posted)
                if (*p == c) {
                        *p = c->next_posted;
                        break;
                }
        pthread_mutex_unlock(&l->lock);
}

static void set_reading(struct connection *c, bool on)
{
        if (on == c->reading)
                return;
        if (!on)
                event_del(&c->read_event);
        else if (event_add(&c->read_event, NULL) < 0) /* no memory */
                on = false;
        c->reading = on;
}

static void set_writing(struct connection *c, bool on)
{
        if (on == c->writing)
                return;
        if (on && !c->write_event)
                c->write_event = event_new(c->loop->base, c->fd, EV_WRITE | EV_PERSIST, on_write, c);
        if (!c->write_event)
                return;
        c->writing = on;
        if (on)
                event_add(c->write_event, NULL);
        else
                event_del(c->write_event);
}

static void remember_peer(struct connection *c, const struct sockaddr_storage *peer)
{
        if (peer->ss_family == AF_INET6) {
                c->peer = ((const struct sockaddr_in6 *)peer)->sin6_addr;
        } else if (peer->ss_family == AF_INET) {
                c->peer.s6_addr[10] = c->peer.s6_addr[11] = 0xff;
                memcpy(&c->peer.s6_addr[12], &((const struct sockaddr_in *)peer)->sin_addr, 4);
        }
}

void connection_new(struct loop_listener *listener, int fd, const struct sockaddr_storage *peer)
{
        struct loop *l = listener->loop;
        struct connection *c = calloc(1, sizeof(*c));
        pthread_condattr_t condition;

        if (!c) {
                safe_close(fd);
                return;
        }
        c->loop = l;
        c->listener = listener;
        c->fd = fd;
        c->gone_fd = -1;
        c->state = CONNECTION_IDLE;
        c->since_usec = monotonic_usec();
        remember_peer(c, peer);
        buffer_init(&c->pending, READ_BYTES);
        c->pending.secret = true;
        http_parser_init(&c->parser);
        pthread_mutex_init(&c->lock, NULL);
        pthread_condattr_init(&condition);
        pthread_condattr_setclock(&condition, CLOCK_MONOTONIC);
        pthread_cond_init(&c->room, &condition);
        pthread_condattr_destroy(&condition);
        event_assign(&c->read_event, l->base, fd, EV_READ | EV_PERSIST, on_read, c);
        evtimer_assign(&c->timer, l->base, on_timer, c);
        touch(c);
        l->n_connections++;
        metrics_add(l->server->metrics, METRICS_CONNECTIONS, 1);
        if (listener->tls) {
                c->ssl = SSL_new(listener->tls);
                if (!c->ssl || SSL_set_fd(c->ssl, fd) != 1) {
                        connection_free(c);
                        return;
                }
                SSL_set_accept_state(c->ssl);
                c->state = CONNECTION_HANDSHAKE;
        }
        set_reading(c, true);
        if (c->reading)
                arm(c);
        else
                connection_free(c);
}

void connection_free(struct connection *c)
{
        struct loop *l = c->loop;

        forget(c);
        event_del(&c->read_event);
        evtimer_del(&c->timer);
        if (c->write_event)
                event_free(c->write_event);
        SSL_free(c->ssl);
        safe_close(c->fd);
        safe_close(c->gone_fd);
        request_free(c->request);
        http_parser_done(&c->parser);
        (void)count_head(c);
        buffer_done(&c->pending);
        output_free(c);
        pthread_cond_destroy(&c->room);
        pthread_mutex_destroy(&c->lock);
        free(c);
        l->n_connections--;
        metrics_add(l->server->metrics, METRICS_CONNECTIONS, -1);
}

void connection_close(struct connection *c)
{
        pthread_mutex_lock(&c->lock);
        bool working = c->state == CONNECTION_WORKING;
        if (working)
                output_cut(c);
        pthread_mutex_unlock(&c->lock);
        if (working)
                return;
        if (c->ssl)
                (void)SSL_shutdown(c->ssl);
        connection_free(c);
}

/* Everything was said. What the client still sends is read for a while: it would get an error instead of our answer. */
static void linger(struct connection *c)
{
        if (c->ssl)
                (void)SSL_shutdown(c->ssl);
        (void)shutdown(c->fd, SHUT_WR);
        buffer_done(&c->pending);
        http_parser_reset(&c->parser);
        (void)count_head(c);
        set_writing(c, false);
        enter(c, CONNECTION_LINGERING);
        set_reading(c, true);
        arm(c);
}

/* ---- reading ---- */

/* How much; 0: its end; -EAGAIN; -EPIPE. */
static ssize_t read_tls(struct connection *c, char *bytes, size_t size)
{
        size_t done = 0;
        int n = 0;

        ERR_clear_error();
        while (done < size && (n = SSL_read(c->ssl, bytes + done, (int)(size - done))) > 0)
                done += (size_t)n;
        if (done > 0)
                return (ssize_t)done;
        int why = SSL_get_error(c->ssl, n);
        if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
                return -EAGAIN;
        return why == SSL_ERROR_ZERO_RETURN ? 0 : -EPIPE;
}

static ssize_t read_some(struct connection *c, char *bytes, size_t size)
{
        ssize_t n;

        if (c->ssl) {
                n = read_tls(c, bytes, size);
        } else {
                do
                        n = recv(c->fd, bytes, size, MSG_DONTWAIT);
                while (n < 0 && errno == EINTR);
                if (n < 0)
                        n = errno == EAGAIN ? -EAGAIN : -EPIPE;
        }
        if (n > 0)
                metrics_add(c->loop->server->metrics, METRICS_BYTES_IN, n);
        return n;
}

/* TLS may have read more from the socket than it gave us; the kernel does not tell of that. */
static bool holds_more(const struct connection *c)
{
        return c->ssl && SSL_pending(c->ssl) > 0;
}

static void handshake(struct connection *c)
{
        ERR_clear_error();
        int n = SSL_do_handshake(c->ssl);
        if (n == 1) {
                set_writing(c, false);
                enter(c, CONNECTION_IDLE);
                arm(c);
                return;
        }
        int why = SSL_get_error(c->ssl, n);
        if (why == SSL_ERROR_WANT_WRITE)
                set_writing(c, true);
        else if (why != SSL_ERROR_WANT_READ)
                connection_free(c);
}

/* Of what was read nothing stays: there are tokens in it. */
static void wipe(char *bytes, ssize_t n)
{
        if (n > 0)
                explicit_bzero(bytes, (size_t)n);
}

/* While a worker has the request: what comes belongs to the next one. Under the lock, all of it: the worker may be about to make the
 * connection idle, and must know that something came; and with TLS it may be writing. False: it is idle already. */
static bool read_ahead(struct connection *c)
{
        pthread_mutex_lock(&c->lock);
        bool ahead = c->state == CONNECTION_WORKING || c->state == CONNECTION_FLUSHING;
        size_t room = ahead ? READ_BYTES - c->pending.size : 0;
        ssize_t n = room > 0 ? read_some(c, c->loop->bytes, room) : -EAGAIN;
        int kept = n > 0 ? buffer_add(&c->pending, c->loop->bytes, (size_t)n) : 0;
        wipe(c->loop->bytes, n);
        if (kept < 0)
                n = -EPIPE;
        if (n == 0 || n == -EPIPE) {
                c->eof = true;
                output_gone(c);
        }
        pthread_mutex_unlock(&c->lock);
        if (ahead && (c->eof || c->pending.size == READ_BYTES))
                set_reading(c, false);
        return ahead;
}

static void drop(struct connection *c)
{
        ssize_t n = read_some(c, c->loop->bytes, READ_BYTES);

        wipe(c->loop->bytes, n);
        if (n > 0)
                c->lingered_bytes += (uint64_t)n;
        if (n == 0 || n == -EPIPE || c->lingered_bytes > LINGER_BYTES_MAX)
                connection_free(c);
}

static void on_read(evutil_socket_t fd, short what, void *data)
{
        struct connection *c = data;
        struct loop *l = c->loop;
        enum connection_state state = state_of(c);

        if (state == CONNECTION_HANDSHAKE) {
                handshake(c);
                return;
        }
        if (state == CONNECTION_LINGERING) {
                drop(c);
                return;
        }
        if ((state == CONNECTION_WORKING || state == CONNECTION_FLUSHING) && read_ahead(c))
                return;
        ssize_t n = read_some(c, l->bytes, READ_BYTES);
        if (n == -EAGAIN)
                return;
        if (n <= 0)
                connection_close(c);
        else
                input(c, l->bytes, (size_t)n);
        wipe(l->bytes, n);
}

/* The request is complete. What came behind it must be put by before a worker sees the connection. */
static void hand_over(struct connection *c, const char *rest, size_t size)
{
        gb_error err = {0};

        pthread_mutex_lock(&c->lock);
        int r = buffer_add(&c->pending, rest, size);
        c->more = holds_more(c);
        pthread_mutex_unlock(&c->lock);
        http_parser_reset(&c->parser);
        if (r < 0) {
                error_set(&err, GB_E_UNAVAILABLE, ENOMEM, "there is no memory for the request");
                dispatch_bad(c, 503, &err);
                return;
        }
        if (c->pending.size == READ_BYTES)
                set_reading(c, false);
        dispatch_request(c);
}

static void refuse(struct connection *c)
{
        gb_error err = {0};
        int status = c->parser.status;

        error_set(&err, status == 413 ? GB_E_TOO_LARGE : status == 500 ? GB_E_UNAVAILABLE : GB_E_PROTOCOL, EPROTO, "%s", c->parser.why);
        dispatch_bad(c, status, &err);
}

/* There are bytes to come. */
static void wait_for_more(struct connection *c)
{
        gb_error err = {0};

        if (!count_head(c)) {
                error_set(&err, GB_E_UNAVAILABLE, ENOMEM, "there are as many unfinished requests as the server can hold in memory");
                dispatch_bad(c, 0, &err);
                return;
        }
        arm(c);
        if (holds_more(c))
                event_active(&c->read_event, EV_READ, 0);
}

/* Bytes of a request, up to its end. */
static void input(struct connection *c, const char *bytes, size_t size)
{
        gb_error err = {0};
        const char *piece;
        size_t used, piece_size;

        if (!http_parser_has_begun(&c->parser)) {
                enter(c, CONNECTION_HEAD);
                c->used = true;
                touch(c);
        }
        for (;;) {
                enum http_step step = http_parser_feed(&c->parser, bytes, size, &used, &piece, &piece_size);
                bytes += used;
                size -= used;
                switch (step) {
                case HTTP_MORE:
                        wait_for_more(c);
                        return;
                case HTTP_HEAD:
                        if (dispatch_head(c, size > 0) < 0)
                                return;
                        (void)count_head(c);
                        enter(c, CONNECTION_BODY);
                        c->window_usec = c->since_usec;
                        c->window_bytes = 0;
                        break;
                case HTTP_BODY:
                        if (body_add(&c->request->body, config_of(c)->directory, piece, piece_size, &err) < 0) {
                                dispatch_bad(c, 0, &err);
                                return;
                        }
                        break;
                case HTTP_END:
                        hand_over(c, bytes, size);
                        return;
                case HTTP_FAILED:
                        refuse(c);
                        return;
                }
        }
}

/* ---- after the answer ---- */

/* All of it was sent: the end, or the next request. */
static void next(struct connection *c)
{
        _cleanup_buffer_ struct buffer pending = {0};

        if (c->close || c->cut || c->loop->stop_usec) {
                /* Who was cut off shall not take what he got for the whole: old HTTP knows no other sign than an error. */
                if (c->cut)
                        (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
                if ((c->unread || c->pending.size > 0) && !c->cut && !c->eof)
                        linger(c);
                else
                        connection_close(c);
                return;
        }
        set_writing(c, false);
        enter(c, CONNECTION_IDLE);
        pthread_mutex_lock(&c->lock);
        pending = c->pending;
        buffer_init(&c->pending, READ_BYTES);
        c->pending.secret = true;
        pthread_mutex_unlock(&c->lock);
        bool more = holds_more(c), eof = c->eof;
        if (!eof)
                set_reading(c, true);
        if (more)
                event_active(&c->read_event, EV_READ, 0);
        arm(c);
        if (pending.size > 0)
                input(c, pending.data, pending.size);
        enum connection_state state = state_of(c);
        /* No more will come of a request that is not whole. */
        if (eof && (state == CONNECTION_IDLE || state == CONNECTION_HEAD || state == CONNECTION_BODY))
                connection_close(c);
}

void connection_look(struct connection *c)
{
        pthread_mutex_lock(&c->lock);
        enum connection_state state = c->state;
        bool waits = output_waits(c);
        pthread_mutex_unlock(&c->lock);
        if (state != CONNECTION_WORKING && state != CONNECTION_FLUSHING)
                return;
        if (waits) {
                set_writing(c, true);
                arm(c);
        } else if (state == CONNECTION_FLUSHING) {
                next(c);
        }
}

static void on_write(evutil_socket_t fd, short what, void *data)
{
        struct connection *c = data;

        if (state_of(c) == CONNECTION_HANDSHAKE) {
                handshake(c);
                return;
        }
        pthread_mutex_lock(&c->lock);
        (void)output_flush(c);
        bool waits = output_waits(c), flushing = c->state == CONNECTION_FLUSHING;
        pthread_mutex_unlock(&c->lock);
        if (waits)
                return;
        set_writing(c, false);
        if (flushing)
                next(c);
}

void connection_post(struct connection *c)
{
        struct loop *l = c->loop;

        if (c->posted)
                return;
        c->posted = true;
        pthread_mutex_lock(&l->lock);
        bool first = !l->posted;
        c->next_posted = l->posted;
        l->posted = c;
        pthread_mutex_unlock(&l->lock);
        if (first)
                (void)!write(l->wake_fd, &(uint64_t){1}, sizeof(uint64_t));
}

void connection_finish(struct connection *c, bool close)
{
        pthread_mutex_lock(&c->lock);
        c->gone_fd = safe_close(c->gone_fd);
        c->close |= close;
        c->since_usec = monotonic_usec();
        if (c->close || c->cut || c->gone || c->more || c->pending.size > 0 || output_waits(c)) {
                c->state = CONNECTION_FLUSHING;
                connection_post(c);
        } else {
                c->state = CONNECTION_IDLE;
        }
        pthread_mutex_unlock(&c->lock);
}
