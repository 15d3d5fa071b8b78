/* SPDX-License-Identifier: Apache-2.0
 *
 * A payload that passes the check can be followed to its last byte. */
#include "warden/payload.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile size_t seen;

static void follow_strings(const struct payload *p, struct payload_range range)
{
        const char *at = (const char *)p + range.offset, *end = at + range.size;

        while (at < end) {
                seen += strlen(at);
                at += strlen(at) + 1;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        /* Exactly as large as the input, so that one byte too far is seen. */
        struct payload *p = malloc(size ? size : 1);
        if (!p)
                return 0;
        memcpy(p, data, size);
        if (payload_valid(p, size)) {
                seen += strlen(p->cwd);
                follow_strings(p, p->env);
                for (uint32_t i = 0; i < p->n_commands; i++)
                        follow_strings(p, p->commands[i]);
                for (uint32_t i = 0; i < p->n_ops; i++) {
                        seen += strlen(p->ops[i].path);
                        for (uint32_t k = 0; k < p->ops[i].data.size; k++)
                                seen += ((const uint8_t *)p)[p->ops[i].data.offset + k];
                        if (p->ops[i].kind == BOX_OP_SYMLINK)
                                seen += strlen((const char *)p + p->ops[i].data.offset);
                }
        }
        free(p);
        return 0;
}
