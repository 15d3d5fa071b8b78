/* SPDX-License-Identifier: Apache-2.0
 *
 * What the front and glovebox-hide say to each other: one message each, over a socket that is the program's standard input. The directory comes with the order,
 * a mount with the answer. */
#ifndef HIDE_WIRE_H
#define HIDE_WIRE_H

#include "base/limits.h"
#include "glovebox/error.h"

#include <stdint.h>

#define HIDE_NAMES_BYTES_MAX (16 * KIB)
/* An attached mount contains only this directory. If the mount is not visible to an engine, the path does not
 * exist, and nothing else can be mounted by mistake. */
#define HIDE_ROOT "project"

struct hide_order {
        uint32_t kind;    /* enum hide_kind */
        uint32_t owner_uid, owner_gid; /* of the directory; counts only from root */
        char names[HIDE_NAMES_BYTES_MAX];
};

struct hide_answer {
        gb_error error; /* its code is GB_E_NONE when the mount is there */
        char path[HOST_PATH_MAX]; /* HIDE_ATTACHED: where; also from the descriptor */
};

#endif
