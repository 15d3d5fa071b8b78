/* SPDX-License-Identifier: Apache-2.0
 *
 * Who works on a call writes its events, and nobody else does: first to the stream, where they are kept, then to the connection that the request came by, as
 * long as that lives. Who asks for the rest of a stream later reads what is kept, and waits for more.
 *
 * The stream with the number 0 has what belongs to no request: changes of resources. It is written by the thread of the GET that reads it, so without one
 * nobody looks for changes. */
#include "server/mcp_stream.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/quote.h"
#include "server/reply.h"
#include "server/reply_state.h"
#include "server/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RETRY_MSEC 1000
#define EVENT_ID_MAX 48
#define SUBSCRIPTION "io.modelcontextprotocol/subscriptionId"

struct mcp_event {
        char *text; /* the message, printed */
        size_t size;
};

struct mcp_stream {
        uint64_t number;
        struct mcp_event *events; /* those that are kept: n from `start` on, of which the first has the place `first` */
        size_t start, n, allocated;
        uint64_t first;
        bool done, kept;
        uint64_t done_usec;
        unsigned readers;
        uint64_t turn; /* of who reads it: one that comes back takes the place of the one before */
        bool gone; /* its own connection is */
        struct mcp_stream *next;
};

/* ---- what is kept; with the client's lock ---- */

static void drop_first(struct mcp_client *c, struct mcp_stream *s)
{
        struct mcp_event *e = &s->events[s->start++];

        c->kept_bytes -= e->size;
        atomic_fetch_sub(mcp_kept_bytes(c->mcp), e->size);
        free(TAKE_PTR(e->text));
        s->n--;
        s->first++;
}

static void stream_free(struct mcp_client *c, struct mcp_stream *s)
{
        while (s->n > 0)
                drop_first(c, s);
        free(s->events);
        free(s);
}

static void take_out(struct mcp_client *c, struct mcp_stream *s)
{
        for (struct mcp_stream **at = &c->streams; *at; at = &(*at)->next)
                if (*at == s) {
                        *at = s->next;
                        c->n_streams--;
                        break;
                }
        stream_free(c, s);
}

/* The oldest that has ended and that nobody reads. */
static struct mcp_stream *oldest_done(const struct mcp_client *c)
{
        struct mcp_stream *oldest = NULL;

        for (struct mcp_stream *s = c->streams; s; s = s->next)
                if (s->done && s->readers == 0)
                        oldest = s;
        return oldest;
}

static bool is_full(const struct mcp_client *c, size_t more)
{
        return c->kept_bytes + more > MCP_EVENTS_BYTES_MAX || *mcp_kept_bytes(c->mcp) + more > MCP_KEPT_BYTES_MAX;
}

/* A place for one more; what was dropped is used again when it is half of all. */
static bool has_place(struct mcp_stream *s)
{
        if (s->start + s->n < s->allocated)
                return true;
        if (s->start > s->n) {
                memmove(s->events, s->events + s->start, s->n * sizeof(*s->events));
                s->start = 0;
                return true;
        }
        size_t wanted = s->allocated ? 2 * s->allocated : 8;
        struct mcp_event *more = realloc(s->events, wanted * sizeof(*more));
        if (!more)
                return false;
        s->events = more;
        s->allocated = wanted;
        return true;
}

static void trim(struct mcp_client *c, size_t more)
{
        uint64_t now = monotonic_usec();
        struct mcp_stream *s;

        while ((s = oldest_done(c)) && (is_full(c, more) || c->n_streams > MCP_STREAMS_MAX || now - s->done_usec > MCP_STREAM_KEPT_USEC))
                take_out(c, s);
}

/* Takes the text. What finds no room is not kept, and then nothing before it is either: nobody gets a stream with a hole. */
static void keep(struct mcp_client *c, struct mcp_stream *s, char *text, size_t size)
{
        trim(c, size);
        while (is_full(c, size) && s->n > 0)
                drop_first(c, s);
        if (is_full(c, size) || !has_place(s)) {
                while (s->n > 0)
                        drop_first(c, s);
                s->first++;
                free(text);
                return;
        }
        s->events[s->start + s->n++] = (struct mcp_event){text, size};
        c->kept_bytes += size;
        atomic_fetch_add(mcp_kept_bytes(c->mcp), size);
}

