/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON-RPC 2.0 as MCP has it: one message at a time, never a batch, ids that are texts or whole numbers. */
#ifndef MCP_RPC_H
#define MCP_RPC_H

#include "base/json.h"
#include "base/macro.h"

#include <stddef.h>

enum rpc_kind {
        RPC_REQUEST,
        RPC_NOTIFICATION, /* no id: it is never answered */
        RPC_ANSWER,       /* of a client, to a request of ours: we have none */
};

/* All borrowed from the message. */
struct rpc_message {
        enum rpc_kind kind;
        json_t *id;           /* of a request; NULL: it has none */
        const char *method;   /* NULL: an answer */
        const json_t *params; /* an object, empty when there is none; never NULL */
};

enum {
        RPC_PARSE = -32700,
        RPC_INVALID = -32600,
        RPC_METHOD = -32601,
        RPC_PARAMS = -32602,
        RPC_INTERNAL = -32603,
        RPC_SESSION_NEEDED = -32000,
        RPC_SESSION_UNKNOWN = -32001,
        RPC_RESOURCE = -32002,    /* of a handshake: there is no such resource; stateless requests have RPC_PARAMS for that */
        RPC_HEADER = -32020,      /* a header says something else than the body */
        RPC_CAPABILITY = -32021,
        RPC_VERSION = -32022,
};

#define RPC_MESSAGE_MAX 512
struct rpc_error {
        int code;
        char message[RPC_MESSAGE_MAX];
        json_t *data; /* NULL: none */
};

void rpc_error_done(struct rpc_error *e);
#define _cleanup_rpc_error_ _cleanup_(rpc_error_done)

/* Fills it in; always negative (-EINVAL), so that it can be returned. e may be NULL. Bytes that are not UTF-8 do not get out of it. */
int rpc_fail(struct rpc_error *e, int code, const char *format, ...) _printf_(3, 4);

/* A value that was parsed as a message; it must live as long as *ret. RPC_INVALID. ret->id is filled in also then, where there is a good one. */
int rpc_read(json_t *value, struct rpc_message *ret, struct rpc_error *err);

/* Messages. Each takes result and params (may be NULL: an empty object), and borrows id (NULL: null). NULL: out of memory. */
json_t *rpc_result(json_t *id, json_t *result);
json_t *rpc_error_to_json(json_t *id, const struct rpc_error *e);
json_t *rpc_notification(const char *method, json_t *params);

/* An id as the key of a table: "n:1", "s:text". id NULL: "". Texts longer than RPC_ID_MAX are refused by rpc_read(). */
#define RPC_ID_MAX 256
#define RPC_KEY_MAX (RPC_ID_MAX + 32)
void rpc_key(const json_t *id, char ret[static RPC_KEY_MAX]);

#endif
