/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox-probe: the attacker of `glovebox verify`. It runs inside a box, makes the attempts of
 * one row of PROBES and says what came of each. It is our own program, so its word counts;
 * what it cannot know itself the host judges. It is linked statically and needs nothing of the
 * box but /proc.
 *
 * Every attempt must be one that would succeed, or fail differently, without the control it is
 * meant for: a refusal that any host gives proves nothing. */
#include "runner/probe.h"

#include "base/macro.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/keyctl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIECE_BYTES (1 << 20)
#define LINK_TIMEOUT_SEC 1

static char **arguments;
static unsigned attempts;

static void _printf_(2, 0) say(const char *kind, const char *format, va_list ap)
{
        char line[512];
        int n = snprintf(line, sizeof(line), "%s %s ", arguments[PROBE_ARG_TOKEN], kind);
        vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, ap);
        for (char *c = line; *c; c++)
                if (*c == '\n')
                        *c = ' ';
        strcat(line, "\n");
        if (write(STDOUT_FILENO, line, strlen(line)) < 0)
                _exit(70);
}

static void _printf_(2, 3) report(bool held, const char *format, ...)
{
        va_list ap;

        attempts++;
        va_start(ap, format);
        say(held ? "held" : "open", format, ap);
        va_end(ap);
}

static void _printf_(2, 3) tell(const char *kind, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        say(kind, format, ap);
        va_end(ap);
}

/* For a call that must fail: r is what it returned. */
static void refused(const char *what, long r)
{
        int e = errno;

        if (r >= 0)
                report(false, "%s worked", what);
        else
                report(true, "%s: %s", what, strerror(e));
}

/* The probe cannot tell: that is no pass. */
static void unsure(const char *what)
{
        report(false, "cannot test %s: %s", what, strerror(errno));
}

static bool read_text(const char *path, char *buf, size_t size)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return false;
        size_t used = 0;
        for (ssize_t n; used < size - 1 && (n = read(fd, buf + used, size - 1 - used)) > 0;)
                used += (size_t)n;
        close(fd);
        buf[used] = '\0';
        return true;
}

/* The value of a line "key:\tvalue" of /proc/self/status; NULL when it is not there. */
static const char *status_value(const char *text, const char *key)
{
        size_t n = strlen(key);

        for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
                if (strncmp(line, key, n) == 0 && line[n] == ':')
                        return line + n + 1 + strspn(line + n + 1, "\t ");
        return NULL;
}

