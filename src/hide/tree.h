/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside glovebox-hide: the directory that is served. What of it is shown, by the path that somebody asks for. */
#ifndef HIDE_TREE_H
#define HIDE_TREE_H

#include "hide/names.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct hide_tree {
        int root;               /* O_PATH */
        struct hide_walk start; /* where it is on the host */
        struct hide_names names;
        uid_t owner; /* whose files are shown as those of whoever asks: a box has one user, who stands for the owner of the directory */
        gid_t group;
        bool is_below; /* it is HIDE_ROOT in the root of the file system */
};

/* Below the root, whatever its name; without links. A negative errno. */
int tree_open(const struct hide_tree *t, const char *path, uint64_t flags);

/* Of all parts of a path the harshest; HIDE_ALWAYS also when a directory has no entry that is spelled like this. ret: where the path has come to, or NULL. */
enum hide_verdict tree_judge(const struct hide_tree *t, const char *path, struct hide_walk *ret);

/* Opens what is not hidden, as O_PATH. -ENOENT: it is. */
int tree_find(const struct hide_tree *t, const char *path);

/* The same of an entry that its directory lists, with the verdict of its name. */
bool tree_shows(const struct hide_tree *t, const char *path, enum hide_verdict verdict);

/* Reads a file with a name of keys. -ENOENT: it is hidden. */
int tree_read(int fd, const char *path, char **ret, size_t *ret_size);

#endif
