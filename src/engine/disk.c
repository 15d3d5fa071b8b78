/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/disk.h"

#include "base/fd.h"
#include "base/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* A run must not fill the host's disk, whatever it hides from the walk (files it has unlinked and
 * keeps open): below this much free space it ends. */
#define FREE_FLOOR_BYTES (1 * GIB)
/* A name that is a directory, then none, so many times in a row is replaced on purpose. */
#define REPLACED_MAX 8
#define INODES_CHANGED 16 /* as many files or more are worth a look */

#define PAGE_BYTES_MIN 4096 /* a smaller file takes as much */

struct walk {
        DIR *stack[DISK_DEPTH_MAX];
        int depth;
        const struct disk_time *since;
        struct disk_usage usage;
};

/* All that is asked of a file, in one call: two could be about two files. */
static int look(int dir, const char *name, int flags, struct statx *ret)
{
        return statx(dir, name, flags | AT_NO_AUTOMOUNT, STATX_BASIC_STATS | STATX_BTIME, ret) < 0 ? -errno : 0;
}

static bool is_older(const struct statx_timestamp *at, const struct timespec *than)
{
        return at->tv_sec != than->tv_sec ? at->tv_sec < than->tv_sec : (int64_t)at->tv_nsec < than->tv_nsec;
}

static bool is_younger(const struct statx_timestamp *at, const struct timespec *than)
{
        return at->tv_sec != than->tv_sec ? at->tv_sec > than->tv_sec : (int64_t)at->tv_nsec > than->tv_nsec;
}

static void add(struct disk_usage *usage, const struct statx *st, const struct disk_time *since)
{
        /* A file with many names is counted once, in parts. */
        uint64_t names = S_ISDIR(st->stx_mode) || st->stx_nlink == 0 ? 1 : st->stx_nlink, taken = st->stx_blocks * 512;

        usage->inodes++;
        usage->bytes += taken / names;
        usage->set_id += S_ISREG(st->stx_mode) && st->stx_mode & (S_ISUID | S_ISGID);
        /* A file system may give a file more than it holds, ahead of time or in large pieces. */
        uint64_t held = MIN(taken, (st->stx_size + PAGE_BYTES_MIN - 1) / PAGE_BYTES_MIN * PAGE_BYTES_MIN);
        usage->held_bytes += held / names;
        if (!since || !(st->stx_mask & STATX_BTIME) || is_older(&st->stx_btime, &since->tick))
                return;
        bool is_new = is_younger(&st->stx_btime, &since->now);
        *(is_new ? &usage->new_inodes : &usage->tick_inodes) += 1;
        *(is_new ? &usage->new_bytes : &usage->tick_bytes) += held / names;
        usage->ahead_bytes += (taken - held) / names;
}

static int push(struct walk *w, int fd)
{
        DIR *dir = fd < 0 ? NULL : fdopendir(fd); /* fd < 0: errno is that of openat() */

        if (!dir) {
                int errnum = errno;
                safe_close(fd);
                return -errnum;
        }
        w->stack[w->depth++] = dir;
        return 0;
}

static bool is_closed(int errnum)
{
        return errnum == EACCES || errnum == EPERM;
}

/* Looks at that name: 1, with *ret_fd open or a negative errno for a directory that can be descended into;
 * 0 when it is gone again; or a negative errno. A directory that was replaced between two calls is looked at again. */
static int look_at(const struct walk *w, const char *name, struct statx *ret, int *ret_fd)
{
        int parent = dirfd(w->stack[w->depth - 1]), errnum = 0;

        *ret_fd = -1;
        for (int i = 0; i < REPLACED_MAX; i++) {
                int r = look(parent, name, AT_SYMLINK_NOFOLLOW, ret);
                if (r < 0)
                        return r == -ENOENT ? 0 : r;
                if (!S_ISDIR(ret->stx_mode) || w->depth == DISK_DEPTH_MAX)
                        return 1;
                *ret_fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
                if (*ret_fd >= 0)
                        return 1;
                errnum = errno;
                if (errnum != ENOENT && errnum != ENOTDIR && errnum != ELOOP)
                        break;
        }
        bool replaced = errnum == ENOENT || errnum == ENOTDIR || errnum == ELOOP;
        *ret_fd = replaced ? -EACCES : -errnum;
        return 1;
}

