/* SPDX-License-Identifier: Apache-2.0
 *
 * Reader of /proc/<pid>/mountinfo. */
#ifndef KERNEL_MOUNTINFO_H
#define KERNEL_MOUNTINFO_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* One line. The strings point into the text that was read and are unescaped. */
struct mountinfo {
        int id, parent_id;
        dev_t dev;
        const char *root;          /* the directory of that file system which is mounted */
        const char *target;        /* where */
        const char *options;       /* of this mount: ro, nosuid, ... */
        const char *type;          /* of the file system */
        const char *source;        /* may be empty */
        const char *super_options; /* of the file system: for cgroup v1 its controllers */
};

/* Reads the calling process's own table into a new text (at most KERNEL_FILE_BYTES_MAX). */
int mountinfo_load(char **ret);

/* Cuts the next line off the writable text at *cursor, which it changes in place and moves on.
 * 1: *ret is a mount; 0: the end; -EINVAL: not a mountinfo line (the next call goes on after it).
 * *ret is untouched unless 1 is returned. */
int mountinfo_next(char **cursor, struct mountinfo *ret);

/* Is name one of the comma-separated words of options? */
bool mountinfo_has_option(const char *options, const char *name);

#endif
