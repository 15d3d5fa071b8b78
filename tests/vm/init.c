/* SPDX-License-Identifier: Apache-2.0
 *
 * Process 1 of the test machine. It mounts what a system has at boot, with control groups v2 only, as
 * systemd does it; starts the tests as a child; reaps whatever is orphaned meanwhile, as every
 * process 1 must; and switches the machine off when the tests have ended. Linked statically: it
 * needs nothing of the image but the command it starts. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define REPORT_DEVICE "/dev/ttyS1"

static const struct {
        const char *type, *target, *options;
        unsigned long flags;
} mounts[] = {
        {"proc", "/proc", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC},
        {"sysfs", "/sys", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC},
        {"devtmpfs", "/dev", "mode=0755", MS_NOSUID},
        {"devpts", "/dev/pts", "mode=0620,ptmxmode=0666", MS_NOSUID | MS_NOEXEC},
        {"tmpfs", "/dev/shm", "mode=1777", MS_NOSUID | MS_NODEV},
        {"tmpfs", "/run", "mode=0755", MS_NOSUID | MS_NODEV},
        {"cgroup2", "/sys/fs/cgroup", "nsdelegate,memory_recursiveprot", MS_NOSUID | MS_NODEV | MS_NOEXEC},
};

static void mount_all(void)
{
        for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
                (void)mkdir(mounts[i].target, 0755);
                if (mount(mounts[i].type, mounts[i].target, mounts[i].type, mounts[i].flags, mounts[i].options) < 0)
                        printf("vm-init: cannot mount %s: %s\n", mounts[i].target, strerror(errno));
        }
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
        mount_all();
        pid = start(tests);
        do
                ended = wait(NULL);
        while (pid > 0 && ended != pid && (ended > 0 || errno == EINTR));
        sync();
        reboot(RB_POWER_OFF);
        return 1;
}