void mcp_streams_trim(struct mcp_client *c)
{
        trim(c, 0);
}

void mcp_streams_free(struct mcp_client *c)
{
        while (c->streams)
                take_out(c, c->streams);
}

static struct mcp_stream *find(struct mcp_client *c, uint64_t number)
{
        for (struct mcp_stream *s = c->streams; s; s = s->next)
                if (s->number == number)
                        return s;
        return NULL;
}

static struct mcp_stream *stream_new(struct mcp_client *c, uint64_t number)
{
        struct mcp_stream *s = calloc(1, sizeof(*s));

        if (!s)
                return NULL;
        s->number = number;
        s->kept = true;
        s->next = c->streams;
        c->streams = s;
        c->n_streams++;
        return s;
}

/* ---- to a connection ---- */

static int write_event(struct request *r, const char *id, const char *text)
{
        _cleanup_free_ char *whole = NULL;
        int n = asprintf(&whole, "%s%s%sevent: message\ndata: %s\n\n", id ? "id: " : "", id ? id : "", id ? "\n" : "", text);

        if (n < 0) {
                whole = NULL;
                reply_abort(r);
                return -EPIPE;
        }
        return reply_write(r, whole, (size_t)n);
}

static void event_id(char ret[static EVENT_ID_MAX], uint64_t number, uint64_t place)
{
        snprintf(ret, EVENT_ID_MAX, "%llu-%llu", (unsigned long long)number, (unsigned long long)place);
}

/* An event with an id and nothing in it: who loses the connection from now on knows where to come back to. */
static int write_prime(struct request *r, uint64_t number)
{
        char text[EVENT_ID_MAX + 64];
        int n = snprintf(text, sizeof(text), "id: %llu-start\nretry: %d\ndata: \n\n", (unsigned long long)number, RETRY_MSEC);

        return reply_write(r, text, (size_t)n);
}

static int begin(struct request *r)
{
        r->answer = ANSWER_SSE;
        return reply_stream_begin(r);
}

/* ---- the stream of an answer ---- */

int mcp_stream_open(struct mcp_call *c)
{
        struct mcp_client *client = c->era == MCP_HANDSHAKE ? c->client : NULL;
        struct mcp_stream *s;

        if (client) {
                pthread_mutex_lock(&client->lock);
                s = stream_new(client, client->next_stream++);
                pthread_mutex_unlock(&client->lock);
        } else {
                s = calloc(1, sizeof(*s));
        }
        if (!s)
                return -ENOMEM;
        c->stream = s;
        s->gone = begin(c->request) < 0;
        if (!s->gone && client && mcp_version_primes(client->version))
                s->gone = write_prime(c->request, s->number) < 0;
        return 0;
}

/* The place of the event, when it was kept. */
static void keep_event(struct mcp_client *c, struct mcp_stream *s, const char *text, char ret_id[static EVENT_ID_MAX])
{
        char *copy = strdup(text);

        pthread_mutex_lock(&c->lock);
        event_id(ret_id, s->number, s->first + s->n);
        if (copy)
                keep(c, s, copy, strlen(copy));
        pthread_cond_broadcast(&c->changed);
        pthread_mutex_unlock(&c->lock);
}

void mcp_stream_send(struct mcp_call *c, json_t *message)
{
        struct mcp_stream *s = c->stream;
        bool wanted = s->kept || !s->gone;
        _cleanup_free_ char *text = wanted ? json_print(message, REPLY_JSON_FLAGS) : NULL;
        char id[EVENT_ID_MAX];

        json_decref(message);
        if (!wanted)
                return;
        if (!text) {
                s->gone = true;
                reply_abort(c->request);
                return;
        }
        if (s->kept)
                keep_event(c->client, s, text, id);
        if (!s->gone)
                s->gone = write_event(c->request, s->kept ? id : NULL, text) < 0;
}

