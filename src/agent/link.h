/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's end of the wire: frames in from standard input, frames out to standard output. Both have one buffer of a fixed size.
 *
 * Frames that are sent are put together in the buffer and leave it with one write for each turn of the loop. Bytes of programs are taken only
 * while there is room for data (link_has_room); the rest of the buffer is for answers, so that what glovebox says can always be heard. */
#ifndef AGENT_LINK_H
#define AGENT_LINK_H

#include "agent/wire.h"

#include <stdbool.h>
#include <stddef.h>

/* Of the agent's process: standard output becomes non-blocking. 0 or a negative errno. */
int link_init(void);

/* Whether a frame of WIRE_DATA_MAX fits, and room for answers is left behind it. */
bool link_has_room(void);
/* Whether what the host says can be answered. */
bool link_can_answer(void);
/* Where the payload of the next frame goes: WIRE_DATA_MAX bytes, after link_has_room(). Then link_commit() sends as much of it. */
char *link_payload(void);
void link_commit(const struct wire_frame *frame);
void link_send(const struct wire_frame *frame, const void *payload);

bool link_is_waiting(void);
/* Writes what there is to write and can be. 0; -errno: nobody is there any more. */
int link_flush(void);

/* One read of standard input. 0; -EPIPE: its end; another negative errno. */
int link_receive(void);
/* The next whole frame: 1, and its payload, which holds until the next call; 0: there is none yet; -EPROTO. */
int link_next(struct wire_frame *ret, const char **ret_payload);

/* In a child: the keys are the agent's alone. */
void link_forget(void);

#endif
