/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside glovebox-hide: the file system, request by request. */
#ifndef HIDE_SERVE_H
#define HIDE_SERVE_H

#include "hide/tree.h"

/* Answers what comes from device until the other end of socket, or the mount, is gone. 0 or a negative errno. */
int hide_serve(const struct hide_tree *tree, int device, int socket);

#endif
