/* SPDX-License-Identifier: Apache-2.0
 *
 * What follows from what has happened to a box: events to its channel, programs that waited for it, its end. */
#ifndef WARDEN_SESSION_H
#define WARDEN_SESSION_H

#include "warden/box.h"

/* A request for a session on a free channel; takes what it uses of fds[]. */
int session_open(struct channel *c, const struct box_spec *spec, int *fds, gb_error *err);
/* A request for a program in it, on the channel that comes along. */
int session_start(struct box *b, const struct box_spec *spec, int *fds, gb_error *err);

/* To be called after anything has happened to a box. */
void box_settle(struct box *b);
/* Ends and reaps the programs of a session. */
void session_end_programs(struct box *b);
/* Looks at the boxes that may have passed a limit, and reaps unclaimed processes. */
void session_tick(uint64_t now_usec);
/* When that wants to be called next; 0: never. */
uint64_t session_next_tick(void);

#endif
