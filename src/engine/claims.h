/* SPDX-License-Identifier: Apache-2.0
 *
 * What the interpreter of a context says about a run: results, an error, "done". The user's code lives in
 * the same process, so all of it are claims: bounded, copied, shown as data. */
#ifndef ENGINE_CLAIMS_H
#define ENGINE_CLAIMS_H

#include "engine/frame.h"
#include "engine/result.h"
#include "engine/run.h"
#include "engine/watch.h"

struct outlet;

/* Called while a run in a session lasts, on the thread of the run. t_usec counts from the request. Any may be
 * NULL. */
struct session_callbacks {
        void (*started)(void *data, uint64_t t_usec);
        /* Bytes as they came; every byte is given once, in order within its stream. */
        void (*output)(void *data, enum run_stream stream, const void *bytes, size_t size, uint64_t t_usec);
        void (*result)(void *data, const struct result_value *value, uint64_t t_usec);
        void (*error)(void *data, const struct result_error *error, uint64_t t_usec);
        void *data;
};

extern const char claims_no_memory[]; /* the rule that is broken by the host itself */

struct claims {
        struct result *result;
        const struct policy *policy;
        const struct watch *watch; /* NULL: nothing is scrubbed */
        struct outlet *outlet; /* what was written before a value or an error is told before it, as far as that may be; NULL: there is none */
        const struct session_callbacks *callbacks;
        uint64_t asked_usec;
        bool main_seen;
        uint64_t count, bytes; /* of values that were kept or dropped */
        uint64_t dropped_bytes;
        bool done;
};

/* Takes a frame of this run. NULL, or the rule that it breaks; claims_no_memory when the host has no memory for it. */
const char *claims_take(struct claims *c, const struct frame *frame);
/* Takes one of another run, which is only counted. */
const char *claims_drop(struct claims *c, const struct frame *frame);

#endif
