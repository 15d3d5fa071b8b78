/* SPDX-License-Identifier: Apache-2.0
 *
 * Attacks on what a box may do: processes, capabilities, system calls, files of others. */
#include "runner/probe_report.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/keyctl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- processes and privilege ---- */

void probe_processes(void)
{
        pid_t host = (pid_t)atol(probe_arguments[PROBE_ARG_HOST_PID]);
        unsigned seen = 0;

        if (!probe_count_processes(&seen)) {
                probe_unsure("/proc");
                return;
        }
        probe_report(seen >= 1 && seen <= 2 && getpid() <= PID_INSIDE_MAX, "%u processes are visible, we are %d", seen, getpid());
        probe_refused("signalling a process of the host", kill(host, 0));
        probe_refused("opening a process of the host", syscall(SYS_pidfd_open, host, 0));
        (void)kill(1, SIGKILL);
        probe_report(kill(1, 0) == 0 || errno == EPERM, "the box's init cannot be killed");
}

void probe_capabilities(void)
{
        static const char *const sets[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
        char text[8192];

        if (!probe_read_text("/proc/self/status", text, sizeof(text))) {
                probe_unsure("the capabilities");
                return;
        }
        for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
                const char *value = probe_status_value(text, sets[i]);
                probe_report(value && strtoull(value, NULL, 16) == 0, "%s is %.16s", sets[i], value ? value : "not there");
        }
        const char *value = probe_status_value(text, "NoNewPrivs");
        probe_report(value && *value == '1', "no new privileges");
}

static void check_filter(const char *where)
{
        char text[8192];
        const char *mode = probe_read_text("/proc/self/status", text, sizeof(text)) ? probe_status_value(text, "Seccomp") : NULL;

        bool on = mode && *mode == '2';
        probe_report(on, "the filter is %s %s", on ? "on" : "off", where);
}

void probe_filter(void)
{
        check_filter("in the program");
        if (!probe_run_again(PROBE_TARGET, "exec", 1))
                probe_report(false, "cannot run a child");
        int status;
        pid_t pid = vfork();
        if (pid == 0)
                _exit(0); /* a filter is inherited by every child: this one must at least work */
        probe_report(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "vfork works under it");
}

/* ---- system calls ---- */

/* Nothing here may harm a host whose controls fail: the kernel refuses these after it was reached. */
#define WRONG_MAGIC 1
#define WRONG_FLAGS 0x40000000

struct call {
        const char *name;
        long number;
        long args[5];
        int only; /* the one errno it may have; 0: any of refusal */
};

