/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int safe_close(int fd)
{
        if (fd >= 0) {
                int saved = errno;
                close(fd); /* never retried: Linux frees the descriptor even on EINTR */
                errno = saved;
        }
        return -1;
}

int fd_write_all(int fd, const void *data, size_t size)
{
        const char *p = data;

        while (size > 0) {
                ssize_t n = write(fd, p, size);
                if (n < 0) {
                        if (errno == EINTR)
                                continue;
                        return -errno;
                }
                p += n;
                size -= (size_t)n;
        }
        return 0;
}

int fd_read_all(int fd, size_t max, char **ret, size_t *ret_size)
{
        _cleanup_free_ char *buf = NULL;
        size_t size = 0, allocated = 0;

        for (;;) {
                if (size + 1 >= allocated) {
                        allocated = allocated ? allocated * 2 : 4096;
                        char *grown = realloc(buf, allocated);
                        if (!grown)
                                return -ENOMEM;
                        buf = grown;
                }
                ssize_t n = read(fd, buf + size, allocated - size - 1);
                if (n < 0) {
                        if (errno == EINTR)
                                continue;
                        return -errno;
                }
                if (n == 0)
                        break;
                size += (size_t)n;
                if (size > max)
                        return -EFBIG;
        }
        buf[size] = '\0';
        *ret = TAKE_PTR(buf);
        if (ret_size)
                *ret_size = size;
        return 0;
}

int file_read_at(int dirfd, const char *name, char *buf, size_t size)
{
        _cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return -errno;

        size_t used = 0;
        for (;;) {
                ssize_t n = read(fd, buf + used, size - used);
                if (n < 0) {
                        if (errno == EINTR)
                                continue;
                        return -errno;
                }
                if (n == 0)
                        break;
                used += (size_t)n;
                if (used == size)
                        return -EFBIG;
        }
        if (used > 0 && buf[used - 1] == '\n')
                used--;
        buf[used] = '\0';
        return (int)used;
}

int file_write_at(int dirfd, const char *name, const char *text)
{
        _cleanup_close_ int fd = openat(dirfd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return -errno;

        ssize_t n;
        do
                n = write(fd, text, strlen(text));
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        return (size_t)n == strlen(text) ? 0 : -EIO;
}

int fd_set_nonblock(int fd)
{
        int flags = fcntl(fd, F_GETFL);
        if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
                return -errno;
        return 0;
}

uint64_t monotonic_usec(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * 1000000ULL + (uint64_t)ts.tv_nsec / 1000ULL;
}
