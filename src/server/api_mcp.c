/* SPDX-License-Identifier: Apache-2.0
 *
 * /mcp: docs/mcp.md. Host, Origin and the token were looked at before anything comes here.
 *
 * A message of a POST goes through these steps: what the client reads (Accept), what it is (JSON, JSON-RPC), its era, whose it is (a client that shook hands, a
 * bridge that names itself, or one that stands alone), and then its method. What belongs to the protocol goes wrong as JSON-RPC, with the status of HTTP that
 * clients look at. */
#include "server/routes.h"

#include "base/json.h"
#include "base/quote.h"
#include "http/message.h"
#include "server/mcp_stream.h"
#include "server/reply.h"
#include "server/reply_state.h"
#include "server/server.h"
#include "server/session_order.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

/* What is read of a request before its method is called. */
struct post {
        struct request *request;
        json_t *value;   /* the message; owned */
        json_t *options; /* owned; NULL: none */
        struct mcp_call call;
};

static void post_done(struct post *p)
{
        fields_wipe_secrets(p->options);
        json_decref(p->options);
        json_decref(p->value);
        mcp_client_put(p->call.client);
}

static void refuse(struct request *r, int status, json_t *id, const struct rpc_error *e)
{
        reply_json(r, status, rpc_error_to_json(id, e));
}

static int status_of(const gb_error *err)
{
        return reply_status_of(err->code);
}

/* An error of ours as one of the protocol; *ret_status: for HTTP. */
static int as_rpc(const gb_error *why, int code, int *ret_status, struct rpc_error *err)
{
        *ret_status = status_of(why);
        return rpc_fail(err, code, "%s", why->message);
}

/* ---- what the client reads ---- */

static bool accepts(const struct request *r, const char *type)
{
        const char *accept;
        size_t at = 0, size = strlen(type);
        bool any = false;

        while ((accept = http_message_next(r->message, "accept", &at)))
                for (const char *p = accept; *p; p += strcspn(p, ",")) {
                        p += strspn(p, " \t,");
                        size_t n = strcspn(p, ",; \t");
                        any |= n > 0;
                        if ((n == size && strncasecmp(p, type, n) == 0) || (n == 3 && strncmp(p, "*/*", 3) == 0))
                                return true;
                }
        return !any;
}

static int check_accept(const struct request *r, int *ret_status, struct rpc_error *err)
{
        if (accepts(r, "application/json") && accepts(r, "text/event-stream"))
                return 0;
        *ret_status = 406;
        return rpc_fail(err, RPC_SESSION_NEEDED, "Accept must have application/json and text/event-stream");
}

/* ---- the message ---- */

static int read_message(struct post *p, int *ret_status, struct rpc_error *err)
{
        gb_error why = {0};

        if (p->request->body.size > MCP_LINE_BYTES_MAX) {
                error_set(&why, GB_E_TOO_LARGE, EFBIG, "a message has %llu bytes at most", (unsigned long long)MCP_LINE_BYTES_MAX);
                return as_rpc(&why, RPC_INVALID, ret_status, err);
        }
        if (request_json_value(p->request, &p->value, &why) < 0)
                return as_rpc(&why, why.code == GB_E_USAGE ? RPC_PARSE : RPC_INTERNAL, ret_status, err);
        request_forget_body(p->request);
        *ret_status = 400;
        return rpc_read(p->value, &p->call.message, err);
}

/* ---- what a new session of it is made of ---- */

static int set_from_query(struct post *p, const char *name, const char *outer)
{
        const char *text = request_query(p->request, name);

        if (!text)
                return 0;
        if (!p->options)
                p->options = json_object();
        json_t *at = p->options;
        if (outer) {
                if (!json_object_get(at, outer) && json_object_set_new(at, outer, json_object()) < 0)
                        return -ENOMEM;
                at = json_object_get(at, outer);
        }
        return json_object_set_new(at, name, json_string(text)) < 0 ? -ENOMEM : 0;
}

/* The header Glovebox-Session is what POST /v1/sessions reads; ?template= and ?trust= are for who has nothing but an address. */
static int read_options(struct post *p, int *ret_status, struct rpc_error *err)
{
        static const char *const names[] = {"template", "trust", NULL};
        const char *header = request_header(p->request, "glovebox-session");
        json_error_t why;
        gb_error wrong = {0};

        if (request_check_query(p->request, names, &wrong) < 0)
                return as_rpc(&wrong, RPC_PARAMS, ret_status, err);
        *ret_status = 400;
        if (header)
                p->options = json_parse(header, strlen(header), JSON_REJECT_DUPLICATES, &why);
        if (header && !json_is_object(p->options))
                return rpc_fail(err, RPC_PARAMS, "the header Glovebox-Session is a JSON object, as POST /v1/sessions reads it");
        const json_t *policy = json_object_get(p->options, "policy");
        if (policy && !json_is_object(policy))
                return rpc_fail(err, RPC_PARAMS, "the header Glovebox-Session: policy must be an object");
        if (set_from_query(p, "template", NULL) < 0 || set_from_query(p, "trust", "policy") < 0)
                return mcp_out_of_memory(err);
        return 0;
}

