/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk behind a server of files: one connection from its beginning to its end, on which the files come one after another. Each is
 * copied to its end before anybody hears of it; so who walks may take any time, and what was given is whole. */
#include "engine/files_remote.h"

#include "base/fd.h"
#include "engine/files_state.h"

#include <errno.h>
#include <string.h>

struct files_remote_walk {
        struct files_stream *stream;
        uint64_t bytes_max, entries_left, skipped;
        char path[HOST_PATH_MAX];
        char directory[HOST_PATH_MAX]; /* the last one that came; "": where it began */
        int fd;                        /* of the last entry */
        int end;                       /* 1: goes on; else what every further call returns */
        gb_error error;
};

void files_remote_walk_free(struct files_remote_walk *w)
{
        if (!w)
                return;
        files_stream_free(w->stream);
        safe_close(w->fd);
        free(w);
}
DEFINE_CLEANUP(struct files_remote_walk, files_remote_walk_free)

uint64_t files_remote_walk_skipped(const struct files_remote_walk *w)
{
        return w->skipped;
}

int files_remote_walk_new(const struct files *f, const char *path, struct files_remote_walk **ret, gb_error *err)
{
        _cleanup_(files_remote_walk_free_ptr) struct files_remote_walk *w = calloc(1, sizeof(*w));
        struct files_frame frame;

        if (!w)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        w->fd = -1;
        w->end = 1;
        w->bytes_max = f->remote->bytes_max;
        w->entries_left = f->remote->entries_max;
        int r = files_call(f, &(struct files_ask){.verb = FILES_WALK, .path = path}, &w->stream, err);
        if (r == 0)
                r = files_answer(w->stream, FILES_ANY(FILES_READY), &frame, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(w);
        return 0;
}

/* Relative, with nothing in it that leads elsewhere, no deeper than a walk goes; and its directory is the last one that came, or one on the way to
 * that. */
static bool follows(const struct files_remote_walk *w)
{
        char checked[HOST_PATH_MAX];
        size_t deep = 1;

        if (files_check_path(w->path, strlen(w->path), checked, NULL) < 0 || strcmp(checked, w->path) != 0 || strcmp(checked, ".") == 0)
                return false;
        for (const char *at = strchr(w->path, '/'); at; at = strchr(at + 1, '/'))
                deep++;
        for (const char *at = w->path; at; at = strchr(at, '/'), at = at ? at + 1 : NULL)
                if (strcspn(at, "/") > NAME_MAX)
                        return false;
        const char *slash = strrchr(w->path, '/');
        size_t n = slash ? (size_t)(slash - w->path) : 0;
        return deep <= FILE_WALK_DEPTH_MAX && strncmp(w->path, w->directory, n) == 0 && (n == 0 || w->directory[n] == '\0' || w->directory[n] == '/');
}

static void fill(struct walk_entry *ret, const struct files_remote_walk *w, const struct files_item *item)
{
        int64_t seconds = item->modified_usec / 1000000, rest = item->modified_usec % 1000000;

        if (rest < 0) {
                seconds--;
                rest += 1000000;
        }
        *ret = (struct walk_entry){.path = w->path, .fd = w->fd};
        ret->st.st_mode = item->mode & (S_IFMT | 07777);
        ret->st.st_nlink = 1;
        ret->st.st_size = (off_t)item->size;
        ret->st.st_blksize = 4096;
        /* Of what came: who sends may say that holes are none. */
        struct stat copy;
        ret->st.st_blocks = w->fd >= 0 && fstat(w->fd, &copy) == 0 ? copy.st_blocks : (blkcnt_t)item->blocks;
        ret->st.st_mtim = (struct timespec){.tv_sec = seconds, .tv_nsec = rest * 1000};
}

static int receive_file(struct files_remote_walk *w, const struct files_frame *frame, struct walk_entry *ret, gb_error *err)
{
        struct files_item item;

        int r = files_payload_item(w->stream, frame, &item, w->path, sizeof(w->path), err);
        if (r < 0)
                return r;
        if (!follows(w) || (!S_ISREG(item.mode) && !S_ISDIR(item.mode)) || (S_ISDIR(item.mode) && item.size > 0) || item.skipped < w->skipped)
                return files_broken(err, "an entry that cannot be one");
        if (w->entries_left == 0)
                return error_set(err, GB_E_LIMIT, EOVERFLOW, "there are more files and directories than the workspace may have");
        w->entries_left--;
        w->skipped = item.skipped;
        if (S_ISDIR(item.mode))
                memcpy(w->directory, w->path, sizeof(w->path));
        else
                r = w->fd = files_receive_content(w->stream, w->path, item.size, w->bytes_max, err);
        if (r < 0)
                return r;
        fill(ret, w, &item);
        return 1;
}

static int receive_end(struct files_remote_walk *w, const struct files_frame *frame, gb_error *err)
{
        struct files_done done;

        if (frame->size != sizeof(done))
                return files_broken(err, "an answer of a wrong size");
        int r = files_payload(w->stream, &done, sizeof(done), err);
        if (r == 0)
                w->skipped = done.skipped;
        return r;
}

int files_remote_walk_next(struct files_remote_walk *w, struct walk_entry *ret, gb_error *err)
{
        struct files_frame frame;

        w->fd = safe_close(w->fd);
        if (w->end == 1) {
                int r = files_answer(w->stream, FILES_ANY(FILES_FILE) | FILES_ANY(FILES_DONE), &frame, &w->error);
                if (r == 0)
                        r = frame.type == FILES_DONE ? receive_end(w, &frame, &w->error) : receive_file(w, &frame, ret, &w->error);
                w->end = r;
        }
        if (w->end < 0 && err)
                *err = w->error;
        return w->end;
}
