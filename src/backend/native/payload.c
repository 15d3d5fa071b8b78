/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/native/payload.h"

#include "backend/native/admit.h"
#include "backend/native/keeper.h"
#include "base/fd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>

struct box_plan *plan_new(void)
{
        struct box_plan *p = malloc(sizeof(*p)); /* large, and mostly not used: not cleared */

        if (!p)
                return NULL;
        p->n_ops = p->n_commands = p->n_fds = p->n_sources = 0;
        p->cwd = "/";
        p->env = (struct payload_range){0};
        buffer_init(&p->data, BOX_PAYLOAD_MAX - sizeof(struct payload) - sizeof(p->ops));
        p->data.secret = true; /* variables and files may be */
        return p;
}

void plan_free(struct box_plan *p)
{
        if (!p)
                return;
        buffer_done(&p->data);
        for (uint32_t i = 0; i < p->n_fds; i++)
                if (p->fd_owned[i])
                        safe_close(p->fd_values[i]);
        free(p);
}

static int add_data(struct box_plan *p, const void *data, size_t size, struct payload_range *ret, gb_error *err)
{
        *ret = (struct payload_range){.offset = (uint32_t)p->data.size, .size = (uint32_t)size};
        int r = buffer_add(&p->data, data, size);
        if (r == -ENOMEM)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (r < 0)
                return error_set(err, GB_E_LIMIT, -r, "the code, its arguments and the files of the box are more than %llu MB",
                                 BOX_PAYLOAD_MAX / MIB);
        return 0;
}

static int add_op(struct box_plan *p, enum box_op_kind kind, const char *path, struct box_op **ret, gb_error *err)
{
        if (p->n_ops >= BOX_OPS_MAX)
                return error_set(err, GB_E_LIMIT, E2BIG, "the box would need more than %d entries in its root", BOX_OPS_MAX);
        if (strlen(path) >= BOX_PATH_MAX)
                return error_set(err, GB_E_LIMIT, ENAMETOOLONG, "the path %.64s... is longer than %d bytes", path, BOX_PATH_MAX - 1);

        struct box_op *op = &p->ops[p->n_ops++];
        *op = (struct box_op){.kind = kind};
        strcpy(op->path, path);
        *ret = op;
        return 0;
}

int plan_dir(struct box_plan *p, const char *path, unsigned mode, unsigned flags, gb_error *err)
{
        struct box_op *op = NULL;
        int r = add_op(p, BOX_OP_DIR, path, &op, err);

        if (r < 0)
                return r;
        op->mode = mode;
        op->flags = flags;
        return 0;
}

int plan_symlink(struct box_plan *p, const char *path, const char *target, gb_error *err)
{
        struct box_op *op = NULL;
        int r = add_op(p, BOX_OP_SYMLINK, path, &op, err);

        return r < 0 ? r : add_data(p, target, strlen(target) + 1, &op->data, err);
}

int plan_file(struct box_plan *p, const char *path, const void *data, size_t size, unsigned mode, gb_error *err)
{
        struct box_op *op = NULL;
        int r = add_op(p, BOX_OP_FILE, path, &op, err);

        if (r < 0)
                return r;
        op->mode = mode;
        return add_data(p, data, size, &op->data, err);
}

