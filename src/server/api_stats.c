/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics: one sample, or a stream of them. A stream holds nothing between two samples: each looks its subject up again, and the
 * stream ends when that is gone. */
#include "server/stats.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/quote.h"
#include "server/reply.h"
#include "server/routes.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define PING_USEC 15000000ULL
#define BEGIN_USEC 5000000ULL /* a run that was asked for has its box by then, or waits for something */
#define BEGIN_PAUSE_MSEC 20

struct watcher {
        struct request *request;
        struct stats_memory memory;
        const char *kind; /* of its events */
        int (*sample)(struct watcher *w, json_t **ret, gb_error *err);
};

static int sample_session(struct watcher *w, json_t **ret, gb_error *err)
{
        struct request *r = w->request;
        _cleanup_live_session_ struct live_session *s = NULL;

        int e = live_session_get(r->server->live, &r->caller, r->params[0], false, &s, err);
        return e < 0 ? e : stats_sample(s, NULL, &w->memory, ret, err);
}

/* Whether there was such a run: one that has ended is not one that never was. */
static int no_run(struct request *r, gb_error *err)
{
        _cleanup_journal_run_ struct journal_run run = {0};

        int e = journal_run_get(r->server->journal, r->caller.tenant, r->params[0], &run, err);
        return e < 0 ? e : error_set(err, GB_E_CONFLICT, ESRCH, "the run has ended: what it used is in its result");
}

static bool has_ended(struct live_run *run)
{
        pthread_mutex_lock(&run->lock);
        bool ended = run->ended;
        pthread_mutex_unlock(&run->lock);
        return ended;
}

/* Who starts a run and asks at once is earlier than its box. */
static struct live_session *session_of(struct request *r, struct live_run *run)
{
        struct pollfd gone = {request_gone_fd(r), POLLIN, 0};
        uint64_t end_usec = monotonic_usec() + BEGIN_USEC;
        struct live_session *s;

        while (!(s = live_run_session(run)) && !has_ended(run) && monotonic_usec() < end_usec)
                if (poll(&gone, 1, BEGIN_PAUSE_MSEC) > 0)
                        break;
        return s;
}

static int sample_run(struct watcher *w, json_t **ret, gb_error *err)
{
        struct request *r = w->request;
        _cleanup_live_run_ struct live_run *run = NULL;

        if (live_run_get(r->server->live, &r->caller, r->params[0], &run, err) < 0)
                return no_run(r, err);
        _cleanup_live_session_ struct live_session *s = session_of(r, run);
        if (!s && !has_ended(run))
                return error_set(err, GB_E_CONFLICT, EAGAIN, "the run has not begun yet");
        gb_error why = {0};
        int e = s ? stats_sample(s, run->id, &w->memory, ret, &why) : -ESRCH;
        if (e < 0 && s && why.code != GB_E_NOT_FOUND) {
                if (err)
                        *err = why;
                return e;
        }
        return e < 0 ? no_run(r, err) : 0;
}

static int sample_all(struct watcher *w, json_t **ret, gb_error *err)
{
        struct request *r = w->request;

        return stats_sample_all(r->server, r->caller.tenant, (r->caller.scopes & SCOPE_ADMIN) != 0, &w->memory, ret, err);
}

static int read_interval(struct request *r, uint64_t *ret_usec, gb_error *err)
{
        const char *text = request_query(r, "interval");
        char number[16] = "";

        *ret_usec = 1000000;
        if (!text)
                return 0;
        /* Programs write more digits than there are microseconds. */
        const char *point = strchr(text, '.');
        if (point && strspn(point + 1, "0123456789") > 6 && point[1 + strspn(point + 1, "0123456789")] == '\0')
                snprintf(number, sizeof(number), "%.*s", (int)MIN(point - text + 7, (ptrdiff_t)sizeof(number) - 1), text);
        if (parse_duration(number[0] ? number : text, ret_usec) < 0 || *ret_usec < STATS_INTERVAL_MIN_USEC || *ret_usec > STATS_INTERVAL_MAX_USEC)
                return error_set(err, GB_E_USAGE, EINVAL, "interval: %s is not a time from 0.1 to 60 seconds", quote(text).text);
        return 0;
}

/* Until it is time, or nobody reads any more; a silence is filled. */
static bool wait_until(struct watcher *w, uint64_t end_usec)
{
        struct pollfd gone = {request_gone_fd(w->request), POLLIN, 0};
        uint64_t last_usec = monotonic_usec();

        for (uint64_t now = last_usec; now < end_usec; now = monotonic_usec()) {
                /* The server's end does not wait for the interval. */
                uint64_t slice = MIN(end_usec - now, (uint64_t)500000);
                if (poll(&gone, 1, (int)(slice / 1000) + 1) > 0 || atomic_load(&w->request->server->state) == SERVER_DRAINING)
                        return false;
                if (monotonic_usec() - last_usec >= PING_USEC) {
                        if (reply_stream_ping(w->request) < 0)
                                return false;
                        last_usec = monotonic_usec();
                }
        }
        return true;
}

static void stream(struct watcher *w, json_t *first, uint64_t interval_usec)
{
        _cleanup_json_ json_t *json = first;
        uint64_t next_usec = monotonic_usec();
        gb_error err = {0};

        if (reply_stream_begin(w->request) < 0)
                return;
        while (json) {
                if (json_object_set_new(json, "event", json_string(w->kind)) < 0 || reply_stream_event(w->request, -1, w->kind, json) < 0)
                        return;
                json_decref(json);
                json = NULL;
                /* Who is late does not catch up by hurrying. */
                next_usec = MAX(next_usec + interval_usec, monotonic_usec());
                if (!wait_until(w, next_usec) || w->sample(w, &json, &err) < 0)
                        break;
        }
        /* The end of the run or session ends the stream; a sample that could not be read breaks it off, and so does the
         * end of the server, which says nothing about them. */
        bool draining = atomic_load(&w->request->server->state) == SERVER_DRAINING;
        if (!draining && (err.code == GB_E_NONE || err.code == GB_E_NOT_FOUND || err.code == GB_E_CONFLICT))
                (void)reply_end(w->request);
        else
                reply_abort(w->request);
}

static void answer(struct watcher *w)
{
        static const char *const names[] = {"interval", NULL};
        struct request *r = w->request;
        json_t *json = NULL;
        uint64_t interval;
        gb_error err = {0};

        int e = request_check_query(r, names, &err);
        if (e == 0)
                e = read_interval(r, &interval, &err);
        if (e == 0)
                e = w->sample(w, &json, &err);
        if (e < 0)
                reply_error(r, &err);
        else if (r->answer == ANSWER_SSE || r->answer == ANSWER_NDJSON)
                stream(w, json, interval);
        else
                reply_json(r, 200, json);
        stats_memory_done(&w->memory);
}

void api_session_stats(struct request *r)
{
        struct watcher w = {.request = r, .kind = "sample", .sample = sample_session};

        answer(&w);
}

void api_run_stats(struct request *r)
{
        struct watcher w = {.request = r, .kind = "sample", .sample = sample_run};

        answer(&w);
}

void api_stats(struct request *r)
{
        struct watcher w = {.request = r, .kind = "stats", .sample = sample_all};

        answer(&w);
}
