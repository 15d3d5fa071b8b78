/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mcp.h"

#include "base/limits.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WHY_MAX 1024
#define ID_SHOWN_MAX 512
#define UTF8_REPLACED_MAX 3 /* bytes for one that is none */
#define FORGOTTEN "the server had forgotten this client: its session is a new one, without the variables and files of before"
#define INITIALIZED "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"

/* ---- lines to the client ---- */

/* One line, whole; text has no newline. */
static int write_line(struct bridge *b, const char *text, size_t size)
{
        /* Nobody waits for the reader here: what he has not taken is kept, and the loop goes on writing it. */
        int r = sink_write(&b->out, text, size);

        return r < 0 ? r : sink_write(&b->out, "\n", 1);
}

static int write_json(struct bridge *b, const json_t *value)
{
        _cleanup_free_ char *text = value ? json_print(value, 0) : NULL;

        return text ? write_line(b, text, strlen(text)) : -ENOMEM;
}

/* Without memory: somebody waits for an answer all the same. */
static void say_no_memory(struct bridge *b, const json_t *id)
{
        char name[ID_SHOWN_MAX], line[ID_SHOWN_MAX + 128];
        size_t n = id ? json_dumpb(id, name, sizeof(name), JSON_ENCODE_ANY) : 0;
        bool known = n > 0 && n < sizeof(name);

        int size = snprintf(line, sizeof(line), "{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"error\":{\"code\":%d,\"message\":\"out of memory\"}}",
                            known ? (int)n : (int)strlen("null"), known ? name : "null", MCP_INTERNAL);
        (void)write_line(b, line, (size_t)size);
}

void answer_error(struct bridge *b, json_t *id, int code, const char *format, ...)
{
        _cleanup_buffer_ struct buffer readable;
        char text[WHY_MAX];
        va_list ap;

        va_start(ap, format);
        (void)vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        /* It may have been cut within a character. */
        buffer_init(&readable, UTF8_REPLACED_MAX * sizeof(text));
        int r = utf8_replace(&readable, text, strlen(text));
        _cleanup_json_ json_t *error = r == 0 ? json_pack("{s:i, s:s}", "code", code, "message", readable.data ? readable.data : "") : NULL;
        _cleanup_json_ json_t *answer = error ? json_pack("{s:s, s:O?, s:O}", "jsonrpc", "2.0", "id", id, "error", error) : NULL;
        if (!answer || write_json(b, answer) == -ENOMEM)
                say_no_memory(b, id);
}

/* As it came, unless it has more than one line. */
static int write_message(struct bridge *b, const json_t *value, const char *text, size_t size)
{
        if (memchr(text, '\n', size) || memchr(text, '\r', size))
                return write_json(b, value);
        return write_line(b, text, size);
}

/* ---- handshakes ---- */

bool answer_shakes_hands(const struct bridge *b)
{
        for (const struct call *c = b->calls; c; c = c->next)
                if (c->state != CALL_OVER && (c->kind == CALL_HANDSHAKE || c->kind == CALL_INITIALIZED))
                        return true;
        return false;
}

/* A message of our own. */
static struct call *say(struct bridge *b, enum call_kind kind, const char *text, size_t size)
{
        char *copy = malloc(size + 1);
        struct message m = {.text = copy, .size = size};

        if (!copy)
                return NULL;
        memcpy(copy, text, size);
        copy[size] = '\0';
        struct call *c = call_new(b, kind, &m);
        if (c)
                call_begin(b, c);
        return c;
}

bool answer_shake_hands(struct bridge *b)
{
        if (answer_shakes_hands(b))
                return true;
        b->handshake = HANDSHAKE_LOST;
        return b->initialize && say(b, CALL_HANDSHAKE, b->initialize, b->initialize_size);
}

