/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of a request, in this order: names (Host, Origin), the caller, the route, its right, whether the server ends, what the client
 * wants to read, how large the body is, and how many its tenant has under way. A caller without a token learns nothing about what comes after it, but for the routes
 * that need none. */
#include "server/dispatch.h"

#include "base/fd.h"
#include "base/json.h"
#include "http/uri.h"
#include "server/body.h"
#include "server/connection.h"
#include "server/gate.h"
#include "server/metrics.h"
#include "server/reply.h"
#include "server/reply_state.h"
#include "server/routes.h"
#include "server/server.h"
#include "server/share.h"
#include "server/workers.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

/* The answer is given: the request ends here, and the connection goes on. */
static void finish(struct request *r)
{
        struct connection *c = r->connection;
        struct loop *l = c->loop;

        bool close = reply_finish(r);
        metrics_request(r->server->metrics, r->route, r->reply->status, monotonic_usec() - r->arrived_usec);
        request_free(r);
        l->n_requests--;
        connection_finish(c, close);
}

static void work(void *data)
{
        struct request *r = data;

        (void)json_lacked_memory(); /* from here on it is this one that lacks it */
        r->route->handler(r);
        finish(r);
}

/* From here on the request may be answered: by a worker, or by the loop. */
static struct request *begin(struct connection *c)
{
        struct request *r = TAKE_PTR(c->request);

        pthread_mutex_lock(&c->lock);
        c->state = CONNECTION_WORKING;
        pthread_mutex_unlock(&c->lock);
        c->loop->n_requests++;
        return r;
}

static void answer_error(struct connection *c, int status, const gb_error *err, bool close)
{
        struct request *r = begin(c);

        if (close)
                r->reply->close = true;
        c->unread = close;
        if (err->code == GB_E_QUOTA)
                metrics_add(r->server->metrics, METRICS_QUOTA, 1);
        else if (err->code == GB_E_UNAVAILABLE)
                metrics_add(r->server->metrics, METRICS_UNAVAILABLE, 1);
        else if (err->code == GB_E_PROTOCOL)
                metrics_add(r->server->metrics, METRICS_PROTOCOL, 1);
        reply_error_status(r, status, err);
        finish(r);
}

void dispatch_bad(struct connection *c, int status, const gb_error *err)
{
        if (!c->request)
                c->request = request_new(c, NULL);
        if (!c->request) {
                connection_cut(c);
                pthread_mutex_lock(&c->lock);
                c->state = CONNECTION_FLUSHING;
                connection_post(c);
                pthread_mutex_unlock(&c->lock);
                return;
        }
        answer_error(c, status, err, true);
}

void dispatch_late(struct request *r)
{
        gb_error err = {0};

        error_set(&err, GB_E_UNAVAILABLE, EAGAIN, "the server works on as many requests as it can");
        metrics_add(r->server->metrics, METRICS_UNAVAILABLE, 1);
        reply_error(r, &err);
        finish(r);
}

/* "; q=0", "; q=0.0": it says that it does not want this. */
static bool is_unwanted(const char *item, size_t size)
{
        const char *end = item + size, *p = memchr(item, ';', size);

        for (; p; p = memchr(p, ';', (size_t)(end - p))) {
                do
                        p++;
                while (p < end && (*p == ' ' || *p == '\t'));
                if (end - p >= 3 && strncasecmp(p, "q=0", 3) == 0)
                        return p + 3 + strspn(p + 3, ".0") >= end || strchr(" \t;", p[3 + strspn(p + 3, ".0")]);
        }
        return false;
}

/* What the client wants to read: the first of its types that we write. */
static enum answer_kind answer_of(const struct request *r)
{
        static const struct {
                const char *type;
                enum answer_kind kind;
        } kinds[] = {
                {"application/json", ANSWER_JSON}, {"text/event-stream", ANSWER_SSE}, {"application/x-ndjson", ANSWER_NDJSON}, {"*/*", ANSWER_JSON},
                {"application/*", ANSWER_JSON},
        };
        const char *accept;
        size_t at = 0;
        bool any = false;