static void check_opens(const char *const *paths, size_t n, int flags)
{
        char what[PATH_MAX + 16];

        for (size_t i = 0; i < n; i++) {
                snprintf(what, sizeof(what), "%s %s", (flags & O_ACCMODE) == O_RDONLY ? "reading" : "writing", paths[i]);
                int fd = open(paths[i], flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
                refused(what, fd);
                if (fd >= 0)
                        close(fd);
        }
}

/* ---- who we are, what we see ---- */

static void probe_identity(void)
{
        uid_t asked = (uid_t)strtoul(arguments[PROBE_ARG_UID], NULL, 10);
        uid_t r, e, s;
        gid_t groups[256];
        char map[512];
        unsigned long inside, outside, count;
        struct utsname u;

        if (getresuid(&r, &e, &s) < 0 || !read_text("/proc/self/uid_map", map, sizeof(map))) {
                unsure("the user id");
                return;
        }
        report(r == asked && e == asked && s == asked && r != 0, "the user ids are %u, %u, %u", r, e, s);
        if (sscanf(map, "%lu %lu %lu", &inside, &outside, &count) != 3)
                report(false, "cannot read the uid map");
        else
                report(count == 1 && outside != 0 && inside != 0, "%lu user id of the host is mapped (%lu)", count, outside);
        int n = getgroups(ARRAY_SIZE(groups), groups);
        int foreign = 0;
        for (int i = 0; i < n; i++)
                foreign += groups[i] == 65534;
        report(n >= 0 && getgid() != 0 && getegid() != 0, "the group is %u, with %d others", getgid(), n);
        for (int i = 0; i < n; i++)
                report(groups[i] != 0, "group %u", groups[i]);
        if (foreign > 0)
                tell("note", "%d groups of the caller cannot be dropped without root; they have no name here", foreign);
        refused("setuid(0)", setuid(0));
        refused("setgid(0)", setgid(0));
        refused("setgroups(0)", setgroups(1, &(gid_t){0}));
        refused("setresuid to a neighbour", setresuid(asked + 1, asked + 1, asked + 1));
        report(uname(&u) == 0 && strcmp(u.nodename, arguments[PROBE_ARG_HOST_NAME]) != 0, "the host's name is hidden (%s)",
               u.nodename);
}

static void check_root_entries(void)
{
        static const char *const known[] = {".", "..", "bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc",
                                            "run", "sandbox", "sbin", "tmp", "usr", "workspace", "probe"};
        DIR *dir = opendir("/");
        if (!dir) {
                unsure("the root directory");
                return;
        }
        for (struct dirent *entry; (entry = readdir(dir));) {
                bool found = false;
                for (size_t i = 0; i < ARRAY_SIZE(known); i++)
                        found |= strcmp(known[i], entry->d_name) == 0;
                if (!found)
                        report(false, "/%s is there", entry->d_name);
        }
        closedir(dir);
        report(true, "the root holds only what a box has");
}

static void probe_root(void)
{
        static const char *const absent[] = {"/root", "/home", "/var", "/boot", "/srv", "/opt", "/sys/kernel",
                                             "/tmp/sandboxes", "/etc/ssh", "/run/systemd", "/run/docker.sock"};
        struct stat st, up;
        char id[64], what[PATH_MAX + 32];

        refused("the host's file", access(arguments[PROBE_ARG_HOST_FILE], F_OK));
        snprintf(what, sizeof(what), "/proc/1/root%s", arguments[PROBE_ARG_HOST_FILE]);
        refused("the host's file through /proc/1/root", access(what, F_OK));
        for (size_t i = 0; i < ARRAY_SIZE(absent); i++)
                refused(absent[i], access(absent[i], F_OK));
        check_root_entries();
        if (stat("/", &st) < 0 || stat("/..", &up) < 0) {
                unsure("the root directory");
                return;
        }
        snprintf(id, sizeof(id), "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
        report(strcmp(id, arguments[PROBE_ARG_HOST_ROOT]) != 0, "/ is not the host's");
        report(st.st_dev == up.st_dev && st.st_ino == up.st_ino, "/.. is /");
        refused("chroot", chroot("/tmp"));
}

static void probe_secrets(void)
{
        static const char *const paths[] = {"/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/root/.ssh/id_rsa",
                                            "/proc/1/environ", "/proc/1/mem", "/proc/kcore", "/proc/kmsg", "/proc/keys",
                                            "/proc/kallsyms", "/proc/sched_debug", "/dev/mem", "/dev/kmsg"};
        extern char **environ;
        char text[16384];

        check_opens(paths, ARRAY_SIZE(paths), O_RDONLY);
        bool seen = false;
        for (char **e = environ; *e; e++)
                seen |= strstr(*e, arguments[PROBE_ARG_SECRET]) != NULL;
        report(!seen, "the host's environment is not ours");
        if (!read_text("/proc/self/mountinfo", text, sizeof(text)))
                unsure("the mount table");
        else
                report(!strstr(text, arguments[PROBE_ARG_HOST_FILE]), "the mount table does not show the host's file");
}

static void probe_workspace(void)
{
        struct stat a, b;

        int fd = open("/workspace/" PROBE_WORKSPACE_FILE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        size_t size = strlen(arguments[PROBE_ARG_TOKEN]);
        if (fd < 0 || write(fd, arguments[PROBE_ARG_TOKEN], size) != (ssize_t)size || fstat(fd, &a) < 0) {
                unsure("/workspace");
                return;
        }
        close(fd);
        report(a.st_uid == getuid() && a.st_gid == getgid(), "inside, the file is owned by %u:%u", a.st_uid, a.st_gid);
        report(stat("/sandbox/" PROBE_WORKSPACE_FILE, &b) == 0 && a.st_ino == b.st_ino, "/sandbox and /workspace are one");
        refused("giving the file to root", chown("/workspace/" PROBE_WORKSPACE_FILE, 0, 0));
        refused("a hard link from /usr", link("/usr/bin/env", "/workspace/linked"));
}

/* ---- network ---- */

static int try_connect(int family, int type, const void *address, socklen_t size)
{
        static const struct timeval timeout = {.tv_sec = LINK_TIMEOUT_SEC};
        int fd = socket(family, type | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return -1;
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
        int r = connect(fd, address, size);
        int e = errno;
        close(fd);
        errno = e;
        return r;
}

static void check_interfaces(void)
{
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0) {
                unsure("the interfaces");
                return;
        }
        for (int i = 1; i < 256; i++) {
                struct ifreq request = {.ifr_ifindex = i};
                if (ioctl(fd, SIOCGIFNAME, &request) == 0)
                        report(strcmp(request.ifr_name, "lo") == 0, "interface %s", request.ifr_name);
                else if (errno != ENODEV) {
                        unsure("the interfaces");
                        break;
                }
        }
        close(fd);
}

static void check_routes(void)
{
        char text[4096];

        if (!read_text("/proc/self/net/route", text, sizeof(text))) {
                unsure("the routes");
                return;
        }
        char *second = strchr(text, '\n');
        report(!second || second[1] == '\0', "no route");
}

static void check_unix(const char *what, const char *name, bool abstract)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        size_t n = strlen(name);

        memcpy(address.sun_path + abstract, name, MIN(n, sizeof(address.sun_path) - 2));
        refused(what, try_connect(AF_UNIX, SOCK_STREAM, &address,
                                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1)));
}

static void probe_network(void)
{
        static const char *const outside[] = {"192.0.2.1", "1.1.1.1", "169.254.169.254", "10.0.0.1"};
        uint16_t port = (uint16_t)atoi(arguments[PROBE_ARG_PORT]);
        char what[96];

        check_interfaces();
        check_routes();
        for (size_t i = 0; i < ARRAY_SIZE(outside); i++) {
                struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53)};
                inet_pton(AF_INET, outside[i], &to.sin_addr);
                snprintf(what, sizeof(what), "tcp to %s", outside[i]);
                refused(what, try_connect(AF_INET, SOCK_STREAM, &to, sizeof(to)));
                snprintf(what, sizeof(what), "udp to %s", outside[i]);
                refused(what, try_connect(AF_INET, SOCK_DGRAM, &to, sizeof(to)));
        }
        struct sockaddr_in6 to6 = {.sin6_family = AF_INET6, .sin6_port = htons(53)};
        inet_pton(AF_INET6, "2001:db8::1", &to6.sin6_addr);
        refused("udp to 2001:db8::1", try_connect(AF_INET6, SOCK_DGRAM, &to6, sizeof(to6)));
        struct sockaddr_in loop = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        refused("the host's loopback port", try_connect(AF_INET, SOCK_STREAM, &loop, sizeof(loop)));
        check_unix("the host's abstract socket", arguments[PROBE_ARG_SOCKET], true);
        check_unix("the host's socket by path", arguments[PROBE_ARG_SOCKET_PATH], false);
}

