/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls and constants that glibc 2.36 or its kernel headers do not have yet. Thin: the
 * names and the return convention of the kernel (-1 and errno). */
#ifndef KERNEL_SYS_H
#define KERNEL_SYS_H

#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#ifndef MOUNT_ATTR_IDMAP
#define MOUNT_ATTR_IDMAP 0x00100000
#endif
#ifndef MOUNT_ATTR_NOSYMFOLLOW
#define MOUNT_ATTR_NOSYMFOLLOW 0x00200000
#endif
#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13) /* ABI 2 */
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14) /* ABI 3 */
#endif
#ifndef LANDLOCK_ACCESS_FS_IOCTL_DEV
#define LANDLOCK_ACCESS_FS_IOCTL_DEV (1ULL << 15) /* ABI 5 */
#endif
#ifndef LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
#define LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET (1ULL << 0) /* ABI 6 */
#define LANDLOCK_SCOPE_SIGNAL (1ULL << 1)
#endif
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

/* Questions to a pidfd. Older kernels do not know them: ENOTTY, or EINVAL. */
#define SYS_PIDFD_GET_NAMESPACE(number) _IO(0xff, (number)) /* Linux 6.11: a descriptor of it, by these numbers */
enum { SYS_PIDFD_CGROUP_NS = 1, SYS_PIDFD_IPC_NS, SYS_PIDFD_MNT_NS, SYS_PIDFD_NET_NS, SYS_PIDFD_PID_NS, SYS_PIDFD_USER_NS = 9, SYS_PIDFD_UTS_NS };

struct sys_pidfd_info {
        uint64_t mask; /* in: what is asked for, out: what there is */
        uint64_t cgroup;
        uint32_t pid, tgid, ppid;
        uint32_t ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
        int32_t exit_code;
};
#define SYS_PIDFD_INFO_PID (1ULL << 0)
#define SYS_PIDFD_GET_INFO _IOWR(0xff, 11, struct sys_pidfd_info) /* Linux 6.13 */

static inline pid_t sys_clone3(struct clone_args *args)
{
        return (pid_t)syscall(SYS_clone3, args, sizeof(*args));
}

static inline int sys_open_tree(int fd, const char *path, unsigned flags)
{
        return (int)syscall(SYS_open_tree, fd, path, flags);
}

static inline int sys_move_mount(int from, const char *from_path, int to, const char *to_path, unsigned flags)
{
        return (int)syscall(SYS_move_mount, from, from_path, to, to_path, flags);
}

static inline int sys_mount_setattr(int fd, const char *path, unsigned flags, struct mount_attr *attr)
{
        return (int)syscall(SYS_mount_setattr, fd, path, flags, attr, sizeof(*attr));
}

static inline int sys_fsopen(const char *fs, unsigned flags)
{
        return (int)syscall(SYS_fsopen, fs, flags);
}

static inline int sys_fsconfig(int fd, unsigned cmd, const char *key, const void *value, int aux)
{
        return (int)syscall(SYS_fsconfig, fd, cmd, key, value, aux);
}

static inline int sys_fsmount(int fd, unsigned flags, unsigned attr)
{
        return (int)syscall(SYS_fsmount, fd, flags, attr);
}

static inline int sys_pivot_root(const char *new_root, const char *put_old)
{
        return (int)syscall(SYS_pivot_root, new_root, put_old);
}

static inline int sys_pidfd_open(pid_t pid)
{
        return (int)syscall(SYS_pidfd_open, pid, 0);
}

static inline int sys_pidfd_send_signal(int pidfd, int sig)
{
        return (int)syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0);
}

static inline int sys_close_range(unsigned first, unsigned last, unsigned flags)
{
        return (int)syscall(SYS_close_range, first, last, flags);
}

static inline int sys_landlock_create_ruleset(const void *attr, size_t size, uint32_t flags)
{
        return (int)syscall(SYS_landlock_create_ruleset, attr, size, flags);
}

static inline int sys_landlock_add_rule(int ruleset, int type, const void *attr)
{
        return (int)syscall(SYS_landlock_add_rule, ruleset, type, attr, 0);
}

static inline int sys_landlock_restrict_self(int ruleset)
{
        return (int)syscall(SYS_landlock_restrict_self, ruleset, 0);
}

#endif
