/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARDEN_SETUP_H
#define WARDEN_SETUP_H

#include "base/macro.h"
#include "warden/protocol.h"

#include <stdbool.h>
#include <stddef.h>

struct setup_source {
        int fd;
        unsigned mount_flags; /* enum mount_flags */
        bool detached;        /* the warden, as root, has made it a detached mount already */
};

/* What the warden hands to the process that builds a box. */
struct setup {
        const struct box_spec *spec;
        int payload;
        int stdio[3];
        struct setup_source sources[BOX_FDS_MAX]; /* in the order of the spec */
        int n_sources;
        int join[CGROUP_KIND_COUNT];
        int n_join;
        int socket;
        int proc; /* init's mount of /proc, for the op that wants it */
        int landlock_abi;
};

/* Runs in a fresh child; ends by itself. */
_noreturn_ void setup_main(struct setup *s);

/* root.c: carries out the payload's ops on root_fd (an attached, empty tmpfs). Fills watch[] with
 * descriptors of the tmpfs mounts it made. Negative errno, and *failed is the op. */
int root_build(const struct payload *payload, struct setup *s, int root_fd, int *watch, int *n_watch,
               const struct box_op **failed);

#endif
