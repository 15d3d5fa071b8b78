/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/privilege.h"

#include "base/macro.h"
#include "kernel/userns.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOCKED_BITS                                                                                \
        (SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED | \
         SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

int privilege_drop_capabilities(void)
{
        for (int cap = 0; prctl(PR_CAPBSET_DROP, cap) == 0; cap++)
                ;
        if (errno != EINVAL) /* which is what there is behind the last one */
                return -errno;
        return privilege_clear_capabilities();
}

int privilege_clear_capabilities(void)
{
        if (prctl(PR_SET_SECUREBITS, LOCKED_BITS) < 0)
                return -errno;
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
                return -errno;

        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};
        return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

int privilege_no_new(void)
{
        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

int privilege_new_keyring(void)
{
        if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
                return -errno;
        return 0;
}

int rlimit_lower(pid_t pid, int resource, uint64_t value)
{
        struct rlimit limit;

        if (prlimit(pid, resource, NULL, &limit) < 0)
                return -errno;
        limit.rlim_max = MIN(limit.rlim_max, (rlim_t)value);
        limit.rlim_cur = limit.rlim_max;
        return prlimit(pid, resource, &limit, NULL) < 0 ? -errno : 0;
}

bool privilege_has(int capability)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

        if (syscall(SYS_capget, &header, data) < 0)
                return false;
        return data[capability / 32].effective & (1U << (capability % 32));
}

bool privilege_is_host_root(void)
{
        static int known = -1;

        if (known < 0)
                known = geteuid() == 0 && userns_is_initial() && privilege_has(CAP_SYS_ADMIN);
        return known;
}
