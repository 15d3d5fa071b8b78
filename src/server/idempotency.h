/* SPDX-License-Identifier: Apache-2.0
 *
 * Idempotency-Key: what was asked with it. */
#ifndef SERVER_IDEMPOTENCY_H
#define SERVER_IDEMPOTENCY_H

#include "journal/journal.h"
#include "server/request.h"

/* The key of a request, with the hash of its method, address and body; ret->key NULL: it has none. Borrowed from the request. */
int idempotency_read(struct request *r, struct journal_key *ret, gb_error *err);
/* 1 and the id of the first time; 0: it is the first time, or there is no key; GB_E_CONFLICT. */
int idempotency_look(struct request *r, const struct journal_key *key, char ret_id[static JOURNAL_ID_MAX], gb_error *err);

#endif
