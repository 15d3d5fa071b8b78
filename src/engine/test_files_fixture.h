/* SPDX-License-Identifier: Apache-2.0
 *
 * The same tests on files by their directory, and by a server of files in a process of its own. */
#ifndef ENGINE_TEST_FILES_FIXTURE_H
#define ENGINE_TEST_FILES_FIXTURE_H

#include "engine/files.h"

enum files_way {
        WAY_DIRECTORY,
        WAY_SERVER,
        WAY_OLD_SERVER, /* its kernel has neither openat2() nor setfsuid(), as gVisor's */
        WAYS_MAX,
};

extern enum files_way files_way;
extern const char *const files_way_names[WAYS_MAX];

/* From here on f is used that way: by a server with f's root, as f's user. f stays where it is. */
void files_go(struct files *f);
/* The servers have ended. */
void files_reap(void);

#endif
