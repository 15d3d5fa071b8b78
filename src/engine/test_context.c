/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions and contexts over test_context_backend.c: what they promise to who keeps the rules. */
#include "base/fd.h"
#include "engine/test_context_fixture.h"
#include "guard/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void test_events_in_order(void **state)
{
        struct seen seen = {0};

        open_context(&python);
        struct context_request request = request_of("out one\nerr two\nraw P %S 15\\nimage/png 3\\nabc\nout three\nraw R %S 15\\ntext/plain 2\\n42\n"
                                                    "raw X %S 30\\nname 1\\nNvalue 1\\nVtraceback 1\\nT\ndone error\nquiet", &seen);
        _cleanup_result_ struct result *r = run_request(&request);
        assert_int_equal(r->verdict.kind, VERDICT_ERROR);
        assert_string_equal(r->verdict.message, "The code failed with N: the error says what and where.");
        assert_true(r->state_kept && !r->state_restarted);
        assert_int_equal(r->n_values, 2);
        assert_true(!r->values[0]->main && r->values[1]->main);
        assert_string_equal(r->error.traceback.bytes, "T");
        assert_string_equal(r->out.data, "onethree");
        assert_string_equal(r->session, session_id(session));
        assert_string_equal(r->context, "1");
        assert_false(ending_is_seen(&r->facts.ending));
        /* Output that was written before a frame comes before it, whichever way is faster. */
        assert_ptr_equal(strstr(seen.text, "started;"), seen.text);
        assert_true(strstr(seen.text, "out=one") < strstr(seen.text, "shown:image/png=abc;"));
        assert_true(strstr(seen.text, "three;") < strstr(seen.text, "main:text/plain=42;error:N:V:T;"));
}

static void test_many_runs(void **state)
{
        struct context_info info;

        open_context(&python);
        for (int i = 0; i < 200; i++)
                expect("out x", VERDICT_OK, true);
        context_info_get(context, &info);
        assert_true(info.alive && !info.busy && info.runs == 200);
        assert_int_equal(fake.starts, 1);
}

static void test_code_is_text(void **state)
{
        struct seen seen = {0};
        struct context_request request = request_of("x", &seen);
        struct result *result = NULL;
        gb_error err = {0};

        open_context(&bash);
        request.code = "a\0b";
        request.code_size = 3;
        assert_int_equal(context_run(context, &request, &result, &err), -EILSEQ);
        request.code = "\xff";
        request.code_size = 1;
        assert_int_equal(context_run(context, &request, &result, &err), -EILSEQ);
        assert_null(result);
        expect("", VERDICT_OK, true);
}

static void test_death_between_runs(void **state)
{
        struct context_info info;

        open_context(&python);
        expect("done ok\nquiet\nsleep 30\nexit 1", VERDICT_OK, true);
        for (int i = 0; i < PATIENCE_MSEC && (context_info_get(context, &info), info.alive); i++)
                usleep(1000);
        assert_false(info.alive);
        _cleanup_result_ struct result *r = run("out x");
        assert_true(r->verdict.kind == VERDICT_OK && r->state_restarted && r->state_kept);
        assert_int_equal(fake.starts, 2);
}

/* Once a run is over its deadline is none of the interpreter's any more. */
static void test_deadline_is_disarmed(void **state)
{
        open_context(&python);
        expect("out up", VERDICT_OK, true);
        policy->timeout_usec = SHORT_USEC;
        expect("sleep 60000", VERDICT_TIMEOUT, true);
        usleep(INTERRUPT_GRACE_USEC + DEADLINE_SLACK_USEC + 200000);
        policy->timeout_usec = 10000000;
        _cleanup_result_ struct result *r = run("out x");
        assert_false(r->state_restarted);
}

static void *interrupt_soon(void *data)
{
        int r, tries = 0;

        while ((r = context_interrupt(context, NULL)) == -ESRCH && tries++ < PATIENCE_MSEC)
                usleep(1000);
        return (void *)(intptr_t)r;
}

