/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EGRESS_ORDERS_H
#define EGRESS_ORDERS_H

/* Takes orders from the front's socket, in the loop; at its end the loop ends. 0 or -ENOMEM. */
int orders_watch(int socket);

#endif
