/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside glovebox-hide: whether a name is the one that its directory lists. Some file systems find a file by further names: in another case, or by a short one
 * (NETRC~1). Such a name says nothing of what is in the file. */
#ifndef HIDE_SPELLING_H
#define HIDE_SPELLING_H

#include "hide/tree.h"

/* Whether each part of path is spelled as its directory lists it, or its directory finds a file by one name only. */
bool spelling_is_listed(const struct hide_tree *t, const char *path);

/* Looks at each directory again. */
void spelling_forget(void);

#endif
