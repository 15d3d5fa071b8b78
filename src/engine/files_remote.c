/* SPDX-License-Identifier: Apache-2.0
 *
 * Files behind a server in the box: the side that asks. Whatever comes is checked before it is used: the kind and the size of each frame,
 * names, sizes against what was announced and against what a workspace may hold; and its errors are ours only after they have been
 * made printable. The first wrong byte ends the operation: GB_E_LOST. */
#include "engine/files_remote.h"

#include "base/fd.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "engine/files_state.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- frames ---- */

static int lost(gb_error *err, int r)
{
        switch (r) {
        case -EPIPE:
                return error_set(err, GB_E_LOST, EPIPE, "the server of files in the box has ended before its answer did: the box may be gone");
        case -ETIMEDOUT:
                return error_set(err, GB_E_LOST, ETIMEDOUT, "the server of files in the box has been silent for too long");
        default:
                return error_set(err, GB_E_LOST, -r, "the server of files in the box cannot be reached: %s", strerror(-r));
        }
}

int files_broken(gb_error *err, const char *rule)
{
        return error_set(err, GB_E_LOST, EPROTO, "the server of files in the box does not keep the rules (%s): do not trust what is in it", rule);
}

/* Control characters and their like become '?'. */
static void make_printable(char text[static GB_ERROR_MESSAGE_MAX])
{
        uint32_t c;

        text[GB_ERROR_MESSAGE_MAX - 1] = '\0';
        for (size_t left = strlen(text); left > 0;) {
                size_t n = utf8_decode(text, left, &c);
                if (n == 0 || !quote_is_printable(c)) {
                        n = 1;
                        *text = '?';
                }
                text += n;
                left -= n;
        }
}

/* Of the codes those that operations on files have. */
static gb_error_code known_code(uint32_t code)
{
        static const gb_error_code known[] = {
                GB_E_USAGE, GB_E_NOT_FOUND, GB_E_LIMIT, GB_E_CONFLICT, GB_E_UNAVAILABLE, GB_E_DISK_FULL,
        };

        for (size_t i = 0; i < ARRAY_SIZE(known); i++)
                if ((uint32_t)known[i] == code)
                        return known[i];
        return GB_E_INTERNAL;
}

static int failed(struct files_stream *s, gb_error *err)
{
        struct files_failure failure;

        int r = files_stream_read(s, &failure, sizeof(failure));
        if (r < 0)
                return lost(err, r);
        make_printable(failure.message);
        int errnum = failure.errnum > 0 && failure.errnum < FILES_ERRNO_MAX ? failure.errnum : EIO;
        return error_set(err, known_code(failure.code), errnum, "%s", failure.message[0] ? failure.message : "the server of files in the box gives no reason");
}

int files_answer(struct files_stream *s, uint32_t types, struct files_frame *ret, gb_error *err)
{
        static const struct {
                uint32_t min, max;
        } sizes[FILES_TYPES] = {
                [FILES_DATA] = {1, FILE_PIECE_BYTES},
                [FILES_FILE] = {sizeof(struct files_item), sizeof(struct files_item) + HOST_PATH_MAX - 1},
                [FILES_HOLE] = {sizeof(uint64_t), sizeof(uint64_t)},
                [FILES_ENTRY] = {sizeof(struct files_item) + 1, sizeof(struct files_item) + NAME_MAX},
                [FILES_DONE] = {sizeof(struct files_done), sizeof(struct files_done) + NAME_MAX},
                [FILES_FAILED] = {sizeof(struct files_failure), sizeof(struct files_failure)},
        };

        int r = files_stream_read(s, ret, sizeof(*ret));
        if (r < 0)
                return lost(err, r);
        if (ret->type >= FILES_TYPES || !((types | FILES_ANY(FILES_FAILED)) & FILES_ANY(ret->type)))
                return files_broken(err, "an answer that does not belong here");
        if (ret->size < sizes[ret->type].min || ret->size > sizes[ret->type].max)
                return files_broken(err, "an answer of a wrong size");
        return ret->type == FILES_FAILED ? failed(s, err) : 0;
}

int files_payload(struct files_stream *s, void *bytes, size_t size, gb_error *err)
{
        int r = files_stream_read(s, bytes, size);

        return r < 0 ? lost(err, r) : 0;
}