void answer_no_handshake(struct bridge *b, const char *why)
{
        char text[WHY_MAX];

        snprintf(text, sizeof(text), "the server has forgotten this client, and it could not be introduced again: %s", why);
        b->handshake = HANDSHAKE_LOST;
        for (struct call *c = b->calls; c; c = c->next)
                if (c->state == CALL_WAITS)
                        call_fail(b, c, text);
}

static void open_listener(struct bridge *b)
{
        for (struct call *c = b->calls; c; c = c->next)
                if (c->kind == CALL_LISTEN)
                        c->state = CALL_OVER;
        struct call *c = call_new(b, CALL_LISTEN, NULL);
        if (c)
                call_begin(b, c);
}

/* The session before is of no use any more. */
static void forget_session(struct bridge *b)
{
        if (b->session[0] && b->handshake == HANDSHAKE_DONE) {
                struct call *c = call_new(b, CALL_FORGET, NULL);
                if (c)
                        call_begin(b, c); /* its header is written now */
        }
        b->session[0] = '\0';
}

/* The server has answered a handshake. */
static void take_handshake(struct bridge *b, struct call *c, const json_t *answer)
{
        const char *version = json_string_value(json_object_get(json_object_get(answer, "result"), "protocolVersion"));

        if (!version || strlen(version) >= sizeof(b->version) || strspn(version, "0123456789abcdefghijklmnopqrstuvwxyz.-") != strlen(version))
                return;
        if (c->kind == CALL_REQUEST) {
                forget_session(b);
                free(b->initialize);
                b->initialize = TAKE_PTR(c->message.text);
                b->initialize_size = c->message.size;
                b->listens = false;
        }
        snprintf(b->version, sizeof(b->version), "%s", version);
        snprintf(b->session, sizeof(b->session), "%s", c->client.response.session);
        b->handshake = HANDSHAKE_DONE;
}

/* Ours has been answered. */
static void after_handshake(struct bridge *b, struct call *c)
{
        c->state = CALL_OVER;
        if (b->handshake != HANDSHAKE_DONE || !say(b, CALL_INITIALIZED, INITIALIZED, strlen(INITIALIZED)))
                answer_no_handshake(b, "its answer to that is not understood");
}

/* Who waited for it is sent again. The client's user hears of it: what was there before is not there any more. */
static void after_initialized(struct bridge *b)
{
        _cleanup_json_ json_t *news = json_pack("{s:s, s:s, s:{s:s, s:s, s:s}}", "jsonrpc", "2.0", "method", "notifications/message", "params",
                                                "level", "warning", "logger", "glovebox", "data", FORGOTTEN);

        (void)write_json(b, news);
        for (struct call *c = b->calls; c; c = c->next)
                if (c->state == CALL_WAITS) {
                        c->repeated = true;
                        c->sent = false;
                        call_begin(b, c);
                }
        if (b->listens)
                open_listener(b);
}

/* ---- what an answer means ---- */

static bool is_response(const json_t *value)
{
        return json_object_get(value, "jsonrpc") && !json_object_get(value, "method") &&
               (json_object_get(value, "result") || json_is_integer(json_object_get(json_object_get(value, "error"), "code")));
}

/* One without an id is an error of what the server could not read. */
static bool is_for(const struct call *c, const json_t *id)
{
        return !id || json_is_null(id) || json_equal(id, c->message.id);
}

static int take_response(struct bridge *b, struct call *c, json_t *answer, const char *text, size_t size)
{
        c->answered = true;
        if (c->kind == CALL_HANDSHAKE || message_is(&c->message, "initialize"))
                take_handshake(b, c, answer);
        if (c->kind == CALL_HANDSHAKE)
                after_handshake(b, c);
        if (c->kind != CALL_REQUEST || c->silent)
                return 0;
        /* What the server could not read has no id there; here it is known whose it is. */
        json_t *id = json_object_get(answer, "id");
        if (id && !json_is_null(id))
                return write_message(b, answer, text, size);
        return json_object_set(answer, "id", c->message.id) < 0 ? -ENOMEM : write_json(b, answer);
}

