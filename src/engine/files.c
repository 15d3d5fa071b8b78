/* SPDX-License-Identifier: Apache-2.0
 *
 * Why the box's rights, and not a chown afterwards. A directory of the host that was given as a workspace may
 * hold things of other owners. If we made a directory as root and then gave it away, the code could rename one of
 * those into its place in between, and own it. With the file system identity of the box's user (which is a
 * thread's own, and which no signal or ptrace permission looks at) there is no such moment: the kernel
 * gives new files to him and refuses what he may not do. It is also the only identity that can make files in the
 * box's own tmpfs, where no other user has a mapping. */
#include "engine/files.h"

#include "base/fd.h"
#include "base/quote.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PERMISSIONS 0777
#define TEMPORARY_NAME_MAX 32
#define OPEN_ATTEMPTS_MAX 16

struct identity {
        uid_t uid;
        gid_t gid;
        int dumpable, death_signal;
        bool changed;
};

/* Changing it makes a process undumpable and forgets its parent-death signal: both are put back. */
static void identity_restore(struct identity *i)
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

static int identity_take(struct identity *i, const struct files *f, gb_error *err)
{
        *i = (struct identity){.uid = (uid_t)setfsuid((uid_t)-1), .gid = (gid_t)setfsgid((gid_t)-1)};
        if (i->uid == f->uid && i->gid == f->gid)
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

/* What is behind the name of the workspace; the path itself when it does not begin with one. */
static const char *skip_workspace(const char *path)
{
        static const char *const names[] = {"/sandbox", "/workspace"};

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
        const char *at = skip_workspace(text);
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

/* The kernel looks at each part on the way: no link, nothing above the root, no other file system. */
static int open_beneath(int root_fd, const char *path, int flags)
{
        struct open_how how = {
                .flags = (uint64_t)(flags | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC),
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
        };
        int fd;

        /* With RESOLVE_BENEATH a rename on the way at the same time gives EAGAIN; so does a lease. */
        for (int i = 0; i < OPEN_ATTEMPTS_MAX; i++) {
                fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
                if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
                        break;
        }
        return fd;
}

static int fail(gb_error *err, int errnum, const char *what, const char *path)
{
        const char *hint = "";
        gb_error_code code = GB_E_USAGE;

        if (errnum == ENOENT)
                code = GB_E_NOT_FOUND;
        else if (errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG)
                code = GB_E_LIMIT;
        if (errnum == ELOOP || errnum == ENOTDIR)
                hint = " (symbolic links are not followed)";
        else if (errnum == EXDEV)
                hint = " (it is on another file system)";
        else if (errnum == ENOSPC || errnum == EDQUOT)
                hint = " (the workspace is full)";
        return error_set(err, code, errnum, "cannot %s %s in the workspace: %s%s", what, quote(path).text, strerror(errnum), hint);
}

/* A path in two: the directory, open, and the name in it. */
struct target {
        char path[HOST_PATH_MAX];
        const char *name;
        int dir_fd;
};

static void target_done(struct target *t)
{
        t->dir_fd = safe_close(t->dir_fd);
}

static int target_open(struct target *t, const struct files *f, const char *path, const char *what, gb_error *err)
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
        t->dir_fd = open_beneath(f->root_fd, slash ? t->path : ".", O_RDONLY | O_DIRECTORY);
        return t->dir_fd < 0 ? fail(err, errno, what, path) : 0;
}

static int make_temporary(int dir_fd, char name[static TEMPORARY_NAME_MAX])
{
        uint64_t random;

        if (getrandom(&random, sizeof(random), 0) != sizeof(random))
                return -EIO;
        snprintf(name, TEMPORARY_NAME_MAX, ".glovebox-%016llx", (unsigned long long)random);
        int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        return fd < 0 ? -errno : fd;
}

/* Under a name of its own first, which is then changed: whoever looks sees the old file or the new one. */
static int replace(const struct target *t, const void *bytes, size_t size, mode_t mode)
{
        char name[TEMPORARY_NAME_MAX];

        _cleanup_close_ int fd = make_temporary(t->dir_fd, name);
        if (fd < 0)
                return fd;
        int r = fd_write_all(fd, bytes, size);
        if (r == 0 && fchmod(fd, mode & PERMISSIONS) < 0)
                r = -errno;
        if (r == 0 && renameat(t->dir_fd, name, t->dir_fd, t->name) < 0)
                r = -errno;
        if (r < 0)
                unlinkat(t->dir_fd, name, 0);
        return r;
}

int files_write(const struct files *f, const char *path, const void *bytes, size_t size, mode_t mode, gb_error *err)
{
        _cleanup_(target_done) struct target t = {.dir_fd = -1};
        _cleanup_(identity_restore) struct identity identity = {0};

        if (size > FILE_BYTES_MAX)
                return error_set(err, GB_E_LIMIT, EFBIG, "the file %s has %zu bytes, at most %llu are taken", quote(path).text, size,
                                 (unsigned long long)FILE_BYTES_MAX);
        int r = identity_take(&identity, f, err);
        if (r == 0)
                r = target_open(&t, f, path, "write", err);
        if (r < 0)
                return r;
        r = replace(&t, bytes, size, mode);
        return r < 0 ? fail(err, -r, "write", path) : 0;
}

int files_read(const struct files *f, const char *path, char **ret, size_t *ret_size, gb_error *err)
{
        char checked[HOST_PATH_MAX];
        _cleanup_(identity_restore) struct identity identity = {0};
        struct stat st;

        int r = files_check_path(path, strlen(path), checked, err);
        if (r == 0)
                r = identity_take(&identity, f, err);
        if (r < 0)
                return r;
        _cleanup_close_ int fd = open_beneath(f->root_fd, checked, O_RDONLY);
        if (fd < 0 || fstat(fd, &st) < 0)
                return fail(err, errno, "read", path);
        if (!S_ISREG(st.st_mode))
                return error_set(err, GB_E_USAGE, S_ISDIR(st.st_mode) ? EISDIR : EINVAL, "cannot read %s in the workspace: it is not a regular file",
                                 quote(path).text);
        r = st.st_size > (off_t)FILE_BYTES_MAX ? -EFBIG : fd_read_all(fd, FILE_BYTES_MAX, ret, ret_size);
        if (r == -EFBIG)
                return error_set(err, GB_E_LIMIT, EFBIG, "the file %s has more than %llu bytes", quote(path).text, (unsigned long long)FILE_BYTES_MAX);
        return r < 0 ? fail(err, -r, "read", path) : 0;
}

void file_list_free(struct file_list *l)
{
        if (!l)
                return;
        for (size_t i = 0; i < l->n; i++)
                free(l->entries[i].name);
        free(l->entries);
        free(l);
}

/* -ENOMEM, 0, or 1 when the list is full. */
static int add_entry(struct file_list *l, int dir_fd, const char *name)
{
        struct stat st;

        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                return 0;
        if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
                return 0; /* gone again */
        if (l->n == FILE_LIST_MAX)
                return 1;
        if ((l->n & (l->n + 1)) == 0) {
                struct file_entry *grown = realloc(l->entries, (l->n + 1) * 2 * sizeof(*grown));
                if (!grown)
                        return -ENOMEM;
                l->entries = grown;
        }
        char *copy = strdup(name);
        if (!copy)
                return -ENOMEM;
        l->entries[l->n++] = (struct file_entry){
                .name = copy, .mode = st.st_mode, .size = (uint64_t)st.st_size,
                .modified_usec = (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000,
        };
        return 0;
}

static int by_name(const void *a, const void *b)
{
        return strcmp(((const struct file_entry *)a)->name, ((const struct file_entry *)b)->name);
}

static void closedir_ptr(DIR **d)
{
        if (*d)
                closedir(*d);
}

int files_list(const struct files *f, const char *path, struct file_list **ret, gb_error *err)
{
        char checked[HOST_PATH_MAX];
        _cleanup_(identity_restore) struct identity identity = {0};
        _cleanup_file_list_ struct file_list *l = calloc(1, sizeof(*l));
        _cleanup_(closedir_ptr) DIR *dir = NULL;
        struct dirent *entry;

        int r = l ? files_check_path(path, strlen(path), checked, err) : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (r == 0)
                r = identity_take(&identity, f, err);
        if (r < 0)
                return r;
        _cleanup_close_ int fd = open_beneath(f->root_fd, checked, O_RDONLY | O_DIRECTORY);
        if (fd >= 0)
                dir = fdopendir(fd);
        if (!dir)
                return fail(err, errno, "list", path);
        TAKE_FD(fd);
        while (r == 0 && (entry = readdir(dir)))
                r = add_entry(l, dirfd(dir), entry->d_name);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot list %s: out of memory", quote(path).text);
        l->truncated = r > 0;
        if (l->n > 0)
                qsort(l->entries, l->n, sizeof(l->entries[0]), by_name);
        *ret = TAKE_PTR(l);
        return 0;
}

int files_remove(const struct files *f, const char *path, gb_error *err)
{
        _cleanup_(target_done) struct target t = {.dir_fd = -1};
        _cleanup_(identity_restore) struct identity identity = {0};

        int r = identity_take(&identity, f, err);
        if (r == 0)
                r = target_open(&t, f, path, "remove", err);
        if (r < 0)
                return r;
        if (unlinkat(t.dir_fd, t.name, 0) == 0)
                return 0;
        if (errno != EISDIR || unlinkat(t.dir_fd, t.name, AT_REMOVEDIR) < 0)
                return fail(err, errno, "remove", path);
        return 0;
}

int files_make_directory(const struct files *f, const char *path, mode_t mode, gb_error *err)
{
        _cleanup_(target_done) struct target t = {.dir_fd = -1};
        _cleanup_(identity_restore) struct identity identity = {0};

        int r = identity_take(&identity, f, err);
        if (r == 0)
                r = target_open(&t, f, path, "make", err);
        if (r < 0)
                return r;
        if (mkdirat(t.dir_fd, t.name, 0700) < 0)
                return fail(err, errno, "make", path);
        /* Not by its name: that may be a link by now. */
        _cleanup_close_ int fd = open_beneath(t.dir_fd, t.name, O_RDONLY | O_DIRECTORY);
        if (fd < 0 || fchmod(fd, mode & PERMISSIONS) < 0)
                return fail(err, errno, "make", path);
        return 0;
}
