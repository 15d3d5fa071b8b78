/* SPDX-License-Identifier: Apache-2.0
 *
 * The counters of a container, in the kernel's own files on this host. */
#ifndef DOCKER_COUNTERS_H
#define DOCKER_COUNTERS_H

#include "backend/usage.h"

#include <stdbool.h>
#include <sys/types.h>

/* Opens the files of the cgroups in which the process is, if they are those of the container `id`. -ENOENT: this process cannot see them: the engine is on
 * another machine, or in another pid namespace. */
int counters_open(struct usage_files *ret, pid_t pid, const char *id);

/* The same from texts; for tests. root: the directory that is "/" in mountinfo's paths. */
int counters_open_from(struct usage_files *ret, int root, char *mountinfo, const char *cgroup, const char *id);

#endif