static const struct call calls[] = {
        {"mount", SYS_mount, {0, (long)"/tmp", 0, 0}, 0},
        {"umount2", SYS_umount2, {(long)"/tmp", WRONG_FLAGS}, 0},
        {"pivot_root", SYS_pivot_root, {(long)"/tmp", (long)"/tmp"}, 0},
        {"open_tree", SYS_open_tree, {AT_FDCWD, (long)"/", 1}, 0},
        {"fsopen", SYS_fsopen, {(long)"tmpfs", 0}, 0},
        {"move_mount", SYS_move_mount, {-1, 0, -1, 0}, 0},
        {"mount_setattr", SYS_mount_setattr, {-1, 0}, 0},
        {"unshare user", SYS_unshare, {CLONE_NEWUSER}, 0},
        {"unshare net", SYS_unshare, {CLONE_NEWNET}, 0},
        {"clone user", SYS_clone, {CLONE_NEWUSER | SIGCHLD}, 0},
        {"clone3", SYS_clone3, {0, 0}, ENOSYS},
        {"setns", SYS_setns, {-1, 0}, 0},
        {"ptrace", SYS_ptrace, {PTRACE_TRACEME}, 0},
        {"process_vm_readv", SYS_process_vm_readv, {1, 0, 0, 0, 0}, 0},
        {"kcmp", SYS_kcmp, {1, 1, 0}, 0},
        {"bpf", SYS_bpf, {0, 0, 0}, 0},
        {"io_uring_setup", SYS_io_uring_setup, {1, 0}, 0},
        {"keyctl", SYS_keyctl, {KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 1}, 0},
        {"add_key", SYS_add_key, {0, 0, 0, 0, KEY_SPEC_SESSION_KEYRING}, 0},
        {"userfaultfd", SYS_userfaultfd, {1 /* UFFD_USER_MODE_ONLY: allowed to everybody */}, 0},
        {"perf_event_open", SYS_perf_event_open, {0, 0, -1, -1, 0}, 0},
        {"init_module", SYS_init_module, {0, 0, 0}, 0},
        {"finit_module", SYS_finit_module, {-1, 0, 0}, 0},
        {"kexec_load", SYS_kexec_load, {0, 0, 0, WRONG_FLAGS}, 0},
        {"reboot", SYS_reboot, {WRONG_MAGIC, WRONG_MAGIC, 0, 0}, 0},
        {"open_by_handle_at", SYS_open_by_handle_at, {-1, 0, 0}, 0},
        {"name_to_handle_at", SYS_name_to_handle_at, {-1, 0, 0, 0, 0}, 0},
        {"personality", SYS_personality, {ADDR_NO_RANDOMIZE}, 0},
        {"syslog", SYS_syslog, {10, 0, 0}, 0},
        {"sethostname", SYS_sethostname, {0, -1}, 0},
        {"clock_settime", SYS_clock_settime, {0, 0}, 0},
        {"quotactl", SYS_quotactl, {0, 0, 0, 0}, 0},
        {"fanotify_init", SYS_fanotify_init, {0, 0}, 0},
        {"seccomp", SYS_seccomp, {0, 1, 0}, 0},
        {"socket AF_VSOCK", SYS_socket, {AF_VSOCK, SOCK_STREAM, 0}, 0},
        {"socket AF_PACKET", SYS_socket, {AF_PACKET, SOCK_RAW, 0}, 0},
        {"socket AF_ALG", SYS_socket, {AF_ALG, SOCK_SEQPACKET, 0}, 0},
        {"socket AF_NETLINK", SYS_socket, {AF_NETLINK, SOCK_RAW, 0}, 0},
        {"socket raw", SYS_socket, {AF_INET, SOCK_RAW, IPPROTO_ICMP}, 0},
};

/* In a child: the errno, 0 when it worked, -1 when the filter killed it, -2 when it is not known. */
static int call_in_child(const struct call *c)
{
        int status;

        pid_t pid = fork();
        if (pid == 0) {
                long r = syscall(c->number, c->args[0], c->args[1], c->args[2], c->args[3], c->args[4]);
                _exit(r < 0 ? errno : 0);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
                return -2;
        if (WIFSIGNALED(status))
                return WTERMSIG(status) == SIGSYS ? -1 : -2;
        return WEXITSTATUS(status);
}

void probe_syscalls(void)
{
        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                const struct call *c = &calls[i];
                int e = call_in_child(c);
                bool refusal = e == EPERM || e == ENOSYS || e == EAFNOSUPPORT || e == -1;
                if (c->only)
                        refusal = e == c->only;
                /* EFAULT, EINVAL and their like come from the kernel's own code: it was reached. */
                probe_report(refusal, "%s: %s", c->name, e == 0 ? "worked" : e == -1 ? "killed" : e == -2 ? "unclear" : strerror(e));
        }
}

/* ---- files ---- */

