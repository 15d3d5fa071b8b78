/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNEL_USERNS_H
#define KERNEL_USERNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* One id inside, one id outside: a box has exactly one user and one group. A template has more, one for
 * each session that comes from it. */
struct userns_map {
        uid_t uid_inside, uid_outside;
        gid_t gid_inside, gid_outside;
        uint32_t more; /* ids that follow these, inside and outside */
};

/* Writes the maps of a child that lives in a fresh user namespace. */
int userns_write_map(pid_t pid, const struct userns_map *map);
/* The same through this /proc, in which its number is pid. */
int userns_write_map_at(int proc, pid_t pid, const struct userns_map *map);

/* A user namespace with this map and nobody in it, as a descriptor (for idmapped mounts). */
int userns_open(const struct userns_map *map);

/* True when ids of our user namespace are those of the host, so that uid 0 is the real root. */
bool userns_is_initial(void);

#endif
