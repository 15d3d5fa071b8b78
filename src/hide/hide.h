/* SPDX-License-Identifier: Apache-2.0
 *
 * A directory of the host without its credential files, to be mounted into a box. The program glovebox-hide serves it as a file system (FUSE), read-only: every
 * name is judged when it is looked up, so a file that appears later is hidden as well, and nothing has to be walked before. */
#ifndef HIDE_HIDE_H
#define HIDE_HIDE_H

#include "base/error.h"
#include "base/helper.h"

#include <stdbool.h>

/* How the front gets it. */
enum hide_kind {
        HIDE_DETACHED, /* as a mount that is nowhere yet */
        HIDE_ATTACHED, /* in a directory of this host, where an engine can find it. Only root can have that */
};

/* Starts the program for a front that cannot: returns a socket to it, and a pidfd. */
typedef int hide_start_function(int *ret_socket, int *ret_pidfd, gb_error *err);

struct hide {
        struct helper helper; /* a child of ours */
        int pidfd;            /* or somebody else's; -1 */
        int socket;           /* the program ends with it */
        enum hide_kind kind;
};
#define HIDE_NONE {.helper = HELPER_NONE, .pidfd = -1, .socket = -1}

/* directory: a descriptor, which stays the caller's. names: patterns, one in a line (hide/names.h). start: NULL where the program is to be a child of ours. *ret: a
 * descriptor of the mount, or of its root where it is attached. */
int hide_open(struct hide *h, enum hide_kind kind, hide_start_function *start, int directory, const char *names, int *ret, gb_error *err);
void hide_close(struct hide *h);

/* Starts the program with this socket, which stays the caller's. It works for the user who made the socket: what it serves, that user can read. */
int hide_spawn(struct helper *h, int socket, gb_error *err);

#endif
