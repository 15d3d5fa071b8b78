/* SPDX-License-Identifier: Apache-2.0
 *
 * Why the box's rights, and not a chown afterwards. A directory of the host that was given as a workspace may
 * hold things of other owners. If we made a directory as root and then gave it away, the code could rename one of
 * those into its place in between, and own it. With the file system identity of the box's user (which is a
 * thread's own, and which no signal or ptrace permission looks at) there is no such moment: the kernel
 * gives new files to him and refuses what he may not do. It is also the only identity that can make files in the
 * box's own tmpfs, where no other user has a mapping. */
#include "engine/files_state.h"

#include "base/fd.h"
#include "base/quote.h"
#include "policy/place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OPEN_ATTEMPTS_MAX 16

/* Changing it makes a process undumpable and forgets its parent-death signal: both are put back. */
void identity_restore(struct identity *i)
{
        int saved = errno;

        if (!i->changed)
                return;
        setfsuid(i->uid);
        setfsgid(i->gid);
        if (i->dumpable == 1)
                prctl(PR_SET_DUMPABLE, 1);
        if (i->death_signal > 0)
                prctl(PR_SET_PDEATHSIG, i->death_signal);
        errno = saved;
}

int identity_take(struct identity *i, const struct files *f, gb_error *err)
{
        *i = (struct identity){.uid = (uid_t)setfsuid((uid_t)-1), .gid = (gid_t)setfsgid((gid_t)-1)};
        if (i->uid == f->uid && i->gid == f->gid)
                return 0;
        /* A kernel without setfsuid() (gVisor's): there is only the one identity. */
        if (i->uid == (uid_t)-1 && geteuid() == f->uid && getegid() == f->gid)
                return 0;
        i->dumpable = prctl(PR_GET_DUMPABLE);
        prctl(PR_GET_PDEATHSIG, &i->death_signal);
        i->changed = true;
        setfsgid(f->gid);
        setfsuid(f->uid);
        if ((uid_t)setfsuid((uid_t)-1) == f->uid && (gid_t)setfsgid((gid_t)-1) == f->gid)
                return 0;
        return error_set(err, GB_E_INTERNAL, EPERM, "cannot use files of the workspace as their owner (uid %u)", (unsigned)f->uid);
}

const char *files_skip_workspace(const char *path)
{
        static const char *const names[] = {BOX_WORKSPACE, "/workspace", BOX_SCRATCH};

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                size_t n = strlen(names[i]);
                if (strncmp(path, names[i], n) == 0 && (path[n] == '\0' || path[n] == '/'))
                        return path + n;
        }
        return path;
}

int files_check_path(const char *path, size_t size, char ret[static HOST_PATH_MAX], gb_error *err)
{
        char text[HOST_PATH_MAX];
        size_t used = 0;

        if (size >= sizeof(text))
                return error_set(err, GB_E_USAGE, ENAMETOOLONG, "the path has %zu bytes, at most %d are taken", size, HOST_PATH_MAX - 1);
        if (size == 0 || memchr(path, '\0', size))
                return error_set(err, GB_E_USAGE, EINVAL, "the path of a file is empty, or has a NUL in it");
        memcpy(text, path, size);
        text[size] = '\0';
        const char *at = files_skip_workspace(text);
        if (at == text && text[0] == '/')
                return error_set(err, GB_E_USAGE, EINVAL, "%s is not in the workspace: give a path relative to it, or below /sandbox",
                                 quote(text).text);
        for (at += strspn(at, "/"); *at; at += strspn(at, "/")) {
                size_t n = strcspn(at, "/");
                if (n == 2 && at[0] == '.' && at[1] == '.')
                        return error_set(err, GB_E_USAGE, EINVAL, "%s has \"..\" in it: give the path without", quote(text).text);
                if (n > 1 || at[0] != '.') {
                        if (used > 0)
                                ret[used++] = '/';
                        memcpy(ret + used, at, n);
                        used += n;
                }
                at += n;
        }
        if (used == 0)
                ret[used++] = '.';
        ret[used] = '\0';
        return 0;
}

