/* SPDX-License-Identifier: Apache-2.0
 *
 * The file system: each request names a path below the root (tree.h). Links are followed by the kernel in the box, to
 * what the box has. Only open files and content verdicts are kept between requests, so what the host changes is seen at
 * once.
 *
 * Whoever waits for an answer cannot be killed, and the box has no limit for our memory: a request takes HIDE_REQUEST_USEC and a little, and what may be open is
 * bounded. */
#include "hide/serve.h"

#include "base/fd.h"
#include "base/limits.h"
#include "hide/wire.h"

#define FUSE_USE_VERSION 35

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <fuse_lowlevel.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of files that were judged by their content and are open: it is in our memory. */
#define KEY_FILES_OPEN_BYTES_MAX (32 * MIB)
#define KEY_FILE_OVERHEAD_BYTES 64 /* what the allocator and libfuse need for one, about */
#define HIDE_DIRECTORIES_MAX 1024  /* open at a time; libfuse has a buffer for each */
#define HIDE_REQUEST_USEC 50000ULL /* then a list of a directory is handed over as far as it goes */
/* How long the kernel may cache attributes and names. Files are judged again at each open, so this reveals nothing
 * hidden. */
#define FRESH_SECONDS 0.05

#define WAITER_STACK_BYTES (256 * KIB)

static const struct hide_tree *tree;

/* Path below the tree's root. NULL: the root above it. *ret is -ENOENT if there is no such entry. */
static const char *below(const char *path, int *ret)
{
        *ret = 0;
        if (!tree->is_below)
                return path;
        if (strcmp(path, "/") == 0)
                return NULL;
        size_t n = sizeof("/" HIDE_ROOT) - 1;
        if (strncmp(path, "/" HIDE_ROOT, n) != 0 || (path[n] != '/' && path[n] != '\0'))
                *ret = -ENOENT;
        return path[n] ? path + n : "/";
}

/* An open file. A file judged by content is served from the judged copy. */
struct opened {
        int fd; /* -1: content */
        char *content;
        size_t size;
        struct stat status; /* of content */
};

static size_t content_bytes; /* of all of them */

static size_t bytes_of(const struct opened *o)
{
        return o->content ? o->size + 1 + sizeof(*o) + KEY_FILE_OVERHEAD_BYTES : 0;
}

static void opened_free(struct opened *o)
{
        if (!o)
                return;
        safe_close(o->fd);
        content_bytes -= bytes_of(o);
        free(o->content);
        free(o);
}
DEFINE_CLEANUP(struct opened, opened_free)

/* What is shown of its owner. */
static void show_as(struct stat *st)
{
        const struct fuse_context *c = fuse_get_context();

        if (st->st_uid == tree->owner)
                st->st_uid = c->uid;
        if (st->st_gid == tree->group)
                st->st_gid = c->gid;
        /* gVisor checks permissions itself, as another user than the code. Give everybody the owner's read and
         * execute rights. */
        st->st_mode |= (st->st_mode & 0500) >> 3 | (st->st_mode & 0500) >> 6;
}

static int getattr_opened(const struct opened *o, struct stat *st)
{
        if (o->fd < 0)
                *st = o->status;
        else if (fstat(o->fd, st) < 0)
                return -errno;
        show_as(st);
        return 0;
}

static int hide_getattr(const char *path, struct stat *st, struct fuse_file_info *info)
{
        int r;
        const char *rest = below(path, &r);

        if (info && info->fh) /* whatever its name leads to by now */
                return getattr_opened((const struct opened *)(uintptr_t)info->fh, st);
        if (r < 0)
                return r;
        _cleanup_close_ int fd = tree_find(tree, rest ? rest : "/");
        if (fd < 0)
                return fd;
        if (fstat(fd, st) < 0)
                return -errno;
        show_as(st);
        if (!rest) {
                st->st_ino = 1;
                st->st_mode = S_IFDIR | 0555;
        }
        return 0;
}

static int hide_readlink(const char *path, char *buf, size_t size)
{
        int r;
        const char *rest = below(path, &r);

        if (r < 0 || !rest)
                return r < 0 ? r : -EINVAL;
        _cleanup_close_ int fd = tree_find(tree, rest);
        if (fd < 0)
                return fd;
        ssize_t n = readlinkat(fd, "", buf, size - 1);
        if (n < 0)
                return -errno;
        buf[n] = '\0';
        return 0;
}

