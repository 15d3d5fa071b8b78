/* SPDX-License-Identifier: Apache-2.0
 *
 * Theory of operation. One loop over up to three connections, none of which is ever waited for alone:
 *
 *   stream   the request and the events of the run
 *   control  made when the first signal comes: each becomes a request to interrupt or to kill
 *   input    made when the run reads standard input: one piece at a time; what the server does not take (the program does
 *            not read) is offered again a little later
 *
 * Output that nobody takes at once is kept, and written when there is room: the server cuts off a client that does not read, and a
 * pager that waits for a key must not end a run.
 *
 * The run's id comes with the head of the stream; a signal before that waits for it. The last event is `verdict` or `error`.
 * A stream that breaks before is taken up again from the number after the last event that came, and the server keeps
 * them all; so no event is seen twice or missed. */
#include "cli/remote.h"

#include "base/base64.h"
#include "base/fd.h"
#include "cli/secrets.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define INPUT_PIECE_BYTES (64 * KIB)
#define INPUT_RETRY_USEC 10000ULL /* when the program does not read; doubled up to the next */
#define INPUT_RETRY_MAX_USEC 200000ULL
#define RESUMES_MAX 5
#define RESUME_PAUSE_USEC 200000ULL

/* Slots of poll() */
enum slot { SLOT_STREAM, SLOT_CANCEL, SLOT_CONTROL, SLOT_INPUT, SLOT_STDIN, SLOT_SINKS, SLOT_COUNT = SLOT_SINKS + 2 };

struct input {
        struct client client;
        bool open;       /* there may be more */
        bool in_flight;
        bool ending;     /* what is in flight is its end */
        bool failed;     /* how much of it the run got is not known, or it is not all of it */
        char piece[INPUT_PIECE_BYTES];
        size_t size, sent;
        uint64_t retry_usec, pause_usec;
        char target[96];
};

struct loop {
        struct remote *remote;
        struct client *stream;
        char *request; /* the text of the body */
        uint64_t next; /* number of the next event */
        unsigned resumes;
        json_t *last;
        bool unwanted; /* the caller wants no more events */

        struct client control;
        unsigned cancels, cancels_sent; /* 1: interrupt, 2: kill */
        uint64_t give_up_usec;          /* when a server that does not end a killed run is not waited for any more; 0: not yet */
        bool control_in_flight;
        char control_target[96];

        struct input input;
};

/* ---- signals ---- */

static void count_cancels(struct loop *l)
{
        uint64_t n;

        if (read(l->remote->cancel_fd, &n, sizeof(n)) == sizeof(n))
                l->cancels = (unsigned)MIN(l->cancels + n, (uint64_t)2);
}

/* Signals that the server has not heard of yet. */
static void step_control(struct loop *l)
{
        static const char *const bodies[] = {"{\"kill\":false}", "{\"kill\":true}"};

        if (l->control_in_flight && (client_step(&l->control, NULL) < 0 || client_is_done(&l->control)))
                l->control_in_flight = false;
        if (l->control_in_flight || l->cancels <= l->cancels_sent || !l->remote->run[0])
                return;
        const char *body = bodies[l->cancels - 1];
        l->cancels_sent = l->cancels;
        snprintf(l->control_target, sizeof(l->control_target), "/v1/runs/%s/cancel", l->remote->run);
        l->control_in_flight = client_start(&l->control,
                                            &(struct client_request){.method = "POST",
                                                                     .target = l->control_target,
                                                                     .type = "application/json",
                                                                     .body = body,
                                                                     .body_size = strlen(body),
                                                                     .body_fd = -1},
                                            NULL) == 0;
}

/* ---- standard input ---- */

static void send_piece(struct loop *l)
{
        struct input *in = &l->input;

        in->ending = in->size == 0;
        snprintf(in->target, sizeof(in->target), "/v1/runs/%s/stdin%s", l->remote->run, in->ending ? "?close=true" : "");
        int r = client_start(&in->client,
                             &(struct client_request){.method = "POST",
                                                      .target = in->target,
                                                      .type = "application/octet-stream",
                                                      .body = in->piece + in->sent,
                                                      .body_size = in->size - in->sent,
                                                      .body_fd = -1},
                             NULL);
        in->open = in->in_flight = r == 0;
        in->failed |= r < 0;
}