void mcp_stream_ping(struct mcp_call *c)
{
        if (c->stream && !c->stream->gone)
                c->stream->gone = reply_stream_ping(c->request) < 0;
}

void mcp_stream_end(struct mcp_call *c)
{
        struct mcp_stream *s = TAKE_PTR(c->stream);
        bool gone = s->gone;

        if (s->kept) {
                pthread_mutex_lock(&c->client->lock);
                s->done = true;
                s->done_usec = monotonic_usec();
                trim(c->client, 0);
                pthread_cond_broadcast(&c->client->changed);
                pthread_mutex_unlock(&c->client->lock);
        } else {
                free(s);
        }
        if (gone)
                reply_abort(c->request);
        else
                (void)reply_end(c->request);
}

/* ---- what is told on the way ---- */

void mcp_progress(struct mcp_call *c, const char *message, size_t size)
{
        json_t *token = mcp_progress_token(&c->message);

        if (!c->stream || !token)
                return;
        json_t *params = json_pack("{s:O, s:I}", "progressToken", token, "progress", (json_int_t)++c->progress);
        if (size > 0 && json_object_set_new(params, "message", json_readable(message, size)) < 0) {
                json_decref(params);
                params = NULL;
        }
        if (params)
                mcp_stream_send(c, rpc_notification("notifications/progress", params));
}

void mcp_log(struct mcp_call *c, enum mcp_level level, json_t *data)
{
        if (!c->stream || !data || c->log_level < 0 || (int)level < c->log_level) {
                json_decref(data);
                return;
        }
        json_t *params = json_pack("{s:s, s:s, s:o}", "level", mcp_level_name(level), "logger", "glovebox", "data", data);
        if (params)
                mcp_stream_send(c, rpc_notification("notifications/message", params));
}

bool mcp_is_cancelled(struct mcp_call *c)
{
        /* Who shook hands may come back for the answer; nobody else can. */
        if (c->era == MCP_STATELESS && !c->cancelled && (request_is_gone(c->request) || (c->stream && c->stream->gone)))
                c->cancelled = true;
        return c->cancelled;
}

/* ---- coming back ---- */

/* "3-5", "3-start": the stream and the place of the next event. */
static int parse_id(const char *text, uint64_t *ret_number, uint64_t *ret_place)
{
        const char *dash = strchr(text, '-');
        char number[24];
        uint64_t place = 0;

        if (!dash || (size_t)(dash - text) >= sizeof(number))
                return -EINVAL;
        memcpy(number, text, (size_t)(dash - text));
        number[dash - text] = '\0';
        bool begins = strcmp(dash + 1, "start") == 0;
        if (parse_count(number, ret_number) < 0 || (!begins && (parse_count(dash + 1, &place) < 0 || place == UINT64_MAX)))
                return -EINVAL;
        *ret_place = begins ? 0 : place + 1;
        return 0;
}

static void wait_changed(struct mcp_client *c, uint64_t usec)
{
        uint64_t at = monotonic_usec() + usec;
        struct timespec until = {.tv_sec = (time_t)(at / 1000000), .tv_nsec = (long)(at % 1000000) * 1000};

        (void)pthread_cond_timedwait(&c->changed, &c->lock, &until);
}

static bool is_over(struct request *r, struct mcp_client *c)
{
        return request_is_gone(r) || r->server->state == SERVER_DRAINING || mcp_client_is_ended(c);
}

/* A copy of the event at this place. 1; 0: there is none yet; -ENOENT: it is not there any more. With the lock. */
static int event_at(const struct mcp_stream *s, uint64_t place, char **ret)
{
        if (place < s->first)
                return -ENOENT;
        if (place - s->first >= s->n)
                return 0;
        *ret = strdup(s->events[s->start + (place - s->first)].text);
        return *ret ? 1 : -ENOMEM;
}

