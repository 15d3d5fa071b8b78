/* SPDX-License-Identifier: Apache-2.0
 *
 * An archive is read once, from its beginning to its end, so that it may come from a pipe. The first path in it tells what it is: names that only archives of images use, or
 * anything else: a root file system, which is unpacked as it comes. The files of an image are put beside the root, under names of our own; then its JSON is
 * followed, each file's digest compared, and the layers unpacked in their order. */
#include "image/import.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/quote.h"
#include "image/oci.h"
#include "image/tree.h"
#include "image/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PIECE_BYTES (256 * KIB)
#define LAYOUT "layout" /* beside the root, for as long as it takes */

struct import {
        const struct image_import *request;
        struct image_draft *draft;
        struct image_unpack unpack;
        int layout;       /* directory: the caller's, or ours */
        bool own;         /* ours: files have names of one part */
        json_t *aliases;  /* of our own: a path that is a link, and to which */
        struct oci_plan plan;
        const char *kind; /* "tar", "oci", "docker" */
        char digest[SHA256_TEXT_MAX];
        bool verified;
};

static void import_done(struct import *im)
{
        if (im->own && im->layout >= 0)
                (void)tree_remove(im->draft->fd, LAYOUT);
        im->layout = safe_close(im->layout);
        json_decref(im->aliases);
        oci_plan_done(&im->plan);
        image_reader_done(&im->unpack.reader);
        buffer_done(&im->unpack.times);
}

static int failed(const char *path, int r, gb_error *err)
{
        if (r == -ENOSPC || r == -EDQUOT)
                return error_set(err, GB_E_DISK_FULL, -r, "there is no room for %s: %s", quote(path).text, strerror(-r));
        return error_set(err, GB_E_INTERNAL, -r, "cannot write %s: %s", quote(path).text, strerror(-r));
}

static bool is_cancelled(const struct import *im)
{
        struct pollfd p = {im->request->cancel_fd, POLLIN, 0};

        return p.fd >= 0 && poll(&p, 1, 0) > 0;
}

/* ---- the files of an image, from an archive ---- */

/* "a/b" as "a+b": no '/' is left, and '+' is in no name that is known. */
static int own_name(const char *path, char ret[static OCI_PATH_MAX], gb_error *err)
{
        if (strlen(path) >= OCI_PATH_MAX || strchr(path, '+') || !oci_knows_path(path))
                return error_set(err, GB_E_USAGE, EINVAL, "the entry %s is refused: the archive of an image holds no such file", quote(path).text);
        snprintf(ret, OCI_PATH_MAX, "%s", path);
        for (char *p = ret; *p; p++)
                *p = *p == '/' ? '+' : *p;
        return 0;
}

/* Where a layer is there twice docker writes "../OTHER/layer.tar". */
static int stage_link(struct import *im, const struct image_entry *e, const char *path, gb_error *err)
{
        char target[OCI_PATH_MAX];

        if (strncmp(e->link, "../", 3) != 0 || strstr(e->link + 3, "..") || own_name(e->link + 3, target, err) < 0 || json_object_size(im->aliases) >= IMAGE_LAYERS_MAX)
                return error_set(err, GB_E_USAGE, EINVAL, "the entry %s is refused: a link to what is no layer", quote(path).text);
        json_object_set_new(im->aliases, path, json_string(e->link + 3));
        return 0;
}

static int stage_file(struct import *im, const struct image_entry *e, const char *path, gb_error *err)
{
        _cleanup_free_ char *piece = malloc(PIECE_BYTES);
        char name[OCI_PATH_MAX];

        int r = own_name(path, name, err);
        if (r < 0)
                return r;
        _cleanup_close_ int fd = openat(im->layout, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno == EEXIST)
                return error_set(err, GB_E_USAGE, EEXIST, "the entry %s is refused: it is there twice", quote(path).text);
        if (fd < 0 || !piece)
                return failed(path, fd < 0 ? -errno : -ENOMEM, err);
        for (uint64_t left = e->size; r == 0 && left > 0;) {
                size_t n = (size_t)MIN(left, (uint64_t)PIECE_BYTES);
                r = image_reader_data(&im->unpack.reader, piece, n, err);
                int w = r == 0 ? fd_write_all(fd, piece, n) : 0;
                if (w < 0)
                        r = failed(path, w, err);
                left -= n;
        }
        return r;
}

