/* SPDX-License-Identifier: Apache-2.0
 *
 * The same tests on files by their directory, and by a server of files in a process of its own. */
#ifndef ENGINE_TEST_FILES_FIXTURE_H
#define ENGINE_TEST_FILES_FIXTURE_H

#include "base/buffer.h"
#include "engine/files_wire.h"

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

/* ---- for tables ---- */

enum operation { PUT, OPEN, READ, LIST, PAGE, MAKE, MAKE_ALL, REMOVE, REMOVE_TREE, CHECK, WALK, OPERATIONS };

int operate(const struct files *f, enum operation what, const char *path, gb_error *err);

/* Of a directory; -2: there is none. */
int count_entries(const char *path);

int add_request(struct buffer *b, enum files_verb verb, const char *path, uint64_t size);
/* What an honest server answers: it runs in this process. answer may be NULL. */
int ask_server(const struct files *f, const void *question, size_t size, struct buffer *answer);

#endif
