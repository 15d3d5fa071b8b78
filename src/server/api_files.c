/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of a session. A session is held while something is done in its workspace, but not while a client reads: a file or a
 * walk that is open goes on without it, for a while (FILE_AFTER_USEC). No longer, since it keeps all the memory of a private workspace, which
 * nobody counts any more. */
#include "server/archive.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/quote.h"
#include "server/file_names.h"
#include "server/live.h"
#include "server/reply.h"
#include "server/routes.h"
#include "server/scrubbing.h"
#include "server/server.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_DEFAULT 100
#define PAGE_MAX 1000

static const char *session_param(const struct request *r)
{
        return r->params[0];
}

static int session_of(struct request *r, struct live_session **ret, struct files *ret_files, gb_error *err)
{
        _cleanup_live_session_ struct live_session *s = NULL;

        int e = live_session_get(r->server->live, &r->caller, session_param(r), true, &s, err);
        if (e == 0)
                e = session_files(s->session, ret_files, err);
        if (e < 0)
                return e;
        *ret = TAKE_PTR(s);
        return 0;
}

/* The path of the address. What files_check_path() would tidy up is refused: there is one address for each file. */
static int path_of(struct request *r, const char **ret, gb_error *err)
{
        const char *path = r->params[1] ? r->params[1] : "";
        char checked[HOST_PATH_MAX];

        int e = files_check_path(path, strlen(path), checked, err);
        if (e < 0)
                return e;
        const char *rest = files_skip_workspace(path);
        rest = rest > path && *rest == '/' ? rest + 1 : path;
        if (strcmp(rest, checked) != 0)
                return error_set(err, GB_E_USAGE, EINVAL, "the path %s has an empty part or \".\" in it: give it without", quote(path).text);
        *ret = path;
        return 0;
}

/* ?path=, of a directory; without it the workspace. */
static const char *directory_of(const struct request *r)
{
        const char *path = request_query(r, "path");

        return path ? path : ".";
}

/* An error about a path, with the secrets of its session. s NULL: it is not known which. */
static void refuse_with(struct request *r, const struct live_session *s, const char *path, gb_error *err, json_t *details)
{
        const struct scrub *scrub = s ? session_scrub(s->session) : NULL;

        file_error_scrub(scrub, path, err);
        scrubbing_error(r->server->scrubbing, scrub, err);
        scrubbing_details(r->server->scrubbing, scrub, details);
        reply_error_with(r, err, NULL, details);
}

static void refuse(struct request *r, const struct live_session *s, const char *path, gb_error *err)
{
        refuse_with(r, s, path, err, NULL);
}

/* ---- list ---- */

void api_files_list(struct request *r)
{
        static const char *const names[] = {"path", "limit", "cursor", NULL};
        _cleanup_live_session_ struct live_session *s = NULL;
        _cleanup_file_list_ struct file_list *l = NULL;
        struct files files;
        const char *cursor = request_query(r, "cursor");
        char after[NAME_MAX + 1];
        uint64_t limit;
        gb_error err = {0};

        int e = request_check_query(r, names, &err);
        if (e == 0)
                e = request_query_number(r, "limit", 1, PAGE_MAX, PAGE_DEFAULT, &limit, &err);
        if (e == 0 && cursor)
                e = file_cursor_parse(cursor, after, &err);
        if (e == 0)
                e = session_of(r, &s, &files, &err);
        if (e == 0)
                e = files_list_page(&files, directory_of(r), cursor ? after : NULL, (size_t)limit, &l, &err);
        if (e < 0)
                refuse(r, s, directory_of(r), &err);
        else
                reply_json(r, 200, file_list_to_json(session_scrub(s->session), directory_of(r), l));
}

/* ---- out ---- */

/* Whether its session is there, or has not been gone for long. *until_usec: 0 before the first call, then the caller's to keep. */
static bool may_go_on(struct request *r, uint64_t *until_usec)
{
        _cleanup_live_session_ struct live_session *s = NULL;

        if (live_session_get(r->server->live, &r->caller, session_param(r), false, &s, NULL) == 0)
                return true;
        if (*until_usec == 0)
                *until_usec = monotonic_usec() + FILE_AFTER_USEC;
        return monotonic_usec() < *until_usec;
}

