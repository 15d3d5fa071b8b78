/* SPDX-License-Identifier: Apache-2.0 */
#include "image/reader.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "glovebox-archive"

/* ---- the program ---- */

void image_reader_done(struct image_reader *r)
{
        r->fd = safe_close(r->fd);
        if (r->pid <= 0)
                return;
        kill(r->pid, SIGKILL);
        while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        r->pid = 0;
}

static int spawn(pid_t *ret, const char *program, char *const argv[], int in, int out)
{
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        char *environment[] = {NULL};
        sigset_t none, all;

        sigemptyset(&none);
        sigfillset(&all);
        posix_spawn_file_actions_init(&actions);
        posix_spawnattr_init(&attributes);
        /* A group of its own: Ctrl-C is for us, and we end it. */
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &all);
        int e = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
        if (e == 0)
                e = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
        if (e == 0)
                e = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        if (e == 0)
                e = posix_spawn(ret, program, &actions, &attributes, argv, environment);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&actions);
        return -e;
}

int image_reader_start(struct image_reader *reader, int in, struct image_limits most, int cancel_fd, gb_error *err)
{
        _cleanup_free_ char *program = NULL;
        char mode[] = "image", bytes[24], entries[24];
        int pair[2];

        *reader = (struct image_reader)IMAGE_READER_NONE;
        snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)most.bytes);
        snprintf(entries, sizeof(entries), "%llu", (unsigned long long)most.entries);
        int r = path_libexec(PROGRAM, &program);
        if (r == 0 && pipe2(pair, O_CLOEXEC) < 0)
                r = -errno;
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot read an archive: %s", strerror(-r));
        char *argv[] = {program, mode, bytes, entries, NULL};
        r = spawn(&reader->pid, program, argv, in, pair[1]);
        safe_close(pair[1]);
        reader->fd = pair[0];
        reader->cancel_fd = cancel_fd;
        if (r == 0)
                return 0;
        reader->pid = 0;
        return error_set(err, GB_E_INTERNAL, -r, "cannot start %s: %s; it belongs to the installation (GLOVEBOX_LIBEXEC_DIR says where that is)",
                         quote(program).text, strerror(-r));
}

/* ---- records ---- */

static int read_exactly(struct image_reader *reader, void *bytes, size_t size)
{
        for (size_t n = 0; n < size;) {
                struct pollfd p[] = {{reader->fd, POLLIN, 0}, {reader->cancel_fd, POLLIN, 0}};
                /* What it waits for may come from a slow pipe: only who made the archive knows how long that takes. */
                int r = poll(p, 2, -1);
                if (p[1].revents && r > 0)
                        return -ECANCELED;
                ssize_t k = r < 0 ? r : read(reader->fd, (char *)bytes + n, size - n);
                if (k < 0 && errno == EINTR)
                        continue;
                if (k <= 0)
                        return k < 0 ? -errno : -EPIPE;
                n += (size_t)k;
        }
        return 0;
}

static int failed(int r, gb_error *err)
{
        if (r == -ECANCELED)
                return error_set(err, GB_E_CONFLICT, ECANCELED, "interrupted");
        return error_set(err, GB_E_USAGE, EBADMSG, "the archive cannot be read: it ends too early, is damaged, or needs too much memory or time");
}

int image_reader_data(struct image_reader *reader, void *bytes, size_t size, gb_error *err)
{
        int r = read_exactly(reader, bytes, size);

        return r < 0 ? failed(r, err) : 0;
}

static int check_form(const struct image_record *record, const struct image_entry *e, gb_error *err)
{
        if (strlen(e->path) != record->path_size || strlen(e->link) != record->link_size)
                return error_set(err, GB_E_USAGE, EBADMSG, "the entry %s is refused: its path has a NUL in it", quote(e->path).text);
        if (record->kind == IMAGE_BROKEN)
                return error_set(err, GB_E_USAGE, EBADMSG, "the archive cannot be read: %s", quote(e->path).text);
        if (record->kind == IMAGE_MANY)
                return error_set(err, GB_E_LIMIT, EFBIG, "the entry %s is refused: with it the image has more than %d entries, or its files more than %llu GiB",
                                 quote(e->path).text, IMAGE_ENTRIES_MAX, IMAGE_BYTES_MAX / GIB);
        if (record->kind > IMAGE_OTHER || (record->kind != IMAGE_FILE && record->size > 0))
                return failed(-EBADMSG, err);
        if (record->uid >= UINT32_MAX || record->gid >= UINT32_MAX)
                return error_set(err, GB_E_USAGE, EBADMSG, "the entry %s is refused: nobody can be its owner", quote(e->path).text);
        return 0;
}

int image_reader_next(struct image_reader *reader, struct image_entry *ret, gb_error *err)
{
        struct image_record record;

        int r = read_exactly(reader, &record, sizeof(record));
        if (r == 0 && (record.magic != IMAGE_RECORD_MAGIC || record.path_size >= HOST_PATH_MAX || record.link_size >= HOST_PATH_MAX))
                r = -EBADMSG;
        if (r == 0)
                r = read_exactly(reader, ret->path, record.path_size);
        if (r == 0)
                r = read_exactly(reader, ret->link, record.link_size);
        if (r < 0)
                return failed(r, err);
        ret->path[record.path_size] = ret->link[record.link_size] = '\0';
        if (record.kind == IMAGE_END)
                return 0;
        r = check_form(&record, ret, err);
        if (r < 0)
                return r;
        ret->kind = (enum image_kind)record.kind;
        ret->mode = (mode_t)(record.mode & 07777);
        ret->uid = (uid_t)record.uid;
        ret->gid = (gid_t)record.gid;
        ret->size = record.size;
        ret->mtime_sec = record.mtime_sec;
        return 1;
}
