/* SPDX-License-Identifier: Apache-2.0
 *
 * The counters of a session's cgroups, kept open: they are read twice with every run, and opening them would take longer
 * than most runs. */
#ifndef BACKEND_USAGE_H
#define BACKEND_USAGE_H

#include "backend/backend.h"
#include "kernel/cgroup.h"

#define USAGE_COUNTERS 14

struct usage_files {
        int fds[USAGE_COUNTERS]; /* -1: not there */
        int directory;           /* the same: with the list of processes */
        int io;                  /* the same: bytes from and to disks, in a v2 tree with that controller */
};

/* From the session's cgroup directories, which are not needed any more then. */
void usage_open(struct usage_files *u, const int dirs[static CGROUP_KIND_COUNT], bool unified_controllers);
void usage_close(struct usage_files *u);
/* 0 or a negative errno: -ENODEV when the cgroups are gone. */
int usage_read(const struct usage_files *u, struct cgroup_stats *ret);
/* The same, with what is known of it; nothing of disks. */
int usage_fill(const struct usage_files *u, struct box_usage *ret);
/* Whether one of its processes could compute now. Those of other users may be hidden from us: then none is seen. */
bool usage_is_busy(const struct usage_files *u);
/* Whether somebody counts what lies there in struct cgroup_stats. */
bool usage_counts(const struct usage_files *u, size_t offset);
/* Bytes read and written, over all devices. -ENODATA where nobody counts them. */
int usage_read_io(const struct usage_files *u, uint64_t *ret_read, uint64_t *ret_write);
/* The sums of a file io.stat: "8:0 rbytes=4096 wbytes=0 rios=1 ...", a line for each device. */
int usage_parse_io(const char *text, uint64_t *ret_read, uint64_t *ret_write);

#endif
