/* SPDX-License-Identifier: Apache-2.0
 *
 * What methods about resources share. */
#ifndef SERVER_MCP_RESOURCES_H
#define SERVER_MCP_RESOURCES_H

#include "server/mcp.h"

/* `uri` of the request. *ret is borrowed from it. */
int mcp_resource_param(struct mcp_call *c, const char **ret, struct resource_uri *ret_uri, struct rpc_error *err);
/* There is no such resource, as the era says it; or something went wrong on our side. uri: as it was asked for; u: what it is. s: whose secrets are not
 * repeated; NULL: nobody's. */
int mcp_resource_failed(struct mcp_call *c, const struct live_session *s, const char *uri, const struct resource_uri *u, gb_error *error, struct rpc_error *err);

#endif
