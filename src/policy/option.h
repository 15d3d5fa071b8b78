/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside policy/: values from text, by the rows of policy_options. The messages have no
 * prefix; the caller puts the flag or the place in the file before them. */
#ifndef POLICY_OPTION_H
#define POLICY_OPTION_H

#include "policy/policy.h"

int option_apply(const struct policy_option *o, struct policy *p, const char *text, gb_error *err);
/* A second look at what is stored. */
int option_check(const struct policy_option *o, const struct policy *p, gb_error *err);

#endif
