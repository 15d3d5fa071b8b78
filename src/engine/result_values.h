/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside engine/: the keys of a result that only runs in a session have. */
#ifndef ENGINE_RESULT_VALUES_H
#define ENGINE_RESULT_VALUES_H

#include "engine/result.h"

/* Adds them, when the result has them. 0 or -1. */
int result_set_session(json_t *object, const struct result *result);

/* {"findings": [...], "more": n}; f may be NULL. */
json_t *guard_to_json(const struct guard_findings *f);
/* {"total": n, "names": {...}} */
json_t *scrubbed_to_json(const struct result *result);

#endif