void probe_writes(void)
{
        static const char *const new_files[] = {"/usr/verify", "/usr/bin/verify", "/etc/verify", "/verify", "/dev/verify",
                                                "/run/verify", "/run/glovebox/verify", "/proc/self/root/usr/verify"};
        static const char *const old_files[] = {"/usr/bin/env", "/etc/passwd", PROBE_TARGET, "/proc/sys/kernel/core_pattern",
                                                "/proc/self/oom_score_adj", "/proc/sysrq-trigger", "/proc/1/oom_score_adj",
                                                "/proc/self/uid_map", "/sys/kernel/uevent_helper"};

        if (probe_is_host_root()) {
                probe_report(false, "the root directory is the host's; nothing was written to it");
                return;
        }
        probe_opens(new_files, ARRAY_SIZE(new_files), O_WRONLY | O_CREAT);
        probe_opens(old_files, ARRAY_SIZE(old_files), O_WRONLY);
        probe_refused("making a directory in /", mkdir("/verify.d", 0755));
        probe_refused("chmod of /usr/bin/env", chmod("/usr/bin/env", 0777));
        probe_refused("unlink of /etc/passwd", unlink("/etc/passwd"));
        probe_refused("renaming /usr", rename("/usr", "/tmp/usr"));
        probe_refused("an unnamed file in /usr", open("/usr", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
        int fd = open("/tmp/verify", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0) /* then all of the above might fail for a reason that has nothing to do with it */
                probe_unsure("writing at all");
        else
                close(fd);
}

void probe_devices(void)
{
        static const char *const known[] = {".", "..", "null", "zero", "full", "random", "urandom", "fd", "stdin", "stdout",
                                            "stderr", "ptmx", "pts", "shm"};
        unsigned strange = 0;

        DIR *dir = opendir("/dev");
        if (!dir) {
                probe_unsure("/dev");
                return;
        }
        for (struct dirent *entry; (entry = readdir(dir));) {
                bool found = false;
                for (size_t i = 0; i < ARRAY_SIZE(known); i++)
                        found |= strcmp(known[i], entry->d_name) == 0;
                if (!found) {
                        strange++;
                        probe_report(false, "/dev/%s is there", entry->d_name);
                }
        }
        closedir(dir);
        probe_report(strange == 0, "/dev has the fixed nodes only");
        probe_refused("a memory device in /tmp", mknod("/tmp/mem", S_IFCHR | 0600, makedev(1, 1)));
        probe_refused("a disk in the workspace", mknod("/workspace/disk", S_IFBLK | 0600, makedev(254, 0)));
        probe_refused("a whiteout", mknod("/tmp/whiteout", S_IFCHR | 0600, makedev(0, 0)));
        probe_refused("a foreign terminal", open("/dev/pts/0", O_RDWR | O_CLOEXEC | O_NOCTTY));
        int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, "x", 1) != 1)
                probe_unsure("devices, even /dev/null");
        if (fd >= 0)
                close(fd);
}

static bool copy_program(const char *target)
{
        static char piece[65536];
        int from = open(PROBE_TARGET, O_RDONLY | O_CLOEXEC), to = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
        ssize_t n = -1;

        while (from >= 0 && to >= 0 && (n = read(from, piece, sizeof(piece))) > 0)
                if (write(to, piece, (size_t)n) != n)
                        n = -1;
        if (from >= 0)
                close(from);
        if (to >= 0)
                close(to);
        return n == 0;
}

/* Every mount must be nosuid, and only those of /dev may be without nodev. */
static void check_mount_flags(void)
{
        static char text[65536];
        unsigned n = 0;

        if (!probe_read_text("/proc/self/mountinfo", text, sizeof(text))) {
                probe_unsure("the mount table");
                return;
        }
        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), n++) {
                char target[PATH_MAX], options[256];
                if (sscanf(line, "%*d %*d %*s %*s %4095s %255s", target, options) != 2 || !strstr(options, "nosuid"))
                        probe_report(false, "a mount allows set-user-id: %s", line);
                else if (!strstr(options, "nodev") && strncmp(target, "/dev/", 5) != 0)
                        probe_report(false, "a mount allows devices: %s", target);
        }
        probe_report(n > 0, "%u mounts, all nosuid, nodev but for /dev", n);
}

void probe_setuid(void)
{
        static const char *const places[] = {"/tmp/gain", "/workspace/gain"};

        check_mount_flags();
        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
                bool copied = copy_program(places[i]);
                /* The bit itself may be refused; where it is not it must be worth nothing. */
                if (copied && chmod(places[i], 06755) < 0)
                        probe_report(true, "a set-user-id bit at %s: %s", places[i], strerror(errno));
                if (!copied || !probe_run_again(places[i], "gain", 2))
                        probe_report(false, "cannot run a copy at %s: %s", places[i], strerror(errno));
        }
}

/* The part that runs as a set-user-id file. */
void probe_gain(void)
{
        char text[8192];
        const char *caps = probe_read_text("/proc/self/status", text, sizeof(text)) ? probe_status_value(text, "CapEff") : NULL;

        probe_report(geteuid() == getuid() && getegid() == getgid() && geteuid() != 0, "the ids stay %u:%u", geteuid(), getegid());
        probe_report(caps && strtoull(caps, NULL, 16) == 0, "no capability came with it");
}

/* Not in the list: probe_filter() and probe_setuid() run the program again for these. */
void probe_exec(void)
{
        check_filter("after exec");
}
