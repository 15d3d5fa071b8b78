/* SPDX-License-Identifier: Apache-2.0
 *
 * Directories: made, and removed with all that is in them.
 *
 * A tree that hostile code has made can be deeper than descriptors or paths reach, and closed to its owner. It is removed with
 * a fixed number of open directories: what lies deeper than those is moved up, into the directory that is to go as a whole, and found
 * there at the next look. Each step is from an open directory to a name in it, never through a link and never by "..", so nothing
 * else can be reached, whatever is renamed meanwhile. */
#include "engine/files_state.h"

#include "base/fd.h"
#include "base/quote.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define REMOVE_DEPTH_MAX 32 /* directories open at a time */
#define PARENT_MODE 0755

/* ---- making ---- */

static int make_one(int dir_fd, const char *name, mode_t mode)
{
        if (mkdirat(dir_fd, name, 0700) < 0)
                return -errno;
        /* Not by its name: that may be a link by now. */
        _cleanup_close_ int fd = files_open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY);
        return fd < 0 || fchmod(fd, mode & FILE_PERMISSIONS) < 0 ? -errno : 0;
}

int files_make_directory(const struct files *f, const char *path, mode_t mode, gb_error *err)
{
        _cleanup_(target_done) struct target t = {.dir_fd = -1};
        _cleanup_(identity_restore) struct identity identity = {0};

        if (f->remote)
                return files_remote_do(f, &(struct files_ask){.verb = FILES_MAKE_DIRECTORY, .path = path, .mode = mode}, err);
        int r = identity_take(&identity, f, err);
        if (r == 0)
                r = target_open(&t, f, path, "make", err);
        if (r < 0)
                return r;
        r = make_one(t.dir_fd, t.name, mode);
        return r < 0 ? files_fail(err, -r, "make", path) : 0;
}

/* From the open directory to the next on the way, which is made when it is not there: 1 then. */
static int step_into(int *dir_fd, const char *name, mode_t mode)
{
        bool made = false;

        int fd = files_open_beneath(*dir_fd, name, O_RDONLY | O_DIRECTORY);
        if (fd < 0 && errno == ENOENT) {
                int r = make_one(*dir_fd, name, mode);
                if (r < 0 && r != -EEXIST)
                        return r;
                made = r == 0;
                fd = files_open_beneath(*dir_fd, name, O_RDONLY | O_DIRECTORY);
        }
        if (fd < 0)
                return -errno;
        safe_close(*dir_fd);
        *dir_fd = fd;
        return made;
}

/* All of made->path, of which the last is to have this mode. */
static int make_way(const struct files *f, struct made_path *made, mode_t mode)
{
        char way[HOST_PATH_MAX];
        size_t size = strlen(made->path);
        bool all_there = true;

        memcpy(way, made->path, size + 1);
        made->kept = size;
        _cleanup_close_ int fd = files_open_beneath(f->root_fd, ".", O_RDONLY | O_DIRECTORY);
        if (fd < 0)
                return -errno;
        for (size_t at = 0; at < size;) {
                size_t n = strcspn(way + at, "/");
                bool last = way[at + n] == '\0';
                way[at + n] = '\0';
                int r = step_into(&fd, way + at, last ? mode : PARENT_MODE);
                if (r < 0)
                        return r;
                if (r > 0 && all_there) {
                        made->kept = at > 0 ? at - 1 : 0;
                        all_there = false;
                }
                at += n + 1;
        }
        return 0;
}

int files_make_parents(const struct files *f, const char *path, struct made_path *ret, gb_error *err)
{
        int r = files_check_path(path, strlen(path), ret->path, err);

        if (r < 0) {
                ret->path[0] = '\0'; /* what was read of it until then was not made */
                return r;
        }
        char *slash = strrchr(ret->path, '/');
        *(slash ? slash : ret->path) = '\0';
        r = make_way(f, ret, PARENT_MODE);
        return r < 0 ? files_fail(err, -r, "make the directories of", path) : 0;
}

