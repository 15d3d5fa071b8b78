/* SPDX-License-Identifier: Apache-2.0
 *
 * The tools: tools.json has their titles, descriptions, schemas and annotations, as clients see them. */
#ifndef MCP_TOOLS_H
#define MCP_TOOLS_H

#include "mcp/rpc.h"

enum mcp_tool_id {
        TOOL_LIST_FILES,
        TOOL_READ_FILE,
        TOOL_RESET_SESSION,
        TOOL_RUN_CODE,
        TOOL_RUN_PYTHON,
        TOOL_RUN_SHELL,
        TOOL_SESSION_INFO,
        TOOL_WRITE_FILE,
        TOOLS_N, /* in the order of their names, which is also that of the list */
};

struct mcp_tool {
        enum mcp_tool_id id;
        const char *name;
        const json_t *definition, *input, *output;
};

struct mcp_tools;

/* languages: names of those that this host has, for the schema and the description of run_code; NULL-terminated. NULL: out of memory. */
struct mcp_tools *mcp_tools_new(const char *const *languages);
void mcp_tools_free(struct mcp_tools *t); /* takes NULL */

/* {"tools": [...]}, shared and never changed: with a reference for the caller. */
json_t *mcp_tools_list(const struct mcp_tools *t);
/* RPC_PARAMS for a name that is not one, naming those there are. */
int mcp_tool_find(const struct mcp_tools *t, const char *name, struct mcp_tool *ret, struct rpc_error *err);
/* Arguments against the tool's schema: RPC_PARAMS. */
int mcp_tool_check(const struct mcp_tool *tool, const json_t *arguments, struct rpc_error *err);

#endif
