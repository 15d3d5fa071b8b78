/* SPDX-License-Identifier: Apache-2.0
 *
 * What the service manager is told, by the protocol of sd_notify(3): a datagram to $NOTIFY_SOCKET. Without that variable nothing is. */
#ifndef SERVER_NOTIFY_H
#define SERVER_NOTIFY_H

#include "base/macro.h"

#include <stdint.h>

/* Opens the socket, so that it can still be used when the path cannot be reached any more; takes the variables out of the environment. */
void notify_open(void);
/* "READY=1\nSTATUS=..." */
void notify_send(const char *format, ...) _printf_(1, 2);
/* How often WATCHDOG=1 is to be said: half of what the manager waits; 0: it does not. */
uint64_t notify_watchdog_usec(void);

#endif
