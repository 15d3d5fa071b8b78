/* SPDX-License-Identifier: Apache-2.0
 *
 * Most directories find a file by one name only. A directory is looked at once in a second: its file system must be of a kind that is known for it, and in such a
 * directory an entry must not be found in the other case (ext4, F2FS and tmpfs have such directories, XFS and ZFS such file systems). In all others a name counts
 * that is listed byte by byte. */
#include "hide/spelling.h"

#include "base/fd.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define KNOWN_MAX 256
#define KNOWN_SECONDS 1
#define LISTING_BYTES (32 * 1024)
#define PROBE_BYTES 1024 /* the first entries will do */

/* Those that linux/magic.h does not have. */
#define ZFS_MAGIC 0x2fc12fc1
#define BCACHEFS_MAGIC 0xca451a4e

/* A directory that was looked at: it, and all above it, are spelled as they are listed. */
static struct known {
        char *path;
        bool has_one_name; /* for each entry */
        time_t second;
} known[KNOWN_MAX];

union listing {
        struct dirent64 aligned;
        char bytes[LISTING_BYTES];
};

static bool has_one_name_for_each(long type)
{
        static const uint32_t types[] = {
                EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC, TMPFS_MAGIC, OVERLAYFS_SUPER_MAGIC, RAMFS_MAGIC, SQUASHFS_MAGIC,
                EROFS_SUPER_MAGIC_V1, NFS_SUPER_MAGIC, ZFS_MAGIC, BCACHEFS_MAGIC,
        };

        for (size_t i = 0; i < ARRAY_SIZE(types); i++)
                if ((uint32_t)type == types[i])
                        return true;
        return false;
}

/* Whether an entry of the directory is found in the other case as well. 0: it has no letters. -1: it is not. */
static int is_found_in_other_case(int directory, const char *name)
{
        char other[NAME_MAX + 1];
        bool has_letters = false;
        struct stat a, b;
        size_t i;

        for (i = 0; i < NAME_MAX && name[i]; i++) {
                unsigned char c = (unsigned char)name[i];
                has_letters = has_letters || isalpha(c);
                other[i] = (char)(isupper(c) ? tolower(c) : toupper(c));
        }
        other[i] = '\0';
        if (!has_letters)
                return 0;
        if (fstatat(directory, other, &a, AT_SYMLINK_NOFOLLOW) < 0)
                return -1;
        return fstatat(directory, name, &b, AT_SYMLINK_NOFOLLOW) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev ? 1 : -1;
}

/* Calls visit for each entry until it says something else than 0. */
static int list(int directory, size_t size, int (*visit)(int directory, const struct dirent64 *entry, const char *name), const char *name)
{
        static union listing l;

        if (lseek(directory, 0, SEEK_SET) < 0)
                return 0;
        for (;;) {
                long n = syscall(SYS_getdents64, directory, l.bytes, size);
                if (n <= 0)
                        return 0;
                for (long at = 0; at < n;) {
                        const struct dirent64 *d = (const struct dirent64 *)(const void *)(l.bytes + at);
                        int r = visit(directory, d, name);
                        if (r != 0)
                                return r;
                        at += d->d_reclen;
                }
        }
}

static int visit_case(int directory, const struct dirent64 *d, const char *name)
{
        return strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0 ? 0 : is_found_in_other_case(directory, d->d_name);
}

static int visit_name(int directory, const struct dirent64 *d, const char *name)
{
        return strcmp(d->d_name, name) == 0;
}

static bool has_one_name(int directory)
{
        struct statfs fs;

        return fstatfs(directory, &fs) == 0 && has_one_name_for_each(fs.f_type) && list(directory, PROBE_BYTES, visit_case, NULL) <= 0;
}

static time_t now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
        return t.tv_sec;
}

static struct known *slot(const char *path, size_t size)
{
        uint32_t hash = 2166136261u;

        for (size_t i = 0; i < size; i++)
                hash = (hash ^ (unsigned char)path[i]) * 16777619u;
        return &known[hash % KNOWN_MAX];
}

static bool is_listed(const struct hide_tree *t, const char *path, size_t size, bool *ret_one_name);

/* Whether name is an entry of the directory, and all above it is listed. */
static bool has_entry(const struct hide_tree *t, const char *directory, size_t size, const char *name)
{
        _cleanup_free_ char *path = NULL;
        bool one_name;

        if (!is_listed(t, directory, size, &one_name))
                return false;
        if (one_name)
                return true;
        path = size > 0 ? strndup(directory, size) : strdup("/");
        _cleanup_close_ int fd = path ? tree_open(t, path, O_RDONLY | O_DIRECTORY) : -ENOMEM;
        return fd >= 0 && list(fd, LISTING_BYTES, visit_name, name) > 0;
}

/* The size of path up to the slash before its last part. */
static size_t parent_size(const char *path, size_t size)
{
        while (size > 0 && path[size - 1] != '/')
                size--;
        return size > 0 ? size - 1 : 0;
}

static bool look(const struct hide_tree *t, const char *path, bool *ret_one_name)
{
        size_t size = strlen(path), parent = parent_size(path, size);

        *ret_one_name = false;
        if (size > 1 && !has_entry(t, path, parent, path + parent + 1))
                return false;
        _cleanup_close_ int fd = tree_open(t, path, O_RDONLY | O_DIRECTORY);
        *ret_one_name = fd >= 0 && has_one_name(fd);
        return fd >= 0;
}

/* Of the directory that is the first size bytes of path; none: the root. */
static bool is_listed(const struct hide_tree *t, const char *path, size_t size, bool *ret_one_name)
{
        struct known *k = slot(path, size);

        if (!k->path || k->second + KNOWN_SECONDS < now() || strncmp(k->path, path, size) != 0 || k->path[size] != '\0') {
                _cleanup_free_ char *key = strndup(path, size);
                bool one_name, listed = key && look(t, size > 0 ? key : "/", &one_name);
                if (!listed) /* nothing is kept of names that somebody makes up */
                        return false;
                free(k->path);
                *k = (struct known){.path = TAKE_PTR(key), .has_one_name = one_name, .second = now()};
        }
        *ret_one_name = k->has_one_name;
        return true;
}

bool spelling_is_listed(const struct hide_tree *t, const char *path)
{
        size_t size = strlen(path), parent = parent_size(path, size);

        return size <= 1 || has_entry(t, path, parent, path + parent + 1);
}

void spelling_forget(void)
{
        for (size_t i = 0; i < KNOWN_MAX; i++) {
                free(known[i].path);
                known[i] = (struct known){0};
        }
}
