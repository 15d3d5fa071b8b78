/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/privilege.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* After a change of uid what is permitted is not effective any more. */
static int make_effective(void)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

        if (syscall(SYS_capget, &header, data) < 0)
                return -errno;
        for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
                data[i].effective = data[i].permitted;
        return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

int privilege_become(uid_t uid, gid_t gid, const gid_t *groups, size_t n_groups)
{
        /* The bounding set can only be emptied with a capability, which the change of uid would take: it is kept over that. */
        if (uid == 0 || gid == 0)
                return -EINVAL;
        for (size_t i = 0; i < n_groups; i++)
                if (groups[i] == 0)
                        return -EINVAL;
        if (setgroups(n_groups, groups) < 0 || setresgid(gid, gid, gid) < 0 || prctl(PR_SET_KEEPCAPS, 1) < 0 || setresuid(uid, uid, uid) < 0)
                return -errno;
        int r = make_effective();
        if (r == 0)
                r = privilege_drop_capabilities();
        if (r == 0)
                r = privilege_no_new();
        if (r < 0)
                return r;
        prctl(PR_SET_DUMPABLE, 0);
        /* What cannot be undone is tried: there must be no way back. */
        if (setresuid(0, 0, 0) == 0 || setresgid(0, 0, 0) == 0 || privilege_has(CAP_SETUID) || getuid() != uid || geteuid() != uid)
                return -EPERM;
        return 0;
}
