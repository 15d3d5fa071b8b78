/* SPDX-License-Identifier: Apache-2.0
 *
 * The root is walked by name, each directory sorted, so that the same image gives the same archive. An OCI layout names its layer by its digest, which must be known
 * before: then the root is walked twice, the first time only to sum up; both must come to the same. */
#include "image/export.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/quote.h"
#include "image/oci.h"
#include "image/store.h"
#include "image/tar.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_BYTES (256 * KIB)

struct walk {
        struct image_export *request;
        struct tar_out out;
        json_t *links;  /* "device:inode" of files with several names: the first of them */
        bool ids;       /* owners as they are; else root's */
        bool files_only; /* no links */
        const char *place; /* the root's path; NULL: it need not stay there */
        bool unread;    /* what failed was reading */
        uint64_t left;  /* bytes of files that may still come */
        char path[HOST_PATH_MAX];
        char piece[PIECE_BYTES];
};

static int failed(const struct walk *w, int r, gb_error *err)
{
        if (r == -ECANCELED)
                return error_set(err, GB_E_CONFLICT, ECANCELED, "interrupted");
        if (r == -EFBIG)
                return error_set(err, GB_E_LIMIT, EFBIG, "%s and what stands before it are larger than may be", quote(w->path).text);
        if (r == -ESTALE || (r == -ENOENT && w->unread))
                return error_set(err, GB_E_CONFLICT, EBUSY, "%s%s changes while it is read", w->request ? "the image " : "", w->request ? w->request->name : quote(w->path).text);
        if (w->unread)
                return error_set(err, GB_E_INTERNAL, -r, "cannot read %s: %s", quote(w->path).text, strerror(-r));
        return error_set(err, r == -ENOSPC || r == -EDQUOT ? GB_E_DISK_FULL : GB_E_INTERNAL, -r, "cannot write %s into the archive: %s", quote(w->path).text, strerror(-r));
}

static int cannot_read(struct walk *w)
{
        w->unread = true;
        return -errno;
}

/* Who removes an image takes it out of its place first: as long as it is there it is whole. */
static int check_place(const struct walk *w, int root)
{
        struct stat mine, there;

        if (!w->place)
                return 0;
        return fstat(root, &mine) < 0 || mine.st_nlink == 0 || lstat(w->place, &there) < 0 || mine.st_ino != there.st_ino || mine.st_dev != there.st_dev ? -ESTALE : 0;
}

static bool is_cancelled(const struct walk *w)
{
        struct pollfd p = {w->request ? w->request->cancel_fd : -1, POLLIN, 0};

        return p.fd >= 0 && poll(&p, 1, 0) > 0;
}

/* Exactly as many bytes as the head says: of a file that shrinks meanwhile the rest is zeros. */
static int write_content(struct walk *w, int fd, uint64_t size)
{
        int r = 0;

        for (uint64_t left = size; r == 0 && left > 0;) {
                size_t want = (size_t)MIN(left, (uint64_t)PIECE_BYTES);
                ssize_t n = read(fd, w->piece, want);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return cannot_read(w);
                if (n == 0) {
                        memset(w->piece, 0, want);
                        n = (ssize_t)want;
                }
                r = tar_write(&w->out, w->piece, (size_t)n);
                left -= (uint64_t)n;
                if (w->request && w->request->progress && w->out.fd >= 0)
                        w->request->progress(w->request->data, w->out.size);
                if (r == 0 && is_cancelled(w))
                        r = -ECANCELED;
        }
        return r < 0 ? r : tar_pad(&w->out, size);
}

static int write_file(struct walk *w, int parent, const char *name, const struct stat *st, struct tar_entry *e)
{
        _cleanup_close_ int fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        char key[48];

        if (fd < 0)
                return cannot_read(w);
        snprintf(key, sizeof(key), "%llx:%llx", (unsigned long long)st->st_dev, (unsigned long long)st->st_ino);
        const char *first = st->st_nlink > 1 ? json_string_value(json_object_get(w->links, key)) : NULL;
        e->type = first ? '1' : '0';
        e->link = first;
        e->size = first ? 0 : (uint64_t)st->st_size;
        if (e->size > w->left)
                return -EFBIG;
        w->left -= e->size;
        if (!first && st->st_nlink > 1)
                json_object_set_new_nocheck(w->links, key, json_stringn_nocheck(w->path, strlen(w->path)));
        int r = tar_head(&w->out, e);
        return r < 0 || first ? r : write_content(w, fd, e->size);
}

