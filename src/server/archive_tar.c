/* SPDX-License-Identifier: Apache-2.0
 *
 * The heads of a tar: ustar (POSIX.1-1988), and where a path is too long or a file too large for it, a record of POSIX.1-2001 (pax)
 * before. A path of any bytes comes out as those bytes. */
#include "server/archive.h"

#include "base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TAR_OWNER 1000 /* who owns everything: the user that is in every box */
#define TAR_OCTAL_MAX 077777777777ULL

struct tar_header {
        char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
        char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct tar_header) == TAR_BLOCK_BYTES, "a header is a block");

/* Octal digits to the end of the field, where a NUL stands. */
static void set_octal(char *field, size_t size, uint64_t value)
{
        field[size - 1] = '\0';
        for (size_t i = size - 1; i > 0; i--, value >>= 3)
                field[i - 1] = (char)('0' + (value & 7));
}

/* The path into name and prefix, divided at a slash; false: it does not fit. */
static bool set_path(struct tar_header *h, const char *path, size_t size)
{
        if (size <= sizeof(h->name)) {
                memcpy(h->name, path, size);
                return true;
        }
        if (size > sizeof(h->name) + 1 + sizeof(h->prefix))
                return false;
        size_t first = size - sizeof(h->name) - 1;
        for (size_t i = first; i <= sizeof(h->prefix) && i + 1 < size; i++) {
                if (path[i] != '/' || i == 0)
                        continue;
                memcpy(h->prefix, path, i);
                memcpy(h->name, path + i + 1, size - i - 1);
                return true;
        }
        return false;
}

static void fill(struct tar_header *h, char type, mode_t mode, uint64_t size, int64_t mtime)
{
        unsigned sum = 0;

        set_octal(h->mode, sizeof(h->mode), mode & 0777);
        set_octal(h->uid, sizeof(h->uid), TAR_OWNER);
        set_octal(h->gid, sizeof(h->gid), TAR_OWNER);
        set_octal(h->size, sizeof(h->size), MIN(size, (uint64_t)TAR_OCTAL_MAX));
        set_octal(h->mtime, sizeof(h->mtime), mtime < 0 ? 0 : MIN((uint64_t)mtime, (uint64_t)TAR_OCTAL_MAX));
        h->type = type;
        memcpy(h->magic, "ustar", 6);
        memcpy(h->version, "00", 2);
        memset(h->checksum, ' ', sizeof(h->checksum));
        for (size_t i = 0; i < sizeof(*h); i++)
                sum += ((const unsigned char *)h)[i];
        set_octal(h->checksum, sizeof(h->checksum) - 1, sum);
}

/* "LENGTH key=value\n", where the length counts its own digits. */
static int add_pax(struct buffer *records, const char *key, const char *value, size_t size)
{
        size_t rest = 1 + strlen(key) + 1 + size + 1, length = rest + 1;

        while (true) {
                char digits[24];
                size_t n = (size_t)snprintf(digits, sizeof(digits), "%zu", length);
                if (rest + n == length)
                        break;
                length = rest + n;
        }
        int r = buffer_printf(records, "%zu %s=", length, key);
        if (r == 0)
                r = buffer_add(records, value, size);
        return r < 0 ? r : buffer_add(records, "\n", 1);
}

static int pad(struct buffer *out, size_t size)
{
        static const char zeros[TAR_BLOCK_BYTES];
        size_t over = size % TAR_BLOCK_BYTES;

        return over > 0 ? buffer_add(out, zeros, TAR_BLOCK_BYTES - over) : 0;
}

static int add_extension(struct buffer *out, const char *path, size_t path_size, bool long_path, uint64_t size)
{
        struct tar_header h = {0};
        _cleanup_buffer_ struct buffer records;
        char number[24];
        int r = 0;

        buffer_init(&records, 2 * HOST_PATH_MAX);
        if (long_path && !utf8_is_valid(path, path_size))
                r = add_pax(&records, "hdrcharset", "BINARY", 6);
        if (r == 0 && long_path)
                r = add_pax(&records, "path", path, path_size);
        if (r == 0 && size > TAR_OCTAL_MAX)
                r = add_pax(&records, "size", number, (size_t)snprintf(number, sizeof(number), "%llu", (unsigned long long)size));
        if (r < 0)
                return r;
        memcpy(h.name, "PaxHeader", 9);
        fill(&h, 'x', 0644, records.size, 0);
        r = buffer_add(out, &h, sizeof(h));
        if (r == 0)
                r = buffer_add(out, records.data, records.size);
        return r < 0 ? r : pad(out, records.size);
}

int tar_add_header(struct buffer *out, const char *path, const struct stat *st)
{
        struct tar_header h = {0};
        char text[HOST_PATH_MAX + 1];
        bool directory = S_ISDIR(st->st_mode);
        uint64_t size = directory ? 0 : (uint64_t)st->st_size;

        int n = snprintf(text, sizeof(text), "%s%s", path, directory ? "/" : "");
        if (n >= (int)sizeof(text))
                return -ENAMETOOLONG;
        bool fits = set_path(&h, text, (size_t)n);
        int r = fits && size <= TAR_OCTAL_MAX ? 0 : add_extension(out, text, (size_t)n, !fits, size);
        if (r < 0)
                return r;
        if (!fits)
                memcpy(h.name, text, sizeof(h.name)); /* for who does not know the record before */
        fill(&h, directory ? '5' : '0', st->st_mode, size, (int64_t)st->st_mtime);
        return buffer_add(out, &h, sizeof(h));
}

int tar_add_end(struct buffer *out)
{
        static const char zeros[2 * TAR_BLOCK_BYTES];

        return buffer_add(out, zeros, sizeof(zeros));
}
