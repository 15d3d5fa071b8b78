/* SPDX-License-Identifier: Apache-2.0
 *
 * MCP on the server: docs/mcp.md. What the protocol is stands in src/mcp; here it meets sessions, runs and files.
 *
 *   api_mcp.c         POST, GET and DELETE of /mcp: which client it is, which era, how the answer travels
 *   mcp_clients.c     clients that shook hands, each with its session id, its own session, its streams
 *   mcp_stream.c      the events of one answer: sent as they come, kept for who lost the connection
 *   mcp_methods.c     what the methods do; tools are called from here
 *   mcp_run.c         run_python, run_shell, run_code
 *   mcp_session.c     which session a tool works in; reset_session
 *   mcp_info.c        what session_info tells; mcp_variables.c asks Python for its variables
 *   mcp_files.c       write_file, list_files; mcp_read_file.c, mcp_piece.c: read_file, a piece of a file or of an output
 *   mcp_target.c      what a path or a URI of a client leads to
 *   mcp_resources.c   files and outputs as resources; mcp_walk.c looks at a whole workspace
 *   mcp_watch.c       who wants to hear of changes
 *
 * A call is worked on by the thread of its request, from its beginning to its end; also when its client lost the connection and may come back. */
#ifndef SERVER_MCP_H
#define SERVER_MCP_H

#include "mcp/content.h"
#include "mcp/protocol.h"
#include "mcp/resource_uri.h"
#include "mcp/tools.h"
#include "server/live.h"
#include "server/request.h"

struct mcp;        /* all of it, of a server: mcp_clients.c */
struct mcp_stream; /* mcp_stream.c */
struct mcp_client; /* mcp_client.h */

/* One request that is worked on. */
struct mcp_call {
        struct request *request;
        struct server *server;
        const struct caller *caller;
        struct mcp_client *client; /* a reference; NULL: one that stands alone */
        enum mcp_era era;
        struct rpc_message message;
        struct mcp_stream *stream; /* NULL: the answer is one object, and nothing can be told before it */
        json_t *options;           /* what a new session is made of: as the body of POST /v1/sessions; borrowed; NULL: nothing is said */
        int log_level;             /* enum mcp_level; messages below it are not told; -1: none are */
        uint64_t progress;         /* the last number that was told */
        char key[RPC_KEY_MAX];     /* of its id */
        struct mcp_call *next;     /* of the client's, under its lock */
        struct live_run *run;      /* that goes on; borrowed, under that lock, too */
        _Atomic bool cancelled;    /* nobody waits for the answer any more */
        _Atomic bool interrupted;  /* what it runs was asked to stop: twice would be a kill */
};

int mcp_new(struct server *server, struct mcp **ret, gb_error *err);
/* No request is worked on any more. Takes NULL. */
void mcp_free(struct mcp *m);
/* From time to time: clients that were silent for too long go, and their own sessions with them. */
void mcp_tidy(struct mcp *m);

/* ---- methods: 0 and *ret (a new result), or negative with an error of the protocol. MCP_SILENT: no answer is sent ---- */

#define MCP_SILENT 1
typedef int mcp_method(struct mcp_call *c, json_t **ret, struct rpc_error *err);
mcp_method mcp_resources_list, mcp_resources_read, mcp_resources_templates, mcp_resources_subscribe, mcp_resources_unsubscribe; /* mcp_resources.c */

/* Whether there is such a method in the call's era, and what it does. mcp_methods.c */
bool mcp_method_is_known(const struct mcp_call *c);
int mcp_method_call(struct mcp_call *c, json_t **ret, struct rpc_error *err);

/* ---- tools. Arguments are as the tool's schema says. What a model can do something about is a result (content_of_error()), not an error ---- */

typedef int mcp_tool_function(struct mcp_call *c, const json_t *arguments, json_t **ret, struct rpc_error *err);
mcp_tool_function mcp_tool_list_files, mcp_tool_read_file, mcp_tool_write_file;                /* mcp_files.c, mcp_read_file.c */
mcp_tool_function mcp_tool_run_code, mcp_tool_run_python, mcp_tool_run_shell;                  /* mcp_run.c */
mcp_tool_function mcp_tool_session_info, mcp_tool_reset_session;                               /* mcp_info.c, mcp_session.c */

/* The error as the result of a tool, scrubbed with the secrets of its session (NULL: none). 0, or -ENOMEM as RPC_INTERNAL. */
int mcp_tool_failed(struct mcp_call *c, const struct live_session *s, const gb_error *error, json_t **ret, struct rpc_error *err);
int mcp_out_of_memory(struct rpc_error *err);
/* For methods that have nothing to say: {}. */
int mcp_empty_result(json_t **ret, struct rpc_error *err);

/* ---- which session: mcp_session.c ---- */

/* By `session` of the arguments: an id, or "new". Without it the client's own, which is made when there is none. A client that stands alone has none of its own:
 * make: gets a new one each time; else GB_E_USAGE says that it must name one. With a reference; its idle time begins anew. *ret_note: a
 * sentence for the model, static, when it is not what was there before (it had ended); NULL otherwise. */
int mcp_session_get(struct mcp_call *c, const json_t *arguments, bool make, struct live_session **ret, const char **ret_note, gb_error *err);
/* The client's own, when it lives; NULL: none. With a reference. */
struct live_session *mcp_session_own(struct mcp_call *c);

/* ---- what is told before the answer: mcp_stream.c. Nothing happens where nobody can be told ---- */

/* notifications/progress, when the request has asked for it; message: UTF-8, bounded by the caller. */
void mcp_progress(struct mcp_call *c, const char *message, size_t size);
/* notifications/message, logger "glovebox". data is taken. */
void mcp_log(struct mcp_call *c, enum mcp_level level, json_t *data);
/* Whether the answer is not wanted any more: the client has cancelled it, or (a stateless one) has gone away. */
bool mcp_is_cancelled(struct mcp_call *c);

/* ---- changes: mcp_watch.c, mcp_resources.c ---- */

/* Something was run or written in this session: who wants to hear of changes is woken, and looks. */
void mcp_session_touched(struct mcp_call *c, const struct live_session *s);
/* The files of a workspace that were changed since (by CLOCK_REALTIME), newest first, at most max: [{"path", "uri", "type", "size"}]; names that begin with a dot and
 * __pycache__ are left out. *ret_more: those that are not in the list; *ret_cut: at least, since not all were looked at, and those that were need
 * not be the newest. NULL: it cannot be looked at, or out of memory. */
json_t *mcp_changed_files(struct live_session *s, uint64_t since_usec, size_t max, uint64_t *ret_more, bool *ret_cut);

#endif
