/* SPDX-License-Identifier: Apache-2.0
 *
 * What the box's own /proc tells of the processes inside, where no counter of the kernel does. Only
 * directory entries and numbers are read, no text. */
#ifndef WARDEN_INSIDE_H
#define WARDEN_INSIDE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Number of processes but for init; threads are not seen. */
uint64_t inside_processes(int proc);

/* Bytes of the files on these devices that are unlinked but still held open: a walk of the workspace
 * does not see them. One that two processes hold is counted twice, which harms only who does it.
 * UINT64_MAX when there are too many descriptors to look at, or a process that cannot be looked into. */
uint64_t inside_unlinked_bytes(int proc, const dev_t *devices, size_t n_devices);

#endif
