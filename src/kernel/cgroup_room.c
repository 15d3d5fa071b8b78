/* SPDX-License-Identifier: Apache-2.0
 *
 * A service manager that delegates a v2 group puts the service itself into it; and a group with processes passes no controllers on, so that nothing could be
 * limited below. The process therefore moves into a group of its own below the delegated one, which is then free to be divided. */
#include "kernel/cgroup.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

/* systemd marks what it has delegated; root's in a name space that only root can write. */
static bool is_delegated(int fd)
{
        static const char *const names[] = {"trusted.delegate", "user.delegate"};
        char value[4];

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (fgetxattr(fd, names[i], value, sizeof(value)) == 1 && value[0] == '1')
                        return true;
        return false;
}

int cgroup_make_room_in(int group)
{
        char text[64], us[32];

        if (!is_delegated(group))
                return 0;
        snprintf(us, sizeof(us), "%d", (int)getpid());
        /* Only when nobody else is in it: others are not ours to move. */
        int r = file_read_at(group, "cgroup.procs", text, sizeof(text));
        if (r < 0 || strcmp(text, us) != 0)
                return r == -EFBIG ? 0 : MIN(r, 0);
        if (mkdirat(group, CGROUP_ROOM_NAME, 0755) < 0 && errno != EEXIST)
                return -errno;
        r = file_write_at(group, CGROUP_ROOM_NAME "/cgroup.procs", us);
        return r < 0 ? r : 1;
}

int cgroup_make_room(void)
{
        char text[4096], path[HOST_PATH_MAX], full[HOST_PATH_MAX + 32];
        struct statfs st;

        if (statfs("/sys/fs/cgroup", &st) < 0 || st.f_type != CGROUP2_SUPER_MAGIC)
                return 0; /* v1 has no such rule */
        int r = file_read_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text));
        if (r >= 0)
                r = cgroup_parse_self(text, "", path, sizeof(path));
        if (r < 0)
                return r;
        snprintf(full, sizeof(full), "/sys/fs/cgroup%s", path);
        _cleanup_close_ int fd = open(full, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : cgroup_make_room_in(fd);
}
