/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/python/image_maps.h"

#include "base/macro.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* The flags of a mapping that its replacement has too, or that do not matter; or "it has guards", which are seen
 * page by page. All else, such as "wipe on fork", "do not copy", locked, sealed, a device, must stay what it is. */
static const char flags_plain[][3] = {
        "rd", "wr", "ex", "mr", "mw", "me", "ac", "nr", "sd", "hg", "nh", "dw", "bt", "gu",
};

int image_maps_open(struct image_maps *m)
{
        /* Not maps: only smaps has the flags. */
        m->fd = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
        if (m->fd < 0)
                return -errno;
        m->pos = m->end = 0;
        m->eof = false;
        return 0;
}

void image_maps_close(struct image_maps *m)
{
        if (m->fd >= 0)
                close(m->fd);
        m->fd = -1;
}

/* 1: a whole line begins at *ret and ends with a newline. It is not consumed. */
static int maps_peek_line(struct image_maps *m, const char **ret, size_t *ret_size)
{
        for (;;) {
                const char *line = m->buf + m->pos;
                const char *newline = memchr(line, '\n', m->end - m->pos);

                if (newline) {
                        *ret = line;
                        *ret_size = (size_t)(newline - line) + 1;
                        return 1;
                }
                if (m->eof)
                        return m->pos == m->end ? 0 : -EBADMSG;
                memmove(m->buf, line, m->end - m->pos);
                m->end -= m->pos;
                m->pos = 0;
                if (m->end == sizeof(m->buf))
                        return -EFBIG;
                ssize_t n = read(m->fd, m->buf + m->end, sizeof(m->buf) - m->end);
                if (n < 0)
                        return -errno;
                m->eof = n == 0;
                m->end += (size_t)n;
        }
}

static const char *take_number(const char *p, unsigned base, uint64_t *ret)
{
        *ret = 0;
        for (;; p++) {
                unsigned digit;

                if (*p >= '0' && *p <= '9')
                        digit = (unsigned)(*p - '0');
                else if (base == 16 && *p >= 'a' && *p <= 'f')
                        digit = (unsigned)(*p - 'a') + 10;
                else
                        return p;
                *ret = *ret * base + digit;
        }
}

static bool has_prefix(const char *line, size_t size, const char *prefix)
{
        return size >= strlen(prefix) && memcmp(line, prefix, strlen(prefix)) == 0;
}

/* "55e1-55e2 rw-p 00000000 fe:01 12345    /usr/lib/x.so" */
static int parse_head(const char *line, size_t size, struct image_map *ret)
{
        uint64_t start, end, major, minor;
        const char *p = take_number(line, 16, &start);

        if (*p != '-')
                return -EBADMSG;
        p = take_number(p + 1, 16, &end);
        if (*p != ' ' || size - (size_t)(p - line) < 8)
                return -EBADMSG;
        *ret = (struct image_map){
                .start = start,
                .end = end,
                .readable = p[1] == 'r',
                .writable = p[2] == 'w',
                .executable = p[3] == 'x',
                .shared = p[4] == 's',
                .clean = true,
        };
        p = take_number(p + 6, 16, &ret->offset);
        p = take_number(p + (*p == ' '), 16, &major);
        if (*p != ':')
                return -EBADMSG;
        p = take_number(p + 1, 16, &minor);
        p = take_number(p + (*p == ' '), 10, &ret->inode);
        ret->major = (uint32_t)major;
        ret->minor = (uint32_t)minor;
        while (*p == ' ')
                p++;
        size -= (size_t)(p - line);
        ret->special = *p == '[' && !has_prefix(p, size, "[heap]") && !has_prefix(p, size, "[anon:");
        return 0;
}

static bool flag_is_plain(const char *flag)
{
        for (size_t i = 0; i < ARRAY_SIZE(flags_plain); i++)
                if (memcmp(flag, flags_plain[i], 2) == 0)
                        return true;
        return false;
}

static void parse_attribute(const char *line, size_t size, struct image_map *map)
{
        static const char *const private_kinds[] = {"Anonymous:", "Swap:"};
        uint64_t kib;

        for (size_t i = 0; i < ARRAY_SIZE(private_kinds); i++) {
                if (!has_prefix(line, size, private_kinds[i]))
                        continue;
                const char *p = line + strlen(private_kinds[i]);
                while (*p == ' ')
                        p++;
                take_number(p, 10, &kib);
                if (kib > 0)
                        map->clean = false;
        }
        if (has_prefix(line, size, "VmFlags: "))
                for (const char *p = line + strlen("VmFlags: "); p + 2 < line + size; p += 3)
                        if (!flag_is_plain(p))
                                map->special = true;
}

int image_maps_next(struct image_maps *m, struct image_map *ret)
{
        struct image_map map;
        const char *line;
        size_t size;

        int r = maps_peek_line(m, &line, &size);
        if (r <= 0)
                return r;
        r = parse_head(line, size, &map);
        if (r < 0)
                return r;
        m->pos += size;
        /* Attributes begin with a capital letter, addresses with a small hexadecimal digit. */
        while ((r = maps_peek_line(m, &line, &size)) > 0 && *line >= 'A' && *line <= 'Z') {
                parse_attribute(line, size, &map);
                m->pos += size;
        }
        if (r < 0)
                return r;
        *ret = map;
        return 1;
}

int image_pages_read(int pagemap, uintptr_t start, uintptr_t end, uint64_t pages[static IMAGE_PAGES_AT_ONCE])
{
        const size_t page_size = (size_t)getpagesize();
        size_t n = MIN((end - start) / page_size, (size_t)IMAGE_PAGES_AT_ONCE);

        ssize_t r = pread(pagemap, pages, n * sizeof(*pages), (off_t)(start / page_size * sizeof(*pages)));
        if (r < 0)
                return -errno;
        return r == (ssize_t)(n * sizeof(*pages)) ? (int)n : -EIO;
}
