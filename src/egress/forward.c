/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of HTTP, one after another. Each is read strictly, judged by itself, and written anew for the upstream; the answer likewise. Bodies go through in
 * pieces: what one side does not read is not read from the other.
 *
 *   HEAD -> REACH -> ANSWER -> HEAD ...          a request that passes
 *   HEAD -> (REACH) -> DRAIN -> HEAD ...         one that does not; its body is dropped
 *   any  -> LAST -> LINGER -> connection_free()  the connection ends, behind an answer
 *
 * An upstream is kept for the next request to the same host and port, and closed for any other. This file is the client's side. */
#include "egress/forward.h"

#include "base/fd.h"
#include "egress/intercept.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

void forward_deadline(struct forward *f, uint64_t usec)
{
        struct timeval t = {.tv_sec = (time_t)(usec / 1000000), .tv_usec = (suseconds_t)(usec % 1000000)};

        evtimer_add(f->timer, &t);
}

enum http_step forward_feed(struct http_parser *p, struct evbuffer *in, const char **ret_piece, size_t *ret_piece_size, size_t *ret_used)
{
        struct evbuffer_iovec v = {.iov_base = (void *)(uintptr_t) "", .iov_len = 0};

        if (evbuffer_get_length(in) > 0)
                evbuffer_peek(in, -1, NULL, &v, 1);
        return http_parser_feed(p, v.iov_base, v.iov_len, ret_used, ret_piece, ret_piece_size);
}

/* ---- the end ---- */

static enum forward_step linger(struct forward *f)
{
        struct evbuffer *in = bufferevent_get_input(f->c->client);

        if (f->client_ended) {
                connection_free(f->c);
                return FORWARD_GONE;
        }
        f->stage = FORWARD_LINGER;
        intercept_hang_up(f->c->client);
        shutdown(bufferevent_getfd(f->c->client), SHUT_WR);
        /* Closing with something unread would take our words back. */
        evbuffer_drain(in, evbuffer_get_length(in));
        bufferevent_enable(f->c->client, EV_READ);
        forward_deadline(f, LINGER_USEC);
        return FORWARD_WAIT;
}

enum forward_step forward_end(struct forward *f)
{
        upstream_close(f);
        f->stage = FORWARD_LAST;
        f->drained = 0;
        f->c->ending = true;
        forward_deadline(f, EGRESS_HEAD_USEC);
        bufferevent_setwatermark(f->c->client, EV_WRITE, 0, 0);
        return forward_waiting(f->c->client) == 0 ? linger(f) : FORWARD_WAIT;
}

enum forward_step forward_no_memory(struct forward *f)
{
        connection_free(f->c);
        return FORWARD_GONE;
}

enum forward_step forward_stop(struct forward *f)
{
        f->stage = FORWARD_STOPPED;
        evtimer_del(f->timer);
        bufferevent_disable(f->c->client, EV_READ | EV_WRITE);
        upstream_close(f);
        return FORWARD_GONE;
}

enum forward_step forward_next(struct forward *f)
{
        if (f->last)
                return forward_end(f);
        http_parser_reset(&f->request);
        http_parser_reset(&f->answer);
        rules_drop(f->rules);
        f->rules = NULL;
        f->rule = NULL;
        f->row = NULL;
        f->sending = f->answering = f->retried = false;
        f->interim = 0;
        f->stage = FORWARD_HEAD;
        forward_deadline(f, EGRESS_IDLE_USEC);
        return FORWARD_MOVED;
}

/* What is left of a request that nobody wants; small, or the connection ends. */
enum forward_step forward_drain(struct forward *f)
{
        f->stage = FORWARD_DRAIN;
        f->drained = 0;
        forward_deadline(f, EGRESS_HEAD_USEC);
        return FORWARD_MOVED;
}

/* ---- answers of ours ---- */

static enum forward_step answer(struct forward *f, int status, enum egress_decision decision, const char *sentence, bool broken)
{
        const struct http_message *m = f->request.message;
        struct evbuffer *out = bufferevent_get_output(f->c->client);

