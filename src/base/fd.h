/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FD_H
#define BASE_FD_H

#include "base/macro.h"

#include <stddef.h>
#include <stdint.h>

/* Closes fd when it is one, keeps errno, returns -1: `fd = safe_close(fd)`. */
int safe_close(int fd);

/* Closes those that are one, and leaves -1 in their places. */
static inline void safe_close_all(int *fds, size_t n)
{
        for (size_t i = 0; i < n; i++)
                fds[i] = safe_close(fds[i]);
}

static inline void close_ptr(int *fd)
{
        safe_close(*fd);
}
#define _cleanup_close_ _cleanup_(close_ptr)

/* Writes all of it. 0 or a negative errno. */
int fd_write_all(int fd, const void *data, size_t size);

/* Reads the file to its end into a new NUL-terminated buffer; -EFBIG above max. */
int fd_read_all(int fd, size_t max, char **ret, size_t *ret_size);

/* Reads a small file below dirfd into buf, NUL-terminated, without its last newline.
 * Returns the length, or a negative errno; -EFBIG when it does not fit. */
int file_read_at(int dirfd, const char *name, char *buf, size_t size);

/* Opens name below dirfd, writes text in one write. 0 or a negative errno. */
int file_write_at(int dirfd, const char *name, const char *text);

/* Sets O_NONBLOCK. Only on descriptors nobody else shares. */
int fd_set_nonblock(int fd);

uint64_t monotonic_usec(void);

#endif
