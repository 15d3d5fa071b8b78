/* SPDX-License-Identifier: Apache-2.0
 *
 * What lives inside a box: its init and the program. Both are started by the box's setup process
 * (src/warden/setup.c) before there is anything to run, and lock themselves in at once. */
#ifndef RUNNER_RUNNER_H
#define RUNNER_RUNNER_H

#include "base/macro.h"
#include "warden/protocol.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/types.h>

/* What a system call has returned, as 0 or a negative errno. */
static inline int negative(int r)
{
        return r < 0 ? -errno : 0;
}

/* Frames from inside the box to the warden, while nothing inside is hostile yet. (The socket dies
 * with the last exec before user code; what comes through it afterwards could only be a frame
 * of this size, and the warden believes none of it for a verdict.) */
enum setup_frame_kind {
        SETUP_INIT = 1, /* descriptor: init's pidfd */
        SETUP_PROGRAM,  /* descriptor: the program's pidfd; value: its pid as the warden sees it */
        SETUP_FOREMAN,  /* descriptor: the pidfd of a template's foreman */
        SETUP_BUILT,    /* descriptors: the box's /proc, the tmpfs mounts to watch (value & BUILT_WATCH of them), then what
                         * the other bits of value say: the Landlock ruleset, the workspace, the namespaces */
        SETUP_PHASE,    /* value: how many commands follow the one about to run */
        SETUP_FAILED,   /* error: nothing will run */
};

#define BUILT_WATCH 0xffU
#define BUILT_RULESET 0x100U
#define BUILT_WORKSPACE 0x200U
#define BUILT_NAMESPACES 0x400U /* FORK_NAMESPACE_COUNT of them */

/* The namespaces, in the order in which they are joined: the first gives the right to the others. Name and number (kernel/sys.h). */
#define FORK_NAMESPACES(X)                                                                                                        \
        X("user", SYS_PIDFD_USER_NS) X("mnt", SYS_PIDFD_MNT_NS) X("ipc", SYS_PIDFD_IPC_NS) X("uts", SYS_PIDFD_UTS_NS)               \
        X("net", SYS_PIDFD_NET_NS) X("cgroup", SYS_PIDFD_CGROUP_NS) X("pid", SYS_PIDFD_PID_NS)
#define FORK_NAMESPACE_COUNT 7

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
/* The second half of it: locks in, says why it cannot through socket, or closes everything and stays. */
_noreturn_ void runner_init_stay(int socket, int warden, bool seccomp);

/* What the program gets when the box is built, with these descriptors: standard input, output and
 * error, the frame socket, the payload, then those that are said to be there, in this order, and the files through
 * which it joins its cgroups. */
struct program_order {
        uint32_t has_ruleset;
        uint32_t has_control; /* an interpreter's control channel, which it finds at BOX_CONTROL_FD */
        uint32_t has_orders;  /* a template's orders, which it finds at BOX_TEMPLATE_FD */
        uint32_t n_join;
        uint32_t apparmor;    /* it changes to its AppArmor profile */
};

enum program_fd { PROGRAM_STDIN, PROGRAM_STDOUT, PROGRAM_STDERR, PROGRAM_FRAMES, PROGRAM_PAYLOAD, PROGRAM_REST };

struct program_layers {
        bool seccomp, capabilities;
        bool template; /* it may still fork into other namespaces */
        bool files;    /* it writes the files of its payload itself: the box stood before it came */
};

/* Should: give up everything it can, wait on socket for its order, join the cgroups, enforce the
 * ruleset and execute. Mustn't: keep anything of the setup process open. */
_noreturn_ void runner_program(int socket, struct program_layers layers);

/* ---- a template and its children (runner/python) ---- */

/* What the warden asks of a template: a child in a session. With these descriptors: the session's namespaces, its
 * standard streams, its control channel, the Landlock ruleset (when has_ruleset) and the files through which it joins its
 * cgroups. */
struct fork_order {
        uint32_t number; /* comes back with the answers */
        uint32_t uid, gid;
        uint32_t has_ruleset;
        uint32_t n_join;
        uint32_t apparmor; /* it changes to its AppArmor profile */
        uint64_t nofile;
        uint64_t file_bytes; /* RLIMIT_FSIZE; 0: none */
};

enum fork_fd { FORK_STDIN = FORK_NAMESPACE_COUNT, FORK_STDOUT, FORK_STDERR, FORK_CONTROL, FORK_REST };

enum fork_answer_kind {
        FORK_READY = 1, /* the template waits for orders */
        FORK_FORKED,    /* descriptor: the child's pidfd */
        FORK_MIDDLE,    /* descriptor: the pidfd of a process that has done its part, to be reaped */
        FORK_LOCKED,    /* the child itself: it has given up everything and joined everything */
        FORK_FAILED,    /* what, errnum */
};

struct fork_answer {
        uint32_t kind;
        uint32_t number;
        int32_t errnum;
        char what[116];
};

#endif
