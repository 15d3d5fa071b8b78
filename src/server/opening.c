/* SPDX-License-Identifier: Apache-2.0 */
#include "server/opening.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PER_PROCESSOR 2
#define AT_ONCE_MIN 4

struct openings {
        pthread_mutex_t lock;
        struct opening *active, *waiting;
        unsigned n_active, n_waiting, max;
};

int openings_new(unsigned max, struct openings **ret, gb_error *err)
{
        struct openings *o = calloc(1, sizeof(*o));
        long processors = sysconf(_SC_NPROCESSORS_ONLN);

        if (!o)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        o->max = max > 0 ? max : processors > AT_ONCE_MIN / PER_PROCESSOR ? (unsigned)processors * PER_PROCESSOR : AT_ONCE_MIN;
        pthread_mutex_init(&o->lock, NULL);
        *ret = o;
        return 0;
}

void openings_free(struct openings *o)
{
        if (!o)
                return;
        pthread_mutex_destroy(&o->lock);
        free(o);
}

static void add(struct opening **list, struct opening *self)
{
        while (*list)
                list = &(*list)->next;
        self->next = NULL;
        *list = self;
}

static void take_out(struct opening **list, const struct opening *self)
{
        while (*list != self)
                list = &(*list)->next;
        *list = self->next;
}

static unsigned count_active(const struct openings *o, const char *tenant)
{
        unsigned n = 0;

        for (const struct opening *i = o->active; i; i = i->next)
                n += strcmp(i->tenant, tenant) == 0;
        return n;
}

static struct opening *choose(const struct openings *o)
{
        struct opening *best = NULL;
        unsigned least = UINT_MAX;

        for (struct opening *i = o->waiting; i && least > 0; i = i->next) {
                unsigned n = count_active(o, i->tenant);
                if (n < least) {
                        best = i;
                        least = n;
                }
        }
        return best;
}

static void grant(struct openings *o, struct opening *self)
{
        add(&o->active, self);
        o->n_active++;
        self->granted = true;
}

/* Whether it came to its turn. */
static bool wait_for_turn(struct openings *o, struct opening *self)
{
        uint64_t until_usec = monotonic_usec() + OPENING_WAIT_USEC;
        struct timespec until = {.tv_sec = (time_t)(until_usec / 1000000), .tv_nsec = (long)(until_usec % 1000000) * 1000};
        pthread_condattr_t monotonic;
        int r = 0;

        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&self->wake, &monotonic);
        pthread_condattr_destroy(&monotonic);
        add(&o->waiting, self);
        o->n_waiting++;
        while (!self->granted && r != ETIMEDOUT)
                r = pthread_cond_timedwait(&self->wake, &o->lock, &until);
        pthread_cond_destroy(&self->wake);
        if (self->granted)
                return true;
        take_out(&o->waiting, self);
        o->n_waiting--;
        return false;
}

int opening_begin(struct openings *o, struct opening *self, const char *tenant, gb_error *err)
{
        *self = (struct opening){.tenant = tenant};
        pthread_mutex_lock(&o->lock);
        bool full = o->n_waiting >= OPENINGS_WAITING_MAX;
        if (o->n_active < o->max)
                grant(o, self);
        else if (!full)
                (void)wait_for_turn(o, self);
        pthread_mutex_unlock(&o->lock);
        if (self->granted)
                return 0;
        if (full)
                return error_set(err, GB_E_UNAVAILABLE, EAGAIN, "%d boxes wait to be built already: try again later", OPENINGS_WAITING_MAX);
        return error_set(err, GB_E_UNAVAILABLE, EAGAIN, "the box could not be built within %llu seconds, because of the others: try again later",
                         OPENING_WAIT_USEC / 1000000);
}

void opening_end(struct openings *o, struct opening *self)
{
        pthread_mutex_lock(&o->lock);
        take_out(&o->active, self);
        o->n_active--;
        struct opening *next = choose(o);
        if (next) {
                take_out(&o->waiting, next);
                o->n_waiting--;
                grant(o, next);
                pthread_cond_signal(&next->wake);
        }
        pthread_mutex_unlock(&o->lock);
}
