/* SPDX-License-Identifier: Apache-2.0
 *
 * The attacks of tests/escape: attack NAME TOKEN [ARGS...], one row of the table at the end each.
 *
 * It prints "token TOKEN" first and "done TOKEN" last, so that a test can tell an attack that was
 * refused from one that never ran. In between:
 *
 *   try STEP=ok | ERRNO    something that would be a gain, and how it went
 *   note KEY=VALUE         a fact that the test judges by itself
 *
 * Built static, so that it also runs in an image that holds nothing else. There it is /bin/sh, and
 * takes its arguments from the last line of the script it is given. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

static char **args; /* after TOKEN */
static int n_args;

static const char *arg(int i)
{
        return i < n_args ? args[i] : "";
}

static void try(const char *step, long r)
{
        const char *name = r >= 0 ? "ok" : strerrorname_np(errno);

        printf("try %s=%s\n", step, name ? name : "unknown");
        fflush(stdout);
}

static void note(const char *key, const char *format, ...)
{
        va_list ap;

        printf("note %s=", key);
        va_start(ap, format);
        vprintf(format, ap);
        va_end(ap);
        printf("\n");
        fflush(stdout);
}

/* Runs f in a child; its wait status. */
static int in_child(void (*f)(void))
{
        int status = 0;

        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
                f();
                fflush(stdout);
                _exit(0);
        }
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
                return -1;
        return status;
}

static long try_write(const char *path, const char *text)
{
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                return -1;
        long r = write(fd, text, strlen(text));
        int saved = errno;
        close(fd);
        errno = saved;
        return r;
}

/* ---- A: the kernel's surface ---- */

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