        if (!m)
                return forward_no_memory(f);
        if (f->answering) { /* too late */
                connection_free(f->c);
                return FORWARD_GONE;
        }
        /* Whoever waits for 100 may send its body or not: one cannot know where the next request begins. */
        f->last = f->last || broken || m->expect_continue || m->content_length > EGRESS_DRAIN_BYTES_MAX;
        evbuffer_add_printf(out, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\nGlovebox-Denied: %s\r\n%s\r\n", status,
                            status_reason(status), strlen(sentence) + 1, egress_decision_word(decision), f->last ? "Connection: close\r\n" : "");
        if (broken || strcmp(http_message_method(m), "HEAD") != 0)
                evbuffer_add_printf(out, "%s\n", sentence);
        f->answering = true;
        return f->last ? forward_end(f) : forward_drain(f);
}

enum forward_step forward_refuse(struct forward *f, int status, enum egress_decision decision, const char *sentence)
{
        return answer(f, status, decision, sentence, false);
}

/* host: "" when it is not known. */
static enum forward_step refuse_malformed(struct forward *f, const struct forward_refusal *no, const char *host, uint16_t port, bool broken)
{
        char sentence[SENTENCE_MAX];
        struct ledger *l = f->c->box->ledger;

        ledger_count(l, ledger_row(l, host, port, no->decision, f->has_fixed ? EGRESS_HTTPS : EGRESS_HTTP, NULL));
        snprintf(sentence, sizeof(sentence), "glovebox: the request was refused: %s.", no->why);
        return answer(f, no->status, no->decision, sentence, broken);
}

static enum forward_step request_broken(struct forward *f)
{
        struct forward_refusal no = {f->request.status, EGRESS_MALFORMED, f->request.why};

        upstream_close(f);
        return refuse_malformed(f, &no, f->has_fixed ? f->fixed.host.text : "", f->has_fixed ? f->fixed.port : 0, true);
}

/* ---- a request ---- */

static enum forward_step take_reached(struct forward *f, struct reached *r)
{
        if (r->decision != EGRESS_ALLOWED) {
                rules_drop(r->rules);
                return forward_refuse(f, r->status, r->decision, r->sentence);
        }
        rules_drop(f->rules);
        f->rules = r->rules;
        f->rule = r->rule;
        f->row = r->row;
        if (r->fd >= 0 && upstream_open(f, r->fd, &f->to.host, f->to.port) < 0) {
                safe_close(r->fd);
                return forward_refuse(f, 502, EGRESS_UNREACHED, "glovebox: the proxy has no memory left.");
        }
        return upstream_send_head(f);
}

static void on_reached(void *data, struct reached *r)
{
        struct forward *f = data;

        if (f->starting) { /* not inside of who has called us: f may go */
                f->reached = *r;
                f->has_reached = true;
        } else if (take_reached(f, r) != FORWARD_GONE) {
                forward_pump(f);
        }
}

/* What is judged of the request under way; it refers to texts of the forwarder. */
static struct egress_request judged(const struct forward *f)
{
        const struct http_message *m = f->request.message;

        return (struct egress_request){
                .host = &f->to.host, .port = f->to.port, .protocol = f->has_fixed ? EGRESS_HTTPS : EGRESS_HTTP,
                .method = http_message_method(m), .path = f->to.path, .has_body = m->chunked || m->content_length > 0,
        };
}

enum forward_step forward_reach(struct forward *f)
{
        struct egress_request q = judged(f);

        if (f->up.events && !f->up.ended && f->up.port == f->to.port && strcmp(f->up.host.text, f->to.host.text) == 0) {
                struct reached r;
                reach_judge(f->c->box, &q, &r);
                return take_reached(f, &r);
        }
        upstream_close(f);
        f->stage = FORWARD_REACH;
        evtimer_del(f->timer); /* who dials has deadlines of its own */
        f->starting = true;
        f->has_reached = false;
        reach_start(f->c->box, &q, &f->c->reach, on_reached, f);
        f->starting = false;
        return f->has_reached ? take_reached(f, &f->reached) : FORWARD_WAIT;
}

static enum forward_step request_begins(struct forward *f)
{
        const struct http_message *m = f->request.message;
        struct forward_refusal no;

        f->request.body_max = UINT64_MAX;
        f->last = m->close;
        if (!forward_read_request(m, f->has_fixed ? &f->fixed : NULL, &f->to, &no))
                return refuse_malformed(f, &no, f->to.host.text, f->to.port, no.status == 400);
        return forward_reach(f);
}

