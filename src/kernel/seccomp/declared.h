/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNEL_SECCOMP_DECLARED_H
#define KERNEL_SECCOMP_DECLARED_H

#include "kernel/seccomp/profile.h"

#include <linux/seccomp.h>

/* What the rules say about one call, read row by row: the yardstick for the compiled program.
 * The rules need no order beyond that of the profile. */
uint32_t seccomp_declared(uint32_t audit_arch, const struct seccomp_rule *rules, size_t n_rules,
                          const struct seccomp_data *call);

#endif
