/* SPDX-License-Identifier: Apache-2.0 */
#include "server/run_object.h"

#include "base/buffer.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "engine/result.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define TIME_TEXT_MAX 48
#define OUTPUT_REBUILT_MAX GIB /* as much as a policy may let through */

static const char *const state_names[] = {[JOURNAL_QUEUED] = "queued", [JOURNAL_RUNNING] = "running", [JOURNAL_ENDED] = "ended"};

json_t *time_to_json(uint64_t usec)
{
        time_t seconds = (time_t)(usec / 1000000);
        char text[TIME_TEXT_MAX];
        struct tm tm;

        if (usec == 0)
                return json_null();
        gmtime_r(&seconds, &tm);
        size_t n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
        snprintf(text + n, sizeof(text) - n, ".%06uZ", (unsigned)(usec % 1000000));
        return json_string(text);
}

static json_t *hash_to_json(const uint8_t *hash)
{
        static const char digits[] = "0123456789abcdef";
        char text[2 * JOURNAL_HASH_BYTES];

        for (size_t i = 0; i < JOURNAL_HASH_BYTES; i++) {
                text[2 * i] = digits[hash[i] >> 4];
                text[2 * i + 1] = digits[hash[i] & 15];
        }
        return json_stringn(text, sizeof(text));
}

static json_t *text_or_null(const char *text)
{
        return text[0] ? json_string(text) : json_null();
}

json_t *run_to_json_brief(const struct journal_run *run)
{
        _cleanup_json_ json_t *o = json_object();
        int r = 0;

        r |= json_object_set_new(o, "id", json_string(run->id));
        r |= json_object_set_new(o, "session", text_or_null(run->session));
        r |= json_object_set_new(o, "context", text_or_null(run->context));
        r |= json_object_set_new(o, "language", json_string(run->language));
        r |= json_object_set_new(o, "state", json_string(state_names[run->state]));
        r |= json_object_set_new(o, "created_at", time_to_json(run->created_usec));
        r |= json_object_set_new(o, "started_at", time_to_json(run->started_usec));
        r |= json_object_set_new(o, "ended_at", time_to_json(run->ended_usec));
        r |= json_object_set_new(o, "code_sha256", hash_to_json(run->code_hash));
        r |= json_object_set_new(o, "policy", json_pack("{s:s}", "trust", run->trust));
        r |= json_object_set_new(o, "events", json_integer((json_int_t)run->next_seq));
        return r == 0 ? TAKE_PTR(o) : NULL;
}

json_t *run_to_json(const struct journal_run *run, json_t *result)
{
        _cleanup_json_ json_t *o = run_to_json_brief(run);

        return json_object_set_new(o, "result", result ? result : json_null()) == 0 ? TAKE_PTR(o) : NULL;
}

/* ---- events ---- */

static const char *const kind_names[] = {
        [JOURNAL_STARTED] = "started", [JOURNAL_STDOUT] = "stdout",   [JOURNAL_STDERR] = "stderr", [JOURNAL_RESULT] = "result",
        [JOURNAL_EXCEPTION] = "exception", [JOURNAL_VERDICT] = "verdict", [JOURNAL_ERROR] = "error",
};

