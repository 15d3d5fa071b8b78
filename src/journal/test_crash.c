/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that writes the journal is killed at any moment. What it was told to be written is there; what was under way is `lost`; nothing is
 * half there. */
#include "base/fd.h"
#include "base/json.h"
#include "journal/test_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 25
#define WRITERS 3
#define RUNS_MAX 65536

/* What the child has been told, one per write to the pipe. */
struct told {
        char what; /* 'b'egun, 'o'utput, 'e'nded, 's'ession */
        unsigned number;
};

/* What the parent knows of each run. */
struct known {
        bool begun, ended;
        unsigned outputs;
};

static struct known known[RUNS_MAX];

struct writer {
        struct journal *j;
        int fd;
        unsigned first;
};

static void say(int fd, char what, unsigned number)
{
        struct told t = {.what = what, .number = number};

        if (write(fd, &t, sizeof(t)) != sizeof(t))
                _exit(2);
}

static void check(bool ok)
{
        if (!ok)
                _exit(3);
}

/* Some runs end, some are left open; each third one only begins. */
static void *write_runs(void *data)
{
        struct writer *w = data;
        char key[32], id[JOURNAL_ID_MAX];
        gb_error err = {0};

        for (unsigned i = 0;; i++) {
                unsigned number = w->first + i * WRITERS;
                struct journal_run run = run_of("a", number);
                if (number >= RUNS_MAX)
                        return NULL;
                snprintf(key, sizeof(key), "key %u", number);
                check(journal_run_begin(w->j, &run, &(struct journal_key){.key = key, .hash = {1}}, id, &err) == 0);
                say(w->fd, 'b', number);
                if (i % 3 == 1)
                        continue;
                check(journal_event(w->j, id, JOURNAL_STARTED, 0, NULL, 0, &err) == 0);
                for (int k = 0; k < 5; k++) {
                        check(journal_event(w->j, id, JOURNAL_STDOUT, (uint64_t)k, "0123456789", 10, &err) > 0);
                        say(w->fd, 'o', number);
                }
                if (i % 3 == 2)
                        continue;
                check(journal_run_end(w->j, id, &(struct journal_end){.verdict = "ok", .event = "{\"verdict\":{\"kind\":\"ok\"}}", .controls = "[]"}, &err) == 0);
                say(w->fd, 'e', number);
        }
}

static _noreturn_ void child(int fd, unsigned first)
{
        struct journal_limits limits = {0};
        struct journal_session session = {.tenant = "a"};
        struct writer writers[WRITERS];
        pthread_t threads[WRITERS];
        char id[JOURNAL_ID_MAX];
        gb_error err = {0};
        struct journal *j;

        check(journal_open(top, &limits, &j, NULL, &err) == 0);
        snprintf(session.id, sizeof(session.id), "5e55%u", first);
        check(journal_session_begin(j, &session, NULL, id, &err) == 0);
        say(fd, 's', first);
        for (unsigned i = 0; i < WRITERS; i++) {
                writers[i] = (struct writer){.j = j, .fd = fd, .first = first + i};
                check(pthread_create(&threads[i], NULL, write_runs, &writers[i]) == 0);
        }
        for (;;)
                (void)journal_tidy(j, &err); /* and the log is copied meanwhile */
}

static unsigned note(const struct told *t)
{
        struct known *k = &known[t->number % RUNS_MAX];

        k->begun |= t->what == 'b';
        k->ended |= t->what == 'e';
        k->outputs += t->what == 'o';
        return t->what == 's' ? 0 : t->number;
}

