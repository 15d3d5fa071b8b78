/* SPDX-License-Identifier: Apache-2.0
 *
 * What a container is to be made of, before it is said to an engine and for the look at what became of it. Of container.c and its kin only. */
#ifndef DOCKER_PLAN_H
#define DOCKER_PLAN_H

#include "backend/docker/container.h"

#include "kernel/apparmor.h"

#include <jansson.h>

#define CONTAINER_OPTIONS_MAX 128 /* options of one tmpfs, as text */
#define CONTAINER_TMPFS_MAX (IMAGE_VOLUMES_MAX + 8)
#define CONTAINER_BINDS_MAX (MOUNT_COUNT_MAX + 1)
#define CONTAINER_SHM_MAX (64 * MIB)
/* gVisor takes host tasks for those inside, and ends when it gets none: measured with its platform "ptrace", 38 idle and 4.7 for each process. */
#define GVISOR_TASKS 128
#define GVISOR_TASKS_EACH 6
#define CONTAINER_NOFILE_MIN 16384 /* of the agent, or what this process has; each program gets the policy's */
#define CONTAINER_NPROC_MAX 16384 /* the service of Podman itself has 32768, and cannot give more */
#define CONTAINER_START_USEC 30000000ULL /* for an engine to start one; a runtime that is a virtual machine takes seconds */
#define LAYER_FILE_BYTES_MAX (64 * MIB)
#define CONTAINER_APPARMOR APPARMOR_CONTAINER
#define MASK_OPTION "mask=" /* among the security options of Podman */
#define PODMAN_NO_COPY ",notmpcopyup" /* of what the image has there */
#define CONTAINER_NAME_PREFIX "glovebox-"
#define CONTAINER_NAME_MAX 128
#define CONTAINER_OWNER_MAX 128

struct container_plan {
        struct {
                char path[BOX_PATH_MAX];
                char options[CONTAINER_OPTIONS_MAX];
        } tmpfs[CONTAINER_TMPFS_MAX];
        size_t n_tmpfs;
        struct {
                const char *source, *target;
                bool writable;
        } binds[CONTAINER_BINDS_MAX];
        size_t n_binds;
        char name[CONTAINER_NAME_MAX];
        char owner[CONTAINER_OWNER_MAX];
        bool apparmor; /* our profile is loaded and the engine applies profiles */
};

int plan_container(const struct container_request *request, struct container_plan *ret, gb_error *err);
/* seccomp: the profile as this engine wants it, JSON or the path of a file. NULL: no memory. */
json_t *plan_body(const struct container_request *request, const struct container_plan *plan, const char *seccomp);
/* Compares an inspection with the body that was sent. GB_E_UNENFORCEABLE: what is weaker, wanted and got. */
int plan_compare(const struct container_request *request, const struct container_plan *plan, const json_t *body, const json_t *seen, gb_error *err);

/* What the host and this engine give; an error when the policy does not allow what is weaker. */
int container_controls(const struct container_request *request, const struct container_plan *plan, struct controls *ret, gb_error *err);
/* The same check alone. */
int controls_check(const struct engine *e, const struct policy *policy, const struct controls *c, gb_error *err);
void controls_say(struct controls *c, enum control_id id, enum control_state state, const char *format, ...) _printf_(4, 5);

/* Of the runtime that the policy asks for, or else of the engine's default. */
bool runtime_is_gvisor(const struct engine *e, const struct policy *policy);
/* Whether its containers get our profile: it is loaded, and the engine applies profiles. */
bool container_has_apparmor(const struct engine *e, const struct policy *policy);
/* How many tasks the engine is told to allow. */
uint64_t container_tasks(const struct engine *e, const struct policy *policy);

/* Who we are, for LABEL_OWNER: "BOOT:PIDNS:PID:START". */
int owner_self(char ret[static CONTAINER_OWNER_MAX]);
/* Whether that is a process of this boot and of our own pid namespace, and no longer there. */
bool owner_is_dead(const char *owner);

/* A value below a path of keys: "HostConfig.LogConfig.Type". NULL: none. */
const json_t *json_below(const json_t *value, const char *path);

/* The archive of our layer: the agent, the runners, mount points. *ret_hash tells one content from another. */
int layer_hash(uint64_t *ret_hash, gb_error *err);
int layer_make(int *ret_fd, uint64_t *ret_size, gb_error *err);

#endif
