/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of classic BPF the filter uses, for the tests. */
#ifndef KERNEL_SECCOMP_INTERPRET_H
#define KERNEL_SECCOMP_INTERPRET_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>

/* What the kernel would check at load: known instructions, aligned loads inside the call, jumps
 * that stay inside, a return at the end. 0 or -EINVAL. */
int seccomp_program_check(const struct sock_filter *program, size_t n);

/* Runs a program that passed the check. The steps it took go to ret_steps, unless NULL. */
uint32_t seccomp_interpret(const struct sock_filter *program, const struct seccomp_data *call,
                           size_t *ret_steps);

#endif
