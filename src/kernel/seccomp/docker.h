/* SPDX-License-Identifier: Apache-2.0
 *
 * The profile as container engines read it. Build time and tests only. */
#ifndef KERNEL_SECCOMP_DOCKER_H
#define KERNEL_SECCOMP_DOCKER_H

#include "kernel/seccomp/resolve.h"

/* Prints C that defines `const char SYMBOL[]`: the JSON of a seccomp profile for one architecture. `more`: calls that pass
 * whatever the profile says, NULL-terminated. 0 or a negative errno. */
int seccomp_print_docker(const struct seccomp_arch *arch, const char *symbol, char *const *more);

#endif
