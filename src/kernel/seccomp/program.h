/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns rules into a BPF program for the kernel's seccomp. Build time and tests only. */
#ifndef KERNEL_SECCOMP_PROGRAM_H
#define KERNEL_SECCOMP_PROGRAM_H

#include "kernel/seccomp/profile.h"

#include <linux/filter.h>

/* The rules are sorted by number; rules of one number stay in the order of the profile. A call without a rule gets the
 * answer `unknown`, a SECCOMP_RET_ value. Writes
 * the program into ret (room for BPF_MAXINSNS). Returns the number of instructions,
 * -EEXIST when a number has a second row beside an unconditional one, -EINVAL for a rule no
 * program can express, -E2BIG, -ENOMEM. */
int seccomp_program_build(uint32_t audit_arch, const struct seccomp_rule *rules, size_t n_rules, uint32_t unknown,
                          struct sock_filter *ret);

#endif
