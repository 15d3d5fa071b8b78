/* SPDX-License-Identifier: Apache-2.0
 *
 * The file system: each request names a path below the root. It is judged part by part, then walked from the root's descriptor by the kernel, which neither follows
 * a link nor leaves the root; links are followed by the kernel in the box, to what the box has. Only
 * open files and content verdicts are kept between requests, so what the host changes is seen at once.
 *
 * Mustn't: open a file before it was judged, or show a byte of a file that is judged by its content before all of it was read. */
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
#include <linux/openat2.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KEY_FILE_BYTES_MAX (1 * MIB) /* a file with a name of keys that is larger is hidden */
/* Of such files that the box has open: their content is in our memory, which no limit of the box counts. */
#define KEY_FILES_OPEN_BYTES_MAX (32 * MIB)
#define JUDGED_MAX 1024
/* How long the kernel may cache attributes and names. Files are judged again at each open, so this reveals nothing
 * hidden. */
#define FRESH_SECONDS 0.05

static const struct hide_tree *tree;

/* ---- what is hidden ---- */

/* A file of which the content was judged, as it was then. */
static struct judged {
        dev_t dev;
        ino_t ino;
        off_t size;
        struct timespec modified, changed;
        bool is_key;
} judged[JUDGED_MAX];
static size_t n_judged;

static bool same_time(const struct timespec *a, const struct timespec *b)
{
        return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static const struct judged *find_judged(const struct stat *st)
{
        for (size_t i = 0; i < MIN(n_judged, (size_t)JUDGED_MAX); i++)
                if (judged[i].ino == st->st_ino && judged[i].dev == st->st_dev && judged[i].size == st->st_size && same_time(&judged[i].modified, &st->st_mtim) &&
                    same_time(&judged[i].changed, &st->st_ctim))
                        return &judged[i];
        return NULL;
}

static bool ends_with(const char *text, const char *end)
{
        size_t n = strlen(text), m = strlen(end);

        return n >= m && strcasecmp(text + n - m, end) == 0;
}

/* Reads a file with a name of keys. -ENOENT: it is hidden. */
static int read_judged(int fd, const char *path, char **ret, size_t *ret_size)
{
        struct stat st;

        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > (off_t)KEY_FILE_BYTES_MAX || fd_read_all(fd, KEY_FILE_BYTES_MAX, ret, ret_size) < 0)
                return -ENOENT;
        bool is_key = hide_is_key(*ret, *ret_size, ends_with(path, ".pem"));
        judged[n_judged++ % JUDGED_MAX] = (struct judged){st.st_dev, st.st_ino, st.st_size, st.st_mtim, st.st_ctim, is_key};
        return is_key ? -ENOENT : 0;
}

static int open_below(const char *path, uint64_t flags)
{
        struct open_how how = {
                .flags = flags | O_CLOEXEC | O_NOFOLLOW, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
        };
        int fd = (int)syscall(SYS_openat2, tree->root, path[1] ? path + 1 : ".", &how, sizeof(how));

        return fd < 0 ? -errno : fd;
}

/* The strictest verdict of all components. */
static enum hide_verdict judge(const char *path)
{
        char parent[NAME_MAX + 1], name[NAME_MAX + 1];
        enum hide_verdict verdict = HIDE_NOTHING;

        snprintf(parent, sizeof(parent), "%s", tree->name);
        while (*path) {
                path += strspn(path, "/");
                size_t size = strcspn(path, "/");
                if (size == 0)
                        break;
                if (size > NAME_MAX)
                        return HIDE_ALWAYS;
                memcpy(name, path, size);
                name[size] = '\0';
                path += size;
                verdict = hide_names_judge(&tree->names, parent, name);
                /* Directories have no content to judge. */
                if (verdict == HIDE_ALWAYS)
                        return HIDE_ALWAYS;
                memcpy(parent, name, size + 1);
        }
        return verdict;
}

