/* SPDX-License-Identifier: Apache-2.0
 *
 * All files of a directory, one after the other, for an archive. Who walks may take any time between two of them (the other
 * side of a connection reads slowly), so nothing is held but the open directories on the way. */
#include "engine/files_state.h"

#include "base/fd.h"
#include "base/quote.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct files_walk {
        struct files files;
        struct files_remote_walk *remote; /* then nothing of what follows is used */
        DIR *dirs[FILE_WALK_DEPTH_MAX];
        size_t ends[FILE_WALK_DEPTH_MAX]; /* of path, in each */
        int depth;
        char path[HOST_PATH_MAX];
        int fd; /* of the last entry */
        uint64_t skipped;
};

void files_walk_free(struct files_walk *w)
{
        if (!w)
                return;
        while (w->depth > 0)
                closedir(w->dirs[--w->depth]);
        safe_close(w->fd);
        files_remote_walk_free(w->remote);
        free(w);
}

uint64_t files_walk_skipped(const struct files_walk *w)
{
        return w->remote ? files_remote_walk_skipped(w->remote) : w->skipped;
}

static int walk_push(struct files_walk *w, int fd, size_t end)
{
        DIR *dir = fdopendir(fd);

        if (!dir) {
                int errnum = errno;
                safe_close(fd);
                return -errnum;
        }
        w->ends[w->depth] = end;
        w->dirs[w->depth++] = dir;
        return 0;
}

int files_walk_new(const struct files *f, const char *path, struct files_walk **ret, gb_error *err)
{
        char checked[HOST_PATH_MAX];
        _cleanup_(identity_restore) struct identity identity = {0};
        _cleanup_files_walk_ struct files_walk *w = calloc(1, sizeof(*w));

        if (!w)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        w->files = *f;
        w->fd = -1;
        if (f->remote) {
                int got = files_remote_walk_new(f, path, &w->remote, err);
                if (got == 0)
                        *ret = TAKE_PTR(w);
                return got;
        }
        int r = files_check_path(path, strlen(path), checked, err);
        if (r == 0)
                r = identity_take(&identity, f, err);
        if (r < 0)
                return r;
        int fd = files_open_beneath(f->root_fd, checked, O_RDONLY | O_DIRECTORY);
        if (fd < 0)
                return files_fail(err, errno, "read", path);
        r = walk_push(w, fd, 0);
        if (r < 0)
                return files_fail(err, -r, "read", path);
        *ret = TAKE_PTR(w);
        return 0;
}

/* The name becomes the end of the path; its length, or -ENAMETOOLONG. */
static int set_name(struct files_walk *w, const char *name)
{
        size_t end = w->ends[w->depth - 1], size = strlen(name);

        if (end + size + 2 > sizeof(w->path))
                return -ENAMETOOLONG;
        if (end > 0)
                w->path[end++] = '/';
        memcpy(w->path + end, name, size + 1);
        return (int)(end + size);
}

/* What it is decides the descriptor, not the name: 1 it is given, 0 it is left out. */
static int take(struct files_walk *w, const char *name, int end, struct walk_entry *ret)
{
        int dir_fd = dirfd(w->dirs[w->depth - 1]);
        struct stat st;

        _cleanup_close_ int fd = files_open_beneath(dir_fd, name, O_RDONLY);
        if (fd < 0 && (errno == ELOOP || errno == ENXIO || errno == ENODEV)) {
                w->skipped++; /* a link; a socket */
                return 0;
        }
        if (fd < 0 || fstat(fd, &st) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (S_ISDIR(st.st_mode)) {
                if (w->depth == FILE_WALK_DEPTH_MAX)
                        return -E2BIG;
                int r = walk_push(w, TAKE_FD(fd), (size_t)end);
                *ret = (struct walk_entry){.path = w->path, .st = st, .fd = -1};
                return r < 0 ? r : 1;
        }
        if (!S_ISREG(st.st_mode)) {
                w->skipped++;
                return 0;
        }
        w->fd = TAKE_FD(fd);
        *ret = (struct walk_entry){.path = w->path, .st = st, .fd = w->fd};
        return 1;
}

static int walk_on(struct files_walk *w, struct walk_entry *ret)
{
        while (w->depth > 0) {
                errno = 0;
                struct dirent *entry = readdir(w->dirs[w->depth - 1]);
                if (!entry && errno != 0)
                        return -errno;
                if (!entry) {
                        closedir(w->dirs[--w->depth]);
                        continue;
                }
                const char *name = entry->d_name;
                if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                        continue;
                /* What a FIFO would do to be opened for reading is nothing, but why ask. */
                if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_REG && entry->d_type != DT_DIR) {
                        w->skipped++;
                        continue;
                }
                int r = set_name(w, name);
                if (r > 0)
                        r = take(w, name, r, ret);
                if (r != 0)
                        return r;
        }
        return 0;
}

int files_walk_next(struct files_walk *w, struct walk_entry *ret, gb_error *err)
{
        _cleanup_(identity_restore) struct identity identity = {0};

        if (w->remote)
                return files_remote_walk_next(w->remote, ret, err);
        w->fd = safe_close(w->fd);
        int r = identity_take(&identity, &w->files, err);
        if (r == 0)
                r = walk_on(w, ret);
        else
                return r;
        if (r == -E2BIG)
                return error_set(err, GB_E_LIMIT, E2BIG, "%s is nested more than %d deep", quote(w->path).text, FILE_WALK_DEPTH_MAX);
        if (r == -ENAMETOOLONG)
                return error_set(err, GB_E_LIMIT, ENAMETOOLONG, "a path below %s has more than %d bytes", quote(w->path).text, HOST_PATH_MAX - 1);
        return r < 0 ? files_fail(err, -r, "read", w->path) : r;
}
