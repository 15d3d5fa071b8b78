/* SPDX-License-Identifier: Apache-2.0
 *
 * One layer after the other. A set holds the paths of the layer at hand: one that comes twice, or below something that is no directory, is refused;
 * what an earlier layer has brought is replaced. So no entry can prepare a trap for a later one:
 *
 *   - a parent is opened by openat2() below the root, and a symbolic link on the way ends it;
 *   - a file, link or directory is made where nothing is: what was there is removed first, never opened;
 *   - a hard link is to a regular file that stands below the root at that moment, by a path opened in the same way. */
#include "image/unpack.h"

#include "base/fd.h"
#include "base/path_set.h"
#include "base/quote.h"
#include "image/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIECE_BYTES (256 * KIB)
#define HOLE_BYTES (4 * KIB) /* zeros of this size and place become a hole */
#define WHITEOUT ".wh."
#define WHITEOUT_ALL ".wh..wh..opq"
#define TIMES_BYTES_MAX (64 * MIB)
#define MTIME_MAX_SEC 0x3fffffffffLL

static int refuse(const char *path, const char *why, gb_error *err)
{
        return error_set(err, GB_E_USAGE, EINVAL, "the entry %s is refused: %s", quote(path).text, why);
}

static int too_many(const char *path, gb_error *err)
{
        return error_set(err, GB_E_LIMIT, EFBIG, "the entry %s is refused: with it the image has more than %d entries, or its files more than %llu GiB", quote(path).text,
                         IMAGE_ENTRIES_MAX, IMAGE_BYTES_MAX / GIB);
}

static int failed(const char *path, int r, gb_error *err)
{
        if (r == -ELOOP || r == -ENOTDIR || r == -EXDEV)
                return refuse(path, "a directory on the way to it is a link or a file", err);
        if (r == -ENOSPC || r == -EDQUOT)
                return error_set(err, GB_E_DISK_FULL, -r, "there is no room for %s: %s", quote(path).text, strerror(-r));
        if (r == -EFBIG)
                return too_many(path, err);
        return error_set(err, GB_E_INTERNAL, -r, "cannot write %s: %s", quote(path).text, strerror(-r));
}

/* ---- paths ---- */

int image_clean_path(const char *path, const char *of, char ret[static HOST_PATH_MAX], gb_error *err)
{
        size_t used = 0, depth = 0;

        if (path[0] == '/')
                return refuse(of, "its path is absolute", err);
        if (strlen(path) >= HOST_PATH_MAX - 1)
                return refuse(of, "its path is too long", err);
        while (*path) {
                size_t n = strcspn(path, "/");
                if (n == 2 && strncmp(path, "..", 2) == 0)
                        return refuse(of, "its path has .. in it", err);
                if (n > NAME_MAX)
                        return refuse(of, "a name in its path is too long", err);
                if (n > 0 && !(n == 1 && path[0] == '.')) {
                        if (++depth > IMAGE_DEPTH_MAX)
                                return refuse(of, "it is nested too deep", err);
                        if (used > 0)
                                ret[used++] = '/';
                        memcpy(ret + used, path, n);
                        used += n;
                }
                path += n + (path[n] == '/');
        }
        ret[used] = '\0';
        return 0;
}

/* Below the root, and no link on the way. */
static int open_dir(int root, const char *path)
{
        struct open_how how = {
                .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
        };
        int fd = (int)syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof(how));

        return fd < 0 ? -errno : fd;
}

/* The same; directories that the archive does not name are made on the way, and count as those that it does. */
static int make_dirs(int root, char *path, uint64_t *entries)
{
        int fd = open_dir(root, path);

        if (fd != -ENOENT)
                return fd;
        for (char *slash = path; slash;) {
                slash = strchr(slash, '/');
                if (slash)
                        *slash = '\0';
                char *last = strrchr(path, '/');
                if (last)
                        *last = '\0';
                _cleanup_close_ int parent = open_dir(root, last ? path : "");
                if (last)
                        *last = '/';
                int r = parent < 0 ? parent : mkdirat(parent, last ? last + 1 : path, 0755) == 0 ? 1 : errno != EEXIST ? -errno : 0;
                if (r > 0 && ++*entries > IMAGE_ENTRIES_MAX)
                        r = -EFBIG;
                if (slash)
                        *slash++ = '/';
                if (r < 0)
                        return r;
        }
        return open_dir(root, path);
}

struct place {
        int parent;
        const char *leaf; /* in path */
        char path[HOST_PATH_MAX], dir[HOST_PATH_MAX];
};

static void place_done(struct place *p)
{
        p->parent = safe_close(p->parent);
}

