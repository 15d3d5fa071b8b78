/* SPDX-License-Identifier: Apache-2.0
 *
 * The result as JSON. Whatever goes in, valid UTF-8 comes out: the program's output is lossless
 * by way of base64, and other text (a path of the host may be any bytes) is made readable. */
#include "base/base64.h"
#include "base/json.h"
#include "base/utf8.h"
#include "engine/network.h"
#include "engine/result.h"
#include "engine/result_values.h"
#include "policy/network.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* jansson takes no value of NULL and frees what it was given on failure, so the calls of one
 * object can be or-ed and checked once. */

static json_t *json_uint(uint64_t n)
{
        return json_integer((json_int_t)MIN(n, (uint64_t)INT64_MAX));
}

static json_t *json_text(const char *text)
{
        return text ? json_readable(text, strlen(text)) : json_null();
}

/* An amount that was not observed has no number. */
static json_t *json_known(bool known, uint64_t n)
{
        return known ? json_uint(n) : json_null();
}

/* Microseconds as milliseconds; whoever prints them takes no more digits than are real. */
static json_t *json_msec(bool known, uint64_t usec)
{
        return known ? json_real((double)usec / 1000.0) : json_null();
}

static int set_base64(json_t *object, const char *key, const void *bytes, size_t size)
{
        _cleanup_free_ char *text = NULL, *name = NULL;
        size_t length;

        if (asprintf(&name, "%s_base64", key) < 0) {
                name = NULL;
                return -ENOMEM;
        }
        int r = base64_encode(bytes, size, &text, &length);
        if (r < 0)
                return r;
        return json_object_set_new(object, name, json_stringn_nocheck(text, length)) < 0 ? -ENOMEM : 0;
}

int json_set_bytes(json_t *object, const char *key, const void *bytes, size_t size)
{
        if (!utf8_is_valid(bytes, size))
                return set_base64(object, key, bytes, size);
        return json_object_set_new(object, key, json_readable(bytes, size)) < 0 ? -ENOMEM : 0;
}

/* A stream that was kept has a buffer with a cap, even when nothing was written to it. */
static int set_output(json_t *object, const char *key, const struct buffer *b)
{
        if (b->max == 0)
                return 0;
        if (json_object_set_new(object, key, json_readable(b->data, b->size)) < 0)
                return -ENOMEM;
        return utf8_is_valid(b->data, b->size) ? 0 : set_base64(object, key, b->data, b->size);
}

static json_t *verdict_to_json(const struct verdict *v)
{
        _cleanup_json_ json_t *o = json_object();
        int r = 0;

        r |= json_object_set_new(o, "kind", json_string(verdict_name(v->kind)));
        r |= json_object_set_new(o, "message", json_text(v->message));
        r |= json_object_set_new(o, "limit", v->unit ? json_uint(v->limit) : json_null());
        r |= json_object_set_new(o, "peak", v->unit ? json_known(v->peak_known, v->peak) : json_null());
        r |= json_object_set_new(o, "unit", json_text(v->unit));
        return r == 0 ? TAKE_PTR(o) : NULL;
}

static json_t *peaks_to_json(const struct run_facts *f)
{
        _cleanup_json_ json_t *o = json_object();
        int r = 0;

        r |= json_object_set_new(o, "memory_bytes", json_known(f->known.memory, f->memory_peak_bytes));
        r |= json_object_set_new(o, "cpu_usec", json_known(f->known.cpu, f->cpu_usec));
        r |= json_object_set_new(o, "pids", json_known(f->known.pids, f->pids_peak));
        r |= json_object_set_new(o, "disk_bytes", json_known(f->known.disk, f->disk_peak_bytes));
        r |= json_object_set_new(o, "inodes", json_known(f->known.disk, f->inodes_peak));
        r |= json_object_set_new(o, "output_bytes", json_uint(f->output_bytes));
        return r == 0 ? TAKE_PTR(o) : NULL;
}

json_t *policy_limits_to_json(const struct policy *p)
{
        _cleanup_json_ json_t *o = json_object();
        int r = 0;

        r |= json_object_set_new(o, "memory_bytes", json_uint(p->mem_limit_bytes));
        r |= json_object_set_new(o, "cpu_milli", json_uint(p->cpu_milli));
        r |= json_object_set_new(o, "timeout_usec", json_uint(p->timeout_usec));
        r |= json_object_set_new(o, "cpu_time_usec", json_uint(p->cpu_time_usec));
        r |= json_object_set_new(o, "pids", json_uint(p->pids_limit));
        r |= json_object_set_new(o, "tmp_bytes", json_uint(p->tmp_size_bytes));
        r |= json_object_set_new(o, "disk_bytes", json_uint(p->disk_limit_bytes));
        r |= json_object_set_new(o, "inodes", json_uint(p->inode_limit));
        r |= json_object_set_new(o, "output_bytes", json_uint(p->output_limit_bytes));
        r |= json_object_set_new(o, "nofile", json_uint(p->nofile));
        return r == 0 ? TAKE_PTR(o) : NULL;
}

