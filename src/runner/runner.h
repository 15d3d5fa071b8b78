/* SPDX-License-Identifier: Apache-2.0
 *
 * What lives inside a box: its init and the program. Both are started by the box's setup process
 * when everything that isolates is in place. */
#ifndef RUNNER_RUNNER_H
#define RUNNER_RUNNER_H

#include "base/macro.h"
#include "warden/protocol.h"

#include <stdbool.h>
#include <sys/types.h>

/* Frames from inside the box to the warden, while nothing inside is hostile yet. (The socket dies
 * with the last exec before user code; what comes through it afterwards could only be a frame
 * of this size, and the warden believes none of it for a verdict.) */
enum setup_frame_kind {
        SETUP_INIT = 1, /* descriptor: init's pidfd */
        SETUP_PROGRAM,  /* descriptors: the program's pidfd, the box's /proc, then the tmpfs mounts to
                           watch; value: its pid as the warden sees it */
        SETUP_PHASE,    /* value: how many commands follow the one about to run */
        SETUP_FAILED,   /* error: nothing will run */
};

struct setup_frame {
        uint32_t kind;
        uint32_t value;
        gb_error error;
};

/* Should: mount /proc (which only a process inside the pid namespace may) and send it through
 * socket as a frame's descriptor, lock itself in, close the socket; then reap orphans by
 * existing. Mustn't: hold a descriptor, an environment or a capability once the socket is closed. */
_noreturn_ void runner_init(int socket, bool seccomp);

struct runner_program {
        const struct payload *payload; /* mapped, checked */
        int stdio[3];
        int socket;         /* for frames; close-on-exec */
        const int *join;    /* cgroup files to write "0" to */
        int n_join;
        bool seccomp;
};

/* Should: join the cgroups, take its descriptors, lock itself in and execute.
 * Mustn't: keep anything of the setup process open. */
_noreturn_ void runner_program(const struct runner_program *p);

/* Receives one frame with at most max descriptors. Its length (0: the other side is gone), or a
 * negative errno. */
ssize_t runner_receive(int socket, int flags, struct setup_frame *frame, int *fds, int max, int *n_fds);

/* Sends one frame; never blocks for long, never fails loudly. */
void runner_send(int socket, const struct setup_frame *frame, const int *fds, int n_fds);

#endif
