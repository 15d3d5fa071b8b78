/* SPDX-License-Identifier: Apache-2.0
 *
 * Who isolates. The engine knows backends only through this table. */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include "base/error.h"
#include "policy/control.h"
#include "policy/language.h"
#include "policy/policy.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Everything a backend needs to start one run. Descriptors are borrowed. */
struct box_request {
        const struct policy *policy;
        const struct language *language;
        const char *code_name; /* a plain file name */
        const char *code;
        size_t code_size;
        char *const *args;
        int workspace_fd; /* directory on the host, or -1: private */
        const int *mount_fds; /* of the policy's mounts, in order: directories or regular files */
        const char *rootfs; /* or NULL: the host's */
        uid_t uid;
        gid_t gid;
        int stdio[3];
};

enum box_event_kind { BOX_EVENT_NONE, BOX_EVENT_STARTED, BOX_EVENT_ENDED };

/* Why the backend ended the box by itself. */
enum box_stop { BOX_STOP_NONE, BOX_STOP_TIMEOUT, BOX_STOP_CPU, BOX_STOP_DISK, BOX_STOP_MEMORY, BOX_STOP_ASKED };

struct box_end {
        int exit_code, signal;
        enum box_stop stop;
        bool compiling, disk_full, disk_hidden, pids_full;
        uint64_t wall_usec, cpu_usec, memory_peak_bytes, pids_peak, disk_peak_bytes, inodes_peak;
        uint64_t oom_kills, pids_refused;
};

struct box_event {
        enum box_event_kind kind;
        uint64_t t_usec;
        struct box_end end;
};

struct backend_box; /* each backend's own */

struct backend {
        const char *name;
        /* Starts helpers early; optional. forget() ends those that no start() has taken. */
        void (*prepare)(void);
        void (*forget)(void);
        /* Fills controls with what will be enforced; fails when the policy wants more. */
        int (*start)(const struct box_request *request, struct controls *ret_controls, struct backend_box **ret,
                     gb_error *err);
        /* Readable when next_event() has something. */
        int (*event_fd)(const struct backend_box *box);
        /* One event, or BOX_EVENT_NONE. An error: nothing ran (err tells), or the box is lost. */
        int (*next_event)(struct backend_box *box, struct box_event *ret, gb_error *err);
        void (*signal)(struct backend_box *box, int sig);
        void (*stop)(struct backend_box *box);
        /* Ends it if it still lives. */
        void (*free)(struct backend_box *box);
};

extern const struct backend backend_native;

#endif