int plan_file_from(struct box_plan *p, const char *path, int fd, size_t size, gb_error *err)
{
        _cleanup_free_ char *bytes = malloc(size + 1);

        if (!bytes)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        ssize_t n = pread(fd, bytes, size, 0);
        if (n < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot read %s: %s", path, strerror(errno));
        return plan_file(p, path, bytes, (size_t)n, 0444, err);
}

int plan_text(struct box_plan *p, const char *path, const char *text, gb_error *err)
{
        return plan_file(p, path, text, strlen(text), 0444, err);
}

int plan_tmpfs(struct box_plan *p, const char *path, uint64_t size, uint64_t inodes, unsigned mode, gb_error *err)
{
        struct box_op *op = NULL;
        int r = add_op(p, BOX_OP_TMPFS, path, &op, err);

        if (r < 0)
                return r;
        op->mode = mode;
        op->size_bytes = size;
        op->inodes = inodes + 1; /* its root directory is one */
        op->flags = BOX_OP_LANDLOCK_WRITE;
        return 0;
}

int plan_special(struct box_plan *p, enum box_op_kind kind, const char *path, gb_error *err)
{
        struct box_op *op = NULL;

        return add_op(p, kind, path, &op, err);
}

int plan_fd(struct box_plan *p, enum box_fd_role role, uint32_t index, int fd, bool owned, gb_error *err)
{
        if (p->n_fds >= BOX_FDS_MAX) {
                if (owned)
                        safe_close(fd);
                return error_set(err, GB_E_LIMIT, E2BIG, "the box would need more than %d descriptors; use fewer mounts",
                                 BOX_FDS_MAX);
        }
        p->fds[p->n_fds] = (struct box_fd){.role = role, .index = index};
        p->fd_values[p->n_fds] = fd;
        p->fd_owned[p->n_fds++] = owned;
        return 0;
}

int plan_bind(struct box_plan *p, const char *path, int fd, unsigned flags, bool is_file, gb_error *err)
{
        struct box_op *op = NULL;
        struct stat st;

        int r = plan_fd(p, BOX_FD_SOURCE, 0, fd, true, err);
        if (r < 0)
                return r;
        struct box_fd *row = &p->fds[p->n_fds - 1];
        row->flags = flags;
        if (!(flags & BOX_SOURCE_OWNED))
                st = (struct stat){0};
        else if (fstat(fd, &st) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot look at the source of %s: %s", path, strerror(errno));
        row->owner_uid = st.st_uid;
        row->owner_gid = st.st_gid;
        if (flags & BOX_SOURCE_OWNED && keeper_is_used()) {
                /* Root's warden works for an ordinary user: only what is his can become the box's. */
                row->owner_gid = getegid();
                if (st.st_uid != geteuid())
                        row->flags &= ~(unsigned)BOX_SOURCE_OWNED;
                if (st.st_uid != geteuid() && flags & BOX_SOURCE_WRITABLE)
                        return error_set(err, GB_E_DENIED, EPERM, "the mount at %s belongs to user %u, but this server runs as user %u and can make only its own "
                                         "files writable: chown the source, or mount it read-only", path, (unsigned)st.st_uid, (unsigned)geteuid());
        }

        r = add_op(p, BOX_OP_BIND, path, &op, err);
        if (r < 0)
                return r;
        op->source = p->n_sources++;
        op->flags = (is_file ? BOX_OP_BIND_FILE : 0) | (flags & BOX_SOURCE_WRITABLE ? BOX_OP_LANDLOCK_WRITE : 0);
        return 0;
}

int plan_words(struct box_plan *p, char *const *words, struct payload_range *ret, gb_error *err)
{
        struct payload_range one, all = {.offset = (uint32_t)p->data.size};

        for (size_t i = 0; words[i]; i++) {
                int r = add_data(p, words[i], strlen(words[i]) + 1, &one, err);
                if (r < 0)
                        return r;
                all.size += one.size;
        }
        *ret = all;
        return 0;
}

static struct payload_range moved(struct payload_range range, size_t by)
{
        return (struct payload_range){.offset = range.offset + (uint32_t)by, .size = range.size};
}

int plan_seal(const struct box_plan *p, gb_error *err)
{
        size_t head = sizeof(struct payload) + p->n_ops * sizeof(struct box_op);
        _cleanup_free_ struct payload *payload = calloc(1, head);
        _cleanup_close_ int fd = memfd_create("glovebox-payload", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (!payload)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        payload->version = WARDEN_PROTOCOL_VERSION;
        payload->n_ops = p->n_ops;
        payload->n_commands = p->n_commands;
        for (uint32_t i = 0; i < p->n_commands; i++)
                payload->commands[i] = moved(p->commands[i], head);
        payload->env = moved(p->env, head);
        snprintf(payload->cwd, sizeof(payload->cwd), "%s", p->cwd);
        memcpy(payload->ops, p->ops, p->n_ops * sizeof(struct box_op));
        for (uint32_t i = 0; i < p->n_ops; i++)
                payload->ops[i].data = moved(p->ops[i].data, head);

        int r = fd < 0 ? -errno : fd_write_all(fd, payload, head);
        if (r == 0)
                r = fd_write_all(fd, p->data.data, p->data.size);
        if (r == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
                r = -errno;
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot write the box's payload: %s", strerror(-r));
        return TAKE_FD(fd);
}

int plan_descriptors(struct box_plan *p, const struct native_host *host, const int *stdio, gb_error *err)
{
        int r = 0;

        for (uint32_t i = 0; r == 0 && stdio && i < 3; i++)
                r = plan_fd(p, BOX_FD_STDIN + i, 0, stdio[i], false, err);
        for (uint32_t kind = 0; r == 0 && kind < CGROUP_KIND_COUNT; kind++)
                if (host->cgroup.parent[kind] >= 0)
                        r = plan_fd(p, BOX_FD_CGROUP, kind, host->cgroup.parent[kind], false, err);
        if (r < 0)
                return r;
        int payload = plan_seal(p, err);
        return payload < 0 ? payload : plan_fd(p, BOX_FD_PAYLOAD, 0, payload, true, err);
}
