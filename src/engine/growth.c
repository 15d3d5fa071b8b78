/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/growth.h"

#include "base/fd.h"
#include "base/limits.h"

#include <linux/magic.h>
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
#define MARK_CPU_USEC 50000ULL /* in which 1.6 GB can be written: a mark is not kept for longer */
/* The kernel adds the time of a process that is running to the counter at the next tick of the clock: 10 ms on the slowest. */
#define TICK_USEC 11000ULL
/* Above this count, files of the host are not counted before each run; then all growth is the code's. */
#define FORGIVEN_INODES_MAX 1000000ULL

/* A change of the file systems that is worth a look before a run: nearly all of them where a look is quick. */
#define QUICK_LOOK_USEC 5000ULL
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

/* The part of later and same_tick that processor time cannot explain. tick_usec explains files of same_tick only. */
static uint64_t not_ours(uint64_t later, uint64_t same_tick, uint64_t cpu_usec, uint64_t tick_usec, uint64_t per_usec)
{
        return MAX(growth_unexplained(later, cpu_usec, per_usec), growth_unexplained(later + same_tick, cpu_usec + tick_usec, per_usec));
}

/* Attributes unexplained growth to the host. Before the first run that is all of it. Afterwards only files born
 * after the mark count: code can rename or link an older file at no cost. */
static void forgive(struct session *s, const struct disk_usage *now)
{
        struct growth_mark *m = &s->places.mark;
        uint64_t bytes = m->code_ran ? grown(now->new_bytes, m->new_bytes) : grown(now->bytes, m->bytes), tick_bytes = grown(now->tick_bytes, m->tick_bytes);
        uint64_t inodes = m->code_ran ? grown(now->new_inodes, m->new_inodes) : grown(now->inodes, m->inodes), tick_inodes = grown(now->tick_inodes, m->tick_inodes);
        uint64_t cpu;

        m->ahead_bytes = 0;
        if (bytes + tick_bytes + inodes + tick_inodes + now->ahead_bytes == 0 || !cpu_since_mark(s, &cpu))
                return;
        if (!m->code_ran)
                tick_bytes = tick_inodes = 0;
        uint64_t given = not_ours(bytes, tick_bytes, cpu, m->tick_usec, BYTES_PER_USEC);
        m->ahead_bytes = not_ours(bytes, tick_bytes + now->ahead_bytes, cpu, m->tick_usec, BYTES_PER_USEC) - given;
        disk_watch_forgive(&s->places.disk, growth_credit(&m->bytes_credit, given),
                           growth_credit(&m->inodes_credit, not_ours(inodes, tick_inodes, cpu, m->tick_usec, INODES_PER_USEC)));
}

static uint64_t since_tick_usec(const struct disk_time *t)
{
        int64_t nsec = (t->now.tv_sec - t->tick.tv_sec) * 1000000000 + t->now.tv_nsec - t->tick.tv_nsec;

        return nsec > 0 ? (uint64_t)nsec / 1000 : 0;
}

/* Moves the mark to the last look; usage was read before it. Keeps the mark while growth may be the host's: a file
 * still being written would be older than a new mark. */
static void move_mark(struct places *p, const struct box_usage *usage)
{
        struct growth_mark *m = &p->mark;
        const struct disk_usage *at = &p->disk.now;
        bool known = m->cpu_known && is_exact(usage), more = at->bytes > m->bytes || at->inodes > m->inodes;

        if (!p->disk.counted || (known && more && grown(usage->cpu_usec, m->cpu_usec) < MARK_CPU_USEC))
                return;
        m->bytes = m->judged_bytes = at->bytes;
        m->inodes = at->inodes;
        m->time = p->disk.since;
        m->tick_bytes = at->tick_bytes;
        m->tick_inodes = at->tick_inodes;
        m->new_bytes = at->new_bytes;
        m->new_inodes = at->new_inodes;
        m->tick_usec = at->stirred ? MIN(since_tick_usec(&m->time) * (uint64_t)get_nprocs(), grown(usage->cpu_usec, m->cpu_usec) + TICK_USEC) : 0;
        m->bytes_credit.since_mark = m->inodes_credit.since_mark = 0;
        m->cpu_usec = usage->cpu_usec;
        m->cpu_known = is_exact(usage);
}

/* Counts all that is there and gives the host what is its own. */
static bool give_to_host(struct session *s)
{
        struct disk_usage now;

        if (disk_watch_count(&s->places.disk, FORGIVEN_INODES_MAX, &s->places.mark.time, &now) < 0)
                return false;
        forgive(s, &now);
        s->places.mark.judged_bytes = now.bytes;
        return true;
}

void growth_judge(struct session *s)
{
        struct disk_watch *w = &s->places.disk;
        uint64_t start = monotonic_usec();

        if (start < s->places.mark.next_usec)
                return;
        bool pending = w->counted && w->now.bytes > s->places.mark.judged_bytes;
        if (!pending && !disk_watch_changed(w, w->took_usec <= QUICK_LOOK_USEC ? CHANGE_BYTES_MIN : CHANGE_BYTES_SLOW))
                return;
        (void)give_to_host(s);
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

        if (due && !places_are_due(&s->places))
                return false;
        bool known = usage_at_once(s, &asked), over = places_look(&s->places, f);
        if (known && !over)
                move_mark(&s->places, &asked);
        if (!over || f->disk_hidden || f->host_full || !give_to_host(s))
                return over;
        if (w->before.bytes == before.before.bytes && w->before.inodes == before.before.inodes && s->places.mark.ahead_bytes == 0)
                return true;
        w->peak_bytes = before.peak_bytes;
        w->peak_inodes = before.peak_inodes;
        if (!places_look(&s->places, f))
                return false;
        /* The host reserves room for a file of its own just now, and the file's size will show that. */
        if (f->disk_hidden || f->host_full || w->inodes > w->limit_inodes || w->bytes > w->limit_bytes + s->places.mark.ahead_bytes)
                return true;
        w->peak_bytes = before.peak_bytes;
        return false;
}

/* Before the first code. */
static void begin_mark(struct growth_mark *m, const struct box_usage *usage)
{
        m->code_ran = true;
        m->bytes = m->judged_bytes;
        m->inodes = UINT64_MAX; /* inodes from before are not recounted */
        m->bytes_credit.since_mark = m->inodes_credit.since_mark = 0;
        m->cpu_usec = usage->cpu_usec;
        m->cpu_known = is_exact(usage);
        disk_time_get(&m->time);
        m->time.tick = m->time.now; /* exclude this tick: its files were already attributed */
}

void growth_begin(struct exec *x)
{
        struct session *s = x->session;

        if (!places_are_watched(&s->places) || x->ours)
                return;
        pthread_mutex_lock(&s->disk_lock);
        growth_judge(s);
        if (!s->places.mark.code_ran)
                begin_mark(&s->places.mark, &x->before);
        pthread_mutex_unlock(&s->disk_lock);
}

void growth_end(struct exec *x, const struct box_usage *now, uint64_t asked_usec)
{
        struct places *p = &x->session->places;

        if (now && p->disk.looked_usec - p->disk.took_usec >= asked_usec)
                move_mark(p, now);
}

void growth_reserve(struct places *p, uint64_t bytes, uint64_t inodes)
{
        p->mark.bytes_credit.reserved += bytes;
        p->mark.inodes_credit.reserved += inodes;
}