/* ---- processes and privilege ---- */

static bool count_processes(unsigned *ret)
{
        DIR *dir = opendir("/proc");
        if (!dir)
                return false;
        *ret = 0;
        for (struct dirent *entry; (entry = readdir(dir));)
                *ret += entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
        closedir(dir);
        return true;
}

static void probe_processes(void)
{
        pid_t host = (pid_t)atol(arguments[PROBE_ARG_HOST_PID]);
        unsigned seen = 0;

        if (!count_processes(&seen)) {
                unsure("/proc");
                return;
        }
        report(seen >= 1 && seen <= 2 && getpid() < 100, "%u processes are visible, we are %d", seen, getpid());
        refused("signalling a process of the host", kill(host, 0));
        refused("opening a process of the host", syscall(SYS_pidfd_open, host, 0));
        (void)kill(1, SIGKILL);
        report(kill(1, 0) == 0 || errno == EPERM, "the box's init cannot be killed");
}

static void probe_capabilities(void)
{
        static const char *const sets[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
        char text[8192];

        if (!read_text("/proc/self/status", text, sizeof(text))) {
                unsure("the capabilities");
                return;
        }
        for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
                const char *value = status_value(text, sets[i]);
                report(value && strtoull(value, NULL, 16) == 0, "%s is %.16s", sets[i], value ? value : "not there");
        }
        const char *value = status_value(text, "NoNewPrivs");
        report(value && *value == '1', "no new privileges");
}

