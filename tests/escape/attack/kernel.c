/* SPDX-License-Identifier: Apache-2.0
 *
 * Group A of the catalogue: the kernel's surface. */
#include "attack.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void io_uring(void)
{
        char params[256] = {0};

        try("io_uring_setup", syscall(SYS_io_uring_setup, 8, params));
        try("io_uring_enter", syscall(SYS_io_uring_enter, 0, 1, 0, 0, NULL, 0));
        try("io_uring_register", syscall(SYS_io_uring_register, 0, 0, NULL, 0));
}

/* The call itself, without a library in between that a forked child could trip over. */
static inline __attribute__((always_inline)) long bare(long nr, long a, long b, long c, long d, long e, long f)
{
#ifdef __x86_64__
        register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
        long r;
        __asm__ volatile("syscall" : "=a"(r) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                         : "rcx", "r11", "memory");
        return r;
#else
        register long x8 __asm__("x8") = nr, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c,
                      x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
        __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
        return x0;
#endif
}

#define SYSCALLS 601

/* Every number with zero arguments, in a child each; what it answered is left in shared memory. */
static void syscalls(void)
{
        volatile int *answers = mmap(NULL, sizeof(int) * SYSCALLS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        const struct itimerval soon = {.it_value = {.tv_usec = 200000}};

        for (int nr = 0; nr < SYSCALLS; nr++) {
                int status;
                answers[nr] = 9999; /* did not come back */
                pid_t pid = fork();
                if (pid == 0) {
                        setitimer(ITIMER_REAL, &soon, NULL); /* for those that wait */
                        long r = bare(nr, 0, 0, 0, 0, 0, 0);
                        answers[nr] = r < 0 && r > -4096 ? (int)-r : 0;
                        bare(SYS_exit_group, 0, 0, 0, 0, 0, 0);
                }
                waitpid(pid, &status, 0);
                const char *name = answers[nr] == 0 ? "0" : answers[nr] == 9999 ? "never" : strerrorname_np(answers[nr]);
                printf("note %d=%s\n", nr, name ? name : "unknown");
        }
}

static void *note_thread(void *unused)
{
        note("thread", "%d", seccomp_mode());
        return NULL;
}

static void print_mode(void)
{
        note(arg(0), "%d", seccomp_mode());
}

static void filter_everywhere(void)
{
        pthread_t thread;
        int status;
        const char *script = "/tmp/script";

        note("self", "%d", seccomp_mode());
        pthread_create(&thread, NULL, note_thread, NULL);
        pthread_join(thread, NULL);

        fflush(stdout);
        if (fork() == 0)
                execl("/attack/attack", "attack", "print_mode", "x", "exec_static", NULL);
        wait(&status);
        int fd = open(script, O_CREAT | O_WRONLY, 0755);
        dprintf(fd, "#!/bin/sh\nexec /attack/attack print_mode x exec_script\n");
        close(fd);
        if (fork() == 0)
                execl(script, script, NULL);
        wait(&status);
        if (vfork() == 0)
                execl("/attack/attack", "attack", "print_mode", "x", "vfork_child", NULL);
        wait(&status);
}

static const struct {
        const char *name;
        unsigned long flag;
} namespaces[] = {
        {"user", CLONE_NEWUSER}, {"mount", CLONE_NEWNS}, {"pid", CLONE_NEWPID},       {"net", CLONE_NEWNET},
        {"ipc", CLONE_NEWIPC},   {"uts", CLONE_NEWUTS},  {"cgroup", CLONE_NEWCGROUP}, {"time", 0x80},
};

static void new_namespaces(void)
{
        char step[64];

        for (size_t i = 0; i < sizeof(namespaces) / sizeof(*namespaces); i++) {
                snprintf(step, sizeof(step), "unshare_%s", namespaces[i].name);
                try(step, unshare(namespaces[i].flag));
                if (namespaces[i].flag == 0x80) /* clone has its exit signal there */
                        continue;
                snprintf(step, sizeof(step), "clone_%s", namespaces[i].name);
                long r = syscall(SYS_clone, namespaces[i].flag | SIGCHLD, 0, 0, 0, 0);
                if (r == 0)
                        _exit(0);
                try(step, r);
        }
        uint64_t clone_args[11] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
        long r = syscall(SYS_clone3, clone_args, sizeof(clone_args));
        if (r == 0)
                _exit(0);
        try("clone3_user", r);
        int fd = open("/proc/1/ns/mnt", O_RDONLY);
        try("open_init_ns", fd);
        fd = open("/proc/self/ns/user", O_RDONLY);
        try("setns_own_user", setns(fd, 0));
        try("setns_pidfd", setns((int)syscall(SYS_pidfd_open, getpid(), 0), CLONE_NEWNS));
}

static void administration(void)
{
        try("mount_tmpfs", mount("none", "/tmp", "tmpfs", 0, NULL));
        try("mount_bind", mount("/usr", "/tmp", NULL, MS_BIND, NULL));
        try("mount_proc", mount("none", "/tmp", "proc", 0, NULL));
        try("umount2", umount2("/proc", MNT_DETACH));
        try("pivot_root", syscall(SYS_pivot_root, "/tmp", "/tmp"));
        try("chroot", chroot("/tmp"));
        try("swapon", syscall(SYS_swapon, "/tmp/swap", 0));
        try("swapoff", syscall(SYS_swapoff, "/tmp/swap"));
        try("acct", acct("/tmp/acct"));
        try("quotactl", syscall(SYS_quotactl, 0x800001, "/dev/vda", 0, NULL));
        try("reboot", syscall(SYS_reboot, 0xfee1dead, 672274793, 0, NULL)); /* switches Ctrl-Alt-Del off */
        try("kexec_load", syscall(SYS_kexec_load, 0, 0, NULL, 0));
        try("kexec_file_load", syscall(SYS_kexec_file_load, -1, -1, 0, "", 0));
        try("init_module", syscall(SYS_init_module, "x", 1, ""));
        try("finit_module", syscall(SYS_finit_module, 0, "", 0));
        try("delete_module", syscall(SYS_delete_module, "loop", O_NONBLOCK));
        try("bpf", syscall(SYS_bpf, 0, NULL, 0));
        try("perf_event_open", syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
        try("userfaultfd", syscall(SYS_userfaultfd, 0));
        try("keyctl", syscall(SYS_keyctl, 0, -3, 0));
        try("add_key", syscall(SYS_add_key, "user", "x", "y", 1, -3));
        try("syslog", syscall(SYS_syslog, 3, NULL, 0));
        try("open_by_handle_at", syscall(SYS_open_by_handle_at, AT_FDCWD, NULL, 0));
}

static void mount_api(void)
{
        uint64_t attr[4] = {MS_RDONLY};

        try("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
        try("fsmount", syscall(SYS_fsmount, -1, 0, 0));
        try("fsconfig", syscall(SYS_fsconfig, -1, 0, "a", "b", 0));
        try("fspick", syscall(SYS_fspick, AT_FDCWD, "/tmp", 0));
        try("open_tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1));
        try("open_tree_plain", syscall(SYS_open_tree, AT_FDCWD, "/tmp", 0));
        try("move_mount", syscall(SYS_move_mount, AT_FDCWD, "/tmp", AT_FDCWD, "/sandbox", 0));
        try("mount_setattr", syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, attr, sizeof(attr)));
        try("open_tree_attr", syscall(467, AT_FDCWD, "/", 1, attr, sizeof(attr)));
}

static void odd_modes(void)
{
        char descriptor[16] = {0};

        try("personality_no_randomize", personality(ADDR_NO_RANDOMIZE));
        try("personality_read_exec", personality(READ_IMPLIES_EXEC));
        try("personality_linux32", personality(PER_LINUX32));
#ifdef __x86_64__
        try("modify_ldt", syscall(SYS_modify_ldt, 1, descriptor, sizeof(descriptor)));
        try("iopl", syscall(SYS_iopl, 3));
        try("ioperm", syscall(SYS_ioperm, 0x70, 2, 1));
        try("arch_set_cpuid", syscall(SYS_arch_prctl, 0x1012, 0));
        try("arch_map_vdso_x32", syscall(SYS_arch_prctl, 0x2001, 0));
        try("arch_shstk_disable", syscall(SYS_arch_prctl, 0x5002, 1));
#endif
}

static void socket_options(void)
{
        struct sock_filter code = {0x06, 0, 0, 0};
        struct sock_fprog program = {1, &code};
        int tcp = socket(AF_INET, SOCK_STREAM, 0), one = 0;
        char table[128] = {0};

        note("inet", "%d", tcp >= 0);
        try("attach_filter", setsockopt(tcp, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)));
        try("attach_bpf", setsockopt(tcp, SOL_SOCKET, SO_ATTACH_BPF, &one, sizeof(one)));
        try("reuseport_cbpf", setsockopt(tcp, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)));
        try("tcp_ulp", setsockopt(tcp, 6, 31, "tls", 3));
        try("tcp_repair", setsockopt(tcp, 6, 19, &one, sizeof(one)));
        try("ipt_replace", setsockopt(tcp, 0, 64, table, sizeof(table)));
        try("high_word", syscall(SYS_setsockopt, tcp, 0xffffffff00000000UL | SOL_SOCKET, SO_ATTACH_FILTER, &program,
                                 sizeof(program)));

        /* Memberships until it says no. */
        struct ip_mreq group = {.imr_interface.s_addr = htonl(INADDR_LOOPBACK)};
        int udp = socket(AF_INET, SOCK_DGRAM, 0), joined = 0;
        for (uint32_t i = 1; i < 100000; i++) {
                group.imr_multiaddr.s_addr = htonl(0xe0010000u + i);
                if (setsockopt(udp, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof(group)) < 0)
                        break;
                joined++;
        }
        note("multicast", "%d", joined);

        /* Sockets full of sockets, each message with as many descriptors as the kernel takes. */
        int sent = 0, pair[2];
        for (int round = 0; round < 64 && socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0; round++) {
                int many[253];
                union {
                        char bytes[CMSG_SPACE(sizeof(many))];
                        struct cmsghdr align;
                } control = {0};
                struct iovec iov = {.iov_base = "x", .iov_len = 1};
                struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
                struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
                for (int i = 0; i < 253; i++)
                        many[i] = pair[0];
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(sizeof(many));
                memcpy(CMSG_DATA(c), many, sizeof(many));
                while (sendmsg(pair[1], &msg, MSG_DONTWAIT) >= 0)
                        sent++;
                close(pair[0]);
                close(pair[1]);
        }
        note("nested_messages", "%d", sent);
}

static void socket_families(void)
{
        static const struct {
                const char *name;
                int family, type, protocol;
        } rows[] = {
                {"packet", AF_PACKET, SOCK_RAW, 0},     {"netlink", AF_NETLINK, SOCK_RAW, 0},
                {"vsock", AF_VSOCK, SOCK_STREAM, 0},    {"alg", AF_ALG, SOCK_SEQPACKET, 0},
                {"bluetooth", AF_BLUETOOTH, SOCK_RAW, 0}, {"can", AF_CAN, SOCK_RAW, 1},
                {"xdp", 44, SOCK_RAW, 0},               {"rds", AF_RDS, SOCK_SEQPACKET, 0},
                {"tipc", AF_TIPC, SOCK_STREAM, 0},      {"key", AF_KEY, SOCK_RAW, 2},
                {"raw", AF_INET, SOCK_RAW, 1},          {"sctp", AF_INET, SOCK_STREAM, 132},
                {"mptcp", AF_INET, SOCK_STREAM, 262},
        };
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
                try(rows[i].name, socket(rows[i].family, rows[i].type, rows[i].protocol));
}

static void process_controls(void)
{
        struct sock_filter code = {0x06, 0, 0, 0x7fff0000};
        struct sock_fprog program = {1, &code};

        try("set_mm", prctl(PR_SET_MM, PR_SET_MM_BRK, sbrk(0), 0, 0));
        try("set_seccomp", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0));
        try("set_ptracer", prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0));
        try("set_no_new_privs_0", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
        try("set_keepcaps", prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
        try("set_securebits", prctl(PR_SET_SECUREBITS, 0, 0, 0, 0));
        try("ambient_raise", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0));
        try("set_memory_merge", prctl(67, 1, 0, 0, 0));
        note("seccomp", "%d", seccomp_mode());
}

