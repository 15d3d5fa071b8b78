/* SPDX-License-Identifier: Apache-2.0
 *
 * Theory of operation. Each message has a connection of its own, so that an answer never waits for another. A call goes
 *
 *   RUNS -> OVER                    it was answered, or failed
 *   RUNS -> PAUSES -> RUNS          nothing of it was sent: again, a few times; or its stream broke off before the answer was there: it comes back with the id of the
 *                                   last event (GET, Last-Event-ID), and the server goes on from there
 *   RUNS -> WAITS -> RUNS           the server does not know our session: it was restarted, or we were silent for too long. We shake hands as the client has
 *                                   done, and send the call again, once. Nothing of it has run
 *
 * What was sent and lost without an event is never sent again: nobody knows whether it was carried out. */
#include "cli/mcp.h"

#include "base/base64.h"
#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TRIES_MAX 5
#define PAUSE_USEC 100000ULL /* doubled with each try */
#define PRIVATE_END_USEC 500000ULL
#define LISTEN_PAUSE_USEC 1000000ULL
#define LISTEN_PAUSE_MAX_USEC 30000000ULL
#define ACCEPT_BOTH "application/json, text/event-stream"
#define ACCEPT_EVENTS "text/event-stream"
#define HEADER_NAME_MAX 512 /* bytes of a name before it is encoded; the server would refuse it anyway */

/* ---- headers ---- */

static bool is_plain(const char *text)
{
        size_t length = strlen(text);

        for (size_t i = 0; i < length; i++)
                if (text[i] < ' ' || text[i] >= 0x7f)
                        return false;
        /* Spaces at its ends would be lost, and what looks encoded would be decoded. */
        return length > 0 && text[0] != ' ' && text[length - 1] != ' ' && strncmp(text, "=?", 2) != 0;
}

static int add_header(struct buffer *out, const char *name, const char *value)
{
        _cleanup_free_ char *encoded = NULL;
        size_t size;

        if (is_plain(value))
                return buffer_printf(out, "%s: %s\r\n", name, value);
        int r = base64_encode(value, strlen(value), &encoded, &size);
        return r < 0 ? r : buffer_printf(out, "%s: =?base64?%s?=\r\n", name, encoded);
}

static int write_headers(struct bridge *b, struct call *c, struct buffer *out)
{
        const struct message *m = &c->message;
        bool resumes = c->events.id[0], alone = m->version;

        c->session[0] = '\0';
        int r = buffer_add(out, b->headers.data, b->headers.size);
        /* What the client had is lost with the server before, and somebody has to tell it. */
        if (r == 0 && (c->kind == CALL_HANDSHAKE || (alone && b->again)))
                r = buffer_add_string(out, "Glovebox-Again: true\r\n");
        if (r == 0 && alone)
                r = add_header(out, "MCP-Protocol-Version", m->version);
        if (r == 0 && alone && m->method)
                r = add_header(out, "Mcp-Method", m->method);
        if (r == 0 && alone && m->name && strlen(m->name) <= HEADER_NAME_MAX)
                r = add_header(out, "Mcp-Name", m->name);
        /* A handshake begins without what one before has left. */
        if (r == 0 && !alone && c->kind != CALL_HANDSHAKE && !message_is(m, "initialize")) {
                if (b->version[0])
                        r = buffer_printf(out, "MCP-Protocol-Version: %s\r\n", b->version);
                if (r == 0 && b->session[0])
                        r = buffer_printf(out, "Mcp-Session-Id: %s\r\n", b->session);
                snprintf(c->session, sizeof(c->session), "%s", b->session);
        }
        if (r == 0 && resumes)
                r = buffer_printf(out, "Last-Event-ID: %s\r\n", c->events.id);
        return r;
}

/* ---- life ---- */

static bool has_id(const struct call *c)
{
        return c->kind == CALL_REQUEST;
}

struct call *call_new(struct bridge *b, enum call_kind kind, struct message *message)
{
        struct call *c = calloc(1, sizeof(*c));