static enum forward_step read_head(struct forward *f)
{
        struct evbuffer *in = bufferevent_get_input(f->c->client);
        bool begun = http_parser_has_begun(&f->request);
        const char *piece;
        size_t size, used;

        /* The answer before this one is still on its way. */
        if (forward_waiting(f->c->client) > EGRESS_BUFFER_BYTES)
                return FORWARD_WAIT;
        if (evbuffer_get_length(in) == 0) {
                if (!f->client_ended)
                        return FORWARD_WAIT;
                f->last = true;
                return forward_end(f);
        }
        if (!begun)
                forward_deadline(f, EGRESS_HEAD_USEC);
        enum http_step step = forward_feed(&f->request, in, &piece, &size, &used);
        evbuffer_drain(in, used);
        if (step == HTTP_HEAD)
                return request_begins(f);
        return step == HTTP_FAILED ? request_broken(f) : FORWARD_MOVED;
}

/* Of the body: to the upstream, or to nobody. */
static enum forward_step read_body(struct forward *f)
{
        struct evbuffer *in = bufferevent_get_input(f->c->client);
        const char *piece;
        size_t size, used;

        if (f->stage == FORWARD_ANSWER && f->up.events && forward_waiting(f->up.events) > EGRESS_BUFFER_BYTES)
                return FORWARD_WAIT;
        enum http_step step = forward_feed(&f->request, in, &piece, &size, &used);
        enum forward_step r = FORWARD_MOVED;
        f->drained += used;
        if (step == HTTP_BODY && f->stage == FORWARD_ANSWER)
                r = upstream_send(f, piece, size);
        else if (step == HTTP_END)
                r = f->stage == FORWARD_ANSWER ? upstream_send_end(f) : forward_next(f);
        else if (step == HTTP_FAILED)
                return f->stage == FORWARD_ANSWER ? request_broken(f) : forward_end(f);
        if (r == FORWARD_GONE)
                return r;
        evbuffer_drain(in, used);
        if (f->stage == FORWARD_DRAIN && f->drained > EGRESS_DRAIN_BYTES_MAX)
                return forward_end(f);
        if (step != HTTP_MORE || used > 0)
                return r;
        if (!f->client_ended)
                return FORWARD_WAIT;
        connection_free(f->c); /* in the middle of its request */
        return FORWARD_GONE;
}

static enum forward_step read_client(struct forward *f)
{
        struct evbuffer *in = bufferevent_get_input(f->c->client);

        switch (f->stage) {
        case FORWARD_HEAD:
                return read_head(f);
        case FORWARD_ANSWER:
                return f->sending ? read_body(f) : FORWARD_WAIT;
        case FORWARD_DRAIN:
                return read_body(f);
        case FORWARD_LAST:
        case FORWARD_LINGER:
                f->drained += evbuffer_get_length(in);
                evbuffer_drain(in, evbuffer_get_length(in));
                if (f->drained <= LINGER_BYTES_MAX && !(f->client_ended && f->stage == FORWARD_LINGER))
                        return FORWARD_WAIT;
                connection_free(f->c);
                return FORWARD_GONE;
        case FORWARD_REACH:
                return FORWARD_WAIT;
        case FORWARD_STOPPED:
                break;
        }
        return FORWARD_GONE;
}

/* Reads on, or not: libevent would call us again and again for what we cannot use now. */
static void watch(struct bufferevent *b, bool ended)
{
        bool full = evbuffer_get_length(bufferevent_get_input(b)) >= FORWARD_READ_MAX, reads = bufferevent_get_enabled(b) & EV_READ;

        if (full && reads)
                bufferevent_disable(b, EV_READ);
        else if (!full && !reads && !ended)
                bufferevent_enable(b, EV_READ);
        intercept_go_on(b);
}

void forward_pump(struct forward *f)
{
        for (;;) {
                enum forward_step up = read_client(f);
                if (up == FORWARD_GONE)
                        return;
                enum forward_step down = f->up.events ? upstream_read(f) : FORWARD_WAIT;
                if (down == FORWARD_GONE)
                        return;
                if (up == FORWARD_WAIT && down == FORWARD_WAIT)
                        break;
        }
        watch(f->c->client, f->client_ended);
        if (f->up.events)
                watch(f->up.events, f->up.ended);
}

