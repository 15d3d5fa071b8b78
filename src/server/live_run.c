/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs in the table: from before their record in the journal to after its end. */
#include "server/live.h"

#include "base/fd.h"
#include "base/hash.h"
#include "base/quote.h"
#include "server/live_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static struct live_run **bucket_of(struct live *l, const char *id)
{
        return &l->runs[hash_string(HASH_INIT, id) % LIVE_BUCKETS];
}

static void run_free(struct live_run *r)
{
        admission_release(&r->reservation);
        free(r->later);
        safe_close(r->cancel_fd);
        safe_close(r->stdin_fd);
        pthread_cond_destroy(&r->changed);
        pthread_mutex_destroy(&r->lock);
        free(r);
}

static struct live_run *run_alloc(struct live *l, const char *tenant)
{
        struct live_run *r = calloc(1, sizeof(*r));

        if (!r)
                return NULL;
        r->live = l;
        r->references = 2; /* the table's and the caller's */
        r->stdin_fd = -1;
        r->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        r->later = calloc(1, sizeof(*r->later));
        strcpy(r->tenant, tenant);
        pthread_mutex_init(&r->lock, NULL);
        live_cond_init(&r->changed);
        if (r->later && r->cancel_fd >= 0 && result_make_id(r->id) == 0)
                return r;
        run_free(r);
        return NULL;
}

/* A session that was taken out of the table is not begun with any more: who did that has cancelled what he found. */
static int enter(struct live *l, struct live_run *r, struct live_session *s, gb_error *err)
{
        int status = 0;

        live_lock(l);
        if (l->stopping)
                status = error_set(err, GB_E_UNAVAILABLE, ESHUTDOWN, "the server ends: nothing new is begun");
        else if (s->state == LIVE_ENDED)
                status = error_set(err, GB_E_NOT_FOUND, ENOENT, "there is no session %s", quote(s->id).text);
        if (status == 0) {
                struct live_run **bucket = bucket_of(l, r->id);
                r->next = *bucket;
                *bucket = r;
                l->n_runs++;
                r->session = s;
                s->references++;
                pthread_mutex_lock(&s->lock);
                s->runs_active++;
                s->runs_total++;
                pthread_mutex_unlock(&s->lock);
        }
        live_unlock(l);
        return status;
}

int live_look_take(struct live *l, const struct caller *caller, struct reservation *ret, gb_error *err)
{
        static const struct admission_counts one = {.runs = 1};

        return admission_take(l->admission, caller->tenant, &one, ret, err);
}

int live_run_new(struct live *l, const struct caller *caller, struct live_session *session, struct live_run **ret, gb_error *err)
{
        static const struct admission_counts one = {.runs = 1};
        struct live_run *r = run_alloc(l, caller->tenant);

        if (!r)
                return error_set(err, GB_E_INTERNAL, errno, "cannot begin a run: out of memory, or of descriptors");
        int status = admission_take(l->admission, r->tenant, &one, &r->reservation, err);
        if (status == 0)
                status = enter(l, r, session, err);
        if (status < 0) {
                run_free(r);
                return status;
        }
        *ret = r;
        return 0;
}

void live_run_leave_session(struct live_run *r)
{
        struct live *l = r->live;

        live_lock(l);
        struct live_session *s = TAKE_PTR(r->session);
        if (s) {
                pthread_mutex_lock(&s->lock);
                s->runs_active--;
                s->used_usec = monotonic_usec();
                pthread_mutex_unlock(&s->lock);
        }
        live_unlock(l);
        live_session_put(s);
}

void live_run_end(struct live_run *r)
{
        struct live *l = r->live;

        live_run_leave_session(r);
        pthread_mutex_lock(&r->lock);
        r->ended = true;
        r->stdin_fd = safe_close(r->stdin_fd);
        pthread_cond_broadcast(&r->changed);
        pthread_mutex_unlock(&r->lock);
        admission_release(&r->reservation);
        live_lock(l);
        for (struct live_run **at = bucket_of(l, r->id); *at; at = &(*at)->next)
                if (*at == r) {
                        *at = r->next;
                        break;
                }
        l->n_runs--;
        pthread_cond_broadcast(&l->changed);
        live_unlock(l);
        live_run_put(r); /* the table's */
}

void live_run_note(struct live_run *r, uint64_t next_seq)
{
        pthread_mutex_lock(&r->lock);
        r->next_seq = next_seq;
        pthread_cond_broadcast(&r->changed);
        pthread_mutex_unlock(&r->lock);
}

void live_run_cancel(struct live_run *r, bool kill)
{
        const uint64_t count = kill ? 2 : 1;

        if (write(r->cancel_fd, &count, sizeof(count)) < 0) {
                /* It is full: it was cancelled often enough. */
        }
}

/* ---- finding one ---- */

int live_run_get(struct live *l, const struct caller *caller, const char *id, struct live_run **ret, gb_error *err)
{
        struct live_run *found = NULL;

        live_lock(l);
        for (struct live_run *r = *bucket_of(l, id); r; r = r->next)
                if (strcmp(r->id, id) == 0 && strcmp(r->tenant, caller->tenant) == 0)
                        found = r;
        if (found)
                found->references++;
        live_unlock(l);
        if (!found)
                return error_set(err, GB_E_NOT_FOUND, ENOENT, "there is no run %s that goes on", quote(id).text);
        *ret = found;
        return 0;
}

struct live_run *live_run_ref(struct live_run *r)
{
        live_lock(r->live);
        r->references++;
        live_unlock(r->live);
        return r;
}

void live_run_put(struct live_run *r)
{
        if (!r)
                return;
        struct live *l = r->live;
        live_lock(l);
        bool last = --r->references == 0;
        live_unlock(l);
        if (last)
                run_free(r);
}

struct live_session *live_run_session(struct live_run *r)
{
        live_lock(r->live);
        struct live_session *s = r->session && r->session->state == LIVE_READY ? r->session : NULL;
        if (s)
                s->references++;
        live_unlock(r->live);
        return s;
}

struct live_run *live_run_of(struct live *l, const struct live_session *s)
{
        struct live_run *found = NULL;

        live_lock(l);
        for (size_t i = 0; i < LIVE_BUCKETS && !found; i++)
                for (struct live_run *r = l->runs[i]; r && !found; r = r->next)
                        if (r->session == s)
                                found = r;
        if (found)
                found->references++;
        live_unlock(l);
        return found;
}
