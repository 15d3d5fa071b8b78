/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of what lives on a server, as rows of a table; for ps, stats and top. */
#ifndef CLI_SAMPLES_H
#define CLI_SAMPLES_H

#include "cli/service.h"
#include "cli/table.h"

/* The sample of a session or a run that has a box of its own, among those of GET /v1/stats; NULL: none. */
const json_t *samples_find(const json_t *stats, const char *id);

/* Columns of one sample. */
extern const struct table_column sample_columns[];
extern const size_t n_sample_columns;
void samples_add(struct table *t, const json_t *sample);

enum samples_order { SAMPLES_BY_CPU, SAMPLES_BY_MEMORY };
/* A new list, the largest first. NULL: out of memory. */
json_t *samples_sorted(const json_t *samples, enum samples_order order);

/* "3 sessions, 2 runs, cpu 120.5%, memory 1.2G" */
int samples_summary(const json_t *stats, struct buffer *out);

#endif
