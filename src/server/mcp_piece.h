/* SPDX-License-Identifier: Apache-2.0
 *
 * A piece of a file, or of what a run has printed. */
#ifndef SERVER_MCP_PIECE_H
#define SERVER_MCP_PIECE_H

#include "base/error.h"
#include "base/json.h"
#include "journal/journal.h"
#include "mcp/resource_uri.h"

struct mcp_piece {
        char *memory;
        const char *bytes; /* in it */
        size_t size;
        uint64_t offset; /* where it begins */
        uint64_t total;  /* of the whole */
        bool text;       /* UTF-8 without a NUL */
};

void mcp_piece_done(struct mcp_piece *p);
#define _cleanup_mcp_piece_ _cleanup_(mcp_piece_done)

/* Up to limit bytes. A text begins and ends where characters do: it may begin a little later, and be a little shorter. One character is always given. */
int mcp_piece_of_file(int fd, uint64_t offset, size_t limit, struct mcp_piece *ret, gb_error *err);
/* The same of a run; also what is no text is cut so. uri: of an output. *ret_run: the run's record. GB_E_NOT_FOUND also for another tenant's. */
int mcp_piece_of_output(struct journal *j, const char *tenant, const struct resource_uri *uri, uint64_t offset, size_t limit, struct mcp_piece *ret,
                        struct journal_run *ret_run, gb_error *err);

bool mcp_piece_has_more(const struct mcp_piece *p);

/* With U+FFFD in the place of what is not UTF-8, and of NUL. NULL: out of memory. */
json_t *mcp_piece_to_text(const struct mcp_piece *p);

/* Its media type: the name's, but for text in a file whose name says nothing. */
const char *mcp_piece_type(const struct mcp_piece *p, const char *name);

#endif