static void dies_by_int80(void)
{
#ifdef __x86_64__
        long r;
        __asm__ volatile("int $0x80" : "=a"(r) : "a"(20L /* getpid */) : "memory", "r8", "r9", "r10", "r11");
        note("int80_answer", "%ld", r);
#endif
}

void dies_by_x32(void)
{
        note("x32_answer", "%ld", bare(0x40000000 | 39, 0, 0, 0, 0, 0, 0));
}

static void other_abis(void)
{
        print_death("int80", in_child(dies_by_int80));
        print_death("x32", in_child(dies_by_x32));
}

static void other_process(void)
{
        char word[8] = "12345678";
        struct iovec local = {word, 8}, remote = {(void *)0x400000, 8};
        pid_t target = (pid_t)(n_args > 0 ? atoi(arg(0)) : 1);
        char path[64];

        static const char *const files[] = {"mem", "environ", "maps", "root", "cwd", "exe", "fd"};
        for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
                char step[32];
                snprintf(path, sizeof(path), "/proc/%d/%s", target, files[i]);
                snprintf(step, sizeof(step), "open_%s", files[i]);
                try(step, open(path, i == 0 ? O_RDWR : O_RDONLY));
        }
        try("process_vm_readv", process_vm_readv(target, &local, 1, &remote, 1, 0));
        try("process_vm_writev", process_vm_writev(target, &local, 1, &remote, 1, 0));
        try("ptrace_attach", ptrace(PTRACE_ATTACH, target, 0, 0));
        try("ptrace_seize", ptrace(PTRACE_SEIZE, target, 0, 0));
        int pidfd = (int)syscall(SYS_pidfd_open, target, 0);
        try("pidfd_getfd", syscall(SYS_pidfd_getfd, pidfd, 0, 0));
        try("kcmp", syscall(SYS_kcmp, target, getpid(), 0, 0, 0));
        try("process_madvise", syscall(SYS_process_madvise, pidfd, &remote, 1, 4, 0));
}

