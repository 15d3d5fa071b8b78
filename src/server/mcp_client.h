/* SPDX-License-Identifier: Apache-2.0
 *
 * A client that is known from one request to the next: it shook hands and has a session id of the protocol (nobody can guess it, and nobody with another token can
 * use it), or it is a bridge that names itself (Glovebox-Client). */
#ifndef SERVER_MCP_CLIENT_H
#define SERVER_MCP_CLIENT_H

#include "server/mcp.h"

#include <pthread.h>

#define MCP_VERSION_MAX 16

struct mcp_subscription {
        char *uri;
        uint64_t state; /* hash of what the file was when it was looked at last; 0: it was not there */
};

struct mcp_client {
        char id[RESOURCE_ID_MAX];
        char tenant[TENANT_NAME_MAX], token[TOKEN_ID_MAX];
        char version[MCP_VERSION_MAX]; /* of the handshake; empty: it is stateless */
        json_t *options; /* as in struct mcp_call; NULL: none. Has secrets: wiped at the end */
        struct mcp *mcp;

        /* Under the lock of the table */
        struct mcp_client *next;
        unsigned references;
        uint64_t used_usec; /* CLOCK_MONOTONIC */
        bool ended;

        pthread_mutex_t making; /* held while its own session is made; before the lock */

        pthread_mutex_t lock; /* of the rest */
        pthread_cond_t changed; /* CLOCK_MONOTONIC: an event in a stream, or something to look at */
        char session[JOURNAL_ID_MAX]; /* its own; empty: none yet */
        bool again; /* it was known to a server that has ended, and what it had there is lost; told once */
        int log_level;
        struct mcp_call *calls; /* that are worked on */
        struct mcp_stream *streams; /* the newest first */
        uint64_t next_stream;
        size_t n_streams, kept_bytes; /* of all events that are kept */
        struct mcp_subscription subscriptions[MCP_SUBSCRIPTIONS_MAX];
        size_t n_subscriptions;
        uint64_t touched; /* counts calls that may have changed files */
        uint64_t looked;  /* what that was when the names of its own session's files were looked at last */
        uint64_t names;   /* and their hash; 0: there were none */
        bool listening;   /* a GET has its stream of what belongs to no request */
};

/* ---- mcp_clients.c ---- */

/* A new one, with a reference. options are borrowed. GB_E_QUOTA when there are too many that are in use. */
int mcp_client_new(struct mcp *m, const struct caller *caller, const char *version, json_t *options, struct mcp_client **ret, gb_error *err);
/* By its id; only for who made it. NULL: there is none. With a reference; its idle time begins anew. */
struct mcp_client *mcp_client_get(struct mcp *m, const struct caller *caller, const char *id);
/* The one that names itself so, which is made when there is none; again: then it was known to a server before. */
int mcp_client_named(struct mcp *m, const struct caller *caller, const char *name, json_t *options, bool again, struct mcp_client **ret, gb_error *err);
struct mcp_client *mcp_client_ref(struct mcp_client *c);
void mcp_client_put(struct mcp_client *c); /* takes NULL */
DEFINE_CLEANUP(struct mcp_client, mcp_client_put)
#define _cleanup_mcp_client_ _cleanup_(mcp_client_put_ptr)
/* Nobody finds it any more; its calls are cancelled, and its own session ends. The caller's reference stays his. */
void mcp_client_end(struct mcp_client *c);
/* Whether it has: who makes something for it looks at this afterwards, and takes it away again. */
bool mcp_client_is_ended(struct mcp_client *c);

/* A call that is worked on; RPC_INVALID when its id is in use, or there are too many. */
int mcp_call_enter(struct mcp_call *call, struct rpc_error *err);
void mcp_call_leave(struct mcp_call *call);
/* What it runs now, for who cancels it; NULL: nothing any more. */
void mcp_call_runs(struct mcp_call *call, struct live_run *run);
/* Asks it to stop, unless somebody has. */
void mcp_call_interrupt(struct mcp_call *call, struct live_run *run);
/* Cancels the call of this id, if it is there. */
void mcp_client_cancel(struct mcp_client *c, const json_t *id);

struct mcp_tools *mcp_tools_of(struct mcp *m);

/* ---- looking for changes: mcp_watch.c; by the thread that tells them ---- */

/* Looks at the client's subscriptions and, when something was touched, at the names of its own files: notifications (an array, may be empty). NULL: out of memory. */
json_t *mcp_changes(struct mcp_client *c, struct server *server, const struct caller *caller);

#endif
