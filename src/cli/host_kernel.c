/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks of the kernel and of the caller's rights in it.
 *
 * Two of them fork. Whether namespaces can be made is known only by making them: a child is cloned
 * into all that a box gets, waits until its ids are mapped, mounts a tmpfs there (some hosts
 * give the namespace but no rights in it) and ends. It has its own memory, opens nothing that
 * others could see, and dies with us. */
#include "cli/host.h"

#include "base/fd.h"
#include "base/limits.h"
#include "kernel/apparmor.h"
#include "kernel/cgroup.h"
#include "kernel/landlock.h"
#include "kernel/mount.h"
#include "kernel/mountinfo.h"
#include "kernel/privilege.h"
#include "kernel/sys.h"
#include "kernel/userns.h"

#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define BOX_NAMESPACES                                                                                        \
        (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)
#define KERNEL_MAJOR 5
#define KERNEL_MINOR 12
#define BASE_DIRECTORY "/tmp/sandboxes"
#define NAMESPACE_REFUSED 200 /* exit statuses of the child, beyond errno */

/* A small file of the kernel's without its newline, or "" when it cannot be read. */
static const char *read_line(const char *path, char *buf, size_t size)
{
        if (file_read_at(AT_FDCWD, path, buf, size) < 0)
                buf[0] = '\0';
        return buf;
}

static void check_kernel(struct host_finding *f)
{
        struct utsname u;
        int major = 0, minor = 0;

        if (uname(&u) < 0 || sscanf(u.release, "%d.%d", &major, &minor) != 2) {
                host_found(f, HOST_MISSING, "the version cannot be read");
                return;
        }
        bool good = major > KERNEL_MAJOR || (major == KERNEL_MAJOR && minor >= KERNEL_MINOR);
        host_found(f, good ? HOST_OK : HOST_MISSING, "%s %s, %s", u.sysname, u.release, u.machine);
        if (!good)
                host_remedy(f, "use Linux %d.%d or later", KERNEL_MAJOR, KERNEL_MINOR);
}

static void check_container(struct host_finding *f)
{
        static const char *const names[] = {"docker", "kubepods", "libpod", "containerd", "lxc"};
        char text[4096], *variable = getenv("container");
        const char *hint = NULL;

        if (access("/.dockerenv", F_OK) == 0)
                hint = "/.dockerenv is there";
        else if (access("/run/.containerenv", F_OK) == 0)
                hint = "/run/.containerenv is there";
        else if (variable && *variable)
                hint = "the variable container is set";
        read_line("/proc/1/cgroup", text, sizeof(text));
        for (size_t i = 0; i < ARRAY_SIZE(names) && !hint; i++)
                if (strstr(text, names[i]))
                        hint = "by the cgroup of process 1";
        if (!hint && !text[0])
                host_found(f, HOST_INFO, "not known: /proc/1/cgroup cannot be read");
        else
                host_found(f, HOST_INFO, hint ? "probably inside one: %s" : "no sign of one%s", hint ? hint : "");
        if (hint)
                host_means(f, "the outer container's own filter and limits hold too, and may forbid namespaces or mounts");
}

/* ---- namespaces ---- */

