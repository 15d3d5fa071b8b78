/* SPDX-License-Identifier: Apache-2.0
 *
 * How it is replaced: the new text goes to a file beside it, to the disk, and then takes its name. Before that the old text is copied to a name of its own. Signals wait
 * meanwhile, so that nothing is left half done; after a crash there may be a file too many, but never one too few. */
#include "cli/settings_file.h"

#include "base/fd.h"
#include "base/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int out_of_memory(gb_error *err)
{
        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
}

static int cannot_write(const char *path, int errnum, gb_error *err)
{
        gb_error_code code = errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG ? GB_E_DISK_FULL
                             : errnum == EIO || errnum == ENOMEM                     ? GB_E_INTERNAL
                                                                                     : GB_E_USAGE;

        return error_set(err, code, errnum, "cannot write %s: %s; nothing was changed", quote(path).text, strerror(errnum));
}

void settings_file_done(struct settings_file *f)
{
        free(f->given);
        free(f->path);
        free(f->text);
        *f = (struct settings_file){0};
}

static int find(struct settings_file *f, gb_error *err)
{
        struct stat st;

        if (lstat(f->given, &st) < 0) {
                if (errno != ENOENT)
                        return error_set(err, errno == ENOTDIR ? GB_E_USAGE : GB_E_NOT_FOUND, errno, "cannot read %s: %s", quote(f->given).text, strerror(errno));
                f->path = strdup(f->given);
                return f->path ? 0 : out_of_memory(err);
        }
        f->exists = true;
        f->is_link = S_ISLNK(st.st_mode);
        f->path = f->is_link ? realpath(f->given, NULL) : strdup(f->given);
        if (f->path)
                return 0;
        return errno == ENOMEM ? out_of_memory(err)
                               : error_set(err, GB_E_NOT_FOUND, errno, "%s is a link that leads nowhere: %s", quote(f->given).text, strerror(errno));
}

int settings_file_read(const char *path, struct settings_file *ret, gb_error *err)
{
        *ret = (struct settings_file){.given = strdup(path)};
        if (!ret->given)
                return out_of_memory(err);
        int r = find(ret, err);
        if (r < 0)
                return r;
        if (!ret->exists) {
                ret->text = strdup("");
                return ret->text ? 0 : out_of_memory(err);
        }
        _cleanup_close_ int fd = open(ret->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &ret->st) < 0)
                return error_set(err, GB_E_NOT_FOUND, errno, "cannot read %s: %s", quote(ret->path).text, strerror(errno));
        if (!S_ISREG(ret->st.st_mode))
                return error_set(err, GB_E_USAGE, S_ISDIR(ret->st.st_mode) ? EISDIR : EINVAL, "%s is %s", quote(ret->path).text,
                                 S_ISDIR(ret->st.st_mode) ? "a directory, not a file" : "not a file");
        r = fd_read_all(fd, SETTINGS_BYTES_MAX, &ret->text, &ret->size);
        if (r == -ENOMEM)
                return out_of_memory(err);
        if (r == -EFBIG)
                return error_set(err, GB_E_LIMIT, EFBIG, "%s is bigger than %u MB", quote(ret->path).text, SETTINGS_BYTES_MAX >> 20);
        return r < 0 ? error_set(err, GB_E_NOT_FOUND, -r, "cannot read %s: %s", quote(ret->path).text, strerror(-r)) : 0;
}

/* As the old one was. Who is not its owner cannot give it away: then it is left alone, rather than that the owner loses it. */
static int like_before(int fd, const struct settings_file *f, mode_t mode)
{
        struct stat st;

        if (!f->exists) {
                mode_t mask = umask(0);
                umask(mask);
                return fchmod(fd, mode & ~mask) < 0 ? -errno : 0;
        }
        if (fstat(fd, &st) < 0)
                return -errno;
        if ((st.st_uid != f->st.st_uid || st.st_gid != f->st.st_gid) && fchown(fd, f->st.st_uid, f->st.st_gid) < 0)
                return -errno;
        return fchmod(fd, f->st.st_mode & 07777) < 0 ? -errno : 0;
}

static int fill(int fd, const struct settings_file *f, const char *text, size_t size, mode_t mode)
{
        int r = like_before(fd, f, mode);

        if (r == 0)
                r = fd_write_all(fd, text, size);
        return r < 0 ? r : fsync(fd) < 0 ? -errno : 0;
}