/* The next directory on the way, where the kernel has no openat2(): it is open before it is looked at, and nothing is ever followed. */
static int step(int dir_fd, const char *name)
{
        struct stat above, st;

        _cleanup_close_ int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0 || fstat(dir_fd, &above) < 0)
                return -1;
        errno = S_ISLNK(st.st_mode) ? ELOOP : !S_ISDIR(st.st_mode) ? ENOTDIR : st.st_dev != above.st_dev ? EXDEV : 0;
        return errno == 0 ? TAKE_FD(fd) : -1;
}

/* The same as below, part by part. path: as files_check_path() leaves it. */
static int open_by_steps(int root_fd, const char *path, int flags)
{
        _cleanup_close_ int dir_fd = -1;
        struct stat above, st;
        char name[NAME_MAX + 1];

        for (const char *slash; (slash = strchr(path, '/')); path = slash + 1) {
                if ((size_t)(slash - path) >= sizeof(name)) {
                        errno = ENAMETOOLONG;
                        return -1;
                }
                memcpy(name, path, (size_t)(slash - path));
                name[slash - path] = '\0';
                int fd = step(dir_fd < 0 ? root_fd : dir_fd, name);
                if (fd < 0)
                        return -1;
                safe_close(dir_fd);
                dir_fd = fd;
        }
        /* With O_DIRECTORY gVisor follows a link in spite of O_NOFOLLOW: what it is, is looked at here. */
        _cleanup_close_ int fd = openat(dir_fd < 0 ? root_fd : dir_fd, path, (flags & ~O_DIRECTORY) | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno == ELOOP && flags & O_DIRECTORY)
                errno = ENOTDIR;
        if (fd < 0 || fstat(fd, &st) < 0 || fstat(dir_fd < 0 ? root_fd : dir_fd, &above) < 0)
                return -1;
        errno = flags & O_DIRECTORY && !S_ISDIR(st.st_mode) ? ENOTDIR : st.st_dev != above.st_dev ? EXDEV : 0;
        return errno == 0 ? TAKE_FD(fd) : -1;
}

int files_open_beneath(int root_fd, const char *path, int flags)
{
        int more = flags & O_PATH ? 0 : O_NONBLOCK | O_NOCTTY; /* with O_PATH nothing is opened, and they are refused */
        struct open_how how = {
                .flags = (uint64_t)(flags | more | O_NOFOLLOW | O_CLOEXEC),
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
        };
        int fd;

        /* With RESOLVE_BENEATH a rename on the way at the same time gives EAGAIN; so does a lease. */
        for (int i = 0; i < OPEN_ATTEMPTS_MAX; i++) {
                fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
                if (fd < 0 && errno == ENOSYS)
                        fd = open_by_steps(root_fd, path, flags | more);
                if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
                        break;
        }
        return fd;
}

int files_fail(gb_error *err, int errnum, const char *what, const char *path)
{
        static const struct {
                int errnum;
                gb_error_code code;
                const char *hint;
        } rows[] = {
                {ENOENT, GB_E_NOT_FOUND, ""},
                {ENOSPC, GB_E_DISK_FULL, " (the workspace is full)"},
                {EDQUOT, GB_E_DISK_FULL, " (the workspace is full)"},
                {EFBIG, GB_E_LIMIT, ""},
                {EEXIST, GB_E_CONFLICT, ""},
                {ENOTEMPTY, GB_E_CONFLICT, " (there is something in it)"},
                {EAGAIN, GB_E_CONFLICT, " (somebody else is at it: try again)"},
                {ELOOP, GB_E_USAGE, " (symbolic links are not followed)"},
                {ENOTDIR, GB_E_USAGE, " (symbolic links are not followed)"},
                {EXDEV, GB_E_USAGE, " (it is on another file system)"},
                {EACCES, GB_E_USAGE, ""},
                {EPERM, GB_E_USAGE, ""},
                {EROFS, GB_E_USAGE, ""},
                {EISDIR, GB_E_USAGE, ""},
                {EINVAL, GB_E_USAGE, ""},
                {ENAMETOOLONG, GB_E_USAGE, ""},
                {E2BIG, GB_E_USAGE, ""},
                {EMLINK, GB_E_USAGE, ""},
                {ENXIO, GB_E_USAGE, ""},
                {ETXTBSY, GB_E_CONFLICT, " (it is being executed)"},
                {EBUSY, GB_E_CONFLICT, " (it is in use)"},
                {EMFILE, GB_E_UNAVAILABLE, ""},
                {ENFILE, GB_E_UNAVAILABLE, ""},
        };
        const char *hint = "";
        gb_error_code code = GB_E_INTERNAL; /* whatever else went wrong, it was not the caller */

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                if (rows[i].errnum != errnum)
                        continue;
                code = rows[i].code;
                hint = rows[i].hint;
        }
        return error_set(err, code, errnum, "cannot %s %s in the workspace: %s%s", what, quote(path).text, strerror(errnum), hint);
}

