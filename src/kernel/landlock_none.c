/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/landlock.h"

#include "base/fd.h"
#include "kernel/sys.h"

#include <errno.h>

#ifndef LANDLOCK_ACCESS_NET_BIND_TCP
#define LANDLOCK_ACCESS_NET_BIND_TCP (1ULL << 0)
#endif

/* A ruleset that handles all there is to handle, and allows nothing. */
static int new_ruleset(int abi)
{
        struct {
                uint64_t handled_access_fs, handled_access_net, scoped;
        } attr = {
                .handled_access_fs = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1,
                .handled_access_net = LANDLOCK_ACCESS_NET_BIND_TCP,
                .scoped = LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | LANDLOCK_SCOPE_SIGNAL,
        };
        size_t size = abi >= 6 ? sizeof(attr) : abi >= 4 ? 2 * sizeof(uint64_t) : sizeof(uint64_t);

        if (abi >= 2)
                attr.handled_access_fs |= LANDLOCK_ACCESS_FS_REFER;
        if (abi >= 3)
                attr.handled_access_fs |= LANDLOCK_ACCESS_FS_TRUNCATE;
        if (abi >= 5)
                attr.handled_access_fs |= LANDLOCK_ACCESS_FS_IOCTL_DEV;
        int ruleset = sys_landlock_create_ruleset((void *)&attr, size, 0);
        return ruleset < 0 ? -errno : ruleset;
}

int landlock_allow_nothing(int abi)
{
        _cleanup_close_ int ruleset = new_ruleset(abi);

        return ruleset < 0 ? ruleset : landlock_enforce(ruleset);
}

int landlock_allow_reading(int abi, int directory)
{
        struct landlock_path_beneath_attr rule = {
                .allowed_access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR, .parent_fd = directory,
        };
        _cleanup_close_ int ruleset = new_ruleset(abi);

        if (ruleset < 0)
                return ruleset;
        return sys_landlock_add_rule(ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule) < 0 ? -errno : landlock_enforce(ruleset);
}
