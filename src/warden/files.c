/* SPDX-License-Identifier: Apache-2.0
 *
 * A front without privilege cannot touch files of the box's user, who is nobody on the host. It gets a copy of the mount of its session's workspace that is
 * attached nowhere, and in which the box's user is the front's: the kernel translates in both directions, and what the
 * front may do there is what the box's user may do. Nothing on it is executed, no device is one, no link is followed.
 *
 * A mount can only be copied from inside its own namespace. The warden goes there for one system call, in which no name is looked up, and
 * comes back; if it could not, it would have to end. That also bounds what a front can ask for: whatever descriptor it
 * brings, it must be of a mount in that very box. */
#include "warden/files.h"

#include "base/error.h"
#include "base/fd.h"
#include "kernel/mount.h"
#include "kernel/sys.h"
#include "warden/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* The user namespace of such a mount: for the user that nearly all have inside it is made once. */
static int translation(const struct box *b)
{
        static struct userns_map last;
        static int known = -1;
        struct userns_map map = {
                .uid_inside = b->identity.uid_inside, .uid_outside = warden_front.uid,
                .gid_inside = b->identity.gid_inside, .gid_outside = warden_front.gid,
        };

        if (known >= 0 && memcmp(&map, &last, sizeof(map)) == 0)
                return known;
        int fd = userns_open(&map);
        if (fd < 0)
                return fd;
        safe_close(known);
        last = map;
        return known = fd;
}

/* In the box's mount namespace for the time of one call. */
static int copy_mount(const struct box *b, int workspace)
{
        _cleanup_close_ int home = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC), root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (home < 0 || root < 0)
                return -errno;
        if (setns(b->init.pidfd, CLONE_NEWNS) < 0)
                return -errno;
        int tree = sys_open_tree(workspace, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
        int r = tree < 0 ? -errno : tree;
        if (setns(home, CLONE_NEWNS) < 0 || fchdir(root) < 0 || chroot(".") < 0)
                _exit(1);
        return r;
}

int files_lend(const struct box *b, int workspace, gb_error *err)
{
        struct stat st;
        struct statfs fs;

        if (b->state != BOX_OPEN || !b->host_root)
                return error_set(err, GB_E_INTERNAL, EPROTO, "only an open session of root's warden lends its workspace");
        bool is_its = fstat(workspace, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == b->host_uid && fstatfs(workspace, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
        if (!is_its)
                return error_set(err, GB_E_INTERNAL, EPROTO, "that is not a private workspace of this session");
        int userns = translation(b);
        _cleanup_close_ int tree = userns < 0 ? -1 : copy_mount(b, workspace);
        int r = userns < 0 ? userns : tree < 0 ? tree : mount_make_lent(tree, userns);
        if (r == 0)
                return TAKE_FD(tree);
        return error_set(err, GB_E_UNENFORCEABLE, -r, "this host cannot give the files of a session to a server that is not root any more: %s (it takes Linux 6.3, "
                         "where tmpfs has idmapped mounts; with an older kernel run the server as an ordinary user)", strerror(-r));
}
