/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside guard/: where a start of a shape may stand in a text. */
#ifndef GUARD_SCRUB_STARTS_H
#define GUARD_SCRUB_STARTS_H

#include "guard/rules_state.h"

/* The first place from `at` on where one may begin, as its first SHAPE_START_MIN bytes tell; near the end of a text that is not final, the bytes that are there.
 * Or size. strict: with those that are only for strict scrubbing; without, some of them may be told as well. */
size_t starts_next(const struct rules *r, bool strict, const unsigned char *text, size_t size, bool final, size_t at);

/* The starts of a place, which has SHAPE_START_MIN bytes or more: all rows that have the same hash. */
const struct start_row *starts_at(const struct rules *r, const unsigned char *text, size_t size);

/* Makes r->index of r->starts. 0 or -ENOMEM. */
int starts_index(struct rules *r);

#endif
