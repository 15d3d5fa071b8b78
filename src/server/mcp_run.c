/* SPDX-License-Identifier: Apache-2.0
 *
 * The tools that run code. A call becomes what POST /v1/sessions/{session}/runs would have got, and goes the way of that: so policy, guard, network, secrets, quota, journal
 * and audit are the same. A job executes it, and the call's thread follows the journal: it tells what is printed as progress, and looks whether somebody cancels.
 *
 * Calls that want the same interpreter at the same time take turns: models send several at once, and each of them is meant. */
#include "server/mcp_stream.h"

#include "base/buffer.h"
#include "base/fd.h"
#include "base/json.h"
#include "server/reply_state.h"
#include "server/run_job.h"
#include "server/run_object.h"
#include "server/run_order.h"
#include "server/server.h"
#include "server/workers.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define TICK_USEC 250000ULL /* whether somebody cancels, is looked at this often */

/* What is to be run. */
struct order {
        const char *language;
        const json_t *code;
        bool fresh; /* a program of its own, in no interpreter that goes on */
};

/* The body of the API's request. */
static json_t *body_of(const struct order *o, const json_t *arguments)
{
        static const char *const same[] = {"timeout", "stdin", "args"};
        _cleanup_json_ json_t *body = json_object();
        int r = json_object_set(body, "code", (json_t *)(uintptr_t)o->code);

        r |= json_object_set_new(body, "language", json_string(o->language));
        for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
                json_t *value = json_object_get(arguments, same[i]);
                if (value)
                        r |= json_object_set(body, same[i], value);
        }
        if (o->fresh)
                r |= json_object_set_new(body, "context", json_null());
        return r == 0 ? TAKE_PTR(body) : NULL;
}

/* ---- from the order to a run that goes on ---- */

static int read_order(struct mcp_call *c, struct live_session *s, const struct order *o, const json_t *arguments, struct run_order *ret, gb_error *err)
{
        struct fields f = {.prefix = ""};

        ret->body = body_of(o, arguments);
        if (!ret->body)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        f.object = ret->body;
        int r = run_order_read(&f, c->server, c->caller, true, ret, err);
        return r < 0 ? r : run_order_fit(&f, c->server, s, ret, err);
}

/* One that found its interpreter free. Others may have been waiting as well, so it is tried until it is so. */
static int make_job(struct mcp_call *c, struct live_session *s, const struct order *o, const json_t *arguments, struct run_job **ret, gb_error *err)
{
        uint64_t until = monotonic_usec() + MCP_TURN_USEC;

        for (;;) {
                _cleanup_(run_order_done) struct run_order order = {.stdin_fd = -1};
                int r = read_order(c, s, o, arguments, &order, err);
                if (r < 0)
                        return r;
                const struct language *language = order.language;
                r = run_job_new(c->server, c->caller, s, &order, ret, err);
                /* What is large counts for all as long as it is there: it does not wait. */
                if (r != -EBUSY || !err || err->code != GB_E_CONFLICT || c->request->reply->large_bytes > 0 || monotonic_usec() >= until)
                        return r;
                live_context_wait(s, language, monotonic_usec() + TICK_USEC);
                if (mcp_is_cancelled(c))
                        return -ECANCELED;
                if (s->ended)
                        return error_set(err, GB_E_LOST, ESRCH, "the session has ended while this waited for its turn");
        }
}

static void execute(void *data)
{
        _cleanup_run_job_ struct run_job *job = data;

        (void)json_lacked_memory(); /* from here on it is this one that lacks it */
        run_job_execute(job);
}

/* With a reference to what goes on. */
static int start(struct mcp_call *c, struct live_session *s, const struct order *o, const json_t *arguments, struct live_run **ret, gb_error *err)
{
        static const struct journal_key no_key;
        _cleanup_run_job_ struct run_job *job = NULL;
        char id[JOURNAL_ID_MAX];

        int r = make_job(c, s, o, arguments, &job, err);
        if (r == 0)
                r = run_job_begin(job, c->caller, &no_key, id, err);
        if (r < 0)
                return r;
        _cleanup_live_run_ struct live_run *run = live_run_ref(job->run);
        if (workers_start(c->server->workers, execute, job) < 0) {
                r = error_set(err, GB_E_UNAVAILABLE, EAGAIN, "as many runs go on as there may be");
                run_job_fail(job, err);
                return r;
        }
        (void)TAKE_PTR(job);
        *ret = TAKE_PTR(run);
        return 0;
}

