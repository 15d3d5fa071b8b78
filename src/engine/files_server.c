/* SPDX-License-Identifier: Apache-2.0
 *
 * The server of files, inside the box. It has the rights of the box's user and no others, and serves who has started it: what the code
 * beside it can do to it, it could do to the workspace anyway. It waits for its other side as long as that takes; the end of the connection is
 * its end. */
#include "engine/files_state.h"
#include "engine/files_wire.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct server {
        struct files_stream *stream;
        const struct files *files;
        struct files_request request;
        char path[HOST_PATH_MAX], after[NAME_MAX + 1];
        uint64_t left; /* FILES_PUT: of the frame that is being read */
};

static int send_done(struct server *v, const struct files_done *done, const char *last)
{
        return files_stream_frame(v->stream, FILES_DONE, done, sizeof(*done), last, last ? strlen(last) : 0);
}

/* ---- FILES_PUT ---- */

static int next_data(struct server *v)
{
        struct files_frame frame;
        int32_t errnum;

        int r = files_stream_read(v->stream, &frame, sizeof(frame));
        if (r < 0)
                return r;
        if (frame.type == FILES_ABORT && frame.size == sizeof(errnum)) {
                r = files_stream_read(v->stream, &errnum, sizeof(errnum));
                return r < 0 ? r : errnum > 0 && errnum < FILES_ERRNO_MAX ? -errnum : -EPROTO;
        }
        if (frame.type != FILES_DATA || frame.size == 0 || frame.size > FILE_PIECE_BYTES)
                return -EPROTO;
        v->left = frame.size;
        return 0;
}

static int read_data(void *data, void *bytes, size_t size)
{
        struct server *v = data;
        char *to = bytes;

        while (size > 0) {
                int r = v->left > 0 ? 0 : next_data(v);
                size_t n = MIN((size_t)v->left, size);
                if (r == 0)
                        r = files_stream_read(v->stream, to, n);
                if (r < 0)
                        return r;
                v->left -= n;
                to += n;
                size -= n;
        }
        return 0;
}

static int serve_put(struct server *v, gb_error *err)
{
        struct file_source source = {.fd = -1, .read = read_data, .data = v, .size = v->request.size};

        return files_put(v->files, v->path, &source, (mode_t)v->request.mode, (v->request.flags & FILES_FLAG_PARENTS) != 0, err);
}

/* Why it failed has been said, while the other side perhaps still sends: what it sends is read, or the connection would be reset and
 * the answer lost with it. */
static void drain(struct files_stream *s)
{
        shutdown(s->fd, SHUT_WR);
        while (files_stream_read(s, s->out, 1) == 0)
                s->in_at = s->in_end;
}

/* ---- out ---- */

static int send_piece(struct server *v, int fd, char *piece, uint64_t at, uint64_t end)
{
        ssize_t n = pread(fd, piece, (size_t)MIN((uint64_t)FILE_PIECE_BYTES, end - at), (off_t)at);

        if (n <= 0)
                return n < 0 ? -errno : 0;
        int r = files_stream_frame(v->stream, FILES_DATA, piece, (size_t)n, NULL, 0);
        return r < 0 ? -EPIPE : (int)n;
}

/* Where the next bytes that are no hole begin. A file system that does not tell has no holes. */
static uint64_t skip_hole(int fd, uint64_t at, uint64_t size)
{
        struct stat st;

        off_t data = lseek(fd, (off_t)at, SEEK_DATA);
        if (data < 0 && errno == ENXIO && fstat(fd, &st) == 0)
                data = st.st_size; /* none follow */
        return data < 0 || (uint64_t)data < at ? at : MIN((uint64_t)data, size);
}

/* Up to the size that was said. */
static int send_content(struct server *v, int fd, uint64_t size, const char *path, gb_error *err)
{
        _cleanup_free_ char *piece = malloc(FILE_PIECE_BYTES);
        uint64_t at = 0;

        if (!piece)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        while (at < size) {
                uint64_t to = skip_hole(fd, at, size);
                if (to > at && files_stream_frame(v->stream, FILES_HOLE, &to, sizeof(to), NULL, 0) < 0)
                        return error_set(err, GB_E_LOST, EPIPE, "nobody listens");
                at = to;
                if (at == size)
                        break;
                off_t hole = lseek(fd, (off_t)at, SEEK_HOLE);
                int n = send_piece(v, fd, piece, at, hole > (off_t)at ? MIN((uint64_t)hole, size) : size);
                if (n < 0)
                        return n == -EPIPE ? error_set(err, GB_E_LOST, EPIPE, "nobody listens") : files_fail(err, -n, "read", path);
                if (n == 0)
                        break; /* it has shrunk */
                at += (uint64_t)n;
        }
        return files_stream_frame(v->stream, FILES_END, NULL, 0, NULL, 0);
}

static int serve_open(struct server *v, gb_error *err)
{
        struct files_item item = {0};

        _cleanup_close_ int fd = files_open(v->files, v->path, &item.size, err);
        if (fd < 0)
                return fd;
        item.mode = S_IFREG;
        int r = files_stream_frame(v->stream, FILES_FILE, &item, sizeof(item), NULL, 0);
        if (r == 0)
                r = files_stream_flush(v->stream); /* it may be too much for the other side */
        return r < 0 ? r : send_content(v, fd, item.size, v->path, err);
}

