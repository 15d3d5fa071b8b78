/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of files in answers, and the cursors that are made of them. Code chooses its names: one may be a secret of its session. */
#ifndef SERVER_FILE_NAMES_H
#define SERVER_FILE_NAMES_H

#include "engine/files.h"
#include "guard/scrub.h"

#include <jansson.h>
#include <limits.h>

/* A page of a directory. scrub: the session's; NULL: names are shown as they are. NULL: out of memory. */
json_t *file_list_to_json(const struct scrub *scrub, const char *path, const struct file_list *l);

/* The name that a cursor stands for. */
int file_cursor_parse(const char *text, char ret[static NAME_MAX + 1], gb_error *err);

/* Whether an error about this path would tell a secret by quoting a part of it: then its message is another one. */
void file_error_scrub(const struct scrub *scrub, const char *path, gb_error *err);

#endif