/* Sends what is kept from a place on. 0: all of it that there is; negative: it is over. */
static int send_kept(struct request *r, struct mcp_client *c, struct mcp_stream *s, uint64_t *place)
{
        for (;;) {
                _cleanup_free_ char *text = NULL;
                char id[EVENT_ID_MAX];
                pthread_mutex_lock(&c->lock);
                int found = event_at(s, *place, &text);
                pthread_mutex_unlock(&c->lock);
                if (found <= 0)
                        return found;
                event_id(id, s->number, (*place)++);
                if (write_event(r, id, text) < 0)
                        return -EPIPE;
        }
}

/* The rest of an answer. */
static void follow_answer(struct request *r, struct mcp_client *c, struct mcp_stream *s, uint64_t place)
{
        uint64_t ping = monotonic_usec() + FOLLOW_PING_USEC;
        int status = begin(r);

        while (status == 0 && !is_over(r, c)) {
                pthread_mutex_lock(&c->lock);
                bool done = s->done;
                if (!done && place - s->first >= s->n)
                        wait_changed(c, MCP_LOOK_USEC);
                pthread_mutex_unlock(&c->lock);
                status = send_kept(r, c, s, &place);
                if (status == 0 && done)
                        break;
                if (status == 0 && monotonic_usec() >= ping) {
                        status = reply_stream_ping(r);
                        ping = monotonic_usec() + FOLLOW_PING_USEC;
                }
        }
        if (status == 0)
                (void)reply_end(r);
        else
                reply_abort(r);
}

/* Looks for changes and keeps what is to be told of them. */
static int look(struct request *r, struct mcp_client *c, struct mcp_stream *s)
{
        _cleanup_json_ json_t *news = mcp_changes(c, r->server, &r->caller);
        char id[EVENT_ID_MAX];
        size_t i;
        json_t *message;

        if (!news)
                return -ENOMEM;
        json_array_foreach(news, i, message) {
                _cleanup_free_ char *text = json_print(message, REPLY_JSON_FLAGS);
                if (!text)
                        return -ENOMEM;
                keep_event(c, s, text, id);
        }
        return 0;
}

/* Somebody else has taken the place. */
static bool is_replaced(struct mcp_client *c, const struct mcp_stream *s, uint64_t turn)
{
        pthread_mutex_lock(&c->lock);
        bool replaced = s->turn != turn;
        pthread_mutex_unlock(&c->lock);
        return replaced;
}

static void follow_rest(struct request *r, struct mcp_client *c, struct mcp_stream *s, uint64_t turn, uint64_t place, bool resumes)
{
        uint64_t ping = monotonic_usec() + FOLLOW_PING_USEC;
        int status = begin(r);

        if (status == 0 && !resumes && mcp_version_primes(c->version))
                status = write_prime(r, 0);
        while (status == 0 && !is_over(r, c) && !is_replaced(c, s, turn)) {
                status = look(r, c, s);
                if (status == 0)
                        status = send_kept(r, c, s, &place);
                if (status == -ENOENT) { /* there was too much; from here on all is told again */
                        pthread_mutex_lock(&c->lock);
                        place = s->first;
                        pthread_mutex_unlock(&c->lock);
                        status = 0;
                }
                if (status == 0 && monotonic_usec() >= ping) {
                        status = reply_stream_ping(r);
                        ping = monotonic_usec() + FOLLOW_PING_USEC;
                }
                pthread_mutex_lock(&c->lock);
                wait_changed(c, MCP_LOOK_USEC);
                pthread_mutex_unlock(&c->lock);
        }
        if (status == 0)
                (void)reply_end(r);
        else
                reply_abort(r);
}

static void refuse(struct request *r, int status, int code, const char *message)
{
        _cleanup_rpc_error_ struct rpc_error e = {0};

        (void)rpc_fail(&e, code, "%s", message);
        reply_json(r, status, rpc_error_to_json(NULL, &e));
}

