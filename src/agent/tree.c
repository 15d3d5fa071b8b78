/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Far above what anybody uses up: seconds of processor time, and bytes of data. */
#define OWNER_CPU_BASE (1ULL << 30) /* gVisor keeps nanoseconds */
#define OWNER_DATA_BASE (1ULL << 50)

struct entry { /* the kernel's struct linux_dirent64 */
        uint64_t inode;
        int64_t offset;
        unsigned short size;
        unsigned char type;
        char name[];
};

int tree_open(struct tree *t)
{
        t->proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return t->proc < 0 ? -errno : 0;
}

/* "pid (name) state ppid ...": the name may have anything in it, parentheses too. The number of threads is the 20th field. */
static bool parse_stat(char *text, struct task *task)
{
        char *p = strrchr(text, ')');

        if (!p || p[1] != ' ' || p[2] == '\0' || p[3] != ' ')
                return false;
        task->state = p[2];
        p += 4;
        task->parent = (pid_t)strtol(p, &p, 10);
        for (int field = 5; field < 20; field++) {
                p = strchr(p + 1, ' ');
                if (!p)
                        return false;
        }
        task->threads = (uint32_t)strtoul(p, NULL, 10);
        return true;
}

/* 0, also when it is gone. The code may have taken our descriptors away (prlimit): who cannot look must not say that nobody is there. */
static int read_task(struct tree *t, const char *name)
{
        struct task *task = &t->tasks[t->n];
        char path[32], text[1024];

        if (t->n == TREE_TASKS_MAX || strlen(name) > 10)
                return 0;
        snprintf(path, sizeof(path), "%s/stat", name);
        int fd = openat(t->proc, path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT || errno == ESRCH ? 0 : -errno;
        ssize_t n = read(fd, text, sizeof(text) - 1);
        int r = n < 0 && errno != ESRCH ? -errno : 0;
        close(fd);
        if (n <= 0)
                return r;
        text[n] = '\0';
        *task = (struct task){.pid = (pid_t)strtol(name, NULL, 10), .below = -1};
        if (!parse_stat(text, task))
                return -EBADMSG; /* there is a process */
        t->n++;
        return 0;
}

/* The kernel's PF_FORKNOEXEC: set by fork, cleared by exec before it closes descriptors, and readable until the process
 * is reaped. */
#define FLAG_NOT_EXECUTED 0x40UL
#define NAME_LOOKS_MAX 2000 /* a millisecond each */

static int read_flags(int proc, pid_t pid, char name[static TASK_NAME_MAX], unsigned long *ret)
{
        char path[32], text[1024];

        snprintf(path, sizeof(path), "%d/stat", (int)pid);
        int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        ssize_t n = read(fd, text, sizeof(text) - 1);
        int r = n < 0 ? -errno : 0;
        close(fd);
        if (r < 0)
                return r;
        text[n] = '\0';
        char *begin = strchr(text, '('), *p = strrchr(text, ')');
        if (!begin || !p || p < begin || p - begin > TASK_NAME_MAX)
                return -EBADMSG;
        snprintf(name, TASK_NAME_MAX, "%.*s", (int)(p - begin - 1), begin + 1);
        for (int field = 2; p && field < 9; field++)
                p = strchr(p + 1, ' ');
        if (!p)
                return -EBADMSG;
        *ret = strtoul(p, NULL, 10);
        return 0;
}

static bool is_dead(pid_t pid)
{
        siginfo_t info = {0};

        return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

/* Where the kernel has no flags (gVisor) an exec is known by the name of the process, which it changes a moment after it
 * has closed descriptors. So an old name says something only about a dead process. A program could take the old name
 * again, if another program of its session reads that in the moment before the exec and passes it on; then it only
 * makes its own run fail. */
static int has_changed_name(int proc, pid_t pid, const char *name)
{
        const struct timespec pause = {.tv_nsec = 1000000};
        char now[TASK_NAME_MAX];
        unsigned long flags;

        for (int i = 0; i < NAME_LOOKS_MAX; i++) {
                bool dead = is_dead(pid); /* before the look: nothing changes after it */
                int r = read_flags(proc, pid, now, &flags);
                if (r < 0)
                        return r;
                if (strcmp(now, name) != 0 || dead)
                        return strcmp(now, name) != 0;
                (void)nanosleep(&pause, NULL);
        }
        return -ETIMEDOUT;
}

int tree_has_executed(int proc, pid_t pid, const char *name)
{
        char own_name[TASK_NAME_MAX], now[TASK_NAME_MAX];
        unsigned long own, flags;

        int r = read_flags(proc, getpid(), own_name, &own);
        if (r < 0)
                return r;
        if (!(own & FLAG_NOT_EXECUTED)) /* the caller has it, where there are flags */
                return has_changed_name(proc, pid, name);
        r = read_flags(proc, pid, now, &flags);
        return r < 0 ? r : !(flags & FLAG_NOT_EXECUTED);
}

static int by_pid(const void *a, const void *b)
{
        const struct task *x = a, *y = b;

        return x->pid < y->pid ? -1 : x->pid > y->pid;
}

int tree_read(struct tree *t)
{
        _Alignas(struct entry) char entries[8192];
        bool sorted = true;
        int r = 0;
        long n;

        t->n = 0;
        if (lseek(t->proc, 0, SEEK_SET) < 0)
                return -errno;
        while (r == 0 && (n = syscall(SYS_getdents64, t->proc, entries, sizeof(entries))) != 0) {
                if (n < 0)
                        return -errno;
                for (long at = 0; r == 0 && at < n;) {
                        const struct entry *e = (const struct entry *)(entries + at);
                        if (e->name[0] >= '1' && e->name[0] <= '9')
                                r = read_task(t, e->name);
                        at += e->size;
                }
        }
        for (size_t i = 1; i < t->n && sorted; i++)
                sorted = t->tasks[i - 1].pid < t->tasks[i].pid;
        if (!sorted) /* Linux lists them in order */
                qsort(t->tasks, t->n, sizeof(t->tasks[0]), by_pid);
        return r;
}

static struct task *find(struct tree *t, pid_t pid)
{
        struct task key = {.pid = pid};

        return bsearch(&key, t->tasks, t->n, sizeof(t->tasks[0]), by_pid);
}

static bool is_in(const pid_t *list, pid_t pid)
{
        for (; *list > 0; list++)
                if (*list == pid)
                        return true;
        return false;
}

/* Goes up from a task until it is certain, then notes that for all on the way: each task is passed once. The table is no one moment's picture,
 * so that the way may even be a circle: it has an end all the same. */
static void mark_one(struct tree *t, struct task *task, pid_t root, const pid_t *stops)
{
        struct task *up = task;
        int8_t below = 0;

        for (size_t steps = 0; up && steps <= t->n; steps++) {
                if (up->below >= 0 || is_in(stops, up->pid) || up->pid == root) {
                        below = up->below > 0;
                        break;
                }
                if (up->parent == root) {
                        below = 1;
                        break;
                }
                up = find(t, up->parent);
        }
        for (up = task; up && up->below < 0 && !is_in(stops, up->pid) && up->pid != root; up = find(t, up->parent))
                up->below = below;
        if (task->below < 0)
                task->below = below;
}

void tree_mark(struct tree *t, pid_t root, const pid_t *stops)
{
        for (size_t i = 0; i < t->n; i++)
                t->tasks[i].below = -1;
        for (size_t i = 0; i < t->n; i++)
                mark_one(t, &t->tasks[i], root, stops);
}

size_t tree_signal(const struct tree *t, int sig, size_t *ret_moving)
{
        const struct rlimit none = {0, 0};
        size_t n = 0, moving = 0;

        for (size_t i = 0; i < t->n; i++) {
                const struct task *task = &t->tasks[i];
                if (task->below != 1 || !task_is_alive(task))
                        continue;
                n++;
                moving += task->state != 'T' && task->state != 't';
                (void)prlimit(task->pid, RLIMIT_NPROC, &none, NULL); /* unlike a stop nobody can undo it */
                (void)kill(task->pid, sig);
        }
        if (ret_moving)
                *ret_moving = moving;
        return n;
}

int tree_set_owner(uint32_t number)
{
        const struct rlimit cpu = {OWNER_CPU_BASE + number, OWNER_CPU_BASE + number};
        const struct rlimit data = {OWNER_DATA_BASE - number, OWNER_DATA_BASE - number};

        return setrlimit(RLIMIT_CPU, &cpu) < 0 || setrlimit(RLIMIT_DATA, &data) < 0 ? -errno : 0;
}

int tree_owner(pid_t pid)
{
        struct rlimit cpu, data;

        if (prlimit(pid, RLIMIT_CPU, NULL, &cpu) < 0 || prlimit(pid, RLIMIT_DATA, NULL, &data) < 0)
                return 0; /* gone */
        if (cpu.rlim_max == RLIM_INFINITY && data.rlim_max == RLIM_INFINITY)
                return 0;
        uint64_t number = (uint64_t)cpu.rlim_max - OWNER_CPU_BASE;
        return number <= INT16_MAX && data.rlim_max == OWNER_DATA_BASE - number ? (int)number : -1;
}