/* size bytes and a NUL, none of which is a NUL before. */
static int payload_text(struct files_stream *s, char *text, size_t size, gb_error *err)
{
        int r = files_payload(s, text, size, err);

        if (r < 0)
                return r;
        text[size] = '\0';
        return strlen(text) == size ? 0 : files_broken(err, "a NUL in a name");
}

int files_payload_item(struct files_stream *s, const struct files_frame *frame, struct files_item *ret, char *ret_name, size_t max, gb_error *err)
{
        size_t size = frame->size - sizeof(*ret);

        if (size >= max)
                return files_broken(err, "a name that is too long");
        int r = files_payload(s, ret, sizeof(*ret), err);
        if (r == 0)
                r = payload_text(s, ret_name, size, err);
        if (r == 0 && (ret->size > INT64_MAX || ret->blocks > INT64_MAX))
                r = files_broken(err, "a size that no file has");
        return r;
}

/* ---- asking ---- */

int files_call(const struct files *f, const struct files_ask *ask, struct files_stream **ret, gb_error *err)
{
        _cleanup_files_stream_ struct files_stream *s = NULL;
        char checked[HOST_PATH_MAX];
        size_t path_size = strlen(ask->path), after_size = ask->after ? strnlen(ask->after, NAME_MAX) : 0;
        struct files_frame frame = {FILES_REQUEST, (uint32_t)(sizeof(struct files_request) + path_size + after_size)};
        struct files_request request = {
                .version = FILES_WIRE_VERSION, .verb = ask->verb, .mode = ask->mode & FILE_PERMISSIONS, .flags = ask->flags, .size = ask->size,
                .path_size = (uint32_t)path_size, .after_size = (uint32_t)after_size,
        };

        int r = files_check_path(ask->path, path_size, checked, err);
        if (r < 0)
                return r;
        int fd = f->remote->dial(f->remote->data, err);
        if (fd < 0)
                return fd;
        if (files_stream_new(fd, REMOTE_QUIET_USEC, &s) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        /* A directory may take its time to go before there is anything to say. */
        if (ask->verb == FILES_REMOVE_TREE)
                s->quiet_usec += FILE_REMOVE_USEC;
        r = files_stream_write(s, &frame, sizeof(frame));
        if (r == 0)
                r = files_stream_write(s, &request, sizeof(request));
        if (r == 0)
                r = files_stream_write(s, ask->path, path_size);
        if (r == 0)
                r = files_stream_write(s, ask->after, after_size);
        if (r == 0)
                r = files_stream_flush(s);
        if (r < 0)
                return lost(err, r);
        *ret = TAKE_PTR(s);
        return 0;
}

static int done(struct files_stream *s, gb_error *err)
{
        struct files_frame frame;
        struct files_done d;

        int r = files_answer(s, FILES_ANY(FILES_DONE), &frame, err);
        if (r == 0)
                r = files_payload(s, &d, sizeof(d), err);
        if (r == 0 && frame.size != sizeof(d))
                r = files_broken(err, "an answer of a wrong size");
        return r;
}

int files_remote_do(const struct files *f, const struct files_ask *ask, gb_error *err)
{
        _cleanup_files_stream_ struct files_stream *s = NULL;
        int r = files_call(f, ask, &s, err);

        return r < 0 ? r : done(s, err);
}

/* ---- in ---- */

/* 1: all was sent; 0: the server answers before, or does not read any more. */
static int send_source(struct files_stream *s, const struct file_source *source)
{
        bool in_memory = source->fd < 0 && !source->read;
        _cleanup_free_ char *piece = in_memory ? NULL : malloc(FILE_PIECE_BYTES);
        int r = in_memory || piece ? 0 : -ENOMEM;

        for (uint64_t at = 0; r == 0 && at < source->size;) {
                if (files_stream_answers(s))
                        return 0;
                size_t n = (size_t)MIN((uint64_t)FILE_PIECE_BYTES, source->size - at);
                if (!in_memory)
                        r = files_source_read(source, at, piece, n);
                if (r == 0 && files_stream_frame(s, FILES_DATA, in_memory ? (const char *)source->bytes + at : piece, n, NULL, 0) < 0)
                        return 0;
                at += n;
        }
        if (r < 0) {
                int32_t errnum = -r;
                (void)files_stream_frame(s, FILES_ABORT, &errnum, sizeof(errnum), NULL, 0);
        }
        return files_stream_flush(s) == 0 && r == 0;
}

int files_remote_put(const struct files *f, const char *path, const struct file_source *source, mode_t mode, bool parents, gb_error *err)
{
        struct files_ask ask = {.verb = FILES_PUT, .path = path, .mode = mode, .flags = parents ? FILES_FLAG_PARENTS : 0, .size = source->size};
        _cleanup_files_stream_ struct files_stream *s = NULL;

        int r = files_call(f, &ask, &s, err);
        if (r < 0)
                return r;
        bool all = send_source(s, source);
        /* What it failed with was perhaps said before it stopped to read; or it is what the source failed with, as the server has heard. */
        r = done(s, err);
        return r == 0 && !all ? files_broken(err, "a file that is whole before its last byte was sent") : r;
}

/* ---- out ---- */

/* A file that has no name and goes with its descriptor. */
static int open_copy(uint64_t size)
{
        const char *directory = secure_getenv("TMPDIR");
        int fd = -1;

        if (size > REMOTE_MEMORY_BYTES) {
                if (directory && directory[0] == '/')
                        fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
                if (fd < 0)
                        fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        }
        return fd < 0 ? memfd_create("glovebox-file", MFD_CLOEXEC) : fd;
}

static int no_copy(gb_error *err, int errnum, const char *path)
{
        bool is_full = errnum == ENOSPC || errnum == EDQUOT;

        return error_set(err, is_full ? GB_E_DISK_FULL : GB_E_INTERNAL, errnum, "cannot copy %s out of the box: %s%s", quote(path).text, strerror(errnum),
                         is_full ? " (in the directory for temporary files)" : "");
}

static int write_at(int fd, const char *bytes, size_t size, uint64_t at)
{
        while (size > 0) {
                ssize_t n = pwrite(fd, bytes, size, (off_t)at);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
                bytes += n;
                at += (uint64_t)n;
                size -= (size_t)n;
        }
        return 0;
}

static int receive_piece(struct files_stream *s, int fd, char *piece, size_t size, uint64_t at, const char *path, gb_error *err)
{
        int r = files_payload(s, piece, size, err);

        if (r < 0)
                return r;
        r = write_at(fd, piece, size, at);
        return r < 0 ? no_copy(err, -r, path) : 0;
}

int files_receive_content(struct files_stream *s, const char *path, uint64_t size, uint64_t bytes_max, gb_error *err)
{
        _cleanup_close_ int fd = open_copy(size);
        _cleanup_free_ char *piece = malloc(FILE_PIECE_BYTES);
        uint64_t at = 0, bytes = 0;
        struct files_frame frame;

        if (fd < 0 || !piece)
                return no_copy(err, fd < 0 ? errno : ENOMEM, path);
        for (;;) {
                uint64_t to = at;
                int r = files_answer(s, FILES_ANY(FILES_DATA) | FILES_ANY(FILES_HOLE) | FILES_ANY(FILES_END), &frame, err);
                if (r < 0)
                        return r;
                if (frame.type == FILES_END)
                        break;
                if (frame.type == FILES_HOLE)
                        r = files_payload(s, &to, sizeof(to), err);
                else
                        to = at + frame.size;
                if (r == 0 && (to <= at || to > size))
                        r = files_broken(err, "bytes beyond the end of a file");
                if (r == 0 && frame.type == FILES_DATA && (bytes += frame.size) > bytes_max)
                        r = error_set(err, GB_E_LIMIT, EFBIG, "%s has more bytes than its workspace may have", quote(path).text);
                if (r == 0 && frame.type == FILES_DATA)
                        r = receive_piece(s, fd, piece, frame.size, at, path, err);
                if (r < 0)
                        return r;
                at = to;
        }
        if (ftruncate(fd, (off_t)at) < 0)
                return no_copy(err, errno, path);
        return TAKE_FD(fd);
}

int files_remote_open(const struct files *f, const char *path, uint64_t max, uint64_t *ret_size, gb_error *err)
{
        _cleanup_files_stream_ struct files_stream *s = NULL;
        struct files_frame frame;
        struct files_item item;
        char none[1];

        int r = files_call(f, &(struct files_ask){.verb = FILES_OPEN, .path = path}, &s, err);
        if (r == 0)
                r = files_answer(s, FILES_ANY(FILES_FILE), &frame, err);
        if (r == 0)
                r = files_payload_item(s, &frame, &item, none, sizeof(none), err);
        if (r < 0)
                return r;
        if (item.size > max)
                return files_too_large(err, path);
        int fd = files_receive_content(s, path, item.size, f->remote->bytes_max, err);
        if (fd >= 0)
                *ret_size = item.size;
        return fd;
}

/* ---- lists ---- */

static bool is_name(const char *name)
{
        return name[0] && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static bool is_type(mode_t mode)
{
        switch (mode & S_IFMT) {
        case S_IFREG:
        case S_IFDIR:
        case S_IFLNK:
        case S_IFIFO:
        case S_IFSOCK:
        case S_IFCHR:
        case S_IFBLK:
                return true;
        default:
                return false;
        }
}

static int add_entry(struct file_list *l, const struct files_item *item, const char *name, gb_error *err)
{
        if ((l->n & (l->n + 1)) == 0) {
                struct file_entry *grown = realloc(l->entries, (l->n + 1) * 2 * sizeof(*grown));
                if (!grown)
                        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
                l->entries = grown;
        }
        struct file_entry e = {
                .name = strdup(name), .mode = item->mode & (S_IFMT | 07777), .size = item->size, .modified_usec = item->modified_usec,
        };
        if (!e.name)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        l->entries[l->n++] = e;
        return 0;
}

/* Its order is what says that no name comes twice, and that the pages come to an end. */
static int receive_entry(struct files_stream *s, const struct files_frame *frame, struct file_list *l, const char *before, gb_error *err)
{
        struct files_item item;
        char name[NAME_MAX + 1];

        int r = files_payload_item(s, frame, &item, name, sizeof(name), err);
        if (r < 0)
                return r;
        if (!is_name(name) || !is_type(item.mode))
                return files_broken(err, "an entry that cannot be one");
        if (before && strcmp(name, before) <= 0)
                return files_broken(err, "entries that are not in order");
        return add_entry(l, &item, name, err);
}

static int receive_end(struct files_stream *s, const struct files_frame *frame, struct file_list *l, const char *after, gb_error *err)
{
        const char *before = l->n > 0 ? l->entries[l->n - 1].name : after;
        struct files_done d;
        char name[NAME_MAX + 1];

        int r = files_payload(s, &d, sizeof(d), err);
        if (r == 0)
                r = payload_text(s, name, frame->size - sizeof(d), err);
        if (r < 0)
                return r;
        l->truncated = d.truncated != 0;
        if (!l->truncated)
                return name[0] == '\0' ? 0 : files_broken(err, "a name behind the last");
        if (!is_name(name) || (before && strcmp(name, before) < (l->n > 0 ? 0 : 1)))
                return files_broken(err, "entries that are not in order");
        l->last = strdup(name);
        return l->last ? 0 : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
}

int files_remote_list(const struct files *f, const char *path, const char *after, size_t limit, struct file_list **ret, gb_error *err)
{
        struct files_ask ask = {.verb = FILES_LIST, .path = path, .flags = after ? FILES_FLAG_AFTER : 0, .after = after};
        _cleanup_files_stream_ struct files_stream *s = NULL;
        _cleanup_file_list_ struct file_list *l = calloc(1, sizeof(*l));
        struct files_frame frame;

        ask.size = MIN((uint64_t)limit, (uint64_t)FILE_LIST_MAX);
        int r = l ? files_call(f, &ask, &s, err) : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        while (r == 0) {
                r = files_answer(s, FILES_ANY(FILES_ENTRY) | FILES_ANY(FILES_DONE), &frame, err);
                if (r == 0 && frame.type == FILES_DONE)
                        break;
                if (r == 0 && l->n >= ask.size)
                        r = files_broken(err, "more entries than were asked for");
                if (r == 0)
                        r = receive_entry(s, &frame, l, l->n > 0 ? l->entries[l->n - 1].name : after, err);
        }
        if (r == 0)
                r = receive_end(s, &frame, l, after, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(l);
        return 0;
}