void target_done(struct target *t)
{
        t->dir_fd = safe_close(t->dir_fd);
}

int target_open(struct target *t, const struct files *f, const char *path, const char *what, gb_error *err)
{
        int r = files_check_path(path, strlen(path), t->path, err);

        if (r < 0)
                return r;
        if (strcmp(t->path, ".") == 0)
                return error_set(err, GB_E_USAGE, EISDIR, "cannot %s the workspace itself: name a file in it", what);
        char *slash = strrchr(t->path, '/');
        if (slash)
                *slash = '\0';
        t->name = slash ? slash + 1 : t->path;
        t->dir_fd = files_open_beneath(f->root_fd, slash ? t->path : ".", O_RDONLY | O_DIRECTORY);
        return t->dir_fd < 0 ? files_fail(err, errno, what, path) : 0;
}

int files_temporary_name(char ret[static TEMPORARY_NAME_MAX])
{
        uint64_t random;

        if (getrandom(&random, sizeof(random), 0) != sizeof(random))
                return -EIO;
        snprintf(ret, TEMPORARY_NAME_MAX, ".glovebox-%016llx", (unsigned long long)random);
        return 0;
}

int files_source_read(const struct file_source *source, uint64_t at, char *piece, size_t size)
{
        if (source->read)
                return source->read(source->data, piece, size);
        for (size_t n = 0; n < size;) {
                ssize_t r = pread(source->fd, piece + n, size - n, (off_t)(at + n));
                if (r < 0 && errno == EINTR)
                        continue;
                if (r <= 0)
                        return r < 0 ? -errno : -EIO;
                n += (size_t)r;
        }
        return 0;
}

static int copy_source(int fd, const struct file_source *source)
{
        if (source->fd < 0 && !source->read)
                return fd_write_all(fd, source->bytes, (size_t)source->size);
        _cleanup_free_ char *piece = malloc(FILE_PIECE_BYTES);
        if (!piece)
                return -ENOMEM;
        for (uint64_t at = 0; at < source->size;) {
                size_t n = (size_t)MIN((uint64_t)FILE_PIECE_BYTES, source->size - at);
                int r = files_source_read(source, at, piece, n);
                if (r == 0)
                        r = fd_write_all(fd, piece, n);
                if (r < 0)
                        return r;
                at += n;
        }
        return 0;
}

static int make_temporary(int dir_fd, char name[static TEMPORARY_NAME_MAX])
{
        int r = files_temporary_name(name);

        if (r < 0)
                return r;
        int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        return fd < 0 ? -errno : fd;
}

/* Under a name of its own first, which is then changed: whoever looks sees the old file or the new one. */
static int replace(const struct target *t, const struct file_source *source, mode_t mode)
{
        char name[TEMPORARY_NAME_MAX];

        _cleanup_close_ int fd = make_temporary(t->dir_fd, name);
        if (fd < 0)
                return fd;
        int r = copy_source(fd, source);
        if (r == 0 && fchmod(fd, mode & FILE_PERMISSIONS) < 0)
                r = -errno;
        if (r == 0 && renameat(t->dir_fd, name, t->dir_fd, t->name) < 0)
                r = -errno;
        if (r < 0)
                unlinkat(t->dir_fd, name, 0);
        return r;
}