/* The server has said how much of the piece the program's pipe took. */
static void take_accepted(struct input *in)
{
        json_error_t where;
        _cleanup_json_ json_t *answer =
                in->client.body.size > 0 ? json_loadb(in->client.body.data, in->client.body.size, 0, &where) : NULL;
        const json_t *number = json_object_get(answer, "accepted");
        json_int_t accepted = json_is_integer(number) ? json_integer_value(number) : -1;
        int status = in->client.response.status;

        in->in_flight = false;
        /* The run has ended, or reads no more: what is left has no reader. */
        if (status == 404 || status == 409 || (status < 400 && in->ending)) {
                in->open = false;
                return;
        }
        if (status >= 400 || accepted < 0) {
                in->open = false;
                in->failed = true;
                return;
        }
        in->sent = MIN(in->sent + (size_t)accepted, in->size);
        if (in->sent == in->size) {
                in->size = in->sent = 0;
                in->pause_usec = 0;
                return;
        }
        in->pause_usec = accepted > 0 || in->pause_usec == 0 ? INPUT_RETRY_USEC : MIN(2 * in->pause_usec, INPUT_RETRY_MAX_USEC);
        in->retry_usec = monotonic_usec() + in->pause_usec;
}

/* What is in flight, as far as it goes; false: it still is. */
static bool step_piece(struct input *in)
{
        if (in->in_flight && client_step(&in->client, NULL) < 0) {
                in->open = in->in_flight = false;
                in->failed = true;
        }
        if (in->in_flight && client_is_done(&in->client))
                take_accepted(in);
        return !in->in_flight;
}

static void read_piece(struct loop *l)
{
        struct input *in = &l->input;
        ssize_t n = read(l->remote->stdin_fd, in->piece, sizeof(in->piece));

        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return;
        if (n < 0 && !isatty(l->remote->stdin_fd)) { /* a terminal that was hung up has ended */
                in->open = false;
                in->failed = true;
                return;
        }
        in->size = n > 0 ? (size_t)n : 0;
        in->retry_usec = 0;
        send_piece(l);
}

static void step_input(struct loop *l, bool readable)
{
        struct input *in = &l->input;

        if (!in->open || !l->remote->run[0] || !step_piece(in) || !in->open)
                return;
        if (in->size > 0 && monotonic_usec() >= in->retry_usec)
                send_piece(l);
        else if (in->size == 0 && readable)
                read_piece(l);
}

/* Whether it is time to look at standard input. */
static bool wants_input(const struct loop *l)
{
        return l->input.open && !l->input.in_flight && l->input.size == 0 && l->remote->run[0];
}

/* ---- events ---- */

static int take_event(struct loop *l, json_t *event, gb_error *err)
{
        const char *kind = json_member(event, "event", "");
        const json_t *seq = json_object_get(event, "seq");

        if (strcmp(kind, "ping") == 0)
                return 0;
        if (json_is_integer(seq)) {
                uint64_t number = (uint64_t)json_integer_value(seq);
                if (number < l->next)
                        return 0;
                if (number > l->next)
                        return error_set(err, GB_E_LOST, EBADMSG, "events %llu to %llu of the run are missing",
                                         (unsigned long long)l->next, (unsigned long long)number - 1);
                l->next = number + 1;
        }
        if (strcmp(kind, "verdict") == 0 || (l->remote->keep_error && strcmp(kind, "error") == 0))
                l->last = json_incref(event);
        else if (strcmp(kind, "error") == 0)
                return service_error(json_object_get(event, "error"), err);
        else if (!l->unwanted) {
                int r = l->remote->event(l->remote->data, kind, event);
                if (r == -EBADMSG || r == -ENOMEM)
                        return error_set(err, GB_E_LOST, -r, "an event of the run cannot be read: %s", strerror(-r));
                l->unwanted = r < 0;
        }
        return 0;
}

static int take_events(struct loop *l, gb_error *err)
{
        for (;;) {
                _cleanup_json_ json_t *event = NULL;
                int r = service_next(l->stream, &event, err);
                if (r > 0)
                        r = take_event(l, event, err);
                else
                        return r;
                if (r < 0)
                        return r;
        }
}

/* ---- the stream ---- */

static int start_stream(struct loop *l, gb_error *err)
{
        struct remote *r = l->remote;
        char target[128];

        if (r->target && !r->run[0])
                return client_start(l->stream,
                                    &(struct client_request){.method = "POST",
                                                             .target = r->target,
                                                             .accept = "application/x-ndjson",
                                                             .type = "application/json",
                                                             .body = l->request,
                                                             .body_size = strlen(l->request),
                                                             .body_fd = -1},
                                    err);
        snprintf(target, sizeof(target), "/v1/runs/%s/events?from=%llu", r->run, (unsigned long long)l->next);
        return client_start(l->stream, &(struct client_request){.method = "GET", .target = target, .accept = "application/x-ndjson", .body_fd = -1},
                            err);
}

