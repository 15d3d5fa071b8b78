/* SPDX-License-Identifier: Apache-2.0
 *
 * Trees of files that a stranger has named: no link is ever followed, nothing outside is touched. */
#ifndef IMAGE_TREE_H
#define IMAGE_TREE_H

#include <stdbool.h>
#include <stdint.h>

/* Removes name below the directory, and all that is in it. A name that is not there is no error. 0 or a negative errno. */
int tree_remove(int dir, const char *name);

/* What the files below the directory take on the disk, a file with several names once, and how many there are. */
struct tree_size {
        uint64_t bytes, entries;
};
int tree_measure(int dir, struct tree_size *ret);

#endif
