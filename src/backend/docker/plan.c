/* SPDX-License-Identifier: Apache-2.0
 *
 * Which file systems a container gets. All that can be written is a tmpfs with a size, or a directory of the host that the policy names. */
#include "backend/docker/plan.h"

#include "agent/wire.h"
#include "base/quote.h"
#include "kernel/apparmor.h"
#include "policy/place.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CODE_DIR_BYTES (20 * MIB)
#define CODE_DIR_INODES 1024
#define TINY_BYTES (64 * KIB) /* of places that only have to be there */
#define TINY_INODES 16
#define VOLUME_BYTES (4 * KIB)
#define VOLUME_INODES 2
#define SECRET_BLOCK 4096 /* of tmpfs, which a file takes at least */

/* owned: by the user of the container. Podman knows no limit of inodes and no uid, chowns with U, and copies what the image has there unless told not to. */
static int add_tmpfs(struct container_plan *p, const struct container_request *request, const char *path, const char *flags, uint64_t bytes,
                     uint64_t inodes, unsigned mode, bool owned)
{
        char inode_text[40] = "", owner[48] = "";
        typeof(&p->tmpfs[0]) t = &p->tmpfs[p->n_tmpfs];

        if (p->n_tmpfs == CONTAINER_TMPFS_MAX || strlen(path) >= sizeof(t->path))
                return -E2BIG;
        if (!request->engine->podman)
                snprintf(inode_text, sizeof(inode_text), ",nr_inodes=%llu", (unsigned long long)inodes);
        if (owned && request->engine->podman)
                snprintf(owner, sizeof(owner), ",U");
        else if (owned)
                snprintf(owner, sizeof(owner), ",uid=%u,gid=%u", (unsigned)request->uid, (unsigned)request->gid);
        snprintf(t->path, sizeof(t->path), "%s", path);
        snprintf(t->options, sizeof(t->options), "%s,nosuid,nodev,size=%llu%s,mode=%o%s%s", flags, (unsigned long long)bytes, inode_text, mode, owner,
                 request->engine->podman ? PODMAN_NO_COPY : "");
        p->n_tmpfs++;
        return 0;
}

/* Podman would make them itself, and writable. */
static void add_others(struct container_plan *p, const struct container_request *request)
{
        bool scratch = request->policy->scratch_only;
        const char *flags = scratch ? "ro,noexec" : "rw,noexec";

        (void)add_tmpfs(p, request, "/run", flags, TINY_BYTES, TINY_INODES, 0755, false);
        (void)add_tmpfs(p, request, "/var/tmp", flags, TINY_BYTES, TINY_INODES, 01777, false);
        if (scratch)
                (void)add_tmpfs(p, request, BOX_TMP, flags, TINY_BYTES, TINY_INODES, 0755, false);
}

static bool is_planned(const struct container_plan *p, const char *path)
{
        for (size_t i = 0; i < p->n_tmpfs; i++)
                if (strcmp(p->tmpfs[i].path, path) == 0)
                        return true;
        for (size_t i = 0; i < p->n_binds; i++)
                if (strcmp(p->binds[i].target, path) == 0)
                        return true;
        return false;
}

/* A directory of the host that it lies below: there the engine would make its mount point, as root. NULL: none. */
static const char *bind_above(const struct container_plan *p, const char *path)
{
        for (size_t i = 0; i < p->n_binds; i++) {
                size_t n = strlen(p->binds[i].target);
                if (strncmp(path, p->binds[i].target, n) == 0 && path[n] == '/')
                        return p->binds[i].target;
        }
        return NULL;
}

