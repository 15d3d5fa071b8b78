/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside glovebox-hide: the file system. */
#ifndef HIDE_SERVE_H
#define HIDE_SERVE_H

#include "hide/names.h"

#include <stdbool.h>
#include <sys/types.h>

struct hide_tree {
        int root;         /* O_PATH */
        const char *name; /* the last part of its path: some patterns name a file's directory as well */
        struct hide_names names;
        uid_t owner; /* whose files are shown as those of whoever asks: a box has one user, who stands for the owner of the directory */
        gid_t group;
        bool is_below; /* it is HIDE_ROOT in the root of the file system */
};

/* Answers what comes from device until the other end of socket, or the mount, is gone. 0 or a negative errno. */
int hide_serve(const struct hide_tree *tree, int device, int socket);

#endif
