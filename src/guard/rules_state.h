/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside guard/: how rules are opened, and what is kept with them. */
#ifndef GUARD_RULES_STATE_H
#define GUARD_RULES_STATE_H

#include "base/limits.h"
#include "guard/rules.h"

#include <stdatomic.h>

/* Made by the build. */
extern const unsigned char rules_shipped_text[];
extern const size_t rules_shipped_size;

#define RULES_SCRATCH_KEPT 16

#define START_HASH_BITS 14

/* A start, by the hash of its first bytes. */
struct start_row {
        uint32_t hash, start;
        uint64_t first, mask; /* its first eight bytes, and which of them it has */
};

/* Made when rules are opened. The only part that changes later is the scratch that waits for who needs one. There is no lock, which a fork could leave locked in
 * the child. */
struct rules_index {
        struct start_row *rows; /* sorted, and one more at the end */
        uint16_t row_of[1 << START_HASH_BITS]; /* the first row of a hash that is known */
        uint8_t known[2][1 << START_HASH_BITS]; /* of a hash, bits of the kinds of byte that may come next; the second with the strict ones */
        uint64_t pairs[65536 / 64]; /* by which two bytes starts begin */
        bool first[256];            /* and by which one */
        _Atomic(struct hs_scratch *) kept[RULES_KINDS][RULES_SCRATCH_KEPT];
};

/* Of memory that stays where it is and was checked. */
int rules_open(const void *bytes, struct rules **ret, gb_error *err);
/* Whether it was made by this version, for this version of vectorscan. */
bool rules_memory_is_current(const void *bytes, size_t size);

#endif
