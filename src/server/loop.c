/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread waits for everything: listeners, connections, timers, and an eventfd by which other threads make it look at something. It
 * never waits for anything else, and no client can make it: reads take what is there, bodies go to memory or to a file, what a handler does is
 * done by a worker.
 *
 * Connections are in a list by their last request. When there are as many as there may be, or no descriptor is left, the one that was
 * idle for longest makes room, else the one that has not come to the end of its head for longest; when there is none of those the new one gets 503. */
#include "server/loop.h"

#include "base/fd.h"
#include "server/connection.h"
#include "server/dispatch.h"
#include "server/gate.h"
#include "server/metrics.h"
#include "server/server.h"
#include "server/workers.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVICT_STEPS_MAX 2048 /* connections that are looked at to find one that makes room */

static void on_wake(evutil_socket_t fd, short what, void *data);
static void on_accept(evutil_socket_t fd, short what, void *data);
static void on_stop_timer(evutil_socket_t fd, short what, void *data);
static void on_late_timer(evutil_socket_t fd, short what, void *data);


int loop_new(struct server *server, struct loop **ret, gb_error *err)
{
        _cleanup_loop_ struct loop *l = calloc(1, sizeof(*l));

        if (!l)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "there is no memory for the loop");
        l->server = server;
        l->wake_fd = l->reserve_fd = -1;
        l->thread = pthread_self();
        pthread_mutex_init(&l->lock, NULL);
        l->uid = getuid();
        l->gate = gate_new();
        l->base = event_base_new();
        l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        l->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (!l->gate || !l->base || l->wake_fd < 0 || l->reserve_fd < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make the loop: %s", strerror(errno));
        l->wake_event = event_new(l->base, l->wake_fd, EV_READ | EV_PERSIST, on_wake, l);
        l->stop_timer = evtimer_new(l->base, on_stop_timer, l);
        l->late_timer = evtimer_new(l->base, on_late_timer, l);
        if (!l->wake_event || !l->stop_timer || !l->late_timer || event_add(l->wake_event, NULL) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "there is no memory for the loop");
        server->loop = l;
        *ret = TAKE_PTR(l);
        return 0;
}

static void listener_free(struct loop_listener *listener)
{
        if (listener->event)
                event_free(listener->event);
        safe_close(listener->fd);
        free(listener);
}

void loop_free(struct loop *l)
{
        if (!l)
                return;
        while (l->oldest)
                connection_free(l->oldest);
        while (l->listeners) {
                struct loop_listener *listener = l->listeners;
                l->listeners = listener->next;
                listener_free(listener);
        }
        struct event *events[] = {l->wake_event, l->stop_timer, l->late_timer};
        for (size_t i = 0; i < ARRAY_SIZE(events); i++)
                if (events[i])
                        event_free(events[i]);
        if (l->base)
                event_base_free(l->base);
        safe_close(l->wake_fd);
        safe_close(l->reserve_fd);
        gate_free(l->gate);
        pthread_mutex_destroy(&l->lock);
        if (l->server->loop == l)
                l->server->loop = NULL;
        free(l);
}

struct event_base *loop_base(struct loop *l)
{
        return l->base;
}

void loop_count(struct loop *l, uint64_t *ret_connections, uint64_t *ret_requests)
{
        *ret_connections = l->n_connections;
        *ret_requests = l->n_requests;
}

/* ---- listeners ---- */

int loop_add_listener(struct loop *l, int fd, enum listener_kind kind, struct ssl_ctx_st *tls, gb_error *err)
{
        struct loop_listener *listener = calloc(1, sizeof(*listener));
        struct sockaddr_storage local = {0};
        socklen_t size = sizeof(local);

        if (!listener || fd_set_nonblock(fd) < 0 || getsockname(fd, (struct sockaddr *)&local, &size) < 0) {
                int r = error_set(err, GB_E_INTERNAL, errno, "cannot listen: %s", strerror(errno));
                safe_close(fd);
                free(listener);
                return r;
        }
        *listener = (struct loop_listener){.loop = l, .fd = fd, .kind = kind, .tls = tls};
        if (local.ss_family == AF_INET)
                listener->port = ntohs(((struct sockaddr_in *)&local)->sin_port);
        else if (local.ss_family == AF_INET6)
                listener->port = ntohs(((struct sockaddr_in6 *)&local)->sin6_port);
        if (kind == LISTENER_TCP) {
                /* Connections inherit them. */
                (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
                (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int));
        }
        listener->event = event_new(l->base, fd, EV_READ | EV_PERSIST, on_accept, listener);
        if (!listener->event || event_add(listener->event, NULL) < 0) {
                listener_free(listener);
                return error_set(err, GB_E_INTERNAL, ENOMEM, "there is no memory for a listener");
        }
        listener->next = l->listeners;
        l->listeners = listener;
        return 0;
}

