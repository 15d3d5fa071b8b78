/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox session files push and pull: whole directories, as archives.
 *
 * What comes out of a box is hostile. It goes into a directory that is new or empty unless the caller insists; below that, every path is
 * resolved by the kernel without links and without a way up (engine/files.h); files have plain permissions and nothing is a link. */
#include "cli/session_files.h"

#include "base/fd.h"
#include "base/quote.h"
#include "cli/archive.h"
#include "cli/output.h"
#include "engine/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PIECE_BYTES 65536

int files_temporary(gb_error *err)
{
        const char *dir = getenv("TMPDIR");

        if (!dir || dir[0] != '/')
                dir = "/tmp";
        int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (fd >= 0)
                return fd;
        /* A file system without such files. */
        _cleanup_free_ char *name = NULL;
        if (asprintf(&name, "%s/glovebox-XXXXXX", dir) < 0)
                return service_out_of_memory(err);
        fd = mkostemp(name, O_CLOEXEC);
        if (fd < 0)
                return error_set(err, GB_E_DISK_FULL, errno, "cannot make a file in %s: %s", quote(dir).text, strerror(errno));
        unlink(name);
        return fd;
}

int files_begin(struct files_call *f, const char *method, const char *target, const char *accept, const char *type, int fd, uint64_t size,
                gb_error *err)
{
        struct client *c = &f->service.client;

        int r = client_start(c, &(struct client_request){.method = method, .target = target, .accept = accept, .type = type, .body_size = (size_t)size, .body_fd = fd},
                             err);
        /* Each step sends what the server takes; a server that takes nothing for so long is given up. */
        while (r == 0 && !c->sent_all) {
                size_t before = c->body_sent;
                r = client_wait(c, CLIENT_SENDS, monotonic_usec() + CLIENT_ANSWER_USEC, -1, err);
                if (c->body_sent != before)
                        progress_show(&f->progress, c->body_sent);
        }
        if (r == 0)
                r = client_wait(c, CLIENT_HEAD, monotonic_usec() + CLIENT_ANSWER_USEC, -1, err);
        if (r < 0)
                return r;
        return c->response.status >= 400 ? service_refused(c, err) : 0;
}

int files_finish(struct files_call *f, gb_error *err)
{
        _cleanup_json_ json_t *answer = NULL;

        progress_done(&f->progress);
        int r = service_answer(&f->service, &answer, err);
        if (r < 0)
                return r;
        return arguments_has(f->arguments, OPT_JSON) ? output_json(answer) : 0;
}

/* ---- push ---- */

struct packing {
        int fd;
        uint64_t bytes;
        char piece[PIECE_BYTES];
};

static int put(struct packing *p, const void *bytes, size_t size, gb_error *err)
{
        int r = fd_write_all(p->fd, bytes, size);

        p->bytes += size;
        return r < 0 ? error_set(err, GB_E_DISK_FULL, -r, "cannot keep what is to be sent: %s", strerror(-r)) : 0;
}

/* Exactly as long as its head says: a file that grows is cut, one that shrinks is an error. */
static int put_content(struct packing *p, const struct walk_entry *e, gb_error *err)
{
        static const char zeros[ARCHIVE_BLOCK_BYTES];
        uint64_t size = (uint64_t)e->st.st_size;

        for (uint64_t at = 0; at < size;) {
                ssize_t n = pread(e->fd, p->piece, (size_t)MIN(size - at, (uint64_t)sizeof(p->piece)), (off_t)at);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return error_set(err, GB_E_CONFLICT, n < 0 ? errno : EBUSY, "%s cannot be read whole: %s", quote(e->path).text,
                                         n < 0 ? strerror(errno) : "it becomes shorter");
                int r = put(p, p->piece, (size_t)n, err);
                if (r < 0)
                        return r;
                at += (uint64_t)n;
        }
        return put(p, zeros, (size_t)(-size & (ARCHIVE_BLOCK_BYTES - 1)), err);
}