static int write_entry(struct walk *w, int parent, const char *name, const struct stat *st)
{
        char link[HOST_PATH_MAX];
        struct tar_entry e = {
                .path = w->path, .mode = st->st_mode & 07777, .uid = w->ids ? st->st_uid : 0, .gid = w->ids ? st->st_gid : 0,
                .mtime_sec = st->st_mtime,
        };

        if (w->request)
                w->request->entries++;
        if (S_ISREG(st->st_mode))
                return write_file(w, parent, name, st, &e);
        if (S_ISLNK(st->st_mode)) {
                ssize_t n = readlinkat(parent, name, link, sizeof(link) - 1);
                if (n < 0)
                        return cannot_read(w);
                link[n] = '\0';
                e.link = link;
        }
        e.type = S_ISLNK(st->st_mode) ? '2' : '5';
        return tar_head(&w->out, &e);
}

static int walk_directory(struct walk *w, int parent, const char *name, unsigned depth);

static int walk_one(struct walk *w, int parent, const char *name, unsigned depth)
{
        size_t before = strlen(w->path);
        struct stat st;
        int r = 0;

        if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return cannot_read(w);
        if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) && (!S_ISLNK(st.st_mode) || w->files_only))
                return 0;
        if (before + strlen(name) + 3 >= sizeof(w->path))
                return -ENAMETOOLONG;
        snprintf(w->path + before, sizeof(w->path) - before, "%s%s", name, S_ISDIR(st.st_mode) ? "/" : "");
        r = write_entry(w, parent, name, &st);
        if (r == 0 && S_ISDIR(st.st_mode))
                r = walk_directory(w, parent, name, depth + 1);
        if (r == 0)
                w->path[before] = '\0'; /* after a failure it tells where */
        return r;
}

static int walk_directory(struct walk *w, int parent, const char *name, unsigned depth)
{
        _cleanup_close_ int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct dirent **list = NULL;
        int r = 0;

        if (fd < 0)
                return cannot_read(w);
        if (depth > IMAGE_DEPTH_MAX + 8)
                return -ELOOP;
        int n = scandirat(fd, ".", &list, NULL, alphasort);
        if (n < 0)
                return cannot_read(w);
        for (int i = 0; i < n; i++) {
                if (r == 0 && strcmp(list[i]->d_name, ".") != 0 && strcmp(list[i]->d_name, "..") != 0)
                        r = is_cancelled(w) ? -ECANCELED : walk_one(w, fd, list[i]->d_name, depth);
                free(list[i]);
        }
        free(list);
        return r;
}

/* All below a directory, and the end of the archive. */
static int walk_root(struct walk *w, int root, int fd, gb_error *err)
{
        tar_init(&w->out, fd, w->request ? w->request->cancel_fd : -1, w->request && w->request->oci);
        json_decref(w->links);
        w->links = json_object();
        w->left = w->request ? IMAGE_BYTES_MAX : w->left;
        w->path[0] = '\0';
        if (w->request)
                w->request->entries = 0;
        int r = w->links ? walk_directory(w, root, ".", 0) : -ENOMEM;
        if (r == 0)
                r = check_place(w, root);
        if (r == 0)
                r = tar_end(&w->out);
        return r < 0 ? failed(w, r, err) : 0;
}

/* ---- an OCI layout ---- */

struct part {
        char *text;
        char digest[SHA256_TEXT_MAX];
};

static void part_done(struct part *p)
{
        free(p->text);
}

/* Takes the value. */
static int make_part(struct part *p, json_t *value)
{
        struct sha256 sum;

        p->text = value ? json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
        json_decref(value);
        if (!p->text)
                return -ENOMEM;
        sha256_init(&sum);
        sha256_add(&sum, p->text, strlen(p->text));
        sha256_text(&sum, p->digest);
        return 0;
}

static int put_part(struct tar_out *out, const struct part *p)
{
        char path[OCI_PATH_MAX];

        snprintf(path, sizeof(path), "blobs/sha256/%s", p->digest);
        return tar_file(out, path, p->text, strlen(p->text));
}

static json_t *descriptor(const char *type, const char *digest, uint64_t size)
{
        return json_pack("{s:s, s:o, s:I}", "mediaType", type, "digest", json_sprintf("sha256:%s", digest), "size", (json_int_t)size);
}

