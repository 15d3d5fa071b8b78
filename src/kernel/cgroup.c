/* SPDX-License-Identifier: Apache-2.0
 *
 * A box's control groups: made, killed, removed, swept (cgroup_files.c: limits and counters). The
 * warden runs this: no allocation but in the sweep, and no path but names below the directories it
 * was given.
 *
 * Life of a directory. The maker makes it, opens it and takes its lock (flock) at once. Whoever
 * holds the lock owns the directory: the maker until it dies, then a sweeper. Between mkdir and
 * lock a sweeper may be faster; it removes the directory then, and the maker, which finds the lock
 * taken or the name gone, answers -EEXIST so that its caller takes another name. A directory is
 * removed while its lock is still held. */
#include "kernel/cgroup.h"

#include "base/fd.h"
#include "kernel/sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAME_DIGITS_MIN 8
#define NAME_DIGITS_MAX 32
#define KILL_ROUNDS_MAX 100
#define KILL_ROUND_USEC 1000
#define STOP_ROUNDS_MAX 50 /* of those in which processes are stopped first */
#define KILL_BATCH 64
#define REMOVE_WAIT_MIN_USEC 250
#define REMOVE_WAIT_MAX_USEC 16000
#define SWEEP_REMOVE_USEC 1000000

const char *cgroup_mode_name(enum cgroup_mode mode)
{
        switch (mode) {
        case CGROUP_MODE_V1:
                return "v1";
        case CGROUP_MODE_HYBRID:
                return "hybrid";
        case CGROUP_MODE_V2:
                return "v2";
        case CGROUP_MODE_NONE:
                break;
        }
        return "none";
}

static void sleep_usec(uint64_t usec)
{
        struct timespec ts = { .tv_sec = (time_t)(usec / 1000000), .tv_nsec = (long)(usec % 1000000) * 1000 };

        nanosleep(&ts, NULL);
}

/* ---- counters ---- */

int cgroup_box_read(const struct cgroup_box *b, struct cgroup_stats *ret)
{
        struct cgroup_stats stats = { 0 };

        for (int kind = 0; kind < CGROUP_KIND_COUNT; kind++) {
                if (b->dir[kind] < 0)
                        continue;
                int r = cgroup_read_stats(b->dir[kind], (enum cgroup_kind)kind, b->unified_controllers, &stats);
                if (r < 0)
                        return r;
        }
        *ret = stats;
        return 0;
}

/* ---- create ---- */

bool cgroup_name_is_ours(const char *name)
{
        size_t prefix = strlen(CGROUP_NAME_PREFIX);

        if (strncmp(name, CGROUP_NAME_PREFIX, prefix) != 0)
                return false;
        size_t digits = strspn(name + prefix, "0123456789abcdef");
        return digits >= NAME_DIGITS_MIN && digits <= NAME_DIGITS_MAX && name[prefix + digits] == '\0';
}

