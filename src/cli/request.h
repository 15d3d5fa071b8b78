/* SPDX-License-Identifier: Apache-2.0
 *
 * What flags and environment say, as the API of the server takes it. */
#ifndef CLI_REQUEST_H
#define CLI_REQUEST_H

#include "base/json.h"
#include "cli/options.h"

/* The object `policy` of a request: only what was given, checked by itself; the server holds it against its own policy. Empty
 * when nothing was. */
int request_policy(const struct option_set *set, const struct arguments *a, json_t **ret, gb_error *err);

/* The body of a request for a session: policy, template, times, workspace, secrets, as far as the verb has options for them. Empty when nothing was said. */
int request_session(const struct option_set *set, const struct arguments *a, json_t **ret, gb_error *err);

/* A string of the request. -EILSEQ when the bytes are not UTF-8, or hold a NUL, which cannot be said there. */
int request_set_text(json_t *object, const char *key, const char *bytes, size_t size);
/* The same for any bytes: text, or {"base64": ...}. */
int request_set_bytes(json_t *object, const char *key, const void *bytes, size_t size);
/* A list of strings; words may be NULL. */
int request_set_words(json_t *object, const char *key, char *const words[]);

/* A time as flags have it, with its unit. what names the flag in errors. */
int request_set_duration(json_t *object, const char *key, const char *text, const char *what, gb_error *err);

/* Standard input for a run on a server. */
struct request_input {
        char *bytes; /* it goes along whole: owned; NULL otherwise */
        size_t size;
        int fd;      /* it is read while the run lasts; -1: not */
};
void request_input_done(struct request_input *in);
/* fd -1: there is none. */
int request_input_read(int fd, struct request_input *ret, gb_error *err);
/* Says so in the request. */
int request_set_input(json_t *object, const struct request_input *in);

#endif
