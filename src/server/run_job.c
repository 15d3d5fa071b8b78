/* SPDX-License-Identifier: Apache-2.0
 *
 * A run, step by step:
 *
 *   new      a place in the quota, an id, an entry in the table of what lives. A run in a context takes that, so that no two meet there
 *   begin    its record in the journal, in one transaction with its Idempotency-Key. From here on it has an end, whatever happens
 *   execute  a box of its own is built, its files are put there; the engine runs the code. Everything it tells goes to the journal,
 *            and then who follows is woken
 *   end      nothing of the code lives (a box of its own is gone); the journal has the result; then who waits is told
 *
 * Output is cut where characters end. When the journal does not take something (its disk is full) the run is killed: what nobody can read is not
 * worth running, and its verdict is `lost`, because of its output a part is missing.
 *
 * It is done by one thread: the one that answers the request, or a worker when nobody waits for the result. */
#include "server/run_job.h"

#include "base/fd.h"
#include "base/json.h"
#include "engine/watch.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/reply.h"
#include "server/run_files.h"
#include "server/scrubbing.h"
#include "server/server.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A record of the audit that lacks findings or the network, for which there was no memory. */
#define AUDIT_INCOMPLETE "{\"incomplete\":true}"

void run_order_done(struct run_order *o)
{
        free(o->args);
        policy_free(o->policy);
        json_decref(o->body);
        safe_close(o->stdin_fd);
        *o = (struct run_order){.stdin_fd = -1};
}

/* ---- new ---- */

/* A socket and not a pipe: who writes to one that nobody reads any more gets no signal. */
static int open_input(struct run_job *job, gb_error *err)
{
        int pair[2];

        if (!job->order.interactive)
                return 0;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a socket for standard input: %s", strerror(errno));
        job->input_fd = pair[0];
        job->run->stdin_fd = pair[1];
        return 0;
}

static int make_session(struct run_job *job, const struct caller *caller, gb_error *err)
{
        struct run_order *o = &job->order;
        struct live_session_request q = {
                .caller = caller, .policy = o->policy, .template = o->template, .workspace = o->workspace, .one_shot = true,
                .idle_usec = UINT64_MAX, .lifetime_usec = UINT64_MAX,
        };

        o->policy = NULL; /* it is taken */
        return live_session_new(job->server->live, &q, &job->session, err);
}

int run_job_new(struct server *server, const struct caller *caller, struct live_session *session, struct run_order *order, struct run_job **ret,
                gb_error *err)
{
        struct run_job *memory = calloc(1, sizeof(*memory));

        if (!memory) {
                run_order_done(order);
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        }
        *memory = (struct run_job){.server = server, .order = *order, .input_fd = -1, .in_session = session};
        *order = (struct run_order){.stdin_fd = -1};
        _cleanup_run_job_ struct run_job *job = memory;
        const struct run_order *o = &job->order;
        int r = 0;
        if (session)
                job->session = live_session_ref(session);
        else
                r = make_session(job, caller, err);
        if (r == 0 && session && !o->fresh)
                r = live_context_get(session, o->context, o->language, true, &job->context, err);
        if (r == 0)
                r = live_run_new(server->live, caller, job->session, &job->run, err);
        if (r == 0)
                r = open_input(job, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(job);
        return 0;
}

/* The context is free, and a box of its own is gone. A session is left later: it ends after its runs. */
static void leave(struct run_job *job)
{
        if (job->context)
                live_context_put(job->session, TAKE_PTR(job->context), true);
        if (job->in_session || !job->session)
                return;
        if (job->run)
                live_run_leave_session(job->run);
        (void)live_session_end(TAKE_PTR(job->session), NULL); /* waits */
}

/* Its end is in the journal, or it never began. */
static void part(struct run_job *job)
{
        leave(job);
        if (job->run) {
                live_run_end(job->run);
                live_run_put(TAKE_PTR(job->run));
        }
        live_session_put(TAKE_PTR(job->session));
}

void run_job_free(struct run_job *job)
{
        if (!job)
                return;
        part(job);
        safe_close(job->input_fd);
        json_decref(job->result);
        run_order_done(&job->order);
        free(job);
}

/* ---- begin ---- */

int run_job_begin(struct run_job *job, const struct caller *caller, const struct journal_key *key, char ret_id[static JOURNAL_ID_MAX], gb_error *err)
{
        const struct run_order *o = &job->order;
        struct journal_run *record = &job->record;

        *record = (struct journal_run){.state = JOURNAL_QUEUED, .created_usec = live_wall_usec()};
        if (EVP_Digest(o->code, o->code_size, record->code_hash, NULL, EVP_sha256(), NULL) != 1)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "cannot hash the code");
        snprintf(record->id, sizeof(record->id), "%s", job->run->id);
        snprintf(record->tenant, sizeof(record->tenant), "%s", caller->tenant);
        if (job->in_session)
                snprintf(record->session, sizeof(record->session), "%s", job->session->id);
        if (job->context)
                snprintf(record->context, sizeof(record->context), "%s", context_id(job->context));
        snprintf(record->language, sizeof(record->language), "%s", o->language->name);
        snprintf(record->trust, sizeof(record->trust), "%s", job->session->policy->trust);
        snprintf(record->token, sizeof(record->token), "%s", caller->token);
        return journal_run_begin(job->server->journal, record, key, ret_id, err);
}

