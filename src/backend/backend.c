/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/backend.h"

static const struct backend *const backends[] = {[BACKEND_NATIVE] = &backend_native, [BACKEND_DOCKER] = &backend_docker};

const struct backend *backend_for(const struct policy *policy)
{
        return backends[policy->backend];
}

int backends_sweep(const struct backend_sweep *sweep, gb_error *err)
{
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(backends); i++)
                if (backends[i]->sweep) {
                        int one = backends[i]->sweep(sweep, r < 0 ? NULL : err);
                        r = r < 0 ? r : one;
                }
        return r;
}
