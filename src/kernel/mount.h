/* SPDX-License-Identifier: Apache-2.0
 *
 * Mounts by descriptor: nothing here takes a path that anybody else could change. */
#ifndef KERNEL_MOUNT_H
#define KERNEL_MOUNT_H

#include <stdbool.h>
#include <stdint.h>

enum mount_flags {
        MOUNT_WRITABLE = 1 << 0,
        MOUNT_DEVICES = 1 << 1, /* only for the fixed nodes of /dev */
        MOUNT_DETACHED = 1 << 2, /* the source is a detached mount already */
};

/* A detached copy of the tree below fd (recursive), nosuid, nodev, read-only unless flags say
 * otherwise, its owner mapped by the user namespace idmap_userns when that is not -1. */
int mount_clone_tree(int fd, unsigned flags, int idmap_userns);

/* The same for a caller without privilege, in its own user and mount namespace: fd was opened in
 * another mount namespace, so the kernel's own name for it is opened again here and must still be
 * the same inode. */
int mount_clone_tree_here(int fd, unsigned flags);

/* Applies the same restrictions to a detached mount. The kernel refuses mounts of another namespace, so a caller in
 * its own namespace cannot change the host's. */
int mount_restrict(int tree, unsigned flags, int idmap_userns);

/* For a detached copy that somebody outside of the box gets: nothing on it is executed or followed, and owners are mapped by the user namespace. */
int mount_make_lent(int fd, int idmap_userns);

struct mount_tmpfs_options {
        uint64_t size_bytes, inodes; /* inodes 0: no limit of its own */
        unsigned mode, uid, gid;
};

/* Detached new file systems. */
int mount_new_tmpfs(const struct mount_tmpfs_options *options);
int mount_new_proc(void);   /* subset=pid, hidepid=invisible where the kernel knows it */
int mount_new_whole_proc(void); /* all of it, to be used by its maker and never attached */
int mount_new_devpts(void);

/* A detached file system that is served by whoever reads from device, which is /dev/fuse. It is read-only, and the kernel checks permissions. Only processes of
 * user uid and group gid reach it; with others, all in our user namespace and below it. */
int mount_new_fuse(int device, unsigned uid, unsigned gid, bool others);

/* Puts a detached mount onto the directory or file target_fd. */
int mount_attach(int mount_fd, int target_fd);

/* Makes the mount at fd read-only (not what is mounted below it). */
int mount_make_read_only(int fd);

/* Makes root_fd the root directory of the mount namespace and forgets the old one. */
int mount_pivot(int root_fd);

#endif
