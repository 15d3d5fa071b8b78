/* SPDX-License-Identifier: Apache-2.0
 *
 * Carries the caller's standard input into a pipe of the box. The box never gets the caller's own
 * descriptor: a terminal could be typed into, a shared pipe made non-blocking under its owner. */
#ifndef ENGINE_PUMP_H
#define ENGINE_PUMP_H

#include "base/chunk.h"
#include "base/error.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

struct pump {
        int source; /* borrowed; -1: nothing (more) to read */
        int target; /* our end of the pipe */
        bool pollable, terminal;
        bool looked_at; /* by watch_before(): it is a file */
        struct chunk buffer;
        size_t used, sent;
        struct event *source_event, *target_event;
        /* Called with input that cannot be read twice, before the box gets it. A negative errno: the box must not have
         * it. NULL: the input is not examined. */
        int (*seen)(void *data, const void *bytes, size_t size);
        void *seen_data;
        /* The input ends here and is not whole, which is no end of input for the program: the caller has to stop it.
         * The pipe stays open until pump_done(). */
        void (*failed)(void *data, int errnum);
        void *failed_data;
};

#define PUMP_INIT {.source = -1, .target = -1}

/* Whether fd can be read without harm: it is open, and no terminal in whose background we are. */
bool pump_may_read(int fd);
/* Fills ret_child with the end for the box (an empty file when source is -1, or not open). -EISDIR, -EBADF: it cannot
 * be read. */
int pump_open(struct pump *p, int source, int *ret_child);
/* Sets err for a result of pump_open(). */
int pump_explain(int r, gb_error *err);
int pump_start(struct pump *p, struct event_base *base);
/* For a caller that waits with poll() instead: the descriptor to wait for, -1 when there is nothing left to do; and the
 * step to take then. */
int pump_wait_for(const struct pump *p, short *ret_events);
void pump_step(struct pump *p);
void pump_done(struct pump *p);

#endif