/* Without this an engine makes a volume on the host's disk, without a bound, for each of them. */
static int add_volumes(struct container_plan *p, const struct container_request *request, gb_error *err)
{
        for (size_t i = 0; request->volumes && request->volumes[i]; i++) {
                const char *above = bind_above(p, request->volumes[i]);
                if (is_planned(p, request->volumes[i]))
                        continue;
                if (above)
                        return error_set(err, GB_E_UNENFORCEABLE, EPERM, "the image has a volume at %s, below %s, which is a directory of the host: use another image, or no "
                                         "directory of the host there", quote(request->volumes[i]).text, quote(above).text);
                if (i == IMAGE_VOLUMES_MAX || add_tmpfs(p, request, request->volumes[i], "ro,noexec", VOLUME_BYTES, VOLUME_INODES, 0555, false) < 0)
                        return error_set(err, GB_E_UNENFORCEABLE, E2BIG, "the image has more than %d volumes, or one with a path above %d bytes: use another image",
                                         IMAGE_VOLUMES_MAX, BOX_PATH_MAX);
        }
        return 0;
}

static void add_bind(struct container_plan *p, const char *source, const char *target, bool writable)
{
        p->binds[p->n_binds].source = source;
        p->binds[p->n_binds].target = target;
        p->binds[p->n_binds++].writable = writable;
}

static int set_name(struct container_plan *p, const char *session, gb_error *err)
{
        bool good = session && session[0] && strlen(session) < sizeof(p->name) - sizeof(CONTAINER_NAME_PREFIX);

        for (const char *c = session; good && *c; c++)
                good = isalnum((unsigned char)*c) || strchr("_.-", *c);
        if (!good)
                return error_set(err, GB_E_INTERNAL, EINVAL, "%s cannot be part of a container's name", quote(session ? session : "").text);
        snprintf(p->name, sizeof(p->name), CONTAINER_NAME_PREFIX "%s", session);
        int r = owner_self(p->owner);
        return r < 0 ? error_set(err, GB_E_INTERNAL, -r, "cannot read who this process is from /proc: %s", strerror(-r)) : 0;
}

bool container_has_apparmor(const struct engine *e, const struct policy *policy)
{
        return e->apparmor && !e->podman && !runtime_is_gvisor(e, policy) && apparmor_is_loaded(CONTAINER_APPARMOR) == 1;
}

int plan_container(const struct container_request *request, struct container_plan *ret, gb_error *err)
{
        const struct policy *policy = request->policy;

        *ret = (struct container_plan){.apparmor = container_has_apparmor(request->engine, policy)};
        if (request->uid == 0 || request->gid == 0)
                return error_set(err, GB_E_UNENFORCEABLE, EPERM, "a container is never run as root: uid %u, gid %u", (unsigned)request->uid,
                                 (unsigned)request->gid);
        int r = set_name(ret, request->session, err);
        if (r < 0)
                return r;
        if (request->workspace)
                add_bind(ret, request->workspace, policy_workspace(policy), true);
        else
                (void)add_tmpfs(ret, request, policy_workspace(policy), "rw,exec", policy->disk_limit_bytes, policy->inode_limit, 0755, true);
        for (size_t i = 0; i < policy->n_mounts; i++)
                add_bind(ret, request->mount_sources[i], policy->mounts[i].target, policy->mounts[i].writable);
        /* There is room for these. */
        if (!policy->scratch_only)
                (void)add_tmpfs(ret, request, BOX_TMP, "rw,exec", policy->tmp_size_bytes, policy->inode_limit, 01777, false);
        (void)add_tmpfs(ret, request, "/dev/shm", "rw,exec", MIN(policy->tmp_size_bytes, CONTAINER_SHM_MAX), policy->inode_limit, 01777, false);
        (void)add_tmpfs(ret, request, AGENT_CODE_DIR, "rw,exec", CODE_DIR_BYTES, CODE_DIR_INODES, 0700, true);
        if (policy_has_secret_files(policy) || request->ca_size > 0)
                (void)add_tmpfs(ret, request, SECRETS_DIR, "rw,noexec", 2 * SECRETS_BYTES_MAX + request->ca_size + (SECRETS_MAX + 1) * SECRET_BLOCK,
                                SECRETS_MAX + 2, 0700, true);
        if (!policy->scratch_only || request->engine->podman)
                add_others(ret, request);
        return add_volumes(ret, request, err);
}