/* 0, or a negative errno: it could not be counted. */
static int visit(struct walk *w, const char *name)
{
        struct statx st;
        int fd;

        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                return 0;
        int r = look_at(w, name, &st, &fd);
        if (r < 0 && is_closed(-r)) {
                w->usage.hidden++; /* a directory that can be listed and not searched */
                return 0;
        }
        if (r <= 0)
                return r;
        add(&w->usage, &st, w->since);
        if (!S_ISDIR(st.stx_mode))
                return 0;
        if (w->depth == DISK_DEPTH_MAX || (fd < 0 && is_closed(-fd))) {
                w->usage.hidden++;
                return 0;
        }
        return fd < 0 ? fd : push(w, fd);
}

/* The last directory is read. r: what has happened so far, and what this returns when nothing else does. */
static int pop(struct walk *w, int r)
{
        DIR *dir = w->stack[--w->depth];
        struct statx st;

        if (r == 0 && w->since && !w->usage.stirred) {
                r = look(dirfd(dir), "", AT_EMPTY_PATH, &st);
                w->usage.stirred = r == 0 && !is_older(&st.stx_ctime, &w->since->tick);
        }
        closedir(dir);
        return r;
}

static int measure_file(int fd, const struct disk_time *since, struct disk_usage *usage)
{
        struct statx st;
        int r = look(fd, "", AT_EMPTY_PATH, &st);

        if (r == 0)
                add(usage, &st, since);
        return r;
}