static _noreturn_ void namespace_child(int go)
{
        char c;

        /* Whoever waits for us may be gone. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (read(go, &c, 1) != 1)
                _exit(EPIPE);
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, NULL) < 0)
                _exit(errno < NAMESPACE_REFUSED ? errno : EPERM);
        _exit(0);
}

/* 0, or a negative errno; *ret_what says which step failed. */
static int try_namespaces(const char **ret_what)
{
        struct clone_args args = {.flags = BOX_NAMESPACES, .exit_signal = SIGCHLD};
        struct userns_map map = {.uid_inside = 1000, .uid_outside = geteuid(), .gid_inside = 1000, .gid_outside = getegid()};
        _cleanup_close_ int ours = -1, theirs = -1;
        int pipe_fds[2], status;

        *ret_what = "making them";
        if (pipe2(pipe_fds, O_CLOEXEC) < 0)
                return -errno;
        theirs = pipe_fds[0];
        ours = pipe_fds[1];
        pid_t pid = sys_clone3(&args);
        if (pid == 0) {
                safe_close(ours);
                namespace_child(theirs);
        }
        if (pid < 0)
                return -errno;
        int r = userns_write_map(pid, &map);
        if (r < 0)
                *ret_what = "mapping the user id";
        else
                r = fd_write_all(ours, "x", 1);
        ours = safe_close(ours);
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        if (r < 0)
                return r;
        *ret_what = "mounting in them";
        return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

static void check_namespaces(struct host_finding *f)
{
        const char *what;
        char value[64];

        int r = try_namespaces(&what);
        if (r == 0) {
                host_found(f, HOST_OK, "user, mount, pid, net, ipc, uts and cgroup can be made");
                return;
        }
        host_found(f, HOST_MISSING, "%s failed: %s", what, strerror(-r));
        if (strcmp(read_line("/proc/sys/kernel/unprivileged_userns_clone", value, sizeof(value)), "0") == 0)
                host_remedy(f, "sysctl -w kernel.unprivileged_userns_clone=1");
        else if (strcmp(read_line("/proc/sys/user/max_user_namespaces", value, sizeof(value)), "0") == 0 || r == -ENOSPC)
                host_remedy(f, "sysctl -w user.max_user_namespaces=10000");
        else if (strcmp(read_line("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", value, sizeof(value)), "1") == 0)
                host_remedy(f, "allow it for glovebox by an AppArmor profile with \"userns,\", or sysctl -w "
                               "kernel.apparmor_restrict_unprivileged_userns=0");
        else
                host_remedy(f, "if this is a container, start it with rights to make namespaces (Docker: --security-opt "
                               "seccomp=unconfined --cap-add SYS_ADMIN); otherwise ask for a kernel with CONFIG_USER_NS");
}

/* ---- cgroups ---- */

static void check_cgroup(struct host_finding *f)
{
        static const char *const kinds[] = {"unified", "memory", "pids", "cpu", "cpuacct"};
        struct cgroup_host h;
        char list[128] = "";
        size_t used = 0;

        if (cgroup_find(false, &h) < 0) {
                host_found(f, HOST_MISSING, "cannot be read");
                return;
        }
        for (size_t i = 0; i < CGROUP_KIND_COUNT; i++)
                if (h.parent[i] >= 0)
                        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", kinds[i]);
        bool all = h.memory && h.pids && h.cpu && h.swap;
        if (used > 0)
                host_found(f, all ? HOST_OK : HOST_WEAKER, "%s; this user can make groups in: %s", cgroup_mode_name(h.mode), list);
        else
                host_found(f, HOST_MISSING, "no place where this user can make groups");
        if (!all)
                host_remedy(f, "%s", h.why_not);
        cgroup_host_done(&h);
}

enum cgroup_part { PART_MEMORY, PART_SWAP, PART_PIDS, PART_CPU };

static void check_cgroup_part(struct host_finding *f, enum cgroup_part part, enum host_state without, const char *instead)
{
        struct cgroup_host h;

        if (cgroup_find(false, &h) < 0) {
                host_found(f, HOST_MISSING, "cgroups cannot be read");
                return;
        }
        const bool has[] = {[PART_MEMORY] = h.memory, [PART_SWAP] = h.swap, [PART_PIDS] = h.pids, [PART_CPU] = h.cpu};
        if (has[part]) {
                host_found(f, HOST_OK, "enforced by cgroup %s", cgroup_mode_name(h.mode));
        } else {
                host_found(f, without, "no cgroup; %s", instead);
                if (without == HOST_WEAKER)
                        host_remedy(f, "as for cgroup; or run with --allow-weaker memory");
        }
        cgroup_host_done(&h);
}

static void check_memory(struct host_finding *f)
{
        check_cgroup_part(f, PART_MEMORY, HOST_WEAKER, "only RLIMIT_AS, for each process by itself");
}

static void check_swap(struct host_finding *f)
{
        check_cgroup_part(f, PART_SWAP, HOST_WEAKER, "swap cannot be limited");
}

static void check_pids(struct host_finding *f)
{
        check_cgroup_part(f, PART_PIDS, HOST_INFO, "RLIMIT_NPROC of the box's user namespace does it (Linux 5.14)");
}

static void check_fuse(struct host_finding *f)
{
        _cleanup_close_ int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

        if (fd >= 0) {
                host_found(f, HOST_OK, "/dev/fuse can be opened");
                return;
        }
        int e = errno;
        host_found(f, HOST_INFO, "/dev/fuse: %s", strerror(e));
        host_means(f, "a mount with :hide is refused");
        host_remedy(f, e == EACCES || e == EPERM ? "allow this user to open it (chmod 666 /dev/fuse)" : "modprobe fuse; in a container: --device /dev/fuse");
}

static void check_cpu(struct host_finding *f)
{
        check_cgroup_part(f, PART_CPU, HOST_INFO, "affinity to whole processors does it; parts of one and cpu_time cannot be had");
}

/* ---- filters and labels ---- */

static void check_landlock(struct host_finding *f)
{
        int abi = landlock_abi();

        if (abi <= 0) {
                host_found(f, HOST_MISSING, "this kernel has none");
                host_remedy(f, "use a kernel with CONFIG_SECURITY_LANDLOCK (5.13), and landlock in the lsm= list of its command "
                               "line; or run with --allow-weaker landlock");
                return;
        }
        host_found(f, HOST_OK, "ABI %d", abi);
        host_means(f, "writes only where the policy says%s", abi >= 6 ? "; signals and abstract sockets stay inside" : "");
}

static void check_seccomp(struct host_finding *f)
{
        char actions[256];

        read_line("/proc/sys/kernel/seccomp/actions_avail", actions, sizeof(actions));
        if (prctl(PR_GET_SECCOMP) < 0 || (actions[0] && !strstr(actions, "kill_process"))) {
                host_found(f, HOST_MISSING, "this kernel has no filters");
                host_remedy(f, "use a kernel with CONFIG_SECCOMP_FILTER");
                return;
        }
        host_found(f, HOST_OK, "filters%s%s", actions[0] ? ": " : "", actions);
}

static void check_apparmor(struct host_finding *f)
{
        int native = apparmor_is_loaded(APPARMOR_NATIVE), container = apparmor_is_loaded(APPARMOR_CONTAINER);
        int unseen = native < 0 ? native : container;

        if (!apparmor_is_enabled()) {
                host_found(f, HOST_INFO, "not enabled in this kernel");
                host_remedy(f, "use a kernel with CONFIG_SECURITY_APPARMOR, and apparmor in the lsm= list of its command line");
        } else if (unseen < 0) {
                host_found(f, HOST_INFO, "on; which profiles are loaded cannot be seen: %s", strerror(-unseen));
                host_remedy(f, "mount -t securityfs securityfs /sys/kernel/security");
        } else if (apparmor_look() == APPARMOR_REFUSED) {
                host_found(f, HOST_INFO, "on, and glovebox is confined itself: it may not change to " APPARMOR_NATIVE);
        } else {
                host_found(f, native && container ? HOST_OK : HOST_INFO, "on; " APPARMOR_NATIVE " is %sloaded, " APPARMOR_CONTAINER " is %sloaded",
                           native ? "" : "not ", container ? "" : "not ");
                host_remedy(f, "as root: apparmor_parser -r -W " GLOVEBOX_DATADIR "/apparmor/glovebox-*");
        }
}

/* ---- file systems ---- */

/* The mount that holds path; its lines point into *ret_text. */
static bool find_mount(const char *path, char **ret_text, struct mountinfo *ret)
{
        struct mountinfo m;
        struct stat st;
        bool found = false;

        if (stat(path, &st) < 0 || mountinfo_load(ret_text) < 0)
                return false;
        char *cursor = *ret_text;
        for (int r; (r = mountinfo_next(&cursor, &m)) != 0;)
                if (r > 0 && m.dev == st.st_dev) {
                        *ret = m;
                        found = true;
                }
        return found;
}

static void check_quota(struct host_finding *f)
{
        const char *path = access(BASE_DIRECTORY, F_OK) == 0 ? BASE_DIRECTORY : ".";
        const char *shown = path[0] == '/' ? path : "the current directory";
        _cleanup_free_ char *text = NULL;
        struct mountinfo m;

        if (!find_mount(path, &text, &m)) {
                host_found(f, HOST_INFO, "the file system of %s is not known", shown);
                return;
        }
        bool on = mountinfo_has_option(m.super_options, "prjquota") || mountinfo_has_option(m.super_options, "pquota");
        host_found(f, HOST_INFO, "%s (%s) has %s project quota", shown, m.type, on ? "a" : "no");
}

static void check_overlay(struct host_finding *f)
{
        char text[8192];

        if (file_read_at(AT_FDCWD, "/proc/filesystems", text, sizeof(text)) < 0) {
                host_found(f, HOST_INFO, "not known: /proc/filesystems cannot be read");
                return;
        }
        bool has = strstr(text, "\toverlay");
        host_found(f, has ? HOST_OK : HOST_INFO, has ? "in the kernel" : "not loaded");
        if (!has)
                host_remedy(f, "modprobe overlay, when images are to have writable roots");
}

static int try_idmap(const char *path)
{
        struct userns_map map = {.uid_inside = 1000, .uid_outside = 0, .gid_inside = 1000, .gid_outside = 0};
        _cleanup_close_ int userns = userns_open(&map), dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (userns < 0 || dir < 0)
                return userns < 0 ? userns : -errno;
        _cleanup_close_ int mounted = mount_clone_tree(dir, MOUNT_WRITABLE, userns);
        return mounted < 0 ? mounted : 0;
}

static void check_idmap(struct host_finding *f)
{
        const char *base = getenv("TMPDIR");
        char path[HOST_PATH_MAX];

        if (geteuid() != 0 || !userns_is_initial() || !privilege_has(CAP_SYS_ADMIN)) {
                host_found(f, HOST_INFO, "only root uses them; files in a box are this user's anyhow");
                return;
        }
        snprintf(path, sizeof(path), "%s/glovebox-doctor-XXXXXX", base && *base == '/' ? base : "/tmp");
        if (!mkdtemp(path)) {
                host_found(f, HOST_MISSING, "cannot make a directory to try it: %s", strerror(errno));
                return;
        }
        int r = try_idmap(path);
        rmdir(path);
        if (r == 0) {
                host_found(f, HOST_OK, "work for temporary files");
                return;
        }
        host_found(f, HOST_MISSING, "not for temporary files: %s", strerror(-r));
        host_remedy(f, "put workspaces on a file system that can (ext4, xfs, btrfs; tmpfs from Linux 6.3)");
}

/* A workspace of a session is a tmpfs. */
static void check_lending(struct host_finding *f)
{
        struct userns_map map = {.uid_inside = 1000, .uid_outside = 1000, .gid_inside = 1000, .gid_outside = 1000};
        struct mount_tmpfs_options options = {.size_bytes = 64 * KIB, .inodes = 16, .mode = 0700};

        if (geteuid() != 0 || !userns_is_initial() || !privilege_has(CAP_SYS_ADMIN)) {
                host_found(f, HOST_INFO, "only a server that root starts needs that; this user's has the files anyhow");
                return;
        }
        _cleanup_close_ int userns = userns_open(&map), tree = mount_new_tmpfs(&options);
        int r = userns < 0 ? userns : tree < 0 ? tree : mount_make_lent(tree, userns);
        if (r == 0) {
                host_found(f, HOST_OK, "can be given to a server that is not root any more");
                return;
        }
        host_found(f, HOST_WEAKER, "cannot be given to a server that is not root any more: %s", strerror(-r));
        host_remedy(f, "Linux 6.3 or later; or run `glovebox serve` as an ordinary user");
}

static void check_devices(struct host_finding *f)
{
        static const struct {
                const char *path;
                unsigned major, minor;
        } devices[] = {{"/dev/null", 1, 3}, {"/dev/zero", 1, 5}, {"/dev/full", 1, 7}, {"/dev/random", 1, 8}, {"/dev/urandom", 1, 9}};

        for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
                struct stat st;
                if (stat(devices[i].path, &st) == 0 && S_ISCHR(st.st_mode) &&
                    st.st_rdev == makedev(devices[i].major, devices[i].minor))
                        continue;
                host_found(f, HOST_MISSING, "%s is missing or another device", devices[i].path);
                host_remedy(f, "mknod -m 666 %s c %u %u", devices[i].path, devices[i].major, devices[i].minor);
                return;
        }
        host_found(f, HOST_OK, "null, zero, full, random and urandom are what they should be");
}

/* ---- processors ---- */

#define VULNERABILITIES "/sys/devices/system/cpu/vulnerabilities"

static void check_vulnerabilities(struct host_finding *f)
{
        char names[160] = "", path[320], text[256];
        unsigned n = 0, vulnerable = 0, unknown = 0;
        size_t used = 0;

        DIR *dir = opendir(VULNERABILITIES);
        if (!dir) {
                host_found(f, HOST_INFO, "this kernel does not tell");
                return;
        }
        for (struct dirent *entry; (entry = readdir(dir));) {
                if (entry->d_name[0] == '.')
                        continue;
                n++;
                snprintf(path, sizeof(path), VULNERABILITIES "/%s", entry->d_name);
                read_line(path, text, sizeof(text));
                unknown += text[0] == '\0';
                if (!strstr(text, "ulnerable") || strncmp(text, "Not affected", 12) == 0)
                        continue;
                vulnerable++;
                if (used < sizeof(names))
                        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%.40s", used ? ", " : "", entry->d_name);
        }
        closedir(dir);
        if (vulnerable == 0 && (unknown > 0 || n == 0)) {
                host_found(f, HOST_INFO, "not known: %u of %u cannot be read, none of the others is open", unknown, n);
                return;
        }
        if (vulnerable == 0) {
                host_found(f, HOST_OK, "none of %u is open", n);
                return;
        }
        host_found(f, HOST_WEAKER, "%u of %u are open at least in part: %s", vulnerable, n, names);
        host_remedy(f, "update the kernel and the microcode, leave mitigations on; the files in " VULNERABILITIES " say more");
}

static void check_smt(struct host_finding *f)
{
        char active[16];

        read_line("/sys/devices/system/cpu/smt/active", active, sizeof(active));
        if (active[0] == '1') {
                host_found(f, HOST_WEAKER, "on: two boxes may share a core");
                host_remedy(f, "where code of different owners runs side by side: echo off > /sys/devices/system/cpu/smt/control");
        } else {
                host_found(f, active[0] == '0' ? HOST_OK : HOST_INFO, active[0] == '0' ? "off, or not shown to this machine" : "not known");
        }
}

const struct host_check host_kernel_checks[] = {
        {"kernel", "boxes need what Linux 5.12 has", check_kernel, true},
        {"container", "the filter and limits of an outer container would hold, too", check_container, false},
        {"namespaces", "every box lives in namespaces of its own", check_namespaces, true},
        {"cgroup", "limits of the whole box are kept by cgroups", check_cgroup, false},
        {"memory limit", "memory of all processes of a box together", check_memory, false},
        {"swap limit", "a box cannot push its memory out to swap", check_swap, false},
        {"task limit", "a fork bomb ends at its limit", check_pids, false},
        {"cpu limit", "a box has its share of the processors and no more", check_cpu, false},
        {"landlock", "a second lock on files", check_landlock, false},
        {"seccomp", "only listed system calls reach the kernel", check_seccomp, true},
        {"apparmor", "a further line around programs; boxes do not depend on it", check_apparmor, false},
        {"quota", "not used yet: what a run writes to the host is measured while it lasts", check_quota, false},
        {"overlay", "for images with a writable root; not used yet", check_overlay, false},
        {"idmapped mounts", "run by root, boxes have a user id of their own and files still belong to the caller", check_idmap, false},
        {"session files", "a server that root starts gives up its privilege, and still has to read and write files of sessions", check_lending, false},
        {"fuse", "needed for mounts without credential files (:hide)", check_fuse, false},
        {"devices", "these nodes are shown in every box", check_devices, true},
        {"processor flaws", "code may read memory of others through the processor", check_vulnerabilities, false},
        {"smt", "threads of one core share what flaws of processors leak", check_smt, false},
};
const size_t n_host_kernel_checks = ARRAY_SIZE(host_kernel_checks);
