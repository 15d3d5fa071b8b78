/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/seccomp/resolve.h"

#include "base/macro.h"

#include <errno.h>
#include <linux/audit.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const struct seccomp_arch seccomp_arches[] = {
        {"x86_64", AUDIT_ARCH_X86_64},
        {"aarch64", AUDIT_ARCH_AARCH64},
};
const size_t n_seccomp_arches = ARRAY_SIZE(seccomp_arches);

const struct seccomp_arch *seccomp_arch_find(const char *name)
{
        for (size_t i = 0; i < n_seccomp_arches; i++)
                if (strcmp(seccomp_arches[i].name, name) == 0)
                        return &seccomp_arches[i];
        return NULL;
}

bool seccomp_row_is_for(const struct seccomp_row *row, const struct seccomp_arch *arch)
{
        return !row->arch || strcmp(row->arch, arch->name) == 0;
}

int seccomp_resolve(const struct seccomp_arch *arch, const char *name)
{
        /* libseccomp's tokens are the kernel's own. Below -1 it means: not on this one. */
        int nr = seccomp_syscall_resolve_name_arch(arch->audit_arch, name);

        for (size_t i = 0; i < n_seccomp_numbers; i++)
                if (strcmp(seccomp_numbers[i].name, name) == 0) {
                        if (nr >= 0 && nr != seccomp_numbers[i].nr)
                                return -EINVAL;
                        return seccomp_numbers[i].nr;
                }
        if (nr == __NR_SCMP_ERROR)
                return -EINVAL;
        return nr >= 0 ? nr : -ENOENT;
}

static int row_check(const struct seccomp_row *row)
{
        const char *wrong = NULL;

        if (row->errnum < 0 || row->errnum > 4095)
                wrong = "no such errno";
        if (row->arg > 5 || row->guard_arg > 5)
                wrong = "a call has the arguments 0 to 5";
        for (size_t i = 0; i < row->n_values; i++)
                if (row->values[i].value & ~row->mask)
                        wrong = "a value has bits outside its mask";
        if (row->arch && !seccomp_arch_find(row->arch))
                wrong = "there is no such architecture";
        if (wrong)
                fprintf(stderr, "profile.def: %s: %s\n", row->name, wrong);
        return wrong ? -EINVAL : 0;
}

static int rule_compare(const void *a, const void *b)
{
        const struct seccomp_rule *x = a, *y = b;

        if (x->nr != y->nr)
                return x->nr < y->nr ? -1 : 1;
        return x->row < y->row ? -1 : x->row > y->row; /* the order of the profile */
}

int seccomp_resolve_profile(const struct seccomp_arch *arch, struct seccomp_rule **ret,
                            size_t *ret_n)
{
        _cleanup_free_ struct seccomp_rule *rules = calloc(n_seccomp_profile, sizeof(*rules));
        size_t n = 0;

        if (!rules)
                return -ENOMEM;
        for (size_t i = 0; i < n_seccomp_profile; i++) {
                const struct seccomp_row *row = &seccomp_profile[i];
                if (row->kind == SECCOMP_ROW_GROUP)
                        continue;
                int r = row_check(row);
                if (r < 0)
                        return r;
                int nr = seccomp_resolve(arch, row->name);
                if (nr == -ENOENT || !seccomp_row_is_for(row, arch))
                        continue;
                if (nr < 0) {
                        fprintf(stderr, "profile.def: %s: no such system call\n", row->name);
                        return nr;
                }
                rules[n++] = (struct seccomp_rule){(uint32_t)nr, row};
        }
        qsort(rules, n, sizeof(*rules), rule_compare);
        *ret = TAKE_PTR(rules);
        *ret_n = n;
        return 0;
}
