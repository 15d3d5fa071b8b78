/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of 'glovebox session files' share. */
#ifndef CLI_SESSION_FILES_H
#define CLI_SESSION_FILES_H

#include "cli/command.h"
#include "cli/ids.h"
#include "cli/progress.h"
#include "cli/service.h"

struct files_call {
        struct service service;
        const struct arguments *arguments;
        char session[RESPONSE_ID_MAX];
        const char **words; /* what follows the session */
        size_t n_words;
        struct progress progress;
};

/* "/v1/sessions/ID/what/path"; path NULL: none. */
int files_target(struct files_call *f, const char *what, const char *path, struct buffer *ret, gb_error *err);
int files_add_query(struct buffer *target, const char *name, const char *value);

/* Sends a request with the content of a file (fd -1: without) and waits for the head of the answer. accept and type as in
 * struct client_request. */
int files_begin(struct files_call *f, const char *method, const char *target, const char *accept, const char *type, int fd, uint64_t size,
                gb_error *err);
/* The rest of an answer in JSON, which with --json is printed. */
int files_finish(struct files_call *f, gb_error *err);
/* A file without a name, for what is sent. */
int files_temporary(gb_error *err);

int session_files_pull(struct files_call *f, gb_error *err);
int session_files_push(struct files_call *f, gb_error *err);

#endif
