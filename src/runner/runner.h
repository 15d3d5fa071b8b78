/* SPDX-License-Identifier: Apache-2.0
 *
 * What lives inside a box: its init and the program. Both are started by the box's setup process
 * (src/warden/setup.c) before there is anything to run, and lock themselves in at once. */
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
        SETUP_PROGRAM,  /* descriptor: the program's pidfd; value: its pid as the warden sees it */
        SETUP_BUILT,    /* descriptors: the box's /proc, then the tmpfs mounts to watch */
        SETUP_PHASE,    /* value: how many commands follow the one about to run */
        SETUP_FAILED,   /* error: nothing will run */
};

struct setup_frame {
        uint32_t kind;
        uint32_t value;
        gb_error error;
};

/* Both begin by waiting for one byte on their socket: the warden knows of them then. When it does not
 * come, nobody would ever end them, so they end themselves. */

/* Should: mount /proc (which only a process inside the pid namespace may) and send it through
 * socket as a frame's descriptor, lock itself in, end if the warden is gone (whose socket shows it),
 * close both sockets; then reap orphans by existing. Mustn't: hold a descriptor, an environment or a
 * capability once they are closed. */
_noreturn_ void runner_init(int socket, int warden, bool seccomp);

/* What the program gets when the box is built, with these descriptors: standard input, output and
 * error, the frame socket, the payload, the Landlock ruleset (when has_ruleset), and the files
 * through which it joins its cgroups. */
struct program_order {
        uint32_t has_ruleset;
        uint32_t n_join;
};

enum program_fd { PROGRAM_STDIN, PROGRAM_STDOUT, PROGRAM_STDERR, PROGRAM_FRAMES, PROGRAM_PAYLOAD, PROGRAM_REST };

struct program_layers {
        bool seccomp, capabilities;
};

/* Should: give up everything it can, wait on socket for its order, join the cgroups, enforce the
 * ruleset and execute. Mustn't: keep anything of the setup process open. */
_noreturn_ void runner_program(int socket, struct program_layers layers);

#endif
