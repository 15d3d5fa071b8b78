/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/inside.h"

#include "base/fd.h"
#include "kernel/sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Calls visit for each entry of a directory whose name is a number. 0, or a negative errno: not all were seen. */
static int for_each_number(int dir, void (*visit)(int dir, const char *name, void *data), void *data)
{
        char entries[4096];
        long size;

        if (lseek(dir, 0, SEEK_SET) < 0)
                return -errno;
        while ((size = syscall(SYS_getdents64, dir, entries, sizeof(entries))) > 0)
                for (long at = 0; at < size;) {
                        const struct dirent64 *entry = (const struct dirent64 *)(const void *)(entries + at);
                        if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
                                visit(dir, entry->d_name, data);
                        at += entry->d_reclen;
                }
        return size < 0 ? -errno : 0;
}

static void count_process(int dir, const char *name, void *data)
{
        if (strcmp(name, "1") != 0)
                ++*(uint64_t *)data;
}

uint64_t inside_processes(int proc)
{
        uint64_t n = 0;

        return for_each_number(proc, count_process, &n) < 0 ? UINT64_MAX : n;
}

#define DESCRIPTORS_MAX 16384 /* more cannot be looked at in good time */

struct unlinked {
        const dev_t *devices;
        size_t n_devices;
        uint64_t bytes;
        unsigned seen;
};

static void add_file(int dir, const char *name, void *data)
{
        struct unlinked *u = data;
        struct stat st;

        if (++u->seen > DESCRIPTORS_MAX)
                return;
        /* Follows the magic link: the file itself, whatever name it had. */
        if (fstatat(dir, name, &st, 0) < 0 || st.st_nlink > 0 || !S_ISREG(st.st_mode))
                return;
        for (size_t i = 0; i < u->n_devices; i++)
                if (st.st_dev == u->devices[i])
                        u->bytes += (uint64_t)st.st_blocks * 512;
}

/* A process without memory any more is nobody's to look into, but for root: it is about to be gone, with what it holds (the kernel's PF_EXITING is 4). Not one
 * whose other threads go on. */
static bool is_exiting(int dir, const char *name)
{
        char path[32], text[1024];
        unsigned flags = 0, threads = 0;

        snprintf(path, sizeof(path), "%s/stat", name);
        const char *end = file_read_at(dir, path, text, sizeof(text)) < 0 ? NULL : strrchr(text, ')'); /* of its own name, which may be anything */
        return end && sscanf(end, ") %*c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %u", &flags, &threads) == 2 && flags & 4 && threads <= 1;
}

static void add_process(int dir, const char *name, void *data)
{
        char path[32];

        if ((size_t)snprintf(path, sizeof(path), "%s/fd", name) >= sizeof(path))
                return;
        _cleanup_close_ int fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        /* A process that has made itself opaque hides what it holds. So does one that cannot be looked at now. */
        if (fd < 0 && errno != ENOENT && errno != ESRCH && strcmp(name, "1") != 0 && !is_exiting(dir, name))
                ((struct unlinked *)data)->seen = DESCRIPTORS_MAX + 1;
        if (fd >= 0)
                (void)for_each_number(fd, add_file, data); /* fails when the process is gone, and its files with it */
}

uint64_t inside_unlinked_bytes(int proc, const dev_t *devices, size_t n_devices)
{
        struct unlinked u = {.devices = devices, .n_devices = n_devices};

        int r = for_each_number(proc, add_process, &u);
        return r < 0 || u.seen > DESCRIPTORS_MAX ? UINT64_MAX : u.bytes;
}

/* The number after "key" at the beginning of a line of a status file, in this base; UINT64_MAX: there is none. */
static uint64_t status_value(const char *text, const char *key, int base)
{
        size_t length = strlen(key);

        for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
                if (strncmp(line, key, length) == 0)
                        return strtoull(line + length, NULL, base);
        return UINT64_MAX;
}

pid_t inside_pid(int pidfd)
{
        struct sys_pidfd_info info = {.mask = SYS_PIDFD_INFO_PID};
        char path[64], text[512];

        if (ioctl(pidfd, SYS_PIDFD_GET_INFO, &info) == 0)
                return info.pid > 1 && info.pid <= INT32_MAX ? (pid_t)info.pid : 0;
        if (errno == ESRCH)
                return 0;
        snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
        if (pidfd < 0 || file_read_at(AT_FDCWD, path, text, sizeof(text)) < 0)
                return 0;
        uint64_t pid = status_value(text, "Pid:", 10);
        return pid > 1 && pid <= INT32_MAX ? (pid_t)pid : 0;
}

int inside_is_locked(pid_t pid, uid_t host_uid)
{
        static const char *const sets[] = {"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"};
        char path[64], text[4096];
        unsigned long ids[4];

        snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
        int r = pid > 1 ? file_read_at(AT_FDCWD, path, text, sizeof(text)) : -ESRCH;
        if (r < 0)
                return r;
        const char *uids = strstr(text, "\nUid:");
        if (!uids || sscanf(uids, "\nUid: %lu %lu %lu %lu", &ids[0], &ids[1], &ids[2], &ids[3]) != 4)
                return -EPERM;
        for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
                if (ids[i] != host_uid)
                        return -EPERM;
        for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
                if (status_value(text, sets[i], 16) != 0)
                        return -EPERM;
        bool filtered = status_value(text, "Seccomp:", 10) == 2 && status_value(text, "Seccomp_filters:", 10) >= 2;
        return filtered && status_value(text, "NoNewPrivs:", 10) == 1 ? 0 : -EPERM;
}