/* The stream broke before its last event. What was asked for once is not asked for again: only the events are. */
static int resume(struct loop *l, gb_error *err)
{
        bool is_known = l->remote->run[0] != '\0';
        int r = -ECONNRESET;

        if (!is_known || (err->code != GB_E_LOST && err->code != GB_E_UNAVAILABLE))
                return -ECONNRESET;
        while (r < 0 && l->resumes < RESUMES_MAX && l->cancels < 2) {
                if (l->resumes++ > 0)
                        poll(&(struct pollfd){.fd = l->remote->cancel_fd, .events = POLLIN}, 1, (int)(RESUME_PAUSE_USEC / 1000));
                r = start_stream(l, err);
        }
        if (r < 0)
                return error_set(err, GB_E_LOST, ECONNRESET,
                                 "the server has gone while the run was under way; 'glovebox logs %s' tells how it ended when the server is back",
                                 l->remote->run);
        return 0;
}

static int step_stream(struct loop *l, gb_error *err)
{
        struct client *c = l->stream;

        int r = client_step(c, err);
        /* Also when the connection broke in the same step: then its events can be asked for again. */
        if (!l->remote->run[0] && c->response.status > 0 && c->response.status < 400)
                memcpy(l->remote->run, c->response.run, sizeof(l->remote->run));
        if (r < 0)
                return resume(l, err);
        if (!client_has_head(c))
                return 0;
        if (c->response.status >= 400)
                return service_refused(c, err);
        r = take_events(l, err);
        if (r < 0)
                return r;
        if (client_is_done(c) && !l->last)
                return error_set(err, GB_E_LOST, EBADMSG, "the server's stream has ended without a verdict");
        return 0;
}

static int wait_msec(const struct loop *l)
{
        bool input = l->input.open && !l->input.in_flight && l->input.size > 0;
        uint64_t now = monotonic_usec(), until = input ? l->input.retry_usec : UINT64_MAX;

        if (l->give_up_usec > 0)
                until = MIN(until, l->give_up_usec);
        if (until == UINT64_MAX)
                return -1;
        return until <= now ? 0 : (int)((until - now) / 1000 + 1);
}

/* A server that hangs must not make the command hang for good. */
static int check_patience(struct loop *l, gb_error *err)
{
        if (l->cancels < 2)
                return 0;
        if (!l->remote->run[0])
                return error_set(err, GB_E_LOST, ECANCELED, "cancelled before the server has begun the run");
        if (l->give_up_usec == 0)
                l->give_up_usec = monotonic_usec() + CLIENT_KILL_USEC;
        if (monotonic_usec() < l->give_up_usec)
                return 0;
        return error_set(err, GB_E_LOST, ETIMEDOUT, "the server does not answer, and whether the run has ended is not known: 'glovebox logs %s' tells when it is back",
                         l->remote->run);
}

static int poll_once(struct loop *l, gb_error *err)
{
        struct pollfd p[SLOT_COUNT] = {
                [SLOT_STREAM] = {l->stream->fd, client_events(l->stream), 0},
                [SLOT_CANCEL] = {l->cancels < 2 ? l->remote->cancel_fd : -1, POLLIN, 0},
                [SLOT_CONTROL] = {l->control_in_flight ? l->control.fd : -1, client_events(&l->control), 0},
                [SLOT_INPUT] = {l->input.in_flight ? l->input.client.fd : -1, client_events(&l->input.client), 0},
                [SLOT_STDIN] = {wants_input(l) ? l->remote->stdin_fd : -1, POLLIN, 0},
                [SLOT_SINKS] = {sink_waits_at(&l->remote->sinks[0]), POLLOUT, 0},
                [SLOT_SINKS + 1] = {sink_waits_at(&l->remote->sinks[1]), POLLOUT, 0},
        };

        if (poll(p, SLOT_COUNT, wait_msec(l)) < 0 && errno != EINTR)
                return error_set(err, GB_E_INTERNAL, errno, "cannot wait for the server: %s", strerror(errno));
        for (int i = 0; i < 2; i++)
                if (p[SLOT_SINKS + i].revents && sink_catch_up(&l->remote->sinks[i]) < 0)
                        l->cancels = 2; /* nobody reads any more */
        if (p[SLOT_CANCEL].revents)
                count_cancels(l);
        if (l->remote->target)
                step_control(l);
        else if (l->cancels > 0)
                return error_set(err, GB_E_INTERNAL, ECANCELED, "nobody follows any more");
        step_input(l, p[SLOT_STDIN].revents != 0);
        if (l->input.failed)
                return error_set(err, GB_E_LOST, EIO,
                                 "standard input did not reach the run whole, so the run was cancelled");
        return check_patience(l, err);
}

