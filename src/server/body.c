/* SPDX-License-Identifier: Apache-2.0 */
#include "server/body.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void body_init(struct body *b)
{
        *b = (struct body){.fd = -1};
        buffer_init(&b->memory, BODY_MEMORY_MAX);
}

/* Of all bodies. Those that are read by the loop count, and those that handlers work with. */
static _Atomic size_t memory_bytes;

static void memory_done(struct body *b)
{
        memory_bytes -= b->memory.allocated;
        buffer_done(&b->memory);
}

void body_done(struct body *b)
{
        memory_done(b);
        b->fd = safe_close(b->fd);
        b->size = 0;
}

static int disk_error(int r, const char *directory, gb_error *err)
{
        if (r == -ENOSPC || r == -EDQUOT)
                return error_set(err, GB_E_DISK_FULL, -r, "there is no room on the disk for the body of the request");
        return error_set(err, GB_E_INTERNAL, -r, "cannot keep the body of the request in \"%s\": %s", directory, strerror(-r));
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
                return disk_error(fd, directory, err);
        int r = fd_write_all(fd, b->memory.data ? b->memory.data : "", b->memory.size);
        if (r < 0)
                return disk_error(r, directory, err);
        memory_done(b);
        b->fd = TAKE_FD(fd);
        return 0;
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
                r = fd_write_all(b->fd, bytes, size);
                if (r < 0)
                        return disk_error(r, directory, err);
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
