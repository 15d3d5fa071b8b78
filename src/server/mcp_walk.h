/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of a workspace, as far as a list of them goes: bounded, and without what nobody wants to see in one. */
#ifndef SERVER_MCP_WALK_H
#define SERVER_MCP_WALK_H

#include "server/live.h"

struct walked_file {
        char *path; /* relative to the workspace; UTF-8, without secrets */
        uint64_t size;
        int64_t modified_usec; /* since 1970 */
};

struct walked {
        struct walked_file *files; /* by path */
        size_t n, allocated;
        bool cut; /* they are too many or too deep to look at all: some are not in here */
};

void walked_done(struct walked *w);
#define _cleanup_walked_ _cleanup_(walked_done)

/* Regular files. Names that begin with a dot and __pycache__ are left out, with all that is in them; so is a path that has no URI: it is not UTF-8, or has a
 * secret of the session in it. Of a workspace with very many only the upper ones are found, and `cut` says so. *ret was zeroed. */
int mcp_walk(struct live_session *s, struct walked *ret, gb_error *err);

/* The whole path of an entry; dir: "." for the workspace itself. NULL: out of memory. */
char *mcp_join_path(const char *dir, const char *name);

/* As annotations and lists have it; NULL: out of memory. */
json_t *mcp_time_to_json(int64_t usec);

#endif
