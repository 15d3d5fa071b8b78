/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside engine/files*.c: operations on a workspace behind a server of files. Each is what the function of engine/files.h of that name does. */
#ifndef ENGINE_FILES_REMOTE_H
#define ENGINE_FILES_REMOTE_H

#include "engine/files_wire.h"

struct files_ask {
        enum files_verb verb;
        const char *path;
        mode_t mode;
        uint32_t flags;
        uint64_t size;
        const char *after;
};

/* What is answered by FILES_DONE alone. */
int files_remote_do(const struct files *f, const struct files_ask *ask, gb_error *err);
int files_remote_put(const struct files *f, const char *path, const struct file_source *source, mode_t mode, bool parents, gb_error *err);
/* A descriptor of a copy that has no name; a file of more than max bytes is refused as files_read() does. */
int files_remote_open(const struct files *f, const char *path, uint64_t max, uint64_t *ret_size, gb_error *err);
int files_remote_list(const struct files *f, const char *path, const char *after, size_t limit, struct file_list **ret, gb_error *err);

struct files_remote_walk;
int files_remote_walk_new(const struct files *f, const char *path, struct files_remote_walk **ret, gb_error *err);
int files_remote_walk_next(struct files_remote_walk *w, struct walk_entry *ret, gb_error *err);
uint64_t files_remote_walk_skipped(const struct files_remote_walk *w);
void files_remote_walk_free(struct files_remote_walk *w);

/* ---- between the files of the client ---- */

/* Connects and asks. */
int files_call(const struct files *f, const struct files_ask *ask, struct files_stream **ret, gb_error *err);
/* The next frame of the answer, one of these; its size is that of its type. What the server failed with is the error. */
int files_answer(struct files_stream *s, uint32_t types, struct files_frame *ret, gb_error *err);
#define FILES_ANY(type) (1U << (type))
/* What follows a frame. */
int files_payload(struct files_stream *s, void *bytes, size_t size, gb_error *err);
/* The item of a FILES_FILE or FILES_ENTRY, and its name or path with a NUL: max bytes with that. */
int files_payload_item(struct files_stream *s, const struct files_frame *frame, struct files_item *ret, char *ret_name, size_t max, gb_error *err);
/* Into a new descriptor. */
int files_receive_content(struct files_stream *s, const char *path, uint64_t size, uint64_t bytes_max, gb_error *err);
/* The server has broken a rule. */
int files_broken(gb_error *err, const char *rule);

#endif
