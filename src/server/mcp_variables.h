/* SPDX-License-Identifier: Apache-2.0
 *
 * The variables of a session's Python, as it tells them itself. */
#ifndef SERVER_MCP_VARIABLES_H
#define SERVER_MCP_VARIABLES_H

#include "server/mcp.h"

#include <stddef.h>

/* [{"name", "type", "shape", "size", "preview"}], and how many more there are. All of it are claims of the code in the session: bounded, and without secrets.
 * *ret_note: why there are none, a static sentence; NULL: nothing to say. No interpreter is started for this. 0 or -ENOMEM. */
int mcp_variables(const struct mcp_call *c, struct live_session *s, json_t **ret, uint64_t *ret_more, const char **ret_note);

/* mcp_variables.py, as it was when this was built. */
extern const unsigned char mcp_variables_text[];
extern const size_t mcp_variables_size;

#endif
