/* SPDX-License-Identifier: Apache-2.0
 *
 * The mappings of this process, one after the other, without the heap: the reader runs while the heap is
 * being replaced. */
#ifndef RUNNER_PYTHON_IMAGE_MAPS_H
#define RUNNER_PYTHON_IMAGE_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IMAGE_LINE_BYTES_MAX (32 * 1024) /* of a line of smaps: a path, escaped */

struct image_map {
        uintptr_t start, end;
        uint64_t offset, inode; /* inode 0: anonymous */
        uint32_t major, minor;
        bool readable, writable, executable, shared;
        bool special; /* a stack, the vdso, or with a flag that a new mapping would lose */
        bool clean;   /* no page of it is private */
};

struct image_maps {
        int fd;
        size_t pos, end;
        bool eof;
        char buf[2 * IMAGE_LINE_BYTES_MAX];
};

/* 0 or a negative errno. */
int image_maps_open(struct image_maps *m);
void image_maps_close(struct image_maps *m);

/* 1: *ret is the next mapping; 0: there is none; or a negative errno. */
int image_maps_next(struct image_maps *m, struct image_map *ret);

#define IMAGE_PAGE_PRESENT (1ULL << 63)
#define IMAGE_PAGE_SWAPPED (1ULL << 62)
#define IMAGE_PAGE_FILE (1ULL << 61)      /* of the page cache, or shared memory */
#define IMAGE_PAGE_GUARD (1ULL << 58)     /* no access by MADV_GUARD_INSTALL; since Linux 6.15 */
#define IMAGE_PAGE_EXCLUSIVE (1ULL << 56) /* mapped only here */
#define IMAGE_PAGES_AT_ONCE 512

/* What /proc/self/pagemap says of up to IMAGE_PAGES_AT_ONCE pages from start; returns their number. */
int image_pages_read(int pagemap, uintptr_t start, uintptr_t end, uint64_t pages[static IMAGE_PAGES_AT_ONCE]);

#endif
