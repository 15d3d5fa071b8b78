/* SPDX-License-Identifier: Apache-2.0
 *
 * Templates that this user's processes share: backend.h says what each function does. */
#ifndef NATIVE_WARM_H
#define NATIVE_WARM_H

#include "backend/backend.h"

extern const struct backend_warm native_warm;

#endif
