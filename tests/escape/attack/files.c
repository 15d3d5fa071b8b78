/* SPDX-License-Identifier: Apache-2.0
 *
 * Group C of the catalogue: files. */
#include "attack.h"

#include <dirent.h>
#include <errno.h>
#include <linux/fs.h>
#include <pty.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

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

const struct attack files_attacks[] = {
        ROW(image_view), ROW(proc_view), ROW(terminals), ROW(remounts), ROW(root_writes), ROW(file_marks),
        ROW(set_id_bits), ROW(hard_links), ROW(deep_tree), ROW(locked_directories), ROW(hidden_bytes),
        {NULL, NULL},
};
