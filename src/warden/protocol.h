/* SPDX-License-Identifier: Apache-2.0
 *
 * What the front and the warden say to each other: fixed-size structs over SOCK_SEQPACKET, with
 * descriptors. The warden reads numbers and takes descriptors; strings (paths inside the box,
 * arguments, variables, small files) are in the payload, a sealed memfd that only the box's
 * own setup process reads, after it has left the host's user namespace. */
#ifndef WARDEN_PROTOCOL_H
#define WARDEN_PROTOCOL_H

#include "base/ending.h"
#include "base/limits.h"
#include "glovebox/error.h"
#include "kernel/cgroup.h"
#include "kernel/mount.h"

#include <stdbool.h>
#include <stdint.h>

#define WARDEN_PROTOCOL_VERSION 4
#define WARDEN_SOCKET_FD 3 /* where the warden finds its end */
#define WARDEN_LISTEN_FD 4 /* and, when it shall serve others too, where they connect */
#define BOX_CONTROL_FD 20  /* where an interpreter finds its control channel */
#define BOX_TEMPLATE_FD 21 /* where a template finds its orders */
#define BOX_EGRESS_PORT 3128 /* of the listener in a box with an allowlist, on 127.0.0.1 */
#define BOX_UID_DEFAULT 1000 /* of the user inside, and of its group */

/* ---- descriptors that come with a box ---- */

enum box_fd_role {
        BOX_FD_PAYLOAD,
        BOX_FD_STDIN,
        BOX_FD_STDOUT,
        BOX_FD_STDERR,
        BOX_FD_CGROUP, /* index: enum cgroup_kind */
        BOX_FD_SOURCE, /* what an op binds; ops name it by its place among the sources */
        BOX_FD_CHANNEL, /* WARDEN_CHANNEL, WARDEN_START: the warden's end of a new channel */
        BOX_FD_LISTENER, /* WARDEN_RUN, WARDEN_OPEN: a socket. Through it comes, before user code runs, one that listens in the box, on BOX_EGRESS_PORT */
};

enum box_source_flags {
        BOX_SOURCE_WRITABLE = MOUNT_WRITABLE,
        BOX_SOURCE_DEVICE = MOUNT_DEVICES,
        BOX_SOURCE_DETACHED = MOUNT_DETACHED, /* the box's setup process restricts it */
        BOX_SOURCE_OWNED = 1 << 3, /* its owner's files are the box user's: map owner_uid, owner_gid */
};

struct box_fd {
        uint32_t role;
        uint32_t index;
        uint32_t flags;
        uint32_t owner_uid, owner_gid;
};

/* ---- the box ---- */

enum box_flags {
        BOX_NETWORK_HOST = 1 << 0,
        BOX_ROOT_WRITABLE = 1 << 1,
        BOX_UNIFIED_CONTROLLERS = 1 << 2,
        BOX_LANDLOCK = 1 << 3,
        BOX_ONCE = 1 << 4, /* the warden ends with this box */
        BOX_CONTEXT = 1 << 5, /* WARDEN_START: an interpreter: the warden makes its streams and control channel */
        BOX_WARM = 1 << 6,    /* WARDEN_START: forked from the session's template */
        BOX_ROOT_INHERITED = 1 << 7, /* the ops are for on top of the template's root, not for a fresh one */
        BOX_APPARMOR = 1 << 8, /* its programs change to the profile for them */
};

/* Which template: what the front calls it. The warden compares, no more. */
struct template_key {
        unsigned char bytes[32];
};

/* Layers that a build for the escape tests can leave out, to see what the others still stop. */
enum box_layer {
        BOX_LAYER_SECCOMP = 1 << 0,
        BOX_LAYER_LANDLOCK = 1 << 1,
        BOX_LAYER_CAPABILITIES = 1 << 2,
        BOX_LAYER_CGROUP = 1 << 3,
        BOX_LAYER_RLIMITS = 1 << 4,
        BOX_LAYER_NETWORK = 1 << 5,
};

struct box_spec {
        uint32_t flags;
        uint32_t layers_off;
        uint32_t uid, gid; /* inside */
        struct cgroup_limits cgroup;
        uint64_t wall_usec;
        uint64_t cpu_time_usec; /* 0: none */
        uint64_t disk_bytes; /* of unlinked files on the host that are kept open */
        uint64_t nofile;
        uint64_t file_bytes;    /* RLIMIT_FSIZE; 0: none */
        uint64_t address_bytes; /* RLIMIT_AS, where no cgroup counts memory; 0: none */
        uint64_t processes;     /* RLIMIT_NPROC, where no cgroup counts tasks; 0: none */
        uint32_t cpus;          /* affinity, where no cgroup shares the cpu; 0: none */
        uint32_t reserved;      /* no byte is without a name: specs are compared as a whole */
        struct template_key template; /* WARDEN_OPEN: all zero for none; WARDEN_TEMPLATE: its own */
        uint64_t payload_hash;        /* sessions of one template with the same spec and hash are alike */
        uint32_t pool;                /* WARDEN_TEMPLATE: how many sessions like the last to have ready */
        uint32_t n_fds;
        struct box_fd fds[BOX_FDS_MAX];
};

/* ---- the payload ---- */

struct payload_range {
        uint32_t offset, size;
};

