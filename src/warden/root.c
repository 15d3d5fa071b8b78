/* SPDX-License-Identifier: Apache-2.0
 *
 * The box's root directory. How it looks is data: a list of ops, checked first, then carried out
 * once, in order, by one loop. Every mount lands on a directory or file that this loop itself
 * made on a private tmpfs, reached step by step without following a link, so nothing
 * inside an image or a mounted directory can turn a mount to somewhere else. */
#include "base/fd.h"
#include "base/macro.h"
#include "kernel/mount.h"
#include "kernel/sys.h"
#include "warden/setup.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* The directory that the last op was in: ops come in groups, so it is often the next one's too. */
struct parent {
        char path[BOX_PATH_MAX];
        int fd;
};

#define DIR_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* A directory that may be there already: opened first, where it likely is. */
static int make_dir(int parent, const char *name, unsigned mode, bool likely)
{
        int fd = likely ? openat(parent, name, DIR_FLAGS) : -1;

        if (fd >= 0 || (likely && errno != ENOENT))
                return fd < 0 ? -errno : fd;
        if (mkdirat(parent, name, mode) < 0 && errno != EEXIST)
                return -errno;
        fd = openat(parent, name, DIR_FLAGS);
        return fd < 0 ? -errno : fd;
}

/* Opens the directory of path (its first `size` bytes) below root, making what is missing. */
static int open_dir(int root, const char *path, size_t size, bool likely)
{
        _cleanup_close_ int dir = fcntl(root, F_DUPFD_CLOEXEC, 3);
        const char *end = path + size;
        char part[BOX_PATH_MAX];

        if (dir < 0)
                return -errno;
        while (path < end) {
                while (path < end && *path == '/')
                        path++;
                size_t length = 0;
                while (path + length < end && path[length] != '/')
                        length++;
                if (length == 0)
                        break;
                memcpy(part, path, length);
                part[length] = '\0';
                path += length;
                if (strcmp(part, "..") == 0)
                        return -EINVAL;
                int next = make_dir(dir, part, 0755, likely);
                if (next < 0)
                        return next;
                safe_close(dir);
                dir = next;
        }
        return TAKE_FD(dir);
}

/* Makes parent the directory of path; *ret_name is the last part of path. */
static int enter_parent(struct parent *parent, int root, const char *path, bool likely, const char **ret_name)
{
        const char *name = strrchr(path, '/') + 1; /* payload_valid(): path begins with a slash */
        size_t size = (size_t)(name - path);

        if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                return -EINVAL;
        *ret_name = name;
        if (parent->fd >= 0 && strlen(parent->path) == size && memcmp(parent->path, path, size) == 0)
                return 0;
        int fd = open_dir(root, path, size, likely);
        if (fd < 0)
                return fd;
        safe_close(parent->fd);
        parent->fd = fd;
        memcpy(parent->path, path, size);
        parent->path[size] = '\0';
        return 0;
}

static int make_file(int parent, const char *name, const struct payload *p, const struct box_op *op)
{
        _cleanup_close_ int fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        int r = fd_write_all(fd, (const char *)p + op->data.offset, op->data.size);
        if (r < 0)
                return r;
        return fchmod(fd, op->mode) < 0 ? -errno : 0;
}

static int bind_source(struct root_plan *p, const struct box_op *op, int parent, const char *name)
{
        _cleanup_close_ int tree = -1, target = -1;

        if (op->source >= p->order->n_sources)
                return -EINVAL;
        if (op->flags & BOX_OP_BIND_FILE)
                target = openat(parent, name, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
        else
                target = make_dir(parent, name, 0755, false);
        if (target < 0)
                return op->flags & BOX_OP_BIND_FILE ? -errno : target;

        unsigned flags = p->order->mount_flags[op->source];
        tree = p->order->detached || flags & MOUNT_DETACHED ? TAKE_FD(p->sources[op->source]) : mount_clone_tree_here(p->sources[op->source], flags);
        int r = tree >= 0 && flags & MOUNT_DETACHED ? mount_restrict(tree, flags, -1) : MIN(tree, 0);
        return r < 0 ? r : mount_attach(tree, target);
}

/* Mounts a new file system on a new directory; returns a descriptor of its root. */
static int mount_new(struct root_plan *p, const struct box_op *op, int parent, const char *name)
{
        struct mount_tmpfs_options options = {
                .size_bytes = op->size_bytes, .inodes = op->inodes, .mode = op->mode,
                .uid = p->order->spec.uid, .gid = p->order->spec.gid,
        };
        _cleanup_close_ int target = make_dir(parent, name, 0755, p->order->spec.flags & BOX_ROOT_INHERITED);
        if (target < 0)
                return target;

        _cleanup_close_ int mount = op->kind == BOX_OP_TMPFS ? mount_new_tmpfs(&options)
                                  : op->kind == BOX_OP_PROC  ? TAKE_FD(p->proc)
                                                             : mount_new_devpts();
        if (mount < 0)
                return mount;
        int r = mount_attach(mount, target);
        return r < 0 ? r : TAKE_FD(mount);
}

static int do_op(struct root_plan *p, const struct box_op *op, int parent, const char *name)
{
        _cleanup_close_ int made = -1;

        switch (op->kind) {
        case BOX_OP_DIR:
                made = make_dir(parent, name, op->mode, p->order->spec.flags & BOX_ROOT_INHERITED);
                return made < 0 ? made : 0;
        case BOX_OP_SYMLINK:
                return symlinkat((const char *)p->payload + op->data.offset, parent, name) < 0 ? -errno : 0;
        case BOX_OP_FILE:
                return make_file(parent, name, p->payload, op);
        case BOX_OP_BIND:
                return bind_source(p, op, parent, name);
        case BOX_OP_TMPFS:
        case BOX_OP_PROC:
        case BOX_OP_DEVPTS:
                made = mount_new(p, op, parent, name);
                if (made < 0)
                        return made;
                if (op->kind == BOX_OP_TMPFS && p->n_watch < BOX_WRITABLE_MAX)
                        p->watch[p->n_watch++] = TAKE_FD(made);
                return 0;
        default:
                return -EINVAL;
        }
}

int root_build(struct root_plan *p, int root_fd)
{
        struct parent parent = {.fd = -1};
        int r = 0;

        for (uint32_t i = 0; r == 0 && i < p->payload->n_ops; i++) {
                const struct box_op *op = &p->payload->ops[i];
                const char *name = NULL;
                r = enter_parent(&parent, root_fd, op->path, p->order->spec.flags & BOX_ROOT_INHERITED, &name);
                if (r == 0)
                        r = do_op(p, op, parent.fd, name);
                if (r < 0)
                        p->failed = op;
        }
        safe_close(parent.fd);
        return r;
}
