/* SPDX-License-Identifier: Apache-2.0
 *
 * Group F of the catalogue: time and life. */
#include "attack.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

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

static void leader_leaves(void)
{
        pthread_t thread;

        pthread_create(&thread, NULL, live_on, (void *)token);
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

const struct attack life_attacks[] = {
        ROW(deaf_spinner), ROW(stop_group), ROW(vfork_block), ROW(hydra), ROW(leader_leaves), ROW(orphans),
        ROW(core_limit), ROW(crash),
        {NULL, NULL},
};