        while ((accept = http_message_next(r->message, "accept", &at)))
                for (const char *p = accept; *p;) {
                        p += strspn(p, " \t,");
                        size_t item = strcspn(p, ","), size = strcspn(p, ",; \t");
                        bool wanted = !is_unwanted(p, item);
                        for (size_t i = 0; i < ARRAY_SIZE(kinds) && wanted; i++)
                                if (size == strlen(kinds[i].type) && strncasecmp(p, kinds[i].type, size) == 0)
                                        return kinds[i].kind;
                        any |= size > 0;
                        p += item;
                }
        return any ? ANSWER_OTHER : ANSWER_JSON;
}

/* Pages of the configuration's origins, and no others, may read what we say. */
static void allow_origin(struct request *r, const char *origin)
{
        if (!origin)
                return;
        (void)reply_header(r, "Access-Control-Allow-Origin", "%s", origin);
        (void)reply_header(r, "Access-Control-Expose-Headers", "Glovebox-Run, Idempotency-Replayed, Location, Mcp-Session-Id, Retry-After");
        (void)reply_header(r, "Vary", "Origin");
}

static bool is_preflight(const struct request *r, const char *origin)
{
        return origin && strcmp(http_message_method(r->message), "OPTIONS") == 0 && request_header(r, "access-control-request-method");
}

static void answer_preflight(struct connection *c)
{
        struct request *r = begin(c);

        (void)reply_header(r, "Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE");
        (void)reply_header(r, "Access-Control-Allow-Headers", "Accept, Authorization, Content-Type, Idempotency-Key, Last-Event-ID, "
                           "Mcp-Session-Id, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Glovebox-Session, Glovebox-Client");
        (void)reply_header(r, "Access-Control-Max-Age", "600");
        reply_empty(r, 204);
        finish(r);
}

static int parse_query(struct request *r, gb_error *err)
{
        const char *query = strchr(r->target, '?');
        int k = uri_query_parse(query ? query + 1 : NULL, &r->query);

        if (k == -E2BIG)
                return error_set(err, GB_E_USAGE, E2BIG, "the query has more than %d parameters", HTTP_QUERY_MAX);
        if (k == -EINVAL)
                return error_set(err, GB_E_USAGE, EINVAL, "the query is not well encoded: %% has two hexadecimal digits behind it, and all is UTF-8 without NUL");
        if (k < 0)
                return error_set(err, GB_E_UNAVAILABLE, -k, "there is no memory for the request");
        return 0;
}

/* Its right, and whether it is the time for it. */
static int check_route(struct request *r, gb_error *err)
{
        int state = r->server->state;

        if (r->route->flags & ROUTE_OPEN)
                return 0;
        if (r->route->scope && !(r->caller.scopes & r->route->scope)) {
                char scope[64];
                token_scopes_text(r->route->scope, scope, sizeof(scope));
                return error_set(err, GB_E_DENIED, EACCES, "this token lacks the scope \"%s\"", scope);
        }
        if (state == SERVER_STARTING)
                return error_set(err, GB_E_UNAVAILABLE, EAGAIN, "the server has not started yet");
        if (state == SERVER_DRAINING && !(r->route->flags & ROUTE_DRAINING))
                return error_set(err, GB_E_UNAVAILABLE, EAGAIN, "the server ends, and begins nothing new");
        return 0;
}

static int check_body(struct request *r, struct http_parser *parser, gb_error *err)
{
        const struct server_config *config = &r->server->config;
        /* What only looks has no body: some of it is for everybody, who shall not fill our disk. */
        bool looks = strcmp(r->route->method, "GET") == 0;
        uint64_t max = looks ? 0 : r->route->flags & ROUTE_BYTES ? config->upload_bytes : config->body_bytes;
        const char *encoding = request_header(r, "content-encoding");

        parser->body_max = max;
        r->body.secret = !(r->route->flags & ROUTE_BYTES); /* there may be secrets in it, until it was read */
        if (r->message->content_length > max)
                return error_set(err, GB_E_TOO_LARGE, EFBIG, "the body has %llu bytes, the most is %llu", (unsigned long long)r->message->content_length,
                                 (unsigned long long)max);
        if (encoding && strcasecmp(encoding, "identity") != 0)
                return error_set(err, GB_E_MEDIA, EINVAL, "bodies with a Content-Encoding are not read here");
        return 0;
}

