/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside engine/: the way of a program's output out of the engine. What is within the limit is scrubbed, kept when that was asked for, and handed to the
 * caller; the rest is dropped, and said to be. */
#ifndef ENGINE_OUTLET_H
#define ENGINE_OUTLET_H

#include "engine/run.h"
#include "guard/scrub.h"

/* Without a byte for so long, what is held back of a prompt is shown as far as it may be. */
#define OUTLET_PAUSE_USEC 50000

struct outlet_stream {
        struct outlet *outlet;
        enum run_stream stream;
        struct scrub_stream *scrub; /* NULL: nothing is looked for, or nothing came yet */
};

struct outlet {
        /* From the caller */
        struct result *result;
        const struct scrub *scrub; /* NULL: as it comes */
        uint64_t limit_bytes;
        bool keep;
        void (*output)(void *data, enum run_stream stream, const void *bytes, size_t size, uint64_t t_usec); /* may be NULL */
        void *data;
        uint64_t asked_usec;

        struct outlet_stream streams[2];
        bool over;   /* the limit was passed */
        bool failed; /* without memory: what is missing would make what follows look whole, so nothing follows */
        uint64_t handed; /* bytes that were handed on: marks may be longer than what they stand for */
        uint64_t pause_usec; /* when what is held back is shown as far as it may be; 0: nothing is */
};

/* Takes what a program wrote. 0; 1 the first time that the limit was passed; -ENOMEM: a part of it is missing from now on. */
int outlet_write(struct outlet *o, enum run_stream stream, const void *bytes, size_t size);
/* The time of pause_usec has come. */
void outlet_pause(struct outlet *o);
/* Nothing comes any more: hands on what was held back, and tells the result what was scrubbed. 0 or -ENOMEM. */
int outlet_end(struct outlet *o);
void outlet_done(struct outlet *o);

#endif
