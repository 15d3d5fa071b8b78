/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/rpc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void rpc_error_done(struct rpc_error *e)
{
        json_decref(e->data);
        e->data = NULL;
}

int rpc_fail(struct rpc_error *e, int code, const char *format, ...)
{
        va_list ap;

        if (!e)
                return -EINVAL;
        rpc_error_done(e);
        e->code = code;
        va_start(ap, format);
        (void)vsnprintf(e->message, sizeof(e->message), format, ap);
        va_end(ap);
        return -EINVAL;
}

/* ---- reading ---- */

static bool is_id(const json_t *id)
{
        return json_is_integer(id) || (json_is_string(id) && json_string_length(id) <= RPC_ID_MAX);
}

/* There is always an object: nobody has to ask. */
static int read_params(json_t *value, struct rpc_message *ret, struct rpc_error *err)
{
        const json_t *params = json_object_get(value, "params");

        if (params && !json_is_object(params))
                return rpc_fail(err, RPC_INVALID, "params must be an object");
        if (!params && json_object_set_new(value, "params", json_object()) < 0)
                return rpc_fail(err, RPC_INTERNAL, "out of memory");
        ret->params = json_object_get(value, "params");
        return 0;
}

static int read_method(json_t *value, struct rpc_message *ret, struct rpc_error *err)
{
        const json_t *method = json_object_get(value, "method");

        if (!method) {
                if (!json_object_get(value, "result") && !json_object_get(value, "error"))
                        return rpc_fail(err, RPC_INVALID, "a message has a method, a result or an error");
                ret->kind = RPC_ANSWER;
                return 0;
        }
        ret->method = json_string_value(method);
        if (!ret->method || !*ret->method)
                return rpc_fail(err, RPC_INVALID, "method must be a text");
        ret->kind = json_object_get(value, "id") ? RPC_REQUEST : RPC_NOTIFICATION;
        return 0;
}

int rpc_read(json_t *value, struct rpc_message *ret, struct rpc_error *err)
{
        *ret = (struct rpc_message){.kind = RPC_REQUEST};
        if (json_is_array(value))
                return rpc_fail(err, RPC_INVALID, "batches are not taken: send one message at a time");
        if (!json_is_object(value))
                return rpc_fail(err, RPC_INVALID, "a message is an object");
        json_t *id = json_object_get(value, "id");
        if (is_id(id))
                ret->id = id;
        const char *version = json_string_value(json_object_get(value, "jsonrpc"));
        if (!version || strcmp(version, "2.0") != 0)
                return rpc_fail(err, RPC_INVALID, "jsonrpc must be \"2.0\"");
        if (id && !ret->id && !(json_is_null(id) && json_object_get(value, "error")))
                return rpc_fail(err, RPC_INVALID, "id must be a whole number, or a text of at most %d bytes", RPC_ID_MAX);
        int r = read_method(value, ret, err);
        return r < 0 ? r : read_params(value, ret, err);
}

/* ---- writing ---- */

static json_t *message_with(json_t *id)
{
        return json_pack("{s:s, s:O?}", "jsonrpc", "2.0", "id", id);
}

json_t *rpc_result(json_t *id, json_t *result)
{
        json_t *m = message_with(id);

        if (json_object_set_new(m, "result", result ? result : json_object()) == 0)
                return m;
        json_decref(m);
        return NULL;
}

json_t *rpc_error_to_json(json_t *id, const struct rpc_error *e)
{
        json_t *m = json_pack("{s:s, s:o, s:{s:i, s:o}}", "jsonrpc", "2.0", "id", id ? json_incref(id) : json_null(), "error", "code", e->code, "message",
                              json_readable(e->message, strlen(e->message)));

        if (m && e->data && json_object_set(json_object_get(m, "error"), "data", e->data) < 0) {
                json_decref(m);
                return NULL;
        }
        return m;
}

json_t *rpc_notification(const char *method, json_t *params)
{
        json_t *m = json_pack("{s:s, s:s}", "jsonrpc", "2.0", "method", method);

        if (json_object_set_new(m, "params", params ? params : json_object()) == 0)
                return m;
        json_decref(m);
        return NULL;
}

void rpc_key(const json_t *id, char ret[static RPC_KEY_MAX])
{
        if (json_is_integer(id))
                (void)snprintf(ret, RPC_KEY_MAX, "n:%lld", (long long)json_integer_value(id));
        else if (json_is_string(id))
                (void)snprintf(ret, RPC_KEY_MAX, "s:%s", json_string_value(id));
        else
                ret[0] = '\0';
}