/* Starts a process that writes, and kills it after so many news. Returns the largest number it has used. */
static unsigned run_and_kill(unsigned first, unsigned news)
{
        unsigned last = first;
        struct told t;
        int fds[2], status;

        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
                child(fds[1], first);
        safe_close(fds[1]);
        for (unsigned i = 0; read(fds[0], &t, sizeof(t)) == sizeof(t); i++) {
                last = MAX(last, note(&t));
                if (i == news)
                        assert_int_equal(kill(pid, SIGKILL), 0);
        }
        safe_close(fds[0]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        return last;
}

struct story {
        uint64_t next, bytes;
        enum journal_kind last;
        char data[2048];
};

static int follow(void *data, const struct journal_event *event)
{
        struct story *s = data;

        assert_int_equal(event->seq, s->next++);
        s->last = event->kind;
        if (event->kind == JOURNAL_STDOUT) {
                assert_int_equal(event->offset, s->bytes);
                s->bytes += event->size;
        } else
                snprintf(s->data, sizeof(s->data), "%s", event->data);
        return 0;
}

static void check_lost(const struct journal_run *run)
{
        _cleanup_json_ json_t *result = json_loads(run->result, 0, NULL);
        static const char *const unknown[] = {"exit_code", "signal", "duration_ms", "peaks", "controls"};

        assert_non_null(result);
        assert_string_equal(json_string_value(json_object_get(result, "id")), run->id);
        assert_string_equal(json_string_value(json_object_get(json_object_get(result, "verdict"), "kind")), "lost");
        for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
                assert_true(json_is_null(json_object_get(result, unknown[i])));
}

/* Returns whether it is lost. */
static bool check_run(struct journal *j, unsigned number, const struct known *k)
{
        if (!k->begun && !is_there(j, number))
                return false;
        _cleanup_journal_run_ struct journal_run run = get(j, number);
        struct story story = {0};
        gb_error err = {0};
        assert_int_equal(run.state, JOURNAL_ENDED);
        assert_ok(journal_events(j, run.id, 0, SIZE_MAX, follow, &story, &err), &err);
        assert_int_equal(story.last, JOURNAL_VERDICT);
        assert_int_equal(story.next, run.next_seq);
        assert_int_equal(story.bytes, run.out_bytes);
        assert_true(story.bytes >= 10 * k->outputs);
        assert_string_equal(story.data, run.result);
        bool lost = strcmp(run.verdict, "lost") == 0;
        assert_true(lost || strcmp(run.verdict, "ok") == 0);
        assert_true(!k->ended || !lost);
        if (lost)
                check_lost(&run);
        else
                assert_int_equal(run.out_bytes, 50);
        return lost;
}

/* A retry never runs anything again. */
static void check_key(struct journal *j, unsigned number)
{
        struct journal_run run = run_of("a", number), again = run_of("a", 1000000 + number);
        char key[32], id[JOURNAL_ID_MAX];
        gb_error err = {0};

        snprintf(key, sizeof(key), "key %u", number);
        assert_int_equal(journal_run_begin(j, &again, &(struct journal_key){.key = key, .hash = {1}}, id, &err), 1);
        assert_string_equal(id, run.id);
}

static int count_record(void *data, uint64_t cursor, const char *json)
{
        unsigned *n = data;

        n[strstr(json, "\"action\":\"run\"") ? 0 : strstr(json, "\"end\":\"lost\"") ? 1 : 2]++;
        return 0;
}

static void test_killed(void **state)
{
        unsigned next = 1, seed = 12345, runs = 0, lost_before = 0;

        memset(known, 0, sizeof(known));
        for (unsigned round = 0; round < ROUNDS; round++) {
                struct journal_query q = {.limit = 100000};
                unsigned n[3] = {0}, lost_now = 0;
                uint64_t lost = 0;
                gb_error err = {0};

                seed = seed * 1103515245 + 12345;
                unsigned last = run_and_kill(next, (seed >> 16) % 150);
                struct journal *j = open_journal(NULL, &lost);
                runs = 0;
                for (unsigned i = 1; i <= last + 2 * WRITERS; i++) {
                        lost_now += check_run(j, i, &known[i]);
                        runs += is_there(j, i);
                        if (known[i].begun)
                                check_key(j, i);
                }
                assert_int_equal(lost, lost_now - lost_before);
                assert_ok(journal_audit(j, &q, count_record, n, NULL, &err), &err);
                assert_int_equal(n[0], runs);      /* one record each */
                assert_int_equal(n[1], round + 1); /* and the sessions */
                assert_int_equal(n[2], round + 1);
                journal_close(j);
                lost_before = lost_now;
                next = last + 2 * WRITERS + 1;
        }
        assert_true(runs > 50 && lost_before > 20); /* or nothing was tested */
}

/* Queued, running and alive: all are lost, once; what has ended stays as it is. */
static void test_lost(void **state)
{
        struct journal_session session = {.id = "5e55", .tenant = "a"};
        char id[JOURNAL_ID_MAX];
        uint64_t lost = 77;
        gb_error err = {0};
        struct journal *j = open_journal(NULL, &lost);

        assert_int_equal(lost, 0);
        begin(j, "a", 1);
        begin(j, "a", 2);
        output(j, 2, JOURNAL_STARTED, NULL);
        output(j, 2, JOURNAL_STDERR, "so far");
        whole(j, "a", 3);
        assert_int_equal(journal_session_begin(j, &session, NULL, id, &err), 0);
        journal_close(j);

        j = open_journal(NULL, &lost);
        assert_int_equal(lost, 2);
        assert_ok(journal_session_get(j, "a", "5e55", &session, &err), &err);
        assert_string_equal(session.end, "lost");
        struct journal_run run = get(j, 2);
        assert_true(run.state == JOURNAL_ENDED && run.started_usec > 0 && run.err_bytes == 6 && run.next_seq == 3 && run.ended_usec > 0 && !run.failed);
        check_lost(&run);
        assert_true(journal_event(j, run.id, JOURNAL_STDOUT, 0, "x", 1, &err) < 0); /* it is over */
        journal_run_done(&run);
        run = get(j, 1);
        assert_true(run.state == JOURNAL_ENDED && run.started_usec == 0);
        check_lost(&run);
        journal_run_done(&run);
        run = get(j, 3);
        assert_string_equal(run.verdict, "ok");
        journal_run_done(&run);
        journal_close(j);
        j = open_journal(NULL, &lost);
        assert_int_equal(lost, 0);
        journal_close(j);
}

/* A run that goes on for long keeps the place from which the next process looks. */
static void test_lost_among_many(void **state)
{
        uint64_t lost = 0;
        gb_error err = {0};
        struct journal *j = open_journal(NULL, NULL);

        for (unsigned i = 0; i < 3000; i++) {
                if (i == 700 || i == 2990)
                        begin(j, "a", i);
                else
                        whole(j, "a", i);
                if (i % 500 == 0)
                        assert_ok(journal_tidy(j, &err), &err);
        }
        assert_ok(journal_tidy(j, &err), &err);
        journal_close(j);
        j = open_journal(NULL, &lost);
        assert_int_equal(lost, 2);
        journal_close(j);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_top, remove_top)

int main(void)
{
        const struct CMUnitTest tests[] = {TEST(test_lost), TEST(test_lost_among_many), TEST(test_killed)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
