/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside guard/: what a scrubber is made of. */
#ifndef GUARD_SCRUB_STATE_H
#define GUARD_SCRUB_STATE_H

#include "guard/scrub.h"
#include "guard/scrub_exact.h"

#include <hs/hs_runtime.h>

struct scrub {
        const struct rules *rules; /* NULL: no shapes */
        enum scrub_mode mode;
        struct exact *exact; /* NULL: no secrets */
        char (*names)[SCRUB_NAME_MAX]; /* of the secrets */
        size_t n_secrets;
};

/* One more of that name; t may be NULL. 0 or -ENOMEM. */
int scrub_tally_count(struct scrub_tally *t, size_t name);

/* What stood before the text at hand, as far back as it can have a say: the longest escape sequence of a terminal, written as JSON has it. */
#define SHAPE_CONTEXT_BYTES 32
struct shape_context {
        unsigned char bytes[SHAPE_CONTEXT_BYTES];
        size_t n; /* fewer only at the beginning of a stream */
};

/* Of one rule: bytes of the stream that are known to be of its chars, and what was spent there on candidates that were none. */
struct shape_run {
        uint64_t from, to;
        uint64_t spent;
        uint64_t counted_at; /* the last candidate that was counted, the size of its start, and what it cost */
        uint32_t counted_start, counted_cost;
};

/* A candidate, as far as it is known. */
struct shape_candidate {
        const struct scrub *scrub;
        hs_scratch_t **scratch; /* taken when it is needed; NULL there: not yet */
        const unsigned char *text; /* of which the candidate begins at `at` */
        size_t size, at;
        uint64_t base; /* where in the stream the text begins */
        const struct shape_context *context;
        bool final; /* nothing comes behind the text */
        const struct shape_start *start;
        struct shape_run *run; /* of its rule, from earlier candidates */
};

enum shape_answer { SHAPE_NONE, SHAPE_FOUND, SHAPE_WAIT };

/* What to replace, when it was found. */
struct shape_found {
        size_t from, to;
};

enum shape_answer shape_look(const struct shape_candidate *c, struct shape_found *ret);

#endif
