/* SPDX-License-Identifier: Apache-2.0
 *
 * The two eras of the protocol, and what they say of us. In the older one a client shakes hands (`initialize`) and then has a session; in the newer one
 * each request stands alone and says itself which version it speaks. */
#ifndef MCP_PROTOCOL_H
#define MCP_PROTOCOL_H

#include "mcp/rpc.h"

#include <stdbool.h>

enum mcp_era { MCP_HANDSHAKE, MCP_STATELESS };

#define MCP_STATELESS_VERSION "2026-07-28"
#define MCP_NEWEST_HANDSHAKE "2025-11-25"
#define MCP_OLDEST_HTTP "2025-03-26" /* what a client speaks that does not say */

/* Whether it is a version of a handshake that we speak. */
bool mcp_version_is_known(const char *version);
/* Clients since then know an event that has an id and no data. */
bool mcp_version_primes(const char *version);

/* By what the request says in _meta. version: of the header MCP-Protocol-Version, NULL: none. */
enum mcp_era mcp_era_of(const struct rpc_message *m, const char *version);

/* Of a stateless request: everything that must be in _meta is there, and good. RPC_PARAMS, RPC_VERSION. */
int mcp_meta_check(const struct rpc_message *m, struct rpc_error *err);
/* The headers of a stateless request say what its body says; each NULL: it is not there. RPC_HEADER, RPC_VERSION. */
int mcp_headers_check(const struct rpc_message *m, const char *version, const char *method, const char *name, struct rpc_error *err);

/* Levels of messages in the log, as syslog has them: 0 debug ... 7 emergency; -1: no such one. */
enum mcp_level { MCP_DEBUG, MCP_INFO, MCP_NOTICE, MCP_WARNING, MCP_ERROR, MCP_CRITICAL, MCP_ALERT, MCP_EMERGENCY };
int mcp_level_by_name(const char *name);
const char *mcp_level_name(enum mcp_level level);

/* _meta of params; NULL: none. */
const json_t *mcp_meta(const struct rpc_message *m);
/* Borrowed; a text or a number. NULL: no progress is wanted. */
json_t *mcp_progress_token(const struct rpc_message *m);

/* Results. NULL: out of memory. */
json_t *mcp_initialize_result(const char *client_version);
json_t *mcp_discover_result(void);
/* What all results of the era have besides; takes the result, and returns it. NULL: out of memory. */
json_t *mcp_finish_result(enum mcp_era era, const char *method, json_t *result);

#endif
