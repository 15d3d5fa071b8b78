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
        uint32_t *starts;          /* numbers of the starts, by their text */
        uint32_t starts_of[257];   /* those that begin with byte b are starts[starts_of[b]] to starts[starts_of[b + 1]] */
};

/* Of one rule: bytes of the text that are known to be of its chars. */
struct shape_run {
        size_t from, to;
};

/* A candidate, as far as it is known. */
struct shape_candidate {
        const struct scrub *scrub;
        hs_scratch_t *scratch;
        const unsigned char *text; /* of which the candidate begins at `at` */
        size_t size, at;
        int before; /* the byte before the text; -1: there is none */
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