static int seccomp_mode(void)
{
        char line[256];
        int mode = -1;
        FILE *f = fopen("/proc/thread-self/status", "r");

        while (f && fgets(line, sizeof(line), f))
                sscanf(line, "Seccomp: %d", &mode);
        if (f)
                fclose(f);
        return mode;
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

static void dies_by_x32(void)
{
        note("x32_answer", "%ld", bare(0x40000000 | 39, 0, 0, 0, 0, 0, 0));
}

static void print_death(const char *key, int status)
{
        if (WIFSIGNALED(status))
                note(key, "SIG%s", sigabbrev_np(WTERMSIG(status)));
        else
                note(key, "exit%d", WEXITSTATUS(status));
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

/* ---- B: privilege ---- */

static void clocks(void)
{
        struct timespec t = {.tv_sec = 1};
        struct timeval v = {.tv_sec = 1};
        struct timex x = {.modes = ADJ_OFFSET};

        try("clock_settime", clock_settime(CLOCK_REALTIME, &t));
        try("settimeofday", settimeofday(&v, NULL));
        try("adjtimex", adjtimex(&x));
        try("clock_adjtime", clock_adjtime(CLOCK_REALTIME, &x));
}

static void host_name(void)
{
        char name[64] = "";

        try("sethostname", sethostname("pwned", 5));
        try("setdomainname", setdomainname("pwned", 5));
        gethostname(name, sizeof(name));
        note("hostname", "%s", name);
}

static void identities(void)
{
        gid_t zero = 0;
        uid_t r, e, s;
        uid_t neighbour = (uid_t)strtoul(arg(0), NULL, 0);

        try("setuid_0", setuid(0));
        try("setgid_0", setgid(0));
        try("setreuid_0", setreuid(0, 0));
        try("setresuid_0", setresuid(0, 0, 0));
        try("setresgid_0", setresgid(0, 0, 0));
        try("setgroups_0", setgroups(1, &zero));
        try("setgroups_none", setgroups(0, NULL));
        try("setuid_neighbour", setuid(neighbour));
        try("setgid_neighbour", setgid(neighbour));
        try("setuid_nobody", setuid(65534));
        setfsuid(0);
        setfsgid(0);
        getresuid(&r, &e, &s);
        note("uids", "%u %u %u", r, e, s);
        note("fsuid", "%d", setfsuid(-1));
        uint32_t header[2] = {0x20080522, 0}, data[6] = {0xffffffff, 0xffffffff, 0, 0xffffffff, 0xffffffff, 0};
        try("capset", syscall(SYS_capset, header, data));
}

/* Executed from set-user-id, set-group-id and capability files. */
static void print_identity(void)
{
        uid_t r, e, s;
        gid_t gr, ge, gs;
        uint32_t header[2] = {0x20080522, 0}, data[6] = {0};

        getresuid(&r, &e, &s);
        getresgid(&gr, &ge, &gs);
        syscall(SYS_capget, header, data);
        note(arg(0), "%u %u %u %u %u %u caps %x secure %lu", r, e, s, gr, ge, gs, data[0] | data[1] | data[3] | data[4],
             getauxval(AT_SECURE));
}

static void set_id_files(void)
{
        static const char *const files[] = {"/give/suid", "/give/sgid", "/give/caps", "/sandbox/own"};
        int status, from = open("/attack/attack", O_RDONLY), to = open("/sandbox/own", O_CREAT | O_WRONLY, 0755);
        struct stat st;

        fstat(from, &st);
        while (sendfile(to, from, NULL, (size_t)st.st_size) > 0)
                ;
        close(to);
        note("chmod_own", "%d", chmod("/sandbox/own", 06755));
        print_identity();
        for (size_t i = 0; i < 4; i++) {
                fflush(stdout);
                if (fork() == 0) {
                        execl(files[i], "attack", "print_identity", "x", files[i], NULL);
                        note(files[i], "exec %s", strerrorname_np(errno));
                        _exit(1);
                }
                wait(&status);
        }
}

static void inherited(void)
{
        char target[256], path[64];
        int count = 0;

        for (int fd = 0; fd < 4096; fd++) {
                snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
                ssize_t n = readlink(path, target, sizeof(target) - 1);
                if (n < 0)
                        continue;
                target[n] = '\0';
                char key[16];
                snprintf(key, sizeof(key), "fd%d", fd);
                note(key, "%s", target);
                count++;
        }
        note("count", "%d", count);

        char data[16], control[256];
        struct iovec iov = {data, sizeof(data)};
        struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
        for (int fd = 0; fd < 3; fd++) {
                snprintf(path, sizeof(path), "recvmsg_%d", fd);
                try(path, recvmsg(fd, &msg, MSG_DONTWAIT));
        }
}

static void way_up(void)
{
        struct stat root, up;

        try("chroot", chroot("/tmp"));
        for (int i = 0; i < 64; i++)
                if (chdir("..") < 0)
                        break;
        stat("/", &root);
        stat(".", &up);
        note("same_root", "%d", root.st_ino == up.st_ino && root.st_dev == up.st_dev);
        stat("/../../..", &up);
        note("same_dots", "%d", root.st_ino == up.st_ino && root.st_dev == up.st_dev);
        for (int fd = 0; fd < 256; fd++)
                if (fchdir(fd) == 0)
                        try("fchdir", 0);
        int fd = open("/", O_RDONLY | O_DIRECTORY);
        try("openat_up", openat(fd, "../../../../etc/shadow", O_RDONLY));
        try("shadow", open("/etc/shadow", O_RDONLY));
        try("marker", open(arg(0), O_RDONLY));
        try("proc_root", openat(AT_FDCWD, "/proc/1/root/etc/shadow", O_RDONLY));
}

/* ---- C: files ---- */

static void image_view(void)
{
        struct stat st;
        static const char *const dirs[] = {"/dev", "/proc", "/tmp", "/sandbox", "/run"};

        for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++)
                note(dirs[i], "%s", lstat(dirs[i], &st) < 0 ? "missing" : S_ISDIR(st.st_mode) ? "directory" : "other");
        note("null_is_device", "%d", stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3));
        note("proc_is_proc", "%d", access("/proc/self/status", R_OK) == 0);
        note("seccomp", "%d", seccomp_mode());
        int fd = open("/tmp/planted", O_CREAT | O_WRONLY, 0644);
        note("tmp_writable", "%d", fd >= 0);
        fd = open("/sandbox/planted", O_CREAT | O_WRONLY, 0644);
        note("workspace_writable", "%d", fd >= 0);
        try("marker", open(arg(0), O_RDONLY));
        try("etc_marker", open("/etc/marker", O_RDONLY));
        try("data_marker", open("/data/marker", O_RDONLY));
        try("write_etc", open("/etc/planted", O_CREAT | O_WRONLY, 0644));
}

