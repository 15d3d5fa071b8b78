/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/result.h"

#include <stdlib.h>

void result_free(struct result *r)
{
        if (!r)
                return;
        buffer_done(&r->out);
        buffer_done(&r->err);
        free(r->language);
        free(r->trust);
        free(r->policy_origin);
        free(r->backend);
        free(r);
}
