/* SPDX-License-Identifier: Apache-2.0
 *
 * A client's first words. Its first byte says whether it speaks SOCKS5; whoever begins with CONNECT gets a tunnel; all else is HTTP, for forward.c.
 *
 *   first byte 5:       greeting, request -> reach -> answer -> tunnel
 *   "CONNECT ...":      head              -> reach -> answer -> tunnel, or TLS that ends here (intercept.c)
 *   otherwise:          forward_new() */
#include "base/fd.h"
#include "egress/core.h"
#include "egress/intercept.h"
#include "egress/socks.h"
#include "egress/target.h"
#include "http/parser.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent_struct.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST_BYTES_MAX (80 * KIB) /* that are read before it is known what they are: a head of HTTP has 64 at most */
#define CONNECT_WORD "CONNECT "

unsigned connections_now;

static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";

void events_free(struct bufferevent *b)
{
        bufferevent_disable(b, EV_READ | EV_WRITE);
        event_del(&b->ev_read);
        event_del(&b->ev_write);
        bufferevent_free(b);
}

void connection_free(struct connection *c)
{
        evutil_socket_t fd = c->client ? bufferevent_getfd(c->client) : -1;

        reach_cancel(c->reach);
        forward_free(c->forward);
        tunnel_free(c->tunnel);
        if (c->client)
                events_free(c->client);
        safe_close(fd);
        if (c->deadline)
                event_free(c->deadline);
        if (c->parser)
                http_parser_done(c->parser);
        free(c->parser);
        free(c->socks);
        free(c->target);
        LIST_REMOVE(c, entry);
        c->box->n_connections--;
        connections_now--;
        c->box->ledger->open = c->box->n_connections;
        free(c);
}

/* ---- the last words ---- */

static void on_sent(struct bufferevent *client, void *data)
{
        connection_free(data);
}

static void on_gone(struct bufferevent *client, short what, void *data)
{
        connection_free(data);
}

/* What it still says is of no interest, but it must be read: closing would take our words back otherwise. */
static void on_more(struct bufferevent *client, void *data)
{
        struct evbuffer *in = bufferevent_get_input(client);

        evbuffer_drain(in, evbuffer_get_length(in));
}

static void stop_deadline(struct connection *c)
{
        if (c->deadline)
                event_free(c->deadline);
        c->deadline = NULL;
}

static void end_after(struct connection *c, const void *bytes, size_t size)
{
        static const struct timeval patience = {.tv_sec = 5};

        c->ending = true;
        stop_deadline(c);
        bufferevent_setcb(c->client, on_more, on_sent, on_gone, c);
        bufferevent_set_timeouts(c->client, &patience, &patience);
        on_more(c->client, c);
        bufferevent_enable(c->client, EV_READ | EV_WRITE);
        if (bufferevent_write(c->client, bytes, size) < 0)
                connection_free(c);
}

const char *status_reason(int status)
{
        switch (status) {
        case 400: return "Bad Request";
        case 403: return "Forbidden";
        case 408: return "Request Timeout";
        case 413: return "Content Too Large";
        case 414: return "URI Too Long";
        case 417: return "Expectation Failed";
        case 431: return "Request Header Fields Too Large";
        case 500: return "Internal Server Error";
        case 504: return "Gateway Timeout";
        case 505: return "HTTP Version Not Supported";
        default: return "Bad Gateway";
        }
}

/* Of CONNECT many clients show the first line only, so the sentence stands there as well. */
static void refuse(struct connection *c, int status, enum egress_decision decision, const char *sentence)
{
        char text[2 * SENTENCE_MAX + 256];
        int n = snprintf(text, sizeof(text), "HTTP/1.1 %d %s (%s)\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\nConnection: close\r\nGlovebox-Denied: %s\r\n\r\n%s\n",
                         status, status_reason(status), sentence, strlen(sentence) + 1, egress_decision_word(decision), sentence);

        end_after(c, text, MIN((size_t)n, sizeof(text) - 1));
}

static void refuse_malformed(struct connection *c, int status, const char *why)
{
        char sentence[SENTENCE_MAX];

        ledger_count(c->box->ledger, ledger_row(c->box->ledger, "", 0, EGRESS_MALFORMED, EGRESS_HTTPS, NULL));
        snprintf(sentence, sizeof(sentence), "glovebox: the request cannot be understood: %s", why);
        refuse(c, status, EGRESS_MALFORMED, sentence);
}

