/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory for one read of what a box says, or of what it is told: OUTPUT_CHUNK_BYTES. There may be secrets in it that
 * nobody has scrubbed yet, so what was used of it is wiped before it is freed. */
#ifndef BASE_CHUNK_H
#define BASE_CHUNK_H

#include "base/macro.h"

#include <stddef.h>

struct chunk {
        char *data;
        size_t used; /* the most that it ever held */
};

/* 0 or -ENOMEM. */
int chunk_init(struct chunk *c);
/* Also of one that is all zeros. */
void chunk_done(struct chunk *c);
#define _cleanup_chunk_ _cleanup_(chunk_done)

/* Bytes were put into it, up to this place. */
static inline void chunk_mark(struct chunk *c, size_t end)
{
        c->used = MAX(c->used, end);
}

#endif
