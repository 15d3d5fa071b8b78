/* SPDX-License-Identifier: Apache-2.0
 *
 * Unpacking. The bytes are a stranger's, and who reads them is a process without rights (archive_main.c), which writes records
 * to a pipe. It is started twice: the first time it only says what is there, and all of it is checked against the rules,
 * itself and the workspace; the second time it gives the bytes, which are written as any other upload, each path being checked again. So an
 * archive that is refused has changed nothing. (What can still fail the second time is a workspace that fills up or is rebuilt by the
 * code in it at that moment: what was written until then stays.) */
#include "server/archive.h"

#include "base/hash.h"
#include "base/helper.h"
#include "base/path_set.h"
#include "base/quote.h"
#include "server/archive_record.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PAGE_BYTES 4096ULL

struct unpacking {
        struct session *session;
        struct files files;
        const char *path; /* of the directory, checked */
        struct archive_totals limits, totals;
        uint64_t room_bytes; /* as the file system counts */
        struct path_set *set; /* NULL: the second time */
        bool write;

        int fd; /* the records */
        char text[HOST_PATH_MAX + 1]; /* of the record */
        char target[HOST_PATH_MAX];
        char *entry; /* the caller's: what is refused */
};

/* ---- records ---- */

static int read_exactly(int fd, void *bytes, size_t size)
{
        for (size_t n = 0; n < size;) {
                struct pollfd p = {fd, POLLIN, 0};
                int r = poll(&p, 1, (int)(ARCHIVE_SILENCE_USEC / 1000));
                if (r == 0)
                        return -ETIME;
                ssize_t k = r < 0 ? r : read(fd, (char *)bytes + n, size - n);
                if (k < 0 && errno == EINTR)
                        continue;
                if (k <= 0)
                        return k < 0 ? -errno : -EPIPE;
                n += (size_t)k;
        }
        return 0;
}

static int refuse(struct unpacking *u, gb_error_code code, const char *why, gb_error *err)
{
        snprintf(u->entry, HOST_PATH_MAX, "%.*s", HOST_PATH_MAX - 1, u->text);
        return error_set(err, code, EINVAL, "the entry %s of the archive is refused: %s", quote(u->text).text, why);
}

static bool has_long_part(const char *path)
{
        for (size_t n; *path; path += n + (path[n] == '/')) {
                n = strcspn(path, "/");
                if (n > NAME_MAX)
                        return true;
        }
        return false;
}

/* Where it goes: the entry's path below the directory. 1: it is the directory itself. */
static int set_target(struct unpacking *u, size_t size, gb_error *err)
{
        char checked[HOST_PATH_MAX];
        gb_error why = {0};

        if (u->text[0] == '/')
                return refuse(u, GB_E_USAGE, "its path is absolute", err);
        if (files_check_path(u->text, size, checked, &why) < 0)
                return refuse(u, GB_E_USAGE, why.message, err);
        bool top = strcmp(u->path, ".") == 0, itself = strcmp(checked, ".") == 0;
        int n = snprintf(u->target, sizeof(u->target), "%s%s%s", top ? "" : u->path, top || itself ? "" : "/", itself ? top ? "." : "" : checked);
        if (n >= (int)sizeof(u->target) || has_long_part(checked))
                return refuse(u, GB_E_USAGE, "its path is too long", err);
        return itself;
}

/* The first time: whether it can be done. */
static int check_entry(struct unpacking *u, bool directory, gb_error *err)
{
        gb_error why = {0};

        int r = path_set_add(u->set, u->target, directory);
        if (r == -EEXIST)
                return refuse(u, GB_E_USAGE, "it is there twice, or below a file", err);
        if (r == -E2BIG)
                return refuse(u, GB_E_LIMIT, "there are too many", err);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "out of memory");
        if (files_check_free(&u->files, u->target, directory, &why) < 0)
                return refuse(u, (gb_error_code)why.code, why.message, err);
        return 0;
}

static int read_data(void *data, void *bytes, size_t size)
{
        return read_exactly(((struct unpacking *)data)->fd, bytes, size);
}

static int write_entry(struct unpacking *u, const struct archive_record *record, bool directory, gb_error *err)
{
        struct file_source source = {.fd = -1, .read = read_data, .data = u, .size = record->size};

        if (directory) /* What is to be put into it must be possible */
                return files_make_directories(&u->files, u->target, (mode_t)(record->mode & 0777) | 0700, err);
        return files_put(&u->files, u->target, &source, (mode_t)(record->mode & 0777), true, err);
}

