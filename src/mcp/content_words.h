/* SPDX-License-Identifier: Apache-2.0
 *
 * What glovebox says itself of a run, to a model: how it ended, and what else is worth knowing. None of it is taken from what the program says, but for names of
 * hosts, which are quoted. The sentences of a result are written for who has a command line; here they are made fit for who has tools. */
#ifndef MCP_CONTENT_WORDS_H
#define MCP_CONTENT_WORDS_H

#include "base/buffer.h"
#include "base/json.h"

#include <stdbool.h>

/* The verdict's kind; "lost" for what is none. Never NULL, and static. */
const char *content_kind(const json_t *result);
/* The status of a command in a shell that lives on, which tells it as an error without a traceback. -1: that is not how it ended. */
int content_exit_status(const json_t *result);
/* False when it is not known. */
bool content_duration_ms(const json_t *result, double *ret);

/* How it ended: one line, without its end. 0, -ENOMEM or -EFBIG. */
int content_add_message(struct buffer *out, const json_t *result);

/* Sentences, with a cap on all of them. */
struct content_notes {
        json_t *list; /* of strings */
        size_t used_bytes;
};
/* One line each, whatever is in there; what is beyond the cap is dropped. 0 or -ENOMEM. */
int content_note(struct content_notes *n, const char *format, ...) _printf_(2, 3);
/* What the result has to tell besides: variables, findings of the guard, its own notes, secrets. */
int content_note_result(struct content_notes *n, const json_t *result);
/* Hosts that the network policy refused, a line each. The program has chosen their names. */
int content_add_refused(struct buffer *out, const json_t *result);

/* Says of an item of `content` that it carries what a stranger has made, for clients that treat it in another way. 0, or -1: out of memory. content.c */
int content_set_untrusted(json_t *item);

#endif