/* ---- events ---- */

static void on_client(struct bufferevent *b, void *data)
{
        forward_pump(data);
}

static void on_client_sent(struct bufferevent *b, void *data)
{
        struct forward *f = data;

        if (f->stage == FORWARD_LAST && forward_waiting(b) == 0)
                linger(f);
        else
                forward_pump(f);
}

static void on_client_event(struct bufferevent *b, short what, void *data)
{
        struct forward *f = data;

        if (what & BEV_EVENT_CONNECTED)
                return;
        if (!(what & BEV_EVENT_EOF)) {
                intercept_note_failure(f->c);
                connection_free(f->c);
                return;
        }
        /* It may have closed its side only, and still read. */
        f->client_ended = true;
        if (f->stage == FORWARD_ANSWER)
                forward_deadline(f, EGRESS_HEAD_USEC);
        forward_pump(f);
}

static void on_late(evutil_socket_t fd, short what, void *data)
{
        struct forward *f = data;

        if (f->stage == FORWARD_HEAD && http_parser_has_begun(&f->request)) {
                if (answer(f, 408, EGRESS_MALFORMED, "glovebox: the request did not come in time.", true) != FORWARD_GONE)
                        forward_pump(f);
        } else if (f->stage == FORWARD_ANSWER && !f->answering) {
                if (upstream_late(f) != FORWARD_GONE)
                        forward_pump(f);
        } else {
                connection_free(f->c);
        }
}

int forward_new(struct connection *c, const struct forward_start *start)
{
        struct forward *f = calloc(1, sizeof(*f));

        if (!f)
                return -ENOMEM;
        f->c = c;
        f->timer = evtimer_new(egress_base, on_late, f);
        http_parser_init(&f->request);
        f->request.kind = HTTP_PROXY_REQUEST;
        http_parser_init(&f->answer);
        f->answer.kind = HTTP_ANSWER;
        if (start->fixed) {
                f->has_fixed = true;
                f->fixed = (struct target){.host = *start->fixed, .port = start->port};
        }
        if (!f->timer || (start->reached && upstream_open(f, start->reached->fd, start->fixed, start->port) < 0)) {
                forward_free(f);
                return -ENOMEM;
        }
        if (start->reached) {
                start->reached->fd = -1;
                rules_drop(TAKE_PTR(start->reached->rules)); /* each request is judged by those of its time */
        }
        c->forward = f;
        bufferevent_setcb(c->client, on_client, on_client_sent, on_client_event, f);
        bufferevent_setwatermark(c->client, EV_READ, 0, FORWARD_READ_MAX);
        bufferevent_setwatermark(c->client, EV_WRITE, EGRESS_BUFFER_BYTES / 2, 0);
        bufferevent_enable(c->client, EV_READ | EV_WRITE);
        forward_deadline(f, EGRESS_HEAD_USEC);
        /* From the loop: whoever has called us need not know that the connection may go. */
        bufferevent_trigger(c->client, EV_READ, BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
        return 0;
}

void forward_free(struct forward *f)
{
        if (!f)
                return;
        struct connection *c = f->c;
        if (c->forward == f) {
                reach_cancel(c->reach);
                c->reach = NULL;
                intercept_release(c);
                c->forward = NULL;
        }
        upstream_close(f);
        http_parser_done(&f->request);
        http_parser_done(&f->answer);
        rules_drop(f->rules);
        if (f->timer)
                event_free(f->timer);
        free(f);
}

/* ---- other rules ---- */

bool forward_may_stay(struct forward *f)
{
        const struct egress_rules *rules = f->c->box->rules->rules;
        struct egress_request q = {.host = &f->fixed.host, .port = f->fixed.port, .protocol = EGRESS_HTTPS};

        if (f->has_fixed) {
                struct egress_verdict v = egress_judge(rules, &q);
                if (v.decision != EGRESS_ALLOWED || !v.rule->intercept)
                        return false;
        }
        if (f->stage != FORWARD_ANSWER) {
                upstream_close(f); /* the next request looks at the address again */
                return true;
        }
        q = judged(f);
        return egress_judge(rules, &q).decision == EGRESS_ALLOWED && (!f->up.events || reach_may_keep(bufferevent_getfd(f->up.events), rules));
}
