/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARDEN_PAYLOAD_H
#define WARDEN_PAYLOAD_H

#include "warden/protocol.h"

#include <stdbool.h>
#include <stddef.h>

/* The whole payload lies within its bounds, and its strings end. */
bool payload_valid(const struct payload *p, size_t size);

#endif
