/* SPDX-License-Identifier: Apache-2.0
 *
 * The box's root directory. How it looks is data: a list of ops, checked first, then carried out
 * once, in order, by one loop. Every mount lands on a directory or file that this loop itself
 * made on a private tmpfs, reached step by step without following a link, so nothing
 * inside an image or a mounted directory can turn a mount to somewhere else. */
#include "base/fd.h"
#include "kernel/mount.h"
#include "kernel/sys.h"
#include "warden/setup.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* Opens the parent of path below root, making directories on the way; *ret_name is its last part. */
static int open_parent(int root, const char *path, const char **ret_name)
{
        char part[BOX_PATH_MAX];
        _cleanup_close_ int dir = fcntl(root, F_DUPFD_CLOEXEC, 3);

        if (dir < 0)
                return -errno;
        for (;;) {
                while (*path == '/')
                        path++;
                const char *end = strchrnul(path, '/');
                if (*end == '\0')
                        break;
                memcpy(part, path, (size_t)(end - path));
                part[end - path] = '\0';
                if (strcmp(part, "..") == 0)
                        return -EINVAL;
                if (mkdirat(dir, part, 0755) < 0 && errno != EEXIST)
                        return -errno;
                int next = openat(dir, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (next < 0)
                        return -errno;
                safe_close(dir);
                dir = next;
                path = end;
        }
        if (*path == '\0' || strcmp(path, "..") == 0 || strcmp(path, ".") == 0)
                return -EINVAL;
        *ret_name = path;
        return TAKE_FD(dir);
}

static int make_dir(int parent, const char *name, unsigned mode)
{
        if (mkdirat(parent, name, mode) < 0 && errno != EEXIST)
                return -errno;
        int fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
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

static int bind_source(struct setup *s, const struct box_op *op, int parent, const char *name)
{
        _cleanup_close_ int tree = -1, target = -1;

        if (op->source >= (uint32_t)s->n_sources)
                return -EINVAL;
        if (op->flags & BOX_OP_BIND_FILE) {
                safe_close(openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444));
                target = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        } else {
                target = make_dir(parent, name, 0755);
        }
        if (target < 0)
                return -errno;

        struct setup_source *source = &s->sources[op->source];
        if (source->detached) {
                tree = TAKE_FD(source->fd);
        } else {
                tree = mount_clone_tree_here(source->fd, source->mount_flags);
        }
        return tree < 0 ? tree : mount_attach(tree, target);
}

/* Mounts a new file system on a new directory; returns a descriptor of its root. */
static int mount_new(struct setup *s, const struct box_op *op, int parent, const char *name)
{
        struct mount_tmpfs_options options = {
                .size_bytes = op->size_bytes, .inodes = op->inodes, .mode = op->mode,
                .uid = s->spec->uid, .gid = s->spec->gid,
        };
        _cleanup_close_ int target = make_dir(parent, name, 0755);
        if (target < 0)
                return target;

        _cleanup_close_ int mount = op->kind == BOX_OP_TMPFS ? mount_new_tmpfs(&options)
                                  : op->kind == BOX_OP_PROC  ? TAKE_FD(s->proc)
                                                             : mount_new_devpts();
        if (mount < 0)
                return mount;
        int r = mount_attach(mount, target);
        return r < 0 ? r : TAKE_FD(mount);
}

static int do_op(const struct payload *p, const struct box_op *op, struct setup *s, int root_fd, int *watch, int *n_watch)
{
        const char *name;
        _cleanup_close_ int parent = open_parent(root_fd, op->path, &name);
        _cleanup_close_ int made = -1;

        if (parent < 0)
                return parent;
        switch (op->kind) {
        case BOX_OP_DIR:
                made = make_dir(parent, name, op->mode);
                return made < 0 ? made : 0;
        case BOX_OP_SYMLINK:
                return symlinkat((const char *)p + op->data.offset, parent, name) < 0 ? -errno : 0;
        case BOX_OP_FILE:
                return make_file(parent, name, p, op);
        case BOX_OP_BIND:
                return bind_source(s, op, parent, name);
        case BOX_OP_TMPFS:
        case BOX_OP_PROC:
        case BOX_OP_DEVPTS:
                made = mount_new(s, op, parent, name);
                if (made < 0)
                        return made;
                if (op->kind == BOX_OP_TMPFS && *n_watch < BOX_WRITABLE_MAX)
                        watch[(*n_watch)++] = TAKE_FD(made);
                return 0;
        default:
                return -EINVAL;
        }
}

int root_build(const struct payload *payload, struct setup *s, int root_fd, int *watch, int *n_watch,
               const struct box_op **failed)
{
        for (uint32_t i = 0; i < payload->n_ops; i++) {
                int r = do_op(payload, &payload->ops[i], s, root_fd, watch, n_watch);
                if (r < 0) {
                        *failed = &payload->ops[i];
                        return r;
                }
        }
        return 0;
}