static void check_filter(const char *where)
{
        char text[8192];
        const char *mode = read_text("/proc/self/status", text, sizeof(text)) ? status_value(text, "Seccomp") : NULL;

        report(mode && *mode == '2', "the filter is on %s", where);
}

/* Runs this program again, as `path`, for the part of a probe that needs an exec. True when the
 * child ended well; its lines are printed by itself, and `tried` of them count. */
static bool run_again(const char *path, const char *part, unsigned tried)
{
        char *argv[] = {arguments[0], arguments[PROBE_ARG_TOKEN], (char *)(uintptr_t)part, NULL};
        int status;

        pid_t pid = fork();
        if (pid == 0) {
                execv(path, argv);
                _exit(71);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
                return false;
        attempts += tried;
        return true;
}

static void probe_filter(void)
{
        check_filter("in the program");
        if (!run_again(PROBE_TARGET, "exec", 1))
                report(false, "cannot run a child");
        int status;
        pid_t pid = vfork();
        if (pid == 0)
                _exit(0); /* a filter is inherited by every child: this one must at least work */
        report(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "vfork works under it");
}

/* ---- system calls ---- */

#define WRONG_MAGIC 1 /* reboot() would refuse it anyhow: nothing here may harm a host without control */

struct call {
        const char *name;
        long number;
        long args[5];
        int only; /* the one errno it may have; 0: any of refusal */
};

static const struct call calls[] = {
        {"mount", SYS_mount, {0, (long)"/tmp", 0, 0}, 0},
        {"umount2", SYS_umount2, {(long)"/tmp"}, 0},
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
        {"kexec_load", SYS_kexec_load, {0, 0, 0, 0}, 0},
        {"reboot", SYS_reboot, {WRONG_MAGIC, WRONG_MAGIC, 0, 0}, 0},
        {"open_by_handle_at", SYS_open_by_handle_at, {-1, 0, 0}, 0},
        {"name_to_handle_at", SYS_name_to_handle_at, {-1, 0, 0, 0, 0}, 0},
        {"personality", SYS_personality, {ADDR_NO_RANDOMIZE}, 0},
        {"syslog", SYS_syslog, {10, 0, 0}, 0},
        {"sethostname", SYS_sethostname, {0, 0}, 0},
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

static void probe_syscalls(void)
{
        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                const struct call *c = &calls[i];
                int e = call_in_child(c);
                bool refusal = e == EPERM || e == ENOSYS || e == EAFNOSUPPORT || e == -1;
                if (c->only)
                        refusal = e == c->only;
                /* EFAULT, EINVAL and their like come from the kernel's own code: it was reached. */
                report(refusal, "%s: %s", c->name, e == 0 ? "worked" : e == -1 ? "killed" : e == -2 ? "unclear" : strerror(e));
        }
}

/* ---- files ---- */

static void probe_writes(void)
{
        static const char *const new_files[] = {"/usr/verify", "/usr/bin/verify", "/etc/verify", "/verify", "/dev/verify",
                                                "/run/verify", "/run/glovebox/verify", "/proc/self/root/usr/verify"};
        static const char *const old_files[] = {"/usr/bin/env", "/etc/passwd", PROBE_TARGET, "/proc/sys/kernel/core_pattern",
                                                "/proc/self/oom_score_adj", "/proc/sysrq-trigger", "/proc/1/oom_score_adj",
                                                "/proc/self/uid_map", "/sys/kernel/uevent_helper"};

        check_opens(new_files, ARRAY_SIZE(new_files), O_WRONLY | O_CREAT);
        check_opens(old_files, ARRAY_SIZE(old_files), O_WRONLY);
        refused("making a directory in /", mkdir("/verify.d", 0755));
        refused("chmod of /usr/bin/env", chmod("/usr/bin/env", 0777));
        refused("unlink of /etc/passwd", unlink("/etc/passwd"));
        refused("renaming /usr", rename("/usr", "/tmp/usr"));
        refused("an unnamed file in /usr", open("/usr", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
        int fd = open("/tmp/verify", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0) /* then all of the above might fail for a reason that has nothing to do with it */
                unsure("writing at all");
        else
                close(fd);
}

static void probe_devices(void)
{
        static const char *const known[] = {".", "..", "null", "zero", "full", "random", "urandom", "fd", "stdin", "stdout",
                                            "stderr", "ptmx", "pts", "shm"};
        unsigned strange = 0;

        DIR *dir = opendir("/dev");
        if (!dir) {
                unsure("/dev");
                return;
        }
        for (struct dirent *entry; (entry = readdir(dir));) {
                bool found = false;
                for (size_t i = 0; i < ARRAY_SIZE(known); i++)
                        found |= strcmp(known[i], entry->d_name) == 0;
                if (!found) {
                        strange++;
                        report(false, "/dev/%s is there", entry->d_name);
                }
        }
        closedir(dir);
        report(strange == 0, "/dev has the fixed nodes only");
        refused("a memory device in /tmp", mknod("/tmp/mem", S_IFCHR | 0600, makedev(1, 1)));
        refused("a disk in the workspace", mknod("/workspace/disk", S_IFBLK | 0600, makedev(254, 0)));
        refused("a whiteout", mknod("/tmp/whiteout", S_IFCHR | 0600, makedev(0, 0)));
        refused("a foreign terminal", open("/dev/pts/0", O_RDWR | O_CLOEXEC | O_NOCTTY));
        int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, "x", 1) != 1)
                unsure("devices, even /dev/null");
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
        return n == 0 && chmod(target, 06755) == 0;
}

/* Every mount must be nosuid, and only those of /dev may be without nodev. */
static void check_mount_flags(void)
{
        static char text[65536];
        unsigned n = 0;

        if (!read_text("/proc/self/mountinfo", text, sizeof(text))) {
                unsure("the mount table");
                return;
        }
        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), n++) {
                char target[PATH_MAX], options[256];
                if (sscanf(line, "%*d %*d %*s %*s %4095s %255s", target, options) != 2 || !strstr(options, "nosuid"))
                        report(false, "a mount allows set-user-id: %s", line);
                else if (!strstr(options, "nodev") && strncmp(target, "/dev/", 5) != 0)
                        report(false, "a mount allows devices: %s", target);
        }
        report(n > 0, "%u mounts, all nosuid, nodev but for /dev", n);
}

