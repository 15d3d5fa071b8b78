/* SPDX-License-Identifier: Apache-2.0
 *
 * Group E of the catalogue: resources. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

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

const struct attack resources_attacks[] = {
        ROW(fork_bomb), ROW(exec_loop), ROW(vfork_loop), ROW(memory_bomb), ROW(stack_bomb), ROW(cow_bomb),
        ROW(kernel_objects), ROW(sparse_file), ROW(descriptor_hogs), ROW(flood), ROW(flush_host), ROW(huge_pages),
        {NULL, NULL},
};