/* Whoever shakes hands hears at once what is wrong with it, and not with the first tool. */
static int check_options(struct post *p, struct rpc_error *err)
{
        _cleanup_session_order_ struct session_order order = {0};
        gb_error why = {0};

        if (!p->options || session_order_read(p->request->server, &p->request->caller, p->options, &order, &why) == 0)
                return 0;
        return rpc_fail(err, RPC_PARAMS, "Glovebox-Session: %s", why.message);
}

/* ---- whose it is ---- */

static int find_client(struct post *p, int *ret_status, struct rpc_error *err)
{
        struct request *r = p->request;
        const char *id = request_header(r, "mcp-session-id");

        *ret_status = 400;
        if (!id)
                return rpc_fail(err, RPC_SESSION_NEEDED, "the header Mcp-Session-Id is missing: begin with initialize");
        p->call.client = mcp_client_get(r->server->mcp, &r->caller, id);
        if (p->call.client)
                return 0;
        *ret_status = 404;
        return rpc_fail(err, RPC_SESSION_UNKNOWN, "there is no session of that Mcp-Session-Id: begin anew with initialize");
}

/* Of a stateless request. A bridge stands for one client, and says so. */
static int find_named(struct post *p, int *ret_status, struct rpc_error *err)
{
        struct request *r = p->request;
        const char *name = request_header(r, "glovebox-client");
        gb_error why = {0};

        if (!name || mcp_client_named(r->server->mcp, &r->caller, name, p->options, request_header(r, "glovebox-again"), &p->call.client, &why) == 0)
                return 0;
        return as_rpc(&why, RPC_PARAMS, ret_status, err);
}

/* ---- the handshake ---- */

static void initialize(struct post *p)
{
        struct request *r = p->request;
        const char *version = json_string_value(json_object_get(p->call.message.params, "protocolVersion"));
        _cleanup_rpc_error_ struct rpc_error err = {0};
        gb_error why = {0};
        int status = 200;

        int k = version ? check_options(p, &err) : rpc_fail(&err, RPC_PARAMS, "params.protocolVersion must be a text");
        _cleanup_json_ json_t *result = k == 0 ? mcp_initialize_result(version) : NULL;
        if (k == 0 && !result)
                k = mcp_out_of_memory(&err);
        if (k == 0 && mcp_client_new(r->server->mcp, &r->caller, json_string_value(json_object_get(result, "protocolVersion")), p->options, &p->call.client, &why) < 0)
                k = as_rpc(&why, RPC_INTERNAL, &status, &err);
        if (k < 0) {
                refuse(r, status, p->call.message.id, &err);
                return;
        }
        p->call.client->again = request_header(r, "glovebox-again"); /* nobody else knows it yet */
        (void)reply_header(r, "Mcp-Session-Id", "%s", p->call.client->id);
        reply_json(r, 200, rpc_result(p->call.message.id, TAKE_PTR(result)));
}

/* ---- what is not answered ---- */

static void notified(struct post *p)
{
        const struct rpc_message *m = &p->call.message;

        if (m->kind == RPC_NOTIFICATION && p->call.client && strcmp(m->method, "notifications/cancelled") == 0)
                mcp_client_cancel(p->call.client, json_object_get(m->params, "requestId"));
        reply_empty(p->request, 202);
}

/* ---- a request ---- */

/* What HTTP says of an error; the message says the rest. */
static int status_for(const struct mcp_call *c, const struct rpc_error *err)
{
        return c->era == MCP_STATELESS && err->code == RPC_METHOD ? 404 : 200;
}

static void answer(struct mcp_call *c, int k, json_t *result, const struct rpc_error *err)
{
        json_t *message = NULL;

        if (k == 0) {
                result = mcp_finish_result(c->era, c->message.method, result);
                message = result ? rpc_result(c->message.id, result) : NULL;
        } else if (k < 0) {
                message = rpc_error_to_json(c->message.id, err);
        }
        if (c->stream) {
                if (k <= 0 && !mcp_is_cancelled(c))
                        mcp_stream_send(c, message);
                else
                        json_decref(message);
                mcp_stream_end(c);
        } else if (k > 0) {
                reply_empty(c->request, 202); /* it was cancelled: nobody reads this */
        } else {
                reply_json(c->request, k < 0 ? status_for(c, err) : 200, message);
        }
}