/* The bytes up to the size that was promised: what was added meanwhile is left out, and what is missing is told by cutting the
 * connection. 0 or -EPIPE. */
static int send_file(struct request *r, int fd, uint64_t size, uint64_t *until_usec)
{
        _cleanup_free_ char *piece = malloc(FILE_PIECE_BYTES);

        for (uint64_t at = 0; at < size;) {
                bool more = piece && may_go_on(r, until_usec);
                ssize_t n = more ? pread(fd, piece, (size_t)MIN((uint64_t)FILE_PIECE_BYTES, size - at), (off_t)at) : -1;
                if (n < 0 && more && errno == EINTR)
                        continue;
                if (n <= 0) {
                        reply_abort(r);
                        return -EPIPE;
                }
                if (reply_write(r, piece, (size_t)n) < 0)
                        return -EPIPE;
                at += (uint64_t)n;
        }
        return 0;
}

/* Nobody shows it, whatever it looks like. */
static int begin_bytes(struct request *r, const char *type, int64_t size)
{
        (void)reply_header(r, "Content-Disposition", "attachment");
        (void)reply_header(r, "Content-Security-Policy", "sandbox; default-src 'none'");
        return reply_begin(r, 200, type, size);
}

void api_file_get(struct request *r)
{
        static const char *const none[] = {NULL};
        _cleanup_close_ int fd = -1;
        const char *path = "";
        uint64_t size = 0, until_usec = 0;
        gb_error err = {0};

        int e = request_check_query(r, none, &err);
        if (e == 0)
                e = path_of(r, &path, &err);
        if (e == 0) {
                _cleanup_live_session_ struct live_session *s = NULL;
                struct files files;
                e = session_of(r, &s, &files, &err);
                if (e == 0)
                        e = fd = files_open(&files, path, &size, &err);
                if (e < 0)
                        refuse(r, s, path, &err);
        } else {
                reply_error(r, &err);
        }
        if (e < 0)
                return;
        if (begin_bytes(r, "application/octet-stream", (int64_t)MIN(size, (uint64_t)INT64_MAX)) == 0 && send_file(r, fd, size, &until_usec) == 0)
                (void)reply_end(r);
}

/* ---- in ---- */

/* Octal digits, of which the permissions are taken. */
static int read_mode(const struct request *r, mode_t fallback, mode_t *ret, gb_error *err)
{
        const char *text = request_query(r, "mode");
        unsigned mode = fallback;

        if (text && (text[0] == '\0' || strlen(text) > 5 || strspn(text, "01234567") != strlen(text) || sscanf(text, "%o", &mode) != 1))
                return error_set(err, GB_E_USAGE, EINVAL, "mode: %s is not a mode such as 0644", quote(text).text);
        *ret = mode & 0777;
        return 0;
}

struct put_options {
        mode_t mode;
        bool parents, directory;
};

static int read_put(struct request *r, struct put_options *ret, gb_error *err)
{
        static const char *const names[] = {"mode", "parents", "directory", NULL};

        int e = request_check_query(r, names, err);
        if (e == 0)
                e = request_query_bool(r, "parents", &ret->parents, err);
        if (e == 0)
                e = request_query_bool(r, "directory", &ret->directory, err);
        if (e == 0)
                e = read_mode(r, ret->directory ? 0755 : 0644, &ret->mode, err);
        if (e == 0 && ret->directory && r->body.size > 0)
                e = error_set(err, GB_E_USAGE, EINVAL, "a directory has no bytes: send an empty body");
        return e;
}