static int take_entry(struct unpacking *u, const struct archive_record *record, gb_error *err)
{
        bool directory = record->kind == ARCHIVE_DIRECTORY;

        if (memchr(u->text, '\0', record->text_size))
                return refuse(u, GB_E_USAGE, "its path has a NUL in it", err);
        int r = set_target(u, record->text_size, err);
        if (r < 0)
                return r;
        if (r > 0 && !directory)
                return refuse(u, GB_E_USAGE, "it would be the directory itself", err);
        if (++u->totals.entries > u->limits.entries)
                return refuse(u, GB_E_LIMIT, "there are too many", err);
        if (record->size > u->limits.bytes - u->totals.bytes || (directory && record->size > 0))
                return refuse(u, GB_E_DISK_FULL, "the archive holds more than the workspace may", err);
        u->totals.bytes += record->size;
        u->room_bytes += (record->size + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
        if (r > 0)
                return 0;
        if (!u->write)
                return check_entry(u, directory, err);
        r = write_entry(u, record, directory, err);
        if (r < 0)
                snprintf(u->entry, HOST_PATH_MAX, "%.*s", HOST_PATH_MAX - 1, u->text);
        return r;
}

/* 1: it was the last. */
static int take_record(struct unpacking *u, gb_error *err)
{
        struct archive_record record;

        int r = read_exactly(u->fd, &record, sizeof(record));
        if (r == 0 && (record.magic != ARCHIVE_RECORD_MAGIC || record.text_size > HOST_PATH_MAX))
                r = -EBADMSG;
        if (r == 0)
                r = read_exactly(u->fd, u->text, record.text_size);
        if (r < 0)
                return error_set(err, GB_E_USAGE, -r, "the archive cannot be read: the program that reads it has given up");
        u->text[record.text_size] = '\0';
        switch (record.kind) {
        case ARCHIVE_FILE:
        case ARCHIVE_DIRECTORY:
                return take_entry(u, &record, err);
        case ARCHIVE_REFUSED: {
                size_t n = strlen(u->text);
                return refuse(u, GB_E_USAGE, quote(n + 1 < record.text_size ? u->text + n + 1 : "it is neither a file nor a directory").text, err);
        }
        case ARCHIVE_MANY:
                if (u->totals.entries >= u->limits.entries)
                        return refuse(u, GB_E_LIMIT, "there are too many", err);
                return refuse(u, GB_E_DISK_FULL, "the archive holds more than the workspace may", err);
        case ARCHIVE_END:
                return 1;
        default:
                return error_set(err, GB_E_USAGE, EBADMSG, "the archive cannot be read: %s", quote(u->text).text);
        }
}

static int take_all(struct unpacking *u, gb_error *err)
{
        int r = 0;

        u->totals = (struct archive_totals){0};
        u->room_bytes = 0;
        while (r == 0)
                r = take_record(u, err);
        return r < 0 ? r : 0;
}

/* ---- all of it ---- */

static int once(struct unpacking *u, int in, bool write, gb_error *err)
{
        _cleanup_helper_ struct helper reader = HELPER_NONE;
        char bytes[24], entries[24];
        const char *const words[] = {write ? "unpack" : "check", bytes, entries, NULL};

        snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)u->limits.bytes);
        snprintf(entries, sizeof(entries), "%llu", (unsigned long long)u->limits.entries);
        if (lseek(in, 0, SEEK_SET) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot read an archive: %s", strerror(errno));
        int r = helper_start(&reader, "glovebox-archive", words, in, err);
        if (r < 0)
                return r;
        u->write = write;
        u->fd = reader.fd;
        return take_all(u, err);
}

static int unpacking_init(struct unpacking *u, struct session *s, const char *path, char checked[static HOST_PATH_MAX], char *ret_entry, gb_error *err)
{
        const struct policy *policy = session_policy(s);
        uint64_t entries = MIN(policy->inode_limit, (uint64_t)ARCHIVE_ENTRIES_MAX);

        ret_entry[0] = '\0';
        *u = (struct unpacking){
                .session = s, .path = checked, .entry = ret_entry, .fd = -1,
                .limits = {.bytes = policy->disk_limit_bytes, .entries = entries},
        };
        int r = files_check_path(path, strlen(path), checked, err);
        if (r == 0)
                r = session_files(s, &u->files, err);
        return r < 0 ? r : files_check_free(&u->files, checked, true, err);
}

static int check_all(struct unpacking *u, int in, gb_error *err)
{
        int r = path_set_new((size_t)u->limits.entries, &u->set);

        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "out of memory");
        r = once(u, in, false, err);
        uint64_t inodes = path_set_size(u->set);
        path_set_free(u->set);
        u->set = NULL;
        return r < 0 ? r : session_room(u->session, u->room_bytes, inodes, 0, err);
}

int archive_unpack(struct session *s, const char *path, int fd, struct archive_totals *ret, char *ret_entry, gb_error *err)
{
        _cleanup_free_ struct unpacking *u = malloc(sizeof(*u));
        char checked[HOST_PATH_MAX];

        int r = u ? unpacking_init(u, s, path, checked, ret_entry, err) : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (r == 0)
                r = check_all(u, fd, err);
        if (r == 0)
                r = files_make_directories(&u->files, checked, 0755, err);
        if (r == 0)
                r = once(u, fd, true, err);
        if (r < 0)
                return r;
        *ret = u->totals;
        return 0;
}
