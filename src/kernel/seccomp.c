/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/seccomp.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

static int load(const struct sock_filter *filter, size_t size)
{
        /* The kernel only reads it; sock_fprog has no const. */
        struct sock_fprog program = {
                .len = (unsigned short)size,
                .filter = (struct sock_filter *)(uintptr_t)filter,
        };

        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
                return -errno;
        return 0;
}

int seccomp_load(void)
{
        return load(seccomp_program, n_seccomp_program);
}

int seccomp_load_template(void)
{
        return load(seccomp_template_program, n_seccomp_template_program);
}
