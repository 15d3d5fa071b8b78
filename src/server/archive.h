/* SPDX-License-Identifier: Apache-2.0
 *
 * Directories of a workspace as tar archives, in and out. */
#ifndef SERVER_ARCHIVE_H
#define SERVER_ARCHIVE_H

#include "base/buffer.h"
#include "engine/session.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* ---- in ---- */

struct archive_totals {
        uint64_t entries, bytes;
};

/* Unpacks what the descriptor holds, from its beginning, into a directory of the workspace, which is made when it is not there. Everything is checked
 * before the first file is written. An entry that is refused is named in *ret_entry (HOST_PATH_MAX bytes; empty: it is about none). */
int archive_unpack(struct session *s, const char *path, int fd, struct archive_totals *ret, char *ret_entry, gb_error *err);

/* ---- out ---- */

#define TAR_BLOCK_BYTES 512

/* Adds the header of an entry: its path (any bytes), of its mode the permissions, its time, and nobody's ids. A regular file's
 * bytes follow, filled up to whole blocks. */
int tar_add_header(struct buffer *out, const char *path, const struct stat *st);
/* Adds the end of an archive. */
int tar_add_end(struct buffer *out);

#endif
