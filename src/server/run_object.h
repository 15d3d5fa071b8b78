/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs and their events as the API shows them: made of what the journal has. */
#ifndef SERVER_RUN_OBJECT_H
#define SERVER_RUN_OBJECT_H

#include "base/json.h"
#include "journal/journal.h"

/* "2026-01-05T10:00:00.000000Z"; null for 0. NULL: out of memory, as all of these. */
json_t *time_to_json(uint64_t usec);

/* The run; result is taken (NULL: null). */
json_t *run_to_json(const struct journal_run *run, json_t *result);
/* The same without a result: one of a list. */
json_t *run_to_json_brief(const struct journal_run *run);
/* One event. */
json_t *event_to_json(const struct journal_event *event);

/* The result of a run that has ended, put together from its record and its events. */
int run_result(struct journal *j, const struct journal_run *run, json_t **ret, gb_error *err);

#endif
