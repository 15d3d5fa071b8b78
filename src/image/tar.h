/* SPDX-License-Identifier: Apache-2.0
 *
 * Tar archives that we write: ustar, with pax records for what does not fit. */
#ifndef IMAGE_TAR_H
#define IMAGE_TAR_H

#include "base/buffer.h"
#include "base/sha256.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tar_entry {
        char type; /* '0' file, '1' hard link, '2' symbolic link, '5' directory */
        const char *path, *link; /* link may be NULL */
        mode_t mode;
        uid_t uid;
        gid_t gid;
        uint64_t size; /* of a file */
        int64_t mtime_sec;
};

/* Where an archive goes: a descriptor, or nowhere: then it is only counted, and summed up. */
struct tar_out {
        int fd; /* -1: nowhere */
        int cancel_fd; /* when it is readable (-1: none) writing fails with ECANCELED, even if nobody reads */
        bool waits; /* the descriptor is no file: who reads it may let us wait */
        bool sums; /* `sum` is wanted */
        uint64_t size;
        struct sha256 sum;
};

void tar_init(struct tar_out *out, int fd, int cancel_fd, bool sums);
int tar_write(struct tar_out *out, const void *bytes, size_t size);
/* The head of an entry; a file's bytes follow by tar_write(), then tar_pad(). 0 or a negative errno. */
int tar_head(struct tar_out *out, const struct tar_entry *e);
int tar_pad(struct tar_out *out, uint64_t size);
/* A small file, all of it; owned by root. */
int tar_file(struct tar_out *out, const char *path, const void *bytes, size_t size);
int tar_end(struct tar_out *out);

#endif