static json_t *policy_to_json(const struct result *result, const struct policy *p)
{
        _cleanup_json_ json_t *o = json_object();
        int r = 0;

        r |= json_object_set_new(o, "trust", json_text(result->trust));
        r |= json_object_set_new(o, "origin", json_text(result->policy_origin));
        r |= json_object_set_new(o, "network", json_string(network_mode_name(p->network_mode)));
        r |= json_object_set_new(o, "read_only", json_boolean(p->read_only));
        r |= json_object_set_new(o, "scratch_only", json_boolean(p->scratch_only));
        return r == 0 ? TAKE_PTR(o) : NULL;
}

static json_t *make_controls(const struct controls *c)
{
        _cleanup_json_ json_t *list = json_array();

        for (int i = 0; i < CONTROL_COUNT; i++) {
                const struct control_status *s = &c->status[i];
                _cleanup_json_ json_t *o = json_object();
                int r = 0;
                r |= json_object_set_new(o, "name", json_string(control_name((enum control_id)i)));
                r |= json_object_set_new(o, "state", json_string(control_state_name(s->state)));
                r |= json_object_set_new(o, "how", json_readable(s->how, strnlen(s->how, sizeof(s->how))));
                if (r < 0 || json_array_append_new(list, TAKE_PTR(o)) < 0)
                        return NULL;
        }
        return TAKE_PTR(list);
}

/* They are the same for nearly all runs, and most of a result: so the last ones are kept. */
json_t *controls_to_json(const struct controls *c)
{
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        static struct controls last;
        static json_t *last_json;

        pthread_mutex_lock(&lock);
        json_t *json = last_json && memcmp(&last, c, sizeof(last)) == 0 ? json_incref(last_json) : NULL;
        pthread_mutex_unlock(&lock);
        if (json || !(json = make_controls(c)))
                return json;
        pthread_mutex_lock(&lock);
        json_t *before = last_json;
        last_json = json_incref(json);
        last = *c;
        pthread_mutex_unlock(&lock);
        json_decref(before);
        return json;
}

static int add_note(json_t *notes, const char *format, ...) _printf_(2, 3);
static int add_note(json_t *notes, const char *format, ...)
{
        _cleanup_free_ char *text = NULL;

        va_list ap;
        va_start(ap, format);
        int n = vasprintf(&text, format, ap);
        va_end(ap);
        if (n < 0) {
                text = NULL;
                return -1;
        }
        return json_array_append_new(notes, json_text(text));
}

/* Controls that were not enforced in full. Before the program started there is nothing to say. */
static int add_control_notes(json_t *notes, const struct result *result)
{
        int r = 0;

        for (int i = 0; i < CONTROL_COUNT && result->facts.started; i++) {
                const struct control_status *s = &result->controls.status[i];
                if (s->state == CONTROL_ENFORCED || (s->state == CONTROL_OFF && control_is_extra((enum control_id)i)))
                        continue;
                r |= add_note(notes, "the control %s was %s%s%.*s", control_name((enum control_id)i),
                              control_state_name(s->state), s->how[0] ? ": " : "", (int)sizeof(s->how), s->how);
        }
        return r;
}

