/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/userns.h"

#include "base/fd.h"
#include "kernel/sys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static int write_proc(int proc, pid_t pid, const char *name, const char *text)
{
        char path[64];

        snprintf(path, sizeof(path), "%d/%s", (int)pid, name);
        return file_write_at(proc, path, text);
}

int userns_write_map_at(int proc, pid_t pid, const struct userns_map *map)
{
        char text[64];
        int r;

        /* Without privilege the kernel wants setgroups() given up first. With it we want that
         * too: nobody in a box has a use for it. */
        r = write_proc(proc, pid, "setgroups", "deny");
        if (r < 0)
                return r;
        snprintf(text, sizeof(text), "%u %u %u", map->gid_inside, map->gid_outside, map->more + 1);
        r = write_proc(proc, pid, "gid_map", text);
        if (r < 0)
                return r;
        snprintf(text, sizeof(text), "%u %u %u", map->uid_inside, map->uid_outside, map->more + 1);
        return write_proc(proc, pid, "uid_map", text);
}

int userns_write_map(pid_t pid, const struct userns_map *map)
{
        _cleanup_close_ int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

        return proc < 0 ? -errno : userns_write_map_at(proc, pid, map);
}

int userns_open(const struct userns_map *map)
{
        char path[64];

        pid_t parent = getpid();
        struct clone_args args = {
                .flags = CLONE_NEWUSER,
                .exit_signal = SIGCHLD,
        };
        pid_t pid = sys_clone3(&args);
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                /* It holds nothing of ours open, and goes with us. */
                sys_close_range(0, ~0U, 0);
                if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
                        _exit(1);
                for (;;)
                        pause();
        }

        int r = userns_write_map(pid, map);
        int fd = -1;
        if (r == 0) {
                snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
                fd = open(path, O_RDONLY | O_CLOEXEC);
                if (fd < 0)
                        r = -errno;
        }
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        return r < 0 ? r : fd;
}

bool userns_is_initial(void)
{
        char text[128];
        unsigned inside, outside, count;

        if (file_read_at(AT_FDCWD, "/proc/self/uid_map", text, sizeof(text)) < 0)
                return true; /* no user namespaces in this kernel: ids are the host's */
        return sscanf(text, "%u %u %u", &inside, &outside, &count) == 3 &&
               inside == 0 && outside == 0 && count == 4294967295U;
}
