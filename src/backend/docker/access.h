/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DOCKER_ACCESS_H
#define DOCKER_ACCESS_H

#include "base/error.h"

#include <sys/types.h>

/* backend.h: keep_access(). */
int docker_keep_access(gid_t *ret, gb_error *err);

#endif
