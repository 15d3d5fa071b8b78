/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside engine/: what a policy lets pass, as the proxy wants it. */
#ifndef ENGINE_NETWORK_RULES_H
#define ENGINE_NETWORK_RULES_H

#include "base/buffer.h"
#include "policy/policy.h"

/* The block of egress/rules.h. secrets: the policy whose secrets stand for ${secret:NAME} in values of headers. */
int network_rules_make(const struct policy *p, const struct policy *secrets, struct buffer *ret, gb_error *err);

#endif
