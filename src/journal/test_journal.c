/* SPDX-License-Identifier: Apache-2.0
 *
 * What is written is what is read; keys; tenants; pages; the audit. */
#include "journal/test_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- a run ---- */

struct seen {
        struct journal_event events[64];
        char data[64][64];
        size_t n;
        struct journal *j; /* asked again from within the callback */
};

static int see(void *data, const struct journal_event *event)
{
        struct seen *s = data;

        assert_true(s->n < 64 && event->size < 64);
        s->events[s->n] = *event;
        memcpy(s->data[s->n], event->data, event->size + 1);
        assert_int_equal(event->data[event->size], '\0');
        if (s->j) /* would never come back if the lock were held */
                for (int i = 0; i < 8; i++)
                        assert_true(is_there(s->j, 1));
        s->n++;
        return 0;
}

static void test_run(void **state)
{
        _cleanup_journal_ struct journal *j = open_journal(NULL, NULL);
        struct journal_run key = run_of("a", 1), run;
        struct seen seen = {.j = j};
        gb_error err = {0};

        begin(j, "a", 1);
        run = get(j, 1);
        assert_int_equal(run.state, JOURNAL_QUEUED);
        assert_true(run.created_usec > 0 && run.started_usec == 0 && !run.result && run.next_seq == 0);
        output(j, 1, JOURNAL_STARTED, NULL);
        run = get(j, 1);
        assert_int_equal(run.state, JOURNAL_RUNNING);
        assert_true(run.started_usec >= run.created_usec);
        output(j, 1, JOURNAL_STDOUT, "one\n");
        output(j, 1, JOURNAL_STDERR, "error");
        output(j, 1, JOURNAL_STDOUT, "two");
        output(j, 1, JOURNAL_RESULT, "{}");
        output(j, 1, JOURNAL_STDERR, "!");
        run = get(j, 1);
        assert_true(run.next_seq == 6 && run.out_bytes == 7 && run.err_bytes == 6);
        end(j, 1, "ok");

        run = get(j, 1);
        assert_int_equal(run.state, JOURNAL_ENDED);
        assert_string_equal(run.verdict, "ok");
        assert_string_equal(run.result, "{\"verdict\":{\"kind\":\"ok\"}}");
        assert_true(run.next_seq == 7 && run.out_bytes == 7 && run.err_bytes == 6 && !run.failed && run.ended_usec >= run.started_usec);
        assert_memory_equal(run.code_hash, key.code_hash, JOURNAL_HASH_BYTES);
        journal_run_done(&run);

        assert_int_equal(journal_events(j, key.id, 0, SIZE_MAX, see, &seen, &err), 7);
        static const enum journal_kind kinds[] = {JOURNAL_STARTED, JOURNAL_STDOUT, JOURNAL_STDERR, JOURNAL_STDOUT, JOURNAL_RESULT, JOURNAL_STDERR, JOURNAL_VERDICT};
        static const uint64_t offsets[] = {0, 0, 0, 4, 0, 5, 0};
        for (size_t i = 0; i < 7; i++) {
                assert_int_equal(seen.events[i].seq, i);
                assert_int_equal(seen.events[i].kind, kinds[i]);
                assert_int_equal(seen.events[i].offset, offsets[i]);
        }
        assert_string_equal(seen.data[3], "two");
        assert_int_equal(seen.events[6].t_usec, 9);
}

static void test_events_from_a_number_and_up_to_a_size(void **state)
{
        _cleanup_journal_ struct journal *j = open_journal(NULL, NULL);
        struct journal_run key = run_of("a", 1);
        gb_error err = {0};

        begin(j, "a", 1);
        begin(j, "a", 2); /* a neighbour, whose events are not given */
        for (int i = 0; i < 10; i++) {
                output(j, 1, JOURNAL_STDOUT, "0123456789");
                output(j, 2, JOURNAL_STDOUT, "x");
        }
        for (uint64_t from = 0; from <= 12; from++) {
                struct seen seen = {0};
                assert_int_equal(journal_events(j, key.id, from, 35, see, &seen, &err), from >= 10 ? 0 : from > 7 ? 10 - from : 3);
                if (seen.n > 0)
                        assert_true(seen.events[0].seq == from && seen.events[0].offset == from * 10);
        }
        struct seen seen = {0};
        assert_int_equal(journal_events(j, key.id, 0, 1, see, &seen, &err), 1); /* at least one */
        assert_int_equal(journal_events(j, key.id, UINT64_MAX, 1, see, &seen, &err), 0);
        assert_true(journal_events(j, "nobody", 0, 1, see, &seen, &err) < 0);
        assert_int_equal(err.code, GB_E_NOT_FOUND);
}

