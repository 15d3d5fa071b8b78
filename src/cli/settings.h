/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SETTINGS_H
#define CLI_SETTINGS_H

#include "cli/options.h"
#include "policy/policy.h"

#include <sys/types.h>

/* The policy of this call: the file for the trust level, changed by the environment, changed by
 * the flags, and validated. */
int settings_policy(const struct option_set *set, const struct arguments *a, struct policy **ret, gb_error *err);

/* Flags that say different things about the network: --allow, and --network none or host. */
int settings_check_network(const struct arguments *a, gb_error *err);

/* "UID[:GID]" of --user; never 0. */
int settings_user(const char *text, uid_t *ret_uid, gid_t *ret_gid, gb_error *err);

#endif
