/* SPDX-License-Identifier: Apache-2.0
 *
 * What a tool that works with files is told to work with, and how that is called in its result. */
#ifndef SERVER_MCP_TARGET_H
#define SERVER_MCP_TARGET_H

#include "engine/files.h"
#include "server/mcp.h"

/* `path` of the arguments: a path of the workspace, or a URI. Of a file: id is empty where the URI does not say which session, and path is as files_check_path() leaves
 * it. fallback: what it is without one; NULL: there must be one. */
int mcp_target_parse(const json_t *arguments, const char *fallback, struct resource_uri *ret, gb_error *err);
/* For tools that only look: `session` must not ask for a new one. */
int mcp_target_check_looks(const json_t *arguments, gb_error *err);
/* The session of a file, as mcp_session_get() finds it, and its workspace. make: for a tool that changes something. */
int mcp_target_session(struct mcp_call *c, const struct resource_uri *target, const json_t *arguments, bool make, struct live_session **ret, struct files *ret_files,
                       const char **ret_note, gb_error *err);
/* As mcp_tool_failed(), for an error that may quote the path. s NULL: it did not get so far; the secrets are those of the client's own session. */
int mcp_target_failed(struct mcp_call *c, const struct live_session *s, const struct resource_uri *target, const json_t *arguments, gb_error *error, json_t **ret,
                      struct rpc_error *err);

/* Sets session, path and uri. Nothing of a secret is in them: a URI of a path with one in it leads nowhere. 0, or -1: out of memory. */
int mcp_target_set_names(json_t *o, const struct live_session *s, const char *path);

/* A name as it can stand in a line: what is not printable becomes \xNN. */
int mcp_add_name(struct buffer *out, const char *name);
/* The same between quotes, for where it stands among our own words. */
int mcp_add_quoted(struct buffer *out, const char *name);

#endif
