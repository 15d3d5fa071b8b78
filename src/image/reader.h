/* SPDX-License-Identifier: Apache-2.0
 *
 * An archive, entry by entry. The bytes are a stranger's, and who reads them is a process without rights (glovebox-archive). What it says
 * is checked here for its form; where a path leads is for the caller to see. */
#ifndef IMAGE_READER_H
#define IMAGE_READER_H

#include "base/error.h"
#include "base/helper.h"
#include "base/limits.h"
#include "image/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct image_limits {
        uint64_t bytes, entries;
};

struct image_entry {
        enum image_kind kind; /* up to IMAGE_OTHER */
        mode_t mode;
        uid_t uid;
        gid_t gid;
        uint64_t size;
        int64_t mtime_sec;
        char path[HOST_PATH_MAX], link[HOST_PATH_MAX];
};

struct image_reader {
        struct helper helper;
        int cancel_fd;
        bool unmarked; /* it came to an end where none was marked */
};
#define IMAGE_READER_NONE {.helper = HELPER_NONE, .cancel_fd = -1}

/* Of what the descriptor holds from where it stands; it may be a pipe. When cancel_fd is readable (-1: none) everything fails with ECANCELED. */
int image_reader_start(struct image_reader *r, int in, struct image_limits most, int cancel_fd, gb_error *err);
void image_reader_done(struct image_reader *r);
#define _cleanup_image_reader_ _cleanup_(image_reader_done)

/* 1 with the next entry, 0 at the end. All bytes of the one before must have been read. */
int image_reader_next(struct image_reader *r, struct image_entry *ret, gb_error *err);
/* Bytes of a file: the caller counts. */
int image_reader_data(struct image_reader *r, void *bytes, size_t size, gb_error *err);

#endif
