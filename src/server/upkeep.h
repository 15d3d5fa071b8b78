/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads beside the requests: one keeps the journal within its bounds, one keeps the templates of `warm` waiting, and where an engine is used one removes
 * what others have left there. */
#ifndef SERVER_UPKEEP_H
#define SERVER_UPKEEP_H

#include "base/error.h"
#include "base/macro.h"

#include <stdbool.h>

struct server;
struct upkeep;

int upkeep_start(struct server *server, struct upkeep **ret, gb_error *err);
/* Whether each template of `warm` was started, or has failed once: before that the server is not ready. */
bool upkeep_is_warm(struct upkeep *u);
/* A descriptor that becomes readable when it is. */
int upkeep_warm_fd(const struct upkeep *u);
/* Waits for all of them. Takes NULL. */
void upkeep_stop(struct upkeep *u);

#endif
