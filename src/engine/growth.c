/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/growth.h"

#include "base/fd.h"
#include "base/limits.h"

#include <linux/magic.h>
#include <poll.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>
#include <time.h>

/* File systems on which the writing process spends the processor time. On others a server or device may do the
 * copying. */
static const unsigned long file_systems[] = {
        EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC, TMPFS_MAGIC, OVERLAYFS_SUPER_MAGIC,
};

/* Upper bounds for one processor and microsecond. Data is copied or zeroed by the writer's processor, at about 6 KiB
 * (measured with ext4, also for mapped pages). Calls that allocate space in other ways are refused: see
 * kernel/seccomp/profile.def. */
#define BYTES_PER_USEC 32768ULL
#define INODES_PER_USEC 2ULL
#define READY_MSEC 250 /* in which an interpreter is up, mostly; a run that starts one waits for no more */
#define OVERSHOOT_BYTES (256 * MIB) /* more than is written between two looks */
#define MARK_CPU_USEC 50000ULL /* in which 1.6 GB can be written: a mark is not kept for longer */
/* The kernel adds the time of a process that is running to the counter at the next tick of the clock: 10 ms on the slowest. */
#define TICK_USEC 11000ULL
/* Above this count, files of the host are not counted before each run; then all growth is the code's. */
#define FORGIVEN_INODES_MAX 1000000ULL

/* A change of the file systems that is worth a look before a run: nearly all of them where a look is quick. */
#define QUICK_LOOK_USEC 5000ULL
#define LAST_LOOK_USEC 500ULL /* a look that takes no longer is made at the end of each run */
#define CHANGE_BYTES_MIN (64 * KIB)
#define CHANGE_BYTES_SLOW (16 * MIB)

uint64_t growth_unexplained(uint64_t grown, uint64_t cpu_usec, uint64_t per_usec)
{
        return cpu_usec < grown / per_usec ? grown - cpu_usec * per_usec : 0;
}

uint64_t growth_credit(struct growth_credit *c, uint64_t unexplained)
{
        c->unexplained += unexplained > c->since_mark ? unexplained - c->since_mark : 0;
        c->since_mark = MAX(c->since_mark, unexplained);
        uint64_t taken = c->reserved + c->given, credit = c->unexplained > taken ? c->unexplained - taken : 0;
        c->given += credit;
        return credit;
}

static uint64_t grown(uint64_t now, uint64_t before)
{
        return now > before ? now - before : 0;
}

static void wait_for_tick(void)
{
        struct timespec tick = {.tv_nsec = TICK_USEC * 1000};

        (void)nanosleep(&tick, NULL);
}

static bool is_known(int fd)
{
        struct statfs fs;

        if (fstatfs(fd, &fs) < 0)
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(file_systems); i++)
                if ((unsigned long)fs.f_type == file_systems[i])
                        return true;
        return false;
}

/* Old processor time does not show what was written since. */
static bool is_exact(const struct box_usage *usage)
{
        return usage->cpu_known && !usage->cpu_is_old;
}

/* Processor time that the box used since the mark. Before the first run nothing of the code was there to use any. */
static bool cpu_since_mark(struct session *s, uint64_t *ret)
{
        const struct growth_mark *m = &s->places.mark;
        struct box_usage now;

        *ret = 0;
        if (!m->code_ran)
                return true;
        for (size_t i = 0; i < s->places.disk.n; i++)
                if (!is_known(s->places.disk.fds[i]))
                        return false;
        wait_for_tick();
        if (!m->cpu_known || session_usage(s, &now, NULL) < 0 || !is_exact(&now))
                return false;
        *ret = grown(now.cpu_usec, m->cpu_usec);
        return true;
}

/* Growth since the mark, of bytes or of inodes. */
struct growth {
        uint64_t total;            /* all of it */
        uint64_t later, same_tick; /* of files that were born after the mark, and in its tick */
};

/* The part that processor time cannot explain. Each line is a lower bound by itself. The code can show an older file at no cost, if the look at the mark has
 * missed it. tick_usec explains files of the tick only. */
static uint64_t not_ours(const struct growth *g, const struct growth_mark *m, uint64_t cpu_usec, uint64_t per_usec)
{
        uint64_t later = growth_unexplained(g->later, cpu_usec, per_usec);
        uint64_t young = growth_unexplained(g->later + g->same_tick, cpu_usec + m->tick_usec, per_usec);
        uint64_t total = m->is_whole ? growth_unexplained(g->total, cpu_usec, per_usec) : 0;

        young = MAX(later, young);
        return MAX(total, young);
}