/* There is one at a time. One that comes back takes the place of the one before, whose end nobody has noticed yet. */
static bool begin_listening(struct mcp_client *c, bool resumes, struct mcp_stream **ret, uint64_t *ret_turn)
{
        pthread_mutex_lock(&c->lock);
        struct mcp_stream *s = find(c, 0);
        if (!s)
                s = stream_new(c, 0);
        bool free_place = s && (s->readers == 0 || resumes);
        if (free_place) {
                s->readers++;
                *ret_turn = ++s->turn;
                pthread_cond_broadcast(&c->changed);
        }
        pthread_mutex_unlock(&c->lock);
        *ret = s;
        return free_place;
}

static void stop_reading(struct mcp_client *c, struct mcp_stream *s)
{
        pthread_mutex_lock(&c->lock);
        s->readers--;
        pthread_mutex_unlock(&c->lock);
}

void mcp_stream_follow(struct request *r, struct mcp_client *c, const char *after)
{
        struct mcp_stream *s = NULL;
        uint64_t number = 0, place = 0, turn = 0;

        if (after && parse_id(after, &number, &place) < 0) {
                refuse(r, 400, RPC_INVALID, "Last-Event-ID is not the id of an event of this server");
                return;
        }
        if (number == 0) {
                if (!begin_listening(c, after, &s, &turn)) {
                        refuse(r, s ? 409 : 503, RPC_SESSION_NEEDED, s ? "this client has such a stream already" : "there is no memory for it");
                        return;
                }
                if (!after) {
                        pthread_mutex_lock(&c->lock);
                        place = s->first + s->n; /* what was told before is not told again */
                        pthread_mutex_unlock(&c->lock);
                }
                follow_rest(r, c, s, turn, place, after);
        } else {
                pthread_mutex_lock(&c->lock);
                s = find(c, number);
                bool there = s && place >= s->first, over = there && s->done && place - s->first >= s->n;
                if (there && !over)
                        s->readers++;
                pthread_mutex_unlock(&c->lock);
                if (!there) {
                        refuse(r, 400, RPC_INVALID, "the events behind that one are not kept any more");
                        return;
                }
                if (over) {
                        reply_empty(r, 204);
                        return;
                }
                follow_answer(r, c, s, place);
        }
        stop_reading(c, s);
}

/* ---- a stateless client that wants to hear of changes ---- */

static int tell(struct mcp_call *c, struct mcp_client *watch)
{
        _cleanup_json_ json_t *news = mcp_changes(watch, c->server, c->caller);
        size_t i;
        json_t *message;

        if (!news)
                return -ENOMEM;
        json_array_foreach(news, i, message) {
                json_t *meta = json_pack("{s:O}", SUBSCRIPTION, c->message.id);
                if (json_object_set_new(json_object_get(message, "params"), "_meta", meta) < 0)
                        return -ENOMEM;
                mcp_stream_send(c, json_incref(message));
        }
        return 0;
}

/* What the watch sees of the client's own session. first: what it had then is no change. */
static void follow_client(struct mcp_client *watch, struct mcp_client *c, bool first)
{
        pthread_mutex_lock(&c->lock);
        memcpy(watch->session, c->session, sizeof(watch->session));
        watch->touched = c->touched;
        if (first) {
                watch->looked = c->looked;
                watch->names = c->names;
        }
        pthread_mutex_unlock(&c->lock);
}

void mcp_stream_listen(struct mcp_call *c, struct mcp_client *watch, bool list)
{
        uint64_t ping = monotonic_usec() + FOLLOW_PING_USEC;
        bool first = true;

        while (!mcp_is_cancelled(c) && c->server->state != SERVER_DRAINING) {
                if (c->client && list)
                        follow_client(watch, c->client, first);
                first = false;
                if (tell(c, watch) < 0)
                        return;
                if (monotonic_usec() >= ping) {
                        mcp_stream_ping(c);
                        ping = monotonic_usec() + FOLLOW_PING_USEC;
                }
                pthread_mutex_lock(&watch->lock);
                wait_changed(watch, MCP_LOOK_USEC / 2);
                pthread_mutex_unlock(&watch->lock);
        }
}