/* ---- while it goes on ---- */

struct follow {
        struct mcp_call *call;
        struct live_run *run;
        uint64_t next, told_usec, cancelled_usec;
        bool killed;
        struct buffer news; /* printed, and not told yet */
};

static int take_event(void *data, const struct journal_event *e)
{
        struct follow *f = data;

        f->next = e->seq + 1;
        if (e->kind != JOURNAL_STDOUT && e->kind != JOURNAL_STDERR)
                return 0;
        /* Of much the end is told: the whole comes with the result. */
        size_t size = MIN(e->size, (size_t)MCP_PROGRESS_BYTES_MAX), over = f->news.size + size;
        over -= MIN(over, (size_t)MCP_PROGRESS_BYTES_MAX);
        if (over > 0) {
                memmove(f->news.data, f->news.data + over, f->news.size - over);
                f->news.size -= over;
        }
        (void)buffer_add(&f->news, e->data + e->size - size, size);
        return 0;
}

/* Until something was printed (when that is to be told), the end, or the next look. Whether it has ended. */
static bool wait_for(struct follow *f, bool tells, uint64_t usec)
{
        uint64_t at = monotonic_usec() + usec;
        struct timespec until = {.tv_sec = (time_t)(at / 1000000), .tv_nsec = (long)(at % 1000000) * 1000};
        struct live_run *run = f->run;
        int status = 0;

        pthread_mutex_lock(&run->lock);
        uint64_t gone = run->gone;
        while (status == 0 && !run->ended && run->gone == gone && (!tells || run->next_seq <= f->next))
                status = pthread_cond_timedwait(&run->changed, &run->lock, &until);
        bool ended = run->ended;
        pthread_mutex_unlock(&run->lock);
        return ended;
}

static void tell(struct follow *f)
{
        uint64_t now = monotonic_usec();

        if (f->news.size == 0 && now - f->told_usec < MCP_HEARTBEAT_USEC)
                return;
        mcp_progress(f->call, f->news.data, f->news.size);
        f->news.size = 0;
        f->told_usec = now;
}

/* First asks it to stop, as Ctrl-C does, so that variables stay; then does not ask any more. */
static void stop(struct follow *f)
{
        uint64_t now = monotonic_usec();

        if (f->cancelled_usec == 0) {
                f->cancelled_usec = now;
                mcp_call_interrupt(f->call, f->run);
        } else if (!f->killed && now - f->cancelled_usec >= INTERRUPT_GRACE_USEC) {
                f->killed = true;
                live_run_cancel(f->run, true);
        }
}

static void follow(struct mcp_call *c, struct live_run *run)
{
        struct follow f = {.call = c, .run = run, .told_usec = monotonic_usec()};
        struct live *l = c->server->live;
        bool tells = mcp_progress_token(&c->message), ended;
        uint64_t ping = monotonic_usec() + FOLLOW_PING_USEC;
        uint64_t watch = c->era == MCP_STATELESS ? live_watch_client(l, request_gone_fd(c->request), run, false) : 0;

        buffer_init(&f.news, 2 * MCP_PROGRESS_BYTES_MAX);
        do {
                ended = wait_for(&f, tells, TICK_USEC);
                if (tells && !ended) {
                        (void)journal_events(c->server->journal, run->id, f.next, FOLLOW_BYTES_MAX, take_event, &f, NULL);
                        if (monotonic_usec() - f.told_usec < MCP_PROGRESS_USEC)
                                ended = wait_for(&f, false, MCP_PROGRESS_USEC);
                        if (!ended)
                                tell(&f);
                }
                if (mcp_is_cancelled(c))
                        stop(&f);
                if (monotonic_usec() >= ping) {
                        mcp_stream_ping(c);
                        ping = monotonic_usec() + FOLLOW_PING_USEC;
                }
        } while (!ended);
        live_unwatch(l, watch);
        buffer_done(&f.news);
}

/* ---- what became of it ---- */

static int get_result(struct mcp_call *c, const char *id, struct journal_run *run, json_t **ret, gb_error *err)
{
        int r = journal_run_get(c->server->journal, c->caller->tenant, id, run, err);
        uint64_t output = r == 0 ? run->out_bytes + run->err_bytes : 0;

        if (r == 0 && run->state != JOURNAL_ENDED)
                r = error_set(err, GB_E_LOST, EAGAIN, "the run has ended, and how could not be written down yet");
        if (r == 0 && output > RESULT_SMALL_MAX)
                r = request_reserve(c->request, RESULT_GROWTH * output, err);
        return r < 0 ? r : run_result(c->server->journal, run, ret, err);
}