static int stop_at_two(void *data, const struct journal_event *event)
{
        ++*(int *)data;
        return event->seq == 2 ? -ECANCELED : 0;
}

static void test_callback_stops(void **state)
{
        _cleanup_journal_ struct journal *j = open_journal(NULL, NULL);
        struct journal_run key = run_of("a", 1);
        gb_error err = {0};
        int n = 0;

        begin(j, "a", 1);
        for (int i = 0; i < 10; i++)
                output(j, 1, JOURNAL_STDOUT, "x");
        assert_int_equal(journal_events(j, key.id, 0, SIZE_MAX, stop_at_two, &n, &err), -ECANCELED);
        assert_int_equal(n, 3);
}

/* Bytes that are no text, and more than a page of them. */
static int compare_bytes(void *data, const struct journal_event *event)
{
        assert_int_equal(event->size, 300000);
        assert_memory_equal(event->data, data, event->size);
        return 0;
}

static void test_large_and_binary(void **state)
{
        _cleanup_journal_ struct journal *j = open_journal(NULL, NULL);
        _cleanup_free_ unsigned char *bytes = malloc(300000);
        struct journal_run key = run_of("a", 1);
        gb_error err = {0};

        for (size_t i = 0; i < 300000; i++)
                bytes[i] = (unsigned char)(i * 7 + (i >> 8));
        begin(j, "a", 1);
        assert_int_equal(journal_event(j, key.id, JOURNAL_STDOUT, 0, bytes, 300000, &err), 0);
        assert_int_equal(journal_events(j, key.id, 0, 10, compare_bytes, bytes, &err), 1);
}

static void test_failed_and_other_results(void **state)
{
        _cleanup_journal_ struct journal *j = open_journal(NULL, NULL);
        struct journal_run key = run_of("a", 1), other = run_of("a", 2), run;
        gb_error err = {0};
        struct seen seen = {0};

        begin(j, "a", 1);
        assert_ok(journal_run_end(j, key.id, &(struct journal_end){.event = "{\"code\":\"limit\"}"}, &err), &err);
        run = get(j, 1);
        assert_true(run.failed && run.verdict[0] == '\0' && run.next_seq == 1);
        assert_string_equal(run.result, "{\"code\":\"limit\"}");
        journal_run_done(&run);
        assert_int_equal(journal_events(j, key.id, 0, 1000, see, &seen, &err), 1);
        assert_int_equal(seen.events[0].kind, JOURNAL_ERROR);

        /* A result that is not what the last event says is kept beside it, and is no event. */
        begin(j, "a", 2);
        assert_ok(journal_run_end(j, other.id, &(struct journal_end){.verdict = "timeout", .event = "{\"e\":1}", .result = "{\"r\":2}"}, &err), &err);
        run = get(j, 2);
        assert_string_equal(run.result, "{\"r\":2}");
        journal_run_done(&run);
        seen = (struct seen){0};
        assert_int_equal(journal_events(j, other.id, 0, 1000, see, &seen, &err), 1);
        assert_string_equal(seen.data[0], "{\"e\":1}");
}

