/* SPDX-License-Identifier: Apache-2.0 */
#include "base/chunk.h"

#include "base/limits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int chunk_init(struct chunk *c)
{
        *c = (struct chunk){.data = malloc(OUTPUT_CHUNK_BYTES)};
        return c->data ? 0 : -ENOMEM;
}

void chunk_done(struct chunk *c)
{
        if (c->data)
                explicit_bzero(c->data, c->used);
        free(c->data);
        *c = (struct chunk){0};
}