static int put_entry(struct packing *p, const struct walk_entry *e, gb_error *err)
{
        char head[ARCHIVE_HEAD_MAX];
        bool directory = e->fd < 0;

        long n = archive_head(head, e->path, directory, directory ? 0 : (uint64_t)e->st.st_size, e->st.st_mode, (int64_t)e->st.st_mtime);
        if (n < 0)
                return error_set(err, GB_E_LIMIT, (int)-n, "%s is too large, or its path too long", quote(e->path).text);
        int r = put(p, head, (size_t)n, err);
        return r < 0 || directory ? r : put_content(p, e, err);
}

static int pack(int directory, struct packing *p, gb_error *err)
{
        static const char zeros[2 * ARCHIVE_BLOCK_BYTES];
        struct files files = {.root_fd = directory, .uid = geteuid(), .gid = getegid()};
        _cleanup_files_walk_ struct files_walk *walk = NULL;
        struct walk_entry e;

        int r = files_walk_new(&files, ".", &walk, err);
        if (r < 0)
                return r;
        while ((r = files_walk_next(walk, &e, err)) > 0) {
                r = strcmp(e.path, ".") == 0 ? 0 : put_entry(p, &e, err);
                if (r < 0)
                        return r;
        }
        if (r == 0)
                r = put(p, zeros, sizeof(zeros), err);
        uint64_t skipped = files_walk_skipped(walk);
        if (r == 0 && skipped > 0)
                message_print(MESSAGE_WARNING, "%llu link%s and the like were left out", (unsigned long long)skipped, skipped == 1 ? "" : "s");
        return r;
}

static int open_directory(const char *path, gb_error *err)
{
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return fd < 0 ? error_set(err, GB_E_NOT_FOUND, errno, "cannot read the directory %s: %s", quote(path).text, strerror(errno)) : fd;
}

static int archive_target(struct files_call *f, struct buffer *target, gb_error *err)
{
        int r = files_target(f, "archive", NULL, target, err);
        if (r == 0 && f->n_words > 1 && files_add_query(target, "path", f->words[1]) < 0)
                r = service_out_of_memory(err);
        return r;
}

int session_files_push(struct files_call *f, gb_error *err)
{
        _cleanup_buffer_ struct buffer target;
        _cleanup_close_ int directory = open_directory(f->words[0], err), fd = directory < 0 ? -1 : files_temporary(err);
        _cleanup_free_ struct packing *packing = calloc(1, sizeof(*packing));

        buffer_init(&target, CLIENT_HEAD_BYTES_MAX);
        if (directory < 0 || fd < 0)
                return -EINVAL;
        if (!packing)
                return service_out_of_memory(err);
        packing->fd = fd;
        int r = pack(directory, packing, err);
        if (r == 0)
                r = archive_target(f, &target, err);
        if (r == 0)
                r = files_begin(f, "PUT", target.data, NULL, "application/x-tar", fd, packing->bytes, err);
        return r < 0 ? r : files_finish(f, err);
}

/* ---- pull ---- */

struct pulling {
        struct files_call *call;
        struct archive archive;
        struct files files;
        uint64_t bytes, entries, left_out;
        gb_error source; /* why the answer could not be read on; who writes a file knows only that it could not */
};