int remote_run(struct remote *r, json_t **ret, gb_error *err)
{
        _cleanup_free_ struct loop *l = calloc(1, sizeof(*l));
        _cleanup_wiped_ char *request = r->body ? json_dumps(r->body, JSON_COMPACT) : NULL;
        struct client *c = &r->service->client;

        if (!l || (r->body && !request))
                return service_out_of_memory(err);
        *l = (struct loop){.remote = r, .stream = c, .request = request, .next = r->from};
        client_init(&l->control, &c->address, c->token);
        client_init(&l->input.client, &c->address, c->token);
        l->input.open = r->stdin_fd >= 0;

        int result = start_stream(l, err);
        while (result == 0 && !l->last) {
                result = step_stream(l, err);
                if (result == 0 && !l->last)
                        result = poll_once(l, err);
        }
        client_done(&l->control);
        client_done(&l->input.client);
        if (result == 0)
                *ret = TAKE_PTR(l->last);
        json_decref(l->last);
        return result;
}

/* ---- what came ---- */

int remote_get_result(struct service *s, const char *run, json_t **ret, gb_error *err)
{
        _cleanup_json_ json_t *answer = NULL;
        char target[64];

        snprintf(target, sizeof(target), "/v1/runs/%s", run);
        int r = service_call(s, "GET", target, NULL, &answer, err);
        if (r < 0)
                return r;
        json_t *result = json_object_get(answer, "result");
        if (!json_is_object(result))
                return error_set(err, GB_E_LOST, EBADMSG, "the server has no result of the run %s", run);
        *ret = json_incref(result);
        return 0;
}

int remote_bytes(const json_t *event, const char **ret, size_t *ret_size, void **ret_free)
{
        const json_t *text = json_object_get(event, "data"), *coded = json_object_get(event, "data_base64");

        *ret_free = NULL;
        if (json_is_string(text)) {
                *ret = json_string_value(text);
                *ret_size = json_string_length(text);
                return 0;
        }
        if (!json_is_string(coded) || base64_decode(json_string_value(coded), json_string_length(coded), ret_free, ret_size) < 0)
                return -EBADMSG;
        *ret = *ret_free;
        return 0;
}

static int signal_by_name(const char *name)
{
        char text[SIGNAL_NAME_MAX];

        for (int i = 1; name && i <= 64; i++)
                if (strcmp(signal_name(i, text), name) == 0)
                        return i;
        return 0;
}

static enum verdict_kind verdict_by_name(const char *name)
{
        for (int i = 0; i <= VERDICT_LOST; i++)
                if (strcmp(verdict_name((enum verdict_kind)i), name) == 0)
                        return (enum verdict_kind)i;
        return VERDICT_LOST;
}

void remote_result(const json_t *object, struct result *ret)
{
        const json_t *verdict = json_object_get(object, "verdict"), *code = json_object_get(object, "exit_code"), *control;
        size_t i;

        *ret = (struct result){0};
        ret->verdict.kind = verdict_by_name(json_member(verdict, "kind", ""));
        snprintf(ret->verdict.message, sizeof(ret->verdict.message), "%s", json_member(verdict, "message", ""));
        int signal = signal_by_name(json_member(object, "signal", NULL));
        if (json_is_integer(code))
                ret->facts.ending = ENDING_OF_EXIT((uint32_t)json_integer_value(code) & 0xff);
        else if (signal > 0)
                ret->facts.ending = ENDING_OF_SIGNAL((uint32_t)signal);
        json_array_foreach(json_object_get(object, "controls"), i, control) {
                int id = control_by_name(json_member(control, "name", ""));
                const char *state = json_member(control, "state", "");
                if (id < 0)
                        continue;
                struct control_status *s = &ret->controls.status[id];
                for (int k = CONTROL_UNKNOWN; k <= CONTROL_OFF; k++)
                        if (strcmp(control_state_name((enum control_state)k), state) == 0)
                                s->state = (enum control_state)k;
                snprintf(s->how, sizeof(s->how), "%s", json_member(control, "how", ""));
        }
}