int answer_take(struct bridge *b, struct call *c, const char *text, size_t size)
{
        json_error_t where;
        _cleanup_json_ json_t *value = json_loadb(text, size, JSON_ALLOW_NUL, &where);

        if (!json_is_object(value))
                return value || json_error_code(&where) != json_error_out_of_memory ? -EBADMSG : -ENOMEM;
        if (is_response(value) && c->kind == CALL_REQUEST && !is_for(c, json_object_get(value, "id")))
                return -EBADMSG;
        if (is_response(value) && c->kind != CALL_LISTEN)
                return take_response(b, c, value, text, size);
        /* A notification of the server. Of our own handshake there is none that the client wants. */
        return c->silent || c->kind == CALL_HANDSHAKE ? 0 : write_message(b, value, text, size);
}

/* The server does not know the session: nothing of the call has run. */
static void on_forgotten(struct bridge *b, struct call *c)
{
        if (c->kind == CALL_REQUEST && !c->repeated && b->initialize) {
                c->state = CALL_WAITS;
                /* Another call may have done it meanwhile. */
                if (strcmp(c->session, b->session) != 0 && b->handshake == HANDSHAKE_DONE && !answer_shakes_hands(b)) {
                        c->repeated = true;
                        call_begin(b, c);
                        return;
                }
                if (!answer_shakes_hands(b))
                        message_print(MESSAGE_WARNING, FORGOTTEN);
                if (!answer_shake_hands(b))
                        answer_no_handshake(b, "out of memory");
                return;
        }
        call_fail(b, c, "the server has forgotten this client: start it anew, or let it shake hands again");
}

/* What the API says about an error, in a sentence. */
static void error_text(const struct call *c, const json_t *answer, char text[static WHY_MAX])
{
        const json_t *error = json_object_get(answer, "error");
        const char *message = json_string_value(json_object_get(error, "message")), *hint = json_string_value(json_object_get(error, "hint"));

        if (message)
                snprintf(text, WHY_MAX, "the server refused: %s%s%s", message, hint ? "; " : "", hint ? hint : "");
        else
                snprintf(text, WHY_MAX, "the server answered with status %d", c->client.response.status);
}

static void on_refused(struct bridge *b, struct call *c, json_t *answer)
{
        char text[WHY_MAX];

        error_text(c, answer, text);
        call_fail(b, c, text);
}

/* Taken, and nothing to say. */
static void on_accepted(struct bridge *b, struct call *c)
{
        c->state = CALL_OVER;
        if (c->kind == CALL_INITIALIZED)
                after_initialized(b);
        if (c->kind == CALL_NOTIFICATION && message_is(&c->message, "notifications/initialized") && !c->message.version && b->handshake == HANDSHAKE_DONE) {
                b->listens = true;
                open_listener(b);
        }
}

void answer_body(struct bridge *b, struct call *c)
{
        const struct response *response = &c->client.response;
        size_t size;
        const char *text = client_data(&c->client, &size);
        json_error_t where;
        _cleanup_json_ json_t *answer = size > 0 ? json_loadb(text, size, JSON_ALLOW_NUL, &where) : NULL;
        bool expects = c->kind == CALL_REQUEST || c->kind == CALL_HANDSHAKE;

        if (c->kind == CALL_FORGET || (!expects && response->status < 300)) {
                on_accepted(b, c);
                return;
        }
        json_int_t code = json_integer_value(json_object_get(json_object_get(answer, "error"), "code"));
        if (response->status == 404 && code == MCP_SESSION_UNKNOWN && !c->message.version && !message_is(&c->message, "initialize")) {
                on_forgotten(b, c);
                return;
        }
        if (!is_response(answer) || !expects) {
                on_refused(b, c, answer);
                return;
        }
        if (take_response(b, c, answer, text, size) == -ENOMEM && c->kind == CALL_REQUEST)
                say_no_memory(b, c->message.id);
        c->state = CALL_OVER;
}