/* A short word to somebody who is not taken, and the end. */
static void turn_away(struct loop *l, int fd, bool tls, const char *answer)
{
        char dropped[4096];

        metrics_add(l->server->metrics, METRICS_REFUSED, 1);
        if (!tls) {
                (void)send(fd, answer, strlen(answer), MSG_NOSIGNAL | MSG_DONTWAIT);
                (void)shutdown(fd, SHUT_WR);
                (void)recv(fd, dropped, sizeof(dropped), MSG_DONTWAIT);
        }
        safe_close(fd);
}

#define TURNED_AWAY(status, code, message, hint, fields)                                                                                          \
        "HTTP/1.1 " status "\r\nServer: glovebox\r\nContent-Type: application/json\r\nCache-Control: no-store\r\nConnection: close\r\n" fields "\r\n" \
        "{\"error\":{\"code\":\"" code "\",\"message\":\"" message "\",\"hint\":\"" hint "\",\"details\":{}}}"

static const char too_many[] = TURNED_AWAY("503 Service Unavailable", "unavailable", "the server has as many connections as it can",
                                           "try again after the seconds of Retry-After", "Retry-After: 1\r\n");
static const char foreign_user[] = TURNED_AWAY("403 Forbidden", "denied", "this socket is for the server's own user, and root",
                                               "ask the operator for a token and a TCP address", "");

/* Our own user, the one that made the loop (the server may have become another since), and root. */
static bool peer_is_ours(const struct loop *l, int fd)
{
        struct ucred peer = {.uid = (uid_t)-1};
        socklen_t size = sizeof(peer);

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
                return false;
        return peer.uid == geteuid() || peer.uid == l->uid || peer.uid == 0;
}

/* Ends the connection that was idle for longest; when none is, the one whose head is the oldest: an honest one does not take long. */
static bool make_room(struct loop *l)
{
        struct connection *idle = NULL, *slow = NULL, *c = l->oldest;

        for (size_t i = 0; c && !idle && i < EVICT_STEPS_MAX; i++, c = c->newer) {
                pthread_mutex_lock(&c->lock);
                enum connection_state state = c->state;
                pthread_mutex_unlock(&c->lock);
                if (state == CONNECTION_IDLE)
                        idle = c;
                else if (!slow && (state == CONNECTION_HEAD || state == CONNECTION_HANDSHAKE || state == CONNECTION_LINGERING))
                        slow = c;
        }
        struct connection *victim = idle ? idle : slow;
        if (victim)
                connection_close(victim);
        return victim;
}

static void pause_listener(struct loop_listener *listener)
{
        struct timeval tv = {.tv_usec = (suseconds_t)ACCEPT_PAUSE_USEC};

        /* Not readable until then, but woken by the time; without memory for that it turns until there is some. */
        if (event_base_once(listener->loop->base, -1, EV_TIMEOUT, on_accept, listener, &tv) < 0)
                return;
        event_del(listener->event);
        listener->paused = true;
}