static void work(struct post *p)
{
        struct mcp_call *c = &p->call;
        _cleanup_rpc_error_ struct rpc_error err = {0};
        json_t *result = NULL;
        const char *level = json_string_value(json_object_get(mcp_meta(&c->message), "io.modelcontextprotocol/logLevel"));

        c->options = p->options;
        c->log_level = level ? mcp_level_by_name(level) : -1;
        if (c->era == MCP_HANDSHAKE && c->client) {
                pthread_mutex_lock(&c->client->lock);
                c->log_level = c->client->log_level;
                pthread_mutex_unlock(&c->client->lock);
        }
        rpc_key(c->message.id, c->key);
        int k = mcp_call_enter(c, &err);
        if (k < 0) {
                refuse(p->request, 200, c->message.id, &err);
                return;
        }
        k = mcp_method_call(c, &result, &err);
        mcp_call_leave(c);
        answer(c, k, result, &err);
}

/* Everything up to the method. */
static int admit(struct post *p, int *ret_status, struct rpc_error *err)
{
        struct request *r = p->request;
        struct mcp_call *c = &p->call;
        const char *version = request_header(r, "mcp-protocol-version");

        int k = check_accept(r, ret_status, err);
        if (k == 0)
                k = read_options(p, ret_status, err);
        if (k == 0)
                k = read_message(p, ret_status, err);
        if (k < 0)
                return k;
        c->era = mcp_era_of(&c->message, version);
        *ret_status = 400;
        if (c->era == MCP_STATELESS && c->message.kind == RPC_REQUEST) {
                k = mcp_headers_check(&c->message, version, request_header(r, "mcp-method"), request_header(r, "mcp-name"), err);
                if (k == 0)
                        k = mcp_meta_check(&c->message, err);
                return k < 0 ? k : find_named(p, ret_status, err);
        }
        if (c->era == MCP_STATELESS)
                return 0;
        if (version && !mcp_version_is_known(version))
                return rpc_fail(err, RPC_SESSION_NEEDED, "MCP-Protocol-Version: %s is not spoken here; %s is", quote(version).text, MCP_NEWEST_HANDSHAKE);
        if (c->message.method && strcmp(c->message.method, "initialize") == 0 && c->message.kind == RPC_REQUEST)
                return 0;
        /* Some ask first, and wait for an answer of any kind. */
        if (c->message.kind == RPC_REQUEST && !mcp_method_is_known(c)) {
                *ret_status = 200;
                return rpc_fail(err, RPC_METHOD, "there is no method %s", quote(c->message.method).text);
        }
        return find_client(p, ret_status, err);
}

void api_mcp_post(struct request *r)
{
        _cleanup_(post_done) struct post p = {.request = r, .call = {.request = r, .server = r->server, .caller = &r->caller}};
        _cleanup_rpc_error_ struct rpc_error err = {0};
        int status = 400;

        if (admit(&p, &status, &err) < 0)
                refuse(r, status, p.call.message.id, &err);
        else if (p.call.message.kind != RPC_REQUEST)
                notified(&p);
        else if (strcmp(p.call.message.method, "initialize") == 0)
                initialize(&p);
        else
                work(&p);
}

/* ---- the other methods of HTTP ---- */

/* Their addresses have no parameters. */
static int check_plain(const struct request *r, int *ret_status, struct rpc_error *err)
{
        static const char *const none[] = {NULL};
        gb_error why = {0};

        return request_check_query(r, none, &why) < 0 ? as_rpc(&why, RPC_PARAMS, ret_status, err) : 0;
}

void api_mcp_get(struct request *r)
{
        _cleanup_(post_done) struct post p = {.request = r};
        _cleanup_rpc_error_ struct rpc_error err = {0};
        int status = 406;

        if (!accepts(r, "text/event-stream"))
                (void)rpc_fail(&err, RPC_SESSION_NEEDED, "Accept must have text/event-stream");
        else if (check_plain(r, &status, &err) == 0 && find_client(&p, &status, &err) == 0) {
                mcp_stream_follow(r, p.call.client, request_header(r, "last-event-id"));
                return;
        }
        refuse(r, status, NULL, &err);
}

void api_mcp_delete(struct request *r)
{
        _cleanup_(post_done) struct post p = {.request = r};
        _cleanup_rpc_error_ struct rpc_error err = {0};
        const char *name = request_header(r, "glovebox-client");
        int status = 400;

        int k = check_plain(r, &status, &err);
        if (k == 0 && name && !request_header(r, "mcp-session-id"))
                p.call.client = mcp_client_get(r->server->mcp, &r->caller, name);
        else if (k == 0)
                k = find_client(&p, &status, &err);
        if (k < 0) {
                refuse(r, status, NULL, &err);
                return;
        }
        if (p.call.client)
                mcp_client_end(p.call.client);
        reply_empty(r, 200);
}