static void try_traceme(void)
{
        try("traceme", ptrace(PTRACE_TRACEME, 0, 0, 0));
}

static void own_child_memory(void)
{
        static int secret = 1;
        char path[64], word[8] = {0};
        struct iovec local = {word, 4}, remote = {&secret, 4};
        pid_t child = fork();

        if (child == 0) {
                pause();
                _exit(0);
        }
        try("process_vm_readv", process_vm_readv(child, &local, 1, &remote, 1, 0));
        try("process_vm_writev", process_vm_writev(child, &local, 1, &remote, 1, 0));
        try("ptrace_attach", ptrace(PTRACE_ATTACH, child, 0, 0));
        in_child(try_traceme); /* not by ourselves: our parent would have to answer for every signal */
        snprintf(path, sizeof(path), "/proc/%d/mem", child);
        try("open_mem", open(path, O_RDWR));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
}

static void try_strict(void)
{
        try("strict", syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL));
}

static void more_filters(void)
{
        struct sock_filter code = {0x06, 0, 0, SECCOMP_RET_ALLOW};
        struct sock_fprog program = {1, &code};

        try("listener", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
        try("tsync", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program));
        in_child(try_strict); /* it cannot end in the ordinary way where that works */
}

/* What Landlock is there for: writes outside the writable places, by every way that is not open(path, O_WRONLY). */
static void landlock_ways(void)
{
        char path[64];
        int fd = open("/usr/bin/env", O_RDONLY);

        note("opened", "%d", fd >= 0);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        try("reopen_rdwr", open(path, O_RDWR));
        try("reopen_trunc", open(path, O_RDONLY | O_TRUNC));
        try("truncate_path", truncate("/usr/bin/env", 0));
        try("ftruncate_ro", ftruncate(fd, 0));
        close(open("/sandbox/mine", O_CREAT | O_RDWR, 0644));
        try("rename_out", rename("/sandbox/mine", "/usr/mine"));
        try("link_out", link("/sandbox/mine", "/usr/mine"));
        try("link_in", link("/usr/bin/env", "/sandbox/theirs"));
        try("symlink_out", symlink("/sandbox", "/usr/link"));
        try("mkdir_out", mkdir("/usr/made", 0755));
        try("mkfifo_out", mkfifo("/etc/fifo", 0644));
        try("unlink_out", unlink("/usr/bin/env"));
        try("open_proc_oom", try_write("/proc/self/oom_score_adj", "-1000"));
        try("write_proc_comm", try_write("/proc/self/comm", "x"));
        try("write_uid_map", try_write("/proc/self/uid_map", "0 1000 1"));
        try("write_timerslack", try_write("/proc/self/timerslack_ns", "1"));
        try("mem_write_text", try_write("/proc/self/mem", "x"));
        try("root_reopen", open("/proc/self/root/etc/passwd", O_RDWR));
}

