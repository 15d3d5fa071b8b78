/* SPDX-License-Identifier: Apache-2.0
 *
 * The keeper: a thread that waits for what nobody else waits for.
 *
 *   a box died by itself     its session is taken out of the table ("died"); its runs find out themselves, and are lost
 *   a client went away       who waits for the run on its behalf is woken, and the run cancelled when that was wished
 *   a session's time is over it is taken out and its runs are cancelled ("expired"), or it was not used ("idle")
 *   an end is not written    the journal was full: it is tried again
 *
 * It closes a box itself only when no worker is free: that may take seconds. What it is told of by epoll is a number; what that stands for
 * is looked up under the table's lock, so it does not matter who was faster. */
#include "server/live.h"

#include "base/fd.h"
#include "server/live_table.h"
#include "server/log.h"
#include "server/workers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS_MAX 64
#define WAKE_SERIAL 0
#define LATER_USEC 1000000ULL

/* ---- watches ---- */

uint64_t live_watch_add(struct live *l, int fd, struct live_session *session, struct live_run *run, bool cancel)
{
        struct live_watch *w = calloc(1, sizeof(*w));

        if (!w)
                return 0;
        /* A descriptor of our own: two may watch the same client, and whose it is may close it before we are told. */
        *w = (struct live_watch){.serial = ++l->last_watch, .fd = fcntl(fd, F_DUPFD_CLOEXEC, 3), .session = session, .run = run, .cancel = cancel};
        struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = w->serial};
        if (w->fd < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, w->fd, &event) < 0) {
                safe_close(w->fd);
                free(w);
                return 0;
        }
        w->next = l->watches;
        l->watches = w;
        return w->serial;
}

void live_watch_remove(struct live *l, uint64_t serial)
{
        for (struct live_watch **at = &l->watches; *at; at = &(*at)->next)
                if ((*at)->serial == serial) {
                        struct live_watch *w = *at;
                        *at = w->next;
                        (void)epoll_ctl(l->epoll, EPOLL_CTL_DEL, w->fd, NULL);
                        safe_close(w->fd);
                        free(w);
                        return;
                }
}

uint64_t live_watch_client(struct live *l, int fd, struct live_run *r, bool cancel)
{
        live_lock(l);
        uint64_t serial = fd >= 0 ? live_watch_add(l, fd, NULL, r, cancel) : 0;
        live_unlock(l);
        return serial;
}

void live_unwatch(struct live *l, uint64_t watch)
{
        if (watch == 0)
                return;
        live_lock(l);
        live_watch_remove(l, watch);
        live_unlock(l);
}

/* ---- ending sessions ---- */

static void put_job(void *session)
{
        live_session_put(session);
}

/* With the lock; gives it up meanwhile. */
static void end_session(struct live *l, struct live_session *s, const char *why, bool cancel)
{
        if (!session_take_out(s, why, cancel))
                return;
        live_unlock(l);
        /* The table's reference. It may be the last one. */
        if (!l->server->workers || workers_start(l->server->workers, put_job, s) < 0)
                live_session_put(s);
        live_lock(l);
}

/* Why its time is over; NULL: it is not. With the lock, and the time is asked under it: since an earlier look at the clock somebody may have made or used it. */
static const char *why_over(struct live_session *s)
{
        const char *why = NULL;

        if (s->state != LIVE_READY || s->one_shot)
                return NULL;
        pthread_mutex_lock(&s->lock);
        uint64_t now = monotonic_usec();
        if (now - s->born_usec >= s->lifetime_usec)
                why = "expired";
        else if (s->references == 1 && s->runs_active == 0 && now - s->used_usec >= s->idle_usec)
                why = "idle";
        pthread_mutex_unlock(&s->lock);
        return why;
}

static void end_expired(struct live *l)
{
        live_lock(l);
        for (size_t i = 0; i < LIVE_BUCKETS; i++)
                for (struct live_session *s = l->sessions[i]; s;) {
                        const char *why = why_over(s);
                        if (why)
                                end_session(l, s, why, true);
                        s = why ? l->sessions[i] : s->next; /* the list may be another one now */
                }
        live_unlock(l);
}

/* ---- what was told ---- */