static void test_order(void **state)
{
        _cleanup_journal_ struct journal *j = open_journal(NULL, NULL);
        struct journal_run key = run_of("a", 1);
        char id[JOURNAL_ID_MAX];
        gb_error err = {0};

        assert_true(journal_event(j, key.id, JOURNAL_STARTED, 0, NULL, 0, &err) < 0);
        assert_int_equal(err.code, GB_E_NOT_FOUND);
        begin(j, "a", 1);
        assert_true(journal_run_begin(j, &key, NULL, id, &err) < 0); /* the same id */
        assert_true(journal_event(j, key.id, JOURNAL_VERDICT, 0, "{}", 2, &err) < 0);
        end(j, 1, "ok");
        assert_true(journal_event(j, key.id, JOURNAL_STDOUT, 0, "x", 1, &err) < 0);
        assert_true(journal_run_end(j, key.id, &(struct journal_end){.verdict = "ok", .event = "{}"}, &err) < 0);
        assert_int_equal(err.code, GB_E_NOT_FOUND);
}

/* ---- keys ---- */

static struct journal_key key_of(const char *text, uint8_t hash)
{
        return (struct journal_key){.key = text, .hash = {hash}};
}

static void test_keys(void **state)
{
        _cleanup_journal_ struct journal *j = open_journal(NULL, NULL);
        struct journal_run first = run_of("a", 1), second = run_of("a", 2), foreign = run_of("b", 3);
        struct journal_key key = key_of("k", 1), other = key_of("k", 2), long_key = key_of("", 1);
        struct journal_session session = {.id = "5e55", .tenant = "a"};
        char id[JOURNAL_ID_MAX], text[300];
        gb_error err = {0};

        assert_int_equal(journal_run_begin(j, &first, &key, id, &err), 0);
        assert_int_equal(journal_run_begin(j, &second, &key, id, &err), 1);
        assert_string_equal(id, first.id);
        assert_false(is_there(j, 2)); /* nothing was written */
        assert_true(journal_run_begin(j, &second, &other, id, &err) < 0);
        assert_int_equal(err.code, GB_E_CONFLICT);
        assert_false(is_there(j, 2));
        assert_int_equal(journal_run_begin(j, &foreign, &other, id, &err), 0); /* another tenant's is another key */
        assert_int_equal(journal_key_get(j, "a", &key, id, &err), 1);
        assert_string_equal(id, first.id);
        assert_true(journal_key_get(j, "a", &other, id, &err) < 0);
        assert_int_equal(err.code, GB_E_CONFLICT);
        assert_int_equal(journal_key_get(j, "c", &key, id, &err), 0);

        /* The same key for a session is the same key; so are those of a process before. */
        assert_true(journal_session_begin(j, &session, &other, id, &err) < 0);
        end(j, 1, "ok");
        journal_close(TAKE_PTR(j));
        j = open_journal(NULL, NULL);
        assert_int_equal(journal_run_begin(j, &second, &key, id, &err), 1);
        assert_string_equal(id, first.id);

        assert_true(journal_run_begin(j, &second, &long_key, id, &err) < 0);
        memset(text, 'k', sizeof(text));
        text[256] = '\0';
        long_key.key = text;
        assert_true(journal_run_begin(j, &second, &long_key, id, &err) < 0);
        assert_int_equal(err.code, GB_E_USAGE);
        text[255] = '\0';
        assert_int_equal(journal_run_begin(j, &second, &long_key, id, &err), 0);
}

static void test_forgotten_key(void **state)
{
        _cleanup_journal_ struct journal *j = open_journal(NULL, NULL);
        struct journal_run first = run_of("a", 1), second = run_of("a", 2);
        struct journal_key key = key_of("k", 1), other = key_of("k", 2);
        char id[JOURNAL_ID_MAX];
        gb_error err = {0};

        assert_int_equal(journal_run_begin(j, &first, &key, id, &err), 0);
        assert_int_equal(journal_key_forget(j, "b", &key, first.id, &err), 0);
        assert_int_equal(journal_key_forget(j, "a", &key, second.id, &err), 0);
        assert_int_equal(journal_key_forget(j, "a", &other, first.id, &err), 0);
        assert_int_equal(journal_run_begin(j, &second, &key, id, &err), 1);
        assert_int_equal(journal_key_forget(j, "a", &key, first.id, &err), 1);
        assert_int_equal(journal_run_begin(j, &second, &key, id, &err), 0);
}

