/* SPDX-License-Identifier: Apache-2.0 */
#include "server/reply.h"

#include "base/json.h"
#include "base/limits.h"
#include "http/message.h"
#include "server/connection.h"
#include "server/reply_state.h"
#include "server/scrubbing.h"
#include "server/server.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define REPLY_FIELDS_MAX (8 * KIB)
#define REPLY_HEAD_MAX 1024

static const char *reason_of(int status)
{
        static const struct {
                int status;
                const char *reason;
        } reasons[] = {
                {200, "OK"}, {201, "Created"}, {202, "Accepted"}, {204, "No Content"}, {400, "Bad Request"}, {401, "Unauthorized"}, {403, "Forbidden"},
                {404, "Not Found"}, {405, "Method Not Allowed"}, {406, "Not Acceptable"}, {408, "Request Timeout"}, {409, "Conflict"},
                {413, "Content Too Large"}, {414, "URI Too Long"}, {415, "Unsupported Media Type"}, {417, "Expectation Failed"}, {429, "Too Many Requests"},
                {431, "Request Header Fields Too Large"}, {500, "Internal Server Error"}, {503, "Service Unavailable"},
                {505, "HTTP Version Not Supported"}, {507, "Insufficient Storage"},
        };
        for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
                if (reasons[i].status == status)
                        return reasons[i].reason;
        return "Status";
}

int reply_header(struct request *r, const char *name, const char *format, ...)
{
        _cleanup_free_ char *value = NULL;
        va_list ap;

        va_start(ap, format);
        int n = vasprintf(&value, format, ap);
        va_end(ap);
        if (n < 0) {
                value = NULL;
                r->reply->lacks_field = true;
                return -ENOMEM;
        }
        for (const unsigned char *p = (const unsigned char *)value; *p; p++)
                if (*p < ' ' || *p == 0x7f)
                        return -EINVAL;
        if (r->reply->fields.max == 0)
                buffer_init(&r->reply->fields, REPLY_FIELDS_MAX);
        n = buffer_printf(&r->reply->fields, "%s: %s\r\n", name, value);
        r->reply->lacks_field |= n == -ENOMEM;
        return n;
}

static int fail(struct request *r)
{
        r->reply->failed = true;
        return -EPIPE;
}

static bool is_head(const struct request *r)
{
        return r->message && strcmp(http_message_method(r->message), "HEAD") == 0;
}

/* The head, and what of the body is there already. */
static int send_head(struct request *r, int status, const char *content_type, int64_t size, const char *body, size_t body_size)
{
        struct reply *reply = r->reply;
        bool old = !r->message || r->message->version == 10;
        char head[REPLY_HEAD_MAX], length[64] = "", type[256] = "";

        reply->status = status;
        reply->left = size;
        reply->without_body = status == 204 || is_head(r);
        reply->chunked = size < 0 && !old && !reply->without_body;
        if ((r->message && r->message->close) || !r->message || r->server->state == SERVER_DRAINING)
                reply->close = true;
        if (size < 0 && old)
                reply->close = true;
        if (size >= 0 && status != 204)
                snprintf(length, sizeof(length), "Content-Length: %lld\r\n", (long long)size);
        else if (reply->chunked)
                snprintf(length, sizeof(length), "Transfer-Encoding: chunked\r\n");
        if (content_type)
                snprintf(type, sizeof(type), "Content-Type: %s\r\n", content_type);
        int n = snprintf(head, sizeof(head),
                         "HTTP/1.1 %d %s\r\nServer: glovebox\r\n%s%sCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n%s", status, reason_of(status),
                         type, length, reply->close ? "Connection: close\r\n" : "");
        if (n < 0 || (size_t)n >= sizeof(head) || reply->lacks_field)
                return fail(r);
        struct iovec parts[] = {
                {head, (size_t)n},
                {reply->fields.data, reply->fields.size},
                {(void *)(uintptr_t)"\r\n", 2},
                {(void *)(uintptr_t)body, reply->without_body ? 0 : body_size},
        };
        return connection_write(r->connection, parts, ARRAY_SIZE(parts)) < 0 ? fail(r) : 0;
}

static void send_whole(struct request *r, int status, const char *content_type, const char *body, size_t size)
{
        if (r->reply->status)
                return;
        (void)send_head(r, status, content_type, (int64_t)size, body, size);
        r->reply->left = 0;
        r->reply->ended = true;
}

void reply_json(struct request *r, int status, json_t *body)
{
        _cleanup_free_ char *text = json_print(body, REPLY_JSON_FLAGS);

        json_decref(body);
        if (!text) {
                static const char failure[] = "{\"error\":{\"code\":\"internal\",\"message\":\"there is no memory for the answer\",\"hint\":\"try again later\",\"details\":{}}}";
                send_whole(r, 500, "application/json", failure, sizeof(failure) - 1);
                return;
        }
        send_whole(r, status, "application/json", text, strlen(text));
}

void reply_empty(struct request *r, int status)
{
        send_whole(r, status, NULL, NULL, 0);
}

/* ---- errors ---- */

int reply_status_of(int code)
{
        static const int statuses[] = {
#define ROW(name, text, exit_status, http_status) [name] = http_status,
                GB_ERROR_CODES(ROW)
#undef ROW
        };
        return code > 0 && (size_t)code < ARRAY_SIZE(statuses) ? statuses[code] : 500;
}

/* Something that somebody has to start or to put right, an engine above all: who comes again in a second finds it as it is. */
static bool is_absent(const gb_error *err)
{
        static const int errors[] = {ENOENT, ECONNREFUSED, EACCES, EPERM, ENOTSOCK, EPROTONOSUPPORT};

        for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
                if (err->code == GB_E_UNAVAILABLE && err->errnum == errors[i])
                        return true;
        return false;
}

