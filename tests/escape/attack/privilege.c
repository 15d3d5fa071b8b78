/* SPDX-License-Identifier: Apache-2.0
 *
 * Group B of the catalogue: privilege. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/fsuid.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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

const struct attack privilege_attacks[] = {
        ROW(clocks), ROW(host_name), ROW(identities), ROW(print_identity), ROW(set_id_files), ROW(inherited),
        ROW(way_up),
        {NULL, NULL},
};