/* FILE.bak-20260102-030405, or with -2, -3 behind it when there is such a file. */
static int keep(const struct settings_file *f, char **ret)
{
        _cleanup_free_ char *name = NULL;
        _cleanup_close_ int fd = -1;
        char when[32];
        time_t now = time(NULL);
        struct tm tm;

        if (!localtime_r(&now, &tm) || strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm) == 0)
                return -EOVERFLOW;
        for (unsigned i = 1; fd < 0 && i <= SETTINGS_BACKUPS_MAX; i++) {
                free(name);
                name = NULL;
                if ((i == 1 ? asprintf(&name, "%s.bak-%s", f->path, when) : asprintf(&name, "%s.bak-%s-%u", f->path, when, i)) < 0) {
                        name = NULL;
                        return -ENOMEM;
                }
                fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
                if (fd < 0 && errno != EEXIST)
                        return -errno;
        }
        if (fd < 0)
                return -EEXIST;
        int r = fill(fd, f, f->text, f->size, 0600);
        if (r < 0) {
                (void)unlink(name);
                return r;
        }
        *ret = TAKE_PTR(name);
        return 0;
}

static bool is_unchanged(const struct settings_file *f)
{
        struct stat st;

        if (lstat(f->path, &st) < 0)
                return !f->exists && errno == ENOENT;
        return f->exists && st.st_dev == f->st.st_dev && st.st_ino == f->st.st_ino && st.st_size == f->st.st_size &&
               st.st_mtim.tv_sec == f->st.st_mtim.tv_sec && st.st_mtim.tv_nsec == f->st.st_mtim.tv_nsec;
}

static int ensure_directory(const char *directory, mode_t mode, bool make, gb_error *err)
{
        struct stat st;

        if (stat(directory, &st) == 0)
                return 0;
        if (errno != ENOENT || !make)
                return error_set(err, GB_E_NOT_FOUND, errno, "cannot write to the directory %s: %s", quote(directory).text, strerror(errno));
        if (mkdir(directory, mode & 0044 ? 0777 : 0700) == 0)
                return 0;
        return error_set(err, errno == ENOENT ? GB_E_NOT_FOUND : GB_E_USAGE, errno, "cannot make the directory %s: %s%s", quote(directory).text, strerror(errno),
                         errno == ENOENT ? " (is that client installed?)" : "");
}

/* temporary is made, and unlinked by the caller when this fails. */
static int put(const struct settings_file *f, char *temporary, const char *text, size_t size, mode_t mode, char **ret_backup, gb_error *err)
{
        _cleanup_close_ int fd = mkostemp(temporary, O_CLOEXEC);
        _cleanup_free_ char *backup = NULL;

        if (fd < 0) {
                int errnum = errno;
                temporary[0] = '\0';
                return cannot_write(f->path, errnum, err);
        }
        int r = fill(fd, f, text, size, mode);
        if (r < 0)
                return cannot_write(f->path, -r, err);
        r = f->exists ? keep(f, &backup) : 0;
        if (r < 0) {
                cannot_write(f->path, -r, err);
                return error_prefix(err, "no copy of the old file could be kept");
        }
        bool unchanged = is_unchanged(f);
        if (unchanged && rename(temporary, f->path) == 0) {
                *ret_backup = TAKE_PTR(backup);
                return 0;
        }
        int errnum = errno;
        if (backup)
                (void)unlink(backup);
        return unchanged ? cannot_write(f->path, errnum, err)
                         : error_set(err, GB_E_CONFLICT, EBUSY, "%s was changed by somebody else meanwhile; try again", quote(f->path).text);
}

/* The name itself, too, is on the disk then. Where that cannot be had it is no failure: the file is there. */
static void sync_directory(const char *directory)
{
        _cleanup_close_ int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd >= 0)
                (void)fsync(fd);
}

int settings_file_replace(const struct settings_file *f, const char *text, size_t size, mode_t mode, bool make_directory, char **ret_backup, gb_error *err)
{
        _cleanup_free_ char *copy = strdup(f->path), *temporary = NULL;
        sigset_t all, before;

        if (!copy || asprintf(&temporary, "%s.new-XXXXXX", f->path) < 0) {
                temporary = NULL;
                return out_of_memory(err);
        }
        const char *directory = dirname(copy);
        int r = ensure_directory(directory, mode, make_directory, err);
        if (r < 0)
                return r;
        sigemptyset(&all);
        sigaddset(&all, SIGINT);
        sigaddset(&all, SIGTERM);
        sigaddset(&all, SIGHUP);
        (void)sigprocmask(SIG_BLOCK, &all, &before);
        r = put(f, temporary, text, size, mode, ret_backup, err);
        if (r < 0 && temporary[0])
                (void)unlink(temporary);
        if (r == 0)
                sync_directory(directory);
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        return r;
}
