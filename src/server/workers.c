/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that has nothing to do lies on a stack of idle ones, each with a condition of its own: the one that worked last is
 * woken first, those at the bottom end. Work is given to a thread directly; only requests for which there is no thread wait, in
 * a ring. */
#include "server/workers.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

struct task {
        worker_function *f;
        void *data;
        bool request;
        uint64_t since_usec;
};

struct worker {
        struct workers *workers;
        struct worker *below; /* on the stack */
        pthread_cond_t wake;
        struct task task; /* f NULL: none yet */
};

struct workers {
        pthread_mutex_t lock;
        pthread_cond_t ended; /* a thread did */
        struct worker *idle;
        size_t max;               /* of each kind */
        size_t threads, requests, jobs;
        struct task queue[WORKERS_QUEUE_MAX];
        size_t queue_start, queue_size;
        bool ending;
};

int workers_new(size_t threads, struct workers **ret, gb_error *err)
{
        struct workers *w = calloc(1, sizeof(*w));

        if (!w)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "there is no memory for threads");
        w->max = MAX(threads, (size_t)1);
        pthread_mutex_init(&w->lock, NULL);
        pthread_cond_init(&w->ended, NULL);
        *ret = w;
        return 0;
}

static void task_done(struct workers *w, const struct task *task)
{
        if (task->request)
                w->requests--;
        else
                w->jobs--;
}

static bool queue_take(struct workers *w, struct task *ret)
{
        if (w->queue_size == 0 || w->requests >= w->max)
                return false;
        *ret = w->queue[w->queue_start];
        w->queue_start = (w->queue_start + 1) % WORKERS_QUEUE_MAX;
        w->queue_size--;
        w->requests++;
        return true;
}

static void idle_remove(struct workers *w, struct worker *self)
{
        struct worker **p = &w->idle;

        while (*p != self)
                p = &(*p)->below;
        *p = self->below;
}

/* Waits for work; false: it is time to end. */
static bool wait_for_task(struct workers *w, struct worker *self)
{
        struct timespec until;

        if (queue_take(w, &self->task))
                return true;
        if (w->ending)
                return false;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += (time_t)(WORKER_IDLE_USEC / 1000000);
        self->task.f = NULL;
        self->below = w->idle;
        w->idle = self;
        while (!self->task.f) {
                int r = pthread_cond_timedwait(&self->wake, &w->lock, &until);
                if (!self->task.f && (r == ETIMEDOUT || w->ending)) {
                        idle_remove(w, self);
                        return false;
                }
        }
        return true;
}

static void *worker_main(void *data)
{
        struct worker *self = data;
        struct workers *w = self->workers;

        (void)pthread_setname_np(pthread_self(), "worker");
        for (;;) {
                self->task.f(self->task.data);
                pthread_mutex_lock(&w->lock);
                task_done(w, &self->task);
                if (!wait_for_task(w, self))
                        break;
                pthread_mutex_unlock(&w->lock);
        }
        pthread_cond_destroy(&self->wake);
        free(self);
        /* Under the lock: who waits for the last one frees it all. */
        w->threads--;
        pthread_cond_signal(&w->ended);
        pthread_mutex_unlock(&w->lock);
        return NULL;
}

static int worker_new(struct workers *w, const struct task *task)
{
        struct worker *self = calloc(1, sizeof(*self));
        pthread_condattr_t condition;
        pthread_attr_t attributes;
        sigset_t all, before;
        pthread_t thread;

        if (!self)
                return -ENOMEM;
        self->workers = w;
        self->task = *task;
        pthread_condattr_init(&condition);
        pthread_condattr_setclock(&condition, CLOCK_MONOTONIC);
        pthread_cond_init(&self->wake, &condition);
        pthread_condattr_destroy(&condition);
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize(&attributes, WORKER_STACK_BYTES * (GLOVEBOX_SANITIZED ? 8 : 1));
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        int r = pthread_create(&thread, &attributes, worker_main, self);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
        if (r != 0) {
                pthread_cond_destroy(&self->wake);
                free(self);
                return -r;
        }
        w->threads++;
        return 0;
}

/* Gives it to a thread that is there, or to a new one. */
static int give(struct workers *w, const struct task *task)
{
        if (w->idle) {
                struct worker *worker = w->idle;
                w->idle = worker->below;
                worker->task = *task;
                pthread_cond_signal(&worker->wake);
        } else {
                int r = worker_new(w, task);
                if (r < 0)
                        return r;
        }
        if (task->request)
                w->requests++;
        else
                w->jobs++;
        return 0;
}

int workers_start(struct workers *w, worker_function *f, void *data)
{
        struct task task = {.f = f, .data = data};

        pthread_mutex_lock(&w->lock);
        int r = w->ending || w->jobs >= w->max ? -EAGAIN : give(w, &task);
        pthread_mutex_unlock(&w->lock);
        return r;
}

int workers_start_request(struct workers *w, worker_function *f, void *data)
{
        struct task task = {.f = f, .data = data, .request = true};
        int r;

        pthread_mutex_lock(&w->lock);
        if (w->ending) {
                r = -EAGAIN;
        } else if (w->requests < w->max) {
                r = give(w, &task);
        } else if (w->queue_size < WORKERS_QUEUE_MAX) {
                task.since_usec = monotonic_usec();
                w->queue[(w->queue_start + w->queue_size++) % WORKERS_QUEUE_MAX] = task;
                r = 1;
        } else {
                r = -EAGAIN;
        }
        pthread_mutex_unlock(&w->lock);
        return r;
}

void *workers_take_late(struct workers *w, uint64_t before_usec, bool *ret_more)
{
        void *data = NULL;

        pthread_mutex_lock(&w->lock);
        if (w->queue_size > 0 && w->queue[w->queue_start].since_usec <= before_usec) {
                data = w->queue[w->queue_start].data;
                w->queue_start = (w->queue_start + 1) % WORKERS_QUEUE_MAX;
                w->queue_size--;
        }
        *ret_more = w->queue_size > 0;
        pthread_mutex_unlock(&w->lock);
        return data;
}

void workers_count(struct workers *w, struct workers_counts *ret)
{
        pthread_mutex_lock(&w->lock);
        *ret = (struct workers_counts){.threads = w->threads, .busy = w->requests + w->jobs, .waiting = w->queue_size};
        pthread_mutex_unlock(&w->lock);
}

void workers_free(struct workers *w)
{
        if (!w)
                return;
        pthread_mutex_lock(&w->lock);
        w->ending = true;
        for (struct worker *i = w->idle; i; i = i->below)
                pthread_cond_signal(&i->wake);
        while (w->threads > 0)
                pthread_cond_wait(&w->ended, &w->lock);
        pthread_mutex_unlock(&w->lock);
        pthread_cond_destroy(&w->ended);
        pthread_mutex_destroy(&w->lock);
        free(w);
}