static void test_interrupt(void **state)
{
        pthread_t thread;
        void *r = NULL;

        open_context(&python);
        policy->timeout_usec = 30000000;
        assert_int_equal(context_interrupt(context, NULL), -ESRCH);
        /* One that came when nothing ran is not kept for later. */
        expect("sleep 50", VERDICT_OK, true);
        pthread_create(&thread, NULL, interrupt_soon, NULL);
        uint64_t start = monotonic_usec();
        expect("sleep 20000", VERDICT_CANCELLED, true);
        assert_true(monotonic_usec() - start < 10000000);
        pthread_join(thread, &r);
        assert_null(r);
        expect("sleep 50", VERDICT_OK, true);
}

struct later {
        int fd;
        uint64_t count;
};

static void *cancel_soon(void *data)
{
        struct later *l = data;

        usleep(100000);
        return (void *)(intptr_t)(write(l->fd, &l->count, sizeof(l->count)) != sizeof(l->count));
}

static struct result *run_and_cancel(const char *code, uint64_t count)
{
        struct seen seen = {0};
        struct context_request request = request_of(code, &seen);
        struct later later = {eventfd(0, EFD_CLOEXEC), count};
        pthread_t thread;

        request.cancel_fd = later.fd;
        pthread_create(&thread, NULL, cancel_soon, &later);
        struct result *r = run_request(&request);
        pthread_join(thread, NULL);
        close(later.fd);
        assert_int_equal(r->verdict.kind, VERDICT_CANCELLED);
        return r;
}

static void test_cancel_fd(void **state)
{
        policy->timeout_usec = 30000000;
        open_context(&python);
        expect("out x", VERDICT_OK, true);
        _cleanup_result_ struct result *r = run_and_cancel("sleep 20000", 1);
        assert_true(r->state_kept && r->facts.wall_usec < 10000000);
        /* Two counts kill. */
        _cleanup_result_ struct result *killed = run_and_cancel("sleep 20000", 2);
        assert_true(!killed->state_kept && killed->facts.wall_usec < 10000000);
        expect("out x", VERDICT_OK, true);
        /* A deaf one is killed after the grace. */
        _cleanup_result_ struct result *deaf = run_and_cancel("deaf\nsleep 20000", 1);
        assert_false(deaf->state_kept);
        assert_true(deaf->facts.wall_usec >= INTERRUPT_GRACE_USEC && deaf->facts.wall_usec < INTERRUPT_GRACE_USEC + 10000000);
}

/* The caller has cancelled before the code was on its way. */
static void test_cancelled_at_once(void **state)
{
        struct seen seen = {0};
        struct context_request request = request_of("sleep 20000", &seen);

        policy->timeout_usec = 30000000;
        open_context(&python);
        request.cancel_fd = eventfd(1, EFD_CLOEXEC);
        _cleanup_result_ struct result *unsent = run_request(&request);
        assert_int_equal(unsent->verdict.kind, VERDICT_CANCELLED);
        assert_true(unsent->state_kept && !unsent->facts.started);
        /* And here it was just sent: an interrupt that comes too early is repeated. */
        for (int i = 0; i < 20; i++) {
                uint64_t one = 1;
                expect("out x", VERDICT_OK, true);
                assert_int_equal(write(request.cancel_fd, &one, sizeof(one)), sizeof(one));
                _cleanup_result_ struct result *early = run_request(&request);
                assert_int_equal(early->verdict.kind, VERDICT_CANCELLED);
                assert_true(early->state_kept && early->facts.wall_usec < 10000000);
        }
        close(request.cancel_fd);
}

static void *run_elsewhere(void *data)
{
        struct seen seen = {0};
        struct context_request request = request_of("sleep 20000", &seen); /* it is interrupted */
        struct result *result = NULL;

        int r = context_run(data, &request, &result, NULL);
        result_free(result);
        return (void *)(intptr_t)r;
}

