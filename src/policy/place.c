/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/place.h"

#include "base/buffer.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX (64 * KIB)

const char *policy_workspace(const struct policy *p)
{
        return p->scratch_only ? BOX_SCRATCH : BOX_WORKSPACE;
}

const char *policy_tmp(const struct policy *p)
{
        return p->scratch_only ? BOX_SCRATCH : BOX_TMP;
}

char *policy_fill_places(const struct policy *p, const char *text)
{
        const struct {
                const char *name, *path;
        } places[] = {{"{workspace}", policy_workspace(p)}, {"{tmp}", policy_tmp(p)}};
        _cleanup_buffer_ struct buffer filled;

        buffer_init(&filled, TEXT_BYTES_MAX);
        while (*text) {
                const char *path = NULL;
                for (size_t i = 0; i < ARRAY_SIZE(places) && !path; i++)
                        if (strncmp(text, places[i].name, strlen(places[i].name)) == 0) {
                                path = places[i].path;
                                text += strlen(places[i].name);
                        }
                if ((path ? buffer_add_string(&filled, path) : buffer_add(&filled, text++, 1)) < 0)
                        return NULL;
        }
        return filled.data ? TAKE_PTR(filled.data) : strdup("");
}