/* Many requests that wait are many threads, and one tenant shall not have all of them. Our own user could end us as well. */
static int take_share(struct request *r, gb_error *err)
{
        bool ours = r->caller.local && r->caller.token[0] == '\0';

        if (ours || r->route->flags & ROUTE_OPEN)
                return 0;
        return share_take(r->caller.tenant, r->server->config.threads, &r->reply->share, err);
}

/* The whole of it. *ret_status: that of the error, where it is not its code's. */
static int admit(struct request *r, struct http_parser *parser, const char **ret_origin, int *ret_status, gb_error *err)
{
        char allow[ROUTE_ALLOW_MAX];
        gb_error route_error = {0};

        int k = gate_check_names(r, ret_origin, err);
        if (k < 0)
                return k;
        allow_origin(r, *ret_origin);
        if (is_preflight(r, *ret_origin))
                return 0;
        int found = route_find(http_message_method(r->message), r->target, &r->route, r->params, allow, &route_error);
        if (found < 0 || !(r->route->flags & ROUTE_OPEN)) {
                k = gate_check_caller(r, err);
                if (k < 0)
                        return k;
        }
        if (found < 0) {
                *err = route_error;
                if (allow[0])
                        (void)reply_header(r, "Allow", "%s", allow);
                return found;
        }
        k = check_route(r, err);
        if (k < 0)
                return k;
        k = parse_query(r, err);
        if (k < 0)
                return k;
        r->answer = answer_of(r);
        if (r->answer == ANSWER_OTHER && r->route->flags & ROUTE_STREAMS) {
                *ret_status = 406;
                return error_set(err, GB_E_MEDIA, EINVAL, "Accept names nothing that is written here: application/json, text/event-stream, application/x-ndjson");
        }
        k = check_body(r, parser, err);
        return k < 0 ? k : take_share(r, err);
}

/* The answer to a request that needs no body waits until its end was seen, so that the next one is found behind it. */
static int refuse(struct connection *c, bool has_body, int status, const gb_error *err)
{
        struct reply *reply = c->request->reply;

        if (!has_body && err->code != GB_E_PROTOCOL) {
                reply->refused = malloc(sizeof(*err));
                if (reply->refused) {
                        *reply->refused = *err;
                        reply->refused_status = status;
                        return 0;
                }
        }
        answer_error(c, status, err, true);
        return -EINVAL;
}

int dispatch_head(struct connection *c, bool body_came)
{
        struct http_message *message = TAKE_PTR(c->parser.message);
        bool has_body = message->chunked || message->content_length > 0, expects = message->expect_continue;
        const char *origin = NULL;
        gb_error err = {0};
        int status = 0;

        c->request = request_new(c, message);
        if (!c->request) {
                error_set(&err, GB_E_UNAVAILABLE, ENOMEM, "there is no memory for the request");
                dispatch_bad(c, 0, &err);
                return -ENOMEM;
        }
        int k = admit(c->request, &c->parser, &origin, &status, &err);
        if (k < 0)
                return refuse(c, has_body, status, &err);
        if (has_body && expects && !body_came) {
                static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
                struct iovec part = {(void *)(uintptr_t)text, sizeof(text) - 1};
                (void)connection_write(c, &part, 1);
        }
        return 0;
}

static void answer_refused(struct connection *c)
{
        _cleanup_free_ gb_error *err = TAKE_PTR(c->request->reply->refused);

        answer_error(c, c->request->reply->refused_status, err, false);
}

void dispatch_request(struct connection *c)
{
        gb_error err = {0};

        if (c->request->reply->refused) {
                answer_refused(c);
                return;
        }
        if (!c->request->route) {
                answer_preflight(c);
                return;
        }
        if (body_end(&c->request->body, &err) < 0) {
                answer_error(c, 0, &err, false);
                return;
        }
        struct request *r = begin(c);
        if (r->route->flags & ROUTE_INLINE) {
                work(r);
                return;
        }
        int k = workers_start_request(r->server->workers, work, r);
        if (k < 0)
                dispatch_late(r);
        else if (k > 0)
                loop_watch_queue(c->loop);
}