static void refuse_socks(struct connection *c, enum socks_reply code)
{
        uint8_t answer[SOCKS_REPLY_BYTES];

        socks_reply(code, answer);
        end_after(c, answer, sizeof(answer));
}

/* ---- tunnels ---- */

static enum socks_reply socks_code(const struct reached *r)
{
        if (egress_is_denied(r->decision))
                return SOCKS_NOT_ALLOWED;
        return r->status == 504 ? SOCKS_NETWORK_UNREACHABLE : r->decision == EGRESS_UNRESOLVED ? SOCKS_HOST_UNREACHABLE : SOCKS_CONNECTION_REFUSED;
}

/* From here on the client's descriptor is ours and no bufferevent's. */
static int take_client(struct connection *c, char **ret_early, size_t *ret_size)
{
        struct evbuffer *in = bufferevent_get_input(c->client);
        int fd = bufferevent_getfd(c->client);

        *ret_size = evbuffer_get_length(in);
        *ret_early = malloc(*ret_size + 1);
        if (!*ret_early)
                return -1;
        evbuffer_remove(in, *ret_early, *ret_size);
        events_free(c->client);
        c->client = NULL;
        return fd;
}

static void open_tunnel(struct connection *c, struct reached *r)
{
        _cleanup_free_ char *early = NULL;
        uint8_t reply[SOCKS_REPLY_BYTES];
        const void *answer = established;
        size_t early_size, answer_size = sizeof(established) - 1;
        struct target to = *c->target;
        int fd = take_client(c, &early, &early_size);

        if (c->socks) {
                socks_reply(SOCKS_OK, reply);
                answer = reply;
                answer_size = sizeof(reply);
        }
        /* The first bytes on a new connection always have room. */
        bool good = fd >= 0 && send(fd, answer, answer_size, MSG_NOSIGNAL) == (ssize_t)answer_size;
        struct tunnel_start start = {
                .client = fd, .upstream = r->fd, .early = early, .early_size = early_size, .needs_tls = r->rule->protocol != EGRESS_TCP, .host = &to.host,
                .port = to.port, .row = r->row, .rules = r->rules, .rule = r->rule,
        };
        if (good && r->rule->intercept) /* without an authority: not at all */
                good = c->box->authority && intercept_start(c, fd, early, early_size, &to.host, to.port, r) == 0;
        else if (good)
                good = tunnel_new(c, &start) == 0;
        if (good)
                return;
        safe_close(fd);
        safe_close(r->fd);
        rules_drop(r->rules);
        connection_free(c);
}

static void on_reached(void *data, struct reached *r)
{
        struct connection *c = data;

        c->reach = NULL;
        if (r->decision == EGRESS_ALLOWED)
                open_tunnel(c, r);
        else if (c->socks)
                refuse_socks(c, socks_code(r));
        else
                refuse(c, r->status, r->decision, r->sentence);
}

static void reach_target(struct connection *c, const struct target *to)
{
        c->target = malloc(sizeof(*c->target));
        if (!c->target) {
                connection_free(c);
                return;
        }
        *c->target = *to;
        stop_deadline(c);
        bufferevent_disable(c->client, EV_READ);
        struct egress_request q = {.host = &c->target->host, .port = to->port, .protocol = EGRESS_HTTPS};
        reach_start(c->box, &q, &c->reach, on_reached, c);
}

/* ---- the first words ---- */

static void read_connect(struct connection *c)
{
        struct evbuffer *in = bufferevent_get_input(c->client);
        struct target to;

        while (evbuffer_get_length(in) > 0) {
                struct evbuffer_iovec piece;
                const char *body;
                size_t used, body_size;
                evbuffer_peek(in, -1, NULL, &piece, 1);
                enum http_step step = http_parser_feed(c->parser, piece.iov_base, piece.iov_len, &used, &body, &body_size);
                evbuffer_drain(in, used);
                if (step == HTTP_FAILED)
                        return refuse_malformed(c, c->parser->status, c->parser->why);
                if (step == HTTP_MORE)
                        continue;
                const struct http_message *m = c->parser->message;
                if (m->has_length || m->chunked || http_message_field(m, "upgrade"))
                        return refuse_malformed(c, 400, "CONNECT has no body and no Upgrade");
                if (target_parse_authority(http_message_target(m), &to) < 0)
                        return refuse_malformed(c, 400, "CONNECT takes a host and a port, such as example.com:443");
                const char *host = http_message_field(m, "host");
                if (host && !target_is_host_field(&to, host, to.port))
                        return refuse_malformed(c, 400, "the Host field names another host than CONNECT");
                return reach_target(c, &to);
        }
}

