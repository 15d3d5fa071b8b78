/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes there and back. Where TLS must be spoken, nothing goes up before a whole ClientHello has come and names the host that was asked for.
 *
 * The bytes themselves are not looked at any more: the kernel moves them from socket to pipe to socket (splice). A pipe is lent for as long as something lies in it,
 * so that thousands of tunnels that are silent need none; when all are lent, bytes go through memory: looked at (MSG_PEEK), sent, and only as many taken as were sent. */
#include "base/fd.h"
#include "egress/core.h"
#include "egress/hello.h"

#include <errno.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIPE_BYTES (1 * MIB)
#define PIPES_MAX 64
#define ROUNDS_MAX 8 /* of one tunnel, then the others have their turn */

/* ---- pipes ---- */

struct lent_pipe {
        int ends[2]; /* to read, to write */
};

static struct {
        struct lent_pipe free[PIPES_MAX];
        unsigned n_free, n_made;
} pipes;

static bool pipe_borrow(struct lent_pipe *ret)
{
        if (pipes.n_free > 0) {
                *ret = pipes.free[--pipes.n_free];
                return true;
        }
        if (pipes.n_made == PIPES_MAX || pipe2(ret->ends, O_CLOEXEC | O_NONBLOCK) < 0)
                return false;
        (void)fcntl(ret->ends[1], F_SETPIPE_SZ, (int)PIPE_BYTES); /* a smaller one will do, too */
        pipes.n_made++;
        return true;
}

/* Only an empty one is for others. */
static void pipe_return(struct lent_pipe *p, bool is_empty)
{
        if (is_empty) {
                pipes.free[pipes.n_free++] = *p;
        } else {
                safe_close(p->ends[0]);
                safe_close(p->ends[1]);
                pipes.n_made--;
        }
        p->ends[0] = p->ends[1] = -1;
}

/* ---- one direction ---- */

struct flow {
        struct tunnel *tunnel;
        int from, to;
        struct event readable, writable;
        struct lent_pipe pipe; /* -1: none */
        size_t in_pipe;
        bool up;
        bool ended; /* no more comes */
        bool over;  /* and the other side knows */
};

struct tunnel {
        struct connection *connection;
        struct flow up, down;
        struct event idle;
        uint64_t heard_usec;
        bool needs_hello;
        struct host host;
        uint16_t port;
        struct ledger_row *row;
        struct rules_block *rules;
        const struct egress_rule *rule;
        uint8_t *early; /* what has come of the client, and has not been sent yet */
        size_t early_size, early_sent;
};

static void flow_init(struct flow *f, struct tunnel *t, int from, int to, bool up, event_callback_fn readable, event_callback_fn writable)
{
        *f = (struct flow){.tunnel = t, .from = from, .to = to, .pipe = {{-1, -1}}, .up = up};
        event_assign(&f->readable, egress_base, from, EV_READ | EV_PERSIST, readable, f);
        event_assign(&f->writable, egress_base, to, EV_WRITE, writable, f);
}

static void flow_done(struct flow *f)
{
        event_del(&f->readable);
        event_del(&f->writable);
        if (f->pipe.ends[0] >= 0)
                pipe_return(&f->pipe, f->in_pipe == 0);
}

void tunnel_free(struct tunnel *t)
{
        if (!t)
                return;
        flow_done(&t->up);
        flow_done(&t->down);
        event_del(&t->idle);
        safe_close(t->up.from);
        safe_close(t->up.to);
        rules_drop(t->rules);
        free(t->early);
        free(t);
}

static int flow_count(struct flow *f, size_t n)
{
        struct tunnel *t = f->tunnel;

        return box_count(t->connection->box, t->row, f->up ? n : 0, f->up ? 0 : n);
}

/* A side that has not seen the orderly end of the other gets a reset. With a plain end, half of the data would look
 * whole. */
