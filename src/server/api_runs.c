/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs: docs/api.md. A client that waits for the result has its run executed by the thread of its request; otherwise a worker executes it, and the
 * request's thread follows what comes into the journal. */
#include "server/routes.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/quote.h"
#include "server/follow.h"
#include "server/idempotency.h"
#include "server/reply.h"
#include "server/run_job.h"
#include "server/run_object.h"
#include "server/run_order.h"
#include "server/server.h"
#include "server/workers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *const no_query[] = {NULL};

static void refuse(struct request *r, const gb_error *err)
{
        reply_error(r, err);
}

/* ---- one run as an answer ---- */

/* A run of the tenant. Of one that has just ended there may be nothing in the journal yet, as long as that is full. */
static int get_run(struct request *r, const char *id, struct journal_run *ret, gb_error *err)
{
        return journal_run_get(r->server->journal, r->caller.tenant, id, ret, err);
}

static int get_result(struct request *r, const struct journal_run *run, json_t **ret, gb_error *err)
{
        uint64_t output = run->out_bytes + run->err_bytes;

        if (run->state != JOURNAL_ENDED)
                return 0;
        if (output > RESULT_SMALL_MAX && request_reserve(r, RESULT_GROWTH * output, err) < 0)
                return -EAGAIN;
        return run_result(r->server->journal, run, ret, err);
}

static void reply_run(struct request *r, int status, const struct journal_run *run)
{
        json_t *result = NULL;
        gb_error err = {0};

        if (get_result(r, run, &result, &err) < 0)
                refuse(r, &err);
        else
                reply_json(r, status, run_to_json(run, result));
}

static void reply_run_by_id(struct request *r, int status, const char *id)
{
        _cleanup_journal_run_ struct journal_run run = {0};
        gb_error err = {0};

        if (get_run(r, id, &run, &err) < 0)
                refuse(r, &err);
        else
                reply_run(r, status, &run);
}

/* The error of a run of which nothing was run, as it was told the first time. */
static void reply_failed(struct request *r, const struct journal_run *run)
{
        _cleanup_json_ json_t *stored = run->result ? json_parse(run->result, strlen(run->result), JSON_ALLOW_NUL, NULL) : NULL;
        const json_t *error = json_object_get(stored, "error");
        const char *code = json_string_value(json_object_get(error, "code")), *message = json_string_value(json_object_get(error, "message"));
        gb_error err;

        error_set(&err, GB_E_INTERNAL, EIO, "%s", message ? message : "nothing was run");
        for (int i = 0; code && i <= GB_E_PROTOCOL; i++)
                if (strcmp(error_code_name(i), code) == 0)
                        err.code = i;
        refuse(r, &err);
}

/* ---- creating one ---- */

static void execute(void *data)
{
        _cleanup_run_job_ struct run_job *job = data;

        (void)json_lacked_memory(); /* from here on it is this one that lacks it */
        run_job_execute(job);
}

/* Nothing was run, for want of something that comes back: who obeys Retry-After may use the key again. */
static void refuse_for_now(struct request *r, const struct journal_key *key, const char *id, const gb_error *err)
{
        if (key->key && (err->code == GB_E_UNAVAILABLE || err->code == GB_E_QUOTA))
                (void)journal_key_forget(r->server->journal, r->caller.tenant, key, id, NULL);
        refuse(r, err);
}

/* By a worker; the run is followed, or left alone. */
static void run_apart(struct request *r, struct run_job *job, const struct journal_key *key)
{
        _cleanup_live_run_ struct live_run *live = live_run_ref(job->run);
        bool detach = job->order.detach, cancel = job->order.cancel_on_disconnect;
        gb_error err = {0};

        if (workers_start(r->server->workers, execute, job) < 0) {
                error_set(&err, GB_E_UNAVAILABLE, EAGAIN, "as many runs go on apart from their requests as there may be: try again later");
                run_job_fail(job, &err);
                run_job_free(job);
                refuse_for_now(r, key, live->id, &err);
        } else if (detach) {
                reply_run_by_id(r, 202, live->id);
        } else {
                follow_stream(r, live->id, 0, live, cancel);
        }
}

/* By this thread. */
static void run_here(struct request *r, struct run_job *job_taken, const struct journal_key *key)
{
        _cleanup_run_job_ struct run_job *job = job_taken;
        _cleanup_live_run_ struct live_run *live = live_run_ref(job->run);
        struct live *l = r->server->live;

        job->keep_result = job->session->policy->output_limit_bytes <= RESULT_KEPT_MAX;
        uint64_t watch = job->order.cancel_on_disconnect ? live_watch_client(l, request_gone_fd(r), live, true) : 0;
        run_job_execute(job);
        live_unwatch(l, watch);
        if (job->status < 0)
                refuse_for_now(r, key, live->id, &job->error);
        else if (!job->keep_result) /* there is too much of it */
                reply_run_by_id(r, 200, live->id);
        else
                reply_json(r, 200, run_to_json(&job->record, TAKE_PTR(job->result)));
}

