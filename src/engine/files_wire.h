/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of a workspace that no directory of this host leads to: what is said between glovebox and a small server of files inside the
 * box. One connection is one operation: a request, its answer, the end. Both run on the same machine, so numbers are the machine's own.
 *
 * The server does with the box's own rights what engine/files.h does here, by the same functions. Its answers are read as those of an
 * enemy: whoever has taken it over can lie about what is in the workspace, and nothing else. */
#ifndef ENGINE_FILES_WIRE_H
#define ENGINE_FILES_WIRE_H

#include "engine/files.h"

#include <limits.h>

#define FILES_WIRE_VERSION 1U
#define FILES_ERRNO_MAX 4096         /* as the kernel has it */
#define FILES_STREAM_BYTES (64 * KIB) /* what is collected before it is sent, and read at a time */

enum files_verb {
        FILES_PUT = 1, /* size bytes follow as FILES_DATA, or FILES_ABORT. Answer: FILES_DONE */
        FILES_OPEN,    /* FILES_FILE, its content */
        FILES_LIST,    /* FILES_ENTRY for each, FILES_DONE */
        FILES_WALK,    /* FILES_READY; FILES_FILE for each, with its content if it is regular; FILES_DONE */
        FILES_MAKE_DIRECTORY, /* FILES_DONE, as all that follow */
        FILES_MAKE_DIRECTORIES,
        FILES_REMOVE,
        FILES_REMOVE_TREE,
        FILES_CHECK_FREE,
};

enum files_frame_type {
        FILES_REQUEST = 1, /* struct files_request, the path, the name to begin behind; neither with a NUL */
        FILES_DATA,        /* bytes of a file, FILE_PIECE_BYTES at most */
        FILES_ABORT,       /* to the server, instead of bytes: int32_t, the errno why there are no more */

        FILES_READY,       /* from the server */
        FILES_FILE,        /* struct files_item; of a walk the path */
        FILES_HOLE,        /* of a file's content: uint64_t, where it goes on; zeros until there */
        FILES_END,         /* of a file's content: it ends here, which is before its size if it has shrunk */
        FILES_ENTRY,       /* struct files_item, the name */
        FILES_DONE,        /* struct files_done, the last name: the answer is whole */
        FILES_FAILED,      /* struct files_failure: instead of anything above; the answer is over */
        FILES_TYPES,
};

struct files_frame {
        uint32_t type;
        uint32_t size; /* of what follows */
};

#define FILES_FLAG_PARENTS 1U   /* FILES_PUT */
#define FILES_FLAG_DIRECTORY 2U /* FILES_CHECK_FREE */
#define FILES_FLAG_AFTER 4U     /* FILES_LIST: there is a name to begin behind */
struct files_request {
        uint32_t version;
        uint32_t verb;
        uint32_t mode;
        uint32_t flags;
        uint64_t size; /* FILES_PUT: bytes; FILES_LIST: entries, 1 to FILE_LIST_MAX */
        uint32_t path_size, after_size;
};

struct files_item {
        uint32_t mode;
        uint32_t reserved; /* 0 */
        uint64_t size, blocks;
        int64_t modified_usec;
        uint64_t skipped; /* of a walk, so far */
};

struct files_done {
        uint64_t skipped;   /* of a walk */
        uint32_t truncated; /* of a list: then the last name follows */
        uint32_t reserved;  /* 0 */
};

struct files_failure {
        uint32_t code;
        int32_t errnum;
        char message[GB_ERROR_MESSAGE_MAX];
};

/* ---- one side of a connection ---- */

struct files_stream {
        int fd;
        uint64_t quiet_usec; /* nothing moves for so long: -ETIMEDOUT; 0: for ever */
        size_t in_at, in_end, out_end;
        uint64_t flushed_usec;
        char in[FILES_STREAM_BYTES], out[FILES_STREAM_BYTES];
};

/* Takes the descriptor, also when it fails. */
int files_stream_new(int fd, uint64_t quiet_usec, struct files_stream **ret);
void files_stream_free(struct files_stream *s);
DEFINE_CLEANUP(struct files_stream, files_stream_free)
#define _cleanup_files_stream_ _cleanup_(files_stream_free_ptr)

/* All of it, or a negative errno: -EPIPE when the other side has ended. */
int files_stream_read(struct files_stream *s, void *bytes, size_t size);
int files_stream_write(struct files_stream *s, const void *bytes, size_t size);
int files_stream_flush(struct files_stream *s);
/* Whether there is something to read, or the other side has ended. */
bool files_stream_answers(const struct files_stream *s);
/* A frame of two parts, either of which may be empty. */
int files_stream_frame(struct files_stream *s, enum files_frame_type type, const void *head, size_t head_size, const void *tail, size_t tail_size);

/* ---- the server ---- */

/* Serves one operation on the descriptor (which stays the caller's), in this process's own name; f says where. 0, or a negative errno when
 * not even an answer could be given. */
int files_server_run(int fd, const struct files *f);

#endif
