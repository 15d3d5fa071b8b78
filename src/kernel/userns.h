/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNEL_USERNS_H
#define KERNEL_USERNS_H

#include <stdbool.h>
#include <sys/types.h>

/* One id inside, one id outside: a box has exactly one user and one group. */
struct userns_map {
        uid_t uid_inside, uid_outside;
        gid_t gid_inside, gid_outside;
};

/* Writes the maps of a child that lives in a fresh user namespace. */
int userns_write_map(pid_t pid, const struct userns_map *map);

/* A user namespace with this map and nobody in it, as a descriptor (for idmapped mounts). */
int userns_open(const struct userns_map *map);

/* True when ids of our user namespace are those of the host, so that uid 0 is the real root. */
bool userns_is_initial(void);

#endif
