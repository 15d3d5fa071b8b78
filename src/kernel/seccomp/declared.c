/* SPDX-License-Identifier: Apache-2.0
 *
 * Shares nothing with program.c but the rows, on purpose: it is the second opinion. */
#include "kernel/seccomp/declared.h"

#include <errno.h>
#include <linux/audit.h>
#include <stdbool.h>

static bool row_refuses(const struct seccomp_row *row, const struct seccomp_data *call)
{
        bool listed = false;

        if (row->kind == SECCOMP_ROW_ALLOW)
                return false;
        if (row->kind == SECCOMP_ROW_REFUSE)
                return true;
        if (row->guard && (call->args[row->guard_arg] & 0xffffffffULL) != row->guard->value)
                return false;
        for (size_t i = 0; i < row->n_values; i++)
                if (((uint32_t)call->args[row->arg] & row->mask) == row->values[i].value)
                        listed = true;
        return row->kind == SECCOMP_ROW_ONLY ? !listed : listed;
}

uint32_t seccomp_declared(uint32_t audit_arch, const struct seccomp_rule *rules, size_t n_rules,
                          const struct seccomp_data *call)
{
        bool known = false;

        if (call->arch != audit_arch)
                return SECCOMP_RET_KILL_PROCESS;
        if (audit_arch == AUDIT_ARCH_X86_64 && (uint32_t)call->nr >= 0x40000000U)
                return SECCOMP_RET_KILL_PROCESS;
        for (size_t i = 0; i < n_rules; i++) {
                if (rules[i].nr != (uint32_t)call->nr)
                        continue;
                known = true;
                if (row_refuses(rules[i].row, call))
                        return SECCOMP_RET_ERRNO | (uint32_t)rules[i].row->errnum;
        }
        return known ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | ENOSYS;
}