/* Limits that were hit although the verdict is about something else, or nothing. */
static int add_limit_notes(json_t *notes, const struct result *result, const struct policy *policy)
{
        const struct run_facts *f = &result->facts;
        enum verdict_kind kind = result->verdict.kind;
        char full[FULL_PLACE_MAX];
        int r = 0;

        if (f->oom_kills > 0 && kind != VERDICT_MEMORY)
                r |= add_note(notes, "%llu %s killed by the memory limit", (unsigned long long)f->oom_kills,
                              f->oom_kills == 1 ? "process was" : "processes were");
        if (f->pids_refused > 0 && kind != VERDICT_PIDS)
                r |= add_note(notes, "%llu %s refused by the task limit", (unsigned long long)f->pids_refused,
                              f->pids_refused == 1 ? "fork was" : "forks were");
        if (f->tasks_unended)
                r |= add_note(notes, "processes left running by code reached the task limit and could not be killed: open a new session");
        if (f->tasks_ended > 0)
                r |= add_note(notes, "%llu %s left running by code %s killed: the task limit was reached", (unsigned long long)f->tasks_ended,
                              f->tasks_ended == 1 ? "process" : "processes", f->tasks_ended == 1 ? "was" : "were");
        if (f->disk_full && kind != VERDICT_DISK)
                r |= add_note(notes, "%s", verdict_full_place(f, policy, full));
        if (f->counters_lost)
                r |= add_note(notes, "the counters of the session could not be read at the end: whether the run "
                                     "reached a limit of memory or tasks is not known");
        if (result->truncated && kind != VERDICT_OUTPUT)
                r |= add_note(notes, "the output was cut at its limit");
        if (result->values_dropped > 0)
                r |= add_note(notes, "%llu %s dropped, because of result_count or result_limit of the policy",
                              (unsigned long long)result->values_dropped, result->values_dropped == 1 ? "result was" : "results were");
        return r;
}

/* Of a run that failed its verdict tells. */
static int add_network_note(json_t *notes, const struct result *result)
{
        char hint[NETWORK_HINT_MAX];

        if (result->verdict.kind == VERDICT_ERROR || result->verdict.kind == VERDICT_TIMEOUT || !network_hint(result->network, hint)[0])
                return 0;
        return add_note(notes, "%s", hint);
}

static json_t *notes_to_json(const struct result *result, const struct policy *policy)
{
        _cleanup_json_ json_t *notes = json_array();

        if (add_network_note(notes, result) < 0 || add_limit_notes(notes, result, policy) < 0 || add_control_notes(notes, result) < 0)
                return NULL;
        return TAKE_PTR(notes);
}

static int set_end(json_t *o, const struct run_facts *f)
{
        char name[SIGNAL_NAME_MAX];
        int signal = ending_signal(&f->ending), code, r = 0;

        r |= json_object_set_new(o, "exit_code", verdict_exit_code(f, &code) ? json_integer(code) : json_null());
        r |= json_object_set_new(o, "signal", signal > 0 ? json_string(signal_name(signal, name)) : json_null());
        r |= json_object_set_new(o, "phase", json_string(f->compiling ? "compile" : "run"));
        return r;
}

/* If nothing was run, nothing was sent; otherwise a run without a ledger has lost it. */
static json_t *network_to_json(const struct result *result)
{
        if (!result->network && result->verdict.kind != VERDICT_BLOCKED)
                return json_null();
        return network_ledger_to_json(result->network, SIZE_MAX);
}

json_t *result_to_json(const struct result *result, const struct policy *policy)
{
        _cleanup_json_ json_t *o = json_object();
        int r = 0;

        r |= json_object_set_new(o, "id", json_readable(result->id, strnlen(result->id, sizeof(result->id))));
        r |= json_object_set_new(o, "verdict", verdict_to_json(&result->verdict));
        r |= set_end(o, &result->facts);
        r |= json_object_set_new(o, "duration_ms", json_msec(result->facts.known.wall, result->facts.wall_usec));
        r |= json_object_set_new(o, "cpu_ms", json_msec(result->facts.known.cpu, result->facts.cpu_usec));
        r |= json_object_set_new(o, "setup_ms", json_msec(result->setup_known, result->setup_usec));
        r |= set_output(o, "stdout", &result->out);
        r |= set_output(o, "stderr", &result->err);
        r |= json_object_set_new(o, "truncated", json_boolean(result->truncated));
        r |= json_object_set_new(o, "peaks", peaks_to_json(&result->facts));
        r |= json_object_set_new(o, "limits", policy_limits_to_json(policy));
        r |= json_object_set_new(o, "policy", policy_to_json(result, policy));
        r |= json_object_set_new(o, "language", json_text(result->language));
        r |= json_object_set_new(o, "backend", json_text(result->backend));
        r |= json_object_set_new(o, "controls", controls_to_json(&result->controls));
        r |= json_object_set_new(o, "notes", notes_to_json(result, policy));
        r |= json_object_set_new(o, "guard", guard_to_json(result->findings));
        r |= json_object_set_new(o, "scrubbed", scrubbed_to_json(result));
        if (policy->network_mode == NETWORK_ALLOWLIST)
                r |= json_object_set_new(o, "network", network_to_json(result));
        r |= result_set_session(o, result);
        return r == 0 ? TAKE_PTR(o) : NULL;
}
