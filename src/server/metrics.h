/* SPDX-License-Identifier: Apache-2.0
 *
 * What the server counts, for Prometheus (`GET /metrics`). Every function may be called from any thread, waits for
 * nothing, and takes NULL for metrics. There are no ids, no tenants and no addresses in it: who may read
 * numbers need not learn whose they are. */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "base/error.h"
#include "base/macro.h"

#include <stdbool.h>
#include <stdint.h>

struct metrics;
struct route;

/* One number each. */
enum metrics_number {
        METRICS_BYTES_IN,      /* counters: only ever added to */
        METRICS_BYTES_OUT,
        METRICS_ACCEPTED,      /* connections */
        METRICS_REFUSED,       /* connections: too many */
        METRICS_PROTOCOL,      /* requests that were no HTTP as it should be */
        METRICS_UNAUTHORIZED,  /* no token, or none that counts */
        METRICS_QUOTA,         /* 429 */
        METRICS_UNAVAILABLE,   /* 503 of admission */
        METRICS_SESSIONS,      /* that were opened */
        METRICS_JOURNAL_ERRORS,
        METRICS_SCRUBBED,      /* secrets in what came out of runs */
        METRICS_CONNECTIONS,   /* this one goes up and down */
        METRICS_NUMBERS,
};

int metrics_new(struct metrics **ret, gb_error *err);
/* Takes NULL. */
void metrics_free(struct metrics *m);
DEFINE_CLEANUP(struct metrics, metrics_free)

void metrics_add(struct metrics *m, enum metrics_number number, int64_t n);
int64_t metrics_get(const struct metrics *m, enum metrics_number number);

/* Whether the journal has refused something in the last METRICS_DEGRADED_USEC. */
bool metrics_is_degraded(const struct metrics *m);

/* A request that was answered; took_usec from its first byte to the last of the answer. route NULL: there was none for it. */
void metrics_request(struct metrics *m, const struct route *route, int status, uint64_t took_usec);
/* What was found in code, by action ("warn"). */
void metrics_finding(struct metrics *m, const char *action);
/* A run that has ended: the name of its verdict (NULL: nothing was run), and how long it took (NULL: not known). */
void metrics_run(struct metrics *m, const char *verdict, const uint64_t *took_usec);

#endif