static void test_busy(void **state)
{
        struct seen seen = {0};
        struct context_request request = request_of("out x", &seen);
        struct result *result = NULL;
        struct context_info info[2];
        gb_error err = {0};
        pthread_t thread;
        void *r = NULL;

        policy->timeout_usec = 30000000;
        open_context(&python);
        struct context *first = context;
        pthread_create(&thread, NULL, run_elsewhere, first);
        for (int i = 0; i < PATIENCE_MSEC && (context_info_get(first, &info[0]), !info[0].busy); i++)
                usleep(1000);
        assert_int_equal(context_run(first, &request, &result, &err), -EBUSY);
        assert_non_null(strstr(err.message, "runs something already"));
        assert_int_equal(context_restart(first, &err), -EBUSY);
        assert_int_equal(context_close(first, &err), -EBUSY);
        /* Another one is free. */
        open_context(&bash);
        expect("out y", VERDICT_OK, true);
        assert_int_equal(session_contexts(session, info, 2), 2);
        assert_true(info[0].busy && info[0].alive && !info[1].busy);
        assert_string_equal(info[1].language, "bash");
        assert_int_equal(context_interrupt(first, NULL), 0);
        pthread_join(thread, &r);
        assert_null(r);
        assert_ptr_equal(session_find_context(session, "1"), first);
        assert_null(session_find_context(session, "01"));
}

#define THREADS 4
static void *run_often(void *data)
{
        for (int i = 0; i < 100; i++) {
                struct seen seen = {0};
                struct context_request request = request_of("out x\nraw R %S 15\\ntext/plain 2\\n42", &seen);
                struct result *result = NULL;
                if (context_run(data, &request, &result, NULL) < 0)
                        return (void *)1;
                bool good = result->verdict.kind == VERDICT_OK && result->n_values == 1 && strcmp(result->out.data, "x") == 0;
                result_free(result);
                if (!good)
                        return (void *)2;
        }
        return NULL;
}

static void test_threads(void **state)
{
        struct context *contexts[THREADS];
        pthread_t threads[THREADS];
        void *r;

        policy->timeout_usec = 30000000;
        /* Before there are threads: an interpreter of this test is forked, and the sanitizer's locks are forked as they are. */
        for (int i = 0; i < THREADS; i++) {
                open_context(&python);
                contexts[i] = context;
        }
        for (int i = 0; i < THREADS; i++)
                pthread_create(&threads[i], NULL, run_often, contexts[i]);
        for (int i = 0; i < THREADS; i++) {
                pthread_join(threads[i], &r);
                assert_null(r);
        }
}

static void test_restart(void **state)
{
        open_context(&python);
        expect("out x", VERDICT_OK, true);
        assert_int_equal(context_restart(context, NULL), 0);
        assert_int_equal(fake.starts, 2);
        _cleanup_result_ struct result *r = run("out x");
        assert_true(r->state_kept && !r->state_restarted); /* it was asked for */
}

static void test_too_many_contexts(void **state)
{
        struct context *more = NULL;
        gb_error err = {0};

        for (int i = 0; i < CONTEXTS_MAX; i++)
                open_context(&bash);
        assert_int_equal(context_open(session, &bash, &more, &err), -ENOSPC);
        assert_int_equal(err.code, GB_E_LIMIT);
        assert_int_equal(context_close(context, NULL), 0);
        open_context(&bash);
        assert_string_equal(context_id(context), "34"); /* never used twice, not even by one that was refused */
        assert_int_equal(context_open(session, &plain_c, &more, &err), -ENOTSUP);
        assert_null(more);
}

static void test_stdin(void **state)
{
        const struct language *languages[] = {&python, &bash};

        for (size_t i = 0; i < ARRAY_SIZE(languages); i++) {
                struct seen seen = {0};
                struct context_request request = request_of("stdin", &seen);
                open_context(languages[i]);
                _cleanup_result_ struct result *empty = run_request(&request);
                assert_string_equal(empty->out.data, "empty");
                request.stdin_fd = file_with("hello", 5);
                _cleanup_result_ struct result *file = run_request(&request);
                assert_string_equal(file->out.data, "hello");
                close(request.stdin_fd);
                int fds[2];
                assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
                assert_int_equal(write(fds[1], "piped", 5), 5);
                close(fds[1]);
                request.stdin_fd = fds[0];
                _cleanup_result_ struct result *piped = run_request(&request);
                assert_string_equal(piped->out.data, "piped");
                close(fds[0]);
        }
}

