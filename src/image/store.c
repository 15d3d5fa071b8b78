/* SPDX-License-Identifier: Apache-2.0 */
#include "image/store.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/quote.h"
#include "base/suggest.h"
#include "image/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAKING ".making"
#define LOCKS ".locks"
#define ABOUT "image.json"
#define ROOT "rootfs"
#define ATTEMPTS_MAX 16 /* a sweeper can take a new directory before it is locked; not that often */

static int no_memory(gb_error *err)
{
        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
}

static bool is_full(int r)
{
        return r == -ENOSPC || r == -EDQUOT;
}

static gb_error_code code_of(int r)
{
        return is_full(r) ? GB_E_DISK_FULL : GB_E_INTERNAL;
}

/* ---- names ---- */

static size_t part_length(const char *text)
{
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789", *text) || !*text)
                return 0;
        return strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789._-");
}

int image_check_name(const char *name, char *ret, gb_error *err)
{
        size_t n = part_length(name), tag = name[n] == ':' ? part_length(name + n + 1) : 0;

        if (n == 0 || (name[n] == ':' ? tag == 0 || name[n + 1 + tag] : name[n] != '\0') || strlen(name) >= IMAGE_STORE_NAME_MAX)
                return error_set(err, GB_E_USAGE, EINVAL,
                                 "%s is no name of an image: lower-case letters, digits, '.', '_' and '-', and perhaps ':' and a tag, at most %d characters",
                                 quote(name).text, IMAGE_STORE_NAME_MAX - 1);
        if (ret)
                snprintf(ret, IMAGE_STORE_NAME_MAX, "%.*s", (int)(strcmp(name + n, ":latest") == 0 ? n : strlen(name)), name);
        return 0;
}

/* The directory of a name that was checked, and back: '+' is in no name. */
static void place_of(const char *name, char ret[static IMAGE_STORE_NAME_MAX])
{
        snprintf(ret, IMAGE_STORE_NAME_MAX, "%s", name);
        if (strchr(ret, ':'))
                *strchr(ret, ':') = '+';
}

static bool name_of(const char *place, char ret[static IMAGE_STORE_NAME_MAX])
{
        char checked[IMAGE_STORE_NAME_MAX];

        if (strlen(place) >= IMAGE_STORE_NAME_MAX)
                return false;
        snprintf(ret, IMAGE_STORE_NAME_MAX, "%s", place);
        if (strchr(ret, '+'))
                *strchr(ret, '+') = ':';
        return image_check_name(ret, checked, NULL) == 0 && strcmp(ret, checked) == 0;
}

/* ---- the store ---- */

int image_store_path(char **ret, gb_error *err)
{
        const char *own = secure_getenv("GLOVEBOX_IMAGES"), *data = secure_getenv("XDG_DATA_HOME"), *home = secure_getenv("HOME");
        int n;

        if (own && own[0] == '/')
                n = asprintf(ret, "%s", own);
        else if (own && own[0])
                return error_set(err, GB_E_USAGE, EINVAL, "GLOVEBOX_IMAGES is %s; it must be an absolute path", quote(own).text);
        else if (geteuid() == 0) /* not below /var/lib/glovebox: that belongs to the server's account */
                n = asprintf(ret, "/var/lib/glovebox-images");
        else if (data && data[0] == '/')
                n = asprintf(ret, "%s/glovebox/images", data);
        else if (home && home[0] == '/')
                n = asprintf(ret, "%s/.local/share/glovebox/images", home);
        else
                return error_set(err, GB_E_USAGE, ENOENT, "there is no place for images: set GLOVEBOX_IMAGES, or HOME");
        return n < 0 ? no_memory(err) : 0;
}

/* With the directories on the way to it. */
static int make_path(const char *path, mode_t mode)
{
        _cleanup_free_ char *copy = strdup(path);

        if (!copy)
                return -ENOMEM;
        for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = '\0';
                if (mkdir(copy, 0755) < 0 && errno != EEXIST)
                        return -errno;
                *slash = '/';
        }
        return mkdir(copy, mode) < 0 && errno != EEXIST ? -errno : 0;
}

