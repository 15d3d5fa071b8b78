/* SPDX-License-Identifier: Apache-2.0
 *
 * A session as the API shows it. */
#ifndef SERVER_SESSION_OBJECT_H
#define SERVER_SESSION_OBJECT_H

#include "base/json.h"
#include "server/live.h"

/* Who looks may not see all of it. NULL: out of memory. */
json_t *session_to_json(struct live_session *s, const struct caller *caller);

/* How long it has still to live when nobody does anything with it. */
uint64_t session_left_usec(struct live_session *s);

#endif
