/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside engine/files*.c: what they share. */
#ifndef ENGINE_FILES_STATE_H
#define ENGINE_FILES_STATE_H

#include "engine/files.h"
#include "engine/files_remote.h"

#define FILE_PERMISSIONS 0777
#define TEMPORARY_NAME_MAX 32

/* As whom files are touched. Everything here that opens, makes or removes something does it between these two, on one
 * thread; nothing else changes who we are. */
struct identity {
        uid_t uid;
        gid_t gid;
        int dumpable, death_signal;
        bool changed;
};

int identity_take(struct identity *i, const struct files *f, gb_error *err);
void identity_restore(struct identity *i);

/* The kernel looks at each part on the way: no link, nothing above the root, no other file system. -1 and errno. */
int files_open_beneath(int root_fd, const char *path, int flags);
int files_fail(gb_error *err, int errnum, const char *what, const char *path);
int files_temporary_name(char ret[static TEMPORARY_NAME_MAX]);

/* A path in two: the directory, open, and the name in it. */
struct target {
        char path[HOST_PATH_MAX];
        const char *name;
        int dir_fd;
};

int target_open(struct target *t, const struct files *f, const char *path, const char *what, gb_error *err);
void target_done(struct target *t);

/* Directories that were made for something to be put there, and go again when that fails: of path, all that is longer than kept. */
struct made_path {
        char path[HOST_PATH_MAX];
        size_t kept;
};

int files_make_parents(const struct files *f, const char *path, struct made_path *ret, gb_error *err);
void files_unmake_parents(const struct files *f, const struct made_path *made);

/* A part of a source that is not in memory. */
int files_source_read(const struct file_source *source, uint64_t at, char *piece, size_t size);
int files_too_large(gb_error *err, const char *path);

/* The code of a box sets any times: what does not fit is the first or last that does. */
static inline int64_t files_time_usec(const struct timespec *t)
{
        int64_t usec;

        if (__builtin_mul_overflow((int64_t)t->tv_sec, (int64_t)1000000, &usec) || __builtin_add_overflow(usec, (int64_t)t->tv_nsec / 1000, &usec))
                return t->tv_sec < 0 ? INT64_MIN : INT64_MAX;
        return usec;
}

#endif