/* ---- what the engine tells ---- */

static void note(struct run_job *job, enum journal_kind kind, uint64_t t_usec, const void *data, size_t size)
{
        if (job->is_unkept)
                return;
        int64_t seq = journal_event(job->server->journal, job->run->id, kind, t_usec, data, size, &job->unkept);
        if (seq >= 0) {
                live_run_note(job->run, (uint64_t)seq + 1);
                return;
        }
        job->is_unkept = true;
        metrics_add(job->server->metrics, METRICS_JOURNAL_ERRORS, 1);
        log_error("journal", "run %s is lost: its output cannot be written: %s", job->run->id, job->unkept.message);
        live_run_cancel(job->run, true);
}

static void lack_memory(struct run_job *job)
{
        job->is_unkept = true;
        error_set(&job->unkept, GB_E_INTERNAL, ENOMEM, "out of memory");
        live_run_cancel(job->run, true);
}

static void note_json(struct run_job *job, enum journal_kind kind, uint64_t t_usec, json_t *value)
{
        _cleanup_json_ json_t *owned = value;
        _cleanup_free_ char *text = json_print(owned, 0);

        if (text)
                note(job, kind, t_usec, text, strlen(text));
        else
                lack_memory(job);
}

static void on_started(void *data, uint64_t t_usec)
{
        struct run_job *job = data;

        job->started = true;
        note(job, JOURNAL_STARTED, t_usec, NULL, 0);
}

static void note_output(struct run_job *job, enum run_stream stream, const struct buffer *bytes)
{
        if (bytes->size > 0)
                note(job, stream == RUN_STDOUT ? JOURNAL_STDOUT : JOURNAL_STDERR, job->last_usec[stream], bytes->data, bytes->size);
}

static void on_output(void *data, enum run_stream stream, const void *bytes, size_t size, uint64_t t_usec)
{
        struct run_job *job = data;
        _cleanup_buffer_ struct buffer whole;

        atomic_fetch_add(&job->session->output_bytes, size);
        job->last_usec[stream] = t_usec;
        buffer_init(&whole, size + UTF8_SEQUENCE_MAX);
        if (utf8_splitter_add(&job->splitters[stream], &whole, bytes, size) < 0)
                lack_memory(job);
        else
                note_output(job, stream, &whole);
}

/* What was held back of the output, because a character might have followed. */
static void flush(struct run_job *job)
{
        for (enum run_stream stream = RUN_STDOUT; stream <= RUN_STDERR; stream++) {
                _cleanup_buffer_ struct buffer rest;
                buffer_init(&rest, UTF8_SEQUENCE_MAX);
                if (utf8_splitter_flush(&job->splitters[stream], &rest) < 0)
                        lack_memory(job);
                else
                        note_output(job, stream, &rest);
        }
}

