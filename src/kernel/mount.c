/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/mount.h"

#include "base/fd.h"
#include "kernel/sys.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

int mount_restrict(int tree, unsigned flags, int idmap_userns)
{
        struct mount_attr attr = {
                .attr_set = MOUNT_ATTR_NOSUID |
                            (flags & MOUNT_DEVICES ? 0 : MOUNT_ATTR_NODEV) |
                            (flags & MOUNT_WRITABLE ? 0 : MOUNT_ATTR_RDONLY) |
                            (idmap_userns >= 0 ? MOUNT_ATTR_IDMAP : 0),
                .propagation = MS_PRIVATE,
                .userns_fd = idmap_userns >= 0 ? (uint64_t)idmap_userns : 0,
        };

        if (sys_mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr) < 0)
                return -errno;
        return 0;
}

int mount_clone_tree(int fd, unsigned flags, int idmap_userns)
{
        _cleanup_close_ int tree =
                sys_open_tree(fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
        if (tree < 0)
                return -errno;

        int r = mount_restrict(tree, flags, idmap_userns);
        return r < 0 ? r : TAKE_FD(tree);
}

int mount_make_lent(int fd, int idmap_userns)
{
        struct mount_attr attr = {
                .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NOSYMFOLLOW | MOUNT_ATTR_IDMAP,
                .propagation = MS_PRIVATE,
                .userns_fd = (uint64_t)idmap_userns,
        };

        return sys_mount_setattr(fd, "", AT_EMPTY_PATH, &attr) < 0 ? -errno : 0;
}

int mount_clone_tree_here(int fd, unsigned flags)
{
        char link[32], path[PATH_MAX];
        struct stat asked, got;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, path, sizeof(path) - 1);
        if (n < 0)
                return -errno;
        if (n == sizeof(path) - 1)
                return -ENAMETOOLONG;
        path[n] = '\0';

        _cleanup_close_ int here = open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
        if (here < 0)
                return -errno;
        if (fstat(fd, &asked) < 0 || fstat(here, &got) < 0)
                return -errno;
        if (asked.st_dev != got.st_dev || asked.st_ino != got.st_ino)
                return -ESTALE;
        return mount_clone_tree(here, flags, -1);
}

static int fs_option(int fs, const char *key, uint64_t value)
{
        char text[32];

        /* The mode is the one value that tmpfs reads as octal. */
        if (strcmp(key, "mode") == 0)
                snprintf(text, sizeof(text), "%" PRIo64, value);
        else
                snprintf(text, sizeof(text), "%" PRIu64, value);
        return sys_fsconfig(fs, FSCONFIG_SET_STRING, key, text, 0) < 0 ? -errno : 0;
}

static int fs_create(int fs, unsigned attributes)
{
        if (sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
                return -errno;
        int fd = sys_fsmount(fs, FSMOUNT_CLOEXEC, attributes);
        return fd < 0 ? -errno : fd;
}

int mount_new_tmpfs(const struct mount_tmpfs_options *o)
{
        const struct {
                const char *key;
                uint64_t value;
        } options[] = {
                {"size", o->size_bytes}, {"nr_inodes", o->inodes}, {"mode", o->mode}, {"uid", o->uid}, {"gid", o->gid},
        };

        _cleanup_close_ int fs = sys_fsopen("tmpfs", FSOPEN_CLOEXEC);
        if (fs < 0)
                return -errno;
        for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
                int r = fs_option(fs, options[i].key, options[i].value);
                if (r < 0)
                        return r;
        }
        return fs_create(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

int mount_new_proc(void)
{
        _cleanup_close_ int fs = sys_fsopen("proc", FSOPEN_CLOEXEC);
        if (fs < 0)
                return -errno;
        if (sys_fsconfig(fs, FSCONFIG_SET_STRING, "subset", "pid", 0) < 0)
                return -errno;
        /* "invisible" is 5.8; without it other uids' directories can be listed, but the pid
         * namespace holds only this box anyway. */
        (void)sys_fsconfig(fs, FSCONFIG_SET_STRING, "hidepid", "invisible", 0);
        return fs_create(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

int mount_new_whole_proc(void)
{
        _cleanup_close_ int fs = sys_fsopen("proc", FSOPEN_CLOEXEC);

        return fs < 0 ? -errno : fs_create(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

int mount_new_devpts(void)
{
        static const char *const options[][2] = {{"mode", "0600"}, {"ptmxmode", "0666"}, {"max", "64"}};

        _cleanup_close_ int fs = sys_fsopen("devpts", FSOPEN_CLOEXEC);
        if (fs < 0)
                return -errno;
        for (size_t i = 0; i < ARRAY_SIZE(options); i++)
                if (sys_fsconfig(fs, FSCONFIG_SET_STRING, options[i][0], options[i][1], 0) < 0)
                        return -errno;
        /* Terminals are devices: nodev would make them useless. The host has a few thousand for all boxes. */
        return fs_create(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
}

int mount_attach(int mount_fd, int target_fd)
{
        if (sys_move_mount(mount_fd, "", target_fd, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
                return -errno;
        return 0;
}

int mount_make_read_only(int fd)
{
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

        return sys_mount_setattr(fd, "", AT_EMPTY_PATH, &attr) < 0 ? -errno : 0;
}

int mount_pivot(int root_fd)
{
        /* pivot_root(".", ".") stacks the old root on top of the new one, from where it is
         * taken off: no directory for it has to exist. */
        if (fchdir(root_fd) < 0 || sys_pivot_root(".", ".") < 0)
                return -errno;
        if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
                return -errno;
        return 0;
}
