/* SPDX-License-Identifier: Apache-2.0
 *
 * While the server is being built: handlers that nobody has written yet. Goes when the last one is there. */
#include "server/reply.h"
#include "server/routes.h"

#include <errno.h>

#define STUB(name)                                                                                          \
        __attribute__((weak)) void name(struct request *r)                                                  \
        {                                                                                                   \
                gb_error err = {0};                                                                         \
                error_set(&err, GB_E_INTERNAL, ENOSYS, #name " is not there yet");                          \
                reply_error(r, &err);                                                                       \
        }

STUB(api_audit)
