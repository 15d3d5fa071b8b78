/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside guard/ */
#ifndef GUARD_RULES_STATE_H
#define GUARD_RULES_STATE_H

#include "base/limits.h"
#include "guard/rules.h"

/* Made by the build. */
extern const unsigned char rules_shipped_text[];
extern const size_t rules_shipped_size;

/* Of memory that stays where it is and was checked. */
int rules_open(const void *bytes, struct rules **ret, gb_error *err);
/* Whether it was made by this version, for this version of vectorscan. */
bool rules_memory_is_current(const void *bytes, size_t size);

#endif
