/* SPDX-License-Identifier: Apache-2.0 */
#include "server/follow.h"

#include "base/fd.h"
#include "base/json.h"
#include "server/reply.h"
#include "server/run_object.h"
#include "server/server.h"

#include <errno.h>
#include <time.h>

static bool is_last(enum journal_kind kind)
{
        return kind == JOURNAL_VERDICT || kind == JOURNAL_ERROR;
}

/* ---- waiting ---- */

static bool is_ended(struct live_run *live)
{
        pthread_mutex_lock(&live->lock);
        bool ended = live->ended;
        pthread_mutex_unlock(&live->lock);
        return ended;
}

/* Until there is an event of this number, or the end; -ETIMEDOUT. -EPIPE: the client has gone away. */
static int wait_for(struct request *r, struct live_run *live, uint64_t seq, uint64_t until_usec)
{
        struct timespec until = {.tv_sec = (time_t)(until_usec / 1000000), .tv_nsec = (long)(until_usec % 1000000) * 1000};
        int status = 0;

        pthread_mutex_lock(&live->lock);
        while (status == 0 && live->next_seq <= seq && !live->ended) {
                uint64_t gone = live->gone;
                if (request_is_gone(r)) {
                        status = -EPIPE;
                        break;
                }
                while (status == 0 && live->next_seq <= seq && !live->ended && live->gone == gone)
                        status = -pthread_cond_timedwait(&live->changed, &live->lock, &until);
        }
        pthread_mutex_unlock(&live->lock);
        return status;
}

bool follow_end(struct request *r, struct live_run *live)
{
        struct live *l = r->server->live;
        uint64_t watch = live_watch_client(l, request_gone_fd(r), live, false);
        int status;

        do
                status = wait_for(r, live, UINT64_MAX, monotonic_usec() + FOLLOW_PING_USEC);
        while (status == -ETIMEDOUT);
        live_unwatch(l, watch);
        return status == 0;
}

/* ---- a stream ---- */

struct follow {
        struct request *request;
        uint64_t next;
        bool last; /* the last event was sent */
        bool gone;
};

static int send_event(void *data, const struct journal_event *e)
{
        struct follow *f = data;
        _cleanup_json_ json_t *object = event_to_json(e);

        if (!object)
                return -ENOMEM;
        if (reply_stream_event(f->request, (int64_t)e->seq, json_string_value(json_object_get(object, "event")), object) < 0) {
                f->gone = true;
                return -EPIPE;
        }
        f->next = e->seq + 1;
        f->last = is_last(e->kind);
        return 0;
}

/* 1: the last event was sent. 0: there are no more just now. */
static int send_there(struct follow *f, const char *run)
{
        int64_t n;

        do
                n = journal_events(f->request->server->journal, run, f->next, FOLLOW_BYTES_MAX, send_event, f, NULL);
        while (n > 0 && !f->last);
        return n < 0 ? (int)n : f->last;
}

/* Whether the journal has the end, so that there is nothing after what was sent. */
static bool has_end(const struct follow *f, const char *run)
{
        _cleanup_journal_run_ struct journal_run record = {0};

        return journal_run_get(f->request->server->journal, f->request->caller.tenant, run, &record, NULL) == 0 && record.state == JOURNAL_ENDED &&
               f->next >= record.next_seq;
}

static int send_all(struct follow *f, const char *run, struct live_run *live)
{
        uint64_t ping = monotonic_usec() + FOLLOW_PING_USEC;

        for (;;) {
                bool over = !live || is_ended(live); /* before the look: what was written until then is seen by it */
                uint64_t before = f->next;
                int r = send_there(f, run);
                if (r != 0)
                        return r < 0 ? r : 0;
                if (over)
                        return has_end(f, run) ? 0 : -EIO;
                if (f->next > before)
                        ping = monotonic_usec() + FOLLOW_PING_USEC;
                r = wait_for(f->request, live, f->next, ping);
                if (r == -ETIMEDOUT) {
                        r = reply_stream_ping(f->request);
                        ping = monotonic_usec() + FOLLOW_PING_USEC;
                }
                if (r < 0)
                        return r;
        }
}

void follow_stream(struct request *r, const char *run, uint64_t from, struct live_run *live, bool cancel)
{
        struct live *l = r->server->live;
        struct follow f = {.request = r, .next = from};
        uint64_t watch = live ? live_watch_client(l, request_gone_fd(r), live, cancel) : 0;

        int status = reply_stream_begin(r);
        if (status == 0)
                status = send_all(&f, run, live);
        /* Who watches for that may be later than we are, and is about to be told that nobody needs it any more. */
        if (cancel && live && (status == -EPIPE || request_is_gone(r)))
                live_run_cancel(live, true);
        if (status == 0)
                (void)reply_end(r);
        else
                reply_abort(r);
        live_unwatch(l, watch);
}

/* ---- a page ---- */

struct page {
        json_t *events;
        uint64_t next;
        bool last;
};

static int add_event(void *data, const struct journal_event *e)
{
        struct page *p = data;

        if (json_array_append_new(p->events, event_to_json(e)) < 0)
                return -ENOMEM;
        p->next = e->seq + 1;
        p->last = is_last(e->kind);
        return 0;
}

void follow_page(struct request *r, const struct journal_run *run, uint64_t from)
{
        _cleanup_json_ json_t *events = json_array();
        struct page p = {.events = events, .next = from};
        gb_error err = {0};

        int64_t n = journal_events(r->server->journal, run->id, from, EVENTS_PAGE_BYTES_MAX, add_event, &p, &err);
        if (n < 0) {
                if (err.code == GB_E_NONE)
                        error_set(&err, GB_E_INTERNAL, ENOMEM, "out of memory");
                reply_error(r, &err);
                return;
        }
        bool ended = p.last || (n == 0 && run->state == JOURNAL_ENDED && from >= run->next_seq);
        reply_json(r, 200, json_pack("{s:O, s:I, s:b}", "events", events, "next", (json_int_t)p.next, "ended", ended));
}
