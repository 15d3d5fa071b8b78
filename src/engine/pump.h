/* SPDX-License-Identifier: Apache-2.0
 *
 * Carries the caller's standard input into a pipe of the box. The box never gets the caller's own
 * descriptor: a terminal could be typed into, a shared pipe made non-blocking under its owner. */
#ifndef ENGINE_PUMP_H
#define ENGINE_PUMP_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

struct pump {
        int source; /* borrowed; -1: nothing (more) to read */
        int target; /* our end of the pipe */
        bool pollable;
        char *buffer;
        size_t used, sent;
        struct event *source_event, *target_event;
};

#define PUMP_INIT {.source = -1, .target = -1}

/* Fills ret_child with the end for the box (an empty file when source is -1). */
int pump_open(struct pump *p, int source, int *ret_child);
int pump_start(struct pump *p, struct event_base *base);
void pump_done(struct pump *p);

#endif