/* Whether the content hides the file at path. fd may be O_PATH. */
static bool holds_key(int fd, const char *path)
{
        _cleanup_free_ char *content = NULL;
        struct stat st;
        size_t size;

        if (fstat(fd, &st) < 0)
                return true;
        if (!S_ISREG(st.st_mode))
                return false;
        const struct judged *known = find_judged(&st);
        if (known)
                return known->is_key;
        _cleanup_close_ int file = open_below(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        return file < 0 || read_judged(file, path, &content, &size) < 0;
}

/* Opens what is not hidden, as O_PATH. */
static int find(const char *path)
{
        enum hide_verdict verdict = judge(path);

        if (verdict == HIDE_ALWAYS)
                return -ENOENT;
        int fd = open_below(path, O_PATH);
        if (fd >= 0 && verdict == HIDE_IF_KEY && holds_key(fd, path)) {
                safe_close(fd);
                return -ENOENT;
        }
        return fd;
}

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

/* ---- requests ---- */

/* An open file. A file judged by content is served from the judged copy. */
struct opened {
        int fd; /* -1: content */
        char *content;
        size_t size;
        struct stat status; /* of content */
};

static size_t content_bytes; /* of all of them */

static void opened_free(struct opened *o)
{
        if (!o)
                return;
        safe_close(o->fd);
        content_bytes -= o->content ? o->size : 0;
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
        _cleanup_close_ int fd = find(rest ? rest : "/");
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
        _cleanup_close_ int fd = find(rest);
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
        enum hide_verdict verdict = judge(rest);
        if (verdict == HIDE_ALWAYS)
                return -ENOENT;
        _cleanup_(opened_free_ptr) struct opened *o = calloc(1, sizeof(*o));
        if (!o)
                return -ENOMEM;
        o->fd = open_below(rest, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        if (o->fd < 0)
                return o->fd;
        if (fstat(o->fd, &o->status) < 0 || !S_ISREG(o->status.st_mode))
                return -EACCES; /* the kernel opens everything else by itself */
        if (verdict == HIDE_IF_KEY) {
                r = read_judged(o->fd, rest, &o->content, &o->size);
                content_bytes += o->content ? o->size : 0;
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
        DIR *dir;
        char name[NAME_MAX + 1]; /* the last part of its path */
};

static int hide_opendir(const char *path, struct fuse_file_info *info)
{
        int r;
        const char *rest = below(path, &r);

        if (r < 0 || !rest)
                return r;
        if (judge(rest) == HIDE_ALWAYS)
                return -ENOENT;
        _cleanup_close_ int fd = open_below(rest, O_RDONLY | O_DIRECTORY);
        if (fd < 0)
                return fd;
        _cleanup_free_ struct listed *l = calloc(1, sizeof(*l));
        if (!l)
                return -ENOMEM;
        const char *slash = strrchr(rest, '/');
        snprintf(l->name, sizeof(l->name), "%.*s", NAME_MAX, slash && slash[1] ? slash + 1 : tree->name);
        l->dir = fdopendir(fd);
        if (!l->dir)
                return -ENOMEM;
        (void)TAKE_FD(fd);
        info->fh = (uint64_t)(uintptr_t)TAKE_PTR(l);
        return 0;
}

/* Whether an entry of the directory at path is shown. */
static bool is_shown(const struct listed *l, const char *path, const char *name)
{
        _cleanup_free_ char *whole = NULL;

        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                return true;
        enum hide_verdict verdict = hide_names_judge(&tree->names, l->name, name);
        if (verdict != HIDE_IF_KEY)
                return verdict == HIDE_NOTHING;
        if (asprintf(&whole, "%s/%s", strcmp(path, "/") == 0 ? "" : path, name) < 0) {
                whole = NULL;
                return false;
        }
        _cleanup_close_ int fd = find(whole);
        return fd >= 0;
}

static int hide_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *info, enum fuse_readdir_flags flags)
{
        const struct listed *l = (const struct listed *)(uintptr_t)info->fh;
        int r;
        const char *rest = below(path, &r);

        if (r < 0)
                return r;
        if (!rest) {
                fill(buf, ".", NULL, 0, 0);
                fill(buf, "..", NULL, 0, 0);
                fill(buf, HIDE_ROOT, NULL, 0, 0);
                return 0;
        }
        if (offset != telldir(l->dir))
                seekdir(l->dir, offset);
        errno = 0;
        for (const struct dirent *d; (d = readdir(l->dir));) {
                struct stat st = {.st_ino = d->d_ino, .st_mode = (mode_t)DTTOIF(d->d_type)};
                if (is_shown(l, rest, d->d_name) && fill(buf, d->d_name, &st, telldir(l->dir), 0))
                        return 0; /* full: the next request goes on behind the last that fitted */
                errno = 0;
        }
        return -errno;
}

static int hide_releasedir(const char *path, struct fuse_file_info *info)
{
        struct listed *l = (struct listed *)(uintptr_t)info->fh;

        if (l)
                closedir(l->dir);
        free(l);
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
        pthread_t thread;
        struct fuse_args args = FUSE_ARGS_INIT(1, argv);

        tree = t;
        snprintf(place, sizeof(place), "/dev/fd/%d", device);
        struct fuse *fuse = fuse_new(&args, &operations, sizeof(operations), NULL);
        if (!fuse)
                return -ENOMEM;
        int r = pthread_create(&thread, NULL, wait_for_end, &socket) != 0 || fuse_mount(fuse, place) < 0 ? -EIO : answer_all(fuse_get_session(fuse));
        fuse_destroy(fuse);
        return r;
}
