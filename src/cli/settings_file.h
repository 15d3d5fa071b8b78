/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of settings that belongs to another program, and is changed for it: read whole, kept under another name, and replaced at once or not at all. */
#ifndef CLI_SETTINGS_FILE_H
#define CLI_SETTINGS_FILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define SETTINGS_BYTES_MAX (64u << 20) /* of such a file */
#define SETTINGS_BACKUPS_MAX 100       /* of one second */

struct settings_file {
        char *given; /* the path as it was asked for */
        char *path;  /* what it leads to: the same, unless there is a link */
        bool exists, is_link;
        struct stat st; /* when it was read */
        char *text;  /* whole, with a NUL behind it; empty when there is no file */
        size_t size;
};

/* ret is to be freed, also after a failure. What is not there is no failure; what is no file is. */
int settings_file_read(const char *path, struct settings_file *ret, gb_error *err);
void settings_file_done(struct settings_file *f);
#define _cleanup_settings_file_ _cleanup_(settings_file_done)

/* Puts text in its place. Owner and mode stay; mode (less the umask) is for one that was not there. make_directory: the directory it is in is made when it is
 * missing (not those above it), for this user only unless the mode lets others read. *ret_backup: what the old text is kept as; NULL: there was none. When
 * anything fails, also the disk, the old file is there as it was. GB_E_CONFLICT: somebody has changed it since it was read. */
int settings_file_replace(const struct settings_file *f, const char *text, size_t size, mode_t mode, bool make_directory, char **ret_backup, gb_error *err);

#endif
