/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of the profile to numbers of one architecture. Build time and tests only: this is the
 * one place that needs libseccomp. */
#ifndef KERNEL_SECCOMP_RESOLVE_H
#define KERNEL_SECCOMP_RESOLVE_H

#include "kernel/seccomp/profile.h"

#include <stdbool.h>

struct seccomp_arch {
        const char *name;    /* as meson calls the cpu family */
        uint32_t audit_arch; /* as the kernel calls it */
};

extern const struct seccomp_arch seccomp_arches[];
extern const size_t n_seccomp_arches;

const struct seccomp_arch *seccomp_arch_find(const char *name);

/* Whether the row holds there. */
bool seccomp_row_is_for(const struct seccomp_row *row, const struct seccomp_arch *arch);

/* The number, -ENOENT when the architecture has no such call, -EINVAL when nobody knows it. */
int seccomp_resolve(const struct seccomp_arch *arch, const char *name);

/* The whole profile for one architecture, sorted by number. Says on stderr what is wrong with a
 * row. 0 or a negative errno. */
int seccomp_resolve_profile(const struct seccomp_arch *arch, struct seccomp_rule **ret,
                            size_t *ret_n);

#endif
