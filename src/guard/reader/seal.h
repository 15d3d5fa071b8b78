/* SPDX-License-Identifier: Apache-2.0
 *
 * What a reader gives up before it sees any code: all system calls but read, write and exit, and with them files, sockets, memory and other processes. */
#ifndef GUARD_READER_SEAL_H
#define GUARD_READER_SEAL_H

#include <sys/types.h>

/* Of the calling process, for good. master: its parent; it ends with it. A negative errno: it is not sealed, and must end. */
int seal_reader(pid_t master);

#endif
