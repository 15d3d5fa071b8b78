/* SPDX-License-Identifier: Apache-2.0
 *
 * A new session, from the body of a request for one (docs/api.md) to a box that stands. */
#ifndef SERVER_SESSION_ORDER_H
#define SERVER_SESSION_ORDER_H

#include "server/fields.h"
#include "server/live.h"

struct session_order {
        struct live_session_request request; /* may be changed between reading and opening; the policy is ours */
        struct fields fields;                /* of the body, which must live as long; fields.wrong says what is wrong in it */
};

void session_order_done(struct session_order *o);
#define _cleanup_session_order_ _cleanup_(session_order_done)

/* Reads and checks the body; session_order_done() also when this fails. The body is borrowed: name, metadata and workspace point into it, secrets are copied. */
int session_order_read(struct server *server, const struct caller *caller, const json_t *body, struct session_order *ret, gb_error *err);
/* Makes it: quota, journal, workspace, box. 0: it is ready, with a reference. 1: the key was used before, and *ret_id is what it was used for. The error of
 * one that failed has none of its secrets. key NULL: none. */
int session_order_open(struct server *server, struct session_order *o, const struct journal_key *key, struct live_session **ret,
                       char ret_id[static JOURNAL_ID_MAX], gb_error *err);

/* What can be said of one that lives, too. Each leaves *ret as it is when the field is absent. */
int session_read_name(struct fields *f, const char **ret, gb_error *err);
int session_read_metadata(struct fields *f, json_t **ret, gb_error *err);
int session_read_times(struct fields *f, const struct server_config *c, uint64_t *idle, uint64_t *lifetime, gb_error *err);

#endif
