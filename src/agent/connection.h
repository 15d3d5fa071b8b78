/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections that code in the container makes to the one way out: a listener of the agent on the container's loopback. Each is carried to the host as it is;
 * what may be reached by it is decided there.
 *
 * Nothing here waits. Who does not read gets no more than a window, who connects too often is turned away, and the rest of the agent does not notice. */
#ifndef AGENT_CONNECTION_H
#define AGENT_CONNECTION_H

#include "agent/wire.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

/* Whether a frame of the host is for here; then connections_take(): 0, or -EPROTO. */
bool connections_know(uint16_t type);
int connections_take(const struct wire_frame *frame, const char *payload);

#define CONNECTION_SLOTS_MAX (WIRE_CONNECTIONS_MAX + 1)
/* As those of program.h. */
size_t connections_fill(struct pollfd slots[static CONNECTION_SLOTS_MAX]);
void connections_serve(const struct pollfd *slots, size_t n);
int connections_tick(void);

#endif