/* What was printed between two runs is not lost. */
static void test_output_between_runs(void **state)
{
        open_context(&python);
        expect("done ok\nquiet\nsleep 30\nout late", VERDICT_OK, true);
        usleep(500000);
        _cleanup_result_ struct result *r = run("out x");
        assert_string_equal(r->out.data, "latex");
}

static void test_limits_of_the_session(void **state)
{
        open_context(&python);
        expect("out up", VERDICT_OK, true);
        policy->cpu_time_usec = 15000;
        fake.usage_grows = fake.usage.cpu_known = true;
        _cleanup_result_ struct result *cpu = run("sleep 60000");
        assert_int_equal(cpu->verdict.kind, VERDICT_CPU);
        assert_true(cpu->state_kept && cpu->facts.cpu_usec >= 20000);
        fake.usage_grows = false;
        fake.usage.oom_kills = 7; /* of earlier runs */
        expect("done error\nquiet", VERDICT_ERROR, true);
        fake.stop_on_exit = BOX_STOP_MEMORY;
        expect("kill 9", VERDICT_MEMORY, false);
}

static const struct box_usage counted = {
        .cpu_known = true, .memory_peak_known = true, .pids_peak_known = true, .kills_known = true,
        .cpu_usec = 5, .memory_peak_bytes = 6, .pids_peak = 7, .oom_kills = 2,
};

static struct result *run_once(const char *code)
{
        struct once_request request = {.language = &plain_c, .code = code, .code_size = strlen(code), .stdin_fd = -1,
                .cancel_fd = -1, .keep_output = true};
        struct result *r = NULL;
        gb_error err = {0};

        if (session_run(session, &request, &r, &err) < 0)
                fail_msg("%s", err.message);
        return r;
}

/* An amount that the backend does not count, or cannot read at the end, has no number. */
static void test_unknown_amounts(void **state)
{
        _cleanup_result_ struct result *uncounted = run_once("0");
        assert_false(uncounted->facts.known.cpu || uncounted->facts.known.memory || uncounted->facts.known.pids);
        assert_true(uncounted->facts.known.wall && uncounted->facts.known.disk && uncounted->setup_known &&
                !uncounted->facts.counters_lost);

        fake.usage = counted;
        _cleanup_result_ struct result *good = run_once("0");
        assert_true(good->facts.known.cpu && good->facts.known.memory && good->facts.known.pids &&
                good->facts.memory_peak_bytes == 6);
        fake.usage_left = 2; /* before the run, not after it */
        _cleanup_result_ struct result *r = run_once("3");
        assert_int_equal(r->verdict.kind, VERDICT_ERROR);
        assert_false(r->facts.known.cpu || r->facts.known.memory || r->facts.known.pids);
        assert_true(r->facts.counters_lost && r->facts.known.wall);

        /* Whether memory was the reason cannot be said. */
        open_context(&python);
        fake.usage_left = 2;
        _cleanup_result_ struct result *killed = run("kill 9");
        assert_int_equal(killed->verdict.kind, VERDICT_LOST);
        assert_non_null(strstr(killed->verdict.message, "whether a limit did it"));
        fake.usage_left = 2;
        fake.stop_on_exit = BOX_STOP_MEMORY; /* the backend knows */
        _cleanup_result_ struct result *memory = run("kill 9");
        assert_int_equal(memory->verdict.kind, VERDICT_MEMORY);
        assert_false(memory->verdict.peak_known);
}

