/* SPDX-License-Identifier: Apache-2.0
 *
 * A file system that finds its one file by a second name, as vfat has it: .netrc also as NETRC~1, in both directories. A list shows the long name only. */
#define FUSE_USE_VERSION 35
#include <errno.h>
#include <fuse.h>
#include <string.h>
#include <sys/stat.h>

static const char content[] = "machine x password SECRET\n";

static const char *in_directory(const char *path)
{
        if (strncasecmp(path, "/longdirectory", 14) == 0)
                path += 14;
        else if (strncasecmp(path, "/LONGDI~1", 9) == 0)
                path += 9;
        return *path ? path : "/";
}

static int is_file(const char *path)
{
        return strcasecmp(path, "/.netrc") == 0 || strcmp(path, "/NETRC~1") == 0 || strcasecmp(path, "/plain.txt") == 0;
}

static int get(const char *path, struct stat *st, struct fuse_file_info *info)
{
        path = in_directory(path);
        memset(st, 0, sizeof(*st));
        st->st_mode = strcmp(path, "/") == 0 ? S_IFDIR | 0755 : S_IFREG | 0644;
        st->st_nlink = 1;
        st->st_size = sizeof(content) - 1;
        return strcmp(path, "/") == 0 || is_file(path) ? 0 : -ENOENT;
}

static int list(const char *path, void *buf, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *info, enum fuse_readdir_flags flags)
{
        fill(buf, ".netrc", NULL, 0, 0);
        fill(buf, "Plain.txt", NULL, 0, 0);
        if (strcmp(path, "/") == 0)
                fill(buf, "longdirectory", NULL, 0, 0);
        return 0;
}

static int read_file(const char *path, char *buf, size_t size, off_t offset, struct fuse_file_info *info)
{
        size_t left = offset < (off_t)sizeof(content) - 1 ? sizeof(content) - 1 - (size_t)offset : 0;

        size = size < left ? size : left;
        memcpy(buf, content + offset, size);
        return (int)size;
}

static const struct fuse_operations operations = {.getattr = get, .readdir = list, .read = read_file};

int main(int argc, char **argv)
{
        return fuse_main(argc, argv, &operations, NULL);
}
