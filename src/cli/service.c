/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/service.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/quote.h"
#include "cli/output.h"
#include "cli/secrets.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#define SOCKET_NAME "glovebox.sock"
#define TOKEN_VARIABLE "GLOVEBOX_TOKEN"
#define TOKEN_BYTES_MAX 256
#define PAGE_ITEMS 1000

void service_done(struct service *s)
{
        client_done(&s->client);
}

bool service_is_named(const struct option_set *set, const struct arguments *a)
{
        return arguments_has(a, OPT_SERVER) || arguments_get_or_env(set, a, OPT_SERVER);
}

/* It goes into a header field as it is. */
static int find_token(const struct client_address *address, const char **ret, gb_error *err)
{
        const char *token = getenv(TOKEN_VARIABLE);

        *ret = NULL;
        /* Through a socket of this host callers are known by who they are. */
        if (!token || !*token || address->address.ss_family == AF_UNIX)
                return 0;
        for (const char *p = token; *p; p++)
                if (*p <= ' ' || *p >= 0x7f)
                        return error_set(err, GB_E_USAGE, EINVAL, TOKEN_VARIABLE " holds something that is no token: 'glovebox token create' makes one");
        if (strlen(token) > TOKEN_BYTES_MAX)
                return error_set(err, GB_E_USAGE, EINVAL, TOKEN_VARIABLE " is too long for a token");
        if (!address->is_local)
                message_print(MESSAGE_WARNING, "the token goes to %s without encryption", address->authority);
        *ret = token;
        return 0;
}

static int default_address(struct client_address *ret, gb_error *err)
{
        _cleanup_free_ char *path = NULL;

        int r = path_runtime(SOCKET_NAME, &path);
        if (r == 0)
                r = client_address_unix(path, ret);
        if (r == -EPERM)
                return error_set(err, GB_E_UNAVAILABLE, EPERM, "the directory for sockets of this user is not his, or others can write to it");
        return r < 0 ? error_set(err, GB_E_UNAVAILABLE, -r, "the path of the server's socket: %s", strerror(-r)) : 0;
}

static void say_slow(void)
{
        message_print(MESSAGE_WARNING, "the server has taken the connection, but does not answer; Ctrl-C stops waiting for it");
}

int service_open(const struct option_set *set, const struct arguments *a, struct service *ret, gb_error *err)
{
        const char *text = arguments_get_or_env(set, a, OPT_SERVER), *token = NULL;
        struct client_address address;

        *ret = (struct service){.client = {.fd = -1}};
        int r = text ? client_address_parse(text, arguments_get(a, OPT_SERVER) ? "--server" : "GLOVEBOX_SERVER", &address, err)
                     : default_address(&address, err);
        if (r == 0)
                r = find_token(&address, &token, err);
        if (r < 0)
                return r;
        client_init(&ret->client, &address, token);
        ret->client.on_slow = say_slow;
        ret->named = service_is_named(set, a);
        r = client_connect(&ret->client, err);
        if (r < 0 && text)
                error_set(err, GB_E_UNAVAILABLE, -r, "no server at %s: %s", quote(text).text, strerror(-r));
        else if (r < 0)
                error_set(err, GB_E_UNAVAILABLE, -r, "no server listens at %s (%s); 'glovebox serve' starts one, and GLOVEBOX_SERVER says where another one is",
                          ((const struct sockaddr_un *)&address.address)->sun_path, strerror(-r));
        return r;
}

int service_try(struct service *ret)
{
        struct client_address address;

        *ret = (struct service){.client = {.fd = -1}};
        if (default_address(&address, NULL) < 0)
                return 0;
        client_init(&ret->client, &address, NULL);
        ret->client.on_slow = say_slow;
        return client_connect(&ret->client, NULL) == 0;
}

/* ---- answers ---- */

int service_out_of_memory(gb_error *err)
{
        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
}

const char *json_member(const json_t *object, const char *key, const char *fallback)
{
        const char *text = json_string_value(json_object_get(object, key));

        return text ? text : fallback;
}

const json_t *json_inner(const json_t *object, const char *key, const char *inner)
{
        const json_t *value = json_object_get(json_object_get(object, key), inner);

        return json_is_null(value) ? NULL : value;
}

static gb_error_code code_by_name(const char *name)
{
        static const struct {
                const char *name;
                gb_error_code code;
        } rows[] = {
#define ROW(code, text, exit_status, http_status) {text, code},
                GB_ERROR_CODES(ROW)
#undef ROW
        };

        for (size_t i = 1; i < ARRAY_SIZE(rows); i++)
                if (strcmp(rows[i].name, name) == 0)
                        return rows[i].code;
        return GB_E_INTERNAL;
}

/* What helps at the command line; the server's own hints are about addresses. */
static const char *remedy(gb_error_code code)
{
        switch (code) {
        case GB_E_UNAUTHORIZED:
                return "; set " TOKEN_VARIABLE " to a token of 'glovebox token create'";
        case GB_E_QUOTA:
                return "; end something first ('glovebox ps'), or try later";
        case GB_E_UNAVAILABLE:
                return "; try later";
        default:
                return "";
        }
}

int service_error(const json_t *error, gb_error *err)
{
        gb_error_code code = code_by_name(json_member(error, "code", "internal"));

        return error_set(err, code, code == GB_E_NOT_FOUND ? ENOENT : 0, "%s%s", json_member(error, "message", "the server gives no reason"),
                         remedy(code));
}

