/* SPDX-License-Identifier: Apache-2.0
 *
 * What the server says itself (log lines, errors, names) goes through the scrubber, too. Output and values of runs come scrubbed from the engine.
 *
 * Answers are scrubbed with the secrets of the session that they are about, and with no others: a mark in the place of what somebody has guessed would tell him
 * that it is a secret of somebody else. The log is the operator's, and is scrubbed with those of all sessions that live. */
#ifndef SERVER_SCRUBBING_H
#define SERVER_SCRUBBING_H

#include "base/error.h"
#include "base/macro.h"
#include "guard/scrub.h"
#include "policy/policy.h"

#include <jansson.h>

struct scrubbing;
struct living_secrets;

int scrubbing_new(struct scrubbing **ret, gb_error *err);
void scrubbing_free(struct scrubbing *s); /* takes NULL */

/* The secrets of a session that lives. *ret NULL: it has none. */
int scrubbing_add(struct scrubbing *s, const struct policy *p, struct living_secrets **ret, gb_error *err);
void scrubbing_remove(struct scrubbing *s, struct living_secrets *secrets); /* takes NULL */

/* What finds them; NULL: there are none. */
const struct scrub *living_secrets_scrub(const struct living_secrets *secrets);

/* A line of the log; what does not fit any more is cut. */
void scrubbing_line(void *scrubbing, char *text, size_t room);

/* Messages and details of errors. session: its secrets (session_scrub()); NULL: only shapes. s may be NULL: nothing is scrubbed. */
void scrubbing_error(const struct scrubbing *s, const struct scrub *session, gb_error *err);
void scrubbing_details(const struct scrubbing *s, const struct scrub *session, json_t *details);

/* A text as JSON, with U+FFFD for what is not UTF-8, scrubbed; scrub may be NULL. *ret_found: something was, may be NULL. NULL: out of memory. */
json_t *scrubbed_text(const struct scrub *scrub, const char *text, size_t size, bool *ret_found);

#endif
