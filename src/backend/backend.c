/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/backend.h"

static const struct backend *const backends[] = {[BACKEND_NATIVE] = &backend_native, [BACKEND_DOCKER] = &backend_docker};

const struct backend *backend_for(const struct policy *policy)
{
        return backends[policy->backend];
}

void backends_sweep(void)
{
        for (size_t i = 0; i < ARRAY_SIZE(backends); i++)
                if (backends[i]->sweep)
                        backends[i]->sweep();
}
