/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/mountinfo.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *text = malloc(size + 1);
        if (!text)
                return 0;
        if (size > 0)
                memcpy(text, data, size);
        text[size] = '\0';

        char *cursor = text;
        struct mountinfo m;
        size_t lines = 0;
        int r;
        while ((r = mountinfo_next(&cursor, &m)) != 0) {
                /* it ends, and what it returns are strings of the text */
                if (++lines > size)
                        abort();
                if (r < 0)
                        continue;
                size_t sum = strlen(m.root) + strlen(m.target) + strlen(m.options) + strlen(m.type) +
                             strlen(m.source) + strlen(m.super_options);
                if (sum > size || m.id < 0 || m.parent_id < 0)
                        abort();
                (void)mountinfo_has_option(m.super_options, "memory");
        }
        free(text);
        return 0;
}