/* What the first request with this key has begun. */
static void replay(struct request *r, const char *id, bool detach)
{
        _cleanup_live_run_ struct live_run *live = NULL;
        _cleanup_journal_run_ struct journal_run run = {0};
        gb_error err = {0};

        (void)live_run_get(r->server->live, &r->caller, id, &live, NULL);
        (void)reply_header(r, "Idempotency-Replayed", "true");
        (void)reply_header(r, "Glovebox-Run", "%s", id);
        if (!detach && r->answer != ANSWER_JSON) {
                /* Its record may have been removed, for want of room: that is told before the stream begins. */
                if (get_run(r, id, &run, &err) < 0)
                        refuse(r, &err);
                else
                        follow_stream(r, id, 0, live, false);
                return;
        }
        if (!detach && live && !follow_end(r, live)) {
                reply_abort(r);
                return;
        }
        int status = get_run(r, id, &run, &err);
        /* It does not go on, and the journal could not take its end yet. */
        if (status == 0 && !detach && run.state != JOURNAL_ENDED)
                status = error_set(&err, GB_E_UNAVAILABLE, EAGAIN, "the run has ended, and how could not be written down yet: ask again");
        if (status < 0)
                refuse(r, &err);
        else if (!detach && run.failed)
                reply_failed(r, &run);
        else
                reply_run(r, detach ? 202 : 200, &run);
}

/* From the order to the answer; takes the order. */
static void create(struct request *r, struct live_session *session, struct run_order *order, const struct journal_key *key)
{
        bool detach = order->detach;
        char id[JOURNAL_ID_MAX];
        gb_error err = {0};

        _cleanup_run_job_ struct run_job *job = NULL;
        int status = run_job_new(r->server, &r->caller, session, order, &job, &err);
        if (status == 0)
                status = run_job_begin(job, &r->caller, key, id, &err);
        if (status > 0) {
                run_job_free(TAKE_PTR(job));
                replay(r, id, detach);
        } else if (status < 0) {
                run_job_free(TAKE_PTR(job)); /* first: who hears of it finds its context free */
                refuse(r, &err);
        } else {
                (void)reply_header(r, "Glovebox-Run", "%s", id);
                if (detach || r->answer != ANSWER_JSON)
                        run_apart(r, TAKE_PTR(job), key);
                else
                        run_here(r, TAKE_PTR(job), key);
        }
}

/* Common to both addresses. The session, when there is one, is looked for last: a retry finds its run also when that has ended. */
static void create_from_body(struct request *r, bool in_session)
{
        _cleanup_(run_order_done) struct run_order order = {.stdin_fd = -1};
        _cleanup_live_session_ struct live_session *session = NULL;
        struct fields f = {.prefix = ""};
        struct journal_key key = {0};
        char id[JOURNAL_ID_MAX];
        gb_error err = {0};

        int status = request_check_query(r, no_query, &err);
        if (status == 0)
                status = request_json(r, false, &order.body, &err);
        if (status == 0)
                status = idempotency_read(r, &key, &err);
        f.object = order.body;
        if (status == 0)
                status = run_order_read(&f, r->server, &r->caller, in_session, &order, &err);
        fields_wipe_secrets(order.body);
        request_forget_body(r); /* its hash is known */
        if (status == 0)
                status = idempotency_look(r, &key, id, &err);
        if (status > 0) {
                replay(r, id, order.detach);
                return;
        }
        if (status == 0 && in_session)
                status = live_session_get(r->server->live, &r->caller, r->params[0], true, &session, &err);
        if (status == 0 && session)
                status = run_order_fit(&f, r->server, session, &order, &err);
        if (status < 0)
                fields_refuse(r, &f, &err);
        else
                create(r, session, &order, &key);
}

void api_run_create(struct request *r)
{
        create_from_body(r, false);
}

void api_session_run(struct request *r)
{
        create_from_body(r, true);
}

/* ---- looking ---- */

static int read_state(const struct request *r, int *ret, gb_error *err)
{
        static const char *const names[] = {[JOURNAL_QUEUED] = "queued", [JOURNAL_RUNNING] = "running", [JOURNAL_ENDED] = "ended"};
        const char *text = request_query(r, "state");

        *ret = -1;
        for (int i = 0; text && i < (int)ARRAY_SIZE(names); i++)
                if (strcmp(text, names[i]) == 0)
                        *ret = i;
        return text && *ret < 0 ? error_set(err, GB_E_USAGE, EINVAL, "state: queued, running or ended, not %s", quote(text).text) : 0;
}