/* Whether a directory is a store already, or will be nothing else. */
static bool is_for_images(int fd)
{
        struct stat st;
        bool empty = true;

        if (fstatat(fd, MAKING, &st, AT_SYMLINK_NOFOLLOW) == 0)
                return S_ISDIR(st.st_mode) && st.st_uid == geteuid();
        int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = copy < 0 ? NULL : fdopendir(copy);
        if (!dir) {
                safe_close(copy);
                return false;
        }
        for (struct dirent *e; empty && (e = readdir(dir));)
                empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
        closedir(dir);
        return empty;
}

/* The gate. Files in it have the owners and modes of their archives, so anybody on this host may be one who can write to some of them: nobody else may get that far. A
 * group that was let in (image_store_share()) stays. */
static int close_store(int fd)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return -errno;
        if (st.st_uid != geteuid() || (st.st_mode & 0027) == 0)
                return 0;
        if (!is_for_images(fd)) /* /srv, say: it is not ours to close */
                return -ENOTEMPTY;
        return fchmod(fd, 0700) < 0 ? -errno : 0;
}

static int cannot_open(const char *path, bool make, int r, gb_error *err)
{
        if (r == -ENOTEMPTY)
                return error_set(err, GB_E_USAGE, EPERM, "the images are in %s, which others can get into, and there is something else in it: name a directory "
                                 "of its own in GLOVEBOX_IMAGES", quote(path).text);
        return error_set(err, code_of(r), -r, "the images are in %s, which cannot be %s: %s; GLOVEBOX_IMAGES can name another directory", quote(path).text,
                         make ? "written" : "opened", strerror(-r));
}

/* -ENOENT without an error: there is none, and it was not to be made. */
static int open_store(bool make, int *ret, gb_error *err)
{
        _cleanup_free_ char *path = NULL;

        int r = image_store_path(&path, err);
        if (r < 0)
                return r;
        r = make ? make_path(path, 0700) : 0;
        _cleanup_close_ int fd = r < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 && r == 0)
                r = -errno;
        if (r == -ENOENT && !make)
                return r;
        if (r == 0 && make)
                r = close_store(fd);
        if (r == 0 && make && ((mkdirat(fd, MAKING, 0700) < 0 && errno != EEXIST) || (mkdirat(fd, LOCKS, 0700) < 0 && errno != EEXIST)))
                r = -errno;
        if (r < 0)
                return cannot_open(path, make, r, err);
        *ret = TAKE_FD(fd);
        return 0;
}

int image_store_share(gid_t group, gb_error *err)
{
        _cleanup_free_ char *path = NULL;
        struct stat st;

        int r = image_store_path(&path, err);
        if (r < 0)
                return r;
        _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return cannot_open(path, false, -errno, err);
        if (st.st_uid != geteuid()) /* its owner says who gets in */
                return 0;
        if ((st.st_mode & 0027) != 0 && !is_for_images(fd))
                return cannot_open(path, false, -ENOTEMPTY, err);
        /* Closed before it has another group, which is not to have the rights of the old one. */
        if ((st.st_gid != group && (fchmod(fd, 0700) < 0 || fchown(fd, (uid_t)-1, group) < 0)) || fchmod(fd, 0750) < 0)
                return cannot_open(path, false, -errno, err);
        return 0;
}

int image_store_cache(const char *name, char **ret, gb_error *err)
{
        _cleanup_free_ char *store = NULL, *path = NULL;
        _cleanup_close_ int fd = -1;

        int r = image_store_path(&store, err);
        if (r == 0)
                r = open_store(true, &fd, err);
        if (r < 0)
                return r;
        if (asprintf(&path, "%s/.cache/%s", store, name) < 0)
                return no_memory(err);
        r = make_path(path, 0755);
        if (r < 0)
                return error_set(err, code_of(r), -r, "cannot make %s: %s", quote(path).text, strerror(-r));
        *ret = TAKE_PTR(path);
        return 0;
}

/* ---- what is there ---- */

/* Whether an error says that there is nothing, or nothing that could be an image. Others say nothing about that. */
static bool is_none(int errnum)
{
        return errnum == ENOENT || errnum == ENOTDIR || errnum == ELOOP;
}