/* A workspace on the host is measured by us, and it is the session's: it stays full until something is removed. */
static void test_host_workspace(void **state)
{
        char dir[] = "/tmp/glovebox-test-workspace-XXXXXX", code[64];
        struct session *other = NULL;
        gb_error err = {0};

        assert_non_null(mkdtemp(dir));
        policy->disk_limit_bytes = 1 * MIB;
        policy->timeout_usec = 10000000;
        fake.workspace_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct session_options options = {.backend = &fake_backend, .policy = policy, .workspace = dir};
        session_close(session);
        session = NULL;
        if (session_open(&options, &other, &err) < 0)
                fail_msg("%s", err.message);
        session = other;
        open_context(&python);
        expect("out x", VERDICT_OK, true);
        snprintf(code, sizeof(code), "fill %s/a\nsleep 8000", dir);
        _cleanup_result_ struct result *r = run(code);
        assert_int_equal(r->verdict.kind, VERDICT_DISK);
        assert_true(!r->state_kept && r->facts.wall_usec < 7000000 && r->facts.disk_peak_bytes > 1 * MIB);
        assert_int_equal(session_file_remove(session, "a", &err), 0);
        /* A run that is over before anybody looked; on a busy machine somebody may look all the same. */
        snprintf(code, sizeof(code), "fill %s/a", dir);
        bool kept = false;
        for (int i = 0; i < 20 && !kept; i++) {
                _cleanup_result_ struct result *quick = run(code);
                assert_int_equal(quick->verdict.kind, VERDICT_DISK);
                assert_int_equal(session_file_remove(session, "/sandbox/a", &err), 0);
                kept = quick->state_kept;
        }
        assert_true(kept);
        assert_int_equal(session_file_write(session, "b", "x", 1, 0600, &err), 0);
        expect("out x", VERDICT_OK, true);
        assert_int_equal(session_file_remove(session, "b", &err), 0);
        close(fake.workspace_fd);
        assert_int_equal(rmdir(dir), 0);
}

static void test_lost(void **state)
{
        gb_error err = {0};
        struct seen seen = {0};
        struct context_request request = request_of("out x", &seen);
        struct result *none = NULL;

        open_context(&python);
        expect("out x", VERDICT_OK, true);
        fake.lose = true;
        expect("exit 1", VERDICT_LOST, false);
        fake.lose = false;
        expect("out x", VERDICT_OK, true);
        /* The session itself ends. */
        fake_end_session();
        expect("sleep 60000", VERDICT_LOST, false);
        assert_int_equal(context_run(context, &request, &none, &err), -ESRCH);
        assert_int_equal(err.code, GB_E_LOST);
}

static void test_once(void **state)
{
        static const struct {
                const char *code;
                enum verdict_kind kind;
                struct ending ending;
                const char *out;
        } rows[] = {
                {"0", VERDICT_OK, {ENDING_EXIT, 0}, ""},
                {"3", VERDICT_ERROR, {ENDING_EXIT, 3}, ""},
                {"0 cat", VERDICT_OK, {ENDING_EXIT, 0}, "hello"},
                {"hang", VERDICT_TIMEOUT, {ENDING_SIGNAL, SIGKILL}, ""},
                {"flood", VERDICT_OUTPUT, {ENDING_SIGNAL, SIGKILL}, NULL},
        };
        struct seen seen = {0};

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct once_request request = {
                        .language = &plain_c, .code = rows[i].code, .code_size = strlen(rows[i].code), .stdin_fd = file_with("hello", 5),
                        .cancel_fd = -1, .keep_output = true, .callbacks = seen_callbacks,
                };
                request.callbacks.data = &seen;
                _cleanup_result_ struct result *r = NULL;
                gb_error err = {0};
                memset(&seen, 0, sizeof(seen));
                policy->timeout_usec = rows[i].kind == VERDICT_TIMEOUT ? SHORT_USEC : 10000000;
                if (session_run(session, &request, &r, &err) < 0)
                        fail_msg("%s", err.message);
                if (r->verdict.kind != rows[i].kind ||
                    memcmp(&r->facts.ending, &rows[i].ending, sizeof(rows[i].ending)) != 0)
                        fail_msg("\"%s\": %s, %u %u", rows[i].code, r->verdict.message, r->facts.ending.kind,
                                 r->facts.ending.value);
                if (rows[i].out)
                        assert_string_equal(r->out.data ? r->out.data : "", rows[i].out);
                assert_ptr_equal(strstr(seen.text, "started;"), seen.text);
                assert_string_equal(r->session, session_id(session));
                assert_string_equal(r->context, "");
                close(request.stdin_fd);
        }
}

