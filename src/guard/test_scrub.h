/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside guard/: what the tests of the scrubber share. */
#ifndef GUARD_TEST_SCRUB_H
#define GUARD_TEST_SCRUB_H

#include "guard/scrub.h"

/* A shape as a rule file has it, and as the slow scrubber takes it. Patterns mean the same to vectorscan and to regcomp(). */
struct tiny_shape {
        const char *id, *start[3], *chars, *end, *lead, *pattern, *except;
        unsigned max, keep_end;
        bool word_before, word_after;
};
extern const struct tiny_shape tiny_shapes[];
extern const size_t n_tiny_shapes;

/* The tiny shapes as rules. */
struct rules *tiny_rules(void);
/* From the left, byte by byte, as scrub.h says it. shapes: with the tiny ones. */
void slow_scrub(const struct scrub_secret *secrets, size_t n_secrets, bool shapes, const char *text, size_t size, struct buffer *out);

/* By hand, so that a failure comes again. */
uint32_t next_random(uint32_t *state);

#endif
