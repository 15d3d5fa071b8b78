/* SPDX-License-Identifier: Apache-2.0
 *
 * What the front and the warden say to each other: fixed-size structs over SOCK_SEQPACKET, with
 * descriptors. The warden reads numbers and takes descriptors; strings (paths inside the box,
 * arguments, variables, small files) are in the payload, a sealed memfd that only the box's
 * own setup process reads, after it has left the host's user namespace. */
#ifndef WARDEN_PROTOCOL_H
#define WARDEN_PROTOCOL_H

#include "base/limits.h"
#include "glovebox/error.h"
#include "kernel/cgroup.h"

#include <stdbool.h>
#include <stdint.h>

#define WARDEN_PROTOCOL_VERSION 1
#define WARDEN_SOCKET_FD 3 /* where the warden finds its end */
#define BOX_UID_DEFAULT 1000 /* of the user inside, and of its group */

/* ---- descriptors that come with a box ---- */

enum box_fd_role {
        BOX_FD_PAYLOAD,
        BOX_FD_STDIN,
        BOX_FD_STDOUT,
        BOX_FD_STDERR,
        BOX_FD_CGROUP, /* index: enum cgroup_kind */
        BOX_FD_SOURCE, /* what an op binds; ops name it by its place among the sources */
};

enum box_source_flags {
        BOX_SOURCE_WRITABLE = 1 << 0,
        BOX_SOURCE_DEVICE = 1 << 1,
        BOX_SOURCE_OWNED = 1 << 2, /* its owner's files are the box user's: map owner_uid, owner_gid */
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

enum warden_request_kind {
        WARDEN_RUN = 1, /* with the descriptors of spec.fds, in order */
        WARDEN_SIGNAL,  /* value: SIGINT */
        WARDEN_STOP,
        WARDEN_REQUEST_COUNT
};

struct warden_request {
        uint32_t version;
        uint32_t kind;
        uint32_t value;
        uint32_t reserved;
        struct box_spec spec; /* for WARDEN_RUN */
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
        WARDEN_STARTED = 1, /* user code runs */
        WARDEN_FAILED,      /* nothing ran; error says why */
        WARDEN_ENDED,       /* everything inside is dead; report is filled */
};

struct box_report {
        int32_t exit_code; /* -1: by a signal */
        int32_t signal;
        uint32_t stop; /* enum warden_stop */
        uint32_t compiling;
        uint32_t disk_full;
        uint32_t disk_hidden; /* ended for disk: what processes hold open could not be counted */
        uint32_t reserved;
        uint32_t pids_full; /* where no cgroup counts: as many processes as allowed at the end */
        uint64_t wall_usec;
        uint64_t disk_peak_bytes, inodes_peak;
        struct cgroup_stats stats;
};

struct warden_event {
        uint32_t version;
        uint32_t kind;
        uint64_t t_usec;
        gb_error error;
        struct box_report report;
};

#endif
