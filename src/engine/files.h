/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of a workspace, from outside, while hostile code works in it. A path is resolved beneath the workspace by
 * the kernel, without links; what is done, is done with the rights of the box's user, so that whatever the code
 * puts in the way, it can gain nothing that it could not do itself. */
#ifndef ENGINE_FILES_H
#define ENGINE_FILES_H

#include "base/error.h"
#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* A workspace that cannot be opened from here: a server of files inside the box does what is asked (engine/files_wire.h). */
struct files_remote {
        /* A new connection to it: a blocking stream socket, the caller's from then on. It serves one operation. From any thread. */
        int (*dial)(void *data, gb_error *err);
        void *data;
        uint64_t bytes_max;   /* more of one file are not taken, holes not counted: what the workspace may hold */
        uint64_t entries_max; /* the same for files and directories of one walk */
};

struct files {
        int root_fd; /* the workspace; borrowed */
        uid_t uid;   /* the box's user, as the host sees it */
        gid_t gid;
        const struct files_remote *remote; /* borrowed; NULL: by root_fd. A walk does not need it after its beginning */
};

struct file_entry {
        char *name; /* any bytes but '/' and NUL */
        mode_t mode; /* with the type */
        uint64_t size;
        int64_t modified_usec; /* since 1970 */
};

struct file_list {
        struct file_entry *entries; /* by name */
        size_t n;
        bool truncated; /* there are more than were asked for */
        char *last;     /* then: the next ones are those behind this */
};

void file_list_free(struct file_list *l);
DEFINE_CLEANUP(struct file_list, file_list_free)
#define _cleanup_file_list_ _cleanup_(file_list_free_ptr)

/* What is behind the name of the workspace, a slash or nothing: /sandbox, /workspace, and /tmp/sandbox, as code sees it with scratch_only.
 * The path itself when it does not begin with one. */
const char *files_skip_workspace(const char *path);
/* A path as callers give it (relative to the workspace, or below /sandbox or /workspace) as it is used: relative,
 * without "." and doubled slashes; "." for the workspace itself. ".." is refused, and so is NUL: size counts. */
int files_check_path(const char *path, size_t size, char ret[static HOST_PATH_MAX], gb_error *err);

/* ---- one file ---- */

/* What becomes a file: bytes in memory, or `size` bytes of a descriptor (read by pread() from its beginning), or what a function gives:
 * exactly as many bytes as it is asked for, or a negative errno. */
struct file_source {
        const void *bytes;
        int fd; /* -1: from memory, or by the function */
        int (*read)(void *data, void *bytes, size_t size);
        void *data;
        uint64_t size;
};

/* Makes or replaces a regular file, at once: nobody sees a part of it, and after an error all is as before. Of the
 * mode the permissions are taken. files_write() takes at most FILE_BYTES_MAX, files_put() as much as the workspace does;
 * parents: makes the directories on the way. */
int files_write(const struct files *f, const char *path, const void *bytes, size_t size, mode_t mode, gb_error *err);
int files_put(const struct files *f, const char *path, const struct file_source *source, mode_t mode, bool parents, gb_error *err);
/* A regular file of at most FILE_BYTES_MAX. A NUL follows that is not counted. */
int files_read(const struct files *f, const char *path, char **ret, size_t *ret_size, gb_error *err);
/* A regular file of any size, to be read by pread(): a descriptor. It may shrink and grow meanwhile; it must never be mapped. */
int files_open(const struct files *f, const char *path, uint64_t *ret_size, gb_error *err);
/* A file, or an empty directory. */
int files_remove(const struct files *f, const char *path, gb_error *err);

/* ---- directories ---- */

/* The first FILE_LIST_MAX. */
int files_list(const struct files *f, const char *path, struct file_list **ret, gb_error *err);
/* The first `limit` by name behind `after` (NULL: from the first). In memory are never more. */
int files_list_page(const struct files *f, const char *path, const char *after, size_t limit, struct file_list **ret, gb_error *err);
/* How many directories are on the way to path, at most. */
unsigned files_depth(const char *path);
int files_make_directory(const struct files *f, const char *path, mode_t mode, gb_error *err);
/* With those on the way; none of them need be missing. */
int files_make_directories(const struct files *f, const char *path, mode_t mode, gb_error *err);
/* Whatever there is by that name, with all that is in it: however deep, and whoever it is closed to. GB_E_CONFLICT when somebody
 * keeps making more. */
int files_remove_tree(const struct files *f, const char *path, gb_error *err);
/* Whether a file or directory could be put there, as it looks now: what is on the way are directories, and in its place is
 * nothing or one of the same kind. */
int files_check_free(const struct files *f, const char *path, bool directory, gb_error *err);

/* ---- all of a directory ---- */

/* What files_walk_next() found: a regular file or a directory. */
struct walk_entry {
        const char *path; /* relative to where the walk began */
        struct stat st;   /* of what is open */
        int fd;           /* of a regular file, until the next call; -1: a directory */
};

struct files_walk;
int files_walk_new(const struct files *f, const char *path, struct files_walk **ret, gb_error *err);
/* 1, or 0 at the end. A directory comes before what is in it. What can be neither read nor named is an error. */
int files_walk_next(struct files_walk *w, struct walk_entry *ret, gb_error *err);
/* Links, sockets and the like that were left out so far. */
uint64_t files_walk_skipped(const struct files_walk *w);
void files_walk_free(struct files_walk *w);
DEFINE_CLEANUP(struct files_walk, files_walk_free)
#define _cleanup_files_walk_ _cleanup_(files_walk_free_ptr)

#endif