static void probe_setuid(void)
{
        static const char *const places[] = {"/tmp/gain", "/workspace/gain"};

        check_mount_flags();
        for (size_t i = 0; i < ARRAY_SIZE(places); i++)
                if (!copy_program(places[i]) || !run_again(places[i], "gain", 2))
                        report(false, "cannot run a set-user-id copy at %s: %s", places[i], strerror(errno));
}

/* The part that runs as a set-user-id file. */
static void probe_gain(void)
{
        char text[8192];
        const char *caps = read_text("/proc/self/status", text, sizeof(text)) ? status_value(text, "CapEff") : NULL;

        report(geteuid() == getuid() && getegid() == getgid() && geteuid() != 0, "the ids stay %u:%u", geteuid(), getegid());
        report(caps && strtoull(caps, NULL, 16) == 0, "no capability came with it");
}

/* ---- bombs: judged by the host ---- */

static void probe_memory(void)
{
        for (unsigned mib = 0;; mib++) {
                char *p = mmap(NULL, PIECE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (p == MAP_FAILED) {
                        tell("note", "stopped by mmap after %u MiB: %s", mib, strerror(errno));
                        exit(1);
                }
                memset(p, (int)mib | 1, PIECE_BYTES);
        }
}

static void probe_forks(void)
{
        unsigned seen, limit = (unsigned)atoi(arguments[PROBE_ARG_PIDS]);

        pid_t bomb = fork();
        while (bomb == 0)
                if (fork() < 0)
                        usleep(1000);
        usleep(300000);
        if (bomb < 0 || !count_processes(&seen))
                unsure("a fork bomb");
        else /* init does not count, and a bomb that is not there is no test */
                report(seen > 2 && seen <= limit + 1, "%u processes when it had all it could get", seen);
        for (;;)
                pause();
}

static _noreturn_ void fill(const char *directory)
{
        static char piece[PIECE_BYTES];

        memset(piece, 'x', sizeof(piece));
        for (unsigned i = 0;; i++) {
                char path[64];
                snprintf(path, sizeof(path), "%s/fill%u", directory, i);
                int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
                if (fd < 0 || write(fd, piece, sizeof(piece)) != (ssize_t)sizeof(piece)) {
                        tell("note", "stopped by the kernel after %u MiB: %s", i, strerror(errno));
                        exit(1);
                }
                close(fd);
        }
}

static void probe_disk_tmp(void)
{
        fill("/tmp");
}

static void probe_disk_workspace(void)
{
        fill("/workspace");
}

static void probe_output(void)
{
        static char piece[65536];

        memset(piece, 'x', sizeof(piece));
        while (write(STDOUT_FILENO, piece, sizeof(piece)) > 0)
                ;
        exit(1);
}

static void ignore_signals(void)
{
        for (int i = 1; i < NSIG; i++)
                signal(i, SIG_IGN);
}

static void probe_loop(void)
{
        ignore_signals();
        for (volatile unsigned long n = 0;; n++)
                ;
}

static void probe_survivor(void)
{
        int alive[2];
        char c;

        if (pipe2(alive, O_CLOEXEC) < 0) {
                unsure("a daemon");
                return;
        }
        pid_t pid = fork();
        if (pid == 0) {
                ignore_signals();
                if (setsid() < 0 || fork() != 0)
                        _exit(0);
                setsid();
                if (write(alive[1], "x", 1) != 1)
                        _exit(0);
                for (int i = 0; i < 3; i++) /* nobody can notice it by a pipe */
                        close(i);
                for (;;)
                        sleep(60);
        }
        close(alive[1]);
        report(pid > 0 && read(alive[0], &c, 1) == 1, "a daemon was started");
        usleep(300000); /* the host looks for it now */
}

static void probe_kill_all(void)
{
        /* All but ourselves and init, if there is a pid namespace: without, the caller's whole session. */
        int r = kill(-1, SIGKILL);
        report(true, "kill(-1) %s", r == 0 ? "was sent" : strerror(errno));
}

/* Not in the list: probe_filter() and probe_setuid() run the program again for these. */
static void probe_exec(void)
{
        check_filter("after exec");
}

int main(int argc, char **argv)
{
        static const struct {
                const char *function;
                void (*run)(void);
                bool part; /* of another probe, which tells the beginning and the end */
        } rows[] = {
#define PROBE_ROW(function, name, catalogue, tries) {#function, probe_##function, false},
                PROBES(PROBE_ROW)
#undef PROBE_ROW
                {"exec", probe_exec, true},
                {"gain", probe_gain, true},
        };

        if (argc <= PROBE_ARG_FUNCTION)
                return 64;
        arguments = argv;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                if (strcmp(argv[PROBE_ARG_FUNCTION], rows[i].function) != 0)
                        continue;
                if (!rows[i].part && argc < PROBE_ARG_COUNT)
                        return 64;
                if (!rows[i].part)
                        tell("ran", "%s", rows[i].function);
                rows[i].run();
                if (!rows[i].part)
                        tell("done", "%u", attempts);
                return 0;
        }
        return 64;
}
