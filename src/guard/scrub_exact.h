/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside guard/: where exact secrets stand in a text, in all their forms. The time for a byte does not depend on how many there are, nor on
 * what the text is made of. */
#ifndef GUARD_SCRUB_EXACT_H
#define GUARD_SCRUB_EXACT_H

#include "guard/scrub.h"

struct exact;

/* NULL in *ret: there is nothing to look for. 0 or a negative errno. */
int exact_new(const struct scrub_secret *secrets, size_t n, struct exact **ret);
void exact_free(struct exact *e); /* wipes; takes NULL */

struct exact_hit {
        size_t from, to;
        size_t secret; /* its number */
};

enum exact_answer {
        EXACT_NONE, /* nothing begins before the end of the text */
        EXACT_HIT,  /* ret->from to ret->to; ask again */
        EXACT_WAIT, /* what begins at ret->from depends on what comes */
};

/* The next from *at on, which is moved behind what was looked at. final: nothing comes. Hits may overlap. */
enum exact_answer exact_next(const struct exact *e, const unsigned char *text, size_t size, bool final, size_t *at, struct exact_hit *ret);

#endif