/* From the answer as it comes. */
static int read_answer(void *data, void *bytes, size_t size, gb_error *err)
{
        struct pulling *p = data;
        struct client *c = &p->call->service.client;

        while (size > 0) {
                size_t there;
                const char *from = client_data(c, &there);
                size_t n = MIN(there, size);
                if (n > 0) {
                        memcpy(bytes, from, n);
                        client_take(c, n);
                        bytes = (char *)bytes + n;
                        size -= n;
                        p->bytes += n;
                        progress_show(&p->call->progress, p->bytes);
                        continue;
                }
                if (client_is_done(c))
                        return error_set(err, GB_E_LOST, ENODATA, "the archive is cut off");
                int r = client_wait(c, CLIENT_MORE, monotonic_usec() + CLIENT_ANSWER_USEC, -1, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int read_content(void *data, void *bytes, size_t size)
{
        struct pulling *p = data;

        return archive_content(&p->archive, bytes, size, &p->source);
}

static int unpack_entry(struct pulling *p, const struct archive_entry *e, gb_error *err)
{
        struct file_source source = {.fd = -1, .read = read_content, .data = p, .size = e->size};
        size_t length = strlen(e->path);
        char path[HOST_PATH_MAX];

        snprintf(path, sizeof(path), "%s", e->path);
        while (length > 1 && path[length - 1] == '/')
                path[--length] = '\0';
        /* Where an archive says "/sandbox/x" it means that; no host path is meant by any. */
        if (path[0] == '/')
                return error_set(err, GB_E_PROTOCOL, EBADMSG, "the archive has an absolute path: %s", quote(path).text);
        if (strcmp(path, ".") == 0)
                return 0;
        p->entries++;
        if (e->kind == 'd')
                return files_make_directories(&p->files, path, e->mode | 0700, err);
        if (e->kind == 'f')
                return files_put(&p->files, path, &source, e->mode | 0600, true, err);
        p->entries--;
        p->left_out++;
        return 0;
}

static int unpack(struct pulling *p, gb_error *err)
{
        struct archive_entry *e = malloc(sizeof(*e));
        int r = e ? 1 : service_out_of_memory(err);

        while (r > 0) {
                r = archive_next(&p->archive, e, err);
                if (r > 0) {
                        int done = unpack_entry(p, e, err);
                        if (done < 0 && p->source.code)
                                *err = p->source;
                        r = done < 0 ? done : 1;
                }
        }
        free(e);
        return r;
}

/* New, or there and empty. */
static int open_empty(const char *path, bool force, gb_error *err)
{
        if (mkdir(path, 0777) < 0 && errno != EEXIST)
                return error_set(err, GB_E_USAGE, errno, "cannot make the directory %s: %s", quote(path).text, strerror(errno));
        _cleanup_close_ int fd = open_directory(path, err);
        if (fd < 0 || force)
                return TAKE_FD(fd);
        int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = copy < 0 ? NULL : fdopendir(copy);
        struct dirent *entry = NULL;
        if (!dir)
                safe_close(copy);
        while (dir && (entry = readdir(dir)))
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        break;
        bool full = entry != NULL;
        if (dir)
                closedir(dir);
        if (full)
                return error_set(err, GB_E_CONFLICT, ENOTEMPTY, "%s is not empty: files of a box could replace what is there; take a new directory, or --force",
                                 quote(path).text);
        return TAKE_FD(fd);
}

int session_files_pull(struct files_call *f, gb_error *err)
{
        _cleanup_buffer_ struct buffer target;
        struct pulling p = {.call = f, .archive = {.read = read_answer, .data = &p}};

        buffer_init(&target, CLIENT_HEAD_BYTES_MAX);
        int r = archive_target(f, &target, err);
        if (r == 0)
                r = files_begin(f, "GET", target.data, "application/x-tar", NULL, -1, 0, err);
        if (r < 0)
                return r;
        _cleanup_close_ int directory = open_empty(f->words[0], arguments_has(f->arguments, OPT_FORCE), err);
        if (directory < 0)
                return directory;
        p.files = (struct files){.root_fd = directory, .uid = geteuid(), .gid = getegid()};
        r = unpack(&p, err);
        progress_done(&f->progress);
        if (r < 0)
                return r;
        if (p.left_out > 0)
                message_print(MESSAGE_WARNING, "%llu link%s and the like were left out", (unsigned long long)p.left_out, p.left_out == 1 ? "" : "s");
        if (!arguments_has(f->arguments, OPT_JSON))
                return 0;
        _cleanup_json_ json_t *whole = json_pack("{s:s, s:I, s:I}", "directory", f->words[0], "entries", (json_int_t)p.entries, "left_out",
                                                 (json_int_t)p.left_out);
        return output_json(whole);
}
