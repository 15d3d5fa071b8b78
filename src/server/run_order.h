/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of a request for a run, read and checked. */
#ifndef SERVER_RUN_ORDER_H
#define SERVER_RUN_ORDER_H

#include "server/fields.h"
#include "server/run_job.h"

/* Everything that can be checked without the session. Its body is there, and is what the fields are of. */
int run_order_read(struct fields *f, struct server *server, const struct caller *caller, bool in_session, struct run_order *ret, gb_error *err);
/* What depends on it: the timeout, the language of a context. */
int run_order_fit(struct fields *f, const struct server *server, struct live_session *session, struct run_order *o, gb_error *err);

#endif
