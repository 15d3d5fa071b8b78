/* SPDX-License-Identifier: Apache-2.0
 *
 * Fixed-size messages with descriptors over SOCK_SEQPACKET. No allocation. */
#ifndef BASE_MESSAGE_H
#define BASE_MESSAGE_H

#include "base/limits.h"

#include <stddef.h>
#include <sys/types.h>

/* Sends one message with n_fds (at most BOX_FDS_MAX) descriptors. 0 or a negative errno. */
int message_send(int socket, const void *data, size_t size, const int *fds, int n_fds);
/* The same for who must not wait for a reader: -EAGAIN when that does not keep up. */
int message_send_now(int socket, const void *data, size_t size, const int *fds, int n_fds);

/* Receives one message and the descriptors that came with it (close-on-exec, BOX_FDS_MAX places).
 * Its length (0: the other side is gone), or a negative errno: -EMSGSIZE when it was larger than
 * size or brought more descriptors; those it brought are closed then. flags: MSG_DONTWAIT. */
ssize_t message_receive(int socket, int flags, void *data, size_t size, int fds[static BOX_FDS_MAX], int *n_fds);

#endif
