/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/seccomp.h"

#include "base/macro.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
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

int seccomp_load_child(void)
{
        return load(seccomp_child_program, n_seccomp_child_program);
}

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#define PAUSE SYS_pause
#else
#define OWN_ARCH AUDIT_ARCH_AARCH64
#define PAUSE SYS_ppoll /* what the C library makes of pause() */
#endif

int seccomp_load_pause(void)
{
        static const struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 0, 6),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PAUSE, 3, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 2, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        };

        return load(filter, ARRAY_SIZE(filter));
}
