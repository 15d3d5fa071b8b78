/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/disk.h"

#include "base/fd.h"
#include "base/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* A run must not fill the host's disk, whatever it hides from the walk (files it has unlinked and
 * keeps open): below this much free space it ends. */
#define FREE_FLOOR_BYTES (1 * GIB)

struct walk {
        DIR *stack[DISK_DEPTH_MAX];
        int depth;
        struct disk_usage usage;
};

static int push(struct walk *w, int fd)
{
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);

        if (!dir) {
                int errnum = errno;
                safe_close(fd);
                return -errnum;
        }
        w->stack[w->depth++] = dir;
        return 0;
}

static void visit(struct walk *w, const char *name)
{
        int parent = dirfd(w->stack[w->depth - 1]);
        struct stat st;

        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                return;
        if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
                return; /* gone again */
        w->usage.inodes++;
        /* A file with many names is counted once, in parts. */
        uint64_t names = S_ISDIR(st.st_mode) || st.st_nlink == 0 ? 1 : (uint64_t)st.st_nlink;
        w->usage.bytes += (uint64_t)st.st_blocks * 512 / names;
        if (S_ISREG(st.st_mode) && st.st_mode & (S_ISUID | S_ISGID))
                w->usage.set_id++;
        if (!S_ISDIR(st.st_mode))
                return;
        if (w->depth == DISK_DEPTH_MAX) {
                w->usage.hidden++;
                return;
        }
        int r = push(w, openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
        w->usage.hidden += r == -EACCES || r == -EPERM;
}

static int measure_file(int fd, struct disk_usage *usage)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return -errno;
        usage->inodes++;
        usage->bytes += (uint64_t)st.st_blocks * 512;
        usage->set_id += (st.st_mode & (S_ISUID | S_ISGID)) != 0;
        return 0;
}

int disk_measure(int fd, uint64_t max_inodes, struct disk_usage *usage)
{
        _cleanup_free_ struct walk *w = calloc(1, sizeof(*w));

        if (!w)
                return -ENOMEM;
        w->usage = *usage;
        int r = push(w, openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (r == -ENOTDIR)
                return measure_file(fd, usage);
        if (r < 0)
                return r;
        while (w->depth > 0) {
                struct dirent *entry = readdir(w->stack[w->depth - 1]);
                if (!entry || w->usage.inodes > max_inodes)
                        closedir(w->stack[--w->depth]);
                else
                        visit(w, entry->d_name);
        }
        *usage = w->usage;
        return 0;
}

static uint64_t free_bytes(int fd)
{
        struct statfs st;

        return fstatfs(fd, &st) < 0 ? UINT64_MAX : (uint64_t)st.f_bavail * (uint64_t)st.f_bsize;
}

void disk_watch_init(struct disk_watch *w, uint64_t limit_bytes, uint64_t limit_inodes)
{
        *w = (struct disk_watch){.limit_bytes = limit_bytes, .limit_inodes = limit_inodes};
}

int disk_watch_add(struct disk_watch *w, int fd)
{
        if (w->n >= DISK_PLACES_MAX)
                return -E2BIG;
        uint64_t room = free_bytes(fd);
        /* Where a run cannot reach the floor within its limit there is none: a small file system, or
         * a directory whose quota shows as its size. */
        w->free[w->n] = room;
        w->floors[w->n] = room > w->limit_bytes * 2 ? MIN((uint64_t)FREE_FLOOR_BYTES, room / 2) : 0;
        w->fds[w->n++] = fd;
        return disk_measure(fd, UINT64_MAX - 1, &w->before);
}

static uint64_t grown(uint64_t now, uint64_t before)
{
        return now > before ? now - before : 0;
}

enum disk_state disk_watch_look(struct disk_watch *w)
{
        uint64_t start = monotonic_usec();
        struct disk_usage now = {0};

        for (size_t i = 0; i < w->n; i++) {
                int r = disk_measure(w->fds[i], w->before.inodes + w->limit_inodes, &now);
                now.hidden += r == -EACCES || r == -EPERM;
                w->free[i] = free_bytes(w->fds[i]);
        }
        w->looked_usec = monotonic_usec();
        w->took_usec = w->looked_usec - start;
        uint64_t bytes = grown(now.bytes, w->before.bytes), inodes = grown(now.inodes, w->before.inodes);
        w->bytes = bytes;
        w->inodes = inodes;
        w->peak_bytes = MAX(w->peak_bytes, bytes);
        w->peak_inodes = MAX(w->peak_inodes, inodes);
        if (bytes > w->limit_bytes || inodes > w->limit_inodes)
                return DISK_OVER;
        if (now.hidden > 0)
                return DISK_HIDDEN;
        for (size_t i = 0; i < w->n; i++)
                if (w->free[i] < w->floors[i])
                        return DISK_HOST_FULL;
        return DISK_FINE;
}

enum disk_state disk_watch_glance(struct disk_watch *w)
{
        for (size_t i = 0; i < w->n; i++) {
                uint64_t now = free_bytes(w->fds[i]);
                if (now < w->floors[i])
                        return DISK_HOST_FULL;
                if (grown(w->free[i], now) > w->limit_bytes)
                        return DISK_OVER; /* somebody wrote that much since the last look: us? */
        }
        return DISK_FINE;
}
