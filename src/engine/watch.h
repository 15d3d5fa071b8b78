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

/* Looks at code. 0: it may run; 1: it must not, and the result says why, as its verdict; negative: it could not be looked at. What was found is in the result. */
int watch_code(const struct watch *w, const struct language *language, const char *code, size_t size, struct result *result, gb_error *err);
/* The same for a standard input that can be read twice (a file): whether a secret is in it. Others are looked at by nobody before they are there. */
int watch_input(const struct watch *w, int fd, struct result *result, gb_error *err);

/* The same for what a frame holds: 1 when something was scrubbed and *ret is to be used in its place (freed by buffer_done()), 0, or -ENOMEM. */
int watch_text(const struct watch *w, const void *bytes, size_t size, struct result *result, struct buffer *ret);

#endif