static int hide_open_file(const char *path, struct fuse_file_info *info)
{
        int r;
        const char *rest = below(path, &r);

        if (r < 0 || !rest)
                return r < 0 ? r : -EISDIR;
        if ((info->flags & O_ACCMODE) != O_RDONLY)
                return -EROFS;
        enum hide_verdict verdict = tree_judge(tree, rest, NULL);
        if (verdict == HIDE_ALWAYS)
                return -ENOENT;
        _cleanup_(opened_free_ptr) struct opened *o = calloc(1, sizeof(*o));
        if (!o)
                return -ENOMEM;
        o->fd = tree_open(tree, rest, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        if (o->fd < 0)
                return o->fd;
        if (fstat(o->fd, &o->status) < 0 || !S_ISREG(o->status.st_mode))
                return -EACCES; /* the kernel opens everything else by itself */
        if (verdict == HIDE_IF_KEY) {
                r = tree_read(o->fd, rest, &o->content, &o->size);
                content_bytes += bytes_of(o);
                if (r < 0)
                        return r;
                if (content_bytes > KEY_FILES_OPEN_BYTES_MAX)
                        return -ENFILE;
                o->fd = safe_close(o->fd);
        }
        info->fh = (uint64_t)(uintptr_t)TAKE_PTR(o);
        return 0;
}

static int hide_read(const char *path, char *buf, size_t size, off_t offset, struct fuse_file_info *info)
{
        const struct opened *o = (const struct opened *)(uintptr_t)info->fh;

        if (o->content) {
                size_t left = offset < (off_t)o->size ? o->size - (size_t)offset : 0;
                size = MIN(size, left);
                memcpy(buf, o->content + o->size - left, size);
                return (int)size;
        }
        ssize_t n = pread(o->fd, buf, size, offset);
        return n < 0 ? -errno : (int)n;
}

static int hide_release(const char *path, struct fuse_file_info *info)
{
        opened_free((struct opened *)(uintptr_t)info->fh);
        return 0;
}

/* An open directory. */
struct listed {
        int fd;
        off_t position;        /* of fd */
        struct hide_walk walk; /* to it */
};

static size_t n_listed;

/* Entries that were read and not handed over yet. One buffer serves all directories: a request that does not continue where
 * it stands reads again. */
static struct {
        const struct listed *of; /* NULL: of none */
        off_t offset;            /* of the entry at used */
        size_t used, size;
        union {
                struct dirent64 aligned;
                char bytes[32 * KIB];
        };
} ahead;

static int hide_opendir(const char *path, struct fuse_file_info *info)
{
        int r;
        const char *rest = below(path, &r);

        if (r < 0 || !rest)
                return r;
        if (n_listed >= HIDE_DIRECTORIES_MAX)
                return -ENFILE;
        _cleanup_free_ struct listed *l = calloc(1, sizeof(*l));
        if (!l)
                return -ENOMEM;
        if (tree_judge(tree, rest, &l->walk) == HIDE_ALWAYS)
                return -ENOENT;
        l->fd = tree_open(tree, rest, O_RDONLY | O_DIRECTORY);
        if (l->fd < 0)
                return l->fd;
        n_listed++;
        info->fh = (uint64_t)(uintptr_t)TAKE_PTR(l);
        return 0;
}

/* The entry at this offset. NULL with *ret: 0 at the end, or a negative errno. */
static const struct dirent64 *entry_at(struct listed *l, off_t offset, int *ret)
{
        if (ahead.of != l || ahead.offset != offset || offset == 0 || ahead.used >= ahead.size) {
                ahead.of = NULL;
                if (l->position != offset || offset == 0)
                        l->position = lseek(l->fd, offset, SEEK_SET);
                long n = l->position < 0 ? -1 : syscall(SYS_getdents64, l->fd, ahead.bytes, sizeof(ahead.bytes));
                *ret = n < 0 ? -errno : 0;
                if (n <= 0)
                        return NULL;
                ahead.of = l;
                ahead.offset = offset;
                ahead.used = 0;
                ahead.size = (size_t)n;
        }
        const struct dirent64 *d = (const struct dirent64 *)(const void *)(ahead.bytes + ahead.used);
        /* Where the descriptor is: behind the last entry that was read. */
        if (ahead.used + d->d_reclen >= ahead.size)
                l->position = d->d_off;
        return d;
}

static void take_entry(const struct dirent64 *d)
{
        ahead.used += d->d_reclen;
        ahead.offset = d->d_off;
}

/* Whether an entry of the directory at path is shown. */
static bool is_shown(const struct listed *l, const char *path, const char *name)
{
        _cleanup_free_ char *whole = NULL;

        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                return true;
        enum hide_verdict verdict = hide_walk_judge(&tree->names, &l->walk, name);
        if (verdict == HIDE_IF_KEY && asprintf(&whole, "%s/%s", strcmp(path, "/") == 0 ? "" : path, name) < 0) {
                whole = NULL;
                return false;
        }
        return tree_shows(tree, whole, verdict);
}

static int list(struct listed *l, const char *path, void *buf, fuse_fill_dir_t fill, off_t offset)
{
        uint64_t until_usec = monotonic_usec() + HIDE_REQUEST_USEC;
        bool is_empty = true;
        int r = 0;

        for (const struct dirent64 *d; (d = entry_at(l, offset, &r));) {
                struct stat st = {.st_ino = d->d_ino, .st_mode = (mode_t)DTTOIF(d->d_type)};
                if (is_shown(l, path, d->d_name)) {
                        if (fill(buf, d->d_name, &st, d->d_off, 0))
                                return 0; /* full: the next request begins after the last entry that fitted */
                        is_empty = false;
                }
                offset = d->d_off;
                take_entry(d);
                if (monotonic_usec() < until_usec)
                        continue;
                /* An answer without an entry would be the end. Once more "." is what programs pass over. */
                if (is_empty)
                        fill(buf, ".", NULL, offset, 0);
                return 0;
        }
        return r;
}

static int hide_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *info, enum fuse_readdir_flags flags)
{
        int r;
        const char *rest = below(path, &r);

        if (r < 0)
                return r;
        if (rest)
                return list((struct listed *)(uintptr_t)info->fh, rest, buf, fill, offset);
        fill(buf, ".", NULL, 0, 0);
        fill(buf, "..", NULL, 0, 0);
        fill(buf, HIDE_ROOT, NULL, 0, 0);
        return 0;
}

