/* SPDX-License-Identifier: Apache-2.0 */
#include "server/request.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/parse.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "http/message.h"
#include "http/uri.h"
#include "server/body.h"
#include "server/connection.h"
#include "server/dispatch.h"
#include "server/json_scan.h"
#include "server/reply_state.h"
#include "server/share.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

/* One allocation for both. */
struct whole {
        struct request request;
        struct reply reply;
};

struct request *request_new(struct connection *c, struct http_message *message)
{
        struct whole *w = calloc(1, sizeof(*w));

        if (!w) {
                http_message_free(message);
                return NULL;
        }
        struct request *r = &w->request;
        r->reply = &w->reply;
        r->server = c->loop->server;
        r->connection = c;
        r->message = message;
        r->arrived_usec = c->since_usec;
        body_init(&r->body);
        r->target = strdup(message ? http_message_target(message) : "");
        if (!r->target) {
                request_free(r);
                return NULL;
        }
        return r;
}

/* Bytes of large bodies and answers whose JSON is in memory: it needs several times their size, so there are not too many at a time. */
static _Atomic uint64_t large_bytes;

void request_free(struct request *r)
{
        if (!r)
                return;
        free(r->target);
        for (size_t i = 0; i < ROUTE_PARAMS_MAX; i++)
                free(r->params[i]);
        body_done(&r->body);
        http_message_free(r->message);
        uri_query_free(r->query);
        buffer_done(&r->reply->fields);
        free(r->reply->refused);
        share_give(r->reply->share);
        atomic_fetch_sub(&large_bytes, r->reply->large_bytes);
        free(r);
}

const char *request_header(const struct request *r, const char *name)
{
        return http_message_field(r->message, name);
}

bool request_is_gone(const struct request *r)
{
        return connection_is_gone(r->connection);
}

int request_gone_fd(const struct request *r)
{
        return connection_gone_fd(r->connection);
}

/* ---- the query ---- */

const char *request_query(const struct request *r, const char *name)
{
        for (size_t i = 0; i < r->query->n; i++)
                if (strcmp(r->query->items[i].name, name) == 0)
                        return r->query->items[i].value;
        return NULL;
}

int request_check_query(const struct request *r, const char *const names[], gb_error *err)
{
        for (size_t i = 0; i < r->query->n; i++) {
                const char *name = r->query->items[i].name;
                bool known = false;
                for (size_t k = 0; names && names[k]; k++)
                        known |= strcmp(names[k], name) == 0;
                if (!known)
                        return error_set(err, GB_E_USAGE, EINVAL, "there is no parameter %s here", quote(name).text);
                for (size_t k = 0; k < i; k++)
                        if (strcmp(r->query->items[k].name, name) == 0)
                                return error_set(err, GB_E_USAGE, EINVAL, "the parameter %s comes twice", quote(name).text);
        }
        return 0;
}

int request_query_number(const struct request *r, const char *name, uint64_t min, uint64_t max, uint64_t fallback, uint64_t *ret, gb_error *err)
{
        const char *text = request_query(r, name);
        uint64_t n;

        if (!text) {
                *ret = fallback;
                return 0;
        }
        if (parse_count(text, &n) < 0 || n < min || n > max)
                return error_set(err, GB_E_USAGE, EINVAL, "the parameter \"%s\" is %s, and not a number from %llu to %llu", name, quote(text).text,
                                 (unsigned long long)min, (unsigned long long)max);
        *ret = n;
        return 0;
}