void api_runs_list(struct request *r)
{
        static const char *const names[] = {"session", "state", "limit", "cursor", NULL};
        struct journal_query q = {.tenant = r->caller.tenant, .session = request_query(r, "session")};
        struct journal_run *runs = NULL;
        uint64_t limit = 100, next = 0;
        size_t n = 0;
        gb_error err = {0};

        int status = request_check_query(r, names, &err);
        if (status == 0)
                status = request_query_number(r, "limit", 1, 1000, 100, &limit, &err);
        if (status == 0)
                status = request_query_number(r, "cursor", 1, INT64_MAX, 0, &q.before, &err);
        if (status == 0)
                status = read_state(r, &q.state, &err);
        q.limit = (size_t)limit;
        if (status == 0)
                status = journal_runs(r->server->journal, &q, &runs, &n, &next, &err);
        if (status < 0) {
                refuse(r, &err);
                return;
        }
        _cleanup_json_ json_t *list = json_array(), *o = json_object();
        for (size_t i = 0; i < n && status == 0; i++)
                status = json_array_append_new(list, run_to_json_brief(&runs[i]));
        journal_runs_free(runs, n);
        status |= json_object_set(o, "runs", list);
        status |= json_object_set_new(o, "next", next > 0 ? json_sprintf("%llu", (unsigned long long)next) : json_null());
        reply_json(r, 200, status == 0 ? TAKE_PTR(o) : NULL);
}

void api_run_get(struct request *r)
{
        gb_error err = {0};

        if (request_check_query(r, no_query, &err) < 0)
                refuse(r, &err);
        else
                reply_run_by_id(r, 200, r->params[0]);
}

/* ?from=, or the number after that of Last-Event-ID. */
static int read_from(const struct request *r, uint64_t *ret, gb_error *err)
{
        const char *last = request_header(r, "Last-Event-ID");
        uint64_t id;

        if (last && !request_query(r, "from")) {
                if (parse_count(last, &id) < 0 || id >= INT64_MAX)
                        return error_set(err, GB_E_USAGE, EINVAL, "the header Last-Event-ID is the number of an event, not %s", quote(last).text);
                *ret = id + 1;
                return 0;
        }
        return request_query_number(r, "from", 0, INT64_MAX, 0, ret, err);
}

void api_run_events(struct request *r)
{
        static const char *const names[] = {"from", NULL};
        _cleanup_live_run_ struct live_run *live = NULL;
        _cleanup_journal_run_ struct journal_run run = {0};
        uint64_t from = 0;
        gb_error err = {0};

        int status = request_check_query(r, names, &err);
        if (status == 0)
                status = read_from(r, &from, &err);
        /* In this order: one that is not in the table then has its end in the journal. */
        if (status == 0)
                (void)live_run_get(r->server->live, &r->caller, r->params[0], &live, NULL);
        if (status == 0)
                status = get_run(r, r->params[0], &run, &err);
        if (status < 0) {
                refuse(r, &err);
                return;
        }
        (void)reply_header(r, "Glovebox-Run", "%s", run.id);
        if (r->answer == ANSWER_JSON)
                follow_page(r, &run, from);
        else
                follow_stream(r, run.id, from, live, false);
}

/* ---- acting on one ---- */

/* The run while it goes on; one that has ended is a conflict, and one that never was is not found. */
static int get_live(struct request *r, struct live_run **ret, gb_error *err)
{
        _cleanup_journal_run_ struct journal_run run = {0};

        if (live_run_get(r->server->live, &r->caller, r->params[0], ret, NULL) == 0)
                return 0;
        int status = get_run(r, r->params[0], &run, err);
        return status < 0 ? status : error_set(err, GB_E_CONFLICT, ESRCH, "the run has ended");
}

void api_run_cancel(struct request *r)
{
        static const char *const names[] = {"kill", NULL};
        _cleanup_json_ json_t *body = NULL;
        _cleanup_live_run_ struct live_run *live = NULL;
        struct fields f = {.prefix = ""};
        bool kill = false;
        gb_error err = {0};

        int status = request_check_query(r, no_query, &err);
        if (status == 0)
                status = request_json(r, true, &body, &err);
        f.object = body;
        if (status == 0)
                status = fields_check(&f, names, &err);
        if (status == 0)
                status = fields_bool(&f, "kill", &kill, &err);
        if (status == 0 && live_run_get(r->server->live, &r->caller, r->params[0], &live, NULL) == 0)
                live_run_cancel(live, kill);
        /* One that has ended is as the caller wants it. */
        if (status < 0)
                fields_refuse(r, &f, &err);
        else
                reply_run_by_id(r, 202, r->params[0]);
}

