/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of HTTP, the upstream's side. What an upstream says is no more trusted than what a client says: a head that can be read in two ways is never passed on, and
 * whatever comes without having been asked for ends the connection to it. */
#include "egress/forward.h"

#include "egress/intercept.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* ---- the connection ---- */

void upstream_close(struct forward *f)
{
        if (!f->up.events)
                return;
        intercept_hang_up(f->up.events);
        events_free(f->up.events);
        f->up = (struct upstream){0};
}

static void on_bytes(struct bufferevent *b, void *data)
{
        forward_pump(data);
}

static void on_event(struct bufferevent *b, short what, void *data)
{
        struct forward *f = data;

        if (what & BEV_EVENT_CONNECTED) {
                f->up.opening = false;
                if (f->stage == FORWARD_ANSWER)
                        forward_deadline(f, EGRESS_ANSWER_USEC);
        } else if (what & BEV_EVENT_EOF) {
                f->up.ended = f->up.clean = true;
        } else if ((what & BEV_EVENT_WRITING) && !f->has_fixed) {
                /* It reads no more, but may have said why. */
                f->up.deaf = true;
                evbuffer_drain(bufferevent_get_output(b), forward_waiting(b));
        } else {
                intercept_explain(b, f->up.problem, sizeof(f->up.problem));
                f->up.ended = true;
        }
        forward_pump(f);
}

int upstream_open(struct forward *f, int fd, const struct host *host, uint16_t port)
{
        struct bufferevent *b = NULL;

        if (f->has_fixed) {
                int r = intercept_upstream(fd, host, &b);
                if (r < 0)
                        return r;
        } else {
                b = bufferevent_socket_new(egress_base, fd, BEV_OPT_CLOSE_ON_FREE);
                if (!b)
                        return -ENOMEM;
        }
        upstream_close(f);
        f->up = (struct upstream){.events = b, .host = *host, .port = port, .opening = f->has_fixed};
        bufferevent_setcb(b, on_bytes, on_bytes, on_event, f);
        bufferevent_setwatermark(b, EV_READ, 0, FORWARD_READ_MAX);
        bufferevent_setwatermark(b, EV_WRITE, EGRESS_BUFFER_BYTES / 2, 0);
        bufferevent_enable(b, EV_READ | EV_WRITE);
        return 0;
}

/* ---- up ---- */

static enum forward_step write_up(struct forward *f, const void *bytes, size_t size)
{
        if (!f->up.events || f->up.deaf || size == 0)
                return FORWARD_MOVED;
        if (evbuffer_add(bufferevent_get_output(f->up.events), bytes, size) < 0)
                return forward_no_memory(f);
        return box_count(f->c->box, f->row, size, 0) < 0 ? forward_stop(f) : FORWARD_MOVED;
}

enum forward_step upstream_send_head(struct forward *f)
{
        const struct http_message *m = f->request.message;
        _cleanup_buffer_ struct buffer head = {0};

        buffer_init(&head, FORWARD_HEAD_MAX);
        head.secret = true;
        bool limited = f->rule->methods > 0 || f->rule->paths > 0;
        if (forward_write_request(m, &f->to, f->has_fixed ? HTTPS_USUAL_PORT : HTTP_USUAL_PORT, egress_text(f->rules->rules, f->rule->headers), limited, &head) < 0)
                return forward_refuse(f, 502, EGRESS_UNREACHED, "glovebox: the proxy has no memory left.");
        f->stage = FORWARD_ANSWER;
        f->sending = true;
        f->answer.no_body = strcmp(http_message_method(m), "HEAD") == 0;
        forward_deadline(f, f->up.opening ? EGRESS_HEAD_USEC : EGRESS_ANSWER_USEC);
        return write_up(f, head.data, head.size);
}

/* There is life. */
static void note_progress(struct forward *f)
{
        if (f->answering)
                forward_deadline(f, f->client_ended ? EGRESS_HEAD_USEC : EGRESS_IDLE_USEC);
        else if (!f->up.opening && !http_parser_has_begun(&f->answer))
                forward_deadline(f, EGRESS_ANSWER_USEC);
}

enum forward_step upstream_send(struct forward *f, const char *piece, size_t size)
{
        char line[32];

        note_progress(f);
        if (!f->request.message->chunked)
                return write_up(f, piece, size);
        int n = snprintf(line, sizeof(line), "%zx\r\n", size);
        enum forward_step r = write_up(f, line, (size_t)n);
        if (r != FORWARD_GONE)
                r = write_up(f, piece, size);
        return r != FORWARD_GONE ? write_up(f, "\r\n", 2) : r;
}

enum forward_step upstream_send_end(struct forward *f)
{
        f->sending = false;
        return f->request.message->chunked ? write_up(f, "0\r\n\r\n", 5) : FORWARD_MOVED;
}

/* ---- what goes wrong ---- */

/* The client must see that its answer is not whole. */
static enum forward_step cut(struct forward *f)
{
        static const struct linger at_once = {.l_onoff = 1};

        upstream_close(f);
        if (f->framing != FRAMING_CLOSE)
                return forward_end(f); /* a chunk or some bytes are missing */
        setsockopt(bufferevent_getfd(f->c->client), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        connection_free(f->c);
        return FORWARD_GONE;
}

static enum forward_step fail(struct forward *f, int status, const char *what, const char *why)
{
        char sentence[SENTENCE_MAX];

