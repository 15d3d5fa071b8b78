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
        uint64_t max_inodes;
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
        if (!S_ISDIR(st.st_mode))
                return;
        if (w->depth == DISK_DEPTH_MAX) {
                w->usage.too_deep = true;
                return;
        }
        /* One that cannot be opened (made 000 by the program) is still counted as an inode. */
        (void)push(w, openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
}

int disk_measure(int fd, uint64_t max_inodes, struct disk_usage *ret)
{
        _cleanup_free_ struct walk *w = calloc(1, sizeof(*w));

        if (!w)
                return -ENOMEM;
        w->max_inodes = max_inodes;
        int r = push(w, openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (r < 0)
                return r;
        while (w->depth > 0) {
                struct dirent *entry = readdir(w->stack[w->depth - 1]);
                if (!entry || w->usage.inodes > max_inodes)
                        closedir(w->stack[--w->depth]);
                else
                        visit(w, entry->d_name);
        }
        *ret = w->usage;
        return 0;
}

static uint64_t free_bytes(int fd)
{
        struct statfs st;

        return fstatfs(fd, &st) < 0 ? UINT64_MAX : (uint64_t)st.f_bavail * (uint64_t)st.f_bsize;
}

int disk_watch_init(struct disk_watch *w, int fd, uint64_t limit_bytes, uint64_t limit_inodes)
{
        *w = (struct disk_watch){.fd = fd, .limit_bytes = limit_bytes, .limit_inodes = limit_inodes};
        w->floor_bytes = MIN((uint64_t)FREE_FLOOR_BYTES, free_bytes(fd) / 2);
        return disk_measure(fd, UINT64_MAX - 1, &w->before);
}

bool disk_watch_over(struct disk_watch *w)
{
        uint64_t start = monotonic_usec();
        struct disk_usage now;

        if (disk_measure(w->fd, w->before.inodes + w->limit_inodes, &now) < 0)
                return false;
        w->took_usec = monotonic_usec() - start;
        uint64_t bytes = now.bytes > w->before.bytes ? now.bytes - w->before.bytes : 0;
        uint64_t inodes = now.inodes > w->before.inodes ? now.inodes - w->before.inodes : 0;
        w->peak_bytes = MAX(w->peak_bytes, bytes);
        w->peak_inodes = MAX(w->peak_inodes, inodes);
        return bytes > w->limit_bytes || inodes > w->limit_inodes || (now.too_deep && !w->before.too_deep) ||
               free_bytes(w->fd) < w->floor_bytes;
}