static void proc_view(void)
{
        static const char *const files[] = {
                "kcore", "keys", "key-users", "timer_list", "sched_debug", "kallsyms", "kmsg", "modules", "mounts_host", "sysrq-trigger",
                "sys/kernel/core_pattern", "sys/kernel/randomize_va_space", "interrupts", "slabinfo", "vmallocinfo", "iomem",
                "loadavg", "stat", "meminfo", "uptime", "pressure/cpu", "version", "cmdline", "net/unix", "net/tcp", "locks", "partitions",
        };
        char path[64];
        int foreign = 0, own = 0;
        DIR *dir = opendir("/proc");

        for (struct dirent *e; dir && (e = readdir(dir));) {
                if (atoi(e->d_name) == 1)
                        foreign++;
                else if (atoi(e->d_name) > 0)
                        own++;
        }
        note("own", "%d", own);
        note("foreign", "%d", foreign);
        for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
                snprintf(path, sizeof(path), "/proc/%s", files[i]);
                try(files[i], open(path, O_RDONLY));
        }
        snprintf(path, sizeof(path), "/proc/%s/status", arg(0));
        try("host_pid", open(path, O_RDONLY));
        try("core_pattern_write", open("/proc/sys/kernel/core_pattern", O_WRONLY));
        try("sys", open("/sys/kernel", O_RDONLY));
        try("cgroup", open("/sys/fs/cgroup", O_RDONLY));
}

static void terminals(void)
{
        int master, slave, number = -1, others = 0;
        char name[64] = "";

        int r = openpty(&master, &slave, name, NULL, NULL);
        note("openpty", "%s", r == 0 ? name : strerrorname_np(errno));
        if (r == 0)
                ioctl(master, TIOCGPTN, &number);
        note("number", "%d", number);
        DIR *dir = opendir("/dev/pts");
        for (struct dirent *e; dir && (e = readdir(dir));)
                if (atoi(e->d_name) > 0)
                        others++;
        note("others", "%d", others);
        try("tiocsti", ioctl(r == 0 ? slave : 0, TIOCSTI, "x"));
        try("tioclinux", ioctl(r == 0 ? slave : 0, TIOCLINUX, "\2"));
        try("tiocsetd", ioctl(r == 0 ? slave : 0, TIOCSETD, &(int){3}));
        try("dev_tty", open("/dev/tty", O_RDWR));
        try("dev_console", open("/dev/console", O_RDWR));
        try("dev_mem", open("/dev/mem", O_RDWR));
        try("dev_kmsg", open("/dev/kmsg", O_RDWR));
        try("dev_vda", open("/dev/vda", O_RDONLY));
        try("dev_fuse", open("/dev/fuse", O_RDWR));
        try("dev_net_tun", open("/dev/net/tun", O_RDWR));
        try("mknod_disk", mknod("/tmp/disk", S_IFBLK | 0666, makedev(254, 0)));
        try("mknod_mem", mknod("/sandbox/mem", S_IFCHR | 0666, makedev(1, 1)));
}

static void remounts(void)
{
        try("remount_rw", mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL));
        try("remount_root_rw", mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL));
        try("remount_suid", mount(NULL, "/sandbox", NULL, MS_REMOUNT | MS_BIND, NULL));
        try("umount_proc", umount2("/proc", MNT_DETACH));
        try("umount_dev_null", umount2("/dev/null", MNT_DETACH));
        try("umount_root", umount2("/", MNT_DETACH));
        try("bind_passwd", mount("/tmp", "/etc", NULL, MS_BIND, NULL));
        try("make_shared", mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL));
        try("propagate", mount("none", "/tmp", "tmpfs", 0, NULL));
}

static void root_writes(void)
{
        static const char *const create[] = {"/x", "/usr/x", "/usr/bin/x", "/etc/x", "/dev/x", "/proc/x", "/proc/self/root/usr/x", "/run/x"};
        struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};
        char step[64];

        for (size_t i = 0; i < sizeof(create) / sizeof(*create); i++) {
                snprintf(step, sizeof(step), "create_%s", create[i]);
                try(step, open(create[i], O_CREAT | O_WRONLY, 0644));
        }
        try("write_passwd", open("/etc/passwd", O_WRONLY));
        try("write_python", open("/usr/bin/env", O_WRONLY));
        try("tmpfile_usr", open("/usr", O_TMPFILE | O_RDWR, 0600));
        try("tmpfile_root", open("/", O_TMPFILE | O_RDWR, 0600));
        try("setxattr", setxattr("/usr/bin/env", "user.x", "y", 1, 0));
        try("utimes", utimensat(AT_FDCWD, "/usr/bin/env", now, 0));
        try("chmod", chmod("/usr/bin/env", 0777));
        try("chmod_passwd", chmod("/etc/passwd", 0666));
        try("chown", chown("/usr/bin/env", getuid(), getgid()));
        try("rename_usr", rename("/usr", "/usr2"));
        try("rmdir_etc", rmdir("/etc"));
        try("symlink_root", symlink("/tmp", "/link"));
}

