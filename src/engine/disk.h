/* SPDX-License-Identifier: Apache-2.0
 *
 * How much a workspace on the host has grown. The tree is made by hostile code while we look, so
 * it is walked by descriptor, never through a link, with bounds on everything. */
#ifndef ENGINE_DISK_H
#define ENGINE_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/limits.h"

#define DISK_DEPTH_MAX 128 /* directories nested deeper count as over the limit */
#define DISK_COUNTED_LIMITS 2 /* a look counts up to twice as many files as there may be */
#define DISK_PLACES_MAX (MOUNT_COUNT_MAX + 1)

/* When a look begins. A file that is born later is not older than the tick, and one that is younger than now was born later. Files have their times from the clock of
 * ticks, which may be late by much on a busy virtual machine; newer kernels give some of them a finer one. */
struct disk_time {
        struct timespec tick, now; /* CLOCK_REALTIME_COARSE, CLOCK_REALTIME */
};

struct disk_usage {
        uint64_t bytes, inodes;
        uint64_t held_bytes; /* no more than the sizes of the files say */
        /* Of files that are not older than a disk_time: those that may be younger, and those that are. Bytes are held_bytes. */
        uint64_t tick_bytes, tick_inodes, new_bytes, new_inodes;
        uint64_t ahead_bytes; /* what such files take beyond their sizes */
        bool stirred;         /* a directory got or lost a name since that tick began: a file may have moved past the walk */
        uint64_t hidden; /* directories too deep, or closed to us: what is in them is not known */
        uint64_t set_id; /* files with a set-user-id or set-group-id bit */
};

enum disk_state { DISK_FINE, DISK_OVER, DISK_HIDDEN, DISK_HOST_FULL };

/* The writable places of a run on the host, taken together. */
struct disk_watch {
        int fds[DISK_PLACES_MAX]; /* borrowed: directories or files, O_PATH will do */
        uint64_t floors[DISK_PLACES_MAX]; /* of free space on the file system of each */
        uint64_t free[DISK_PLACES_MAX];   /* at the last look */
        uint64_t free_inodes[DISK_PLACES_MAX]; /* the same; 0 where the file system does not count them */
        size_t n;
        uint64_t limit_bytes, limit_inodes;
        struct disk_usage before;
        uint64_t peak_bytes, peak_inodes; /* growth */
        uint64_t bytes, inodes;           /* the same, at the last look */
        struct disk_usage now;            /* all that was there at the last look, if it was counted to its end */
        bool counted;
        uint64_t took_usec, looked_usec;  /* the last look, and when it ended (CLOCK_MONOTONIC) */
        struct disk_time since;           /* when the last look began */
        /* the last look saw everything, or too much; otherwise the amounts are those of the look before it */
        bool whole;
        int error;                        /* an errno when the host could not complete the last look; 0: it could */
};

/* Adds the tree or file at fd to *usage; stops as soon as it holds more than max_inodes. Returns 0, or a
 * negative errno when a part of it could not be read for another reason than permission or depth, which are counted in
 * hidden: then *usage is untouched. since: files count as younger only where the file system knows when they were born. NULL: none does. */
int disk_measure(int fd, uint64_t max_inodes, const struct disk_time *since, struct disk_usage *usage);

void disk_watch_init(struct disk_watch *w, uint64_t limit_bytes, uint64_t limit_inodes);
/* Before the run: adds a place with its present contents. 0 or a negative errno. */
int disk_watch_add(struct disk_watch *w, int fd);
/* Looks again, at all of it. DISK_HIDDEN also when the host could not complete the look (error). */
enum disk_state disk_watch_look(struct disk_watch *w);
/* What can be seen at a glance: the free space of the file systems. DISK_OVER means: look now. */
enum disk_state disk_watch_glance(struct disk_watch *w);
/* Whether free space or inodes differ by at least that much from the last look. */
bool disk_watch_changed(const struct disk_watch *w, uint64_t bytes);
/* Counts all of it, up to max_inodes more than there were before. 0, or a negative errno, also for what could not be counted to its end. */
int disk_watch_count(struct disk_watch *w, uint64_t max_inodes, const struct disk_time *since, struct disk_usage *ret);
/* Whether that is too much, apart from so many bytes. Peaks and amounts are those of now then. */
bool disk_watch_exceeds(struct disk_watch *w, const struct disk_usage *now, uint64_t spare_bytes);
void disk_time_get(struct disk_time *ret);
/* That much of the growth is the host's: it counts as having been there before. No more than what is there now. */
void disk_watch_forgive(struct disk_watch *w, uint64_t bytes, uint64_t inodes, const struct disk_usage *now);

#endif
