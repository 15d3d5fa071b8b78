/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/archive.h"

#include "base/parse.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RECORDS_BYTES_MAX (64 * KIB) /* pax records, or a long name, of one entry */

struct block {
        char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], kind, link[100], magic[6], version[2], user[32], group[32],
                major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct block) == ARCHIVE_BLOCK_BYTES, "a block");

static unsigned padding_of(uint64_t size)
{
        return (unsigned)(-size & (ARCHIVE_BLOCK_BYTES - 1));
}

/* The sum of its bytes, with blanks in the place of the sum. */
static unsigned checksum(const struct block *b)
{
        struct block copy = *b;
        const unsigned char *p = (const unsigned char *)&copy;
        unsigned sum = 0;

        memset(copy.checksum, ' ', sizeof(copy.checksum));
        for (size_t i = 0; i < sizeof(copy); i++)
                sum += p[i];
        return sum;
}

/* ---- writing ---- */

static void fill(struct block *b, const char *name, char kind, uint64_t size, mode_t mode, int64_t modified_sec)
{
        char text[24];

        *b = (struct block){.kind = kind, .magic = "ustar", .version = {'0', '0'}};
        memcpy(b->name, name, strnlen(name, sizeof(b->name)));
        snprintf(b->mode, sizeof(b->mode), "%07o", (unsigned)(mode & 0777));
        snprintf(b->uid, sizeof(b->uid), "%07o", 0U);
        snprintf(b->gid, sizeof(b->gid), "%07o", 0U);
        snprintf(text, sizeof(text), "%011" PRIo64, size);
        memcpy(b->size, text, sizeof(b->size));
        snprintf(text, sizeof(text), "%011" PRIo64, modified_sec > 0 ? (uint64_t)modified_sec & 077777777777 : 0);
        memcpy(b->mtime, text, sizeof(b->mtime));
        snprintf(b->checksum, sizeof(b->checksum), "%06o", checksum(b));
        b->checksum[7] = ' ';
}

/* "27 path=some/where\n": the number counts itself. */
static int path_record(char *buf, size_t size, const char *path)
{
        size_t rest = strlen(" path=\n") + strlen(path), length = rest + 1;

        while (length != rest + (size_t)snprintf(NULL, 0, "%zu", length))
                length = rest + (size_t)snprintf(NULL, 0, "%zu", length);
        return snprintf(buf, size, "%zu path=%s\n", length, path);
}

long archive_head(char buf[static ARCHIVE_HEAD_MAX], const char *path, bool directory, uint64_t size, mode_t mode, int64_t modified_sec)
{
        struct block b;
        char record[HOST_PATH_MAX + 32];
        long used = 0;
        size_t length = strlen(path);

        if (length >= HOST_PATH_MAX || size > 077777777777)
                return -ENAMETOOLONG;
        if (length > sizeof(b.name)) {
                int n = path_record(record, sizeof(record), path);
                fill(&b, "path", 'x', (uint64_t)n, 0644, modified_sec);
                memcpy(buf, &b, sizeof(b));
                memcpy(buf + sizeof(b), record, (size_t)n);
                memset(buf + sizeof(b) + n, 0, padding_of((uint64_t)n));
                used = (long)sizeof(b) + n + (long)padding_of((uint64_t)n);
        }
        fill(&b, path, directory ? '5' : '0', directory ? 0 : size, mode, modified_sec);
        memcpy(buf + used, &b, sizeof(b));
        return used + (long)sizeof(b);
}

/* ---- reading ---- */

static int broken(const char *why, gb_error *err)
{
        return error_set(err, GB_E_PROTOCOL, EBADMSG, "the archive is broken: %s", why);
}

/* Octal digits, with blanks before and a blank or NUL behind. */
static int octal(const char *field, size_t size, uint64_t *ret)
{
        uint64_t n = 0;
        size_t i = 0, digits = 0;

        while (i < size && field[i] == ' ')
                i++;
        for (; i < size && field[i] >= '0' && field[i] <= '7'; i++, digits++)
                n = n * 8 + (uint64_t)(field[i] - '0');
        for (; i < size; i++)
                if (field[i] != ' ' && field[i] != '\0')
                        return -EINVAL;
        *ret = n;
        return digits > 0 ? 0 : -EINVAL;
}

static int skip(struct archive *a, uint64_t size, gb_error *err)
{
        char buf[4096];

        while (size > 0) {
                size_t piece = (size_t)MIN(size, (uint64_t)sizeof(buf));
                int r = a->read(a->data, buf, piece, err);
                if (r < 0)
                        return r;
                size -= piece;
        }
        return 0;
}

