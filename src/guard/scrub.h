/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps secrets out of what leaves: text goes in, in pieces of any size, and the same text comes out with [scrubbed:NAME] in the place of each secret. What
 * comes out does not depend on how it was cut.
 *
 * Two kinds are found: the secrets of a session, exactly, in each of the encodings that scrub_encodings() lists; and what has the shape of a
 * secret (rules.h). This is a courtesy and no boundary: code that wants to get a secret out past it reverses it, or compresses it (docs/guard.md). */
#ifndef GUARD_SCRUB_H
#define GUARD_SCRUB_H

#include "base/buffer.h"
#include "guard/rules.h"

/* A secret that is shorter is not looked for: it would be found everywhere. */
#define SCRUB_SECRET_MIN 8
/* A stream shows so many bytes of what it holds back when nothing more comes: nobody learns a secret from them. */
#define SCRUB_SHOWN_MAX 3
#define SCRUB_NAME_MAX 64 /* of a rule or a secret, with its NUL */

enum scrub_mode { SCRUB_OFF, SCRUB_ON, SCRUB_STRICT };

struct scrub_secret {
        const char *name;
        const void *bytes;
        size_t size;
};

/* What is looked for; never changed once it is there, and any thread may use it. */
struct scrub;

/* rules NULL: only the secrets. What it needs of a secret is copied, and wiped when it is freed. Secrets below SCRUB_SECRET_MIN are left out. */
int scrub_new(const struct rules *rules, enum scrub_mode mode, const struct scrub_secret *secrets, size_t n_secrets, struct scrub **ret, gb_error *err);
void scrub_free(struct scrub *s); /* takes NULL */
DEFINE_CLEANUP(struct scrub, scrub_free)
#define _cleanup_scrub_ _cleanup_(scrub_free_ptr)

/* What was found, by name; of one run. The places of names are those of scrub_name(). */
struct scrub_tally {
        uint64_t total;
        uint64_t *counts; /* n of them; made with the first that is found */
        size_t n;
};
void scrub_tally_done(struct scrub_tally *t);
/* "github-token", or the name of a secret; NULL: there is no such number. */
const char *scrub_name(const struct scrub *s, size_t number);
/* Adds what another has found. 0 or -ENOMEM. */
int scrub_tally_add(struct scrub_tally *t, const struct scrub_tally *more);

/* One stream of text. */
struct scrub_stream;

/* Where the text goes. A negative return ends the write, which returns it; what was not handed on then is lost. */
typedef int scrub_sink(void *data, const void *bytes, size_t size);

/* tally is borrowed, and may be that of several streams that one thread uses; NULL: nobody counts. */
int scrub_stream_new(const struct scrub *s, scrub_sink *sink, void *data, struct scrub_tally *tally, struct scrub_stream **ret);
/* 0, or a negative errno: -ENOMEM, or what the sink said. */
int scrub_stream_write(struct scrub_stream *st, const void *bytes, size_t size);
/* Nothing more will come for a while: hands on the first SCRUB_SHOWN_MAX bytes of what is held back, at most. Later they count as part of what they
 * begin, but are not taken back. */
int scrub_stream_pause(struct scrub_stream *st);
bool scrub_stream_holds(const struct scrub_stream *st); /* something that a pause would hand on */
/* Hands on the rest. The stream is then as new. */
int scrub_stream_end(struct scrub_stream *st);
void scrub_stream_free(struct scrub_stream *st); /* takes NULL; what it holds is dropped */
DEFINE_CLEANUP(struct scrub_stream, scrub_stream_free)
#define _cleanup_scrub_stream_ _cleanup_(scrub_stream_free_ptr)

/* A whole text. 1 when something was found: out has the scrubbed text; 0 when nothing was, and out is untouched; or -ENOMEM. out may hold up to its max. */
int scrub_text(const struct scrub *s, const void *bytes, size_t size, struct buffer *out, struct scrub_tally *tally);

/* ---- encodings of exact secrets ---- */

/* Calls put for each form of the secret that is looked for, as it can stand in text: at least SCRUB_SECRET_MIN bytes each, some may come twice.
 * name: "raw", "base64", "hex"... Returns 0 or the first negative return of put. */
int scrub_encodings(const void *secret, size_t size, int (*put)(void *data, const char *name, const void *bytes, size_t n), void *data);

#endif