void files_unmake_parents(const struct files *f, const struct made_path *made)
{
        char way[HOST_PATH_MAX];
        size_t size = strlen(made->path);

        memcpy(way, made->path, size + 1);
        while (size > made->kept) {
                char *slash = strrchr(way, '/');
                if (slash)
                        *slash = '\0';
                _cleanup_close_ int fd = files_open_beneath(f->root_fd, slash ? way : ".", O_RDONLY | O_DIRECTORY);
                if (fd < 0 || unlinkat(fd, slash ? slash + 1 : way, AT_REMOVEDIR) < 0)
                        return; /* somebody has put something there: then it stays */
                size = slash ? (size_t)(slash - way) : 0;
        }
}

int files_make_directories(const struct files *f, const char *path, mode_t mode, gb_error *err)
{
        _cleanup_(identity_restore) struct identity identity = {0};
        struct made_path made = {0};

        if (f->remote)
                return files_remote_do(f, &(struct files_ask){.verb = FILES_MAKE_DIRECTORIES, .path = path, .mode = mode}, err);
        int r = files_check_path(path, strlen(path), made.path, err);
        if (r == 0)
                r = identity_take(&identity, f, err);
        if (r < 0)
                return r;
        if (strcmp(made.path, ".") == 0)
                return 0;
        r = make_way(f, &made, mode);
        if (r < 0)
                files_unmake_parents(f, &made);
        return r < 0 ? files_fail(err, -r, "make", path) : 0;
}

int files_check_free(const struct files *f, const char *path, bool directory, gb_error *err)
{
        char checked[HOST_PATH_MAX];
        _cleanup_(identity_restore) struct identity identity = {0};
        struct stat st;

        if (f->remote)
                return files_remote_do(f, &(struct files_ask){.verb = FILES_CHECK_FREE, .path = path, .flags = directory ? FILES_FLAG_DIRECTORY : 0}, err);
        int r = files_check_path(path, strlen(path), checked, err);
        if (r == 0)
                r = identity_take(&identity, f, err);
        if (r < 0)
                return r;
        /* In its place a link is seen as itself, and replaced; on the way it is not followed. */
        _cleanup_close_ int fd = files_open_beneath(f->root_fd, checked, O_PATH);
        if (fd < 0)
                return errno == ENOENT ? 0 : files_fail(err, errno, "make", path);
        if (fstat(fd, &st) < 0 || S_ISDIR(st.st_mode) == directory)
                return 0;
        return files_fail(err, directory ? EEXIST : EISDIR, "make", path);
}

/* ---- removing ---- */

struct removal {
        DIR *dirs[REMOVE_DEPTH_MAX];
        char names[REMOVE_DEPTH_MAX][NAME_MAX + 1]; /* of each, in the one before it */
        int depth;
        int parent_fd; /* of the first; borrowed */
        uint64_t end_usec;
};

static void removal_free(struct removal *m)
{
        while (m->depth > 0)
                closedir(m->dirs[--m->depth]);
        free(m);
}
DEFINE_CLEANUP(struct removal, removal_free)

/* To be emptied: open, and open to its owner. */
static int open_for_removal(int dir_fd, const char *name)
{
        char path[64];
        struct stat st;

        int fd = files_open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY);
        if (fd < 0 && errno == EACCES) {
                _cleanup_close_ int closed = files_open_beneath(dir_fd, name, O_PATH | O_DIRECTORY);
                if (closed < 0)
                        return -errno;
                snprintf(path, sizeof(path), "/proc/self/fd/%d", closed);
                if (chmod(path, 0700) < 0)
                        return -EACCES;
                fd = files_open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY);
        }
        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700)
                (void)fchmod(fd, 0700); /* what follows tells */
        return fd;
}

