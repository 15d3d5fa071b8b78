/* SPDX-License-Identifier: Apache-2.0
 *
 * Following a run: its events as they come into the journal, or its end. Whoever follows reads the journal with a number in hand, so a
 * reader that is slow, late or was cut off costs the run nothing, and misses nothing. */
#ifndef SERVER_FOLLOW_H
#define SERVER_FOLLOW_H

#include "server/live.h"
#include "server/request.h"

/* The stream, from that number on, to the last event. live: the run while it goes on; NULL: it has ended. cancel: it is killed when the client goes
 * away. Answers. */
void follow_stream(struct request *r, const char *run, uint64_t from, struct live_run *live, bool cancel);
/* What is there, from that number on. Answers. */
void follow_page(struct request *r, const struct journal_run *run, uint64_t from);
/* Waits for the end. false: the client has gone away. */
bool follow_end(struct request *r, struct live_run *live);

#endif