int request_query_bool(const struct request *r, const char *name, bool *ret, gb_error *err)
{
        const char *text = request_query(r, name);

        if (text && strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
                return error_set(err, GB_E_USAGE, EINVAL, "the parameter \"%s\" is %s, and neither \"true\" nor \"false\"", name, quote(text).text);
        *ret = text && strcmp(text, "true") == 0;
        return 0;
}

/* ---- JSON ---- */

static int check_type(const struct request *r, gb_error *err)
{
        const char *type = request_header(r, "content-type"), *charset;

        if (!type)
                return error_set(err, GB_E_MEDIA, EINVAL, "there is no Content-Type; this reads application/json");
        size_t size = strcspn(type, "; \t");
        if (size != strlen("application/json") || strncasecmp(type, "application/json", size) != 0)
                return error_set(err, GB_E_MEDIA, EINVAL, "Content-Type is %s; this reads application/json", quote(type).text);
        charset = strcasestr(type + size, "charset=");
        if (charset) {
                charset += strlen("charset=");
                charset += *charset == '"';
                if (strncasecmp(charset, "utf-8", 5) != 0)
                        return error_set(err, GB_E_MEDIA, EINVAL, "Content-Type is %s; JSON is UTF-8", quote(type).text);
        }
        return 0;
}

static int not_utf8(gb_error *err)
{
        return error_set(err, GB_E_USAGE, EINVAL, "the body is not UTF-8");
}

/* In pieces from the file: nothing large is in memory before it is known to be harmless. */
static int scan_file(int fd, uint64_t size, gb_error *err)
{
        struct json_scan scan = {0};
        _cleanup_free_ char *piece = malloc(READ_BYTES);
        size_t held = 0;

        if (!piece)
                return error_set(err, GB_E_UNAVAILABLE, ENOMEM, "there is no memory for the body");
        for (uint64_t at = 0; at < size;) {
                ssize_t n = pread(fd, piece + held, READ_BYTES - held, (off_t)at);
                if (n <= 0)
                        return error_set(err, GB_E_INTERNAL, n < 0 ? errno : EIO, "cannot read the body of the request");
                at += (uint64_t)n;
                size_t whole = held + (size_t)n;
                held = utf8_incomplete_tail(piece, whole);
                if (!utf8_is_valid(piece, whole - held))
                        return not_utf8(err);
                int r = json_scan(&scan, piece, whole - held, err);
                if (r < 0)
                        return r;
                memmove(piece, piece + whole - held, held);
        }
        return held > 0 ? not_utf8(err) : json_scan_end(&scan, err);
}

static int scan_memory(const struct buffer *memory, gb_error *err)
{
        struct json_scan scan = {0};

        if (!utf8_is_valid(memory->data, memory->size))
                return not_utf8(err);
        int r = json_scan(&scan, memory->data, memory->size, err);
        return r < 0 ? r : json_scan_end(&scan, err);
}

/* What is wrong, without what stands there: that may be a secret. */
static int load_error(json_error_t *why, gb_error *err)
{
        char *near = strstr(why->text, " near '");

        if (near)
                *near = '\0';
        switch (json_error_code(why)) {
        case json_error_out_of_memory:
                return error_set(err, GB_E_UNAVAILABLE, ENOMEM, "there is no memory for the body");
        case json_error_numeric_overflow:
                return error_set(err, GB_E_USAGE, ERANGE, "a number of the JSON is too large: line %d, column %d", why->line, why->column);
        case json_error_duplicate_key:
                return error_set(err, GB_E_USAGE, EINVAL, "a key of the JSON comes twice: line %d, column %d: %s", why->line, why->column, why->text);
        case json_error_null_character:
        case json_error_null_byte_in_key:
                return error_set(err, GB_E_USAGE, EINVAL, "a text of the JSON has the character NUL: line %d, column %d", why->line, why->column);
        default:
                return error_set(err, GB_E_USAGE, EINVAL, "the body is not JSON: line %d, column %d: %s", why->line, why->column, why->text);
        }
}

static int load(const char *bytes, size_t size, json_t **ret, gb_error *err)
{
        json_error_t why;
        json_t *json = json_parse(bytes, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);

        if (!json)
                return load_error(&why, err);
        *ret = json;
        return 0;
}

int request_reserve(struct request *r, uint64_t size, gb_error *err)
{
        /* One alone is always taken: how large it may be is the configuration's. */
        uint64_t before = atomic_fetch_add(&large_bytes, size);
        if (before > 0 && before + size > JSON_LARGE_BYTES_MAX) {
                atomic_fetch_sub(&large_bytes, size);
                return error_set(err, GB_E_UNAVAILABLE, EAGAIN, "there are as many large requests and answers as the server can hold in memory");
        }
        r->reply->large_bytes += size;
        return 0;
}

static int load_file(struct request *r, json_t **ret, gb_error *err)
{
        struct body *body = &r->body;
        int k = scan_file(body->fd, body->size, err);

        if (k == 0)
                k = request_reserve(r, body->size, err);
        if (k < 0)
                return k;
        void *bytes = mmap(NULL, (size_t)body->size, PROT_READ, MAP_PRIVATE, body->fd, 0);
        if (bytes == MAP_FAILED)
                return error_set(err, GB_E_UNAVAILABLE, errno, "there is no memory for the body");
        k = load(bytes, (size_t)body->size, ret, err);
        munmap(bytes, (size_t)body->size);
        /* Otherwise nothing in it has to be wiped. */
        body->secret = k < 0 || json_object_get(*ret, "secrets") || json_object_get(*ret, "allow") || json_object_get(json_object_get(*ret, "policy"), "network_allow");
        return k;
}

void request_forget_body(struct request *r)
{
        body_done(&r->body);
}

int request_json(struct request *r, bool may_be_empty, json_t **ret, gb_error *err)
{
        _cleanup_json_ json_t *value = NULL;

        if (r->body.size == 0 && may_be_empty)
                value = json_object();
        if (r->body.size == 0 && may_be_empty && !value)
                return error_set(err, GB_E_UNAVAILABLE, ENOMEM, "there is no memory for the body");
        int k = value ? 0 : request_json_value(r, &value, err);
        if (k < 0)
                return k;
        if (!json_is_object(value))
                return error_set(err, GB_E_USAGE, EINVAL, "the body is not a JSON object");
        *ret = TAKE_PTR(value);
        return 0;
}

int request_json_value(struct request *r, json_t **ret, gb_error *err)
{
        struct body *body = &r->body;

        if (body->size == 0)
                return error_set(err, GB_E_USAGE, EINVAL, "there is no body; this reads a JSON object");
        int k = check_type(r, err);
        if (k < 0)
                return k;
        if (body->fd >= 0)
                return load_file(r, ret, err);
        k = scan_memory(&body->memory, err);
        return k < 0 ? k : load(body->memory.data, body->memory.size, ret, err);
}