/* What to do, where the message does not say it. */
static const char *hint_of(int code)
{
        switch (code) {
        case GB_E_USAGE: return "/openapi.json describes every address, its parameters and its fields";
        case GB_E_POLICY: return "GET /v1/policies lists the trust levels and their limits";
        case GB_E_UNENFORCEABLE: return "GET /v1/doctor says what this host lacks";
        case GB_E_NOT_FOUND: return "the lists say what there is; what is another tenant's is not there";
        case GB_E_LIMIT: return "ask for less";
        case GB_E_UNAUTHORIZED: return "\"glovebox token create\" makes a token; send it as \"Authorization: Bearer gbx_...\"";
        case GB_E_DENIED: return "the operator of this server decides what is allowed";
        case GB_E_CONFLICT: return "look at its state, wait for what goes on, or use another key";
        case GB_E_TOO_LARGE: return "send less, or files one by one";
        case GB_E_QUOTA: return "try again after the seconds of Retry-After, or end something";
        case GB_E_UNAVAILABLE: return "try again after the seconds of Retry-After";
        case GB_E_DISK_FULL: return "remove files, or ask the operator for room";
        case GB_E_METHOD: return "the header Allow lists the methods of this address";
        case GB_E_MEDIA: return "send application/json; read application/json, text/event-stream or application/x-ndjson";
        case GB_E_PROTOCOL: return "the connection is closed: open a new one";
        default: return "the server's log may say more";
        }
}

json_t *reply_error_object(const gb_error *err, const char *hint, json_t *details)
{
        int code = err->code > 0 ? err->code : GB_E_INTERNAL;

        if (!hint)
                hint = is_absent(err) ? "it is not the server that is full: the message says what is missing" : hint_of(code);
        /* Messages are cut at their end, and may quote what a client sent: text in any case. */
        return json_pack("{s:{s:s, s:o, s:s, s:o}}", "error", "code", error_code_name(code), "message",
                         scrubbed_text(NULL, err->message, strlen(err->message), NULL), "hint", hint, "details", details ? details : json_object());
}

static void send_error(struct request *r, int status, const gb_error *error, const char *hint, json_t *details)
{
        gb_error scrubbed = *error, *err = &scrubbed;

        if (r->reply->status) {
                json_decref(details);
                return;
        }
        (void)json_lacked_memory(); /* it may be what this is about */
        scrubbing_error(r->server->scrubbing, NULL, err);
        scrubbing_details(r->server->scrubbing, NULL, details);
        if (err->code == GB_E_QUOTA || (err->code == GB_E_UNAVAILABLE && !is_absent(err)))
                (void)reply_header(r, "Retry-After", "1");
        if (err->code == GB_E_UNAUTHORIZED)
                (void)reply_header(r, "WWW-Authenticate", "Bearer");
        reply_json(r, status ? status : reply_status_of(err->code), reply_error_object(err, hint, details));
}

void reply_error_status(struct request *r, int status, const gb_error *err)
{
        send_error(r, status, err, NULL, NULL);
}

void reply_error(struct request *r, const gb_error *err)
{
        send_error(r, 0, err, NULL, NULL);
}

void reply_error_with(struct request *r, const gb_error *err, const char *hint, json_t *details)
{
        send_error(r, 0, err, hint, details);
}

/* ---- in pieces ---- */

int reply_begin(struct request *r, int status, const char *content_type, int64_t size)
{
        if (r->reply->status)
                return -EPIPE;
        return send_head(r, status, content_type, size, NULL, 0);
}

int reply_write(struct request *r, const void *bytes, size_t size)
{
        struct reply *reply = r->reply;
        char length[32] = "";
        int n = 0;

        if (!reply->status || reply->ended || reply->failed || reply->without_body)
                return -EPIPE;
        if (size == 0)
                return 0;
        if (reply->left >= 0 && size > (size_t)reply->left)
                return fail(r);
        if (reply->left >= 0)
                reply->left -= (int64_t)size;
        if (reply->chunked)
                n = snprintf(length, sizeof(length), "%zx\r\n", size);
        struct iovec parts[] = {
                {length, (size_t)n},
                {(void *)(uintptr_t)bytes, size},
                {(void *)(uintptr_t)"\r\n", reply->chunked ? 2 : 0},
        };
        return connection_write(r->connection, parts, ARRAY_SIZE(parts)) < 0 ? fail(r) : 0;
}

int reply_end(struct request *r)
{
        struct reply *reply = r->reply;

        if (!reply->status || reply->failed)
                return -EPIPE;
        if (reply->ended)
                return 0;
        if (reply->without_body) {
                reply->ended = true;
                return 0;
        }
        if (reply->left > 0)
                return fail(r);
        if (reply->chunked) {
                struct iovec part = {(void *)(uintptr_t)"0\r\n\r\n", 5};
                if (connection_write(r->connection, &part, 1) < 0)
                        return fail(r);
        }
        reply->ended = true;
        return 0;
}

void reply_abort(struct request *r)
{
        if (r->reply->status && r->reply->without_body)
                r->reply->ended = true;
        if (!r->reply->ended)
                r->reply->failed = true;
}

bool reply_finish(struct request *r)
{
        struct reply *reply = r->reply;
        gb_error err = {0};

        if (!reply->status && !reply->failed) {
                error_set(&err, GB_E_INTERNAL, 0, "this was not answered");
                reply_error(r, &err);
        }
        if (reply->status && reply->without_body)
                reply->ended = true;
        if (reply->failed || !reply->ended)
                connection_cut(r->connection);
        return reply->close || reply->failed || !reply->ended;
}