/* Nothing was run: the error that the API would have answered with. */
static int failed(struct mcp_call *c, const struct live_session *s, const json_t *result, json_t **ret, struct rpc_error *err)
{
        const json_t *error = json_object_get(result, "error");
        const char *code = json_string_value(json_object_get(error, "code")), *message = json_string_value(json_object_get(error, "message"));
        gb_error why;

        error_set(&why, GB_E_INTERNAL, EIO, "%s", message ? message : "nothing was run");
        for (int i = 0; code && i <= GB_E_PROTOCOL; i++)
                if (strcmp(error_code_name(i), code) == 0)
                        why.code = i;
        return mcp_tool_failed(c, s, &why, ret, err);
}

static void log_end(struct mcp_call *c, const struct journal_run *run)
{
        bool good = strcmp(run->verdict, "ok") == 0 || strcmp(run->verdict, "error") == 0;

        mcp_log(c, good ? MCP_INFO : MCP_WARNING, json_pack("{s:s, s:s, s:s, s:s, s:s}", "event", "run", "run", run->id, "session", run->session, "language",
                                                            run->language, "verdict", run->verdict));
}

/* session: its id. Whether it still lives is not known before. since: when nothing of it had run yet, by the clock of
 * files; the run's start is recorded when the code may be running already. */
static int tell_result(struct mcp_call *c, const char *session, uint64_t since_usec, const char *id, const char *note, json_t **ret,
                       struct rpc_error *err)
{
        _cleanup_journal_run_ struct journal_run run = {0};
        _cleanup_json_ json_t *result = NULL, *files = NULL;
        struct content_run told = {.run = id, .note = note};
        gb_error why = {0};

        if (get_result(c, id, &run, &result, &why) < 0)
                return mcp_tool_failed(c, NULL, &why, ret, err);
        if (run.failed)
                return failed(c, NULL, result, ret, err);
        log_end(c, &run);
        _cleanup_live_session_ struct live_session *s = NULL;
        if (live_session_get(c->server->live, c->caller, session, true, &s, NULL) == 0) {
                mcp_session_touched(c, s);
                told.session = session;
                told.files = files = mcp_changed_files(s, since_usec, MCP_FILES_MAX, &told.more_files, &told.files_cut);
                told.files_unknown = !files;
        }
        *ret = content_of_run(result, &told);
        return *ret ? 0 : mcp_out_of_memory(err);
}

/* ---- the tools ---- */

static int run(struct mcp_call *c, const struct order *o, const json_t *arguments, json_t **ret, struct rpc_error *err)
{
        _cleanup_live_session_ struct live_session *s = NULL;
        _cleanup_live_run_ struct live_run *live = NULL;
        char session[JOURNAL_ID_MAX];
        const char *note = NULL;
        gb_error why = {0};
        uint64_t since_usec = live_file_usec();

        int r = mcp_session_get(c, arguments, true, &s, &note, &why);
        if (r == 0)
                r = start(c, s, o, arguments, &live, &why);
        if (r == -ECANCELED)
                return MCP_SILENT;
        if (r < 0)
                return mcp_tool_failed(c, s, &why, ret, err);
        /* From here on a client is written to, who may be slow: so long nobody holds a session. */
        memcpy(session, s->id, sizeof(session));
        live_session_put(TAKE_PTR(s));
        mcp_call_runs(c, live);
        follow(c, live);
        mcp_call_runs(c, NULL);
        return mcp_is_cancelled(c) ? MCP_SILENT : tell_result(c, session, since_usec, live->id, note, ret, err);
}

int mcp_tool_run_python(struct mcp_call *c, const json_t *arguments, json_t **ret, struct rpc_error *err)
{
        return run(c, &(struct order){.language = "python", .code = json_object_get(arguments, "code")}, arguments, ret, err);
}

int mcp_tool_run_shell(struct mcp_call *c, const json_t *arguments, json_t **ret, struct rpc_error *err)
{
        return run(c, &(struct order){.language = "bash", .code = json_object_get(arguments, "command")}, arguments, ret, err);
}

int mcp_tool_run_code(struct mcp_call *c, const json_t *arguments, json_t **ret, struct rpc_error *err)
{
        const char *language = json_string_value(json_object_get(arguments, "language"));

        return run(c, &(struct order){.language = language, .code = json_object_get(arguments, "code"), .fresh = true}, arguments, ret, err);
}