static int serve_list(struct server *v, gb_error *err)
{
        _cleanup_file_list_ struct file_list *l = NULL;
        const char *after = v->request.flags & FILES_FLAG_AFTER ? v->after : NULL;

        int r = files_list_page(v->files, v->path, after, (size_t)v->request.size, &l, err);
        for (size_t i = 0; r == 0 && i < l->n; i++) {
                const struct file_entry *e = &l->entries[i];
                struct files_item item = {.mode = e->mode, .size = e->size, .modified_usec = e->modified_usec};
                r = files_stream_frame(v->stream, FILES_ENTRY, &item, sizeof(item), e->name, strlen(e->name));
        }
        struct files_done done = {.truncated = r == 0 && l->truncated};
        return r < 0 ? r : send_done(v, &done, done.truncated ? l->last : NULL);
}

static int serve_walk(struct server *v, gb_error *err)
{
        _cleanup_files_walk_ struct files_walk *w = NULL;
        struct walk_entry e;

        int r = files_walk_new(v->files, v->path, &w, err);
        if (r == 0)
                r = files_stream_frame(v->stream, FILES_READY, NULL, 0, NULL, 0);
        if (r == 0)
                r = files_stream_flush(v->stream);
        while (r >= 0 && (r = files_walk_next(w, &e, err)) > 0) {
                struct files_item item = {
                        .mode = e.st.st_mode, .size = e.fd < 0 ? 0 : (uint64_t)e.st.st_size, .blocks = (uint64_t)e.st.st_blocks,
                        .modified_usec = files_time_usec(&e.st.st_mtim), .skipped = files_walk_skipped(w),
                };
                r = files_stream_frame(v->stream, FILES_FILE, &item, sizeof(item), e.path, strlen(e.path));
                if (r == 0 && e.fd >= 0)
                        r = send_content(v, e.fd, item.size, e.path, err);
        }
        struct files_done done = {.skipped = r == 0 ? files_walk_skipped(w) : 0};
        return r < 0 ? r : send_done(v, &done, NULL);
}

/* ---- requests ---- */

static int serve_plain(struct server *v, gb_error *err)
{
        const struct files *f = v->files;
        mode_t mode = (mode_t)v->request.mode;

        switch (v->request.verb) {
        case FILES_PUT:
                return serve_put(v, err);
        case FILES_MAKE_DIRECTORY:
                return files_make_directory(f, v->path, mode, err);
        case FILES_MAKE_DIRECTORIES:
                return files_make_directories(f, v->path, mode, err);
        case FILES_REMOVE:
                return files_remove(f, v->path, err);
        case FILES_REMOVE_TREE:
                return files_remove_tree(f, v->path, err);
        case FILES_CHECK_FREE:
                return files_check_free(f, v->path, (v->request.flags & FILES_FLAG_DIRECTORY) != 0, err);
        default:
                return error_set(err, GB_E_INTERNAL, ENOSYS, "the server of files in the box does not know the request %u", v->request.verb);
        }
}

static int serve(struct server *v, gb_error *err)
{
        switch (v->request.verb) {
        case FILES_OPEN:
                return serve_open(v, err);
        case FILES_LIST:
                return serve_list(v, err);
        case FILES_WALK:
                return serve_walk(v, err);
        default: {
                int r = serve_plain(v, err);
                return r < 0 ? r : send_done(v, &(struct files_done){0}, NULL);
        }
        }
}

static int read_request(struct server *v)
{
        struct files_request *q = &v->request;
        struct files_frame frame;

        int r = files_stream_read(v->stream, &frame, sizeof(frame));
        if (r < 0)
                return r;
        if (frame.type != FILES_REQUEST || frame.size < sizeof(*q))
                return -EPROTO;
        r = files_stream_read(v->stream, q, sizeof(*q));
        if (r < 0)
                return r;
        if (q->version != FILES_WIRE_VERSION || q->path_size == 0 || q->path_size >= sizeof(v->path) || q->after_size >= sizeof(v->after) ||
            frame.size != sizeof(*q) + q->path_size + q->after_size || q->size > INT64_MAX)
                return -EPROTO;
        if (q->verb == FILES_LIST && (q->size == 0 || q->size > FILE_LIST_MAX))
                return -EPROTO;
        r = files_stream_read(v->stream, v->path, q->path_size);
        if (r == 0)
                r = files_stream_read(v->stream, v->after, q->after_size);
        v->path[q->path_size] = v->after[q->after_size] = '\0';
        if (r == 0 && (strlen(v->path) != q->path_size || strlen(v->after) != q->after_size))
                r = -EPROTO;
        return r;
}

int files_server_run(int fd, const struct files *f)
{
        _cleanup_files_stream_ struct files_stream *stream = NULL;
        _cleanup_free_ struct server *v = calloc(1, sizeof(*v));
        gb_error err = {0};

        int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (own < 0)
                return -errno;
        int r = files_stream_new(own, 0, &stream);
        if (r < 0 || !v)
                return -ENOMEM;
        v->stream = stream;
        v->files = f;
        r = read_request(v);
        if (r == -EPROTO)
                (void)error_set(&err, GB_E_INTERNAL, EPROTO, "the server of files in the box was asked for what it does not understand");
        if (r == 0)
                r = serve(v, &err);
        if (r < 0 && err.code != GB_E_NONE) {
                struct files_failure failure = {.code = (uint32_t)err.code, .errnum = err.errnum};
                memcpy(failure.message, err.message, sizeof(failure.message));
                r = files_stream_frame(stream, FILES_FAILED, &failure, sizeof(failure), NULL, 0);
                if (r == 0)
                        r = files_stream_flush(stream);
                if (r == 0)
                        drain(stream);
                return r;
        }
        return r < 0 ? r : files_stream_flush(stream);
}