/* Where a path that was cleaned leads; it is not empty. made: directories on the way are made and counted there; NULL: they must be there. */
static int find_place(int root, uint64_t *made, struct place *p)
{
        const char *slash = strrchr(p->path, '/');

        p->leaf = slash ? slash + 1 : p->path;
        snprintf(p->dir, sizeof(p->dir), "%.*s", slash ? (int)(slash - p->path) : 0, p->path);
        int fd = made ? make_dirs(root, p->dir, made) : open_dir(root, p->dir);
        if (fd < 0)
                return fd;
        p->parent = fd;
        return 0;
}

/* ---- files ---- */

static bool is_zero(const char *bytes, size_t size)
{
        return bytes[0] == '\0' && memcmp(bytes, bytes + 1, size - 1) == 0;
}

/* Pages of zeros are left out: the file has holes where the archive's may have had some. */
static int write_piece(int fd, const char *bytes, size_t size, uint64_t at)
{
        for (size_t n = 0; n < size;) {
                size_t k = MIN(size - n, (size_t)HOLE_BYTES), run = 0;
                while (run < size - n && !(k = MIN(size - n - run, (size_t)HOLE_BYTES), is_zero(bytes + n + run, k)))
                        run += k;
                for (size_t done = 0; done < run;) {
                        ssize_t w = pwrite(fd, bytes + n + done, run - done, (off_t)(at + n + done));
                        if (w < 0 && errno != EINTR)
                                return -errno;
                        done += w > 0 ? (size_t)w : 0;
                }
                n += run > 0 ? run : k;
        }
        return 0;
}

static void tell(struct image_unpack *u, uint64_t more)
{
        u->bytes += more;
        if (u->progress)
                u->progress(u->data, u->bytes);
}

static int write_content(struct image_unpack *u, int fd, const struct image_entry *e, gb_error *err)
{
        _cleanup_free_ char *piece = malloc(PIECE_BYTES);
        int r = piece ? 0 : failed(e->path, -ENOMEM, err);

        for (uint64_t at = 0; r == 0 && at < e->size;) {
                size_t n = (size_t)MIN(e->size - at, (uint64_t)PIECE_BYTES);
                r = image_reader_data(&u->reader, piece, n, err);
                int w = r == 0 ? write_piece(fd, piece, n, at) : 0;
                if (w < 0)
                        r = failed(e->path, w, err);
                at += n;
                tell(u, n);
        }
        if (r == 0 && ftruncate(fd, (off_t)e->size) < 0)
                r = failed(e->path, -errno, err);
        return r;
}

