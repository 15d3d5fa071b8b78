/* SPDX-License-Identifier: Apache-2.0
 *
 * The socket on which the proxy of a box with an allowlist hears it. Who builds the box makes it there, in a network namespace that leads nowhere, and
 * sends it out before any user code runs. */
#ifndef NATIVE_LISTENER_H
#define NATIVE_LISTENER_H

#include "backend/native/payload.h"
#include "policy/policy.h"

/* Asks for one with this plan when the policy has an allowlist. *ret: where it will come from; -1: nowhere. */
int listener_plan(struct box_plan *plan, const struct policy *policy, int *ret, gb_error *err);
/* The listener, non-blocking, of a box that stands, or a negative errno. Once: *from is closed. */
int listener_take(int *from, gb_error *err);

#endif