        if (!c) {
                if (message && message->id)
                        answer_error(b, message->id, MCP_INTERNAL, "out of memory");
                if (message)
                        message_done(message);
                return NULL;
        }
        c->kind = kind;
        if (message) {
                c->message = *message;
                *message = (struct message){0};
        }
        client_init(&c->client, &b->address, b->token);
        c->client.head.secret = true;
        event_reader_init(&c->events, 2 * MCP_MESSAGE_BYTES_MAX);
        c->began_usec = monotonic_usec();
        /* Nobody waits for a run that the server takes its time for; what only needs to be taken is another matter. */
        if (kind != CALL_REQUEST && kind != CALL_LISTEN)
                c->deadline_usec = c->began_usec + CLIENT_ANSWER_USEC;
        c->next = b->calls;
        b->calls = c;
        b->n_requests += has_id(c);
        return c;
}

static void call_free(struct call *c)
{
        client_done(&c->client);
        event_reader_done(&c->events);
        message_done(&c->message);
        free(c);
}

void calls_tidy(struct bridge *b)
{
        for (struct call **at = &b->calls; *at;) {
                struct call *c = *at;
                if (c->state != CALL_OVER) {
                        at = &c->next;
                        continue;
                }
                *at = c->next;
                b->n_requests -= has_id(c);
                call_free(c);
        }
}

void calls_free(struct bridge *b)
{
        for (struct call *c = b->calls; c; c = c->next)
                c->state = CALL_OVER;
        calls_tidy(b);
}

struct call *call_find(struct bridge *b, const json_t *id)
{
        for (struct call *c = b->calls; c; c = c->next)
                if (c->kind == CALL_REQUEST && c->state != CALL_OVER && !c->answered && json_equal(c->message.id, id))
                        return c;
        return NULL;
}

void call_cancel(struct call *c)
{
        c->silent = true;
        if (c->message.version || c->state != CALL_RUNS)
                c->state = CALL_OVER;
}

static void tell_once(struct bridge *b, const struct call *c, const char *why)
{
        if (b->told_refused)
                return;
        b->told_refused = true;
        message_print(MESSAGE_WARNING, "%s was not taken: %s", c->message.method ? c->message.method : "an answer of the client", why);
}

void call_fail(struct bridge *b, struct call *c, const char *why)
{
        c->state = CALL_OVER;
        switch (c->kind) {
        case CALL_REQUEST:
                if (!c->answered && !c->silent)
                        answer_error(b, c->message.id, MCP_INTERNAL, "%s", why);
                break;
        case CALL_NOTIFICATION:
                tell_once(b, c, why);
                break;
        case CALL_HANDSHAKE:
        case CALL_INITIALIZED:
                answer_no_handshake(b, why);
                break;
        case CALL_LISTEN:
        case CALL_FORGET:
                break;
        }
}

/* ---- what goes wrong ---- */

static void pause_call(struct call *c, uint64_t usec)
{
        c->state = CALL_PAUSES;
        c->again_usec = monotonic_usec() + usec;
}

static void fail_broken(struct bridge *b, struct call *c)
{
        const char *cause = c->why.message[0] ? c->why.message : "its answer ended too early";
        char why[sizeof(c->why.message) + 128];

        snprintf(why, sizeof(why), !c->sent ? "the server is not there, nothing was run: %s" : "the server was lost, what it did of this call is not known: %s", cause);
        call_fail(b, c, why);
}

/* Whether the rest of its answer can be fetched. Ids of events are those of a session: in another one they would be somebody else's. */
static bool can_resume(const struct bridge *b, const struct call *c)
{
        return c->events.id[0] && !c->message.version && !message_is(&c->message, "initialize") && c->kind != CALL_HANDSHAKE &&
               b->handshake == HANDSHAKE_DONE && strcmp(c->session, b->session) == 0;
}

/* The connection is gone, or could not be made, and the answer is not there. */
static void on_broken(struct bridge *b, struct call *c)
{
        uint64_t pause = PAUSE_USEC << MIN(c->tries, 10U);
        bool unsent = c->why.code == GB_E_UNAVAILABLE && !c->sent, resumes = can_resume(b, c);

        if (c->answered || c->silent || c->kind == CALL_FORGET) {
                c->state = CALL_OVER;
                return;
        }
        if (c->kind == CALL_LISTEN) {
                uint64_t usec = MAX(c->events.retry_usec, (uint64_t)LISTEN_PAUSE_USEC) << MIN(c->tries, 10U);
                c->tries++;
                pause_call(c, MIN(usec, (uint64_t)LISTEN_PAUSE_MAX_USEC));
                return;
        }
        if ((unsent || resumes) && c->tries++ < TRIES_MAX) {
                pause_call(c, resumes ? MAX(c->events.retry_usec, pause) : pause);
                return;
        }
        if (b->is_private) {
                /* Its end will show in a moment, and how it came. */
                c->lost = true;
                pause_call(c, PRIVATE_END_USEC);
                return;
        }
        fail_broken(b, c);
}

