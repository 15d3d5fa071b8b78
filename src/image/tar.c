/* SPDX-License-Identifier: Apache-2.0 */
#include "image/tar.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/utf8.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_BYTES 512
#define SIZE_OCTAL_MAX 077777777777ULL
#define ID_OCTAL_MAX 07777777ULL

struct header {
        char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
        char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct header) == BLOCK_BYTES, "a header is a block");

void tar_init(struct tar_out *out, int fd, int cancel_fd, bool sums)
{
        struct stat st;

        *out = (struct tar_out){.fd = fd, .cancel_fd = cancel_fd, .sums = sums};
        out->waits = fd >= 0 && cancel_fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode));
        sha256_init(&out->sum);
}

/* The descriptor is shared, so it stays one that blocks: what poll() says there is room for is never more than this. */
static int write_waiting(const struct tar_out *out, const char *bytes, size_t size)
{
        for (size_t n = 0; n < size;) {
                struct pollfd p[] = {{out->fd, POLLOUT, 0}, {out->cancel_fd, POLLIN, 0}};
                int r = poll(p, 2, -1);
                if (r > 0 && p[1].revents)
                        return -ECANCELED;
                ssize_t k = r < 0 ? r : write(out->fd, bytes + n, MIN(size - n, (size_t)PIPE_BUF));
                if (k < 0 && errno != EINTR && errno != EAGAIN)
                        return -errno;
                n += k > 0 ? (size_t)k : 0;
        }
        return 0;
}

int tar_write(struct tar_out *out, const void *bytes, size_t size)
{
        out->size += size;
        if (out->sums)
                sha256_add(&out->sum, bytes, size);
        if (out->fd < 0)
                return 0;
        return out->waits ? write_waiting(out, bytes, size) : fd_write_all(out->fd, bytes, size);
}

int tar_pad(struct tar_out *out, uint64_t size)
{
        static const char zeros[BLOCK_BYTES];
        size_t over = (size_t)(size % BLOCK_BYTES);

        return over > 0 ? tar_write(out, zeros, BLOCK_BYTES - over) : 0;
}

/* Octal digits to the end of the field, where a NUL stands. */
static void set_octal(char *field, size_t size, uint64_t value)
{
        field[size - 1] = '\0';
        for (size_t i = size - 1; i > 0; i--, value >>= 3)
                field[i - 1] = (char)('0' + (value & 7));
}

static void fill(struct header *h, const struct tar_entry *e)
{
        unsigned sum = 0;

        memcpy(h->name, e->path, strnlen(e->path, sizeof(h->name)));
        if (e->link)
                memcpy(h->link, e->link, strnlen(e->link, sizeof(h->link)));
        set_octal(h->mode, sizeof(h->mode), e->mode & 07777);
        set_octal(h->uid, sizeof(h->uid), MIN((uint64_t)e->uid, (uint64_t)ID_OCTAL_MAX));
        set_octal(h->gid, sizeof(h->gid), MIN((uint64_t)e->gid, (uint64_t)ID_OCTAL_MAX));
        set_octal(h->size, sizeof(h->size), MIN(e->size, (uint64_t)SIZE_OCTAL_MAX));
        set_octal(h->mtime, sizeof(h->mtime), e->mtime_sec < 0 ? 0 : MIN((uint64_t)e->mtime_sec, (uint64_t)SIZE_OCTAL_MAX));
        h->type = e->type;
        memcpy(h->magic, "ustar", 6);
        memcpy(h->version, "00", 2);
        memset(h->checksum, ' ', sizeof(h->checksum));
        for (size_t i = 0; i < sizeof(*h); i++)
                sum += ((const unsigned char *)h)[i];
        set_octal(h->checksum, sizeof(h->checksum) - 1, sum);
}

/* "LENGTH key=value\n", where the length counts its own digits. */
static int add_pax(struct buffer *records, const char *key, const char *value)
{
        size_t rest = 1 + strlen(key) + 1 + strlen(value) + 1, length = rest + 1;

        for (char digits[24]; rest + (size_t)snprintf(digits, sizeof(digits), "%zu", length) != length;)
                length = rest + strlen(digits);
        return buffer_printf(records, "%zu %s=%s\n", length, key, value);
}

static int add_number(struct buffer *records, const char *key, uint64_t value, uint64_t most)
{
        char number[24];

        snprintf(number, sizeof(number), "%llu", (unsigned long long)value);
        return value > most ? add_pax(records, key, number) : 0;
}

static bool is_plain(const char *text, size_t max)
{
        return !text || (strlen(text) <= max && utf8_is_valid(text, strlen(text)));
}

/* What has no place in the header itself. */
static int add_extension(struct tar_out *out, const struct tar_entry *e)
{
        _cleanup_buffer_ struct buffer records;
        struct header h = {0};
        bool path = strlen(e->path) > sizeof(h.name), link = e->link && strlen(e->link) > sizeof(h.link);
        int r = 0;

        buffer_init(&records, 4 * HOST_PATH_MAX);
        if ((path || link) && (!is_plain(e->path, SIZE_MAX) || !is_plain(e->link, SIZE_MAX)))
                r = add_pax(&records, "hdrcharset", "BINARY");
        if (r == 0 && path)
                r = add_pax(&records, "path", e->path);
        if (r == 0 && link)
                r = add_pax(&records, "linkpath", e->link);
        if (r == 0)
                r = add_number(&records, "size", e->size, SIZE_OCTAL_MAX);
        if (r == 0)
                r = add_number(&records, "uid", e->uid, ID_OCTAL_MAX);
        if (r == 0)
                r = add_number(&records, "gid", e->gid, ID_OCTAL_MAX);
        if (r < 0 || records.size == 0)
                return r;
        fill(&h, &(struct tar_entry){.type = 'x', .path = "PaxHeader", .mode = 0644, .size = records.size});
        r = tar_write(out, &h, sizeof(h));
        if (r == 0)
                r = tar_write(out, records.data, records.size);
        return r < 0 ? r : tar_pad(out, records.size);
}

int tar_head(struct tar_out *out, const struct tar_entry *e)
{
        struct header h = {0};

        int r = add_extension(out, e);
        if (r < 0)
                return r;
        fill(&h, e);
        return tar_write(out, &h, sizeof(h));
}

int tar_file(struct tar_out *out, const char *path, const void *bytes, size_t size)
{
        int r = tar_head(out, &(struct tar_entry){.type = '0', .path = path, .mode = 0644, .size = size});

        if (r == 0)
                r = tar_write(out, bytes, size);
        return r < 0 ? r : tar_pad(out, size);
}

int tar_end(struct tar_out *out)
{
        static const char zeros[2 * BLOCK_BYTES];

        return tar_write(out, zeros, sizeof(zeros));
}
