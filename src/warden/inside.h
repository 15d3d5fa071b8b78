/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel says of the processes in a box. */
#ifndef WARDEN_INSIDE_H
#define WARDEN_INSIDE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The number of a process that we have a pidfd of, as we see it; 0: it is gone, or cannot be told. */
pid_t inside_pid(int pidfd);

/* 0 when the process runs as this user of the host, holds no capability in any set, can gain none, and has
 * the system call filter on top of its template's; -EPERM otherwise, or why it cannot be told. */
int inside_is_locked(pid_t pid, uid_t host_uid);

/* ---- by the box's own /proc, where no counter of the kernel tells; only directory entries and numbers are read ---- */

/* Number of processes but for init; threads are not seen. UINT64_MAX: they cannot be counted. */
uint64_t inside_processes(int proc);

/* Bytes of the files on these devices that are unlinked but still held open: a walk of the workspace
 * does not see them. One that two processes hold is counted twice, which harms only who does it.
 * UINT64_MAX when there are too many descriptors to look at, a process cannot be looked into, or there is no list of
 * the processes. */
uint64_t inside_unlinked_bytes(int proc, const dev_t *devices, size_t n_devices);

#endif
