/* SPDX-License-Identifier: Apache-2.0 */
#include "image/tree.h"

#include "base/fd.h"
#include "base/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_dots(const char *name)
{
        return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* What is mounted there is somebody else's: it stays. */
static bool is_mounted(int parent, int fd)
{
        struct stat above, st;

        return fstat(parent, &above) < 0 || fstat(fd, &st) < 0 || above.st_dev != st.st_dev;
}

static int open_dir(int parent, const char *name, DIR **ret)
{
        int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        /* One of a user that is closed to himself. Between the two it is still his own. */
        if (fd < 0 && errno == EACCES && fchmodat(parent, name, 0700, 0) == 0)
                fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        bool mounted = is_mounted(parent, fd);
        *ret = mounted ? NULL : fdopendir(fd);
        if (*ret)
                return 0;
        int r = mounted ? -EBUSY : -errno;
        safe_close(fd);
        return r;
}

static int remove_at(int parent, const char *name, unsigned depth);

static int empty(DIR *dir, unsigned depth)
{
        int first = 0;

        for (struct dirent *e; (e = readdir(dir));) {
                int r = is_dots(e->d_name) ? 0 : remove_at(dirfd(dir), e->d_name, depth);
                if (r == -EACCES && geteuid() != 0 && fchmod(dirfd(dir), 0700) == 0)
                        r = remove_at(dirfd(dir), e->d_name, depth);
                if (first == 0)
                        first = r;
        }
        return first;
}

static int remove_at(int parent, const char *name, unsigned depth)
{
        DIR *dir;

        if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
                return 0;
        if (errno != EISDIR && errno != EPERM)
                return -errno;
        if (depth > IMAGE_DEPTH_MAX + 8) /* deeper than what we make */
                return -ELOOP;
        int r = open_dir(parent, name, &dir);
        if (r < 0)
                return r;
        r = empty(dir, depth + 1);
        closedir(dir);
        return r == 0 && unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : r;
}

int tree_remove(int dir, const char *name)
{
        return remove_at(dir, name, 0);
}

static int measure(int parent, const char *name, struct tree_size *size, unsigned depth)
{
        struct stat st;
        DIR *dir;
        int r = 0;

        if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        size->entries++;
        /* A file with several names is in several places; each has its part. */
        size->bytes += (uint64_t)st.st_blocks * 512 / (S_ISDIR(st.st_mode) || st.st_nlink == 0 ? 1 : st.st_nlink);
        if (!S_ISDIR(st.st_mode) || depth > IMAGE_DEPTH_MAX + 8)
                return 0;
        int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        dir = fd < 0 ? NULL : fdopendir(fd);
        if (!dir) {
                r = -errno;
                safe_close(fd);
                return r == -EACCES ? 0 : r;
        }
        for (struct dirent *e; r == 0 && (e = readdir(dir));)
                r = is_dots(e->d_name) ? 0 : measure(dirfd(dir), e->d_name, size, depth + 1);
        closedir(dir);
        return r;
}

int tree_measure(int dir, struct tree_size *ret)
{
        *ret = (struct tree_size){0};
        return measure(dir, ".", ret, 0);
}
