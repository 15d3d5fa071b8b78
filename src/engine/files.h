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
#include <sys/types.h>

struct files {
        int root_fd; /* the workspace; borrowed */
        uid_t uid;   /* the box's user, as the host sees it */
        gid_t gid;
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
        bool truncated; /* there are more than FILE_LIST_MAX */
};

void file_list_free(struct file_list *l);
DEFINE_CLEANUP(struct file_list, file_list_free)
#define _cleanup_file_list_ _cleanup_(file_list_free_ptr)

/* A path as callers give it (relative to the workspace, or below /sandbox or /workspace) as it is used: relative,
 * without "." and doubled slashes; "." for the workspace itself. ".." is refused, and so is NUL: size counts. */
int files_check_path(const char *path, size_t size, char ret[static HOST_PATH_MAX], gb_error *err);

/* Makes or replaces a regular file, at once: nobody sees a part of it, and after an error all is as before. Of the
 * mode the permissions are taken. */
int files_write(const struct files *f, const char *path, const void *bytes, size_t size, mode_t mode, gb_error *err);
/* A regular file of at most FILE_BYTES_MAX. A NUL follows that is not counted. */
int files_read(const struct files *f, const char *path, char **ret, size_t *ret_size, gb_error *err);
int files_list(const struct files *f, const char *path, struct file_list **ret, gb_error *err);
/* A file, or an empty directory. */
int files_remove(const struct files *f, const char *path, gb_error *err);
int files_make_directory(const struct files *f, const char *path, mode_t mode, gb_error *err);

#endif