/* Without somebody who reads it no code is run, and nothing of ours is touched for it. */
static void test_no_reader(void **state)
{
        struct once_request request = {.language = &python, .code = "1", .code_size = 1, .stdin_fd = -1, .cancel_fd = -1};
        struct seen seen = {0};
        struct context_request in_context = request_of("1", &seen);
        const char *before = getenv("GLOVEBOX_LIBEXEC_DIR");
        _cleanup_free_ char *kept = before ? strdup(before) : NULL;
        struct result *r = NULL;
        gb_error err = {0};

        open_context(&python);
        reader_forget();
        (void)setenv("GLOVEBOX_LIBEXEC_DIR", "/nowhere", 1);
        for (int i = 0; i < 2; i++) {
                assert_true(session_run(session, &request, &r, &err) < 0);
                assert_non_null(strstr(err.message, "glovebox-reader"));
                assert_true(context_run(context, &in_context, &r, &err) < 0);
                assert_non_null(strstr(err.message, "glovebox-reader"));
                assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
        }
        assert_null(r);
        assert_string_equal(seen.text, "");
        if (kept)
                (void)setenv("GLOVEBOX_LIBEXEC_DIR", kept, 1);
        else
                (void)unsetenv("GLOVEBOX_LIBEXEC_DIR");
        expect("1", VERDICT_OK, true); /* the context is as it was */
}

static void test_refused(void **state)
{
        struct session *other = NULL;
        gb_error err = {0};
        struct template t = {.name = (char *)"data", .rootfs = (char *)"/image"};
        struct session_options options = {.backend = &fake_backend, .policy = policy, .template = &t, .rootfs = "/other"};

        assert_int_equal(session_open(&options, &other, &err), -EINVAL);
        assert_non_null(strstr(err.message, "another image"));
        struct backend none = {.name = "none"};
        options = (struct session_options){.backend = &none, .policy = policy};
        assert_int_equal(session_open(&options, &other, &err), -ENOSYS);
        options = (struct session_options){.backend = &fake_backend, .policy = policy, .workspace = "/nonexistent/workspace"};
        assert_int_equal(session_open(&options, &other, &err), -ENOENT);
        assert_null(other);
}

/* The real runner; the build needs an interpreter, too. */
static void test_python(void **state)
{
        assert_int_equal(access(PYTHON_RUNNER, R_OK), 0);
        fake.greeting = GREET_PYTHON;
        policy->timeout_usec = 20000000;
        open_context(&python);
        expect("x = 20", VERDICT_OK, true);
        _cleanup_result_ struct result *r = run("print('hi')\nx + 22");
        assert_string_equal(r->out.data, "hi\n");
        assert_int_equal(r->n_values, 1);
        assert_true(r->values[0]->main);
        assert_string_equal(r->values[0]->parts[0].bytes, "42");
        _cleanup_result_ struct result *wrong = run("y = x\n1 / 0");
        assert_int_equal(wrong->verdict.kind, VERDICT_ERROR);
        assert_string_equal(wrong->error.name.bytes, "ZeroDivisionError");
        struct seen seen = {0};
        struct context_request request = request_of("import sys; print(sys.stdin.read() * 2)", &seen);
        request.stdin_fd = file_with("ab", 2);
        _cleanup_result_ struct result *input = run_request(&request);
        assert_string_equal(input->out.data, "abab\n");
        close(request.stdin_fd);
        policy->timeout_usec = 300000;
        expect("while True: pass", VERDICT_TIMEOUT, true);
        policy->timeout_usec = 20000000;
        _cleanup_result_ struct result *kept = run("y");
        assert_string_equal(kept->values[0]->parts[0].bytes, "20");
        _cleanup_result_ struct result *left = run("import os; os._exit(3)");
        assert_true(left->verdict.kind == VERDICT_ERROR && ending_is_exit(&left->facts.ending) &&
                    left->facts.ending.value == 3 && !left->state_kept);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_events_in_order), TEST(test_many_runs), TEST(test_code_is_text), TEST(test_death_between_runs),
                TEST(test_deadline_is_disarmed), TEST(test_interrupt), TEST(test_cancel_fd), TEST(test_cancelled_at_once),
                TEST(test_busy), TEST(test_threads), TEST(test_restart), TEST(test_too_many_contexts), TEST(test_stdin),
                TEST(test_output_between_runs), TEST(test_limits_of_the_session), TEST(test_unknown_amounts),
                TEST(test_host_workspace), TEST(test_lost), TEST(test_once), TEST(test_no_reader),
                TEST(test_refused), TEST(test_python),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