/* Attributes unexplained growth to the host. Before the first code runs that is all of it. */
static void forgive(struct session *s, const struct disk_usage *now)
{
        struct growth_mark *m = &s->places.mark;
        struct growth bytes = {grown(now->held_bytes, m->held_bytes), grown(now->new_bytes, m->new_bytes), grown(now->tick_bytes, m->tick_bytes)};
        struct growth inodes = {grown(now->inodes, m->inodes), grown(now->new_inodes, m->new_inodes), grown(now->tick_inodes, m->tick_inodes)};
        uint64_t cpu, ahead = now->ahead_bytes;

        m->ahead_bytes = 0;
        if (bytes.total + bytes.later + bytes.same_tick + inodes.total + inodes.later + inodes.same_tick + ahead == 0 || !cpu_since_mark(s, &cpu))
                return;
        uint64_t given = not_ours(&bytes, m, cpu, BYTES_PER_USEC), given_inodes = not_ours(&inodes, m, cpu, INODES_PER_USEC);
        bytes.same_tick += ahead;
        m->ahead_bytes = not_ours(&bytes, m, cpu, BYTES_PER_USEC) - given;
        disk_watch_forgive(&s->places.disk, growth_credit(&m->bytes_credit, given), growth_credit(&m->inodes_credit, given_inodes), now);
}

static uint64_t since_tick_usec(const struct disk_time *t)
{
        int64_t nsec = (t->now.tv_sec - t->tick.tv_sec) * 1000000000 + t->now.tv_nsec - t->tick.tv_nsec;

        return nsec > 0 ? (uint64_t)nsec / 1000 : 0;
}

