/* SPDX-License-Identifier: Apache-2.0
 *
 * `glovebox mcp install --write` and --remove: the entry into the client's file, or out of it. */
#ifndef CLI_MCP_MERGE_H
#define CLI_MCP_MERGE_H

#include "cli/mcp_install_clients.h"
#include "cli/settings_file.h"

enum merge_outcome { MERGE_ADDED, MERGE_REPLACED, MERGE_REMOVED, MERGE_NOTHING /* it is there, or is not there, already */ };

struct merge {
        const struct install_client *client;
        const char *name;
        const json_t *entry; /* NULL: it is taken out */
        bool force;          /* another entry of that name is replaced */

        struct settings_file file;
        struct buffer text; /* what is to be in the file; empty with MERGE_NOTHING */
        enum merge_outcome outcome;
        bool unreadable; /* after a failure: the file is there, but is not what could be changed */
};

/* Reads the file, and works out what is to be in it. Nothing is written. m->file and m->text are to be freed, also after a failure. */
int merge_prepare(struct merge *m, const char *path, gb_error *err);
void merge_done(struct merge *m);
#define _cleanup_merge_ _cleanup_(merge_done)

const char *merge_outcome_name(enum merge_outcome outcome);
/* What would be changed, line by line. */
int merge_add_difference(const struct merge *m, struct buffer *out);

#endif
