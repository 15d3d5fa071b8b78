/* SPDX-License-Identifier: Apache-2.0
 *
 * The table. One lock guards who is in it and who holds what; it is never held while anything is waited for.
 *
 * A session goes opening -> ready -> ended, and a run begins with its entry and ends when the journal has its end. Who begins something makes the
 * entry first and then the record in the journal: so a run that has begun for the journal and not ended is always found here. */
#include "server/live.h"

#include "base/fd.h"
#include "base/quote.h"
#include "base/suggest.h"
#include "engine/warm.h"
#include "server/live_table.h"
#include "server/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void live_lock(struct live *l)
{
        pthread_mutex_lock(&l->lock);
}

void live_unlock(struct live *l)
{
        pthread_mutex_unlock(&l->lock);
}

static uint64_t usec_of(clockid_t clock)
{
        struct timespec now;

        clock_gettime(clock, &now);
        return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t live_wall_usec(void)
{
        return usec_of(CLOCK_REALTIME);
}

uint64_t live_file_usec(void)
{
        return usec_of(CLOCK_REALTIME_COARSE);
}

void live_cond_init(pthread_cond_t *c)
{
        pthread_condattr_t monotonic;

        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(c, &monotonic);
        pthread_condattr_destroy(&monotonic);
}

int live_new(struct server *server, struct live **ret, gb_error *err)
{
        struct live *l = calloc(1, sizeof(*l));

        if (!l)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        l->server = server;
        l->epoll = l->wake = -1;
        pthread_mutex_init(&l->lock, NULL);
        live_cond_init(&l->changed);
        int r = admission_new(&server->config, &l->admission, err);
        if (r == 0)
                r = openings_new(0, &l->openings, err);
        /* What a `glovebox warm` of this user keeps can end at any time, and everybody's sessions with it. */
        if (r == 0)
                r = warm_own(err);
        if (r == 0)
                r = keeper_start(l, err);
        if (r < 0) {
                live_free(l);
                return r;
        }
        *ret = l;
        return 0;
}

void live_free(struct live *l)
{
        if (!l)
                return;
        (void)live_stop(l);
        keeper_stop(l);
        openings_free(l->openings);
        admission_free(l->admission);
        pthread_cond_destroy(&l->changed);
        pthread_mutex_destroy(&l->lock);
        free(l);
}

/* ---- the end of everything ---- */

static bool wait_until(struct live *l, uint64_t end_usec)
{
        struct timespec end = {.tv_sec = (time_t)(end_usec / 1000000), .tv_nsec = (long)(end_usec % 1000000) * 1000};

        return pthread_cond_timedwait(&l->changed, &l->lock, &end) == 0;
}

static void cancel_all(struct live *l, bool kill)
{
        for (size_t i = 0; i < LIVE_BUCKETS; i++)
                for (struct live_run *r = l->runs[i]; r; r = r->next)
                        live_run_cancel(r, kill);
}

static void wait_for_runs(struct live *l, uint64_t usec)
{
        uint64_t end = monotonic_usec() + usec;

        while (l->n_runs > 0 && wait_until(l, end))
                ;
}

static void end_sessions(struct live *l)
{
        for (size_t i = 0; i < LIVE_BUCKETS; i++)
                while (l->sessions[i]) {
                        struct live_session *s = l->sessions[i];
                        s->references++;
                        live_unlock(l);
                        (void)live_session_end(s, "stopped");
                        live_lock(l);
                }
        /* Those that somebody else is about to end. */
        uint64_t end = monotonic_usec() + STOP_RUNS_USEC;
        while (l->n_sessions > 0 && wait_until(l, end))
                ;
        if (l->n_sessions > 0)
                log_warning("stop", "%zu sessions did not end in time", l->n_sessions);
}

size_t live_stop(struct live *l)
{
        live_lock(l);
        if (!l->stopping && l->admission) {
                l->stopping = true;
                admission_close(l->admission);
                cancel_all(l, false);
                wait_for_runs(l, INTERRUPT_GRACE_USEC + DEADLINE_SLACK_USEC);
                cancel_all(l, true);
                wait_for_runs(l, STOP_RUNS_USEC);
                end_sessions(l);
        }
        size_t left = l->n_sessions;
        live_unlock(l);
        return left;
}

/* ---- policies ---- */

const struct server_config *live_config(const struct live *l)
{
        return &l->server->config;
}

int live_policy(struct live *l, const char *trust, const struct policy **ret, gb_error *err)
{
        const struct policy_levels *levels = &l->server->levels;
        const char *names[TRUST_LEVELS_MAX + 1];

        if (!trust || strcmp(trust, l->server->policy->trust) == 0) {
                *ret = l->server->policy;
                return 0;
        }
        for (size_t i = 0; i < levels->n; i++) {
                names[i] = levels->rows[i]->trust;
                if (strcmp(names[i], trust) == 0) {
                        *ret = levels->rows[i];
                        return 0;
                }
        }
        const char *near = suggest_nearest(trust, names, levels->n);
        return error_set(err, GB_E_USAGE, EINVAL, "there is no trust level %s%s%s%s", quote(trust).text, near ? "; did you mean \"" : "", near ? near : "",
                         near ? "\"?" : "");
}

/* ---- counting ---- */

void live_count(struct live *l, const char *tenant, struct live_counts *ret)
{
        struct admission_counts now;

        admission_count(l->admission, tenant, &now);
        *ret = (struct live_counts){now.sessions, now.runs, now.memory_bytes};
}

static int by_age(const void *a, const void *b)
{
        const struct live_session *const *s = a, *const *t = b;

        if ((*s)->born_usec != (*t)->born_usec)
                return (*s)->born_usec < (*t)->born_usec ? -1 : 1;
        return strcmp((*s)->id, (*t)->id);
}

int live_sessions(struct live *l, const char *tenant, bool one_shot, struct live_session ***ret, size_t *ret_n)
{
        size_t n = 0;

        live_lock(l);
        struct live_session **all = calloc(l->n_sessions + 1, sizeof(*all)); /* NOLINT: pointers are meant */
        for (size_t i = 0; all && i < LIVE_BUCKETS; i++)
                for (struct live_session *s = l->sessions[i]; s; s = s->next)
                        if (s->state == LIVE_READY && (one_shot || !s->one_shot) && (!tenant || strcmp(tenant, s->tenant) == 0)) {
                                s->references++;
                                all[n++] = s;
                        }
        live_unlock(l);
        if (!all)
                return -ENOMEM;
        qsort(all, n, sizeof(*all), by_age); /* NOLINT: pointers are meant */
        *ret = all;
        *ret_n = n;
        return 0;
}