static void test_keys_of_sessions(void **state)
{
        _cleanup_journal_ struct journal *j = open_journal(NULL, NULL);
        struct journal_session session = {.id = "5e55", .tenant = "a", .trust = "standard", .template = "python"}, other = {.id = "5e56", .tenant = "a"}, got;
        struct journal_key key = key_of("k", 1);
        char id[JOURNAL_ID_MAX];
        gb_error err = {0};

        assert_int_equal(journal_session_begin(j, &session, &key, id, &err), 0);
        assert_int_equal(journal_session_begin(j, &other, &key, id, &err), 1);
        assert_string_equal(id, "5e55");
        assert_ok(journal_session_get(j, "a", "5e55", &got, &err), &err);
        assert_true(got.created_usec > 0 && got.ended_usec == 0 && got.end[0] == '\0');
        assert_string_equal(got.template, "python");
        assert_true(journal_session_get(j, "b", "5e55", &got, &err) < 0);
        assert_int_equal(err.code, GB_E_NOT_FOUND);
        assert_ok(journal_session_end(j, "5e55", "deleted", NULL, &err), &err);
        assert_ok(journal_session_end(j, "5e55", "expired", NULL, &err), &err); /* the first stays */
        assert_ok(journal_session_get(j, NULL, "5e55", &got, &err), &err);
        assert_string_equal(got.end, "deleted");
        assert_true(journal_session_end(j, "5e56", "deleted", NULL, &err) < 0);
}

/* ---- lists ---- */

static void test_pages(void **state)
{
        _cleanup_journal_ struct journal *j = open_journal(NULL, NULL);
        struct journal_query q = {.tenant = "a", .state = -1, .limit = 7};
        unsigned expected = 50;
        gb_error err = {0};

        for (unsigned i = 1; i <= 50; i++) {
                begin(j, i % 2 ? "a" : "b", i);
                if (i % 4 < 2)
                        end(j, i, "ok");
        }
        do {
                struct journal_run *runs = NULL;
                size_t n = 0;
                assert_ok(journal_runs(j, &q, &runs, &n, &q.before, &err), &err);
                for (size_t i = 0; i < n; i++) {
                        expected -= expected == 50 ? 1 : 2;
                        assert_string_equal(runs[i].id, run_of("a", expected).id);
                        assert_string_equal(runs[i].tenant, "a");
                        assert_null(runs[i].result);
                }
                assert_true(n == 7 || q.before == 0);
                journal_runs_free(runs, n);
                /* What comes while somebody turns pages is not in them. */
                begin(j, "a", 1000 + expected);
        } while (q.before > 0);
        assert_int_equal(expected, 1);
}

static size_t count_runs(struct journal *j, struct journal_query q)
{
        struct journal_run *runs = NULL;
        size_t n = 0, total = 0;
        gb_error err = {0};

        q.limit = 10;
        do {
                assert_ok(journal_runs(j, &q, &runs, &n, &q.before, &err), &err);
                for (size_t i = 0; i < n && q.state >= 0; i++)
                        assert_int_equal(runs[i].state, q.state);
                journal_runs_free(runs, n);
                total += n;
        } while (q.before > 0);
        return total;
}

static void check_counts(struct journal *j)
{
        assert_int_equal(count_runs(j, (struct journal_query){.state = -1}), 60);
        assert_int_equal(count_runs(j, (struct journal_query){.state = -1, .tenant = "a"}), 30);
        assert_int_equal(count_runs(j, (struct journal_query){.state = -1, .tenant = "c"}), 0);
        assert_int_equal(count_runs(j, (struct journal_query){.state = -1, .tenant = ""}), 0);
        assert_int_equal(count_runs(j, (struct journal_query){.state = JOURNAL_QUEUED, .tenant = "a"}), 10);
        assert_int_equal(count_runs(j, (struct journal_query){.state = JOURNAL_RUNNING, .tenant = "a"}), 10);
        assert_int_equal(count_runs(j, (struct journal_query){.state = JOURNAL_ENDED, .tenant = "b"}), 10);
        assert_int_equal(count_runs(j, (struct journal_query){.state = JOURNAL_RUNNING}), 20);
        assert_int_equal(count_runs(j, (struct journal_query){.state = -1, .session = "5e55", .tenant = "a"}), 30);
        assert_int_equal(count_runs(j, (struct journal_query){.state = -1, .session = "5e55", .tenant = "b"}), 0);
        assert_int_equal(count_runs(j, (struct journal_query){.state = JOURNAL_QUEUED, .session = "5e55", .tenant = "b"}), 0);
        assert_int_equal(count_runs(j, (struct journal_query){.state = -1, .verdict = "ok"}), 20);
        assert_int_equal(count_runs(j, (struct journal_query){.state = -1, .since_usec = 20, .until_usec = 30}), 10);
}

