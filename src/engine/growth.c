/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/growth.h"

#include "base/fd.h"
#include "base/limits.h"

#include <time.h>

/* More than a processor can write to a file system, or create there, in a microsecond. The system calls that take space without writing it are refused
 * (kernel/seccomp/profile.def: fallocate, copy_file_range, the ioctls for clones). */
#define BYTES_PER_USEC 16384ULL
#define INODES_PER_USEC 2ULL
/* The kernel adds the time of a process that is running to the counter at the next tick of the clock: 10 ms on the slowest. */
#define TICK_NSEC 11000000L
/* Files of the host beside which the code's own limit does not matter are not counted on every run. */
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
        c->unexplained += unexplained;
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
        struct timespec tick = {.tv_nsec = TICK_NSEC};

        (void)nanosleep(&tick, NULL);
}

/* Processor time that the box used since the mark. Before the first run nothing of the code was there to use any. */
static bool cpu_since_mark(struct session *s, uint64_t *ret)
{
        const struct growth_mark *m = &s->places.mark;
        struct box_usage now;

        *ret = 0;
        if (!m->code_ran)
                return true;
        wait_for_tick();
        if (!m->cpu_known || session_usage(s, &now, NULL) < 0 || !now.cpu_known)
                return false;
        *ret = grown(now.cpu_usec, m->cpu_usec);
        return true;
}

static void forgive(struct session *s, const struct disk_usage *now)
{
        struct growth_mark *m = &s->places.mark;
        uint64_t bytes = grown(now->bytes, m->bytes), inodes = grown(now->inodes, m->inodes), cpu;

        if ((bytes == 0 && inodes == 0) || !cpu_since_mark(s, &cpu))
                return;
        disk_watch_forgive(&s->places.disk, growth_credit(&m->bytes_credit, growth_unexplained(bytes, cpu, BYTES_PER_USEC)),
                           growth_credit(&m->inodes_credit, growth_unexplained(inodes, cpu, INODES_PER_USEC)));
}

static void set_mark(struct growth_mark *m, const struct disk_usage *at, const struct box_usage *usage)
{
        m->bytes = at->bytes;
        m->inodes = at->inodes;
        m->cpu_usec = usage->cpu_usec;
        m->cpu_known = usage->cpu_known;
}

void growth_judge(struct session *s, const struct box_usage *before)
{
        struct disk_watch *w = &s->places.disk;
        uint64_t start = monotonic_usec();
        struct disk_usage now;

        if (start < s->places.next_usec || !disk_watch_changed(w, w->took_usec <= QUICK_LOOK_USEC ? CHANGE_BYTES_MIN : CHANGE_BYTES_SLOW))
                return;
        int r = disk_watch_count(w, FORGIVEN_INODES_MAX, &now);
        s->places.next_usec = start + (monotonic_usec() - start) * 10;
        if (r < 0)
                return;
        forgive(s, &now);
        set_mark(&s->places.mark, &now, before);
}

void growth_begin(struct exec *x)
{
        struct session *s = x->session;

        if (!places_are_watched(&s->places) || x->ours)
                return;
        pthread_mutex_lock(&s->disk_lock);
        growth_judge(s, &x->before);
        s->places.mark.code_ran = true;
        pthread_mutex_unlock(&s->disk_lock);
}

void growth_end(struct exec *x, const struct box_usage *now, uint64_t asked_usec)
{
        struct places *p = &x->session->places;

        if (now && p->disk.counted && p->disk.looked_usec - p->disk.took_usec >= asked_usec)
                set_mark(&p->mark, &p->disk.now, now);
}

void growth_reserve(struct places *p, uint64_t bytes, uint64_t inodes)
{
        p->mark.bytes_credit.reserved += bytes;
        p->mark.inodes_credit.reserved += inodes;
}
