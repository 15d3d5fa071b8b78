/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside engine/: the way of a standard input to a program that comes while it runs. Nothing is changed; whether a secret went by is told at the end. What lies in
 * a file is looked at before (watch_before()). */
#ifndef ENGINE_INLET_H
#define ENGINE_INLET_H

#include "engine/watch.h"

struct inlet {
        const struct watch *watch; /* NULL: nobody looks */
        struct scrub_stream *stream; /* NULL: nothing came yet */
        struct scrub_tally tally;
        int error; /* a negative errno: something could not be looked at */
};

/* 0, or a negative errno: it could not be looked at, so the program must not have it. */
int inlet_see(void *inlet, const void *bytes, size_t size);
/* Nothing more comes: a secret in it becomes a finding of the result. 0, or a negative errno: something could not be
 * looked at. */
int inlet_end(struct inlet *i, struct result *result);
void inlet_done(struct inlet *i);

#endif
