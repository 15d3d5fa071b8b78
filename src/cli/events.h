/* SPDX-License-Identifier: Apache-2.0
 *
 * --events: a line of JSON for everything that happens in a run (NDJSON). */
#ifndef CLI_EVENTS_H
#define CLI_EVENTS_H

#include "base/error.h"
#include "base/utf8.h"
#include "cli/output.h"
#include "engine/run.h"

struct events {
        struct sink *sink;
        struct utf8_splitter splitters[2]; /* by enum run_stream */
        uint64_t last_usec[2];
        uint64_t zero_usec; /* the first event's time; others are told from there */
        bool has_zero;
};

/* Each returns 0 or a negative errno. */
int events_started(struct events *e, uint64_t t_usec);
int events_output(struct events *e, enum run_stream stream, const void *bytes, size_t size, uint64_t t_usec);
/* The last line; takes the result object. What was held back of the output goes first. */
int events_verdict(struct events *e, json_t *result);

/* {"error": {"code", "message"}} of --json; as the last line of --events it is an event. */
json_t *error_to_json(const gb_error *err, bool as_event);

#endif
