/* SPDX-License-Identifier: Apache-2.0
 *
 * Who has how many of the requests that are under way: from their heads to the ends of their answers. A stream, a run that is waited for and
 * a body that comes slowly are such; a tenant that has many of them would otherwise have every thread of the server. */
#ifndef SERVER_SHARE_H
#define SERVER_SHARE_H

#include "base/error.h"

#include <stdint.h>

struct share;

/* One more of a tenant; it may have REQUEST_SHARE times as many as there are threads left, a few apart that are for the first requests of
 * those who have none yet. So one alone has two thirds of them, several have less each, and whoever comes next finds some. GB_E_QUOTA. From any thread. */
int share_take(const char *tenant, uint64_t threads, struct share **ret, gb_error *err);
void share_give(struct share *s); /* takes NULL */

#endif
