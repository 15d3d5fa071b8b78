/* SPDX-License-Identifier: Apache-2.0
 *
 * Containers of an engine: the hardened body they are made with, the look at what the engine made of it, their end. */
#ifndef DOCKER_CONTAINER_H
#define DOCKER_CONTAINER_H

#include "backend/backend.h"
#include "backend/docker/engine.h"
#include "policy/control.h"
#include "policy/policy.h"

#include <sys/types.h>

#define CONTAINER_ID_MAX 65
#define IMAGE_ID_MAX 80
#define IMAGE_NAME_MAX 256   /* a name of an image, with its NUL */
#define IMAGE_VOLUMES_MAX 32 /* of one image */

/* Our mark on everything we make at an engine. LABEL_OWNER is who made it: "<boot id>:<pid namespace>:<pid>:<start time of that process>", so that what a dead process left can be told
 * from what a living one uses. */
#define LABEL_SESSION "org.glovebox.session"
#define LABEL_OWNER "org.glovebox.owner"
#define LABEL_RUNNER "org.glovebox.runner" /* of an image: hash of the agent and runner in it */
#define LABEL_BASE "org.glovebox.base"     /* of an image: id of the image it was made from */

struct wire_hello;

struct container_request {
        const struct engine *engine;
        const struct policy *policy;
        const char *image;   /* id of the image with our agent in it (image_prepare) */
        const char *session; /* an id of ours: the label, and part of the name */
        uid_t uid;           /* of the process: never 0 */
        gid_t gid;
        const char *workspace; /* a directory of the host by path, or NULL: a tmpfs of disk_limit */
        const char *const *mount_sources; /* of the policy's mounts, by path, in order */
        char *const *volumes; /* of the image: each gets a small read-only tmpfs over it; NULL-terminated, may be NULL */
        size_t ca_size; /* of a file at NETWORK_CA_PATH; 0: none */
};

struct used;

struct container {
        char id[CONTAINER_ID_MAX];
        struct used *used; /* container_use() */
        pid_t pid; /* of its process 1, as the engine sees it; 0: not known */
        char seccomp_file[108]; /* podman: the profile's file, to be removed; empty: none */
};

/* Makes it (not started; in use), looks at it again by inspect, and fills controls with what is enforced; anything weaker than asked, that
 * the policy does not allow by name, removes it again and is an error. */
int container_create(const struct container_request *request, struct container *ret, struct controls *ret_controls, gb_error *err);
/* After the start: its pid, and whether it runs with the runtime it should. */
int container_look(const struct engine *e, const struct policy *policy, struct container *c, struct controls *controls, gb_error *err);
int container_start(const struct engine *e, const struct container *c, gb_error *err);
/* What the agent sees from inside, first of all: what no engine shows in its answers, or cannot be believed in, is checked here. GB_E_UNENFORCEABLE: the container must go. */
int container_check_hello(const struct container_request *request, const struct wire_hello *hello, struct controls *controls, gb_error *err);
struct container_end {
        bool running, oom; /* oom: the engine says that memory was the reason */
        int exit_code;     /* -1: not known, as of one that runs, or is removed already */
};
/* Asks the engine how it ended. */
int container_ended(const struct engine *e, const struct container *c, struct container_end *ret, gb_error *err);
/* Kills and removes it. Takes ENGINE_ANSWER_USEC at most; an engine that does not answer is remembered by the label. */
int container_remove(const struct engine *e, const struct container *c, gb_error *err);
/* One sample of the stats stream, where the cgroups cannot be read. Numbers that are not in it are not known, and 0. */
struct container_stats {
        uint64_t cpu_usec, memory_bytes, pids;
        uint64_t memory_peak_bytes; /* memory_bytes at least */
        uint64_t io_read_bytes, io_write_bytes;
        bool cpu_known, memory_known, memory_peak_known, pids_known, io_known;
};
int container_stats(const struct engine *e, const struct container *c, struct container_stats *ret, gb_error *err);

/* Before it is made: this process uses the container with that label, and removes it. Given up by container_give_up(), whether it could be removed or not. */
int container_use(struct container *c, const char *session);
void container_give_up(struct container *c);
/* Removes containers with our label whose owner is no longer alive, on this boot of this host, or is this process and has given them up; nothing else is touched. */
int container_sweep(const struct engine *e, const struct backend_sweep *sweep, gb_error *err);

/* ---- images with the agent in them ---- */

/* The image `name` of the engine with our agent and runner as its topmost layer: found by its labels, or made (create, put an archive, commit; nothing
 * of the image is run), which takes a second once for each image. *ret_volumes: as in container_request, to be freed with its strings. GB_E_NOT_FOUND with
 * the command that builds it when there is no such image. */
int image_prepare(const struct engine *e, const char *name, char ret_id[static IMAGE_ID_MAX], char ***ret_volumes, gb_error *err);

#endif
