/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model reads. A result of the API (docs/results.md) becomes the result of a tool: text, structured content, pictures, links to files.
 *
 * What a program has printed, returned or written is data of a stranger: it may say "ignore your instructions". In the text it stands between marks that
 * carry a number nobody could know before, so that it cannot end them; all that we say ourselves stands outside of them. It is bounded, and cut in its middle. */
#ifndef MCP_CONTENT_H
#define MCP_CONTENT_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- text ---- */

/* Adds text (UTF-8 already, or bytes that become readable) between marks:
 *
 *   <stdout-7f3a91c2 untrusted>
 *   ...
 *   </stdout-7f3a91c2>
 *
 * label: "stdout", "stderr", "value", "error", "file". nonce: content_nonce()'s. More than max bytes are cut in the middle, at the ends of lines where there
 * are some near, and what stands there instead says how much is missing and where all of it is (rest: a sentence, or NULL). */
#define CONTENT_NONCE_MAX 17
void content_nonce(char ret[static CONTENT_NONCE_MAX]);
int content_add_marked(struct buffer *out, const char *nonce, const char *label, const char *text, size_t size, size_t max, const char *rest);
/* The cut alone, as it stands in structured content, too. *ret_left_out: bytes that are missing; 0: all is there. */
int content_add_cut(struct buffer *out, const char *text, size_t size, size_t max, const char *rest, uint64_t *ret_left_out);

/* ---- items of `content`; NULL: out of memory ---- */

json_t *content_text(const char *text, size_t size);
/* A link; takes nothing. size < 0: not known. */
json_t *content_link(const char *uri, const char *name, const char *type, int64_t size);
/* base64: its bytes, encoded. */
json_t *content_picture(const char *type, const char *base64, size_t size);

/* ---- results of tools; NULL: out of memory ---- */

struct content_run {
        const char *session; /* its id; NULL: none is left */
        const char *run;     /* the run's id */
        const char *note;    /* a sentence to stand first: a session that is new because the one before has ended; NULL: none */
        json_t *files;       /* [{"path", "uri", "type", "size"}]: files that the run has made or changed; borrowed;
                              * NULL: none */
        uint64_t more_files; /* that are not in the list */
        bool files_cut;      /* not all were looked at: others may have changed, too */
        bool files_unknown;  /* none were: the workspace could not be looked at */
};

/* result: the object of docs/results.md, whole. The result of the tool has content, structuredContent and isError (true unless the verdict is ok). */
json_t *content_of_run(const json_t *result, const struct content_run *o);
/* What a model can do something about: no such file, no such session, no room. isError, with a text: the message and the hint (NULL: none). */
json_t *content_of_error(const gb_error *err, const char *hint);
/* A result that is an object: text says the same for who does not read structured content. Takes structured; text is not taken. */
json_t *content_of_object(json_t *structured, const struct buffer *text);

#endif