/* Is the directory behind fd still the one with this name? A removed one can still be locked. */
static bool still_named(int parent, const char *name, int fd)
{
        struct stat a, b;

        return fstat(fd, &a) == 0 && fstatat(parent, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
               a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int open_locked(int parent, const char *name)
{
        _cleanup_close_ int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                return -errno;
        if (!still_named(parent, name, fd))
                return -ENOENT;
        return TAKE_FD(fd);
}

static int make_locked(int parent, const char *name)
{
        /* Nobody else may open it: whoever held its lock could keep it from being swept. */
        if (mkdirat(parent, name, 0700) < 0)
                return -errno;

        int fd = open_locked(parent, name);
        if (fd == -ENOENT || fd == -EWOULDBLOCK)
                return -EEXIST; /* a sweeper was faster, and removes it */
        if (fd < 0)
                (void)unlinkat(parent, name, AT_REMOVEDIR);
        return fd;
}

/* v1 controllers can share a hierarchy (cpu,cpuacct): one directory serves both then. places[] are those of the kinds before. */
static int make_or_share(struct cgroup_box *b, int kind, struct stat places[static CGROUP_KIND_COUNT])
{
        if (fstat(b->parent[kind], &places[kind]) < 0)
                return -errno;
        for (int k = 0; k < kind; k++) {
                if (b->dir[k] < 0 || places[k].st_dev != places[kind].st_dev || places[k].st_ino != places[kind].st_ino)
                        continue;
                int fd = fcntl(b->dir[k], F_DUPFD_CLOEXEC, 3);
                return fd < 0 ? -errno : fd;
        }
        return make_locked(b->parent[kind], b->name);
}

static int box_fill(struct cgroup_box *b, const struct cgroup_limits *limits)
{
        struct stat places[CGROUP_KIND_COUNT];

        for (int kind = 0; kind < CGROUP_KIND_COUNT; kind++) {
                if (b->parent[kind] < 0)
                        continue;
                int fd = make_or_share(b, kind, places);
                if (fd < 0)
                        return fd;
                b->dir[kind] = fd;
                if (kind == CGROUP_UNIFIED && !b->unified_controllers)
                        continue;
                int r = cgroup_apply_limits(fd, (enum cgroup_kind)kind, limits);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* No limit is dropped in silence. */
static bool can_carry(const struct cgroup_box *b, const struct cgroup_limits *limits)
{
        if (b->unified_controllers)
                return b->parent[CGROUP_UNIFIED] >= 0;
        return (limits->memory_bytes == 0 || b->parent[CGROUP_MEMORY] >= 0) &&
               (limits->pids == 0 || b->parent[CGROUP_PIDS] >= 0) &&
               (limits->cpu_milli == 0 || b->parent[CGROUP_CPU] >= 0);
}

int cgroup_box_create(struct cgroup_box *ret, const int parents[CGROUP_KIND_COUNT], bool unified_controllers,
                      const char *name, const struct cgroup_limits *limits)
{
        struct cgroup_box b = { .unified_controllers = unified_controllers };

        if (!cgroup_name_is_ours(name))
                return -EINVAL;
        snprintf(b.name, sizeof(b.name), "%s", name);
        for (int kind = 0; kind < CGROUP_KIND_COUNT; kind++) {
                b.parent[kind] = parents[kind];
                b.dir[kind] = -1;
        }
        if (!can_carry(&b, limits))
                return -EOPNOTSUPP;

        int r = box_fill(&b, limits);
        if (r < 0) {
                (void)cgroup_box_remove(&b, 0);
                return r;
        }
        *ret = b;
        return 0;
}

int cgroup_box_open_join(const struct cgroup_box *b, int ret_fds[CGROUP_KIND_COUNT])
{
        int n = 0;

        for (int kind = CGROUP_MEMORY; kind < CGROUP_KIND_COUNT; kind++) {
                if (b->dir[kind] < 0)
                        continue;
                int fd = openat(b->dir[kind], "tasks", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
                if (fd < 0) {
                        int r = -errno;
                        while (n > 0)
                                safe_close(ret_fds[--n]);
                        return r;
                }
                ret_fds[n++] = fd;
        }
        return n;
}

int cgroup_box_open_procs(const struct cgroup_box *b)
{
        if (!b->unified_controllers || b->dir[CGROUP_UNIFIED] < 0)
                return -ENOENT;
        int fd = openat(b->dir[CGROUP_UNIFIED], "cgroup.procs", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
        return fd < 0 ? -errno : fd;
}

/* ---- kill ---- */

const char *cgroup_next_pid(const char *p, const char *end, pid_t *ret)
{
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        int64_t value = 0;

        if (!newline)
                return NULL;
        for (; p < newline && value >= 0; p++) {
                if (*p < '0' || *p > '9')
                        value = -1;
                else
                        value = value * 10 + (*p - '0');
                if (value > INT32_MAX)
                        value = -1;
        }
        /* 0 and -1 would be whole groups of processes for kill() */
        *ret = value > 0 ? (pid_t)value : 0;
        return newline + 1;
}

/* The processes that a pass is about to kill. The kernel lists numbers, and a number may belong to another process by
 * the time it is signalled. So the pass opens pidfds, reads the list again and signals only the processes that are
 * still listed: their number was theirs all the time. */
struct doomed {
        int dirfd, signal;
        bool (*spare)(const void *data, pid_t pid); /* NULL: nobody is spared */
        const void *data;
        size_t n, alive;
        struct {
                pid_t pid;
                int fd;
                bool listed;
        } of[KILL_BATCH];
};

typedef int (*pid_fn)(struct doomed *d, pid_t pid);

/* Calls take() for each line of cgroup.procs. Opens the file each time: a v1 kernel shows one snapshot per open file. */
static int for_each_listed(struct doomed *d, pid_fn take)
{
        _cleanup_close_ int fd = openat(d->dirfd, "cgroup.procs", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        char text[4096];
        size_t used = 0;

        if (fd < 0)
                return -errno;
        for (;;) {
                ssize_t n = read(fd, text + used, sizeof(text) - used);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : 0;
                used += (size_t)n;

                const char *p = text, *next;
                pid_t pid;
                for (; (next = cgroup_next_pid(p, text + used, &pid)); p = next) {
                        int r = take(d, pid);
                        if (r < 0)
                                return r;
                }
                used -= (size_t)(p - text);
                memmove(text, p, used);
                if (used == sizeof(text))
                        return -EINVAL;
        }
}

static int mark_listed(struct doomed *d, pid_t pid)
{
        for (size_t i = 0; i < d->n; i++)
                if (d->of[i].pid == pid)
                        d->of[i].listed = true;
        return 0;
}

static int kill_batch(struct doomed *d)
{
        int r = d->n > 0 ? for_each_listed(d, mark_listed) : 0;

        while (d->n > 0) {
                d->n--;
                if (r == 0 && d->of[d->n].listed)
                        (void)sys_pidfd_send_signal(d->of[d->n].fd, d->signal);
                safe_close(d->of[d->n].fd);
        }
        return r;
}

/* A process of another pid namespace has number 0; it cannot be signalled, but counts as alive. So does one for which
 * there is no descriptor left: the next pass tries again. */
static int doom(struct doomed *d, pid_t pid)
{
        if (d->spare && d->spare(d->data, pid))
                return 0;
        d->alive++;
        int fd = pid > 0 && pid != getpid() ? sys_pidfd_open(pid) : -1;
        if (fd < 0)
                return 0;
        d->of[d->n].pid = pid;
        d->of[d->n].fd = fd;
        d->of[d->n].listed = false;
        d->n++;
        return d->n == ARRAY_SIZE(d->of) ? kill_batch(d) : 0;
}

/* One pass over cgroup.procs. */
static int signal_listed(struct doomed *d)
{
        d->alive = 0;
        int r = for_each_listed(d, doom), rest = kill_batch(d);

        return r < 0 ? r : rest;
}

/* The v1 freezer is not needed against forks in the meantime: the box is one pid namespace, which
 * dies with its first process as a whole, and what forks is found in the next round. */
static int kill_dir(int dirfd)
{
        int r = file_write_at(dirfd, "cgroup.kill", "1"); /* v2 only, since Linux 5.14 */
        if (r != -ENOENT)
                return r;

        struct doomed d = { .dirfd = dirfd, .signal = SIGKILL };
        for (int round = 0; round < KILL_ROUNDS_MAX; round++) {
                r = signal_listed(&d);
                if (r == -ENOENT || r == -ENODEV)
                        return 0; /* the group is gone */
                if (r < 0)
                        return r;
                if (d.alive == 0)
                        return 0;
                sleep_usec(KILL_ROUND_USEC);
        }
        return -EBUSY;
}

int cgroup_box_clear(const struct cgroup_box *b, bool (*spare)(const void *data, pid_t pid), const void *data)
{
        int dir = b->dir[b->unified_controllers ? CGROUP_UNIFIED : CGROUP_PIDS], r = -EBUSY;
        struct doomed d = { .dirfd = dir, .signal = SIGSTOP, .spare = spare, .data = data };
        size_t most = 0;

        for (int round = 0; round < KILL_ROUNDS_MAX; round++) {
                r = signal_listed(&d);
                if (r == -ENOENT || r == -ENODEV)
                        return (int)most; /* the group is gone */
                if (r == 0 && d.alive == 0)
                        return (int)most;
                if (d.signal == SIGKILL)
                        sleep_usec(KILL_ROUND_USEC);
                /* As long as there are more than before, some of them have forked before they were stopped. After an error they are killed as well:
                 * none must stay behind stopped. */
                if (d.alive <= most || r < 0 || round >= STOP_ROUNDS_MAX)
                        d.signal = SIGKILL;
                most = MAX(most, d.alive);
        }
        return r < 0 ? r : -EBUSY;
}

int cgroup_box_kill(const struct cgroup_box *b)
{
        int result = 0;

        /* Where the kernel kills the whole unified group at once, everything is in it. */
        if (b->dir[CGROUP_UNIFIED] >= 0 && file_write_at(b->dir[CGROUP_UNIFIED], "cgroup.kill", "1") == 0)
                return 0;
        for (int kind = 0; kind < CGROUP_KIND_COUNT; kind++) {
                int r = b->dir[kind] < 0 ? 0 : kill_dir(b->dir[kind]);
                if (r < 0 && result == 0)
                        result = r;
        }
        return result;
}

/* ---- remove ---- */

static int remove_dir(int parent, const char *name, uint64_t deadline_usec)
{
        uint64_t wait_usec = REMOVE_WAIT_MIN_USEC;

        for (;;) {
                if (unlinkat(parent, name, AT_REMOVEDIR) == 0)
                        return 0;
                if (errno != EBUSY)
                        return -errno;
                if (monotonic_usec() >= deadline_usec)
                        return -EBUSY;
                sleep_usec(wait_usec); /* the last task is still on its way out */
                wait_usec = MIN(wait_usec * 2, (uint64_t)REMOVE_WAIT_MAX_USEC);
        }
}

int cgroup_box_remove(struct cgroup_box *b, uint64_t timeout_usec)
{
        uint64_t deadline = monotonic_usec() + timeout_usec;
        int result = 0;

        for (int kind = 0; kind < CGROUP_KIND_COUNT; kind++) {
                if (b->dir[kind] < 0)
                        continue;
                /* -ENOENT: it was shared with a kind before */
                int r = remove_dir(b->parent[kind], b->name, deadline);
                if (r < 0 && r != -ENOENT && result == 0)
                        result = r;
        }
        for (int kind = 0; kind < CGROUP_KIND_COUNT; kind++)
                b->dir[kind] = safe_close(b->dir[kind]);
        return result;
}

/* ---- sweep ---- */

static void closedir_ptr(DIR **d)
{
        if (*d)
                closedir(*d);
}

static bool sweep_one(int parent, const char *name)
{
        _cleanup_close_ int fd = open_locked(parent, name);
        if (fd < 0)
                return false; /* its maker lives (-EWOULDBLOCK), or it is gone already */
        (void)kill_dir(fd);   /* whatever came of it: removing says whether it is empty */
        return remove_dir(parent, name, monotonic_usec() + SWEEP_REMOVE_USEC) == 0;
}

static int sweep_parent(int parent)
{
        _cleanup_close_ int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;

        _cleanup_(closedir_ptr) DIR *d = fdopendir(fd);
        if (!d)
                return -errno;
        (void)TAKE_FD(fd);

        int removed = 0;
        for (struct dirent *e; (e = readdir(d));)
                if (cgroup_name_is_ours(e->d_name) && sweep_one(parent, e->d_name))
                        removed++;
        return removed;
}

int cgroup_sweep(const int parents[CGROUP_KIND_COUNT])
{
        int removed = 0, error = 0;

        for (int kind = 0; kind < CGROUP_KIND_COUNT; kind++) {
                if (parents[kind] < 0)
                        continue;
                int r = sweep_parent(parents[kind]);
                if (r < 0)
                        error = r;
                else
                        removed += r;
        }
        return removed == 0 && error < 0 ? error : removed;
}