/* What we have written ourselves; a JSON text of any type. */
static json_t *load(const char *text, size_t size)
{
        return json_parse(text, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
}

static int set_data(json_t *o, const struct journal_event *e)
{
        _cleanup_json_ json_t *object = NULL;

        switch (e->kind) {
        case JOURNAL_STARTED:
                return 0;
        case JOURNAL_STDOUT:
        case JOURNAL_STDERR:
                return json_object_set_new(o, "offset", json_integer((json_int_t)e->offset)) | json_set_bytes(o, "data", e->data, e->size);
        case JOURNAL_RESULT:
                return json_object_set_new(o, "value", load(e->data, e->size));
        case JOURNAL_EXCEPTION:
                return json_object_set_new(o, "error", load(e->data, e->size));
        case JOURNAL_VERDICT:
        case JOURNAL_ERROR:
                object = load(e->data, e->size);
                return json_object_update(o, object);
        }
        return 0;
}

json_t *event_to_json(const struct journal_event *e)
{
        _cleanup_json_ json_t *o = json_object();
        int r = 0;

        r |= json_object_set_new(o, "seq", json_integer((json_int_t)e->seq));
        r |= json_object_set_new(o, "event", json_string(kind_names[e->kind]));
        if (e->kind != JOURNAL_VERDICT && e->kind != JOURNAL_ERROR)
                r |= json_object_set_new(o, "t_usec", json_integer((json_int_t)e->t_usec));
        r |= set_data(o, e);
        return r == 0 ? TAKE_PTR(o) : NULL;
}

/* ---- the result of a run that has ended ---- */

struct parts {
        struct buffer out, err;
        json_t *values, *error;
        uint64_t next;
};

static int take_event(void *data, const struct journal_event *e)
{
        struct parts *p = data;

        p->next = e->seq + 1;
        switch (e->kind) {
        case JOURNAL_STDOUT:
                return buffer_add(&p->out, e->data, e->size);
        case JOURNAL_STDERR:
                return buffer_add(&p->err, e->data, e->size);
        case JOURNAL_RESULT:
                return json_array_append_new(p->values, load(e->data, e->size)) < 0 ? -ENOMEM : 0;
        case JOURNAL_EXCEPTION:
                json_decref(p->error);
                p->error = load(e->data, e->size);
                return p->error ? 0 : -ENOMEM;
        default:
                return 0;
        }
}

static int collect(struct journal *j, const struct journal_run *run, struct parts *p, gb_error *err)
{
        int64_t n;

        do
                n = journal_events(j, run->id, p->next, FOLLOW_BYTES_MAX, take_event, p, err);
        while (n > 0 && p->next < run->next_seq);
        if (n < 0 && err && err->code == GB_E_NONE)
                return error_set(err, GB_E_INTERNAL, (int)-n, "the events of the run cannot be put together");
        if (n >= 0 && p->next < run->next_seq)
                return error_set(err, GB_E_LOST, ENODATA,
                                 "the journal has %llu of the %llu events of the run: the rest was removed",
                                 (unsigned long long)p->next, (unsigned long long)run->next_seq);
        return n < 0 ? (int)n : 0;
}

static int set_output(json_t *o, const char *key, const struct buffer *b)
{
        int r = json_object_set_new(o, key, json_readable(b->data, b->size));

        if (r == 0 && !utf8_is_valid(b->data, b->size)) {
                /* A readable form, and the bytes themselves. */
                _cleanup_json_ json_t *exact = json_object();
                char name[32];
                snprintf(name, sizeof(name), "%s_base64", key);
                r = json_set_bytes(exact, key, b->data, b->size);
                r |= json_object_set(o, name, json_object_get(exact, name));
        }
        return r;
}

/* Of a run whose server died there may be no record. */
static json_t *load_record(const struct journal_run *run)
{
        _cleanup_json_ json_t *o = run->result ? load(run->result, strlen(run->result)) : json_object();

        if (o && !json_object_get(o, "id"))
                (void)json_object_set_new(o, "id", json_string(run->id));
        if (o && !json_object_get(o, "verdict"))
                (void)json_object_set_new(o, "verdict", json_pack("{s:s, s:s, s:n, s:n, s:n}", "kind", run->verdict[0] ? run->verdict : "lost", "message",
                                                                  "The outcome of the run is not known.", "limit", "peak", "unit"));
        return TAKE_PTR(o);
}

static int put_together(const struct journal_run *run, struct parts *p, json_t **ret)
{
        _cleanup_json_ json_t *o = load_record(run);
        int r = o ? 0 : -ENOMEM;

        r |= set_output(o, "stdout", &p->out);
        r |= set_output(o, "stderr", &p->err);
        if (run->context[0]) {
                r |= json_object_set(o, "results", p->values);
                r |= json_object_set_new(o, "error", p->error ? TAKE_PTR(p->error) : json_null());
        }
        if (r != 0)
                return -ENOMEM;
        *ret = TAKE_PTR(o);
        return 0;
}

int run_result(struct journal *j, const struct journal_run *run, json_t **ret, gb_error *err)
{
        struct parts p = {.values = json_array()};
        int r = 0;

        if (run->failed) {
                *ret = run->result ? load(run->result, strlen(run->result)) : json_object();
                json_decref(p.values);
                return *ret ? 0 : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        }
        buffer_init(&p.out, OUTPUT_REBUILT_MAX);
        buffer_init(&p.err, OUTPUT_REBUILT_MAX);
        r = collect(j, run, &p, err);
        if (r == 0 && put_together(run, &p, ret) < 0)
                r = error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        buffer_done(&p.out);
        buffer_done(&p.err);
        json_decref(p.values);
        json_decref(p.error);
        return r;
}
