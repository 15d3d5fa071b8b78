/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions to an engine. Each has a connection of its own and an end; whatever comes is measured before it is believed. */
#include "backend/docker/exchange.h"
#include "backend/docker/values.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/utf8.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define CONNECT_AGAIN_MSEC 20  /* when the engine's queue of connections is full */
#define MESSAGE_BYTES_MAX 320  /* of what an engine says in an error */
#define LIBPOD_VERSION "4.0.0" /* of Podman's own API, whose numbers are others; every Podman since 4.0 answers to it */

void exchange_done(struct exchange *x)
{
        if (x->engine)
                client_done(&x->client);
}

/* ---- what went wrong ---- */

/* Milliseconds until then. */
static int left_msec(uint64_t deadline_usec)
{
        uint64_t now = monotonic_usec();

        return now >= deadline_usec ? 0 : (int)MIN((deadline_usec - now + 999) / 1000, (uint64_t)INT32_MAX);
}

/* The engine has been asked, and nobody knows what it did. */
static int silent(const struct exchange *x, gb_error *err)
{
        return error_set(err, GB_E_LOST, ETIMEDOUT, "%s does not answer %s; if it hangs, restart it (systemctl restart %s)",
                         engine_label(x->engine).text, x->what, x->engine->podman ? "podman" : "docker");
}

/* The client failed; its own words are for a server of ours. */
static int explain(const struct exchange *x, const gb_error *failure, gb_error *err)
{
        int errnum = failure->errnum;

        if (errnum == EBADMSG)
                return engine_rubbish(x->engine, GB_E_LOST, x->client.response.why, err);
        if (errnum == EFBIG)
                return error_set(err, GB_E_LIMIT, EFBIG, "%s answers %s with more than %llu MB", engine_label(x->engine).text, x->what,
                                 ENGINE_ANSWER_BYTES_MAX / MIB);
        if (failure->code == GB_E_UNAVAILABLE && errnum != EMFILE && errnum != ENFILE)
                return engine_unreachable(x->engine, errnum, err);
        if (failure->code == GB_E_LOST)
                return error_set(err, GB_E_LOST, errnum, "%s ended the connection before it had answered %s; is it being restarted?",
                                 engine_label(x->engine).text, x->what);
        if (err)
                *err = *failure;
        return errnum > 0 ? -errnum : -EINVAL;
}

/* ---- the exchange ---- */

static bool is_target(const char *text)
{
        if (text[0] != '/')
                return false;
        for (; *text; text++)
                if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 0x7f)
                        return false;
        return true;
}

static int set_target(struct exchange *x, const char *target, gb_error *err)
{
        const struct engine *e = x->engine;
        bool libpod = strncmp(target, "/libpod/", strlen("/libpod/")) == 0;
        const char *version = libpod ? LIBPOD_VERSION : e->api;
        int n = snprintf(x->target, sizeof(x->target), "%s%s%s", version[0] ? "/v" : "", version, target);

        if (!is_target(target) || n < 0 || (size_t)n >= sizeof(x->target))
                return error_set(err, GB_E_INTERNAL, EINVAL, "%.100s is nothing to ask an engine for", target);
        return 0;
}

/* Waits a moment; whether to go on. */
static int pause_connecting(uint64_t deadline_usec, int cancel_fd)
{
        struct pollfd p = {.fd = cancel_fd, .events = POLLIN};
        int left = left_msec(deadline_usec);

        if (left == 0)
                return -ETIMEDOUT;
        return poll(&p, 1, MIN(left, CONNECT_AGAIN_MSEC)) > 0 ? -ECANCELED : 0;
}

int exchange_start(struct exchange *x, const struct engine *e, struct client_request request, uint64_t deadline_usec, int cancel_fd, gb_error *err)
{
        struct client_address address;
        gb_error failure = {0};

        x->engine = NULL;
        snprintf(x->what, sizeof(x->what), "%s %.*s", request.method, (int)MIN(strcspn(request.target, "?"), (size_t)100), request.target);
        if (client_address_unix(e->socket, &address) < 0)
                return error_set(err, GB_E_USAGE, ENAMETOOLONG, "%s: the path of the engine's socket is empty or too long", e->from);
        client_init(&x->client, &address, NULL);
        x->engine = e;
        x->client.foreign = true;
        x->client.body.max = ENGINE_ANSWER_BYTES_MAX;
        int r = set_target(x, request.target, err);
        if (r < 0)
                return r;
        while (client_connect(&x->client, &failure) < 0) {
                r = failure.errnum == EBUSY ? pause_connecting(deadline_usec, cancel_fd) : -failure.errnum;
                if (r == -ECANCELED)
                        return r;
                if (r < 0)
                        return engine_unreachable(e, -r, err);
        }
        request.target = x->target;
        return client_start(&x->client, &request, &failure) < 0 ? explain(x, &failure, err) : 0;
}