int files_write(const struct files *f, const char *path, const void *bytes, size_t size, mode_t mode, gb_error *err)
{
        struct file_source source = {.bytes = bytes, .fd = -1, .size = size};

        if (size > FILE_BYTES_MAX)
                return error_set(err, GB_E_LIMIT, EFBIG, "the file %s has %zu bytes, at most %llu are taken", quote(path).text, size,
                                 (unsigned long long)FILE_BYTES_MAX);
        return files_put(f, path, &source, mode, false, err);
}

unsigned files_depth(const char *path)
{
        unsigned n = 0;

        for (; *path; path++)
                n += *path == '/';
        return n;
}

int files_put(const struct files *f, const char *path, const struct file_source *source, mode_t mode, bool parents, gb_error *err)
{
        _cleanup_(target_done) struct target t = {.dir_fd = -1};
        _cleanup_(identity_restore) struct identity identity = {0};
        struct made_path made = {0};

        if (f->remote)
                return files_remote_put(f, path, source, mode, parents, err);
        int r = identity_take(&identity, f, err);
        if (r == 0 && parents)
                r = files_make_parents(f, path, &made, err);
        if (r == 0)
                r = target_open(&t, f, path, "write", err);
        if (r == 0) {
                r = replace(&t, source, mode);
                r = r < 0 ? files_fail(err, -r, "write", path) : 0;
        }
        if (r < 0)
                files_unmake_parents(f, &made);
        return r;
}

int files_open(const struct files *f, const char *path, uint64_t *ret_size, gb_error *err)
{
        char checked[HOST_PATH_MAX];
        _cleanup_(identity_restore) struct identity identity = {0};
        struct stat st;

        if (f->remote)
                return files_remote_open(f, path, INT64_MAX, ret_size, err);
        int r = files_check_path(path, strlen(path), checked, err);
        if (r == 0)
                r = identity_take(&identity, f, err);
        if (r < 0)
                return r;
        _cleanup_close_ int fd = files_open_beneath(f->root_fd, checked, O_RDONLY);
        if (fd < 0 || fstat(fd, &st) < 0)
                return files_fail(err, errno, "read", path);
        if (!S_ISREG(st.st_mode))
                return error_set(err, GB_E_USAGE, S_ISDIR(st.st_mode) ? EISDIR : EINVAL, "cannot read %s in the workspace: it is not a regular file",
                                 quote(path).text);
        *ret_size = (uint64_t)st.st_size;
        return TAKE_FD(fd);
}

int files_too_large(gb_error *err, const char *path)
{
        return error_set(err, GB_E_LIMIT, EFBIG, "the file %s has more than %llu bytes", quote(path).text, (unsigned long long)FILE_BYTES_MAX);
}

int files_read(const struct files *f, const char *path, char **ret, size_t *ret_size, gb_error *err)
{
        uint64_t size;

        _cleanup_close_ int fd = f->remote ? files_remote_open(f, path, FILE_BYTES_MAX, &size, err) : files_open(f, path, &size, err);
        if (fd < 0)
                return fd;
        int r = size > FILE_BYTES_MAX ? -EFBIG : fd_read_all(fd, FILE_BYTES_MAX, ret, ret_size);
        if (r == -EFBIG)
                return files_too_large(err, path);
        return r < 0 ? files_fail(err, -r, "read", path) : 0;
}

int files_remove(const struct files *f, const char *path, gb_error *err)
{
        _cleanup_(target_done) struct target t = {.dir_fd = -1};
        _cleanup_(identity_restore) struct identity identity = {0};

        if (f->remote)
                return files_remote_do(f, &(struct files_ask){.verb = FILES_REMOVE, .path = path}, err);
        int r = identity_take(&identity, f, err);
        if (r == 0)
                r = target_open(&t, f, path, "remove", err);
        if (r < 0)
                return r;
        if (unlinkat(t.dir_fd, t.name, 0) == 0)
                return 0;
        if (errno != EISDIR || unlinkat(t.dir_fd, t.name, AT_REMOVEDIR) < 0)
                return files_fail(err, errno, "remove", path);
        return 0;
}