/* What was printed before a value is told before it, also when it ended in the middle of a character. */
static void on_result(void *data, const struct result_value *value, uint64_t t_usec)
{
        flush(data);
        note_json(data, JOURNAL_RESULT, t_usec, result_value_to_json(value));
}

static void on_error(void *data, const struct result_error *error, uint64_t t_usec)
{
        flush(data);
        note_json(data, JOURNAL_EXCEPTION, t_usec, result_error_to_json(error));
}

/* ---- the end ---- */

static char *dump(const json_t *value)
{
        return json_print(value, 0);
}

/* Tells the journal. What it cannot take now it gets later; nobody is told that it has. */
static int write_end(struct run_job *job, const struct journal_end *end, gb_error *err)
{
        int r = journal_run_end(job->server->journal, job->run->id, end, err);

        if (r == 0)
                return 0;
        metrics_add(job->server->metrics, METRICS_JOURNAL_ERRORS, 1);
        log_error("journal", "the end of run %s cannot be written yet: %s", job->run->id, err ? err->message : "");
        live_end_later(job->run, end);
        return r;
}

/* It ran, and its outcome is not known. */
static void end_lost(struct run_job *job, const gb_error *why)
{
        struct journal_end end = {.verdict = verdict_name(VERDICT_LOST), .event = RUN_LOST, .result = RUN_LOST};
        gb_error err = {0};

        job->error = *why;
        job->error.code = GB_E_LOST;
        job->status = why->errnum > 0 ? -why->errnum : -EINVAL;
        (void)write_end(job, &end, &err);
        metrics_run(job->server->metrics, end.verdict, NULL);
}

/* Nothing was run. */
static void end_failed(struct run_job *job, const gb_error *why)
{
        _cleanup_json_ json_t *object = reply_error_object(why, NULL, NULL);
        _cleanup_free_ char *text = dump(object);
        struct journal_end end = {.event = text ? text : RUN_NO_MEMORY, .result = text ? text : RUN_NO_MEMORY};

        job->error = *why;
        job->status = why->errnum > 0 ? -why->errnum : -EINVAL;
        gb_error err = {0};
        (void)write_end(job, &end, &err);
        metrics_run(job->server->metrics, NULL, NULL);
}

/* The result as the API has it. What is in events is not in the record. */
static json_t *make_result(struct run_job *job, struct result *result, json_t **ret_record)
{
        static const char *const in_events[] = {"stdout", "stderr", "stdout_base64", "stderr_base64", "results", "error"};
        struct policy policy = *job->session->policy; /* borrows what that owns */

        if (job->order.timeout_usec > 0)
                policy.timeout_usec = job->order.timeout_usec;
        memcpy(result->id, job->run->id, sizeof(result->id));
        if (job->in_session)
                memcpy(result->session, job->session->id, sizeof(result->session));
        else
                memset(result->session, 0, sizeof(result->session)); /* nobody can come back to it */
        /* Where the host keeps its files is nobody's business from afar. */
        const char *name = strrchr(result->policy_origin, '/');
        if (name)
                memmove(result->policy_origin, name + 1, strlen(name));
        _cleanup_json_ json_t *whole = result_to_json(result, &policy), *record = json_copy(whole);
        if (!whole || !record)
                return NULL;
        for (size_t i = 0; i < ARRAY_SIZE(in_events); i++)
                (void)json_object_del(record, in_events[i]);
        *ret_record = TAKE_PTR(record);
        return TAKE_PTR(whole);
}

/* Of what was written down a part is missing. */
static void say_lost(struct run_job *job, struct result *result)
{
        struct verdict *v = &result->verdict;

        *v = (struct verdict){.kind = VERDICT_LOST};
        snprintf(v->message, sizeof(v->message), "The run was ended because its output could not be kept: %.200s", job->unkept.message);
}

