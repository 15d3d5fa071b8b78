/* SPDX-License-Identifier: Apache-2.0
 *
 * Controls: what can be enforced on a run. A policy asks for all of them; one that the host
 * cannot give in full refuses the run unless the policy allows that one, by name, to be weaker. */
#ifndef POLICY_CONTROL_H
#define POLICY_CONTROL_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* id, name, may be weaker when the policy says so, what it does */
#define CONTROLS(X)                                                                              \
        X(CONTROL_NAMESPACES, "namespaces", false, "own user, mount, pid, net, ipc, uts, cgroup namespaces") \
        X(CONTROL_IDENTITY, "identity", false, "an unprivileged uid of its own, never root")     \
        X(CONTROL_CAPABILITIES, "capabilities", false, "all capability sets empty, no new privileges") \
        X(CONTROL_SECCOMP, "seccomp", false, "an allowlist of system calls")                     \
        X(CONTROL_LANDLOCK, "landlock", true, "writes only where the policy says")               \
        X(CONTROL_ROOT, "root", false, "a read-only root without host files")                    \
        X(CONTROL_NETWORK, "network", false, "no way out, or the network the policy names")      \
        X(CONTROL_MEMORY, "memory", true, "memory of the whole box, without swap")               \
        X(CONTROL_PIDS, "pids", true, "number of processes and threads")                         \
        X(CONTROL_CPU, "cpu", true, "share of the processors")                                   \
        X(CONTROL_TIME, "time", false, "wall clock and cpu time")                                \
        X(CONTROL_TMP, "tmp", false, "size and inodes of /tmp, /dev/shm and the private workspace") \
        X(CONTROL_WORKSPACE, "workspace", false, "size and inodes of a workspace on the host")   \
        X(CONTROL_OUTPUT, "output", false, "bytes of output")                                    \
        X(CONTROL_CLEANUP, "cleanup", false, "nothing inside outlives the run")                  \
        X(CONTROL_LAYOUT, "layout", false, "addresses, canary and hash seed of its own, by a fresh exec") \
        X(CONTROL_RUNTIME, "runtime", true, "an engine and runtime without known ways out") \
        X(CONTROL_APPARMOR, "apparmor", false, "an AppArmor profile around its programs, where the kernel has AppArmor")

enum control_id {
#define CONTROL_ENUM(id, name, weaker, help) id,
        CONTROLS(CONTROL_ENUM)
#undef CONTROL_ENUM
        CONTROL_COUNT
};

enum control_state { CONTROL_UNKNOWN, CONTROL_ENFORCED, CONTROL_WEAKER, CONTROL_OFF };

struct control_status {
        enum control_state state;
        char how[160]; /* "cgroup v1 memory.limit_in_bytes" */
};

struct controls {
        struct control_status status[CONTROL_COUNT];
};

const char *control_name(enum control_id id);
const char *control_help(enum control_id id);
bool control_may_be_weaker(enum control_id id);
/* One that repeats what others enforce already: that it is off refuses no run, and no result remarks on it. */
bool control_is_extra(enum control_id id);
const char *control_state_name(enum control_state state);
/* -1 when there is none of that name. */
int control_by_name(const char *name);

/* The bits of `allow_weaker` for a name: a control that may be weaker, or "cgroup" for memory,
 * pids and cpu together. */
int control_weaker_mask(const char *name, uint32_t *ret, gb_error *err);
/* All bits that allow_weaker may have. */
uint32_t control_weaker_all(void);

#endif