#define TRINITY_SECONDS 2

/* Random calls with random arguments, in children, within what the filter lets through. */
static void trinity(void)
{
        static const int never[] = {SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_pidfd_send_signal,
                                    SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_setitimer};
        static const unsigned long interesting[] = {0, 1, 2, 4095, 4096, 0x7fffffff, 0x80000000, 0xffffffff, ~0UL, ~0UL - 4095,
                                                    0xffffffff80000000UL, 0xffff888000000000UL, 0xffffffffff600000UL, 0x8000000000000000UL};
        /* Between guards, lest a call writes over the counter. */
        char *guarded = mmap(NULL, 3 * 4096, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        volatile long *made = (volatile long *)(guarded + 4096);
        mprotect(guarded + 4096, 4096, PROT_READ | PROT_WRITE);
        time_t end = time(NULL) + TRINITY_SECONDS;
        int null = open("/dev/null", O_RDWR);

        for (unsigned seed = (unsigned)atoi(arg(0)); time(NULL) < end; seed++) {
                if (fork() == 0) {
                        char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                        for (int i = 0; i < 3; i++)
                                dup2(null, i);
                        srandom(seed);
                        for (;;) {
                                unsigned long a[6];
                                int nr = (int)(random() % 470);
                                bool skip = false;
                                for (size_t i = 0; i < sizeof(never) / sizeof(*never); i++)
                                        skip = skip || nr == never[i];
                                for (int i = 0; i < 6; i++)
                                        switch (random() % 5) {
                                        case 0: a[i] = interesting[(size_t)random() % (sizeof(interesting) / sizeof(*interesting))]; break;
                                        case 1: a[i] = (unsigned long)page + (unsigned long)(random() % 4200); break; /* unaligned too */
                                        case 2: a[i] = (unsigned long)random() % 16; break;
                                        case 3: a[i] = 1UL << (random() % 64); break;
                                        default: a[i] = ((unsigned long)random() << 32) ^ (unsigned long)random();
                                        }
                                if (skip)
                                        continue;
                                __sync_fetch_and_add(made, 1);
                                bare(nr, (long)a[0], (long)a[1], (long)a[2], (long)a[3], (long)a[4], (long)a[5]);
                        }
                }
                if (seed % 16 != 0)
                        continue;
                usleep(50000);
                kill(-1, SIGKILL); /* it and whatever it has started, however deaf */
                while (waitpid(-1, NULL, WNOHANG) > 0)
                        ;
        }
        note("calls", "%ld", *made);
}

static void call_vsyscall(void)
{
        time_t (*vsyscall_time)(time_t *) = (void *)0xffffffffff600400UL;
        note("vsyscall_time", "%d", vsyscall_time(NULL) > 0);
}

static void processor(void)
{
        cpu_set_t all;

        memset(&all, 0xff, sizeof(all));
        try("sched_setaffinity", sched_setaffinity(0, sizeof(all), &all));
        try("sched_fifo", sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1}));
        try("sched_rr_parent", syscall(SYS_sched_setattr, 0, NULL, 0));
        try("nice_down", setpriority(PRIO_PROCESS, 0, -5));
        try("ioprio", syscall(SYS_ioprio_set, 1, 0, 1 << 13));
#ifdef __x86_64__
        note("rdtsc", "%d", __builtin_ia32_rdtsc() > 0);
        print_death("vsyscall", in_child(call_vsyscall));
#endif
}

const struct attack kernel_attacks[] = {
        ROW(io_uring), ROW(syscalls), ROW(filter_everywhere), ROW(print_mode), ROW(new_namespaces), ROW(administration),
        ROW(mount_api), ROW(odd_modes), ROW(socket_options), ROW(socket_families), ROW(process_controls),
        ROW(other_abis), ROW(other_process), ROW(own_child_memory), ROW(more_filters), ROW(landlock_ways), ROW(trinity),
        ROW(processor),
        {NULL, NULL},
};
