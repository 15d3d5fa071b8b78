/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/left.h"

#include "base/fd.h"

#include <time.h>

/* Looks at what a run has left running: so often, until it has not become more for so long, and so long in all. */
#define LEFT_LOOK_NSEC 500000L
#define LEFT_QUIET_USEC 20000ULL
/* In a context they are most often threads of the interpreter, and the next run looks again. */
#define LEFT_QUIET_MANY_USEC 5000ULL
#define LEFT_QUIET_ONE_USEC 2000ULL
#define LEFT_WAIT_USEC 1000000ULL

/* Of the programs themselves: an interpreter for each context. */
static uint64_t own_tasks(struct session *s)
{
        pthread_mutex_lock(&s->contexts_lock);
        uint64_t n = s->n_contexts;
        pthread_mutex_unlock(&s->contexts_lock);
        return n + 1;
}

/* Whether it is most of what there may be: then nothing else can work in this session. */
static bool is_bomb(const struct exec *x, uint64_t tasks, uint64_t own)
{
        return tasks > own && (tasks - own) * 2 >= x->session->policy->pids_limit;
}

static void clear(struct exec *x)
{
        struct session *s = x->session;
        unsigned n = 0;

        pthread_mutex_lock(&s->backend_lock);
        int r = s->backend->session_clear(s->box, &n, NULL);
        pthread_mutex_unlock(&s->backend_lock);
        atomic_fetch_add(&s->bombs, 1);
        if (r == 0)
                x->result->facts.tasks_ended += n;
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
        if (!is_bomb(x, x->before.pids, own_tasks(s)))
                return;
        clear(x);
        (void)session_usage(s, &x->before, NULL); /* or the old one: its counters only grow */
}

static uint64_t quiet_time(const struct exec *x, bool grew, uint64_t n)
{
        return x->ended || grew ? LEFT_QUIET_USEC : n > 1 ? LEFT_QUIET_MANY_USEC : LEFT_QUIET_ONE_USEC;
}

static void wait_while_growing(const struct exec *x, struct box_usage *now, uint64_t expected)
{
        const struct timespec pause = {.tv_nsec = LEFT_LOOK_NSEC};
        uint64_t began = monotonic_usec(), grown = began, t = began, first = now->pids, most = first;

        while (now->pids > expected && t - grown < quiet_time(x, most > first, most - expected) && t - began < LEFT_WAIT_USEC) {
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
        uint64_t own = own_tasks(s), expected = MAX(x->before.pids, own);

        if (now->pids_known && now->pids > expected && f->stop == STOP_NONE && now->pids_refused == x->before.pids_refused)
                wait_while_growing(x, now, expected);
        atomic_store(&s->forks_refused, MAX(atomic_load(&s->forks_refused), now->pids_refused));
        if (now->pids_refused == x->before.pids_refused)
                return;
        if (now->pids > expected) /* the others were there before */
                f->tasks_left = MAX(f->tasks_left, now->pids - expected);
        /* A bomb whose run has failed or was interrupted may just be falling apart. */
        x->bombed = is_alone(x) && (is_bomb(x, now->pids, own) || f->stop != STOP_NONE || f->claimed_error);
        if (x->bombed)
                clear(x);
}
