/* SPDX-License-Identifier: Apache-2.0 */
#include "server/mcp_stream.h"

#include "base/quote.h"
#include "server/scrubbing.h"
#include "server/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int mcp_out_of_memory(struct rpc_error *err)
{
        (void)rpc_fail(err, RPC_INTERNAL, "out of memory");
        return -ENOMEM;
}

/* ---- tools ---- */

/* What to do, where the message does not say it; for a model. */
static const char *hint_for(const gb_error *err)
{
        switch (err->code) {
        case GB_E_QUOTA: return "wait a moment and try again, or end what goes on";
        case GB_E_UNAVAILABLE: return "try again in a moment";
        case GB_E_LIMIT: return "ask for less";
        case GB_E_DISK_FULL: return "delete files that are not needed, or write less";
        case GB_E_LOST: return "the session may have ended; call the tool again without `session`, or with \"new\"";
        case GB_E_UNENFORCEABLE: return "the operator of this sandbox has to look at it: `glovebox doctor` says what the host lacks";
        default: return NULL;
        }
}

int mcp_tool_failed(struct mcp_call *c, const struct live_session *s, const gb_error *error, json_t **ret, struct rpc_error *err)
{
        gb_error why = *error;

        scrubbing_error(c->server->scrubbing, s ? living_secrets_scrub(s->secrets) : NULL, &why);
        *ret = content_of_error(&why, hint_for(&why));
        return *ret ? 0 : mcp_out_of_memory(err);
}

static int tools_list(struct mcp_call *c, json_t **ret, struct rpc_error *err)
{
        if (json_object_get(c->message.params, "cursor"))
                return rpc_fail(err, RPC_PARAMS, "all tools are on the first page: there is no cursor");
        *ret = mcp_tools_list(mcp_tools_of(c->server->mcp));
        return *ret ? 0 : mcp_out_of_memory(err);
}

static int tools_call(struct mcp_call *c, json_t **ret, struct rpc_error *err)
{
        static const struct {
                mcp_tool_function *function;
                bool streams; /* it may take long, and has something to tell meanwhile */
        } rows[TOOLS_N] = {
                [TOOL_LIST_FILES] = {mcp_tool_list_files, false},       [TOOL_READ_FILE] = {mcp_tool_read_file, false},
                [TOOL_RESET_SESSION] = {mcp_tool_reset_session, false}, [TOOL_RUN_CODE] = {mcp_tool_run_code, true},
                [TOOL_RUN_PYTHON] = {mcp_tool_run_python, true},        [TOOL_RUN_SHELL] = {mcp_tool_run_shell, true},
                [TOOL_SESSION_INFO] = {mcp_tool_session_info, false},   [TOOL_WRITE_FILE] = {mcp_tool_write_file, false},
        };
        const char *name = json_string_value(json_object_get(c->message.params, "name"));
        const json_t *given = json_object_get(c->message.params, "arguments");
        _cleanup_json_ json_t *none = given ? NULL : json_object();
        const json_t *arguments = given ? given : none;
        struct mcp_tool tool;

        if (!name)
                return rpc_fail(err, RPC_PARAMS, "params.name must be the name of a tool");
        if (!arguments)
                return mcp_out_of_memory(err);
        int r = mcp_tool_find(mcp_tools_of(c->server->mcp), name, &tool, err);
        if (r == 0)
                r = mcp_tool_check(&tool, arguments, err);
        if (r == 0 && rows[tool.id].streams && mcp_stream_open(c) < 0)
                r = mcp_out_of_memory(err);
        return r < 0 ? r : rows[tool.id].function(c, arguments, ret, err);
}

/* ---- what else there is ---- */

int mcp_empty_result(json_t **ret, struct rpc_error *err)
{
        *ret = json_object();
        return *ret ? 0 : mcp_out_of_memory(err);
}

static int ping(struct mcp_call *c, json_t **ret, struct rpc_error *err)
{
        return mcp_empty_result(ret, err);
}

static int discover(struct mcp_call *c, json_t **ret, struct rpc_error *err)
{
        *ret = mcp_discover_result();
        return *ret ? 0 : mcp_out_of_memory(err);
}

static int set_level(struct mcp_call *c, json_t **ret, struct rpc_error *err)
{
        const char *name = json_string_value(json_object_get(c->message.params, "level"));
        int level = name ? mcp_level_by_name(name) : -1;

        if (level < 0)
                return rpc_fail(err, RPC_PARAMS, "params.level is debug, info, notice, warning, error, critical, alert or emergency");
        pthread_mutex_lock(&c->client->lock);
        c->client->log_level = level;
        pthread_mutex_unlock(&c->client->lock);
        return mcp_empty_result(ret, err);
}

/* ---- subscriptions/listen ---- */

/* A client that lives as long as the request: what it watches. */
static struct mcp_client *watch_new(const struct mcp_call *c)
{
        struct mcp_client *w = calloc(1, sizeof(*w));

