/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/reader/seal.h"

#include "base/limits.h"
#include "base/macro.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef GLOVEBOX_SANITIZED
#define GLOVEBOX_SANITIZED 0
#endif

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#else
#define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

static int load_filter(void)
{
        struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 0, 5),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 4, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 1, 0),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {.len = ARRAY_SIZE(filter), .filter = filter};

        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0 ? 0 : -errno;
}

static int lower(int resource, rlim_t value)
{
        struct rlimit limit;

        if (getrlimit(resource, &limit) < 0)
                return -errno;
        limit.rlim_cur = limit.rlim_max = MIN(value, limit.rlim_max);
        return setrlimit(resource, &limit) < 0 ? -errno : 0;
}

int seal_reader(pid_t master)
{
        static const struct {
                int resource;
                rlim_t value;
                bool sanitized; /* its runtime can live with that */
        } limits[] = {
                {RLIMIT_CPU, READER_CPU_SECONDS, true}, {RLIMIT_CORE, 0, true}, {RLIMIT_FSIZE, 0, true}, {RLIMIT_MEMLOCK, 0, true},
                {RLIMIT_NOFILE, 0, false}, {RLIMIT_AS, READER_MEMORY_BYTES, false},
        };

        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != master)
                return -ESRCH;
        if (chdir("/") < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
                if (GLOVEBOX_SANITIZED && !limits[i].sanitized)
                        continue;
                int r = lower(limits[i].resource, limits[i].value);
                if (r < 0)
                        return r;
        }
        return GLOVEBOX_SANITIZED ? 0 : load_filter();
}