static void file_marks(void)
{
        long flags = FS_IMMUTABLE_FL;
        char name[32], extended[28] = {0};
        int fd = open("/sandbox/marked", O_CREAT | O_RDWR, 0644), stored = 0;

        note("workspace_writable", "%d", fd >= 0);
        try("immutable", ioctl(fd, FS_IOC_SETFLAGS, &flags));
        try("project_id", ioctl(fd, FS_IOC_FSSETXATTR, extended));
        try("xattr_capability", fsetxattr(fd, "security.capability", "\1\0\0\2\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 20, 0));
        for (int i = 0; i < 1000; i++) {
                snprintf(name, sizeof(name), "user.flood%d", i);
                stored += fsetxattr(fd, name, extended, sizeof(extended), 0) == 0;
        }
        note("xattrs_stored", "%d", stored);
        try("xattr_overlay_opaque", setxattr("/sandbox", "user.overlay.opaque", "y", 1, 0));
        try("xattr_trusted", setxattr("/sandbox", "trusted.overlay.opaque", "y", 1, 0));
        try("whiteout", mknod("/sandbox/whiteout", S_IFCHR, makedev(0, 0)));
        close(open("/sandbox/a", O_CREAT | O_RDWR, 0644));
        try("rename_whiteout", syscall(SYS_renameat2, AT_FDCWD, "/sandbox/a", AT_FDCWD, "/sandbox/b", 4));
}

/* Bits that would be worth something to somebody on the host. */
static void set_id_bits(void)
{
        int fd = open("/sandbox/bits", O_CREAT | O_RDWR, 0755);

        note("workspace_writable", "%d", fd >= 0);
        note("chmod", "%d", chmod("/sandbox/bits", 06755));
        note("fchmod", "%d", fchmod(fd, 06755));
        note("fchmodat", "%d", fchmodat(AT_FDCWD, "/sandbox/bits", 06755, 0));
        note("fchmodat2", "%ld", syscall(452, AT_FDCWD, "/sandbox/bits", 06755, 0));
        note("open", "%d", open("/sandbox/bits_open", O_CREAT | O_RDWR, 06755));
        note("creat", "%d", creat("/sandbox/bits_creat", 06755));
        note("mknod", "%d", mknod("/sandbox/bits_mknod", S_IFREG | 06755, 0));
        note("mkdir", "%d", mkdir("/sandbox/bits_dir", 06755));
}

static void hard_links(void)
{
        int fd = open("/usr/bin/env", O_PATH);
        char path[64];

        try("link_usr", link("/usr/bin/env", "/sandbox/l1"));
        try("link_etc", link("/etc/passwd", "/sandbox/l2"));
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        try("link_magic", linkat(AT_FDCWD, path, AT_FDCWD, "/sandbox/l3", AT_SYMLINK_FOLLOW));
        try("link_empty_path", linkat(fd, "", AT_FDCWD, "/sandbox/l4", AT_EMPTY_PATH));
        try("link_dev", link("/dev/null", "/tmp/l5"));
        try("link_tmp_to_workspace", link("/tmp/none", "/sandbox/l6"));
        try("link_mounted", link("/give/file", "/sandbox/l7"));
        try("rename_mounted", rename("/give/file", "/sandbox/l8"));
}

static void deep_tree(void)
{
        int depth = 0, want = atoi(arg(0));

        if (chdir(n_args > 1 ? arg(1) : "/sandbox") < 0)
                return;
        while (depth < want && mkdir("d", 0755) == 0 && chdir("d") == 0)
                depth++;
        note("depth", "%d", depth);
}

static void locked_directories(void)
{
        mkdir("/sandbox/locked", 0755);
        mkdir("/sandbox/locked/inner", 0755);
        int fd = open("/sandbox/locked/inner/file", O_CREAT | O_WRONLY, 0600);
        note("made", "%d", fd >= 0);
        mkdir("/sandbox/sticky", 01777);
        note("locked", "%d", chmod("/sandbox/locked/inner", 0) == 0 && chmod("/sandbox/locked", 0) == 0);
}

/* Writes to the workspace what its measurer cannot see: argument 0 says how, 1 how many files of 1 MiB. */
static void hidden_bytes(void)
{
        static char block[1 << 20];
        bool unlinked = strcmp(arg(0), "unlinked") == 0;
        int want = atoi(arg(1)), wrote = 0;

        signal(SIGXFSZ, SIG_IGN);
        mkdir("/sandbox/hidden", 0700);
        int dir = open("/sandbox/hidden", O_PATH | O_DIRECTORY);
        int fds[256];
        for (int i = 0; i < want && i < 256; i++) {
                char name[32];
                snprintf(name, sizeof(name), "f%d", i);
                fds[i] = openat(dir, name, O_CREAT | O_WRONLY, 0600);
                if (unlinked)
                        unlinkat(dir, name, 0);
        }
        if (!unlinked)
                chmod("/sandbox/hidden", 0);
        for (int i = 0; i < want && i < 256; i++)
                wrote += write(fds[i], block, sizeof(block)) == sizeof(block);
        note("wrote", "%d", wrote);
        sleep(3); /* time for whoever measures */
        note("survived", "1");
}

/* ---- D: neighbours ---- */

static void outside_signals(void)
{
        pid_t target = (pid_t)atoi(arg(0));
        siginfo_t info = {.si_signo = SIGUSR1, .si_code = -1, .si_pid = 1};
        int pair[2];

        try("kill", kill(target, SIGUSR1));
        try("kill_group", kill(-target, SIGUSR1));
        try("tkill", syscall(SYS_tkill, target, SIGUSR1));
        try("tgkill", syscall(SYS_tgkill, target, target, SIGUSR1));
        try("rt_sigqueueinfo", syscall(SYS_rt_sigqueueinfo, target, SIGUSR1, &info));
        try("rt_tgsigqueueinfo", syscall(SYS_rt_tgsigqueueinfo, target, target, SIGUSR1, &info));
        try("pidfd_open", syscall(SYS_pidfd_open, target, 0));
        socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
        try("f_setown", fcntl(pair[0], F_SETOWN, target));
        try("f_setown_group", fcntl(pair[0], F_SETOWN, -target));
        try("setpriority", setpriority(PRIO_PROCESS, (id_t)target, 19));
        try("prlimit", prlimit(target, RLIMIT_NOFILE, NULL, &(struct rlimit){0}));
        try("getsid", getsid(target));
        try("sched_getaffinity", sched_getaffinity(target, sizeof(cpu_set_t), &(cpu_set_t){0}));
}

static void shared_inode(void)
{
        int fd = open("/usr/bin/env", O_RDONLY);

        note("opened", "%d", fd >= 0);
        try("lease", fcntl(fd, F_SETLEASE, F_RDLCK));
        int dir = open("/usr/bin", O_RDONLY | O_DIRECTORY);
        try("dnotify", fcntl(dir, F_NOTIFY, DN_ACCESS));
        try("fanotify", syscall(SYS_fanotify_init, 0, 0));
        note("flock", "%s", flock(fd, LOCK_EX | LOCK_NB) == 0 ? "taken" : strerrorname_np(errno));
        struct flock lock = {.l_type = F_RDLCK};
        note("posix_lock", "%s", fcntl(fd, F_SETLK, &lock) == 0 ? "taken" : strerrorname_np(errno));
        int watch = inotify_init1(IN_NONBLOCK);
        note("inotify", "%s", inotify_add_watch(watch, "/usr/bin/env", IN_OPEN) >= 0 ? "added" : strerrorname_np(errno));
        if (n_args > 0) { /* waits for the neighbour: "go" on stdin */
                char line[16], events[4096];
                note("ready", "1");
                if (!fgets(line, sizeof(line), stdin))
                        return;
                note("seen", "%d", read(watch, events, sizeof(events)) > 0);
        }
}

static void page_cache(void)
{
        struct {
                uint64_t a, b;
        } range = {0, 4096};
        uint64_t stat[8];
        unsigned char vec[1];
        char byte[8];
        struct iovec iov = {byte, 1};
        int fd = open("/usr/bin/env", O_RDONLY);
        void *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

        note("mapped", "%d", map != MAP_FAILED);
        try("cachestat", syscall(451, fd, &range, stat, 0));
        try("mincore", mincore(map, 4096, vec));
        try("preadv2_nowait", syscall(SYS_preadv2, fd, &iov, 1, 0, 0, RWF_NOWAIT));
        try("madvise_mergeable", madvise(map, 4096, MADV_MERGEABLE));
}

static void kill_everybody(void)
{
        pid_t child = fork();

        if (child == 0) {
                pause();
                _exit(0);
        }
        note("kill_init", "%s", kill(1, SIGKILL) == 0 ? "0" : strerrorname_np(errno));
        note("kill_all", "%s", kill(-1, SIGKILL) == 0 ? "0" : strerrorname_np(errno));
        int status = 0;
        waitpid(child, &status, 0);
        print_death("child", status);
        note("still_here", "1");
}

/* ---- E: resources ---- */

static void fork_bomb(void)
{
        note("start", "1");
        for (;;)
                if (fork() < 0)
                        sched_yield();
}

static void exec_loop(void)
{
        execl("/attack/attack", "attack", "exec_loop", "again", NULL);
}

static void vfork_loop(void)
{
        note("start", "1");
        for (;;)
                if (vfork() == 0)
                        _exit(0);
}

static void memory_bomb(void)
{
        note("start", "1");
        for (;;) {
                char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
                if (p == MAP_FAILED) {
                        note("refused", "%s", strerrorname_np(errno));
                        _exit(3);
                }
                memset(p, 1, 1 << 20);
        }
}

static int deeper(int n)
{
        volatile char frame[4096];

        memset((char *)frame, n, sizeof(frame));
        return deeper(n + 1) + frame[0];
}

static void stack_bomb(void)
{
        note("start", "1");
        deeper(0);
}

static void cow_bomb(void)
{
        size_t size = 32 << 20;
        char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        memset(p, 1, size);
        note("start", "1");
        for (int i = 0; i < 16; i++)
                if (fork() == 0) {
                        memset(p, 2 + i, size);
                        pause();
                }
        for (int i = 0; i < 16; i++) {
                int status;
                wait(&status);
                if (WIFSIGNALED(status)) {
                        print_death("child", status);
                        _exit(4);
                }
        }
}

static void kernel_objects(void)
{
        int epolls = 0, events = 0, timers = 0, watches = 0, posix = 0, pipes = 0, pair[2];
        struct rlimit limit;
        timer_t id;
        struct sigevent none = {.sigev_notify = SIGEV_NONE};

        getrlimit(RLIMIT_NOFILE, &limit);
        note("nofile", "%lu", (unsigned long)limit.rlim_cur);
        note("raise_nofile", "%d", setrlimit(RLIMIT_NOFILE, &(struct rlimit){1 << 20, 1 << 20}));
        while (epoll_create1(0) >= 0)
                epolls++;
        note("epolls", "%d", epolls);
        for (int fd = 3; fd < (int)limit.rlim_cur; fd++)
                close(fd);
        while (eventfd(0, 0) >= 0)
                events++;
        note("eventfds", "%d", events);
        for (int fd = 3; fd < (int)limit.rlim_cur; fd++)
                close(fd);
        while (timerfd_create(CLOCK_MONOTONIC, 0) >= 0)
                timers++;
        note("timerfds", "%d", timers);
        for (int fd = 3; fd < (int)limit.rlim_cur; fd++)
                close(fd);
        while (posix < 1000000 && timer_create(CLOCK_MONOTONIC, &none, &id) == 0)
                posix++;
        note("posix_timers", "%d", posix);
        while (pipe(pair) == 0) {
                fcntl(pair[0], F_SETPIPE_SZ, 1 << 20);
                pipes++;
        }
        note("pipes", "%d", pipes);
        for (int fd = 3; fd < (int)limit.rlim_cur; fd++)
                close(fd);
        int watch = inotify_init1(0);
        for (int i = 0; i < 100000; i++) {
                char path[64];
                snprintf(path, sizeof(path), "/tmp/w%d", i);
                int fd = open(path, O_CREAT | O_WRONLY, 0600);
                if (fd < 0)
                        break;
                close(fd);
                if (inotify_add_watch(watch, path, IN_OPEN) < 0)
                        break;
                watches++;
        }
        note("watches", "%d", watches);
        try("msgqueue", syscall(SYS_mq_open, "x", O_CREAT | O_RDWR, 0600, NULL));
        try("mlockall", mlockall(MCL_CURRENT | MCL_FUTURE));
        char *big = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        try("mlock_1m", mlock(big, 1 << 20));
}

static void sparse_file(void)
{
        signal(SIGXFSZ, SIG_IGN);
        int fd = open("/sandbox/sparse", O_CREAT | O_RDWR, 0644);
        note("workspace_writable", "%d", fd >= 0);
        try("ftruncate_8EiB", ftruncate(fd, 0x7fffffffffffffffL));
        try("fallocate_1TiB", posix_fallocate(fd, 0, 1L << 40) == 0 ? 0 : (errno = EFBIG, -1));
        try("pwrite_far", pwrite(fd, "x", 1, 1L << 50));
        struct stat st;
        fstat(fd, &st);
        note("size", "%ld", (long)st.st_size);
        note("blocks", "%ld", (long)st.st_blocks);
}

static void descriptor_hogs(void)
{
        int hogs = 0;

        for (int i = 0; i < 16; i++) {
                pid_t pid = fork();
                if (pid == 0) {
                        while (open("/dev/null", O_RDONLY) >= 0)
                                ;
                        pause();
                }
                hogs += pid > 0;
        }
        note("hogs", "%d", hogs);
        sleep(1);
        kill(0, SIGKILL);
}

static void flood(void)
{
        static char block[65536];
        long size = atol(arg(0)); /* of one write */

        memset(block, 'x', sizeof(block));
        for (;;)
                if (write(1, block, (size_t)size) < 0)
                        _exit(5);
}

static void flush_host(void)
{
        struct timespec a, b;
        int fd = open("/sandbox", O_RDONLY);

        clock_gettime(CLOCK_MONOTONIC, &a);
        for (int i = 0; i < 1000; i++)
                sync();
        note("syncfs", "%d", syncfs(fd));
        clock_gettime(CLOCK_MONOTONIC, &b);
        note("msec", "%ld", (b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000);
}

static void huge_pages(void)
{
        size_t size = 2 << 20;

        try("mmap_hugetlb", mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0) == MAP_FAILED ? -1 : 0);
        int fd = memfd_create("x", MFD_HUGETLB);
        note("memfd_hugetlb", "%d", fd >= 0);
        if (fd >= 0)
                try("memfd_hugetlb_use", mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0);
        try("shm_hugetlb", shmget(IPC_PRIVATE, size, IPC_CREAT | SHM_HUGETLB | 0600));
        char *p = mmap(NULL, 4 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(p, 1, 4 * size);
        note("collapse", "%s", madvise(p, 4 * size, 25) == 0 ? "0" : strerrorname_np(errno));
        try("hugetlb_mount", open("/dev/hugepages", O_RDONLY));
}

/* ---- F: time and life ---- */

static void deaf_spinner(void)
{
        for (int sig = 1; sig < NSIG; sig++)
                signal(sig, SIG_IGN);
        note("start", "1");
        for (volatile unsigned long i = 0;; i++)
                ;
}

static void stop_group(void)
{
        note("start", "1");
        if (fork() == 0)
                for (;;)
                        pause();
        kill(0, SIGSTOP);
        for (;;)
                pause();
}

static void vfork_block(void)
{
        note("start", "1");
        if (vfork() == 0)
                for (;;)
                        pause();
}

/* Every child makes two before it dies, and sets itself apart. */
static void hydra(void)
{
        note("start", "1");
        for (;;) {
                pid_t pid = fork();
                if (pid == 0) {
                        setsid();
                        signal(SIGTERM, SIG_IGN);
                        if (fork() != 0)
                                _exit(0);
                }
        }
}

static void *live_on(void *unused)
{
        usleep(300000);
        note("thread_lived", "1");
        printf("done %s\n", (char *)unused);
        fflush(stdout);
        exit(7);
}

static char *the_token;

static void leader_leaves(void)
{
        pthread_t thread;

        pthread_create(&thread, NULL, live_on, the_token);
        pthread_exit(NULL);
}

static void orphans(void)
{
        int made = 0;

        for (int i = 0; i < 2000; i++) {
                pid_t pid = fork();
                if (pid == 0) {
                        if (fork() == 0)
                                _exit(0); /* an orphan for init */
                        _exit(0);
                }
                if (pid > 0) {
                        waitpid(pid, NULL, 0);
                        made++;
                }
        }
        note("made", "%d", made);
        for (int i = 0; i < 10; i++) /* zombies nobody waits for */
                if (fork() == 0)
                        _exit(0);
        if (fork() == 0) { /* and one that would outlive us */
                for (;;)
                        pause();
        }
}

static void core_limit(void)
{
        struct rlimit limit = {99, 99};
        struct rlimit *low_word_zero = mmap((void *)0x700000000000UL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        syscall(SYS_getrlimit, RLIMIT_CORE, &limit);
        note("soft", "%lu", (unsigned long)limit.rlim_cur);
        note("hard", "%lu", (unsigned long)limit.rlim_max);
        limit = (struct rlimit){0, 0};
        try("setrlimit_0", syscall(SYS_setrlimit, RLIMIT_CORE, &limit));
        try("prlimit_0", syscall(SYS_prlimit64, 0, RLIMIT_CORE, &limit, NULL));
        try("prlimit_0_low_word", syscall(SYS_prlimit64, 0, RLIMIT_CORE, low_word_zero, NULL));
        try("raise", setrlimit(RLIMIT_CORE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}));
}

static void crash(void)
{
        const char *how = arg(0);

        note("start", "1");
        if (strcmp(how, "segv") == 0)
                *(volatile int *)8 = 1;
        if (strcmp(how, "bus") == 0) {
                int fd = memfd_create("x", 0);
                volatile char *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
                (void)*p;
        }
        if (strcmp(how, "abrt") == 0)
                abort();
        if (strcmp(how, "fpe") == 0) {
                volatile int zero = 0;
                note("x", "%d", 1 / zero);
                raise(SIGFPE); /* where the processor does not trap */
        }
        if (strcmp(how, "stack") == 0)
                deeper(0);
        if (strcmp(how, "ill") == 0)
                __builtin_trap();
        if (strcmp(how, "kill") == 0)
                kill(getpid(), SIGKILL);
        if (strcmp(how, "sys") == 0)
                dies_by_x32();
}

/* ---- G: the network, as far as a layer stands for it ---- */

static void network_out(void)
{
        static const char *const addresses[] = {"\177\0\0\1", "\10\10\10\10", "\251\376\251\376", "\12\0\0\1", "\254\20\0\1"};
        static const char *const names[] = {"loopback_host", "public", "metadata", "private", "docker"};
        unsigned short port = (unsigned short)atoi(arg(0)); /* where a server of the host listens */

        for (size_t i = 0; i < 5; i++) {
                struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(i == 0 ? port : 80)};
                memcpy(&to.sin_addr, addresses[i], 4);
                int fd = socket(AF_INET, SOCK_STREAM | (i > 0 ? SOCK_NONBLOCK : 0), 0);
                long r = connect(fd, (struct sockaddr *)&to, sizeof(to));
                /* On its way is as bad as there. */
                try(names[i], r < 0 && errno == EINPROGRESS ? 0 : r);
                close(fd);
        }
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "%s", arg(1)); /* abstract, of the host */
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        try("abstract_host", connect(fd, (struct sockaddr *)&un, (socklen_t)(sizeof(sa_family_t) + 1 + strlen(arg(1)))));
}

#define ROW(f) {#f, f}
static const struct {
        const char *name;
        void (*run)(void);
} attacks[] = {
        ROW(io_uring), ROW(syscalls), ROW(filter_everywhere), ROW(print_mode), ROW(new_namespaces), ROW(administration),
        ROW(mount_api), ROW(odd_modes), ROW(socket_options), ROW(socket_families), ROW(process_controls), ROW(other_abis),
        ROW(other_process), ROW(own_child_memory), ROW(more_filters), ROW(landlock_ways), ROW(trinity), ROW(processor),
        ROW(clocks), ROW(host_name), ROW(identities), ROW(print_identity), ROW(set_id_files), ROW(inherited), ROW(way_up),
        ROW(image_view), ROW(proc_view), ROW(terminals), ROW(remounts), ROW(root_writes), ROW(file_marks), ROW(set_id_bits),
        ROW(hard_links), ROW(deep_tree), ROW(locked_directories), ROW(hidden_bytes), ROW(outside_signals), ROW(shared_inode),
        ROW(page_cache), ROW(kill_everybody), ROW(fork_bomb), ROW(exec_loop), ROW(vfork_loop), ROW(memory_bomb),
        ROW(stack_bomb), ROW(cow_bomb), ROW(kernel_objects), ROW(sparse_file), ROW(descriptor_hogs), ROW(flood),
        ROW(flush_host), ROW(huge_pages), ROW(deaf_spinner), ROW(stop_group), ROW(vfork_block), ROW(hydra),
        ROW(leader_leaves), ROW(orphans), ROW(core_limit), ROW(crash), ROW(network_out),
};

static int run(const char *name, char *token)
{
        the_token = token;
        for (size_t i = 0; i < sizeof(attacks) / sizeof(*attacks); i++)
                if (strcmp(attacks[i].name, name) == 0) {
                        printf("token %s\n", token);
                        fflush(stdout);
                        attacks[i].run();
                        printf("done %s\n", token);
                        return fflush(stdout) != 0;
                }
        fprintf(stderr, "no attack has the name %s\n", name);
        return 2;
}

/* As /bin/sh of an image: "exec /attack/attack NAME TOKEN ARGS..." */
static int run_script(const char *path)
{
        static char line[4096], *words[64];
        int n = 0;
        FILE *f = fopen(path, "r");

        if (!f || !fgets(line, sizeof(line), f))
                return 2;
        for (char *word = strtok(line, " \n"); word && n < 64; word = strtok(NULL, " \n"))
                words[n++] = word;
        if (n < 4)
                return 2;
        args = words + 4;
        n_args = n - 4;
        return run(words[2], words[3]);
}

int main(int argc, char **argv)
{
        if (argc == 2 && strcmp(argv[0], "sh") == 0)
                return run_script(argv[1]);
        if (argc < 3)
                return 2;
        args = argv + 3;
        n_args = argc - 3;
        return run(argv[1], argv[2]);
}
