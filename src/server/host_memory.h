/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory the host has left for us. */
#ifndef SERVER_HOST_MEMORY_H
#define SERVER_HOST_MEMORY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define CGROUP_LEVELS_MAX 8 /* of our own cgroup's ancestors that are looked at */

struct host_memory {
        pthread_mutex_t lock;
        char *groups[CGROUP_LEVELS_MAX]; /* directories whose limit is ours, too */
        unsigned n_groups;
        bool unified;
        uint64_t looked_usec, available_bytes;
};

/* Finds the cgroups that we are in. What cannot be found limits nothing. */
void host_memory_init(struct host_memory *m);
void host_memory_done(struct host_memory *m);
/* Bytes that can be used without pushing out others: of the host, and of each of our cgroups that has a limit. Looks at most every
 * HOST_MEMORY_USEC. UINT64_MAX: not known. */
uint64_t host_memory_available(struct host_memory *m);

#endif