        if (f->answering)
                return cut(f);
        snprintf(sentence, sizeof(sentence), "glovebox: %s %s%s%s.", f->to.host.text, what, why[0] ? ": " : "", why);
        upstream_close(f);
        return forward_refuse(f, status, EGRESS_UNREACHED, sentence);
}

enum forward_step upstream_late(struct forward *f)
{
        return fail(f, 504, "has not answered in time", "");
}

/* A connection that is kept may be closed just when the next request is sent: that one has not been read. */
static bool may_retry(const struct forward *f)
{
        const char *method = http_message_method(f->request.message);
        const struct http_message *m = f->request.message;

        return f->up.answered && !f->retried && !f->client_ended && !http_parser_has_begun(&f->answer) && !m->chunked && m->content_length == 0 &&
               (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 || strcmp(method, "OPTIONS") == 0);
}

static enum forward_step answer_done(struct forward *f);

static enum forward_step upstream_ended(struct forward *f)
{
        char problem[sizeof(f->up.problem)];

        if (f->answering && f->up.clean && http_parser_close(&f->answer))
                return answer_done(f);
        if (may_retry(f)) {
                upstream_close(f);
                f->retried = true;
                f->sending = false;
                return forward_reach(f);
        }
        memcpy(problem, f->up.problem, sizeof(problem)); /* it goes with the connection */
        if (f->up.opening)
                return fail(f, 502, "could not be spoken to with TLS", problem);
        return fail(f, 502, "has closed the connection without a whole answer", problem);
}

/* ---- down ---- */

static enum forward_step interim_head(struct forward *f)
{
        const struct http_message *m = f->answer.message;

        if (m->status == 101)
                return fail(f, 502, "wants to speak another protocol", "");
        if (++f->interim > EGRESS_INTERIM_MAX)
                return fail(f, 502, "does not come to its answer", "");
        if (m->status == 100 && f->request.message->expect_continue)
                evbuffer_add_printf(bufferevent_get_output(f->c->client), "HTTP/1.1 100 Continue\r\n\r\n");
        return FORWARD_MOVED;
}

static enum forward_step answer_head(struct forward *f)
{
        const struct http_message *m = f->answer.message;
        _cleanup_buffer_ struct buffer head = {0};

        f->answer.body_max = UINT64_MAX;
        if (m->status < 200)
                return interim_head(f);
        buffer_init(&head, FORWARD_HEAD_MAX);
        f->framing = forward_answer_framing(f->request.message, m);
        f->last = f->last || f->framing == FRAMING_CLOSE;
        if (forward_write_answer(f->request.message, m, f->last, &head) < 0)
                return fail(f, 502, "has sent an answer for which the proxy has no memory", "");
        if (bufferevent_write(f->c->client, head.data, head.size) < 0)
                return forward_no_memory(f);
        f->answering = true;
        note_progress(f);
        return FORWARD_MOVED;
}

static enum forward_step answer_body(struct forward *f, const char *piece, size_t size)
{
        struct evbuffer *out = bufferevent_get_output(f->c->client);

        note_progress(f);
        if (f->framing == FRAMING_CHUNKED)
                evbuffer_add_printf(out, "%zx\r\n", size);
        if (evbuffer_add(out, piece, size) < 0)
                return forward_no_memory(f);
        if (f->framing == FRAMING_CHUNKED)
                evbuffer_add(out, "\r\n", 2);
        return FORWARD_MOVED;
}

static enum forward_step answer_done(struct forward *f)
{
        const struct http_message *m = f->answer.message;
        bool no_body = f->answer.no_body;

        if (m->status < 200) {
                http_parser_reset(&f->answer);
                f->answer.no_body = no_body;
                forward_deadline(f, EGRESS_ANSWER_USEC);
                return FORWARD_MOVED;
        }
        if (f->framing == FRAMING_CHUNKED)
                evbuffer_add(bufferevent_get_output(f->c->client), "0\r\n\r\n", 5);
        if (f->up.events) {
                f->up.answered = true;
                /* What is there already answers nothing. */
                if (m->close || f->request.message->close || f->sending || f->up.ended || f->up.deaf || evbuffer_get_length(bufferevent_get_input(f->up.events)) > 0)
                        upstream_close(f);
        }
        if (f->last || !f->sending)
                return forward_next(f);
        if (f->request.message->expect_continue)
                return forward_end(f);
        return forward_drain(f);
}

enum forward_step upstream_read(struct forward *f)
{
        struct evbuffer *in = bufferevent_get_input(f->up.events);
        bool begun = http_parser_has_begun(&f->answer);
        const char *piece;
        size_t size, used;

        if (f->stage != FORWARD_ANSWER) {
                if (f->up.ended || evbuffer_get_length(in) > 0)
                        upstream_close(f);
                return FORWARD_WAIT;
        }
        if (forward_waiting(f->c->client) > EGRESS_BUFFER_BYTES)
                return FORWARD_WAIT;
        enum http_step step = forward_feed(&f->answer, in, &piece, &size, &used);
        if (used > 0 && box_count(f->c->box, f->row, 0, used) < 0)
                return forward_stop(f);
        if (!begun && used > 0 && !f->answering)
                forward_deadline(f, EGRESS_HEAD_USEC);
        enum forward_step r = step == HTTP_BODY ? answer_body(f, piece, size) : FORWARD_MOVED;
        if (r == FORWARD_GONE)
                return r;
        evbuffer_drain(in, used);
        switch (step) {
        case HTTP_HEAD:
                return answer_head(f);
        case HTTP_END:
                return answer_done(f);
        case HTTP_FAILED:
                return fail(f, 502, "has sent an answer that cannot be read in one way only", f->answer.why);
        case HTTP_MORE:
                if (used > 0)
                        return FORWARD_MOVED;
                return f->up.ended ? upstream_ended(f) : FORWARD_WAIT;
        case HTTP_BODY:
                break;
        }
        return FORWARD_MOVED;
}
