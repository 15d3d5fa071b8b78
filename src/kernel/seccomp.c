/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/seccomp.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

int seccomp_load(void)
{
        /* The kernel only reads it; sock_fprog has no const. */
        struct sock_fprog program = {
                .len = (unsigned short)n_seccomp_program,
                .filter = (struct sock_filter *)(uintptr_t)seccomp_program,
        };

        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
                return -errno;
        return 0;
}
