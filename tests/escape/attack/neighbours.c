/* SPDX-License-Identifier: Apache-2.0
 *
 * Group D of the catalogue: neighbours. */
#include "attack.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

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

const struct attack neighbours_attacks[] = {
        ROW(outside_signals), ROW(shared_inode), ROW(page_cache), ROW(kill_everybody),
        {NULL, NULL},
};