static void test_filters(void **state)
{
        _cleanup_journal_ struct journal *j = open_journal(NULL, NULL), *reader = NULL;
        char id[JOURNAL_ID_MAX];
        gb_error err = {0};

        for (unsigned i = 0; i < 60; i++) {
                struct journal_run run = run_of(i % 2 ? "b" : "a", i);
                run.created_usec = i + 1;
                if (i % 2 == 0)
                        strcpy(run.session, "5e55");
                assert_int_equal(journal_run_begin(j, &run, NULL, id, &err), 0);
                if (i % 3 > 0)
                        output(j, i, JOURNAL_STARTED, NULL);
                if (i % 3 > 1)
                        end(j, i, "ok");
        }
        check_counts(j);
        /* Another process has no memory of what goes on, and sees the same, a little later. */
        usleep(150000);
        assert_ok(journal_tidy(j, &err), &err);
        assert_ok(journal_open_reader(top, &reader, &err), &err);
        check_counts(reader);
        struct journal_run run = get(reader, 1);
        assert_true(run.state == JOURNAL_RUNNING && run.started_usec > 0 && run.next_seq == 1);
}

/* That a run has started is known at once, and written down with what comes next, or soon, or before somebody reads it. */
static void test_start(void **state)
{
        enum { WITH_OUTPUT, BY_TIDYING, FOR_A_READER, WITH_THE_END, WAYS };
        _cleanup_journal_ struct journal *j = open_journal(NULL, NULL), *other = NULL;
        gb_error err = {0};

        assert_ok(journal_open_reader(top, &other, &err), &err);
        for (unsigned way = 0; way < WAYS; way++) {
                struct journal_run key = run_of("a", way);
                struct seen seen = {0}, written = {0};
                begin(j, "a", way);
                output(j, way, JOURNAL_STARTED, NULL);
                struct journal_run run = get(j, way);
                assert_true(run.state == JOURNAL_RUNNING && run.next_seq == 1 && run.started_usec > 0);
                assert_int_equal(journal_events(other, key.id, 0, SIZE_MAX, see, &written, &err), 0);
                if (way == WITH_OUTPUT)
                        output(j, way, JOURNAL_STDOUT, "x");
                if (way == BY_TIDYING) {
                        usleep(150000);
                        assert_ok(journal_tidy(j, &err), &err);
                }
                if (way == FOR_A_READER)
                        assert_int_equal(journal_events(j, key.id, 0, SIZE_MAX, see, &seen, &err), 1);
                if (way != WITH_THE_END)
                        assert_int_equal(journal_events(other, key.id, 0, SIZE_MAX, see, &written, &err), 1 + (way == WITH_OUTPUT));
                end(j, way, "ok");
                written.n = 0;
                assert_int_equal(journal_events(other, key.id, 0, SIZE_MAX, see, &written, &err), 2 + (way == WITH_OUTPUT));
                struct journal_run ended = get(j, way);
                assert_true(written.events[0].kind == JOURNAL_STARTED && written.events[0].seq == 0 && ended.started_usec == run.started_usec);
                journal_run_done(&ended);
        }
}

static void test_tenants(void **state)
{
        _cleanup_journal_ struct journal *j = open_journal(NULL, NULL);
        struct journal_run key = run_of("a", 1), run = {0};
        gb_error err = {0}, other = {0};

        begin(j, "a", 1);
        assert_ok(journal_run_get(j, "a", key.id, &run, &err), &err);
        assert_true(journal_run_get(j, "b", key.id, &run, &err) < 0);
        end(j, 1, "ok");
        assert_true(journal_run_get(j, "b", key.id, &run, &err) < 0);
        assert_int_equal(err.code, GB_E_NOT_FOUND);
        /* As one that never was. */
        assert_true(journal_run_get(j, "b", "00000000000000000000000000000000", &run, &other) < 0);
        assert_int_equal(err.code, other.code);
}

