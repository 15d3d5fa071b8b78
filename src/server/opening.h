/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose box is built next. Building is work for processors: more at a time than a few for each of them would all take longer. So the others
 * wait for their turn, in the order they came; but of two tenants it is the turn of the one that has fewer boxes being built. */
#ifndef SERVER_OPENING_H
#define SERVER_OPENING_H

#include "base/error.h"

#include <pthread.h>
#include <stdbool.h>

struct openings;

/* One that is built or waits; it lives on the stack of who builds it. */
struct opening {
        struct opening *next;
        const char *tenant; /* borrowed */
        bool granted;
        pthread_cond_t wake;
};

/* max: so many at a time; 0: as is right for this machine. */
int openings_new(unsigned max, struct openings **ret, gb_error *err);
/* Nobody builds or waits. Takes NULL. */
void openings_free(struct openings *o);

/* Waits for its turn. GB_E_UNAVAILABLE when OPENINGS_WAITING_MAX wait already, or it took OPENING_WAIT_USEC. */
int opening_begin(struct openings *o, struct opening *self, const char *tenant, gb_error *err);
void opening_end(struct openings *o, struct opening *self);

#endif