/* Everything that stands before the layer. */
static int write_layout(struct tar_out *out, const char *name, const char *layer, uint64_t size)
{
        _cleanup_(part_done) struct part config = {0}, manifest = {0}, index = {0}, docker = {0};

        int r = make_part(&config, json_pack("{s:s, s:s, s:{}, s:{s:s, s:[o]}}", "architecture", oci_architecture(), "os", "linux", "config", "rootfs", "type", "layers",
                                             "diff_ids", json_sprintf("sha256:%s", layer)));
        if (r == 0)
                r = make_part(&manifest, json_pack("{s:i, s:s, s:o, s:[o]}", "schemaVersion", 2, "mediaType", "application/vnd.oci.image.manifest.v1+json", "config",
                                                   descriptor("application/vnd.oci.image.config.v1+json", config.digest, strlen(config.text)), "layers",
                                                   descriptor("application/vnd.oci.image.layer.v1.tar", layer, size)));
        json_t *one = r == 0 ? descriptor("application/vnd.oci.image.manifest.v1+json", manifest.digest, strlen(manifest.text)) : NULL;
        if (one)
                json_object_set_new(one, "annotations", json_pack("{s:s}", "org.opencontainers.image.ref.name", name));
        if (r == 0)
                r = make_part(&index, json_pack("{s:i, s:[o]}", "schemaVersion", 2, "manifests", one));
        /* For engines that know only what `docker save` writes. */
        if (r == 0)
                r = make_part(&docker, json_pack("[{s:o, s:[o], s:[o]}]", "Config", json_sprintf("blobs/sha256/%s", config.digest), "RepoTags",
                                                 json_sprintf("%s%s", name, strchr(name, ':') ? "" : ":latest"), "Layers", json_sprintf("blobs/sha256/%s", layer)));
        if (r == 0)
                r = tar_file(out, "oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}", strlen("{\"imageLayoutVersion\":\"1.0.0\"}"));
        if (r == 0)
                r = tar_file(out, "index.json", index.text, strlen(index.text));
        if (r == 0)
                r = tar_file(out, "manifest.json", docker.text, strlen(docker.text));
        if (r == 0)
                r = put_part(out, &config);
        return r < 0 ? r : put_part(out, &manifest);
}

static int export_oci(struct walk *w, int root, gb_error *err)
{
        char digest[SHA256_TEXT_MAX], again[SHA256_TEXT_MAX], name[IMAGE_STORE_NAME_MAX], path[OCI_PATH_MAX];
        struct tar_out out;

        int r = walk_root(w, root, -1, err);
        if (r < 0)
                return r;
        uint64_t size = w->out.size;
        sha256_text(&w->out.sum, digest);
        (void)image_check_name(w->request->name, name, NULL);
        snprintf(path, sizeof(path), "blobs/sha256/%s", digest);
        tar_init(&out, w->request->fd, w->request->cancel_fd, false);
        r = write_layout(&out, name, digest, size);
        if (r == 0)
                r = tar_head(&out, &(struct tar_entry){.type = '0', .path = path, .mode = 0644, .size = size});
        if (r < 0)
                return failed(w, r, err);
        r = walk_root(w, root, w->request->fd, err);
        if (r < 0)
                return r;
        sha256_text(&w->out.sum, again);
        if (strcmp(digest, again) != 0)
                return failed(w, -ESTALE, err);
        r = tar_pad(&w->out, size);
        if (r == 0)
                r = tar_end(&w->out);
        w->request->bytes = out.size + w->out.size;
        return r < 0 ? failed(w, r, err) : 0;
}

/* ---- all of it ---- */

int image_export(struct image_export *request, gb_error *err)
{
        _cleanup_free_ struct walk *w = calloc(1, sizeof(*w));
        _cleanup_free_ char *path = NULL;
        _cleanup_json_ json_t *about = NULL;

        int r = image_store_root(request->name, &path, err);
        if (r == 0)
                r = image_store_show(request->name, &about, err);
        if (r == 0 && !w)
                r = error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (r < 0)
                return r;
        _cleanup_close_ int root = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (root < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot open %s: %s", quote(path).text, strerror(errno));
        const char *owners = json_string_value(json_object_get(about, "owners"));
        w->request = request;
        w->place = path;
        w->ids = !owners || strcmp(owners, "caller") != 0;
        if (request->oci)
                r = export_oci(w, root, err);
        else {
                r = walk_root(w, root, request->fd, err);
                request->bytes = w->out.size;
        }
        json_decref(w->links);
        return r;
}

int image_tar_directory(const char *path, int fd, uint64_t max, gb_error *err)
{
        _cleanup_free_ struct walk *w = calloc(1, sizeof(*w));
        _cleanup_close_ int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (root < 0 || !w)
                return error_set(err, GB_E_NOT_FOUND, root < 0 ? errno : ENOMEM, "cannot open %s: %s", quote(path).text, strerror(root < 0 ? errno : ENOMEM));
        w->files_only = true;
        w->left = max;
        int r = walk_root(w, root, fd, err);
        json_decref(w->links);
        return r;
}
