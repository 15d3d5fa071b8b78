/* SPDX-License-Identifier: Apache-2.0
 *
 * How much a workspace on the host has grown. The tree is made by hostile code while we look, so
 * it is walked by descriptor, never through a link, with bounds on everything. */
#ifndef ENGINE_DISK_H
#define ENGINE_DISK_H

#include <stdbool.h>
#include <stdint.h>

#define DISK_DEPTH_MAX 128 /* directories nested deeper count as over the limit */

struct disk_usage {
        uint64_t bytes, inodes;
        bool too_deep;
};

struct disk_watch {
        int fd; /* borrowed */
        uint64_t limit_bytes, limit_inodes;
        uint64_t floor_bytes; /* of free space on the file system */
        struct disk_usage before;
        uint64_t peak_bytes, peak_inodes; /* growth */
        uint64_t took_usec;               /* the last look */
};

/* Walks the tree below fd; stops as soon as more than max_inodes were seen. */
int disk_measure(int fd, uint64_t max_inodes, struct disk_usage *ret);

int disk_watch_init(struct disk_watch *w, int fd, uint64_t limit_bytes, uint64_t limit_inodes);
/* Looks again. True when a limit is passed. */
bool disk_watch_over(struct disk_watch *w);

#endif