static int parse_body(struct client *c, json_t **ret, gb_error *err)
{
        json_error_t where;

        *ret = c->body.size > 0 ? json_loadb(c->body.data, c->body.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where) : NULL;
        if (!*ret)
                return error_set(err, GB_E_LOST, EBADMSG, "the server's answer (%d) is not JSON", c->response.status);
        return 0;
}

int service_refused(struct client *c, gb_error *err)
{
        _cleanup_json_ json_t *answer = NULL;

        int r = client_wait(c, CLIENT_WHOLE, monotonic_usec() + CLIENT_ANSWER_USEC, -1, err);
        if (r == 0)
                r = parse_body(c, &answer, err);
        if (r < 0)
                return r;
        return service_error(json_object_get(answer, "error"), err);
}

static int begin(struct service *s, const char *method, const char *target, const char *accept, const json_t *body, char **ret_text,
                 gb_error *err)
{
        char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

        if (body && !text)
                return service_out_of_memory(err);
        *ret_text = text;
        return client_start(&s->client,
                            &(struct client_request){.method = method,
                                                     .target = target,
                                                     .accept = accept,
                                                     .type = body ? "application/json" : NULL,
                                                     .body = text,
                                                     .body_size = text ? strlen(text) : 0,
                                                     .body_fd = -1},
                            err);
}

int service_call(struct service *s, const char *method, const char *target, const json_t *body, json_t **ret, gb_error *err)
{
        _cleanup_wiped_ char *text = NULL;

        int r = begin(s, method, target, NULL, body, &text, err);
        if (r == 0)
                r = client_wait(&s->client, CLIENT_WHOLE, monotonic_usec() + CLIENT_ANSWER_USEC, -1, err);
        if (r < 0)
                return r;
        if (s->client.response.status >= 400)
                return service_refused(&s->client, err);
        return ret ? parse_body(&s->client, ret, err) : 0;
}

int service_answer(struct service *s, json_t **ret, gb_error *err)
{
        int r = client_wait(&s->client, CLIENT_WHOLE, monotonic_usec() + CLIENT_ANSWER_USEC, -1, err);

        return r < 0 ? r : parse_body(&s->client, ret, err);
}

int service_stream(struct service *s, const char *method, const char *target, const json_t *body, int cancel_fd, gb_error *err)
{
        _cleanup_wiped_ char *text = NULL;

        int r = begin(s, method, target, "application/x-ndjson", body, &text, err);
        if (r == 0)
                r = client_wait(&s->client, CLIENT_HEAD, monotonic_usec() + CLIENT_ANSWER_USEC, cancel_fd, err);
        if (r < 0)
                return r;
        return s->client.response.status >= 400 ? service_refused(&s->client, err) : 0;
}

int service_list(struct service *s, const char *target, const char *key, json_t **ret, gb_error *err)
{
        _cleanup_json_ json_t *all = json_array();
        _cleanup_buffer_ struct buffer page;

        buffer_init(&page, CLIENT_HEAD_BYTES_MAX);
        int r = buffer_printf(&page, "%s%climit=%d", target, strchr(target, '?') ? '&' : '?', PAGE_ITEMS);
        size_t first = page.size;
        for (int i = 0; r == 0; i++) {
                _cleanup_json_ json_t *answer = NULL;
                if (i == CLIENT_PAGES_MAX)
                        return error_set(err, GB_E_LIMIT, E2BIG,
                                         "the server has more than %d %s: not all of them can be looked at",
                                         CLIENT_PAGES_MAX * PAGE_ITEMS, key);
                r = service_call(s, "GET", page.data, NULL, &answer, err);
                if (r < 0)
                        return r;
                if (json_array_extend(all, json_object_get(answer, key)) < 0)
                        return error_set(err, GB_E_LOST, EBADMSG, "the server's answer has no list %s", key);
                const json_t *cursor = json_object_get(answer, "next");
                const char *next = json_string_value(cursor);
                if (json_is_null(cursor))
                        break;
                if (!next)
                        return error_set(err, GB_E_LOST, EBADMSG,
                                         "the server's answer does not say whether there are more %s", key);
                page.size = first;
                r = buffer_add_string(&page, "&cursor=");
                if (r == 0)
                        r = client_add_encoded(&page, next, false);
        }
        if (r < 0)
                return service_out_of_memory(err);
        *ret = TAKE_PTR(all);
        return 0;
}

/* ---- streams ---- */

int service_next(struct client *c, json_t **ret, gb_error *err)
{
        for (;;) {
                json_error_t where;
                size_t size;
                const char *line = client_data(c, &size), *end = size > 0 ? memchr(line, '\n', size) : NULL;

                if (!end && client_is_done(c) && size > 0)
                        return error_set(err, GB_E_LOST, EBADMSG, "the server's stream ends within a line");
                if (!end)
                        return 0;
                size_t length = (size_t)(end - line);
                _cleanup_json_ json_t *object =
                        length > 0 ? json_loadb(line, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where) : NULL;
                client_take(c, length + 1);
                if (length == 0)
                        continue;
                if (!json_is_object(object))
                        return error_set(err, GB_E_LOST, EBADMSG, "a line of the server's stream is not an object");
                *ret = TAKE_PTR(object);
                return 1;
        }
}

int service_wait_next(struct client *c, uint64_t deadline_usec, int cancel_fd, json_t **ret, gb_error *err)
{
        for (;;) {
                int r = service_next(c, ret, err);
                if (r != 0 || client_is_done(c))
                        return r;
                r = client_wait(c, CLIENT_MORE, deadline_usec, cancel_fd, err);
                if (r < 0)
                        return r;
        }
}
