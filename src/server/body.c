/* SPDX-License-Identifier: Apache-2.0 */
#include "server/body.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void body_init(struct body *b)
{
        *b = (struct body){.fd = -1};
        buffer_init(&b->memory, BODY_MEMORY_MAX);
        b->memory.secret = true;
}

/* Of all bodies. Those that are read by the loop count, and those that handlers work with. */
static _Atomic size_t memory_bytes;
static _Atomic uint64_t file_bytes;

static void memory_done(struct body *b)
{
        memory_bytes -= b->memory.allocated;
        buffer_done(&b->memory);
}

/* It has no name, but its blocks stay on the disk: mostly they have not come there yet, and never will. */
static void file_wipe(const struct body *b)
{
        static const char zeros[FILE_PIECE_BYTES];

        for (uint64_t at = 0; at < b->size;) {
                ssize_t n = pwrite(b->fd, zeros, (size_t)MIN((uint64_t)sizeof(zeros), b->size - at), (off_t)at);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return;
                at += (uint64_t)n;
        }
}

void body_done(struct body *b)
{
        memory_done(b);
        if (b->fd >= 0 && b->secret)
                file_wipe(b);
        if (b->fd >= 0)
                file_bytes -= b->size;
        b->secret = false;
        b->fd = safe_close(b->fd);
        b->size = 0;
}

/* Where it was to be is nobody's business from afar. */
static int disk_error(int r, gb_error *err)
{
        if (r == -ENOSPC || r == -EDQUOT)
                return error_set(err, GB_E_DISK_FULL, -r, "there is no room on the disk for the body of the request");
        return error_set(err, GB_E_INTERNAL, -r, "cannot keep the body of the request: %s", strerror(-r));
}

/* An unlinked file: gone with the process whatever happens. */
static int temporary_file(const char *directory)
{
        int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

        if (fd >= 0)
                return fd;
        if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
                return -errno;
        /* A file system that has no files without names. */
        char path[HOST_PATH_MAX];
        int n = snprintf(path, sizeof(path), "%s/.body-XXXXXX", directory);
        if (n < 0 || (size_t)n >= sizeof(path))
                return -ENAMETOOLONG;
        fd = mkostemp(path, O_CLOEXEC);
        if (fd < 0)
                return -errno;
        (void)unlink(path);
        return fd;
}

static int body_spill(struct body *b, const char *directory, gb_error *err)
{
        _cleanup_close_ int fd = temporary_file(directory);

        if (fd < 0)
                return disk_error(fd, err);
        int r = fd_write_all(fd, b->memory.data ? b->memory.data : "", b->memory.size);
        if (r < 0)
                return disk_error(r, err);
        memory_done(b);
        b->fd = TAKE_FD(fd);
        file_bytes += b->size;
        return 0;
}

/* One alone is always taken: how large it may be is the configuration's. */
static int write_file(struct body *b, const void *bytes, size_t size, gb_error *err)
{
        uint64_t all = atomic_fetch_add(&file_bytes, size) + size;
        int r = all > BODIES_FILES_MAX && all > b->size + size ? -EAGAIN : fd_write_all(b->fd, bytes, size);

        if (r == 0)
                return 0;
        file_bytes -= size;
        if (r == -EAGAIN)
                return error_set(err, GB_E_UNAVAILABLE, EAGAIN, "there are as many large requests as the server has room for");
        return disk_error(r, err);
}

int body_add(struct body *b, const char *directory, const void *bytes, size_t size, gb_error *err)
{
        int r = 0;

        if (b->fd < 0) {
                size_t before = b->memory.allocated;
                r = memory_bytes + size > BODIES_MEMORY_MAX ? -EFBIG : buffer_add(&b->memory, bytes, size);
                memory_bytes += b->memory.allocated - before;
                if (r == -ENOMEM)
                        return error_set(err, GB_E_UNAVAILABLE, ENOMEM, "there is no memory for the body of the request");
                if (r == -EFBIG) {
                        r = body_spill(b, directory, err);
                        if (r < 0)
                                return r;
                }
        }
        if (b->fd >= 0) {
                r = write_file(b, bytes, size, err);
                if (r < 0)
                        return r;
        }
        b->size += size;
        return 0;
}

int body_end(struct body *b, gb_error *err)
{
        if (b->fd >= 0 && lseek(b->fd, 0, SEEK_SET) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot read the body of the request: %s", strerror(errno));
        return 0;
}