/* ---- progress ---- */

struct taking {
        struct bridge *bridge;
        struct call *call;
};

static int take_event(void *data, const char *text, size_t size)
{
        struct taking *t = data;

        t->call->tries = 0;
        return answer_take(t->bridge, t->call, text, size);
}

static void take_stream(struct bridge *b, struct call *c)
{
        struct taking t = {b, c};
        size_t size;
        const char *data = client_data(&c->client, &size);

        if (size == 0)
                return;
        int r = event_reader_take(&c->events, data, size, take_event, &t);
        client_take(&c->client, size);
        if (r < 0 && c->state != CALL_OVER)
                call_fail(b, c, r == -EFBIG ? "the server's answer is too large" : r == -ENOMEM ? "out of memory" : "the server's answer is not understood");
}

static bool is_stream(const struct call *c)
{
        const struct response *r = &c->client.response;

        return r->status == 200 && strcmp(r->type, "text/event-stream") == 0;
}

/* Whether the stream is what it should be; false: it was dealt with. */
static bool begin_stream(struct bridge *b, struct call *c)
{
        if (is_stream(c)) {
                c->streams = true;
                if (c->kind == CALL_LISTEN)
                        c->tries = 0;
                return true;
        }
        /* Whatever it is: there is no such stream, or it is another's. */
        if (c->kind == CALL_LISTEN)
                c->state = CALL_OVER;
        else if (c->events.id[0])
                call_fail(b, c, "the server was lost, and does not know any more what came of this call");
        return c->state == CALL_RUNS;
}

void call_step(struct bridge *b, struct call *c)
{
        int r = client_step(&c->client, &c->why);

        c->sent = c->sent || c->client.head_sent > 0;
        if (r < 0 && !c->streams && !is_stream(c)) {
                on_broken(b, c);
                return;
        }
        if (r == 0 && !client_has_head(&c->client))
                return;
        if (!c->streams && !begin_stream(b, c))
                return;
        if (c->streams)
                take_stream(b, c);
        if (c->state != CALL_RUNS)
                return;
        if (c->streams && (r < 0 || client_is_done(&c->client)))
                on_broken(b, c); /* or it was the end: the answer is there */
        else if (client_is_done(&c->client))
                answer_body(b, c);
}

void call_begin(struct bridge *b, struct call *c)
{
        _cleanup_buffer_ struct buffer headers;
        bool posts = c->kind != CALL_LISTEN && c->kind != CALL_FORGET && !c->events.id[0];
        struct client_request request = {
                .method = posts ? "POST" : c->kind == CALL_FORGET ? "DELETE" : "GET",
                .target = MCP_TARGET,
                .accept = posts ? ACCEPT_BOTH : ACCEPT_EVENTS,
                .type = posts ? "application/json" : NULL,
                .body = posts ? c->message.text : NULL,
                .body_size = posts ? c->message.size : 0,
                .body_fd = -1,
        };

        buffer_init(&headers, CLIENT_HEAD_BYTES_MAX);
        headers.secret = true;
        c->state = CALL_RUNS;
        c->streams = false;
        event_reader_restart(&c->events);
        if (write_headers(b, c, &headers) < 0) {
                call_fail(b, c, "the headers of the request are too long");
                return;
        }
        request.headers = headers.data;
        c->client.address = b->address; /* a private server may be another one by now */
        c->why = (gb_error){0};
        if (client_start(&c->client, &request, &c->why) < 0)
                on_broken(b, c);
        else
                call_step(b, c);
}

uint64_t call_time(const struct call *c)
{
        if (c->state == CALL_PAUSES)
                return c->again_usec;
        return c->state == CALL_RUNS && c->deadline_usec ? c->deadline_usec : UINT64_MAX;
}

void call_look(struct bridge *b, struct call *c, uint64_t now)
{
        if (call_time(c) > now)
                return;
        if (c->state == CALL_PAUSES && (c->lost || (c->events.id[0] && c->kind != CALL_LISTEN && !can_resume(b, c))))
                fail_broken(b, c); /* there may have been another handshake meanwhile */
        else if (c->state == CALL_PAUSES)
                call_begin(b, c);
        else
                call_fail(b, c, "the server does not answer");
}
