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

struct hide {
        struct helper helper;
        int socket; /* the program ends with it */
        enum hide_kind kind;
};
#define HIDE_NONE {.helper = HELPER_NONE, .socket = -1}

/* directory: a descriptor, which stays the caller's. names: patterns, one in a line (hide/names.h). *ret: a descriptor of the mount, or of its root where it is
 * attached. */
int hide_open(struct hide *h, enum hide_kind kind, int directory, const char *names, int *ret, gb_error *err);
void hide_close(struct hide *h);

#endif