static void flow_reset(struct flow *f)
{
        static const struct linger at_once = {.l_onoff = 1};

        if (!f->over)
                setsockopt(f->to, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

void tunnel_reset(struct tunnel *t)
{
        flow_reset(&t->up);
        flow_reset(&t->down);
}

/* FLOW_SPENT: the bytes of the box are used up. */
enum flow_step { FLOW_MOVED, FLOW_NOTHING, FLOW_FULL, FLOW_BROKEN, FLOW_SPENT };

static enum flow_step flow_write(struct flow *f)
{
        ssize_t n = splice(f->pipe.ends[0], NULL, f->to, NULL, f->in_pipe, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);

        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? FLOW_FULL : FLOW_BROKEN;
        f->in_pipe -= (size_t)n;
        return f->in_pipe > 0 ? FLOW_FULL : FLOW_MOVED;
}

static enum flow_step flow_read_failed(struct flow *f, ssize_t n)
{
        if (n == 0)
                f->ended = true;
        return n == 0 || errno == EAGAIN || errno == EINTR ? FLOW_NOTHING : FLOW_BROKEN;
}

/* Without a pipe. */
static enum flow_step flow_copy(struct flow *f, size_t most)
{
        static char bytes[64 * KIB];
        ssize_t n = recv(f->from, bytes, MIN(most, sizeof(bytes)), MSG_PEEK | MSG_DONTWAIT);

        if (n <= 0)
                return flow_read_failed(f, n);
        ssize_t sent = send(f->to, bytes, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0)
                return errno == EAGAIN || errno == EINTR ? FLOW_FULL : FLOW_BROKEN;
        if (recv(f->from, bytes, (size_t)sent, MSG_DONTWAIT) != sent)
                return FLOW_BROKEN;
        if (flow_count(f, (size_t)sent) < 0)
                return FLOW_SPENT;
        return sent < n ? FLOW_FULL : FLOW_MOVED;
}

static enum flow_step flow_move(struct flow *f)
{
        size_t most = (size_t)MIN(box_left(f->tunnel->connection->box), (uint64_t)PIPE_BYTES);

        if (f->in_pipe > 0)
                return flow_write(f);
        if (f->pipe.ends[0] < 0 && !pipe_borrow(&f->pipe))
                return flow_copy(f, most);
        ssize_t n = splice(f->from, NULL, f->pipe.ends[1], NULL, most, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
        if (n <= 0)
                return flow_read_failed(f, n);
        f->in_pipe = (size_t)n;
        /* What comes meanwhile goes along: each write wakes who reads there. */
        while (f->in_pipe < most / 2 && (n = splice(f->from, NULL, f->pipe.ends[1], NULL, most - f->in_pipe, SPLICE_F_NONBLOCK | SPLICE_F_MOVE)) > 0)
                f->in_pipe += (size_t)n;
        /* The kernel tells of a reset once: asked again, it would call it the end. */
        bool broken = n < 0 && errno != EAGAIN && errno != EINTR;
        size_t all = f->in_pipe;
        enum flow_step step = flow_write(f);
        bool spent = flow_count(f, all) < 0;
        if (broken || step == FLOW_BROKEN)
                return FLOW_BROKEN;
        return spent ? FLOW_SPENT : step; /* what is used up by these bytes still lets them go */
}

/* Moves what can be moved. False: the tunnel is of no use any more. */
static bool flow_run(struct flow *f)
{
        enum flow_step step = FLOW_MOVED;

        f->tunnel->heard_usec = monotonic_usec();
        for (int i = 0; i < ROUNDS_MAX && step == FLOW_MOVED; i++)
                step = flow_move(f);
        if (step == FLOW_BROKEN)
                tunnel_reset(f->tunnel);
        if (step == FLOW_BROKEN || step == FLOW_SPENT)
                return false;
        if (f->pipe.ends[0] >= 0 && f->in_pipe == 0)
                pipe_return(&f->pipe, true);
        if (f->ended && f->in_pipe == 0 && !f->over) {
                shutdown(f->to, SHUT_WR);
                f->over = true;
        }
        if (step == FLOW_FULL) {
                event_del(&f->readable);
                event_add(&f->writable, NULL);
        } else if (f->ended) {
                event_del(&f->readable);
        } else if (!event_pending(&f->readable, EV_READ, NULL)) {
                event_add(&f->readable, NULL);
        }
        return true;
}

static void on_flow(evutil_socket_t fd, short what, void *data)
{
        struct flow *f = data;
        struct tunnel *t = f->tunnel;

        if (!flow_run(f) || (t->up.over && t->down.over))
                connection_free(t->connection);
}

/* ---- the ClientHello ---- */

/* detail: the name in its ClientHello; that one stands in the ledger, since it is where the client wanted to go. */
static void refuse(struct tunnel *t, enum egress_decision decision, const char *detail)
{
        static const uint8_t alert[] = {21, 3, 3, 0, 2, 2, 49}; /* fatal: access_denied */
        struct box *b = t->connection->box;
        struct egress_request q = {.host = &t->host, .port = t->port, .protocol = EGRESS_HTTPS};
        struct egress_verdict v = {.decision = decision, .rule = t->rule};
        char sentence[SENTENCE_MAX], text[SENTENCE_MAX + 256];
        struct host wanted;

        bool named = detail && host_parse(detail, strlen(detail), &wanted) == 0;
        ledger_count(b->ledger, ledger_row(b->ledger, named ? wanted.text : t->host.text, t->port, decision, EGRESS_HTTPS, NULL));
        if (decision == EGRESS_NO_SNI) {
                (void)send(t->up.from, alert, sizeof(alert), MSG_DONTWAIT | MSG_NOSIGNAL);
        } else if (t->early_size > 0 && t->early[0] >= 'A' && t->early[0] <= 'Z') {
                /* Perhaps HTTP: whoever speaks it in a tunnel can read it, too. */
                egress_explain(t->rules->rules, &q, &v, detail, sentence, sizeof(sentence));
                int n = snprintf(text, sizeof(text), "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\nConnection: close\r\n"
                                 "Glovebox-Denied: %s\r\n\r\n%s\n", strlen(sentence) + 1, egress_decision_word(decision), sentence);
                (void)send(t->up.from, text, MIN((size_t)n, sizeof(text) - 1), MSG_DONTWAIT | MSG_NOSIGNAL);
        }
        connection_free(t->connection);
}

static bool names_host(const struct tunnel *t, const struct hello *h)
{
        struct host named;

        if (h->has_ech)
                return false;
        if (t->host.kind == HOST_ADDRESS) /* which a ClientHello does not name (RFC 6066) */
                return !h->has_name;
        return h->has_name && host_parse(h->name, strlen(h->name), &named) == 0 && host_equals(&named, &t->host);
}

static void on_idle(evutil_socket_t fd, short what, void *data);

static void start_relay(struct tunnel *t)
{
        static const struct timeval idle = {.tv_sec = EGRESS_IDLE_USEC / 1000000};

        t->needs_hello = false;
        evtimer_add(&t->idle, &idle);
        event_add(&t->down.readable, NULL);
}

/* Sends what had to wait; then the rest may flow. False: the tunnel is gone. */
static bool flush_early(struct tunnel *t)
{
        while (t->early_sent < t->early_size) {
                size_t most = (size_t)MIN(box_left(t->connection->box), (uint64_t)(t->early_size - t->early_sent));
                ssize_t n = send(t->up.to, t->early + t->early_sent, most, MSG_DONTWAIT | MSG_NOSIGNAL);
                if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
                        event_add(&t->up.writable, NULL);
                        return true;
                }
                if (n < 0)
                        tunnel_reset(t);
                if (n <= 0 || flow_count(&t->up, (size_t)n) < 0) {
                        connection_free(t->connection);
                        return false;
                }
                t->early_sent += (size_t)n;
        }
        free(t->early);
        t->early = NULL;
        t->early_size = t->early_sent = 0;
        event_add(&t->up.readable, NULL);
        return true;
}

/* Looks at what has come. False: the tunnel is gone. */
static bool look_at_hello(struct tunnel *t)
{
        struct hello hello = {0};

        switch (hello_parse(t->early, t->early_size, &hello)) {
        case HELLO_MORE:
                if (t->early_size < EGRESS_HELLO_MAX)
                        return true;
                break;
        case HELLO_NOT_TLS:
                refuse(t, EGRESS_NO_TLS, NULL);
                return false;
        case HELLO_DONE:
                if (names_host(t, &hello)) {
                        start_relay(t);
                        event_del(&t->up.readable);
                        return flush_early(t);
                }
                break;
        case HELLO_BAD:
                break;
        }
        refuse(t, EGRESS_NO_SNI, hello.has_name ? hello.name : NULL);
        return false;
}

static void read_hello(struct tunnel *t)
{
        ssize_t n = recv(t->up.from, t->early + t->early_size, EGRESS_HELLO_MAX - t->early_size, MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n <= 0) {
                connection_free(t->connection);
                return;
        }
        t->early_size += (size_t)n;
        (void)look_at_hello(t);
}

static void on_client_readable(evutil_socket_t fd, short what, void *data)
{
        struct flow *f = data;

        if (f->tunnel->needs_hello)
                read_hello(f->tunnel);
        else
                on_flow(fd, what, data);
}

static void on_upstream_writable(evutil_socket_t fd, short what, void *data)
{
        struct flow *f = data;

        if (f->tunnel->early)
                (void)flush_early(f->tunnel);
        else
                on_flow(fd, what, data);
}

static void on_idle(evutil_socket_t fd, short what, void *data)
{
        struct tunnel *t = data;
        uint64_t silent = monotonic_usec() - t->heard_usec;

        if (t->needs_hello || silent >= EGRESS_IDLE_USEC) {
                if (!t->needs_hello)
                        tunnel_reset(t);
                connection_free(t->connection);
                return;
        }
        struct timeval rest = {.tv_sec = (time_t)((EGRESS_IDLE_USEC - silent) / 1000000) + 1};
        evtimer_add(&t->idle, &rest);
}

/* ---- from outside ---- */

int tunnel_new(struct connection *c, const struct tunnel_start *s)
{
        static const struct timeval hello = {.tv_sec = EGRESS_HEAD_USEC / 1000000};
        struct tunnel *t = calloc(1, sizeof(*t));

        if (!t)
                return -ENOMEM;
        t->early = malloc(MAX((size_t)EGRESS_HELLO_MAX, s->early_size));
        if (!t->early) {
                free(t);
                return -ENOMEM;
        }
        memcpy(t->early, s->early, s->early_size);
        t->early_size = s->early_size;
        t->connection = c;
        t->needs_hello = s->needs_tls;
        t->host = *s->host;
        t->port = s->port;
        t->row = s->row;
        t->rules = s->rules;
        t->rule = s->rule;
        t->heard_usec = monotonic_usec();
        flow_init(&t->up, t, s->client, s->upstream, true, on_client_readable, on_upstream_writable);
        flow_init(&t->down, t, s->upstream, s->client, false, on_flow, on_flow);
        evtimer_assign(&t->idle, egress_base, on_idle, t);
        c->tunnel = t;
        if (!t->needs_hello) {
                start_relay(t);
                (void)flush_early(t);
                return 0;
        }
        evtimer_add(&t->idle, &hello);
        event_add(&t->up.readable, NULL);
        if (t->early_size > 0)
                (void)look_at_hello(t);
        return 0;
}

bool tunnel_may_stay(struct tunnel *t)
{
        struct box *b = t->connection->box;
        struct egress_request q = {.host = &t->host, .port = t->port, .protocol = EGRESS_HTTPS};
        struct egress_verdict v = egress_judge(b->rules->rules, &q);

        /* One for whatever bytes may be full of them already; it stays only where that is still so. */
        if (v.decision != EGRESS_ALLOWED || v.rule->intercept || (v.rule->protocol != EGRESS_TCP && t->rule->protocol == EGRESS_TCP))
                return false;
        rules_drop(t->rules);
        t->rules = rules_hold(b->rules);
        t->rule = v.rule;
        return box_left(b) > 0 && reach_may_keep(t->up.to, b->rules->rules);
}