enum box_op_kind {
        BOX_OP_DIR,     /* a directory with mode */
        BOX_OP_SYMLINK, /* data: where it points */
        BOX_OP_FILE,    /* data: its content */
        BOX_OP_BIND,    /* source */
        BOX_OP_TMPFS,   /* size, inodes, mode */
        BOX_OP_PROC,
        BOX_OP_DEVPTS,
};

enum box_op_flags {
        BOX_OP_LANDLOCK_WRITE = 1 << 0,  /* user code may write below */
        BOX_OP_LANDLOCK_DEVICE = 1 << 1, /* user code may use the devices below */
        BOX_OP_BIND_FILE = 1 << 2,       /* the source is not a directory */
};

struct box_op {
        uint32_t kind;
        uint32_t flags;
        uint32_t mode;
        uint32_t source;
        uint64_t size_bytes, inodes;
        struct payload_range data;
        char path[BOX_PATH_MAX]; /* absolute, inside */
};

struct payload {
        uint32_t version;
        uint32_t n_ops;
        uint32_t n_commands;
        uint32_t reserved;
        struct payload_range commands[BOX_COMMANDS_MAX]; /* words, each with its NUL */
        struct payload_range env;                        /* "NAME=value", each with its NUL */
        char cwd[BOX_PATH_MAX];
        struct box_op ops[]; /* then the bytes that ranges point to */
};

/* ---- messages ---- */

/* A channel is a socket between front and warden that stands for one thing: at first for nothing, then for a
 * box with one program, a session, a program of a session, or a template. Its end is the end of that. */
enum warden_request_kind {
        WARDEN_RUN = 1,  /* free channel: a box with one program, ended together; descriptors of spec.fds, in order */
        WARDEN_CHANNEL,  /* any channel: makes a further one of the descriptor */
        WARDEN_TEMPLATE, /* free channel: a template */
        WARDEN_OPEN,     /* free channel: a session */
        WARDEN_START,    /* session: a program in it, on the channel that comes along */
        WARDEN_SIGNAL,   /* box or program; value: SIGINT or SIGTERM */
        WARDEN_STOP,     /* box, session or program; its end is told */
        WARDEN_FILES,    /* session: its private workspace as a directory of the front's own. Descriptors: the workspace, a channel for the one answer */
        WARDEN_CLEAR,   /* session: SIGKILL to what its programs have started and left running. Descriptor: a channel for the one answer */
        WARDEN_REQUEST_COUNT
};

struct warden_request {
        uint32_t version;
        uint32_t kind;
        uint32_t value;
        uint32_t reserved;
        struct box_spec spec; /* not for WARDEN_SIGNAL and WARDEN_STOP */
};

/* Why the warden ended a box by itself. */
enum warden_stop {
        WARDEN_STOP_NONE,
        WARDEN_STOP_TIMEOUT,
        WARDEN_STOP_CPU,
        WARDEN_STOP_DISK,
        WARDEN_STOP_MEMORY,
        WARDEN_STOP_ASKED, /* by WARDEN_STOP */
};

enum warden_event_kind {
        WARDEN_STARTED = 1, /* user code runs. Of a program in a session, with descriptors: enum program_fds */
        WARDEN_FAILED,      /* nothing ran; error says why */
        WARDEN_ENDED,       /* everything inside is dead; report is filled */
        WARDEN_OPENED,      /* the session stands; host_uid is set; descriptors: the workspace, its first tmpfs mounts, its cgroups */
        WARDEN_READY,       /* the template waits for orders */
        WARDEN_SIGNALLED,   /* of a program: the signal that was asked for is sent */
        WARDEN_LENT,        /* of WARDEN_FILES, with the directory */
        WARDEN_CLEARED,     /* of WARDEN_CLEAR; report.tasks_left: how many there were */
};

#define OPENED_PLACES_MAX 2 /* the first tmpfs mounts: /tmp (not with scratch_only), /dev/shm, then the next one */

/* Descriptors of WARDEN_STARTED in a session; all but the first only of an interpreter (BOX_CONTEXT). */
enum program_event_fd { STARTED_DEADLINE, STARTED_OUT, STARTED_ERR, STARTED_CONTROL };

struct box_report {
        struct ending ending; /* of the program; always seen in WARDEN_ENDED of a program that ran */
        uint32_t stop; /* enum warden_stop */
        uint32_t compiling;
        uint32_t disk_full; /* bit i: of the tmpfs that the i-th BOX_OP_TMPFS made */
        uint32_t disk_hidden; /* ended for disk: what processes hold open could not be counted */
        uint32_t memory_counted; /* by a cgroup, and with it the kills for memory */
        uint32_t pids_full; /* where no cgroup counts: as many processes as allowed at the end */
        uint64_t tasks_left; /* the most that were seen after the program's end; of a box with one program */
        uint64_t wall_usec;
        uint64_t disk_peak_bytes, inodes_peak;
        struct cgroup_stats stats;
};

struct warden_event {
        uint32_t version;
        uint32_t kind;
        uint64_t t_usec;
        uint32_t host_uid, host_gid; /* WARDEN_OPENED: who the box's user is on the host */
        uint32_t cgroups;            /* WARDEN_OPENED: bit (1 << enum cgroup_kind) for each that comes along */
        uint32_t warm;               /* WARDEN_OPENED, WARDEN_STARTED: from a template */
        gb_error error;
        struct box_report report;
};

#endif