/* The content of a block that says something about the next one; NUL-terminated. */
static int read_extra(struct archive *a, uint64_t size, char **ret, gb_error *err)
{
        if (size > RECORDS_BYTES_MAX)
                return broken("a name is too long", err);
        _cleanup_free_ char *text = malloc((size_t)size + 1);
        if (!text)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        int r = a->read(a->data, text, (size_t)size, err);
        if (r == 0)
                r = skip(a, padding_of(size), err);
        if (r < 0)
                return r;
        text[size] = '\0';
        *ret = TAKE_PTR(text);
        return 0;
}

static int set_path(struct archive_entry *e, const char *path, size_t length, gb_error *err)
{
        if (length >= sizeof(e->path) || memchr(path, '\0', length))
                return broken("a name is too long", err);
        memcpy(e->path, path, length);
        e->path[length] = '\0';
        return 0;
}

/* "LENGTH key=value\n" one after the other. Of the keys the path and the size count. */
static int take_records(char *text, uint64_t size, struct archive_entry *e, bool *has_size, gb_error *err)
{
        char *at = text, *end = text + size;

        while (at < end) {
                char *blank = memchr(at, ' ', (size_t)(end - at));
                uint64_t length;
                if (!blank)
                        return broken("a record has no length", err);
                *blank = '\0';
                if (parse_count(at, &length) < 0 || length > (uint64_t)(end - at) || (uint64_t)(blank - at) + 2 > length ||
                    at[length - 1] != '\n')
                        return broken("a record has a wrong length", err);
                char *key = blank + 1, *value = memchr(key, '=', (size_t)(at + length - key));
                if (!value)
                        return broken("a record has no value", err);
                *value++ = '\0';
                at += length;
                at[-1] = '\0';
                if (strcmp(key, "path") == 0 && set_path(e, value, (size_t)(at - 1 - value), err) < 0)
                        return -EBADMSG;
                if (strcmp(key, "size") == 0) {
                        if (parse_count(value, &e->size) < 0)
                                return broken("a size is no number", err);
                        *has_size = true;
                }
        }
        return 0;
}

static bool is_empty(const struct block *b)
{
        const char *p = (const char *)b;

        for (size_t i = 0; i < sizeof(*b); i++)
                if (p[i])
                        return false;
        return true;
}

/* The name in the block itself, with its prefix. */
static int set_block_path(const struct block *b, struct archive_entry *e, gb_error *err)
{
        char path[sizeof(b->prefix) + sizeof(b->name) + 2];
        bool has_prefix = memcmp(b->magic, "ustar", 6) == 0 && b->prefix[0];

        int n = snprintf(path, sizeof(path), "%.*s%s%.*s", has_prefix ? (int)sizeof(b->prefix) : 0, b->prefix, has_prefix ? "/" : "",
                         (int)sizeof(b->name), b->name);
        return set_path(e, path, (size_t)n, err);
}

/* What the block before a file's own says about it: 1. */
static int take_extra(struct archive *a, const struct block *b, uint64_t size, struct archive_entry *e, bool *has_size, gb_error *err)
{
        _cleanup_free_ char *text = NULL;

        if (b->kind != 'x' && b->kind != 'L' && b->kind != 'g')
                return 0;
        int r = read_extra(a, size, &text, err);
        if (r == 0 && b->kind == 'x')
                r = take_records(text, size, e, has_size, err);
        if (r == 0 && b->kind == 'L')
                r = set_path(e, text, strlen(text), err);
        return r < 0 ? r : 1;
}

int archive_next(struct archive *a, struct archive_entry *ret, gb_error *err)
{
        struct archive_entry e = {0};
        bool has_size = false;

        int r = skip(a, a->left + a->padding, err);
        a->left = a->padding = 0;
        while (r >= 0) {
                struct block b;
                uint64_t size, sum, mode;
                r = a->read(a->data, &b, sizeof(b), err);
                if (r < 0)
                        return r;
                if (is_empty(&b))
                        return 0;
                if (octal(b.checksum, sizeof(b.checksum), &sum) < 0 || sum != checksum(&b))
                        return broken("a head has a wrong sum", err);
                if (octal(b.size, sizeof(b.size), &size) < 0 || octal(b.mode, sizeof(b.mode), &mode) < 0)
                        return broken("a number is none", err);
                r = take_extra(a, &b, size, &e, &has_size, err);
                if (r != 0)
                        continue;
                if (!e.path[0] && set_block_path(&b, &e, err) < 0)
                        return -EBADMSG;
                e.size = has_size ? e.size : size;
                e.mode = (mode_t)mode & 0777;
                e.kind = b.kind == '0' || b.kind == '\0' ? 'f' : b.kind == '5' ? 'd' : 'l';
                a->left = e.size;
                a->padding = padding_of(e.size);
                *ret = e;
                return 1;
        }
        return r;
}

int archive_content(struct archive *a, void *bytes, size_t size, gb_error *err)
{
        if (size > a->left)
                return error_set(err, GB_E_INTERNAL, EINVAL, "an entry of the archive has no more content");
        int r = a->read(a->data, bytes, size, err);
        if (r == 0)
                a->left -= size;
        return r;
}