/* One piece of what is sent to standard input: how much was taken. -EPIPE: nobody reads any more. -EAGAIN: not now. */
static ssize_t send_input(struct live_run *live, const char *bytes, size_t size)
{
        pthread_mutex_lock(&live->lock);
        ssize_t n = live->stdin_fd >= 0 ? send(live->stdin_fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) : -1;
        int error = live->stdin_fd >= 0 ? errno : EPIPE;
        pthread_mutex_unlock(&live->lock);
        return n >= 0 ? n : -error;
}

/* Until the run takes more; a run that ends closes its input, which nobody can wait for, so this looks now and then. */
static void wait_input(struct live_run *live)
{
        pthread_mutex_lock(&live->lock);
        _cleanup_close_ int fd = live->stdin_fd >= 0 ? fcntl(live->stdin_fd, F_DUPFD_CLOEXEC, 3) : -1;
        pthread_mutex_unlock(&live->lock);
        struct pollfd p = {.fd = fd, .events = POLLOUT};

        (void)poll(&p, 1, 100);
}

/* The next bytes of the body, where they lie or in `piece`; how many, 0 when they cannot be read. */
static size_t next_input(const struct body *body, uint64_t at, char *piece, const char **ret)
{
        size_t size = (size_t)MIN(body->size - at, (uint64_t)OUTPUT_CHUNK_BYTES);

        if (body->fd < 0) {
                *ret = body->memory.data + at;
                return size;
        }
        *ret = piece;
        ssize_t n = pread(body->fd, piece, size, (off_t)at);
        return n > 0 ? (size_t)n : 0;
}

/* How much of it was taken. */
static uint64_t send_all_input(struct request *r, struct live_run *live, char *piece)
{
        uint64_t at = 0, until = monotonic_usec() + STDIN_WAIT_USEC;
        const struct body *body = &r->body;
        const char *bytes;

        while (at < body->size) {
                size_t size = next_input(body, at, piece, &bytes);
                ssize_t n = size > 0 ? send_input(live, bytes, size) : -EIO;
                if (n > 0) {
                        at += (uint64_t)n;
                        until = monotonic_usec() + STDIN_WAIT_USEC;
                } else if ((n != -EAGAIN && n != -EINTR) || monotonic_usec() >= until || request_is_gone(r)) {
                        break;
                } else {
                        wait_input(live);
                }
        }
        return at;
}

/* One at a time, so that what two send is not mixed; who comes meanwhile waits as long as the run might let the first one wait. */
static int take_input(struct request *r, struct live_run *live, gb_error *err)
{
        uint64_t until = monotonic_usec() + STDIN_WAIT_USEC;
        int status = 0;

        pthread_mutex_lock(&live->lock);
        while (status == 0 && live->stdin_fd >= 0 && live->input_busy) {
                /* In steps: nobody tells us that our client has gone away. */
                uint64_t now = monotonic_usec(), step = now + STDIN_LOOK_USEC;
                struct timespec at = {.tv_sec = (time_t)(step / 1000000), .tv_nsec = (long)(step % 1000000) * 1000};
                if (now >= until || request_is_gone(r))
                        status = error_set(err, GB_E_CONFLICT, EBUSY, "another request sends to the standard input of this run: wait for it");
                else
                        (void)pthread_cond_timedwait(&live->changed, &live->lock, &at);
        }
        if (status == 0 && live->stdin_fd < 0)
                status = error_set(err, GB_E_CONFLICT, EPIPE, "the standard input of this run is closed: \"interactive\": true keeps it open");
        if (status == 0)
                live->input_busy = true;
        pthread_mutex_unlock(&live->lock);
        return status;
}

static void give_input(struct live_run *live, bool close_it)
{
        pthread_mutex_lock(&live->lock);
        if (close_it)
                live->stdin_fd = safe_close(live->stdin_fd);
        live->input_busy = false;
        pthread_cond_broadcast(&live->changed);
        pthread_mutex_unlock(&live->lock);
}

void api_run_stdin(struct request *r)
{
        static const char *const names[] = {"close", NULL};
        _cleanup_live_run_ struct live_run *live = NULL;
        _cleanup_free_ char *piece = r->body.fd >= 0 ? malloc(OUTPUT_CHUNK_BYTES) : NULL;
        bool close_it = false;
        gb_error err = {0};

        int status = request_check_query(r, names, &err);
        if (status == 0)
                status = request_query_bool(r, "close", &close_it, &err);
        if (status == 0)
                status = get_live(r, &live, &err);
        if (status == 0 && r->body.fd >= 0 && !piece)
                status = error_set(&err, GB_E_UNAVAILABLE, ENOMEM, "there is no memory for what was sent");
        if (status == 0)
                status = take_input(r, live, &err);
        if (status < 0) {
                refuse(r, &err);
                return;
        }
        uint64_t n = send_all_input(r, live, piece);
        give_input(live, close_it && n == r->body.size);
        reply_json(r, 200, json_pack("{s:I}", "accepted", (json_int_t)n));
}