static int set_times(int dir, const char *name, int64_t sec)
{
        int64_t kept = sec < 0 ? 0 : MIN(sec, (int64_t)MTIME_MAX_SEC);
        struct timespec times[2] = {{.tv_sec = kept}, {.tv_sec = kept}};

        return utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int set_owner(const struct image_unpack *u, const struct image_entry *e, const struct place *p)
{
        return u->owners && fchownat(p->parent, p->leaf, e->uid, e->gid, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int make_file(struct image_unpack *u, const struct image_entry *e, const struct place *p, gb_error *err)
{
        _cleanup_close_ int fd = openat(p->parent, p->leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

        if (fd < 0)
                return failed(e->path, -errno, err);
        int r = write_content(u, fd, e, err);
        if (r < 0)
                return r;
        r = set_owner(u, e, p);
        if (e->mode & (S_ISUID | S_ISGID))
                u->set_id++;
        /* Who is not root must be able to read what is his: to export it, and in a box. */
        if (r == 0 && fchmod(fd, (e->mode & 0777) | (u->owners ? 0 : 0400)) < 0)
                r = -errno;
        if (r == 0)
                r = set_times(p->parent, p->leaf, e->mtime_sec);
        return r < 0 ? failed(e->path, r, err) : 0;
}

struct dir_time {
        int64_t sec;
        size_t path_size; /* with its NUL; it follows */
};

static void remember_time(struct image_unpack *u, const char *path, int64_t sec)
{
        struct dir_time t = {.sec = sec, .path_size = strlen(path) + 1};

        if (!u->times.max)
                buffer_init(&u->times, TIMES_BYTES_MAX);
        if (u->times.size + sizeof(t) + t.path_size <= u->times.max && buffer_add(&u->times, &t, sizeof(t)) == 0 && buffer_add(&u->times, path, t.path_size) < 0)
                u->times.size -= sizeof(t);
}

static int make_directory(struct image_unpack *u, const struct image_entry *e, const struct place *p, gb_error *err)
{
        struct stat st;
        int r = 0;

        if (fstatat(p->parent, p->leaf, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode) && unlinkat(p->parent, p->leaf, 0) < 0)
                r = -errno;
        if (r == 0 && mkdirat(p->parent, p->leaf, 0700) < 0 && errno != EEXIST)
                r = -errno;
        _cleanup_close_ int fd = r < 0 ? -1 : open_dir(p->parent, p->leaf);
        if (r == 0 && fd < 0)
                r = fd;
        if (r == 0)
                r = set_owner(u, e, p);
        /* Who is not root must get into what is his. */
        if (r == 0 && fchmod(fd, (e->mode & 01777) | (u->owners ? 0 : 0700)) < 0)
                r = -errno;
        remember_time(u, p->path, e->mtime_sec);
        return r < 0 ? failed(e->path, r, err) : 0;
}

static int make_symlink(struct image_unpack *u, const struct image_entry *e, const struct place *p, gb_error *err)
{
        if (!e->link[0])
                return refuse(e->path, "a symbolic link to nothing", err);
        int r = symlinkat(e->link, p->parent, p->leaf) < 0 ? -errno : set_owner(u, e, p);
        if (r == 0)
                r = set_times(p->parent, p->leaf, e->mtime_sec);
        return r < 0 ? failed(e->path, r, err) : 0;
}

static int make_hardlink(struct image_unpack *u, const struct image_entry *e, const struct place *p, gb_error *err)
{
        _cleanup_free_ struct place *target = calloc(1, sizeof(*target));
        struct stat st;

        if (!target)
                return failed(e->path, -ENOMEM, err);
        target->parent = -1;
        int r = image_clean_path(e->link, e->path, target->path, err);
        if (r < 0)
                return error_prefix(err, "a hard link");
        r = target->path[0] ? find_place(u->root, NULL, target) : -ENOENT;
        if (r == 0 && fstatat(target->parent, target->leaf, &st, AT_SYMLINK_NOFOLLOW) < 0)
                r = -errno;
        if (r < 0 || !S_ISREG(st.st_mode))
                r = refuse(e->path, "a hard link to something that is no file of the image", err);
        else if (linkat(target->parent, target->leaf, p->parent, p->leaf, 0) < 0)
                r = failed(e->path, -errno, err);
        place_done(target);
        return r;
}

/* ---- what earlier layers have brought ---- */

/* Everything below the directory that is not of this layer. */
static int remove_earlier(struct image_unpack *u, int dir, const char *path, unsigned depth)
{
        int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
        DIR *d = copy < 0 ? NULL : fdopendir(copy);
        _cleanup_free_ char *below = malloc(HOST_PATH_MAX);

        if (!d || !below || depth > IMAGE_DEPTH_MAX + 1) {
                if (d)
                        closedir(d);
                else
                        safe_close(copy);
                return d && depth > IMAGE_DEPTH_MAX ? -ELOOP : -ENOMEM;
        }
        for (struct dirent *e; r == 0 && (e = readdir(d));) {
                if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                        continue;
                if (snprintf(below, HOST_PATH_MAX, "%s%s%s", path, *path ? "/" : "", e->d_name) >= HOST_PATH_MAX || !path_set_has(u->set, below)) {
                        r = tree_remove(dirfd(d), e->d_name);
                        continue;
                }
                _cleanup_close_ int fd = open_dir(dirfd(d), e->d_name);
                if (fd >= 0)
                        r = remove_earlier(u, fd, below, depth + 1);
        }
        closedir(d);
        return r;
}

/* 1: it was one, and is done. */
static int take_whiteout(struct image_unpack *u, const struct image_entry *e, struct place *p, gb_error *err)
{
        const char *slash = strrchr(p->path, '/'), *leaf = slash ? slash + 1 : p->path;
        char hidden[NAME_MAX + 1], path[HOST_PATH_MAX];
        int r;

        if (!u->whiteouts || strncmp(leaf, WHITEOUT, strlen(WHITEOUT)) != 0)
                return 0;
        if (e->size > 0 || e->kind == IMAGE_DIRECTORY)
                return refuse(e->path, "it is named as a mark of what is removed, and is none", err);
        bool all = strcmp(leaf, WHITEOUT_ALL) == 0;
        snprintf(hidden, sizeof(hidden), "%s", leaf + strlen(WHITEOUT));
        if (!all && (!hidden[0] || strcmp(hidden, ".") == 0 || strcmp(hidden, "..") == 0 || strncmp(hidden, WHITEOUT, strlen(WHITEOUT)) == 0))
                return refuse(e->path, "it is named as a mark of what is removed, and names nothing", err);
        snprintf(path, sizeof(path), "%.*s%s%s", slash ? (int)(slash - p->path) : 0, p->path, slash ? "/" : "", hidden);
        if (!all && path_set_has(u->set, path))
                return refuse(e->path, "it removes what is of the same layer", err);
        r = find_place(u->root, NULL, p);
        if (r == 0)
                r = all ? remove_earlier(u, p->parent, p->dir, 0) : tree_remove(p->parent, hidden);
        return r < 0 && r != -ENOENT ? failed(e->path, r, err) : 1;
}

/* ---- entries ---- */

static int check_path(struct image_unpack *u, const struct image_entry *e, struct place *p, gb_error *err)
{
        int r = path_set_add(u->set, p->path, e->kind == IMAGE_DIRECTORY);

        if (r == -EEXIST)
                return refuse(e->path, "it is there twice, or below something that is no directory", err);
        if (r == -E2BIG)
                return error_set(err, GB_E_LIMIT, EFBIG, "the entry %s is refused: there are too many", quote(e->path).text);
        if (r == 0)
                r = find_place(u->root, &u->entries, p);
        return r < 0 ? failed(e->path, r, err) : 0;
}

static int make_entry(struct image_unpack *u, struct image_entry *e, struct place *p, gb_error *err)
{
        int r = check_path(u, e, p, err);
        if (r < 0)
                return r;
        if (e->kind == IMAGE_DIRECTORY)
                return make_directory(u, e, p, err);
        r = tree_remove(p->parent, p->leaf);
        if (r < 0)
                return failed(e->path, r, err);
        return e->kind == IMAGE_FILE ? make_file(u, e, p, err) : e->kind == IMAGE_SYMLINK ? make_symlink(u, e, p, err) : make_hardlink(u, e, p, err);
}

static int take_entry(struct image_unpack *u, struct image_entry *e, struct place *p, gb_error *err)
{
        if (++u->entries > IMAGE_ENTRIES_MAX || e->size > IMAGE_BYTES_MAX - MIN(u->bytes, (uint64_t)IMAGE_BYTES_MAX))
                return too_many(e->path, err);
        int r = image_clean_path(e->path, e->path, p->path, err);
        if (r < 0)
                return r;
        if (!p->path[0]) /* the root itself: it is ours */
                return e->kind == IMAGE_DIRECTORY ? 0 : refuse(e->path, "it would be the root itself", err);
        if (e->kind == IMAGE_OTHER) {
                u->skipped++;
                return 0;
        }
        r = take_whiteout(u, e, p, err);
        if (r == 0)
                r = make_entry(u, e, p, err);
        return r < 0 ? r : 0;
}

static int take_all(struct image_unpack *u, struct image_entry *e, bool first, gb_error *err)
{
        _cleanup_free_ struct place *p = calloc(1, sizeof(*p));
        int r = p ? 0 : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");

        if (r == 0 && path_set_new(IMAGE_ENTRIES_MAX, &u->set) < 0)
                r = error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        while (r == 0) {
                r = first ? 1 : image_reader_next(&u->reader, e, err);
                if (r <= 0)
                        break;
                first = false;
                p->parent = -1;
                r = take_entry(u, e, p, err);
                place_done(p);
        }
        path_set_free(u->set);
        u->set = NULL;
        return r;
}

void image_unpack_finish(struct image_unpack *u)
{
        struct dir_time t;

        for (size_t at = 0; at + sizeof(t) <= u->times.size; at += sizeof(t) + t.path_size) {
                memcpy(&t, u->times.data + at, sizeof(t));
                _cleanup_close_ int fd = open_dir(u->root, u->times.data + at + sizeof(t));
                if (fd >= 0)
                        (void)set_times(fd, ".", t.sec);
        }
        buffer_done(&u->times);
        u->times = (struct buffer){0};
}

int image_unpack_rest(struct image_unpack *u, struct image_entry *first, gb_error *err)
{
        return take_all(u, first, true, err);
}

int image_unpack_layer(struct image_unpack *u, int in, gb_error *err)
{
        _cleanup_free_ struct image_entry *e = malloc(sizeof(*e));
        uint64_t bytes = MIN(u->bytes, (uint64_t)IMAGE_BYTES_MAX), entries = MIN(u->entries, (uint64_t)IMAGE_ENTRIES_MAX);
        struct image_limits most = {.bytes = IMAGE_BYTES_MAX - bytes, .entries = IMAGE_ENTRIES_MAX - entries};

        if (!e)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        int r = image_reader_start(&u->reader, in, most, u->cancel_fd, err);
        if (r == 0)
                r = take_all(u, e, false, err);
        image_reader_done(&u->reader);
        return r;
}