static int put_file(struct request *r, struct live_session *s, const struct files *files, const char *path, const struct put_options *o, gb_error *err)
{
        const struct body *b = &r->body;
        struct file_source source = {.bytes = b->memory.data, .fd = b->fd, .size = b->size};

        int e = session_room(s->session, b->size, 1, o->parents ? files_depth(path) : 0, err);
        return e < 0 ? e : files_put(files, path, &source, o->mode, o->parents, err);
}

static int make_directory(struct live_session *s, const struct files *files, const char *path, const struct put_options *o, gb_error *err)
{
        int e = session_room(s->session, 0, 1, o->parents ? files_depth(path) : 0, err);

        if (e < 0)
                return e;
        return o->parents ? files_make_directories(files, path, o->mode, err) : files_make_directory(files, path, o->mode, err);
}

void api_file_put(struct request *r)
{
        _cleanup_live_session_ struct live_session *s = NULL;
        struct put_options o = {0};
        struct files files;
        const char *path = "";
        gb_error err = {0};

        int e = read_put(r, &o, &err);
        if (e == 0)
                e = path_of(r, &path, &err);
        if (e == 0)
                e = session_of(r, &s, &files, &err);
        if (e == 0 && o.directory)
                e = make_directory(s, &files, path, &o, &err);
        else if (e == 0)
                e = put_file(r, s, &files, path, &o, &err);
        if (e < 0)
                refuse(r, s, path, &err);
        else
                reply_json(r, 201, json_pack("{s:o, s:I}", "path", scrubbed_text(session_scrub(s->session), path, strlen(path), NULL), "size",
                                             (json_int_t)r->body.size));
}

void api_file_delete(struct request *r)
{
        static const char *const names[] = {"recursive", NULL};
        _cleanup_live_session_ struct live_session *s = NULL;
        struct files files;
        const char *path = "";
        bool recursive = false;
        gb_error err = {0};

        int e = request_check_query(r, names, &err);
        if (e == 0)
                e = request_query_bool(r, "recursive", &recursive, &err);
        if (e == 0)
                e = path_of(r, &path, &err);
        if (e == 0)
                e = session_of(r, &s, &files, &err);
        if (e == 0)
                e = recursive ? files_remove_tree(&files, path, &err) : files_remove(&files, path, &err);
        if (e < 0)
                refuse(r, s, path, &err);
        else
                reply_empty(r, 204);
}

/* ---- archives ---- */

/* Looks at all of it before the first byte is sent: what cannot be put into an archive is told as any error is. */
static int measure(const struct files *files, const char *path, uint64_t max_holes, uint64_t *ret_skipped, gb_error *err)
{
        _cleanup_files_walk_ struct files_walk *w = NULL;
        struct walk_entry e;
        uint64_t holes = 0;

        int r = files_walk_new(files, path, &w, err);
        while (r >= 0 && (r = files_walk_next(w, &e, err)) > 0) {
                uint64_t size = e.fd >= 0 ? (uint64_t)e.st.st_size : 0, blocks = (uint64_t)e.st.st_blocks * 512;
                holes += size > blocks ? size - blocks : 0;
                if (holes > max_holes)
                        return error_set(err, GB_E_LIMIT, EFBIG, "%s has holes: as an archive it would be larger than the workspace may be", quote(e.path).text);
        }
        *ret_skipped = r == 0 ? files_walk_skipped(w) : 0;
        return r < 0 ? r : 0;
}

static int send_entry(struct request *r, const struct walk_entry *e, uint64_t *until_usec)
{
        static const char zeros[TAR_BLOCK_BYTES];
        _cleanup_buffer_ struct buffer head;

        buffer_init(&head, 4 * HOST_PATH_MAX);
        if (tar_add_header(&head, e->path, &e->st) < 0) {
                reply_abort(r);
                return -EPIPE;
        }
        int n = reply_write(r, head.data, head.size);
        if (n < 0 || e->fd < 0)
                return n;
        uint64_t size = (uint64_t)e->st.st_size, over = size % TAR_BLOCK_BYTES;
        n = send_file(r, e->fd, size, until_usec);
        return n < 0 || over == 0 ? n : reply_write(r, zeros, (size_t)(TAR_BLOCK_BYTES - over));
}