static int removal_push(struct removal *m, int dir_fd, const char *name)
{
        int fd = open_for_removal(dir_fd, name);

        if (fd < 0)
                return fd;
        DIR *dir = fdopendir(fd);
        if (!dir) {
                int errnum = errno;
                safe_close(fd);
                return -errnum;
        }
        if (name != m->names[m->depth])
                snprintf(m->names[m->depth], sizeof(m->names[0]), "%s", name);
        m->dirs[m->depth++] = dir;
        return 0;
}

/* It lies too deep: into the first one with it. To be moved it must be open to its owner. */
static int move_up(struct removal *m, int dir_fd, const char *name)
{
        char temporary[TEMPORARY_NAME_MAX];

        int r = files_temporary_name(temporary);
        _cleanup_close_ int fd = r < 0 ? r : open_for_removal(dir_fd, name);
        if (fd < 0)
                return fd;
        return renameat(dir_fd, name, dirfd(m->dirs[0]), temporary) < 0 ? -errno : 0;
}

static int remove_entry(struct removal *m, const struct dirent *entry)
{
        int dir_fd = dirfd(m->dirs[m->depth - 1]);
        const char *name = entry->d_name;

        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                return 0;
        bool directory = entry->d_type == DT_DIR;
        if (unlinkat(dir_fd, name, directory ? AT_REMOVEDIR : 0) == 0 || errno == ENOENT)
                return 0;
        /* It is something else by now, or nobody said what it is. */
        if ((errno == EISDIR || errno == ENOTDIR) && unlinkat(dir_fd, name, errno == EISDIR ? AT_REMOVEDIR : 0) == 0)
                return 0;
        if (errno != ENOTEMPTY && errno != EEXIST)
                return -errno;
        int r = m->depth < REMOVE_DEPTH_MAX ? removal_push(m, dir_fd, name) : move_up(m, dir_fd, name);
        return r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? 0 : r; /* somebody was faster; the next look tells */
}

/* The last one was read to its end. */
static int removal_pop(struct removal *m)
{
        closedir(m->dirs[--m->depth]);
        int parent_fd = m->depth > 0 ? dirfd(m->dirs[m->depth - 1]) : m->parent_fd;
        const char *name = m->names[m->depth];
        if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT || errno == ENOTDIR)
                return 0;
        return errno == ENOTEMPTY || errno == EEXIST ? removal_push(m, parent_fd, name) : -errno;
}

static int remove_all(struct removal *m)
{
        int r = 0;

        while (r == 0 && m->depth > 0) {
                struct dirent *entry = readdir(m->dirs[m->depth - 1]);
                r = entry ? remove_entry(m, entry) : removal_pop(m);
                if (r == 0 && monotonic_usec() > m->end_usec)
                        r = -ETIME;
        }
        return r;
}

int files_remove_tree(const struct files *f, const char *path, gb_error *err)
{
        _cleanup_(target_done) struct target t = {.dir_fd = -1};
        _cleanup_(identity_restore) struct identity identity = {0};
        _cleanup_(removal_free_ptr) struct removal *m = f->remote ? NULL : calloc(1, sizeof(*m));

        if (f->remote)
                return files_remote_do(f, &(struct files_ask){.verb = FILES_REMOVE_TREE, .path = path}, err);
        int r = m ? identity_take(&identity, f, err) : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (r == 0)
                r = target_open(&t, f, path, "remove", err);
        if (r < 0)
                return r;
        if (unlinkat(t.dir_fd, t.name, 0) == 0)
                return 0;
        if (errno != EISDIR)
                return files_fail(err, errno, "remove", path);
        m->parent_fd = t.dir_fd;
        m->end_usec = monotonic_usec() + FILE_REMOVE_USEC;
        r = removal_push(m, t.dir_fd, t.name);
        if (r == 0)
                r = remove_all(m);
        if (r == -ETIME)
                return error_set(err, GB_E_CONFLICT, ETIME, "%s is not removed after %llu s: something keeps making files in it, or there are too many",
                                 quote(path).text, FILE_REMOVE_USEC / 1000000);
        return r < 0 ? files_fail(err, -r, "remove", path) : 0;
}