/* Many that wait for large results at once would need much memory: they get theirs from the journal, one after the other. */
static void let_go(struct run_job *job, struct result *result)
{
        if (result->out.size + result->err.size <= RESULT_SMALL_MAX)
                return;
        job->keep_result = false;
        buffer_done(&result->out);
        buffer_done(&result->err);
}

/* What the audit has of the guard: which rules found something, where, and how many secrets were taken out. */
static int audit_guard(json_t *o, const struct result *result)
{
        const struct guard_findings *f = result->findings;
        _cleanup_json_ json_t *list = json_array();
        int r = 0;

        if (!f && result->scrubbed.total == 0)
                return 0;
        for (size_t i = 0; f && i < MIN(f->n, (size_t)AUDIT_FINDINGS_MAX); i++) {
                const struct guard_finding *row = &f->rows[i];
                r |= json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o, s:o}", "rule", row->rule, "set",
                                                           row->set, "action", guard_action_name(row->action),
                                                           "line",
                                                           row->line > 0 ? json_integer(row->line) : json_null(),
                                                           "column",
                                                           row->line > 0 ? json_integer(row->column) : json_null()));
        }
        r |= json_object_set(o, "findings", list);
        r |= json_object_set_new(o, "scrubbed", json_integer((json_int_t)result->scrubbed.total));
        return r;
}

/* Further fields of the audit record of a run; *ret NULL: none. -ENOMEM: there were some. */
static int audit_more(const struct result *result, char **ret)
{
        _cleanup_json_ json_t *o = json_object();
        int r = audit_guard(o, result);

        if (network_ledger_says(result->network))
                r |= json_object_set_new(o, "network", network_ledger_to_json(result->network, AUDIT_HOSTS_MAX));
        *ret = r == 0 && json_object_size(o) > 0 ? dump(o) : NULL;
        return !o || r != 0 || (json_object_size(o) > 0 && !*ret) ? -ENOMEM : 0;
}

static void count_guard(struct metrics *m, const struct result *result)
{
        for (size_t i = 0; result->findings && i < result->findings->n; i++)
                metrics_finding(m, guard_action_name(result->findings->rows[i].action));
        metrics_add(m, METRICS_SCRUBBED, (int64_t)result->scrubbed.total);
}

static void end_result(struct run_job *job, struct result *result)
{
        _cleanup_json_ json_t *record = NULL, *whole = NULL;

        if (job->is_unkept)
                say_lost(job, result);
        let_go(job, result);
        whole = make_result(job, result, &record);
        _cleanup_free_ char *text = dump(record), *peaks = dump(json_object_get(record, "peaks")), *controls = dump(json_object_get(record, "controls"));
        _cleanup_free_ char *more = NULL;
        bool incomplete = audit_more(result, &more) < 0;
        leave(job); /* first: when somebody hears of the end, nothing of it lives */
        if (!text) {
                gb_error err;
                error_set(&err, GB_E_LOST, ENOMEM, "the run has ended, and there was no memory for its result");
                end_lost(job, &err);
                return;
        }
        struct journal_end end = {
                .verdict = verdict_name(result->verdict.kind), .event = text, .result = text, .peaks = peaks, .controls = controls,
                .more = incomplete ? AUDIT_INCOMPLETE : more, .t_usec = result->setup_usec + result->facts.wall_usec,
                .ret_run = &job->record,
        };
        job->status = write_end(job, &end, &job->error);
        /* It was run: who is told to try again, and gets his key back, would run it twice. */
        if (job->status < 0 && job->error.code == GB_E_UNAVAILABLE)
                job->error.code = GB_E_LOST;
        metrics_run(job->server->metrics, end.verdict, result->facts.known.wall ? &result->facts.wall_usec : NULL);
        count_guard(job->server->metrics, result);
        if (job->status == 0 && job->keep_result)
                job->result = TAKE_PTR(whole);
}

/* ---- execute ---- */