static void take_event(struct live *l, uint64_t serial)
{
        live_lock(l);
        for (struct live_watch *w = l->watches; w; w = w->next) {
                if (w->serial != serial)
                        continue;
                if (w->session) {
                        end_session(l, w->session, "died", false);
                } else {
                        if (w->cancel)
                                live_run_cancel(w->run, true);
                        pthread_mutex_lock(&w->run->lock);
                        w->run->gone++;
                        pthread_cond_broadcast(&w->run->changed);
                        pthread_mutex_unlock(&w->run->lock);
                }
                break;
        }
        live_unlock(l);
}

/* ---- ends that are not written ---- */

static char *copy(const char *text)
{
        return text ? strdup(text) : NULL;
}

static void end_done(struct journal_end *end)
{
        free((char *)(uintptr_t)end->verdict);
        free((char *)(uintptr_t)end->event);
        free((char *)(uintptr_t)end->result);
        free((char *)(uintptr_t)end->peaks);
        free((char *)(uintptr_t)end->controls);
        free((char *)(uintptr_t)end->more);
        *end = (struct journal_end){0};
}

static void later_free(struct live_later *e)
{
        end_done(&e->end);
        free(e);
}

void live_end_later(struct live_run *r, const struct journal_end *end)
{
        struct live *l = r->live;
        struct live_later *e = TAKE_PTR(r->later);

        if (!e)
                return;
        memcpy(e->run, r->id, sizeof(e->run));
        e->ran = end->verdict;
        e->end = (struct journal_end){
                .verdict = copy(end->verdict), .event = copy(end->event), .result = copy(end->result), .peaks = copy(end->peaks),
                .controls = copy(end->controls), .more = copy(end->more), .t_usec = end->t_usec,
        };
        if (!e->end.event || !e->end.result || (end->verdict && !e->end.verdict))
                end_done(&e->end);
        live_lock(l);
        e->next = l->later;
        l->later = e;
        live_unlock(l);
}

static void write_later(struct live *l)
{
        live_lock(l);
        struct live_later *todo = TAKE_PTR(l->later);
        live_unlock(l);
        while (todo) {
                struct live_later *e = todo;
                todo = e->next;
                gb_error err = {0};
                struct journal_end end = e->end;
                if (!end.event && e->ran)
                        end = (struct journal_end){.verdict = "lost", .event = RUN_LOST, .result = RUN_LOST};
                else if (!end.event)
                        end = (struct journal_end){.event = RUN_NO_MEMORY, .result = RUN_NO_MEMORY};
                if (journal_run_end(l->server->journal, e->run, &end, &err) == 0 || err.code == GB_E_NOT_FOUND) {
                        later_free(e);
                        continue;
                }
                live_lock(l);
                e->next = l->later;
                l->later = e;
                live_unlock(l);
        }
}

/* ---- the thread ---- */

static void *keep(void *data)
{
        struct live *l = data;
        struct epoll_event events[EVENTS_MAX];
        uint64_t looked = 0, tried = 0;

        for (;;) {
                int n = epoll_wait(l->epoll, events, EVENTS_MAX, (int)(SESSION_LOOK_USEC / 1000));
                for (int i = 0; i < n; i++) {
                        if (events[i].data.u64 == WAKE_SERIAL)
                                return NULL;
                        take_event(l, events[i].data.u64);
                }
                uint64_t now = monotonic_usec();
                if (now - looked >= SESSION_LOOK_USEC / 2) {
                        looked = now;
                        end_expired(l);
                }
                if (now - tried >= LATER_USEC) {
                        tried = now;
                        write_later(l);
                }
        }
}

int keeper_start(struct live *l, gb_error *err)
{
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = WAKE_SERIAL};

        l->epoll = epoll_create1(EPOLL_CLOEXEC);
        l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (l->epoll < 0 || l->wake < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->wake, &event) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot watch sessions: %s", strerror(errno));
        int r = pthread_create(&l->keeper, NULL, keep, l);
        l->has_keeper = r == 0;
        return r == 0 ? 0 : error_set(err, GB_E_INTERNAL, r, "cannot start a thread: %s", strerror(r));
}

void keeper_stop(struct live *l)
{
        static const uint64_t one = 1;

        if (l->has_keeper) {
                if (write(l->wake, &one, sizeof(one)) < 0) {
                        /* It is full: it wakes anyway. */
                }
                pthread_join(l->keeper, NULL);
                l->has_keeper = false;
                write_later(l); /* the last chance */
        }
        while (l->later) {
                struct live_later *e = l->later;
                l->later = e->next;
                later_free(e);
        }
        while (l->watches)
                live_watch_remove(l, l->watches->serial);
        l->epoll = safe_close(l->epoll);
        l->wake = safe_close(l->wake);
}