static int stage(struct import *im, struct image_entry *e, gb_error *err)
{
        char path[HOST_PATH_MAX];
        uint64_t bytes = 0;
        int r = 1;

        if (mkdirat(im->draft->fd, LAYOUT, 0700) < 0 ||
            (im->layout = openat(im->draft->fd, LAYOUT, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
                return failed(LAYOUT, -errno, err);
        im->own = true;
        im->aliases = json_object();
        for (; r > 0; r = r < 0 ? r : image_reader_next(&im->unpack.reader, e, err)) {
                r = image_clean_path(e->path, e->path, path, err);
                if (r < 0)
                        return r;
                if (e->kind == IMAGE_FILE)
                        r = stage_file(im, e, path, err);
                else if (e->kind == IMAGE_SYMLINK)
                        r = stage_link(im, e, path, err);
                else if (e->kind != IMAGE_DIRECTORY)
                        r = error_set(err, GB_E_USAGE, EINVAL, "the entry %s is refused: the archive of an image holds no such file", quote(path).text);
                bytes += e->size;
                if (im->request->progress)
                        im->request->progress(im->request->data, bytes);
        }
        return r;
}

/* ---- its JSON ---- */

static int open_part(struct import *im, const char *path, gb_error *err)
{
        const char *alias = json_string_value(json_object_get(im->aliases, path));
        char name[OCI_PATH_MAX];
        struct open_how how = {
                .flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
        };
        struct stat st;
        int r = 0;

        if (im->own)
                r = own_name(alias ? alias : path, name, err);
        else
                snprintf(name, sizeof(name), "%s", path);
        if (r < 0)
                return r;
        _cleanup_close_ int fd = (int)syscall(SYS_openat2, im->layout, name, &how, sizeof(how));
        if (fd < 0)
                return error_set(err, GB_E_USAGE, errno, "the image is refused: %s, which it needs, %s", quote(path).text,
                                 errno == ENOENT ? "is not there" : strerror(errno));
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return error_set(err, GB_E_USAGE, EINVAL, "the image is refused: %s is no file", quote(path).text);
        return TAKE_FD(fd);
}

static bool has_part(struct import *im, const char *path)
{
        _cleanup_close_ int fd = open_part(im, path, NULL);

        return fd >= 0;
}

/* What is in a file must be what was said of it. digest: may be empty, size: may be -1. The file stands at its beginning then. */
static int check_part(struct import *im, int fd, const char *path, const char *digest, int64_t size, gb_error *err)
{
        _cleanup_free_ char *piece = malloc(PIECE_BYTES);
        char found[SHA256_TEXT_MAX];
        struct sha256 sum;
        uint64_t n = 0;
        ssize_t k = 0;

        if (!piece)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        sha256_init(&sum);
        while (n <= IMAGE_BYTES_MAX && (k = read(fd, piece, PIECE_BYTES)) > 0) {
                sha256_add(&sum, piece, (size_t)k);
                n += (uint64_t)k;
                if (is_cancelled(im))
                        return error_set(err, GB_E_CONFLICT, ECANCELED, "interrupted");
        }
        if (k < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot read %s: %s", quote(path).text, strerror(errno));
        if (n > IMAGE_BYTES_MAX)
                return error_set(err, GB_E_LIMIT, EFBIG, "%s is larger than %llu GiB", quote(path).text, IMAGE_BYTES_MAX / GIB);
        sha256_text(&sum, found);
        if (size >= 0 && n != (uint64_t)size)
                return error_set(err, GB_E_USAGE, EBADMSG, "the image is refused: %s has %llu bytes instead of %lld", quote(path).text, (unsigned long long)n, (long long)size);
        if (*digest && strcmp(found, digest) != 0)
                return error_set(err, GB_E_USAGE, EBADMSG, "the image is refused: the digest of %s is sha256:%.16s..., not sha256:%.16s... as it should be", quote(path).text,
                                 found, digest);
        if (!*digest)
                im->verified = false;
        return lseek(fd, 0, SEEK_SET) < 0 ? error_set(err, GB_E_INTERNAL, errno, "cannot read %s again: %s", quote(path).text, strerror(errno)) : 0;
}

static int read_part(struct import *im, const char *path, const char *digest, int64_t size, char **ret, size_t *ret_size, gb_error *err)
{
        _cleanup_close_ int fd = open_part(im, path, err);
        struct stat st;

        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0 || st.st_size > (off_t)IMAGE_JSON_BYTES_MAX)
                return error_set(err, GB_E_LIMIT, EFBIG, "the image is refused: %s is larger than %llu MiB", quote(path).text, IMAGE_JSON_BYTES_MAX / MIB);
        int r = check_part(im, fd, path, digest, size, err);
        if (r < 0)
                return r;
        r = fd_read_all(fd, IMAGE_JSON_BYTES_MAX, ret, ret_size);
        return r < 0 ? error_set(err, GB_E_INTERNAL, -r, "cannot read %s: %s", quote(path).text, strerror(-r)) : 0;
}

static int plan_oci(struct import *im, gb_error *err)
{
        struct oci_reference ref = {.path = "index.json", .size = -1, .is_index = true};
        bool verified = im->verified;

        for (int depth = 0; ref.is_index; depth++) {
                _cleanup_free_ char *text = NULL;
                size_t size;
                if (depth > OCI_INDEX_DEPTH_MAX)
                        return error_set(err, GB_E_USAGE, ELOOP, "the image is refused: an index of it leads to another index again and again");
                int r = read_part(im, ref.path, ref.digest, ref.size, &text, &size, err);
                if (r == 0)
                        r = oci_parse_index(text, size, oci_architecture(), &ref, err);
                if (r < 0)
                        return r;
                im->verified = verified; /* nobody knows the digest of the first */
        }
        _cleanup_free_ char *text = NULL;
        size_t size;
        int r = read_part(im, ref.path, ref.digest, ref.size, &text, &size, err);
        memcpy(im->digest, ref.digest, sizeof(im->digest));
        return r < 0 ? r : oci_parse_manifest(text, size, &im->plan, err);
}

static int plan_docker(struct import *im, gb_error *err)
{
        _cleanup_free_ char *text = NULL;
        size_t size;
        bool verified = im->verified;

        int r = read_part(im, "manifest.json", "", -1, &text, &size, err);
        im->verified = verified; /* nobody knows its digest */
        if (r == 0)
                r = oci_parse_docker(text, size, &im->plan, err);
        memcpy(im->digest, im->plan.config_digest, sizeof(im->digest));
        return r;
}

static int check_config(struct import *im, gb_error *err)
{
        _cleanup_free_ char *text = NULL;
        size_t size;

        int r = read_part(im, im->plan.config, im->plan.config_digest, im->plan.config_size, &text, &size, err);
        return r < 0 ? r : oci_parse_config(text, size, &im->plan, err);
}

/* ---- layers ---- */

static int check_again(const struct import *im, size_t at, int fd, gb_error *err)
{
        struct stat st;

        for (size_t i = 0; i < at; i++)
                if (strcmp(im->plan.layers[i].digest, im->plan.layers[at].digest) == 0 && fstat(fd, &st) == 0 && st.st_size > OCI_LAYER_AGAIN_BYTES_MAX)
                        return error_set(err, GB_E_USAGE, EINVAL, "the image is refused: it names the layer %s twice", quote(im->plan.layers[at].path).text);
        return 0;
}

static int unpack_layers(struct import *im, gb_error *err)
{
        for (size_t i = 0; i < im->plan.n_layers; i++) {
                const struct oci_layer *layer = &im->plan.layers[i];
                _cleanup_close_ int fd = open_part(im, layer->path, err);
                int r = fd < 0 ? fd : check_again(im, i, fd, err);
                if (r == 0)
                        r = check_part(im, fd, layer->path, layer->digest, layer->size, err);
                if (r < 0)
                        return r;
                r = image_unpack_layer(&im->unpack, fd, err);
                if (r < 0)
                        return im->plan.n_layers > 1 ? error_prefix(err, "layer %zu of %zu", i + 1, im->plan.n_layers) : r;
        }
        return 0;
}

static int follow(struct import *im, gb_error *err)
{
        bool oci = has_part(im, "oci-layout");

        if (!oci && !has_part(im, "manifest.json"))
                return error_set(err, GB_E_USAGE, EINVAL, "it is no image: neither oci-layout nor manifest.json is in it%s",
                                 im->own ? "" : "; files of a directory are imported as a tar: 'tar -C DIR -c . | glovebox image import - NAME'");
        im->kind = oci ? "oci" : "docker";
        im->verified = true;
        im->unpack.whiteouts = true;
        int r = oci ? plan_oci(im, err) : plan_docker(im, err);
        if (r == 0)
                r = check_config(im, err);
        return r < 0 ? r : unpack_layers(im, err);
}

/* ---- all of it ---- */

static int read_stream(struct import *im, gb_error *err)
{
        _cleanup_free_ struct image_entry *e = malloc(sizeof(*e));
        struct image_limits most = {.bytes = IMAGE_BYTES_MAX, .entries = IMAGE_ENTRIES_MAX};
        char path[HOST_PATH_MAX] = "";

        if (!e)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        int r = image_reader_start(&im->unpack.reader, im->request->fd, most, im->request->cancel_fd, err);
        do {
                if (r == 0)
                        r = image_reader_next(&im->unpack.reader, e, err);
                if (r == 0)
                        return error_set(err, GB_E_USAGE, EINVAL, "there is nothing in the archive");
                if (r > 0)
                        r = image_clean_path(e->path, e->path, path, err);
                if (r == 0 && !path[0] && e->kind != IMAGE_DIRECTORY)
                        return error_set(err, GB_E_USAGE, EINVAL, "the entry %s is refused: it would be the root itself", quote(e->path).text);
        } while (r == 0 && !path[0]);
        if (r < 0)
                return r;
        if (im->request->plain || !oci_knows_path(path)) {
                im->kind = "tar";
                r = image_unpack_rest(&im->unpack, e, err);
                /* Of an image the digests tell what is missing, and some of those who write layers leave the mark out; here nothing else does. */
                if (r == 0 && im->unpack.reader.unmarked)
                        r = error_set(err, GB_E_USAGE, EBADMSG, "the archive cannot be read: it ends too early, without the zeros that stand at the end of a tar");
                return r;
        }
        r = stage(im, e, err);
        image_reader_done(&im->unpack.reader);
        return r < 0 ? r : follow(im, err);
}

static int read_layout(struct import *im, gb_error *err)
{
        im->layout = fcntl(im->request->fd, F_DUPFD_CLOEXEC, 3);
        if (im->layout < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot open the layout: %s", strerror(errno));
        return follow(im, err);
}

static int describe(struct import *im, json_t **ret, gb_error *err)
{
        time_t now = time(NULL);
        struct tree_size size = {0};
        struct tm tm;
        char text[32], digest[SHA256_TEXT_MAX + 8];

        int r = tree_measure(im->draft->root, &size);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot look at the image: %s", strerror(-r));
        if (!gmtime_r(&now, &tm) || strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
                text[0] = '\0';
        snprintf(digest, sizeof(digest), "sha256:%s", im->digest);
        json_t *about = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:b, s:s, s:s?}", "created", text, "kind", im->kind, "bytes", (json_int_t)size.bytes, "entries",
                                  (json_int_t)size.entries, "skipped", (json_int_t)im->unpack.skipped, "set_id_removed", (json_int_t)im->unpack.set_id, "owners",
                                  im->unpack.owners ? "archive" : "caller", "verified", (int)im->verified, "architecture",
                                  im->plan.architecture[0] ? im->plan.architecture : oci_architecture(), "digest", im->digest[0] ? digest : NULL);
        if (!about)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        *ret = about;
        return 0;
}

int image_import(const struct image_import *request, struct image_draft *draft, json_t **ret, gb_error *err)
{
        _cleanup_(import_done) struct import im = {
                .request = request, .draft = draft, .layout = -1,
                .unpack = {.root = draft->root, .owners = geteuid() == 0, .cancel_fd = request->cancel_fd, .progress = request->progress, .data = request->data,
                           .reader = IMAGE_READER_NONE},
        };
        struct stat st;

        if (fstat(request->fd, &st) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot read the archive: %s", strerror(errno));
        int r = S_ISDIR(st.st_mode) ? read_layout(&im, err) : read_stream(&im, err);
        if (r == 0 && im.unpack.entries == 0)
                r = error_set(err, GB_E_USAGE, EINVAL, "the image is refused: there is no file in it");
        if (r == 0)
                image_unpack_finish(&im.unpack);
        return r < 0 ? r : describe(&im, ret, err);
}
