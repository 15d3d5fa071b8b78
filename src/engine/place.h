/* SPDX-License-Identifier: Apache-2.0
 *
 * Directories and files of the host that a caller names for a box. */
#ifndef ENGINE_PLACE_H
#define ENGINE_PLACE_H

/* Opens path with O_CLOEXEC and these flags. Symbolic links on the way are followed only if they belong to us
 * or to root: what is mounted into a box becomes the box user's, so nobody else may choose it. Returns a
 * descriptor, or -1 and errno: EXDEV for a link of another user. */
int place_open(const char *path, int flags);

#endif