static bool is_before(const struct timespec *a, const struct timespec *b)
{
        return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

static void set_time(struct growth_mark *m, const struct disk_time *at, const struct box_usage *usage)
{
        if (is_before(&m->time.now, &at->tick))
                m->cpu_before_usec = m->cpu_usec;
        m->time = *at;
        m->cpu_usec = usage->cpu_usec;
        m->cpu_known = is_exact(usage);
}

static void set_mark(struct places *p, const struct box_usage *usage)
{
        struct growth_mark *m = &p->mark;
        const struct disk_usage *at = &p->disk.now;

        set_time(m, &p->disk.since, usage);
        m->bytes = m->judged_bytes = at->bytes;
        m->held_bytes = at->held_bytes;
        m->inodes = at->inodes;
        m->is_whole = !at->stirred;
        m->tick_bytes = at->tick_bytes;
        m->tick_inodes = at->tick_inodes;
        m->new_bytes = at->new_bytes;
        m->new_inodes = at->new_inodes;
        m->tick_usec = at->stirred ? MIN(since_tick_usec(&m->time) * (uint64_t)get_nprocs(), grown(m->cpu_usec, m->cpu_before_usec)) : 0;
        m->bytes_credit.since_mark = m->inodes_credit.since_mark = 0;
}

/* Moves the mark to the last look; usage was read before it. Keeps the mark while growth may be the host's: a file
 * still being written would be older than a new mark. */
static void move_mark(struct places *p, const struct box_usage *usage)
{
        struct growth_mark *m = &p->mark;
        const struct disk_usage *at = &p->disk.now;
        bool known = m->cpu_known && is_exact(usage), more = at->bytes > m->bytes || at->inodes > m->inodes;

        if (p->disk.counted && !(known && more && grown(usage->cpu_usec, m->cpu_usec) < MARK_CPU_USEC))
                set_mark(p, usage);
}

/* Counts all that is there and gives the host what is its own. */
static bool give_to_host(struct session *s, struct disk_usage *ret)
{
        struct growth_mark *m = &s->places.mark;

        if (disk_watch_count(&s->places.disk, FORGIVEN_INODES_MAX, &m->time, ret) < 0)
                return false;
        forgive(s, ret);
        m->judged_bytes = ret->bytes;
        if (m->code_ran)
                return true;
        m->bytes = ret->bytes;
        m->held_bytes = ret->held_bytes;
        m->inodes = ret->inodes;
        m->bytes_credit.since_mark = m->inodes_credit.since_mark = 0;
        return true;
}

void growth_judge(struct session *s)
{
        struct disk_watch *w = &s->places.disk;
        uint64_t start = monotonic_usec();
        struct disk_usage now;

        if (start < s->places.mark.next_usec)
                return;
        bool pending = w->counted && w->now.bytes > s->places.mark.judged_bytes;
        if (!pending && !disk_watch_changed(w, w->took_usec <= QUICK_LOOK_USEC ? CHANGE_BYTES_MIN : CHANGE_BYTES_SLOW))
                return;
        (void)give_to_host(s, &now);
        s->places.mark.next_usec = start + (monotonic_usec() - start) * 10;
        s->places.next_usec = 0; /* what is the code's may be too much */
}

/* Not while somebody starts a program just now. */
static bool usage_at_once(struct session *s, struct box_usage *ret)
{
        if (pthread_mutex_trylock(&s->backend_lock) != 0)
                return false;
        int r = s->backend->session_usage(s->box, ret, NULL);
        pthread_mutex_unlock(&s->backend_lock);
        return r == 0;
}

bool growth_look(struct exec *x, bool due)
{
        struct session *s = x->session;
        struct run_facts *f = &x->result->facts;
        struct disk_watch *w = &s->places.disk, before = *w;
        struct box_usage asked;
        struct disk_usage now;

        if (due && !places_are_due(&s->places))
                return false;
        bool known = usage_at_once(s, &asked), over = places_look(&s->places, f);
        if (known && !over)
                move_mark(&s->places, &asked);
        if (!over || f->disk_hidden || f->host_full || !give_to_host(s, &now))
                return over;
        w->peak_bytes = before.peak_bytes;
        w->peak_inodes = before.peak_inodes;
        /* Judged by what was counted before the processor time was read: the host may still be writing. Room that it reserves for a file is nobody's until the
         * file's size shows it. */
        if (disk_watch_exceeds(w, &now, s->places.mark.ahead_bytes))
                return true;
        before = *w;
        (void)places_look(&s->places, f);
        w->peak_bytes = before.peak_bytes;
        w->peak_inodes = before.peak_inodes;
        return f->disk_hidden || f->host_full;
}

/* Before the first code. */
static void begin_mark(struct growth_mark *m, const struct box_usage *usage)
{
        m->code_ran = true;
        m->cpu_usec = m->cpu_before_usec = usage->cpu_usec;
        m->cpu_known = is_exact(usage);
        disk_time_get(&m->time);
        m->time.tick = m->time.now; /* exclude this tick: its files were already attributed */
}

void growth_start(struct session *s)
{
        struct box_usage usage = {0};

        if (!places_are_watched(&s->places))
                return;
        pthread_mutex_lock(&s->disk_lock);
        if (!s->places.mark.code_ran) {
                growth_judge(s);
                (void)session_usage(s, &usage, NULL); /* if that fails, all growth is the code's */
                begin_mark(&s->places.mark, &usage);
        }
        pthread_mutex_unlock(&s->disk_lock);
}

void growth_settle(struct session *s, int ready)
{
        struct pollfd wait = {.fd = ready, .events = POLLIN};
        struct box_usage usage;

        if (!places_are_watched(&s->places))
                return;
        (void)poll(&wait, 1, READY_MSEC);
        pthread_mutex_lock(&s->disk_lock);
        if (session_usage(s, &usage, NULL) == 0 && disk_watch_look(&s->places.disk) != DISK_HIDDEN && s->places.disk.counted)
                set_mark(&s->places, &usage);
        pthread_mutex_unlock(&s->disk_lock);
}

/* Each run can write something before it is seen to. Beyond this the next one does not begin, or there would be no limit to what many write. */
static int check_room(struct disk_watch *w, gb_error *err)
{
        uint64_t most = w->limit_bytes + MAX(w->limit_bytes, OVERSHOOT_BYTES);

        if (w->bytes <= w->limit_bytes && w->inodes <= w->limit_inodes)
                return 0;
        (void)disk_watch_look(w); /* somebody may have made room */
        if (w->bytes <= most && w->inodes <= w->limit_inodes * DISK_COUNTED_LIMITS)
                return 0;
        return error_set(err, GB_E_DISK_FULL, ENOSPC, "nothing was run: code has added %llu MB in %llu files to the workspace, and may add %llu MB in %llu: delete files there, "
                         "or open a session with a larger disk limit", (unsigned long long)(w->bytes / MIB), (unsigned long long)w->inodes,
                         (unsigned long long)(w->limit_bytes / MIB), (unsigned long long)w->limit_inodes);
}

int growth_begin(struct exec *x, gb_error *err)
{
        struct session *s = x->session;

        if (!places_are_watched(&s->places) || x->ours)
                return 0;
        pthread_mutex_lock(&s->disk_lock);
        growth_judge(s);
        int r = check_room(&s->places.disk, err);
        pthread_mutex_unlock(&s->disk_lock);
        return r;
}

void growth_end(struct exec *x, const struct box_usage *now, uint64_t asked_usec)
{
        struct places *p = &x->session->places;
        struct disk_watch *w = &p->disk;
        bool looked = w->looked_usec - w->took_usec >= asked_usec;

        if (!now || (!looked && w->took_usec > LAST_LOOK_USEC))
                return;
        /* Free space would not do: some file systems show what was written only when it is on the disk. */
        if (!looked)
                (void)disk_watch_look(w);
        move_mark(p, now);
}

void growth_reserve(struct places *p, uint64_t bytes, uint64_t inodes)
{
        p->mark.bytes_credit.reserved += bytes;
        p->mark.inodes_credit.reserved += inodes;
}
