/* SPDX-License-Identifier: Apache-2.0
 *
 * What the caller of a run sees of it, wherever it runs: the streams of the same name, lines of events, or (with --json) nothing
 * until the end. */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include "cli/events.h"
#include "cli/findings.h"
#include "cli/options.h"
#include "cli/output.h"
#include "engine/run.h"

#define STATUS_BROKEN_PIPE (128 + 13)

struct show {
        bool json, events_wanted, quiet;
        struct sink sinks[2]; /* by enum run_stream */
        struct events events;
        struct findings_view view; /* with the code that was run, where it is known */
        uint64_t timeout_usec; /* nobody waits for the reader after this; 0: no end */
};

void show_init(struct show *s, const struct arguments *a, uint64_t timeout_usec, int cancel_fd);
/* What the reader does not take at once is kept; whoever runs the loop lets the sinks catch up. */
void show_waits_not(struct show *s);
void show_done(struct show *s);
#define _cleanup_show_ _cleanup_(show_done)

/* For run_callbacks; data is the struct show. Where nobody reads the run is cancelled. */
void show_started(void *data, uint64_t t_usec);
void show_output(void *data, enum run_stream stream, const void *bytes, size_t size, uint64_t t_usec);

/* Tells the end of the run; the exit status. The result object is taken; NULL: it is made from the result. policy: what may be weaker
 * without a word; NULL: nothing. */
int show_report(struct show *s, const struct result *result, const struct policy *policy, json_t *object);

#endif
