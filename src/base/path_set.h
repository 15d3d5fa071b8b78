/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths, as of an archive: none twice, and none below a file. Only hashes are kept. Two paths of one hash would be taken
 * for a repetition, which nobody meets by chance, nor can make: the hashes have a secret key. */
#ifndef BASE_PATH_SET_H
#define BASE_PATH_SET_H

#include <stdbool.h>
#include <stddef.h>

struct path_set;

/* For at most so many files and directories, those on the way counted. 0 or -ENOMEM. */
int path_set_new(size_t max, struct path_set **ret);
void path_set_free(struct path_set *s); /* takes NULL */
/* -EEXIST: it is there already (a directory may be), as the other kind, or below a file; -E2BIG: too many. */
int path_set_add(struct path_set *s, const char *path, bool directory);
/* Whether it was added, or something below it. */
bool path_set_has(const struct path_set *s, const char *path);
/* How many there are. */
size_t path_set_size(const struct path_set *s);

#endif