static int hide_releasedir(const char *path, struct fuse_file_info *info)
{
        struct listed *l = (struct listed *)(uintptr_t)info->fh;

        if (!l)
                return 0;
        if (ahead.of == l)
                ahead.of = NULL;
        safe_close(l->fd);
        free(l);
        n_listed--;
        return 0;
}

static int hide_statfs(const char *path, struct statvfs *st)
{
        return fstatvfs(tree->root, st) < 0 ? -errno : 0;
}

static void *hide_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
        config->use_ino = 1;
        config->auto_cache = 1; /* pages of a file live as long as its time and size are the same */
        config->entry_timeout = config->attr_timeout = FRESH_SECONDS;
        config->negative_timeout = 0;
        return NULL;
}

static const struct fuse_operations operations = {
        .init = hide_init, .getattr = hide_getattr, .readlink = hide_readlink, .open = hide_open_file, .read = hide_read, .release = hide_release,
        .opendir = hide_opendir, .readdir = hide_readdir, .releasedir = hide_releasedir, .statfs = hide_statfs,
};

/* ---- the loop ---- */

/* The front has nothing more to say: what comes is its end. A thread of its own waits for that, so that a request costs no poll(). */
static void *wait_for_end(void *data)
{
        struct pollfd wait = {.fd = *(const int *)data, .events = POLLIN};

        while (poll(&wait, 1, -1) < 0 && errno == EINTR)
                ;
        _exit(0);
}

static int start_waiting(int *socket)
{
        pthread_attr_t attributes;
        pthread_t thread;

        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, WAITER_STACK_BYTES);
        int r = pthread_create(&thread, &attributes, wait_for_end, socket);
        pthread_attr_destroy(&attributes);
        return -r;
}

static int answer_all(struct fuse_session *session)
{
        struct fuse_buf buf = {.mem = NULL};
        int r = 0;

        while (!fuse_session_exited(session)) {
                r = fuse_session_receive_buf(session, &buf);
                if (r == -EINTR || r == -EAGAIN)
                        continue;
                if (r <= 0)
                        break;
                fuse_session_process_buf(session, &buf);
        }
        free(buf.mem);
        return r;
}

int hide_serve(const struct hide_tree *t, int device, int socket)
{
        char program[] = "glovebox-hide", *argv[] = {program, NULL}, place[32];
        struct fuse_args args = FUSE_ARGS_INIT(1, argv);

        tree = t;
        snprintf(place, sizeof(place), "/dev/fd/%d", device);
        struct fuse *fuse = fuse_new(&args, &operations, sizeof(operations), NULL);
        if (!fuse)
                return -ENOMEM;
        int r = start_waiting(&socket) < 0 || fuse_mount(fuse, place) < 0 ? -EIO : answer_all(fuse_get_session(fuse));
        fuse_destroy(fuse);
        return r;
}
