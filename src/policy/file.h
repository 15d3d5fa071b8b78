/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside policy/: what the reader of files and the setter of flags share. */
#ifndef POLICY_FILE_H
#define POLICY_FILE_H

#include "policy/policy.h"

/* The defaults of the option table; without origin and trust level. */
int policy_new(struct policy **ret, gb_error *err);

/* Rules that join two values; messages without prefix. */
int policy_check_timeout(const struct policy *p, gb_error *err);
int policy_check_network(const struct policy *p, gb_error *err);
int policy_check_places(const struct policy *p, gb_error *err);
int policy_check_backend(const struct policy *p, gb_error *err);

#endif