/* No descriptor is left: an idle connection gives its own, or who came is told with the one that was kept for that. The kernel says so also when nobody came: false. */
static bool accept_without_descriptor(struct loop_listener *listener)
{
        struct loop *l = listener->loop;
        struct pollfd waits = {.fd = listener->fd, .events = POLLIN};

        if (poll(&waits, 1, 0) <= 0)
                return false;
        if (make_room(l))
                return true;
        l->reserve_fd = safe_close(l->reserve_fd);
        struct sockaddr_storage peer;
        socklen_t size = sizeof(peer);
        int fd = accept4(listener->fd, (struct sockaddr *)&peer, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
                turn_away(l, fd, listener->tls, too_many);
        l->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        pause_listener(listener);
        return true;
}

static void take(struct loop_listener *listener, int fd, const struct sockaddr_storage *peer)
{
        struct loop *l = listener->loop;

        metrics_add(l->server->metrics, METRICS_ACCEPTED, 1);
        if (listener->kind == LISTENER_UNIX && !peer_is_ours(l, fd))
                turn_away(l, fd, false, foreign_user);
        else if (l->n_connections >= l->server->config.connections && !make_room(l))
                turn_away(l, fd, listener->tls, too_many);
        else
                connection_new(listener, fd, peer);
}

static void on_accept(evutil_socket_t fd, short what, void *data)
{
        struct loop_listener *listener = data;

        if (listener->paused) {
                listener->paused = false;
                if (!listener->loop->stop_usec)
                        event_add(listener->event, NULL);
        }
        for (size_t i = 0; i < ACCEPT_BATCH_MAX && !listener->paused && !listener->loop->stop_usec; i++) {
                struct sockaddr_storage peer = {0};
                socklen_t size = sizeof(peer);
                int client = accept4(listener->fd, (struct sockaddr *)&peer, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
                if (client >= 0) {
                        take(listener, client, &peer);
                } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                        if (!accept_without_descriptor(listener))
                                break;
                } else if (errno != EINTR && errno != ECONNABORTED) {
                        break;
                }
        }
}

/* ---- what others want ---- */

static void look_at_posted(struct loop *l)
{
        for (;;) {
                pthread_mutex_lock(&l->lock);
                struct connection *c = l->posted;
                if (c)
                        l->posted = c->next_posted;
                pthread_mutex_unlock(&l->lock);
                if (!c)
                        return;
                pthread_mutex_lock(&c->lock);
                c->posted = false;
                pthread_mutex_unlock(&c->lock);
                connection_look(c);
        }
}

/* used_only: not those that have not asked anything yet. Their first request may be under way, and shall be answered. */
static void close_idle(struct loop *l, bool used_only)
{
        struct connection *newer;

        for (struct connection *c = l->oldest; c; c = newer) {
                newer = c->newer;
                pthread_mutex_lock(&c->lock);
                bool idle = c->state == CONNECTION_IDLE;
                pthread_mutex_unlock(&c->lock);
                if (idle && (c->used || !used_only))
                        connection_close(c);
        }
}

static bool anything_to_send(struct loop *l)
{
        for (struct connection *c = l->oldest; c; c = c->newer) {
                pthread_mutex_lock(&c->lock);
                bool sends = (c->state == CONNECTION_FLUSHING || c->state == CONNECTION_WORKING) && !c->cut;
                pthread_mutex_unlock(&c->lock);
                if (sends)
                        return true;
        }
        return false;
}

static void begin_stop(struct loop *l)
{
        struct timeval tv = {.tv_usec = 10000};

        l->stop_usec = monotonic_usec() + LOOP_STOP_USEC;
        for (struct loop_listener *listener = l->listeners; listener; listener = listener->next) {
                event_del(listener->event);
                listener->fd = safe_close(listener->fd);
        }
        close_idle(l, false);
        for (struct connection *c = l->oldest; c; c = c->newer) {
                pthread_mutex_lock(&c->lock);
                output_gone(c);
                pthread_mutex_unlock(&c->lock);
        }
        evtimer_add(l->stop_timer, &tv);
}

/* Nothing is sent any more from here on: writers that wait for a client hear of it. */
static void end(struct loop *l)
{
        for (struct connection *c = l->oldest; c; c = c->newer)
                connection_cut(c);
        event_base_loopbreak(l->base);
}

static void on_stop_timer(evutil_socket_t fd, short what, void *data)
{
        struct loop *l = data;
        struct timeval tv = {.tv_usec = 10000};

        if (l->stop_wanted > 1 || monotonic_usec() >= l->stop_usec || !anything_to_send(l))
                end(l);
        else
                evtimer_add(l->stop_timer, &tv);
}

static void on_wake(evutil_socket_t fd, short what, void *data)
{
        struct loop *l = data;
        uint64_t n;

        (void)!read(l->wake_fd, &n, sizeof(n));
        look_at_posted(l);
        if (l->drain_wanted && !l->draining) {
                l->draining = true;
                close_idle(l, true);
        }
        if (l->stop_wanted && !l->stop_usec)
                begin_stop(l);
}

static void wake(struct loop *l)
{
        (void)!write(l->wake_fd, &(uint64_t){1}, sizeof(uint64_t));
}

void loop_drain(struct loop *l)
{
        l->drain_wanted = true;
        wake(l);
}

void loop_stop(struct loop *l)
{
        l->stop_wanted++;
        wake(l);
}

static void on_late_timer(evutil_socket_t fd, short what, void *data)
{
        struct loop *l = data;
        uint64_t now = monotonic_usec();
        bool more = false;
        struct request *r;

        while ((r = workers_take_late(l->server->workers, now - MIN(now, (uint64_t)WORKERS_WAIT_USEC), &more)))
                dispatch_late(r);
        if (more)
                loop_watch_queue(l);
}

void loop_watch_queue(struct loop *l)
{
        struct timeval tv = {.tv_usec = (suseconds_t)(WORKERS_WAIT_USEC / 10)};

        if (!evtimer_pending(l->late_timer, NULL))
                evtimer_add(l->late_timer, &tv);
}

int loop_run(struct loop *l, gb_error *err)
{
        l->thread = pthread_self();
        (void)pthread_setname_np(l->thread, "loop");
        if (event_base_dispatch(l->base) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "the loop has failed: %s", strerror(errno));
        return 0;
}