static void send_archive(struct request *r, struct files_walk *w)
{
        _cleanup_buffer_ struct buffer end;
        struct walk_entry e;
        uint64_t until_usec = 0;
        int n;

        buffer_init(&end, 4 * TAR_BLOCK_BYTES);
        while ((n = files_walk_next(w, &e, NULL)) > 0)
                if (!may_go_on(r, &until_usec) || send_entry(r, &e, &until_usec) < 0) {
                        reply_abort(r);
                        return;
                }
        if (n < 0 || tar_add_end(&end) < 0)
                reply_abort(r);
        else if (reply_write(r, end.data, end.size) == 0)
                (void)reply_end(r);
}

void api_archive_get(struct request *r)
{
        static const char *const names[] = {"path", NULL};
        _cleanup_files_walk_ struct files_walk *w = NULL;
        uint64_t skipped = 0;
        gb_error err = {0};

        int e = request_check_query(r, names, &err);
        if (e == 0) {
                _cleanup_live_session_ struct live_session *s = NULL;
                struct files files;
                e = session_of(r, &s, &files, &err);
                if (e == 0)
                        e = measure(&files, directory_of(r), s->policy->disk_limit_bytes, &skipped, &err);
                if (e == 0)
                        e = files_walk_new(&files, directory_of(r), &w, &err);
                if (e < 0)
                        refuse(r, s, directory_of(r), &err);
        } else {
                reply_error(r, &err);
        }
        if (e < 0)
                return;
        (void)reply_header(r, "Glovebox-Skipped", "%llu", (unsigned long long)skipped);
        if (begin_bytes(r, "application/x-tar", -1) == 0)
                send_archive(r, w);
}

static int check_type(const struct request *r, gb_error *err)
{
        static const char *const types[] = {"application/x-tar", "application/gzip"};
        const char *type = request_header(r, "content-type");
        size_t size = type ? strcspn(type, "; \t") : 0;

        for (size_t i = 0; i < ARRAY_SIZE(types); i++)
                if (size == strlen(types[i]) && strncasecmp(type, types[i], size) == 0)
                        return 0;
        return error_set(err, GB_E_MEDIA, EINVAL, "an archive is %s, plain or compressed by gzip; this is %s", types[0], quote(type ? type : "nothing").text);
}

/* The body as a descriptor; the request's, or a new one. */
static int body_fd(const struct body *b, int *ret_own, gb_error *err)
{
        if (b->fd >= 0)
                return b->fd;
        *ret_own = memfd_create("archive", MFD_CLOEXEC);
        int e = *ret_own < 0 ? -errno : fd_write_all(*ret_own, b->memory.data, b->memory.size);
        return e < 0 ? error_set(err, GB_E_INTERNAL, -e, "cannot hand on the archive: %s", strerror(-e)) : *ret_own;
}

void api_archive_put(struct request *r)
{
        static const char *const names[] = {"path", NULL};
        _cleanup_live_session_ struct live_session *s = NULL;
        _cleanup_free_ char *entry = calloc(1, HOST_PATH_MAX);
        _cleanup_close_ int own = -1;
        struct archive_totals totals;
        struct files files;
        gb_error err = {0};

        int e = entry ? request_check_query(r, names, &err) : error_set(&err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (e == 0)
                e = check_type(r, &err);
        if (e == 0)
                e = session_of(r, &s, &files, &err);
        int fd = e == 0 ? body_fd(&r->body, &own, &err) : e;
        e = fd < 0 ? fd : archive_unpack(s->session, directory_of(r), fd, &totals, entry, &err);
        if (e < 0)
                refuse_with(r, s, entry && entry[0] ? entry : directory_of(r), &err, entry && entry[0] ? json_pack("{s:o}", "entry", json_readable(entry, strlen(entry))) : NULL);
        else
                reply_json(r, 200, json_pack("{s:I, s:I}", "entries", (json_int_t)totals.entries, "bytes", (json_int_t)totals.bytes));
}