/* -ENOENT: there is no image. */
static int read_about(int store, const char *place, json_t **ret)
{
        _cleanup_close_ int dir = openat(store, place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        _cleanup_free_ char *text = NULL;
        size_t size;
        struct stat st;

        if (dir < 0 || fstatat(dir, ROOT, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return is_none(errno) ? -ENOENT : -errno;
        if (!S_ISDIR(st.st_mode))
                return -ENOENT;
        _cleanup_close_ int fd = openat(dir, ABOUT, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
                return -errno;
        json_t *about = fd >= 0 && fd_read_all(fd, IMAGE_ABOUT_BYTES_MAX, &text, &size) == 0 ? json_parse(text, size, JSON_REJECT_DUPLICATES, NULL) : NULL;
        if (!json_is_object(about)) {
                json_decref(about); /* somebody's own directory, or a damaged one: it can be used all the same */
                about = json_object();
        }
        *ret = about;
        return about ? 0 : -ENOMEM;
}

static int cannot_look(int r, const char *name, gb_error *err)
{
        return error_set(err, code_of(r), -r, "the image %s cannot be looked at: %s", name, strerror(-r));
}

/* Whatever else stands under the name of an image is somebody's, and stays. */
static int check_is_image(int store, const char *place, const char *name, gb_error *err)
{
        json_t *about = NULL;
        struct stat st;

        if (fstatat(store, place, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : cannot_look(-errno, name, err);
        int r = read_about(store, place, &about);
        json_decref(about);
        if (r < 0 && r != -ENOENT)
                return cannot_look(r, name, err);
        if (r == 0)
                return 0;
        return error_set(err, GB_E_CONFLICT, EEXIST,
                         "what has the name %s in the directory of images is no image: it stays as it is; take another "
                         "name, or another directory in GLOVEBOX_IMAGES",
                         name);
}

static int compare_names(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_names(char **names, size_t n)
{
        for (size_t i = 0; names && i < n; i++)
                free(names[i]);
        free(names);
}

/* The names in the store, all of them or an error. */
static int read_names(int store, char ***ret, size_t *ret_n)
{
        int fd = openat(store, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        int r = dir ? 0 : -errno;
        char **names = calloc(IMAGES_MAX, sizeof(*names)), name[IMAGE_STORE_NAME_MAX];
        size_t n = 0;

        if (!dir)
                safe_close(fd);
        if (!names)
                r = -ENOMEM;
        for (struct dirent *e; r == 0;) {
                errno = 0;
                if (!(e = readdir(dir))) {
                        r = -errno;
                        break;
                }
                if (!name_of(e->d_name, name))
                        continue;
                if (n == IMAGES_MAX)
                        r = -E2BIG;
                else if (!(names[n] = strdup(name)))
                        r = -ENOMEM;
                else
                        n++;
        }
        if (dir)
                closedir(dir);
        if (r < 0) {
                free_names(names, n);
                return r;
        }
        qsort(names, n, sizeof(*names), compare_names);
        *ret = names;
        *ret_n = n;
        return 0;
}

static int not_found(int store, const char *name, gb_error *err)
{
        _cleanup_free_ char *path = NULL;
        char **names = NULL;
        size_t n = 0;

        if (store >= 0)
                (void)read_names(store, &names, &n);
        const char *near = suggest_nearest(name, (const char *const *)names, n);
        (void)image_store_path(&path, NULL);
        int r = error_set(err, GB_E_NOT_FOUND, ENOENT, "there is no image %s in %s; %s%s%s'glovebox image build %s' or 'glovebox image import FILE %s' makes it",
                          name, path ? quote(path).text : "the store", near ? "did you mean '" : "", near ? near : "", near ? "'? " : "", name, name);
        free_names(names, n);
        return r;
}

int image_store_root(const char *name, char **ret, gb_error *err)
{
        char checked[IMAGE_STORE_NAME_MAX], place[IMAGE_STORE_NAME_MAX], relative[IMAGE_STORE_NAME_MAX + sizeof(ROOT) + 1];
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int store = -1;
        struct stat st;

        int r = image_check_name(name, checked, err);
        if (r == 0)
                r = image_store_path(&path, err);
        if (r < 0)
                return r;
        r = open_store(false, &store, err);
        if (r < 0 && r != -ENOENT)
                return r;
        place_of(checked, place);
        snprintf(relative, sizeof(relative), "%s/%s", place, ROOT);
        if (r == 0 && fstatat(store, relative, &st, AT_SYMLINK_NOFOLLOW) < 0)
                r = is_none(errno) ? -ENOENT : -errno;
        if (r < 0 && r != -ENOENT)
                return cannot_look(r, checked, err);
        if (r < 0 || !S_ISDIR(st.st_mode))
                return not_found(store, checked, err);
        return asprintf(ret, "%s/%s", path, relative) < 0 ? no_memory(err) : 0;
}

int image_store_show(const char *name, json_t **ret, gb_error *err)
{
        char checked[IMAGE_STORE_NAME_MAX], place[IMAGE_STORE_NAME_MAX];
        _cleanup_close_ int store = -1;

        int r = image_check_name(name, checked, err);
        if (r < 0)
                return r;
        r = open_store(false, &store, err);
        if (r < 0 && r != -ENOENT)
                return r;
        place_of(checked, place);
        _cleanup_json_ json_t *about = NULL;
        if (r == 0)
                r = read_about(store, place, &about);
        if (r == -ENOENT)
                return not_found(store, checked, err);
        if (r < 0)
                return cannot_look(r, checked, err);
        if (json_object_set_new(about, "name", json_string(checked)) < 0)
                return no_memory(err);
        *ret = TAKE_PTR(about);
        return 0;
}

int image_store_list(json_t **ret, gb_error *err)
{
        _cleanup_close_ int store = -1;
        char **names = NULL, place[IMAGE_STORE_NAME_MAX];
        size_t n = 0;

        int r = open_store(false, &store, err);
        if (r < 0 && r != -ENOENT)
                return r;
        r = r < 0 ? 0 : read_names(store, &names, &n);
        _cleanup_json_ json_t *list = json_array();
        for (size_t i = 0; i < n && r == 0; i++) {
                json_t *about = NULL;
                place_of(names[i], place);
                r = read_about(store, place, &about);
                if (r == -ENOENT) { /* no image, or one that was just removed */
                        r = 0;
                        continue;
                }
                if (r == 0 && (json_object_set_new(about, "name", json_string(names[i])) < 0 ||
                               json_array_append(list, about) < 0))
                        r = -ENOMEM;
                json_decref(about);
        }
        free_names(names, n);
        if (r < 0 || !list)
                return error_set(err, code_of(r), r < 0 ? -r : ENOMEM, "the images cannot be listed: %s",
                                 strerror(r < 0 ? -r : ENOMEM));
        *ret = TAKE_PTR(list);
        return 0;
}

/* ---- locks ---- */

static int lock_name(int store, const char *name, const char *place, int *ret, gb_error *err)
{
        char path[IMAGE_STORE_NAME_MAX + sizeof(LOCKS) + 1];

        snprintf(path, sizeof(path), "%s/%s", LOCKS, place);
        _cleanup_close_ int fd = openat(store, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) {
                if (fd >= 0 && errno == EWOULDBLOCK)
                        return error_set(err, GB_E_CONFLICT, EBUSY, "the image %s is being made or removed by another process; wait for its end", name);
                return error_set(err, code_of(-errno), errno, "cannot lock the image %s: %s", name, strerror(errno));
        }
        *ret = TAKE_FD(fd);
        return 0;
}

/* What has no lock has no maker. The lock is held until it is gone, so that two sweepers do not meet. */
static void sweep(int store)
{
        int fd = openat(store, MAKING, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);

        if (!dir) {
                safe_close(fd);
                return;
        }
        for (struct dirent *e; (e = readdir(dir));) {
                if (e->d_name[0] == '.')
                        continue;
                _cleanup_close_ int lock = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0)
                        (void)tree_remove(dirfd(dir), e->d_name);
        }
        closedir(dir);
}

/* A name in .making that nobody has, as far as chance goes. */
static int new_name(const char *place, char *ret_dir, size_t size)
{
        uint32_t number;

        if (getrandom(&number, sizeof(number), 0) != sizeof(number))
                return -EIO;
        snprintf(ret_dir, size, "%s.%08x", place, number);
        return 0;
}

/* A new locked directory in .making. It counts only if it is still there once it is locked. */
static int make_locked(int store, const char *place, char *ret_dir, size_t size, int *ret)
{
        struct stat mine, there;
        char path[IMAGE_STORE_NAME_MAX + 32];

        for (int i = 0; i < ATTEMPTS_MAX; i++) {
                if (new_name(place, ret_dir, size) < 0)
                        return -EIO;
                snprintf(path, sizeof(path), "%s/%s", MAKING, ret_dir);
                if (mkdirat(store, path, 0755) < 0) {
                        if (errno == EEXIST)
                                continue;
                        return -errno;
                }
                _cleanup_close_ int fd = openat(store, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &mine) == 0 && fstatat(store, path, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
                    mine.st_ino == there.st_ino && mine.st_dev == there.st_dev) {
                        *ret = TAKE_FD(fd);
                        return 0;
                }
        }
        return -EBUSY;
}

/* ---- making one ---- */

int image_draft_begin(const char *name, struct image_draft *ret, gb_error *err)
{
        _cleanup_image_draft_ struct image_draft d = IMAGE_DRAFT_NONE;

        int r = image_check_name(name, d.name, err);
        if (r == 0)
                r = open_store(true, &d.store, err);
        if (r < 0)
                return r;
        place_of(d.name, d.place);
        r = lock_name(d.store, d.name, d.place, &d.lock, err);
        if (r == 0)
                r = check_is_image(d.store, d.place, d.name, err);
        if (r < 0)
                return r;
        sweep(d.store);
        r = make_locked(d.store, d.place, d.dir, sizeof(d.dir), &d.fd);
        if (r == 0 && mkdirat(d.fd, ROOT, 0755) < 0)
                r = -errno;
        if (r == 0 && (d.root = openat(d.fd, ROOT, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
                r = -errno;
        /* Whatever the caller's umask is: others look into it. */
        if (r == 0 && (fchmod(d.fd, 0755) < 0 || fchmod(d.root, 0755) < 0))
                r = -errno;
        if (r < 0)
                return error_set(err, code_of(r), -r, "cannot make a place for the image %s: %s", d.name, strerror(-r));
        *ret = d;
        d = (struct image_draft)IMAGE_DRAFT_NONE;
        return 0;
}

int image_draft_path(const struct image_draft *d, char **ret, gb_error *err)
{
        _cleanup_free_ char *store = NULL;

        int r = image_store_path(&store, err);
        if (r < 0)
                return r;
        return asprintf(ret, "%s/%s/%s", store, MAKING, d->dir) < 0 ? no_memory(err) : 0;
}

static int write_about(int dir, const json_t *about)
{
        _cleanup_close_ int fd = openat(dir, ABOUT, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        char *text = fd < 0 ? NULL : json_dumps(about, JSON_INDENT(2));
        int r = fd < 0 ? -errno : text ? fd_write_all(fd, text, strlen(text)) : -ENOMEM;

        free(text);
        if (r == 0)
                r = fd_write_all(fd, "\n", 1);
        return r == 0 && (fchmod(fd, 0644) < 0 || fsync(fd) < 0) ? -errno : r;
}

int image_draft_clear(struct image_draft *d, gb_error *err)
{
        int fd = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);

        if (!dir)
                safe_close(fd);
        for (struct dirent *e; dir && r == 0 && (e = readdir(dir));)
                if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && strcmp(e->d_name, ROOT) != 0)
                        r = tree_remove(d->fd, e->d_name);
        if (dir)
                closedir(dir);
        return r < 0 ? error_set(err, GB_E_INTERNAL, -r, "cannot remove what the build of %s has left: %s", d->name, strerror(-r)) : 0;
}

int image_draft_commit(struct image_draft *d, const json_t *about, gb_error *err)
{
        char path[IMAGE_STORE_NAME_MAX + 32];

        snprintf(path, sizeof(path), "%s/%s", MAKING, d->dir);
        int r = check_is_image(d->store, d->place, d->name, err);
        if (r < 0)
                return r;
        r = write_about(d->fd, about);
        /* All of it is on the disk before it has its name: after a crash there is no image with empty files. */
        if (r == 0 && syncfs(d->fd) < 0)
                r = -errno;
        if (r == 0 && renameat2(d->store, path, d->store, d->place, RENAME_NOREPLACE) < 0)
                r = -errno;
        if (r == -EEXIST) /* The old one takes the draft's place, and goes with it. */
                r = renameat2(d->store, path, d->store, d->place, RENAME_EXCHANGE) < 0 ? -errno : 1;
        if (r == -EINVAL && faccessat(d->store, d->place, F_OK, AT_SYMLINK_NOFOLLOW) < 0) /* a file system without these flags */
                r = renameat(d->store, path, d->store, d->place) < 0 ? -errno : 0;
        if (r < 0)
                return error_set(err, code_of(r), -r, "cannot put the image %s into its place: %s", d->name, strerror(-r));
        (void)fsync(d->store);
        if (r == 1)
                (void)tree_remove(d->store, path);
        d->dir[0] = '\0';
        return 0;
}

void image_draft_done(struct image_draft *d)
{
        char path[IMAGE_STORE_NAME_MAX + 32];

        if (d->fd >= 0 && d->dir[0]) {
                snprintf(path, sizeof(path), "%s/%s", MAKING, d->dir);
                (void)tree_remove(d->store, path);
        }
        d->dir[0] = '\0';
        d->root = safe_close(d->root);
        d->fd = safe_close(d->fd);
        d->lock = safe_close(d->lock);
        d->store = safe_close(d->store);
}

/* ---- removing one ---- */

/* Out of its place in one step, into a directory that is swept if we do not come to the end. ret_dir: its name in .making, ret: its lock. */
static int take_out(int store, const char *place, char *ret_dir, size_t size, int *ret)
{
        char path[IMAGE_STORE_NAME_MAX + 32];

        int r = make_locked(store, place, ret_dir, size, ret);
        if (r == 0 && renameat(store, place, *ret, "removed") < 0)
                r = -errno;
        if (!is_full(r))
                return r;
        /* There is no room for a directory, and removing is how room is made: the image's own goes there. */
        _cleanup_close_ int fd = openat(store, place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                return errno == EWOULDBLOCK ? -EBUSY : -errno;
        r = new_name(place, ret_dir, size);
        snprintf(path, sizeof(path), "%s/%s", MAKING, ret_dir);
        if (r == 0 && renameat(store, place, store, path) < 0)
                r = -errno;
        if (r < 0)
                return r;
        safe_close(*ret); /* of one that had room, and none for the image: it is swept */
        *ret = TAKE_FD(fd);
        return 0;
}

int image_store_remove(const char *name, gb_error *err)
{
        char checked[IMAGE_STORE_NAME_MAX], place[IMAGE_STORE_NAME_MAX], dir[IMAGE_STORE_NAME_MAX + 16] = "", path[IMAGE_STORE_NAME_MAX + 32];
        _cleanup_close_ int store = -1, lock = -1, fd = -1;
        struct stat st;

        int r = image_check_name(name, checked, err);
        if (r < 0)
                return r;
        place_of(checked, place);
        r = open_store(false, &store, err);
        if (r == -ENOENT || (r == 0 && fstatat(store, place, &st, AT_SYMLINK_NOFOLLOW) < 0))
                return not_found(store, checked, err);
        store = safe_close(store);
        if (r == 0)
                r = open_store(true, &store, err);
        if (r == 0)
                r = lock_name(store, checked, place, &lock, err);
        /* Where there is no room for the lock nobody else can make this name either. */
        if (r < 0 && (store < 0 || !is_full(r)))
                return r;
        r = check_is_image(store, place, checked, err);
        if (r < 0)
                return r;
        sweep(store);
        r = take_out(store, place, dir, sizeof(dir), &fd);
        if (r == -ENOENT)
                r = not_found(store, checked, err);
        else if (r < 0)
                error_set(err, code_of(r), -r, "cannot remove the image %s: %s", checked, strerror(-r));
        snprintf(path, sizeof(path), "%s/%s", MAKING, dir);
        int e = fd >= 0 ? tree_remove(store, path) : 0;
        if (r == 0 && e < 0)
                r = error_set(err, GB_E_INTERNAL, -e, "the image %s is gone, but not all of its files could be removed: %s", checked, strerror(-e));
        return r;
}
