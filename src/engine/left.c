/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/left.h"

#include "base/fd.h"

#include <errno.h>
#include <time.h>

/* Leftover processes are counted at this interval, until their number has not grown for LEFT_QUIET_USEC, at most for
 * LEFT_WAIT_USEC. One that could compute may only wait for a processor: on a busy host, or until the next period of the
 * processor limit. */
#define LEFT_LOOK_NSEC 500000L
#define LEFT_BUSY_NSEC 5000000L
#define LEFT_QUIET_USEC 20000ULL
#define LEFT_BUSY_USEC 250000ULL
#define LEFT_WAIT_USEC 1000000ULL
#define CLEAR_TRIES 5
#define DYING_LOOKS 5 /* a millisecond apart */

/* Tasks of the programs themselves: one interpreter per context, and init where the cgroup counts it. Init is
 * detected before the first code runs. */
static uint64_t own_tasks(const struct exec *x)
{
        struct session *s = x->session;
        uint64_t none = 0;

        pthread_mutex_lock(&s->contexts_lock);
        uint64_t n = s->n_contexts;
        pthread_mutex_unlock(&s->contexts_lock);
        uint64_t others = x->before.pids > n ? 1 : 0;
        (void)atomic_compare_exchange_strong(&s->tasks_begin, &none, others + 1);
        return n + atomic_load(&s->tasks_begin) - 1;
}

/* Whether it is most of what there may be: then nothing else can work in this session. */
static bool is_bomb(const struct exec *x, uint64_t tasks, uint64_t own)
{
        return tasks > own && (tasks - own) * 2 >= x->session->policy->pids_limit;
}

/* False: what is left may still be running, and the next run tries again. */
static bool clear(struct exec *x)
{
        struct session *s = x->session;
        unsigned n = 0;
        int r = -EBUSY;

        /* On a busy host those that are killed take their time to die. */
        for (int i = 0; r == -EBUSY && i < CLEAR_TRIES; i++) {
                pthread_mutex_lock(&s->backend_lock);
                r = s->backend->session_clear(s->box, &n, NULL);
                pthread_mutex_unlock(&s->backend_lock);
        }
        x->result->facts.tasks_unended = r < 0;
        if (r < 0)
                return false;
        atomic_fetch_add(&s->bombs, 1);
        atomic_store(&s->tasks_left, 0);
        x->result->facts.tasks_ended += n;
        return true;
}

/* With several active runs, leftover processes cannot be attributed. */
static bool is_alone(const struct exec *x)
{
        return atomic_load(&x->session->n_running) == 1 && x->session->backend->session_clear;
}

static bool is_busy(const struct exec *x)
{
        struct session *s = x->session;

        if (!s->backend->session_is_busy)
                return false;
        pthread_mutex_lock(&s->backend_lock);
        bool busy = s->backend->session_is_busy(s->box);
        pthread_mutex_unlock(&s->backend_lock);
        return busy;
}

static void wait_while_growing(const struct exec *x, struct box_usage *now, uint64_t expected)
{
        struct timespec pause = {.tv_nsec = LEFT_LOOK_NSEC};
        uint64_t began = monotonic_usec(), grown = began, t = began, most = now->pids;

        while (now->pids > expected && t - began < LEFT_WAIT_USEC) {
                bool quiet = t - grown >= LEFT_QUIET_USEC;
                if (quiet && (t - grown >= LEFT_BUSY_USEC || !is_busy(x)))
                        return;
                pause.tv_nsec = quiet ? LEFT_BUSY_NSEC : LEFT_LOOK_NSEC;
                (void)nanosleep(&pause, NULL);
                if (session_usage(x->session, now, NULL) < 0)
                        return;
                t = monotonic_usec();
                grown = now->pids > most ? t : grown;
                most = MAX(most, now->pids);
        }
}

/* Whether something that an earlier run has left computes: a process that is just dying does not count. */
static bool goes_on(struct exec *x, uint64_t own)
{
        const struct timespec pause = {.tv_nsec = 1000000L};

        for (int i = 0; x->before.pids > own && is_busy(x); i++) {
                if (i == DYING_LOOKS)
                        return true;
                (void)nanosleep(&pause, NULL);
                (void)session_usage(x->session, &x->before, NULL);
        }
        return false;
}

/* What an earlier run has left may be a bomb that goes off only now. Then it is not this run's. */
void left_begin(struct exec *x)
{
        struct session *s = x->session;
        uint64_t own = own_tasks(x);

        x->running = true;
        x->number = atomic_fetch_add(&s->n_begun, 1) + 1;
        x->overlapped = atomic_fetch_add(&s->n_running, 1) > 0;
        if (!is_alone(x) || !x->before.pids_known)
                return;
        x->doubtful = goes_on(x, own);
        if (x->before.pids > MAX(own, atomic_load(&s->tasks_left)) && x->before.pids_refused == atomic_load(&s->forks_refused))
                wait_while_growing(x, &x->before, own);
        if (x->before.pids_refused <= atomic_load(&s->forks_refused))
                return;
        atomic_store(&s->forks_refused, x->before.pids_refused);
        if (!is_bomb(x, x->before.pids, own))
                return;
        x->doubtful = !clear(x);
        (void)session_usage(s, &x->before, NULL); /* or the old one: its counters only grow */
}

/* Whether leftover processes are those of this run: another one may have started them, or they were there before. */
static bool is_ours(const struct exec *x)
{
        return !x->overlapped && !x->doubtful && atomic_load(&x->session->n_begun) == x->number;
}

void left_end(struct exec *x, struct box_usage *now)
{
        struct run_facts *f = &x->result->facts;
        struct session *s = x->session;
        uint64_t own = own_tasks(x), expected = MAX(x->before.pids, own);

        if (now->pids_known && now->pids > expected && f->stop == STOP_NONE && now->pids_refused == x->before.pids_refused)
                wait_while_growing(x, now, expected);
        atomic_store(&s->forks_refused, MAX(atomic_load(&s->forks_refused), now->pids_refused));
        atomic_store(&s->tasks_left, now->pids);
        if (now->pids_refused == x->before.pids_refused)
                return;
        if (now->pids > expected && is_ours(x))
                f->tasks_left = MAX(f->tasks_left, now->pids - expected);
        /* A bomb whose run has failed or was interrupted may just be falling apart. */
        bool bomb = is_bomb(x, now->pids, own), failed = f->stop != STOP_NONE || f->claimed_error;
        if (!is_alone(x) || (!bomb && !failed))
                return;
        x->bombed = true;
        if (bomb || now->pids > expected)
                x->bombed = clear(x);
        else
                atomic_fetch_add(&s->bombs, 1); /* nothing is left but its output and its exit statuses */
}