/* ---- audit ---- */

struct records {
        char text[16][1024];
        size_t n;
};

static int keep_record(void *data, uint64_t cursor, const char *json)
{
        struct records *r = data;

        assert_true(r->n < 16 && cursor > 0);
        snprintf(r->text[r->n++], sizeof(r->text[0]), "%s", json);
        return 0;
}

static void test_audit(void **state)
{
        _cleanup_journal_ struct journal *j = open_journal(NULL, NULL);
        struct journal_session session = {.id = "5e55", .tenant = "b", .token = "tok", .trust = "high"};
        struct journal_query q = {.limit = 10, .state = -1};
        struct records r = {0};
        char id[JOURNAL_ID_MAX];
        gb_error err = {0};

        whole(j, "a", 1);
        assert_int_equal(journal_session_begin(j, &session, NULL, id, &err), 0);
        assert_ok(journal_session_end(j, "5e55", "idle", "{\"requests\":2}", &err), &err);
        assert_ok(journal_audit_add(j, "b", "tok", "thing", "{\"tenant\":\"forged\",\"more\":[1]}", &err), &err);
        assert_int_equal(journal_audit_once(j, "m", 7, "b", NULL, "token.create", NULL, &err), 1);
        assert_int_equal(journal_audit_once(j, "m", 7, "b", NULL, "token.create", NULL, &err), 0);

        assert_ok(journal_audit(j, &q, keep_record, &r, &q.before, &err), &err);
        assert_int_equal(r.n, 5);
        assert_int_equal(q.before, 0);
        assert_non_null(strstr(r.text[4], "\"action\":\"run\""));
        assert_non_null(strstr(r.text[4], "\"code_sha256\":\"ab01000000"));
        assert_non_null(strstr(r.text[4], "\"verdict\":\"ok\""));
        assert_non_null(strstr(r.text[4], "\"peaks\":{\"pids\":1}"));
        assert_non_null(strstr(r.text[4], "\"controls\":[{\"name\":\"seccomp\"}]"));
        assert_non_null(strstr(r.text[3], "\"action\":\"session.create\""));
        assert_non_null(strstr(r.text[2], "\"end\":\"idle\""));
        assert_non_null(strstr(r.text[2], "\"network\":{\"requests\":2}"));
        assert_non_null(strstr(r.text[1], "\"tenant\":\"b\"")); /* what a record says for itself cannot be overwritten */
        assert_non_null(strstr(r.text[1], "\"more\":[1]"));
        assert_non_null(strstr(r.text[0], "\"at\":\"1970-01-01T00:00:00.000007Z\""));

        for (const char *tenant = NULL;; tenant = "b") {
                size_t n = 0;
                q = (struct journal_query){.tenant = tenant, .limit = 2, .oldest_first = true};
                do {
                        r.n = 0;
                        assert_ok(journal_audit(j, &q, keep_record, &r, &q.before, &err), &err);
                        n += r.n;
                        assert_non_null(strstr(r.text[0], n == 2 && !tenant ? "\"run\"" : n == 2 ? "session.create" : n == 4 && !tenant ? "session.end" : n == 4 ? "thing" : "token.create"));
                } while (q.before > 0);
                assert_int_equal(n, tenant ? 4 : 5);
                if (tenant)
                        break;
        }
        r.n = 0;
        q = (struct journal_query){.tenant = "a", .limit = 10};
        assert_ok(journal_audit(j, &q, keep_record, &r, NULL, &err), &err);
        assert_int_equal(r.n, 1);
        r.n = 0;
        q = (struct journal_query){.session = "5e55", .limit = 1};
        assert_ok(journal_audit(j, &q, keep_record, &r, &q.before, &err), &err);
        assert_true(r.n == 1 && q.before > 0 && strstr(r.text[0], "session.end"));
        assert_ok(journal_audit(j, &q, keep_record, &r, &q.before, &err), &err);
        assert_true(r.n == 2 && q.before == 0 && strstr(r.text[1], "session.create"));
        r.n = 0;
        q = (struct journal_query){.until_usec = 8, .limit = 10};
        assert_ok(journal_audit(j, &q, keep_record, &r, NULL, &err), &err);
        assert_int_equal(r.n, 1);
        r.n = 0;
        q = (struct journal_query){.verdict = "lost", .limit = 10};
        assert_ok(journal_audit(j, &q, keep_record, &r, NULL, &err), &err);
        assert_int_equal(r.n, 0);
}

