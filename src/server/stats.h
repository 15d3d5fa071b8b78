/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of what lives, and of the server itself. */
#ifndef SERVER_STATS_H
#define SERVER_STATS_H

#include "server/live.h"
#include "server/server.h"

#include <jansson.h>

/* ---- the process ---- */

struct process_numbers {
        uint64_t resident_bytes, cpu_usec, descriptors;
        bool resident_known, cpu_known, descriptors_known; /* those that are not could not be read */
};

void process_numbers(struct process_numbers *ret);

/* ---- sessions and runs ---- */

/* What a stream remembers of its last sample: rates are since then. One for each session, by id. */
struct stats_last {
        char id[JOURNAL_ID_MAX];
        uint64_t at_usec, cpu_usec, output_bytes;
};

struct stats_memory {
        struct stats_last *last; /* by id */
        size_t n;
};

void stats_memory_done(struct stats_memory *m);
#define _cleanup_stats_memory_ _cleanup_(stats_memory_done)

/* The sample of one session; run: the id of the run it is about, or NULL. The memory is replaced by what this one has. */
int stats_sample(struct live_session *s, const char *run, struct stats_memory *m, json_t **ret, gb_error *err);
/* {"server": ..., "samples": [...]}: all that lives of a tenant, one-shot runs too. whole: with the numbers of the process, which are not the tenant's. */
int stats_sample_all(struct server *server, const char *tenant, bool whole, struct stats_memory *m, json_t **ret, gb_error *err);

#endif