        if (!w)
                return NULL;
        strcpy(w->tenant, c->caller->tenant);
        pthread_mutex_init(&w->lock, NULL);
        live_cond_init(&w->changed);
        return w;
}

static void watch_free(struct mcp_client *w)
{
        if (!w)
                return;
        for (size_t i = 0; i < w->n_subscriptions; i++)
                free(w->subscriptions[i].uri);
        pthread_cond_destroy(&w->changed);
        pthread_mutex_destroy(&w->lock);
        free(w);
}
DEFINE_CLEANUP(struct mcp_client, watch_free)

/* Subscribes as a client that shook hands does, one after the other. */
static int watch_all(struct mcp_call *c, struct mcp_client *watch, const json_t *uris, struct rpc_error *err)
{
        size_t i;
        json_t *uri;

        if (uris && !json_is_array(uris))
                return rpc_fail(err, RPC_PARAMS, "params.notifications.resourceSubscriptions must be a list");
        json_array_foreach((json_t *)(uintptr_t)uris, i, uri) {
                _cleanup_json_ json_t *params = json_pack("{s:O}", "uri", uri), *nothing = NULL;
                struct mcp_call one = {.request = c->request, .server = c->server, .caller = c->caller, .client = watch, .era = c->era, .message = {.params = params}};
                if (!params)
                        return mcp_out_of_memory(err);
                int r = mcp_resources_subscribe(&one, &nothing, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

static json_t *acknowledgement(struct mcp_call *c, const struct mcp_client *watch, bool list)
{
        _cleanup_json_ json_t *accepted = json_object(), *uris = json_array();
        int r = 0;

        for (size_t i = 0; i < watch->n_subscriptions; i++)
                r |= json_array_append_new(uris, json_string(watch->subscriptions[i].uri));
        if (list)
                r |= json_object_set_new(accepted, "resourcesListChanged", json_true());
        if (watch->n_subscriptions > 0)
                r |= json_object_set(accepted, "resourceSubscriptions", uris);
        json_t *params = r == 0 ? json_pack("{s:O, s:{s:O}}", "notifications", accepted, "_meta", "io.modelcontextprotocol/subscriptionId", c->message.id) : NULL;
        return params ? rpc_notification("notifications/subscriptions/acknowledged", params) : NULL;
}

static int listen(struct mcp_call *c, json_t **ret, struct rpc_error *err)
{
        const json_t *wanted = json_object_get(c->message.params, "notifications");
        bool list = json_is_true(json_object_get(wanted, "resourcesListChanged")) && c->client;
        _cleanup_(watch_free_ptr) struct mcp_client *watch = watch_new(c);

        if (!json_is_object(wanted))
                return rpc_fail(err, RPC_PARAMS, "params.notifications must be an object");
        int r = watch ? watch_all(c, watch, json_object_get(wanted, "resourceSubscriptions"), err) : mcp_out_of_memory(err);
        if (r < 0)
                return r;
        json_t *first = acknowledgement(c, watch, list);
        if (!first || mcp_stream_open(c) < 0) {
                json_decref(first);
                return mcp_out_of_memory(err);
        }
        mcp_stream_send(c, first);
        mcp_stream_listen(c, watch, list);
        return mcp_empty_result(ret, err);
}

/* ---- the table ---- */

#define BOTH ((1U << MCP_HANDSHAKE) | (1U << MCP_STATELESS))

static const struct {
        const char *name;
        unsigned eras;
        mcp_method *function;
} methods[] = {
        {"ping", 1U << MCP_HANDSHAKE, ping},
        {"logging/setLevel", 1U << MCP_HANDSHAKE, set_level},
        {"server/discover", 1U << MCP_STATELESS, discover},
        {"subscriptions/listen", 1U << MCP_STATELESS, listen},
        {"tools/list", BOTH, tools_list},
        {"tools/call", BOTH, tools_call},
        {"resources/list", BOTH, mcp_resources_list},
        {"resources/read", BOTH, mcp_resources_read},
        {"resources/templates/list", BOTH, mcp_resources_templates},
        {"resources/subscribe", 1U << MCP_HANDSHAKE, mcp_resources_subscribe},
        {"resources/unsubscribe", 1U << MCP_HANDSHAKE, mcp_resources_unsubscribe},
};

static mcp_method *find(const struct mcp_call *c)
{
        for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
                if (strcmp(methods[i].name, c->message.method) == 0 && methods[i].eras & 1U << c->era)
                        return methods[i].function;
        return NULL;
}

bool mcp_method_is_known(const struct mcp_call *c)
{
        return find(c);
}

int mcp_method_call(struct mcp_call *c, json_t **ret, struct rpc_error *err)
{
        mcp_method *function = find(c);

        if (!function)
                return rpc_fail(err, RPC_METHOD, "there is no method %s", quote(c->message.method).text);
        return function(c, ret, err);
}