int exchange_advance(struct exchange *x, uint64_t deadline_usec, int cancel_fd, gb_error *err)
{
        struct client *c = &x->client;

        for (;;) {
                enum response_stage stage = c->response.stage;
                size_t sent = c->head_sent + c->body_sent, come = c->body.size;
                gb_error failure = {0};
                struct pollfd cancel = {.fd = cancel_fd, .events = POLLIN};

                /* Also of an engine that never stops talking. */
                if (cancel_fd >= 0 && poll(&cancel, 1, 0) > 0)
                        return -ECANCELED;
                if (client_step(c, &failure) < 0)
                        return explain(x, &failure, err);
                if (client_is_done(c) || c->response.stage != stage || c->head_sent + c->body_sent != sent || c->body.size != come)
                        return 0;

                struct pollfd p[] = {{c->fd, client_events(c), 0}, {cancel_fd, POLLIN, 0}};
                int n = poll(p, ARRAY_SIZE(p), left_msec(deadline_usec));
                if (n < 0 && errno != EINTR)
                        return error_set(err, GB_E_INTERNAL, errno, "cannot wait for the engine: %s", strerror(errno));
                if (n > 0 && p[1].revents)
                        return -ECANCELED;
                if (n == 0)
                        return silent(x, err);
        }
}

int exchange_head(struct exchange *x, uint64_t deadline_usec, int cancel_fd, gb_error *err)
{
        int r = 0;

        while (r == 0 && !client_has_head(&x->client))
                r = monotonic_usec() > deadline_usec ? silent(x, err) : exchange_advance(x, deadline_usec, cancel_fd, err);
        return r;
}

/* Text instead of JSON, as Podman and proxies refuse: {"message": text} */
static json_t *message_of_text(const char *data, size_t size)
{
        struct buffer text;

        buffer_init(&text, (size_t)3 * MESSAGE_BYTES_MAX);
        size = MIN(size, (size_t)MESSAGE_BYTES_MAX);
        while (size > 0 && (data[size - 1] == '\n' || data[size - 1] == '\r'))
                size--;
        json_t *ret = size > 0 && utf8_replace(&text, data, size) == 0 ? json_pack("{s:s%}", "message", text.data, text.size) : NULL;
        buffer_done(&text);
        return ret;
}

int exchange_answer(struct exchange *x, uint64_t deadline_usec, int cancel_fd, json_t **ret, gb_error *err)
{
        struct client *c = &x->client;
        const char *why = "it is not JSON";
        int r = 0;

        while (r == 0 && !client_is_done(c))
                r = monotonic_usec() > deadline_usec ? silent(x, err) : exchange_advance(x, deadline_usec, cancel_fd, err);
        if (r < 0)
                return r;

        size_t size;
        const char *data = client_data(c, &size);
        bool plain = strcmp(c->response.type, "application/json") != 0;
        json_t *value = NULL;
        r = size > 0 ? value_parse(data, size, &value, &why) : 0;
        if (r == -EBADMSG && c->response.status >= 400) {
                value = message_of_text(data, size);
                r = 0;
        } else if (r == -EBADMSG && plain && data[0] != '{' && data[0] != '[')
                r = 0; /* "OK" */
        if (r == -ENOMEM)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory for an answer of the engine");
        if (r < 0)
                return engine_rubbish(x->engine, GB_E_LOST, why, err);
        *ret = value;
        return 0;
}

int exchange_refusal(struct exchange *x, uint64_t deadline_usec, int cancel_fd, gb_error *err)
{
        _cleanup_json_ json_t *answer = NULL;
        int r = exchange_answer(x, deadline_usec, cancel_fd, &answer, err);

        if (r < 0)
                return r;
        return engine_refusal(x->engine, x->client.response.status, answer, x->what, err);
}