static int run_fresh(struct run_job *job, uint64_t asked_usec, struct result **ret, gb_error *err)
{
        const struct run_order *o = &job->order;
        struct once_request request = {
                .language = o->language, .code_name = o->name, .code = o->code, .code_size = o->code_size, .args = o->args,
                .stdin_fd = o->interactive ? job->input_fd : o->stdin_fd, .cancel_fd = job->run->cancel_fd, .keep_output = job->keep_result,
                .asked_usec = asked_usec, .timeout_usec = o->timeout_usec, .callbacks = {on_started, on_output, on_result, on_error, job},
                .alone = job->session->one_shot, .checked = !job->in_session,
        };

        return session_run(job->session->session, &request, ret, err);
}

static int run_in_context(struct run_job *job, struct result **ret, gb_error *err)
{
        const struct run_order *o = &job->order;
        struct context_request request = {
                .code = o->code, .code_size = o->code_size, .stdin_fd = o->interactive ? job->input_fd : o->stdin_fd,
                .cancel_fd = job->run->cancel_fd, .keep_output = job->keep_result, .last = o->last, .timeout_usec = o->timeout_usec,
                .callbacks = {on_started, on_output, on_result, on_error, job},
        };

        return context_run(job->context, &request, ret, err);
}

/* The box and what is in it. One that somebody ended meanwhile has ended before anything was run. */
static int prepare(struct run_job *job, gb_error *err)
{
        int r = live_session_open(job->session, err);
        if (r == 0 && job->order.files)
                r = run_files_write(job->session->session, job->order.files, err);
        return r;
}

/* For code that must not run no box is made. 1: it must not, and *ret says why; 0: *ret has what was found. */
static int look_first(const struct run_job *job, struct result **ret, gb_error *err)
{
        const struct run_order *o = &job->order;
        const struct policy *p = job->session->policy;
        const struct watch_subject subject = {.language = o->language, .code = o->code, .code_size = o->code_size, .stdin_fd = o->stdin_fd};
        _cleanup_watch_ struct watch *watch = NULL;

        int r = watch_open(p, &watch, err);
        if (r < 0)
                return r;
        *ret = result_new(p, o->language, backend_for(p)->name, job->keep_result);
        if (!*ret)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        (*ret)->facts.language = NULL; /* borrowed */
        return watch_before(watch, &subject, *ret, err);
}

static int run_alone(struct run_job *job, uint64_t asked_usec, struct result **ret, gb_error *err)
{
        _cleanup_result_ struct result *looked = NULL;

        int r = look_first(job, &looked, err);
        if (r > 0) {
                *ret = TAKE_PTR(looked);
                return 0;
        }
        if (r == 0)
                r = prepare(job, err);
        if (r == 0)
                r = run_fresh(job, asked_usec, ret, err);
        if (r == 0 && watch_add(looked->findings, *ret) < 0)
                r = error_set(err, GB_E_LOST, ENOMEM, "the run has ended, and there was no memory for its result");
        return r;
}

void run_job_execute(struct run_job *job)
{
        _cleanup_result_ struct result *result = NULL;
        uint64_t asked_usec = monotonic_usec();
        gb_error err = {0};
        int r;

        if (!job->in_session)
                r = run_alone(job, asked_usec, &result, &err);
        else
                r = job->context ? run_in_context(job, &result, &err) : run_fresh(job, asked_usec, &result, &err);
        flush(job);
        job->input_fd = safe_close(job->input_fd); /* who sends to it hears that nobody reads it any more */
        if (r == 0)
                end_result(job, result);
        else
                run_job_fail(job, &err);
        part(job);
}

void run_job_fail(struct run_job *job, const gb_error *err)
{
        gb_error why = *err;

        if (why.code == GB_E_NONE)
                error_set(&why, GB_E_INTERNAL, EIO, "the run could not be begun");
        scrubbing_error(job->server->scrubbing, job->session ? living_secrets_scrub(job->session->secrets) : NULL, &why);
        leave(job);
        /* Of a compiler that cannot be executed the start was told, but nothing of the code has run. */
        if (job->started && why.code != GB_E_NOT_FOUND)
                end_lost(job, &why);
        else
                end_failed(job, &why);
}
