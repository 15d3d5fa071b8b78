/* SPDX-License-Identifier: Apache-2.0
 *
 * Process 1 of the test machine. It mounts what a system has at boot, with control groups v2 only, as
 * systemd does it (or with "vm.cgroups=v1" on the kernel's command line v1 only, as systemd did
 * it); raises the loopback; starts the tests as a child; reaps whatever is orphaned meanwhile, as every
 * process 1 must; and switches the machine off when the tests have ended. Linked statically: it
 * needs nothing of the image but the command it starts. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define REPORT_DEVICE "/dev/ttyS1"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CGROUP "/sys/fs/cgroup"
#define PLAIN (MS_NOSUID | MS_NODEV | MS_NOEXEC)

struct mount_row {
        const char *type, *target, *options;
        unsigned long flags;
};

static const struct mount_row system_mounts[] = {
        {"proc", "/proc", NULL, PLAIN},
        {"sysfs", "/sys", NULL, PLAIN},
        {"devtmpfs", "/dev", "mode=0755", MS_NOSUID},
        {"devpts", "/dev/pts", "mode=0620,ptmxmode=0666", MS_NOSUID | MS_NOEXEC},
        {"tmpfs", "/dev/shm", "mode=1777", MS_NOSUID | MS_NODEV},
        {"tmpfs", "/run", "mode=0755", MS_NOSUID | MS_NODEV},
};

static const struct mount_row v2_mounts[] = {
        {"cgroup2", CGROUP, "nsdelegate,memory_recursiveprot", PLAIN},
};

static const struct mount_row v1_mounts[] = {
        {"tmpfs", CGROUP, "mode=0755", PLAIN},
        {"cgroup", CGROUP "/systemd", "none,name=systemd", PLAIN},
        {"cgroup", CGROUP "/memory", "memory", PLAIN},
        {"cgroup", CGROUP "/pids", "pids", PLAIN},
        {"cgroup", CGROUP "/cpu,cpuacct", "cpu,cpuacct", PLAIN},
};

static void mount_all(const struct mount_row *rows, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                (void)mkdir(rows[i].target, 0755);
                if (mount(rows[i].type, rows[i].target, rows[i].type, rows[i].flags, rows[i].options) < 0)
                        printf("vm-init: cannot mount %s: %s\n", rows[i].target, strerror(errno));
        }
}

static bool asked_for(const char *word)
{
        char text[4096];
        int fd = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

        text[n < 0 ? 0 : n] = '\0';
        close(fd);
        return strstr(text, word);
}

static void raise_loopback(void)
{
        struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
                printf("vm-init: cannot raise the loopback: %s\n", strerror(errno));
        close(fd);
}

static pid_t start(char *const argv[])
{
        static char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/usr/sbin", "LANG=C.UTF-8", "HOME=/root", NULL};
        pid_t pid = fork();

        if (pid != 0)
                return pid;
        setsid();
        int report = open(REPORT_DEVICE, O_WRONLY | O_NOCTTY);
        if (report < 0 || dup2(report, 1) < 0)
                printf("vm-init: cannot open %s: %s\n", REPORT_DEVICE, strerror(errno));
        execve(argv[0], argv, env);
        fprintf(stderr, "vm-init: cannot execute %s: %s\n", argv[0], strerror(errno));
        _exit(127);
}

int main(void)
{
        static char *const tests[] = {"/usr/bin/python3", "-u", "/vm/guest.py", NULL};
        pid_t pid, ended;

        setvbuf(stdout, NULL, _IONBF, 0);
        mount_all(system_mounts, COUNT(system_mounts));
        if (asked_for("vm.cgroups=v1"))
                mount_all(v1_mounts, COUNT(v1_mounts));
        else
                mount_all(v2_mounts, COUNT(v2_mounts));
        raise_loopback();
        pid = start(tests);
        do
                ended = wait(NULL);
        while (pid > 0 && ended != pid && (ended > 0 || errno == EINTR));
        sync();
        reboot(RB_POWER_OFF);
        return 1;
}
