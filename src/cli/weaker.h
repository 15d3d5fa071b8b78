/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_WEAKER_H
#define CLI_WEAKER_H

#include "policy/policy.h"

/* Warns of controls that are not enforced in full, in one line on standard error. */
void weaker_warn(const struct controls *controls, const struct policy *p);

#endif