/* ---- what engine.h promises ---- */

/* What takes long is waited for only as long as the engine has a pulse: that this call is silent says nothing yet. */
static int await_head(struct exchange *x, uint64_t deadline, gb_error *err)
{
        while (!client_has_head(&x->client)) {
                uint64_t pause = MIN(deadline, monotonic_usec() + ENGINE_PULSE_USEC);
                gb_error why = {0};

                int r = exchange_advance(x, pause, -1, &why);
                if (r == -ETIMEDOUT && pause < deadline && engine_answers(x->engine))
                        continue;
                if (r < 0 && err)
                        *err = why;
                if (r < 0)
                        return r;
        }
        return 0;
}

bool engine_answers(const struct engine *e)
{
        int status = 0;

        int r = engine_call(e, "GET", "/_ping", NULL, ENGINE_PING_USEC, &status, NULL, NULL);
        return r == 0 ? status == 200 : r == -EMFILE || r == -ENFILE || r == -ENOMEM;
}

int engine_call(const struct engine *e, const char *method, const char *target, json_t *body, uint64_t wait_usec, int *ret_status, json_t **ret,
                gb_error *err)
{
        uint64_t deadline = monotonic_usec() + (wait_usec > 0 ? wait_usec : ENGINE_ANSWER_USEC);
        _cleanup_free_ char *text = body ? json_print(body, 0) : NULL;
        _cleanup_exchange_ struct exchange x = {0};
        _cleanup_json_ json_t *answer = NULL;

        if (body && !text)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory for a question to the engine");
        struct client_request request = {.method = method, .target = target, .body_fd = -1};
        if (text) {
                request.type = "application/json";
                request.body = text;
                request.body_size = strlen(text);
        }
        int r = exchange_start(&x, e, request, deadline, -1, err);
        if (r == 0 && wait_usec > ENGINE_ANSWER_USEC)
                r = await_head(&x, deadline, err);
        if (r == 0)
                r = exchange_answer(&x, deadline, -1, &answer, err);
        if (r < 0)
                return r;
        *ret_status = x.client.response.status;
        if (ret)
                *ret = TAKE_PTR(answer);
        return 0;
}

/* Only what can be shown: one line, no controls, nothing that turns the writing direction. */
static void printable(const char *text, char *out, size_t size)
{
        size_t used = 0, left = strlen(text);

        while (left > 0) {
                uint32_t c = 0;
                size_t n = utf8_decode(text, left, &c);
                bool plain = n > 0 && c >= ' ' && (c < 0x7f || c > 0x9f) && !(c >= 0x200b && c <= 0x200f) && !(c >= 0x2028 && c <= 0x202e) &&
                             !(c >= 0x2060 && c <= 0x206f) && c != 0xfeff;
                n = MAX(n, (size_t)1);
                if (used + n + sizeof("...") > size) {
                        memcpy(out + used, "...", sizeof("..."));
                        return;
                }
                if (plain)
                        memcpy(out + used, text, n);
                else
                        out[used] = ' ';
                used += plain ? n : 1;
                text += n;
                left -= n;
        }
        while (used > 0 && out[used - 1] == ' ')
                used--;
        out[used] = '\0';
}

static gb_error_code refusal_code(int status, const char *message)
{
        if (status >= 500 && strstr(message, "no space left on device"))
                return GB_E_DISK_FULL;
        switch (status) {
        case 401:
        case 403:
                return GB_E_DENIED;
        case 404:
                return GB_E_NOT_FOUND;
        case 409:
                return GB_E_CONFLICT;
        default:
                return status >= 500 ? GB_E_UNAVAILABLE : GB_E_INTERNAL;
        }
}

int engine_refusal(const struct engine *e, int status, const json_t *answer, const char *what, gb_error *err)
{
        const char *said = json_string_value(json_object_get(answer, "message"));
        char message[MESSAGE_BYTES_MAX] = "";

        if (said)
                printable(said, message, sizeof(message));
        if (!message[0])
                snprintf(message, sizeof(message), "it gives no reason");
        return error_set(err, refusal_code(status, message), status == 404 ? ENOENT : status == 409 ? EBUSY : EPROTO, "%s: %s says %d: %s", what,
                         e->podman ? "Podman" : "the engine", status, message);
}
