/* SPDX-License-Identifier: Apache-2.0 */
#include "image/reader.h"

#include "base/quote.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int image_reader_start(struct image_reader *reader, int in, struct image_limits most, int cancel_fd, gb_error *err)
{
        char bytes[24], entries[24];
        const char *const words[] = {"image", bytes, entries, NULL};

        reader->cancel_fd = cancel_fd;
        reader->unmarked = false;
        snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)most.bytes);
        snprintf(entries, sizeof(entries), "%llu", (unsigned long long)most.entries);
        return helper_start(&reader->helper, "glovebox-archive", words, in, err);
}

void image_reader_done(struct image_reader *r)
{
        helper_end(&r->helper);
}

/* ---- records ---- */

static int read_exactly(struct image_reader *reader, void *bytes, size_t size)
{
        for (size_t n = 0; n < size;) {
                struct pollfd p[] = {{reader->helper.fd, POLLIN, 0}, {reader->cancel_fd, POLLIN, 0}};
                /* What it waits for may come from a slow pipe: only who made the archive knows how long that takes. */
                int r = poll(p, 2, -1);
                if (p[1].revents && r > 0)
                        return -ECANCELED;
                ssize_t k = r < 0 ? r : read(reader->helper.fd, (char *)bytes + n, size - n);
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
        reader->unmarked = record.kind == IMAGE_UNMARKED;
        if (record.kind == IMAGE_END || reader->unmarked)
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