int disk_measure(int fd, uint64_t max_inodes, const struct disk_time *since, struct disk_usage *usage)
{
        _cleanup_free_ struct walk *w = calloc(1, sizeof(*w));

        if (!w)
                return -ENOMEM;
        w->since = since;
        w->usage = *usage;
        int r = push(w, openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (r == -ENOTDIR)
                return measure_file(fd, since, usage);
        if (r < 0)
                return r;
        while (w->depth > 0) {
                errno = 0;
                struct dirent *entry = r == 0 ? readdir(w->stack[w->depth - 1]) : NULL;
                if (!entry && r == 0)
                        r = -errno; /* 0: the end of the directory */
                if (!entry || w->usage.inodes > max_inodes)
                        r = pop(w, r);
                else
                        r = visit(w, entry->d_name);
        }
        if (r == 0)
                *usage = w->usage;
        return r;
}

/* ret_inodes: or NULL. */
static int free_room(int fd, uint64_t *ret_bytes, uint64_t *ret_inodes)
{
        struct statfs st;

        if (fstatfs(fd, &st) < 0)
                return -errno;
        *ret_bytes = (uint64_t)st.f_bavail * (uint64_t)st.f_bsize;
        if (ret_inodes)
                *ret_inodes = (uint64_t)st.f_ffree;
        return 0;
}

void disk_watch_init(struct disk_watch *w, uint64_t limit_bytes, uint64_t limit_inodes)
{
        *w = (struct disk_watch){.limit_bytes = limit_bytes, .limit_inodes = limit_inodes};
}

int disk_watch_add(struct disk_watch *w, int fd)
{
        if (w->n >= DISK_PLACES_MAX)
                return -E2BIG;
        uint64_t room = 0;
        int r = free_room(fd, &room, &w->free_inodes[w->n]);
        if (r < 0)
                return r;
        /* Where a run cannot reach the floor within its limit there is none: a small file system, or
         * a directory whose quota shows as its size. */
        w->free[w->n] = room;
        w->floors[w->n] = room > w->limit_bytes * 2 ? MIN((uint64_t)FREE_FLOOR_BYTES, room / 2) : 0;
        w->fds[w->n++] = fd;
        return disk_measure(fd, UINT64_MAX - 1, NULL, &w->before);
}

static uint64_t grown(uint64_t now, uint64_t before)
{
        return now > before ? now - before : 0;
}

void disk_time_get(struct disk_time *ret)
{
        (void)clock_gettime(CLOCK_REALTIME_COARSE, &ret->tick);
        (void)clock_gettime(CLOCK_REALTIME, &ret->now);
}

static bool is_over(const struct disk_watch *w, uint64_t bytes, uint64_t inodes)
{
        return bytes > w->limit_bytes || inodes > w->limit_inodes;
}

static void take(struct disk_watch *w, uint64_t bytes, uint64_t inodes)
{
        w->bytes = bytes;
        w->inodes = inodes;
        w->peak_bytes = MAX(w->peak_bytes, bytes);
        w->peak_inodes = MAX(w->peak_inodes, inodes);
}

bool disk_watch_exceeds(struct disk_watch *w, const struct disk_usage *now, uint64_t spare_bytes)
{
        uint64_t bytes = grown(grown(now->bytes, w->before.bytes), spare_bytes), inodes = grown(now->inodes, w->before.inodes);
        bool over = is_over(w, bytes, inodes);

        if (over)
                take(w, bytes, inodes);
        return over;
}

enum disk_state disk_watch_look(struct disk_watch *w)
{
        uint64_t start = monotonic_usec();
        struct disk_usage now = {0};

        disk_time_get(&w->since);
        w->error = 0;
        for (size_t i = 0; i < w->n; i++) {
                int r = disk_measure(w->fds[i], w->before.inodes + w->limit_inodes * DISK_COUNTED_LIMITS, &w->since, &now);
                int e = free_room(w->fds[i], &w->free[i], &w->free_inodes[i]);
                now.hidden += r < 0 && is_closed(-r);
                r = r < 0 && is_closed(-r) ? 0 : r;
                w->error = w->error != 0 ? w->error : r < 0 ? -r : -e;
        }
        w->looked_usec = monotonic_usec();
        w->took_usec = w->looked_usec - start;
        uint64_t bytes = grown(now.bytes, w->before.bytes), inodes = grown(now.inodes, w->before.inodes);
        bool over = is_over(w, bytes, inodes);
        /* A part of it is enough to see that it is too much, and for nothing else. */
        w->whole = over || (now.hidden == 0 && w->error == 0);
        w->counted = !over && w->whole;
        w->now = now;
        if (w->whole)
                take(w, bytes, inodes);
        if (over)
                return DISK_OVER;
        if (!w->whole)
                return DISK_HIDDEN;
        for (size_t i = 0; i < w->n; i++)
                if (w->free[i] < w->floors[i])
                        return DISK_HOST_FULL;
        return DISK_FINE;
}

enum disk_state disk_watch_glance(struct disk_watch *w)
{
        for (size_t i = 0; i < w->n; i++) {
                uint64_t now = 0;
                if (free_room(w->fds[i], &now, NULL) < 0)
                        return DISK_OVER; /* the look reports the reason */
                if (now < w->floors[i])
                        return DISK_HOST_FULL;
                if (grown(w->free[i], now) > w->limit_bytes)
                        return DISK_OVER; /* somebody wrote that much since the last look: us? */
        }
        return DISK_FINE;
}

static bool differs(uint64_t a, uint64_t b, uint64_t by)
{
        return MAX(a, b) - MIN(a, b) >= by;
}

bool disk_watch_changed(const struct disk_watch *w, uint64_t bytes)
{
        for (size_t i = 0; i < w->n; i++) {
                uint64_t room = 0, inodes = 0;
                if (free_room(w->fds[i], &room, &inodes) == 0 && (differs(room, w->free[i], bytes) || differs(inodes, w->free_inodes[i], INODES_CHANGED)))
                        return true;
        }
        return false;
}

int disk_watch_count(struct disk_watch *w, uint64_t max_inodes, const struct disk_time *since, struct disk_usage *ret)
{
        struct disk_usage now = {0};

        for (size_t i = 0; i < w->n; i++) {
                int r = free_room(w->fds[i], &w->free[i], &w->free_inodes[i]);
                if (r == 0)
                        r = disk_measure(w->fds[i], w->before.inodes + max_inodes, since, &now);
                if (r < 0)
                        return r;
        }
        if (now.hidden > 0 || now.inodes > w->before.inodes + max_inodes)
                return -EOVERFLOW;
        *ret = now;
        return 0;
}

void disk_watch_forgive(struct disk_watch *w, uint64_t bytes, uint64_t inodes, const struct disk_usage *now)
{
        bytes = MIN(bytes, grown(now->bytes, w->before.bytes));
        inodes = MIN(inodes, grown(now->inodes, w->before.inodes));
        w->before.bytes += bytes;
        w->before.inodes += inodes;
}