/* Texts that records share survive the process, and when there are too many of them each record has its own. */
static void test_audit_texts(void **state)
{
        struct journal *j = open_journal(NULL, NULL);
        struct records r = {0};
        gb_error err = {0};
        char controls[64];

        for (unsigned i = 0; i < 100; i++) {
                struct journal_run key = run_of("a", i);
                begin(j, "a", i);
                snprintf(controls, sizeof(controls), "[\"controls %u\"]", i);
                assert_ok(journal_run_end(j, key.id, &(struct journal_end){.verdict = "ok", .event = "{}", .controls = controls}, &err), &err);
                if (i == 50) {
                        journal_close(j);
                        j = open_journal(NULL, NULL);
                }
        }
        struct journal_query q = {.limit = 10};
        for (unsigned i = 100; i > 0;) {
                r.n = 0;
                assert_ok(journal_audit(j, &q, keep_record, &r, &q.before, &err), &err);
                for (size_t k = 0; k < r.n; k++) {
                        snprintf(controls, sizeof(controls), "\"controls\":[\"controls %u\"]", --i);
                        assert_non_null(strstr(r.text[k], controls));
                }
        }
        journal_close(j);
}

/* ---- times ---- */

static void test_times(void **state)
{
        static const char *const wrong[] = {
                "", "2026", "2026-13-01", "2026-02-30", "2026-01-05T10:00:00", "2026-01-05T10:00:00.Z", "2026-01-05T24:00:00Z", "2026-01-05T10:00:00+1:00", " 2026-01-05",
                "2026-01-05 ", "2026-1-05", "2026-01-05T10:00:00Zx", "1969-12-31T23:59:59Z", "-026-01-05", "2026-01-05T10:60:00Z",
        };
        static const struct {
                const char *text, *same;
        } right[] = {
                {"2026-01-05T10:00:00.000000Z", "2026-01-05T10:00:00.000000Z"}, {"2026-01-05", "2026-01-05T00:00:00.000000Z"},
                {"2026-01-05T10:00:00.5+02:00", "2026-01-05T08:00:00.500000Z"}, {"2024-02-29t23:59:59.1234567z", "2024-02-29T23:59:59.123456Z"},
                {"2026-01-05 10:00:00-00:30", "2026-01-05T10:30:00.000000Z"}, {"2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000000Z"},
                {"1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z"}, {"9999-12-31T23:59:59Z", "9999-12-31T23:59:59.000000Z"},
        };
        char text[JOURNAL_TIME_MAX];
        uint64_t usec = 77;

        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
                if (journal_time_parse(wrong[i], &usec) == 0)
                        fail_msg("%s was taken", wrong[i]);
        assert_int_equal(usec, 77);
        for (size_t i = 0; i < ARRAY_SIZE(right); i++) {
                assert_int_equal(journal_time_parse(right[i].text, &usec), 0);
                assert_string_equal(journal_time_format(usec, text), right[i].same);
        }
        assert_string_equal(journal_time_format(UINT64_MAX, text), "9999-12-31T00:00:00.551615Z");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_top, remove_top)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_run), TEST(test_events_from_a_number_and_up_to_a_size), TEST(test_callback_stops), TEST(test_large_and_binary),
                TEST(test_failed_and_other_results), TEST(test_order), TEST(test_keys), TEST(test_forgotten_key), TEST(test_keys_of_sessions), TEST(test_pages), TEST(test_filters), TEST(test_start),
                TEST(test_tenants), TEST(test_audit), TEST(test_audit_texts), TEST(test_times),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