static void read_socks(struct connection *c)
{
        struct evbuffer *in = bufferevent_get_input(c->client);

        for (;;) {
                size_t size = evbuffer_get_length(in), used;
                enum socks_step step = socks_feed(c->socks, evbuffer_pullup(in, -1), size, &used);
                evbuffer_drain(in, used);
                if (step == SOCKS_MORE)
                        return;
                if (step == SOCKS_GREETED) {
                        bufferevent_write(c->client, (const uint8_t[]){SOCKS_VERSION, 0}, 2);
                        continue;
                }
                if (step == SOCKS_REQUEST) {
                        struct target to = {.host = c->socks->host, .port = c->socks->port};
                        /* The answer to the greeting lies in the buffer when both came together. */
                        struct evbuffer *out = bufferevent_get_output(c->client);
                        if (evbuffer_get_length(out) > 0 && evbuffer_write(out, bufferevent_getfd(c->client)) < 0)
                                return connection_free(c);
                        return reach_target(c, &to);
                }
                ledger_count(c->box->ledger, ledger_row(c->box->ledger, "", 0, EGRESS_MALFORMED, EGRESS_HTTPS, NULL));
                return end_after(c, c->socks->answer, c->socks->answer_size);
        }
}

static void start_socks(struct connection *c)
{
        c->socks = calloc(1, sizeof(*c->socks));
        if (c->socks)
                read_socks(c);
        else
                connection_free(c);
}

static void start_connect(struct connection *c)
{
        c->parser = malloc(sizeof(*c->parser));
        if (!c->parser)
                return connection_free(c);
        http_parser_init(c->parser);
        c->parser->kind = HTTP_PROXY_REQUEST;
        read_connect(c);
}

static void start_forward(struct connection *c)
{
        stop_deadline(c);
        if (forward_new(c, &(struct forward_start){0}) < 0)
                connection_free(c);
}

static void on_words(struct bufferevent *client, void *data)
{
        struct connection *c = data;
        struct evbuffer *in = bufferevent_get_input(client);
        char first[sizeof(CONNECT_WORD) - 1];
        ssize_t n = evbuffer_copyout(in, first, sizeof(first));

        if (c->socks)
                read_socks(c);
        else if (c->parser)
                read_connect(c);
        else if (n > 0 && first[0] == SOCKS_VERSION)
                start_socks(c);
        else if (n > 0 && first[0] == 4)
                refuse_malformed(c, 400, "SOCKS4 is not spoken here, only SOCKS5 and HTTP");
        else if (n > 0 && memcmp(first, CONNECT_WORD, (size_t)n) != 0)
                start_forward(c);
        else if (n == (ssize_t)sizeof(first))
                start_connect(c);
}

static void on_late(evutil_socket_t fd, short what, void *data)
{
        struct connection *c = data;

        if (c->socks)
                connection_free(c);
        else
                refuse(c, 408, EGRESS_MALFORMED, "glovebox: the request did not come in time");
}

void connection_new(struct box *b, int fd)
{
        static const struct timeval deadline = {.tv_sec = EGRESS_HEAD_USEC / 1000000};
        static const int one = 1;
        struct connection *c = calloc(1, sizeof(*c));

        if (!c) {
                safe_close(fd);
                return;
        }
        c->box = b;
        LIST_INSERT_HEAD(&b->connections, c, entry);
        b->ledger->open = ++b->n_connections;
        connections_now++;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        c->client = bufferevent_socket_new(egress_base, fd, 0);
        c->deadline = evtimer_new(egress_base, on_late, c);
        if (!c->client)
                safe_close(fd);
        if (!c->client || !c->deadline || evtimer_add(c->deadline, &deadline) < 0)
                return connection_free(c);
        bufferevent_setcb(c->client, on_words, NULL, on_gone, c);
        bufferevent_setwatermark(c->client, EV_READ, 0, FIRST_BYTES_MAX);
        if (bufferevent_enable(c->client, EV_READ | EV_WRITE) < 0)
                connection_free(c);
}

void connection_judge_again(struct connection *c)
{
        bool stays = c->tunnel ? tunnel_may_stay(c->tunnel) : c->forward ? forward_may_stay(c->forward) : true;

        if (c->tunnel && !stays)
                tunnel_reset(c->tunnel);
        /* What is on its way was judged by the rules of before: it is asked for again. */
        if (c->reach || !stays)
                connection_free(c);
}
