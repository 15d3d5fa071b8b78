/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that come along with a run. */
#ifndef SERVER_RUN_FILES_H
#define SERVER_RUN_FILES_H

#include "server/fields.h"

/* `files`: how many, their paths and forms are looked at. */
int run_files_check(struct fields *f, const json_t **ret, gb_error *err);
/* Puts them into the workspace, with the directories they are in. */
int run_files_write(struct session *s, const json_t *files, gb_error *err);

#endif
