/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/left.h"

#include "base/fd.h"

#include <time.h>

/* Looks at what a run has left running: so often, until it has not become more for so long, and so long in all. */
#define LEFT_LOOK_NSEC 500000L
#define LEFT_QUIET_USEC 20000ULL
#define LEFT_QUIET_LIVE_USEC 2000ULL /* in a context: most often these are threads of the interpreter, and the next run looks again */
#define LEFT_WAIT_USEC 1000000ULL

/* Tasks that are nobody's left-over: those from before, and an interpreter for each context. */
static uint64_t expected_tasks(const struct exec *x)
{
        struct session *s = x->session;

        pthread_mutex_lock(&s->contexts_lock);
        uint64_t n = s->n_contexts;
        pthread_mutex_unlock(&s->contexts_lock);
        return MAX(x->before.pids, n + 1);
}

/* Whether it is most of what there may be: then nothing else can work in this session. */
static bool is_bomb(const struct exec *x, uint64_t tasks)
{
        return tasks > 1 && tasks * 2 >= x->session->policy->pids_limit;
}

/* 0: nothing was killed. */
static uint64_t clear(struct session *s)
{
        unsigned n = 0;

        pthread_mutex_lock(&s->backend_lock);
        int r = s->backend->session_clear(s->box, &n, NULL);
        pthread_mutex_unlock(&s->backend_lock);
        if (r < 0 || n == 0)
                return 0;
        atomic_fetch_add(&s->clearings, 1);
        return n;
}

/* Whose they are cannot be told while others run. */
static bool is_alone(const struct exec *x)
{
        return atomic_load(&x->session->n_running) == 1 && x->session->backend->session_clear;
}

void left_begin(struct exec *x)
{
        struct session *s = x->session;
        uint64_t refused = x->before.pids_refused;

        x->running = true;
        atomic_fetch_add(&s->n_running, 1);
        if (refused <= atomic_load(&s->forks_refused) || !is_alone(x))
                return;
        atomic_store(&s->forks_refused, refused);
        if (!is_bomb(x, x->before.pids) || (x->result->facts.tasks_ended = clear(s)) == 0)
                return;
        x->stale = true;
        (void)session_usage(s, &x->before, NULL); /* or the old one: its counters only grow */
}

static void wait_while_growing(const struct exec *x, struct box_usage *now, uint64_t expected)
{
        const struct timespec pause = {.tv_nsec = LEFT_LOOK_NSEC};
        uint64_t began = monotonic_usec(), grown = began, quiet = x->ended ? LEFT_QUIET_USEC : LEFT_QUIET_LIVE_USEC, most = now->pids, t = began;

        while (now->pids > expected && t - grown < quiet && t - began < LEFT_WAIT_USEC) {
                (void)nanosleep(&pause, NULL);
                if (session_usage(x->session, now, NULL) < 0)
                        return;
                t = monotonic_usec();
                grown = now->pids > most ? t : grown;
                most = MAX(most, now->pids);
        }
}

void left_end(struct exec *x, struct box_usage *now)
{
        struct run_facts *f = &x->result->facts;
        struct session *s = x->session;
        uint64_t expected = expected_tasks(x);

        if (now->pids_known && now->pids > expected && f->stop == STOP_NONE && now->pids_refused == x->before.pids_refused)
                wait_while_growing(x, now, expected);
        atomic_store(&s->forks_refused, MAX(atomic_load(&s->forks_refused), now->pids_refused));
        if (now->pids_refused == x->before.pids_refused || now->pids <= expected)
                return;
        f->tasks_left = MAX(f->tasks_left, now->pids - expected);
        if (is_alone(x) && is_bomb(x, f->tasks_left))
                f->tasks_ended += clear(s);
}
