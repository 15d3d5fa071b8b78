/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/landlock.h"

#include "base/fd.h"
#include "kernel/sys.h"

#include <errno.h>
#include <sys/stat.h>

/* As the kernel knows it since ABI 6; older ones take a prefix. */
struct ruleset_attr {
        uint64_t handled_access_fs;
        uint64_t handled_access_net;
        uint64_t scoped;
};

#define READ_ACCESS (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)

/* What can be done with a file; the rest is for directories, and an error in a file's rule. */
#define FILE_ACCESS                                                                                               \
        (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |                \
         LANDLOCK_ACCESS_FS_TRUNCATE | LANDLOCK_ACCESS_FS_IOCTL_DEV)

static uint64_t all_access(int abi)
{
        uint64_t access = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1; /* ABI 1: all below and with it */

        if (abi >= 2)
                access |= LANDLOCK_ACCESS_FS_REFER;
        if (abi >= 3)
                access |= LANDLOCK_ACCESS_FS_TRUNCATE;
        if (abi >= 5)
                access |= LANDLOCK_ACCESS_FS_IOCTL_DEV;
        return access;
}

int landlock_abi(void)
{
        int abi = sys_landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
        return abi < 0 ? 0 : abi;
}

static int allow(int ruleset, int fd, uint64_t access)
{
        struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = fd};

        return sys_landlock_add_rule(ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule) < 0 ? -errno : 0;
}

int landlock_ruleset_new(int abi)
{
        struct ruleset_attr attr = {
                .handled_access_fs = all_access(abi),
                .scoped = LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | LANDLOCK_SCOPE_SIGNAL,
        };
        size_t size = abi >= 6 ? sizeof(attr) : sizeof(attr.handled_access_fs);

        _cleanup_close_ int ruleset = sys_landlock_create_ruleset(&attr, size, 0);
        if (ruleset < 0)
                return -errno;

        _cleanup_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root < 0)
                return -errno;
        int r = allow(ruleset, root, READ_ACCESS);
        return r < 0 ? r : TAKE_FD(ruleset);
}

int landlock_allow_all(int ruleset, int abi, int fd)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return -errno;
        return allow(ruleset, fd, all_access(abi) & (S_ISDIR(st.st_mode) ? ~0ULL : FILE_ACCESS));
}

int landlock_allow_devices(int ruleset, int abi, int fd)
{
        uint64_t access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_DIR |
                          LANDLOCK_ACCESS_FS_TRUNCATE | LANDLOCK_ACCESS_FS_IOCTL_DEV;

        return allow(ruleset, fd, access & all_access(abi));
}

int landlock_enforce(int ruleset)
{
        return sys_landlock_restrict_self(ruleset) < 0 ? -errno : 0;
}
