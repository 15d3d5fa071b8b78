/* SPDX-License-Identifier: Apache-2.0
 *
 * Archives of root file systems: tar, plain or compressed by gzip or zstd. What an entry is, is told as it stands there; whether it may be
 * is for the other side to say. */
#include "server/archive_program.h"

#include "base/limits.h"
#include "base/macro.h"
#include "image/record.h"

#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define READ_BLOCK_BYTES (256 * KIB)

static int put_record(struct image_record *record, const char *path, const char *link)
{
        record->magic = IMAGE_RECORD_MAGIC;
        record->path_size = (uint32_t)strnlen(path, HOST_PATH_MAX - 1);
        record->link_size = link ? (uint32_t)strnlen(link, HOST_PATH_MAX - 1) : 0;
        int r = archive_put(record, sizeof(*record));
        if (r == 0)
                r = archive_put(path, record->path_size);
        return r == 0 && link ? archive_put(link, record->link_size) : r;
}

/* The last word. */
static int give_in(uint32_t kind, const char *text)
{
        struct image_record record = {.kind = kind};
        int r = put_record(&record, text ? text : "", NULL);

        return r < 0 ? r : -EBADMSG;
}

static uint32_t kind_of(struct archive_entry *e)
{
        if (archive_entry_hardlink(e))
                return IMAGE_HARDLINK;
        switch (archive_entry_filetype(e)) {
        case AE_IFREG:
                return IMAGE_FILE;
        case AE_IFDIR:
                return IMAGE_DIRECTORY;
        case AE_IFLNK:
                return IMAGE_SYMLINK;
        default:
                return IMAGE_OTHER;
        }
}

static int take_entry(struct reader *rd, struct archive_entry *e)
{
        const char *path = archive_entry_pathname(e);
        struct image_record record = {
                .kind = kind_of(e), .mode = archive_entry_perm(e), .uid = (uint64_t)archive_entry_uid(e), .gid = (uint64_t)archive_entry_gid(e),
                .mtime_sec = archive_entry_mtime(e),
        };
        const char *link = record.kind == IMAGE_HARDLINK ? archive_entry_hardlink(e) : record.kind == IMAGE_SYMLINK ? archive_entry_symlink(e) : NULL;

        if (!path || (!link && (record.kind == IMAGE_SYMLINK || archive_entry_hardlink_w(e))))
                return give_in(IMAGE_BROKEN, "the name of an entry cannot be read");
        if (strlen(path) >= HOST_PATH_MAX || (link && strlen(link) >= HOST_PATH_MAX))
                return give_in(IMAGE_BROKEN, "the path of an entry is too long");
        int64_t size = record.kind == IMAGE_FILE ? archive_entry_size(e) : 0;
        if (size < 0 || ++rd->entries > rd->max_entries || (uint64_t)size > rd->max_bytes - rd->bytes)
                return give_in(IMAGE_MANY, path);
        rd->bytes += (uint64_t)size;
        record.size = (uint64_t)size;
        int r = put_record(&record, path, link);
        /* In the midst of a file's bytes there is no place for words: the end of the stream says it. */
        return r < 0 || record.kind != IMAGE_FILE ? r : archive_copy_data(rd, record.size);
}

/* at: where the last entry ends. A tar goes on from there with two blocks of zeros; one that was cut does not, and the library sees no difference. */
static int put_end(struct reader *rd, int64_t at)
{
        struct image_record record = {.kind = archive_filter_bytes(rd->archive, 0) > at ? IMAGE_END : IMAGE_UNMARKED};

        return put_record(&record, "", NULL);
}

int archive_read_image(struct reader *rd)
{
        struct archive_entry *e;
        int64_t at = 0;
        int r = 0;

        if (archive_read_support_filter_gzip(rd->archive) != ARCHIVE_OK || archive_read_support_filter_zstd(rd->archive) != ARCHIVE_OK ||
            archive_read_support_format_tar(rd->archive) != ARCHIVE_OK ||
            archive_read_open_fd(rd->archive, STDIN_FILENO, READ_BLOCK_BYTES) != ARCHIVE_OK)
                return give_in(IMAGE_BROKEN, archive_error_string(rd->archive));
        while (r == 0) {
                int a = archive_read_next_header(rd->archive, &e);
                if (a == ARCHIVE_EOF)
                        return put_end(rd, at);
                if (a != ARCHIVE_OK && a != ARCHIVE_WARN)
                        return give_in(IMAGE_BROKEN, archive_error_string(rd->archive));
                r = take_entry(rd, e);
                /* With what fills its last block. */
                if (r == 0 && archive_read_data_skip(rd->archive) < ARCHIVE_WARN)
                        return give_in(IMAGE_BROKEN, archive_error_string(rd->archive));
                at = archive_filter_bytes(rd->archive, 0);
        }
        return r;
}
