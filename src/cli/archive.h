/* SPDX-License-Identifier: Apache-2.0
 *
 * Tar archives of files and directories, as the server takes and gives them: ustar, with pax records for what does not fit. Nothing else is in
 * them: links, devices and owners are not carried. */
#ifndef CLI_ARCHIVE_H
#define CLI_ARCHIVE_H

#include "base/error.h"
#include "base/limits.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define ARCHIVE_BLOCK_BYTES 512

/* ---- writing ---- */

/* The head of an entry into buf: one block, or three with a path that does not fit one. Its size, or -ENAMETOOLONG. A directory has size 0. */
#define ARCHIVE_HEAD_MAX (2 * ARCHIVE_BLOCK_BYTES + HOST_PATH_MAX + ARCHIVE_BLOCK_BYTES)
long archive_head(char buf[static ARCHIVE_HEAD_MAX], const char *path, bool directory, uint64_t size, mode_t mode, int64_t modified_sec);

/* ---- reading ---- */

struct archive_entry {
        char path[HOST_PATH_MAX]; /* as it stands there; the reader of it decides where that leads */
        char kind;                /* 'f', 'd', or 'l' for anything else, which has no content here */
        mode_t mode;              /* permissions */
        uint64_t size;
};

/* Gives exactly as many bytes as asked for, or a negative errno with err. */
typedef int archive_read_function(void *data, void *bytes, size_t size, gb_error *err);

struct archive {
        archive_read_function *read;
        void *data;
        uint64_t left;    /* of the entry's content, that nobody has read */
        unsigned padding; /* behind it */
};

/* 1 with the next entry, 0 at the end. What was not read of the one before is skipped. GB_E_PROTOCOL: it is no such archive. */
int archive_next(struct archive *a, struct archive_entry *ret, gb_error *err);
/* Bytes of the entry's content, which are there: the caller counts. */
int archive_content(struct archive *a, void *bytes, size_t size, gb_error *err);

#endif
