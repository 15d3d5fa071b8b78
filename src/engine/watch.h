/* SPDX-License-Identifier: Apache-2.0
 *
 * What a policy has looked at: code before it runs, and everything that comes out. One for each session, and for each run in a box of its own. */
#ifndef ENGINE_WATCH_H
#define ENGINE_WATCH_H

#include "engine/result.h"
#include "guard/code.h"
#include "policy/language.h"

struct watch;

/* Refuses a policy that switches rules which are not there. */
int watch_open(const struct policy *policy, struct watch **ret, gb_error *err);
void watch_close(struct watch *w); /* takes NULL */
DEFINE_CLEANUP(struct watch, watch_close)
#define _cleanup_watch_ _cleanup_(watch_close_ptr)

/* NULL: nothing is scrubbed. */
const struct scrub *watch_scrub(const struct watch *w);

struct watch_subject {
        const struct language *language;
        const char *code;
        size_t code_size;
        void (*meanwhile)(void *data); /* NULL, or: called once, while the code is being read; not when it could not be looked at */
        void *data;
        int stdin_fd; /* -1: none. A file is looked into, as far as WATCH_INPUT_MAX; of others nobody knows yet what will come */
};

/* Looks at code before it runs. 0: it may; 1: it must not, and the result says why, as its verdict; negative: it could not be looked at. What was found is in the
 * result. */
int watch_before(const struct watch *w, const struct watch_subject *subject, struct result *result, gb_error *err);
/* The code alone. */
static inline int watch_code(const struct watch *w, const struct language *language, const char *code, size_t size, struct result *result, gb_error *err)
{
        return watch_before(w, &(struct watch_subject){.language = language, .code = code, .code_size = size, .stdin_fd = -1}, result, err);
}
/* Adds what was found before the run to the result of it; NULL: nothing was. 0 or -ENOMEM. */
int watch_add(const struct guard_findings *more, struct result *result);
/* A secret has gone to the program's standard input: a remark, too late for anything else. 0 or -ENOMEM. */
int watch_note_input(const struct watch *w, struct result *result);

/* What a frame holds: 1 when something was scrubbed and *ret is to be used in its place (freed by buffer_done()), 0, or -ENOMEM. */
int watch_text(const struct watch *w, const void *bytes, size_t size, struct result *result, struct buffer *ret);

#endif
