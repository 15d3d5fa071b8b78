/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARDEN_SETUP_H
#define WARDEN_SETUP_H

#include "base/macro.h"
#include "warden/protocol.h"

#include <stdbool.h>
#include <stddef.h>

/* What is known when the process that builds a box is cloned. */
struct setup {
        uint32_t uid, gid; /* inside */
        bool host_network;
        uint32_t layers_off;
        int socket;
};

/* What the warden sends it when there is something to run, with these descriptors: the payload, the
 * three standard streams, the files through which the program joins its cgroups, and the sources. */
struct setup_order {
        struct box_spec spec;
        uint32_t n_join;
        uint32_t n_sources;
        uint32_t detached; /* the warden, as root, has made the sources detached mounts already */
        uint32_t landlock_abi;
        uint32_t mount_flags[BOX_FDS_MAX]; /* enum mount_flags of each source */
};

enum setup_fd { SETUP_PAYLOAD, SETUP_STDIN, SETUP_STDOUT, SETUP_STDERR, SETUP_REST };

/* Runs in a fresh child; ends by itself. */
_noreturn_ void setup_main(const struct setup *given);

/* ---- root.c ---- */

struct root_plan {
        const struct payload *payload;
        const struct setup_order *order;
        int *sources; /* taken as they are used */
        int proc;     /* init's mount of /proc, for the op that wants it */
        int watch[BOX_WRITABLE_MAX]; /* out: descriptors of the tmpfs mounts that were made */
        int n_watch;
        const struct box_op *failed; /* out: the op that could not be done */
};

/* Carries out the payload's ops on root_fd, an attached and empty tmpfs. */
int root_build(struct root_plan *p, int root_fd);

#endif
