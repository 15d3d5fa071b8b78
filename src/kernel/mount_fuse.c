/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/mount.h"

#include "base/fd.h"
#include "base/macro.h"
#include "kernel/sys.h"

#include <errno.h>
#include <stdio.h>

static int set_number(int fs, const char *key, unsigned value)
{
        char text[16];

        snprintf(text, sizeof(text), "%u", value);
        return sys_fsconfig(fs, FSCONFIG_SET_STRING, key, text, 0) < 0 ? -errno : 0;
}

int mount_new_fuse(int device, unsigned uid, unsigned gid, bool others)
{
        static const char *const texts[][2] = {{"source", "glovebox"}, {"rootmode", "40000"}};
        int r;

        _cleanup_close_ int fs = sys_fsopen("fuse", FSOPEN_CLOEXEC);
        if (fs < 0)
                return -errno;
        if ((r = set_number(fs, "fd", (unsigned)device)) < 0 || (r = set_number(fs, "user_id", uid)) < 0 || (r = set_number(fs, "group_id", gid)) < 0)
                return r;
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
                if (sys_fsconfig(fs, FSCONFIG_SET_STRING, texts[i][0], texts[i][1], 0) < 0)
                        return -errno;
        if (sys_fsconfig(fs, FSCONFIG_SET_FLAG, "default_permissions", NULL, 0) < 0 ||
            (others && sys_fsconfig(fs, FSCONFIG_SET_FLAG, "allow_other", NULL, 0) < 0) || sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
                return -errno;
        int fd = sys_fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
        return fd < 0 ? -errno : fd;
}
