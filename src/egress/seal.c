/* SPDX-License-Identifier: Apache-2.0
 *
 * What the proxy is left with: the system calls below, of sockets only those of IPv4 and IPv6, memory that is never executable, and no file. A call that is not in the
 * list fails with EPERM, since libraries try this and that; one that starts a program or looks into another process ends this one. */
#include "egress/seal.h"

#include "base/limits.h"
#include "base/macro.h"
#include "kernel/landlock.h"
#include "kernel/privilege.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOBODY 65534

#ifndef GLOVEBOX_SANITIZED
#define GLOVEBOX_SANITIZED 0
#endif

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#else
#define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

static const int allowed[] = {
        /* bytes */
        SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_recvfrom, SYS_sendto, SYS_recvmsg, SYS_sendmsg, SYS_sendmmsg, SYS_splice, SYS_pipe2, SYS_close, SYS_shutdown,
        /* connections */
        SYS_accept4, SYS_connect, SYS_getsockname, SYS_getpeername, SYS_getsockopt,
        /* the loop and the clock */
        SYS_epoll_ctl, SYS_epoll_pwait, SYS_ppoll, SYS_clock_gettime, SYS_clock_nanosleep, SYS_gettimeofday, SYS_timerfd_settime,
        /* memory, and what the orders bring in it */
        SYS_brk, SYS_munmap, SYS_mremap, SYS_madvise, SYS_futex, SYS_lseek, SYS_getrandom,
        /* itself */
        SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_getpid, SYS_gettid, SYS_restart_syscall, SYS_sched_yield, SYS_exit, SYS_exit_group,
#ifdef SYS_epoll_wait
        SYS_epoll_wait, SYS_poll, SYS_time,
#endif
#ifdef SYS_epoll_pwait2
        SYS_epoll_pwait2,
#endif
};

static const int deadly[] = {SYS_execve, SYS_execveat, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_clone, SYS_bpf, SYS_setns, SYS_unshare};

struct program {
        struct sock_filter code[4 * ARRAY_SIZE(allowed) + 64];
        unsigned short n;
};

static void emit(struct program *p, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
        if (p->n < ARRAY_SIZE(p->code))
                p->code[p->n++] = (struct sock_filter){code, jt, jf, k};
}

static void load(struct program *p, size_t offset)
{
        emit(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void answer(struct program *p, uint32_t action)
{
        emit(p, BPF_RET | BPF_K, action, 0, 0);
}

static void when_number(struct program *p, int number, uint32_t action)
{
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1);
        answer(p, action);
}

/* A call that may pass when one of its arguments, under a mask, is one of these. */
struct limited {
        int number;
        unsigned argument;
        uint32_t mask;
        uint32_t values[6];
        size_t n;
};

static const struct limited limited[] = {
        {SYS_mmap, 2, PROT_EXEC, {0}, 1},
        {SYS_mprotect, 2, PROT_EXEC, {0}, 1},
        {SYS_ioctl, 1, ~0U, {FIONREAD, FIONBIO}, 2},
        {SYS_fcntl, 1, ~0U, {F_GETFL, F_SETFL, F_GETFD, F_SETFD, F_GET_SEALS, F_SETPIPE_SZ}, 6},
        {SYS_setsockopt, 2, ~0U, {TCP_NODELAY, SO_LINGER}, 2}, /* above all no filter and no other protocol on top */
};

static void when_argument(struct program *p, const struct limited *l)
{
        unsigned more = l->mask != ~0U;

        /* Over everything that follows: the load, the mask, two for each value, the refusal. */
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)l->number, 0, (uint8_t)(2 + more + 2 * l->n));
        load(p, offsetof(struct seccomp_data, args) + sizeof(uint64_t) * l->argument);
        if (more)
                emit(p, BPF_ALU | BPF_AND | BPF_K, l->mask, 0, 0);
        for (size_t i = 0; i < l->n; i++)
                when_number(p, (int)l->values[i], SECCOMP_RET_ALLOW);
        answer(p, SECCOMP_RET_ERRNO | EPERM);
}

/* socket(): IPv4 and IPv6, streams of TCP and datagrams of UDP. */
static void when_socket(struct program *p)
{
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 14);
        load(p, offsetof(struct seccomp_data, args[0]));
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 2, 0);
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 1, 0);
        answer(p, SECCOMP_RET_ERRNO | EAFNOSUPPORT);
        load(p, offsetof(struct seccomp_data, args[1]));
        emit(p, BPF_ALU | BPF_AND | BPF_K, 0xf, 0, 0);
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 2, 0);
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, SOCK_DGRAM, 1, 0);
        answer(p, SECCOMP_RET_ERRNO | EPERM);
        load(p, offsetof(struct seccomp_data, args[2]));
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 2, 0);
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 1, 0);
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 1);
        answer(p, SECCOMP_RET_ALLOW);
}

static int load_filter(void)
{
        static struct program p;

        load(&p, offsetof(struct seccomp_data, arch));
        emit(&p, BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 1, 0);
        answer(&p, SECCOMP_RET_KILL_PROCESS);
        load(&p, offsetof(struct seccomp_data, nr));
        for (size_t i = 0; i < ARRAY_SIZE(allowed); i++)
                when_number(&p, allowed[i], SECCOMP_RET_ALLOW);
        for (size_t i = 0; i < ARRAY_SIZE(deadly); i++)
                when_number(&p, deadly[i], SECCOMP_RET_KILL_PROCESS);
        for (size_t i = 0; i < ARRAY_SIZE(limited); i++)
                when_argument(&p, &limited[i]);
        /* abort() signals itself, and nobody else. */
        emit(&p, BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 4);
        load(&p, offsetof(struct seccomp_data, args[0]));
        when_number(&p, getpid(), SECCOMP_RET_ALLOW);
        answer(&p, SECCOMP_RET_ERRNO | EPERM);
        when_socket(&p);
        answer(&p, SECCOMP_RET_ERRNO | EPERM);

        struct sock_fprog program = {.len = p.n, .filter = p.code};
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0 ? 0 : -errno;
}

/* Whether there is such a user where we are: a user namespace may have only its root. */
static bool has_nobody(void)
{
        setfsuid(NOBODY);
        bool has = setfsuid((uid_t)-1) == NOBODY;
        setfsuid(geteuid());
        return has;
}

static int give_up(void)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

        if (geteuid() == 0)
                return has_nobody() ? privilege_become(NOBODY, NOBODY, NULL, 0) : privilege_drop_capabilities();
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
                return -errno;
        return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

int egress_seal(void)
{
        struct rlimit none = {0};
        int r, abi = landlock_abi();

        if (chdir("/") < 0 || setrlimit(RLIMIT_CORE, &none) < 0 || setrlimit(RLIMIT_FSIZE, &none) < 0)
                return -errno;
        r = give_up();
        if (r < 0)
                return r;
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        if (abi > 0 && (r = landlock_allow_nothing(abi)) < 0)
                return r;
        return GLOVEBOX_SANITIZED ? 0 : load_filter();
}
