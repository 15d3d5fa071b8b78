/* SPDX-License-Identifier: Apache-2.0
 *
 * Interpreters that keep no rule of the control channel, over test_context_backend.c. Whatever one does, the run ends
 * within its bounds and with the right verdict, and what is said about the state is true. */
#include "base/fd.h"
#include "engine/test_context_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a hostile interpreter may send. All of these end at once, or at the time that stands there. */
struct hostile_case {
        const char *code;
        enum verdict_kind kind;
        bool kept;
        const char *says;
        unsigned msec; /* at most; 0: at once */
};

static const struct hostile_case hostile[] = {
        {"done ok", VERDICT_OK, true, "ended well", 0}, /* and D once more */
        {"raw R %S 0\\nR %S 0\\n", VERDICT_ERROR, false, "two results", 0},
        {"raw D 999 11\\nstatus 2\\nok\nquiet", VERDICT_ERROR, false, "yet to come", 0},
        {"raw D 0 11\\nstatus 2\\nok", VERDICT_OK, true, "ended well", 0},
        {"raw Y 0 0\\n", VERDICT_OK, true, "ended well", 0},
        {"raw Z %S 0\\n", VERDICT_ERROR, false, "unknown kind", 0},
        {"raw E %S 0\\n", VERDICT_ERROR, false, "unknown kind", 0},
        {"raw Z 0 0\\n", VERDICT_ERROR, false, "unknown kind", 0},
        {"raw D %S 12\\nstatus 3\\nyes", VERDICT_ERROR, false, "without a status", 0},
        {"raw D %S 0\\n", VERDICT_ERROR, false, "without a status", 0},
        {"raw D %S 24\\nstatus 5\\nerrorexit 3\\n256", VERDICT_ERROR, false, "exit status that no process can have", 0},
        {"raw D %S 23\\nstatus 5\\nerrorexit 2\\n-1", VERDICT_ERROR, false, "exit status that no process can have", 0},
        {"raw D %S 19\\nstatus 2\\nokexit 1\\n3", VERDICT_ERROR, false, "says something else", 0},
        {"raw D %S 22\\nstatus 5\\nerrorexit 1\\n0", VERDICT_ERROR, false, "says something else", 0},
        {"raw D %S 21\\nstatus 5\\nerrorexit 0\\n", VERDICT_ERROR, false, "exit status that no process can have", 0},
        {"raw D %S 13\\nstatus 3\\nok\\0", VERDICT_ERROR, false, "malformed payload", 0},
        {"raw P %S 4\\nabcd", VERDICT_ERROR, false, "malformed payload", 0},
        {"raw X %S 11\\nname 99\\nabc", VERDICT_ERROR, false, "malformed payload", 0},
        {"raw P %S 4294967296\\n", VERDICT_ERROR, false, "too large", 0},
        {"raw P %S 16777217\\n", VERDICT_ERROR, false, "too large", 0},
        {"raw Traceback (most recent call last):\\n", VERDICT_ERROR, false, "malformed frame", 0},
        {"raw {\"status\":\"ok\"}\\n", VERDICT_ERROR, false, "malformed frame", 0},
        {"raw \\0\\0\\0\\0\\n", VERDICT_ERROR, false, "malformed frame", 0},
        {"raw D %S\\n", VERDICT_ERROR, false, "malformed frame", 0},
        {"flood garbage", VERDICT_ERROR, false, "malformed frame", 0},
        {"close\nsleep 60000", VERDICT_ERROR, false, "it was closed", 0},
        {"raw P %S 1000\\nabc\nclose\nsleep 60000", VERDICT_ERROR, false, "it was closed", 0},
        /* After the end of the run, in the same breath. */
        {"raw D %S 11\\nstatus 2\\nokP %S 0\\n\nquiet", VERDICT_OK, true, "ended well", 0},
        {"raw D %S 11\\nstatus 2\\nokGARBAGE AND MORE OF IT\\n\nquiet", VERDICT_ERROR, false, "malformed frame", 0},
        /* Ends of the process win over whatever was said. */
        {"exit 3", VERDICT_ERROR, false, "exited with status 3", 0},
        {"exit 0", VERDICT_OK, false, "The program ended well", 0},
        {"kill 11", VERDICT_ERROR, false, "SIGSEGV", 0},
        {"kill 9", VERDICT_ERROR, false, "SIGKILL (killed from inside", 0},
        {"raw P %S 1000\\nabc\nexit 4", VERDICT_ERROR, false, "exited with status 4", 0},
        {"raw D %S\nkill 9", VERDICT_ERROR, false, "SIGKILL", 0},
        /* Nothing comes: the time limit, and an interrupt that is obeyed. */
        {"sleep 60000", VERDICT_TIMEOUT, true, "time limit", 500},
        {"raw P %S 1000\\nabc\nsleep 60000\nexit 0", VERDICT_TIMEOUT, false, "time limit", 3000},
        {"raw D %S\nsleep 60000\nexit 0", VERDICT_TIMEOUT, false, "time limit", 3000},
        {"flood out", VERDICT_OUTPUT, true, "output limit", 0},
        {"flood frames", VERDICT_ERROR, false, "flood of frames", 3000},
};

static void test_hostile_interpreter(void **state)
{
        for (size_t i = 0; i < ARRAY_SIZE(hostile); i++) {
                const struct hostile_case *c = &hostile[i];
                /* A flood ends by its amount, not by the time. */
                policy->timeout_usec = strcmp(c->code, "flood frames") == 0 ? 60000000 : 30000000;
                open_context(&python);
                expect("out warm", VERDICT_OK, true);
                if (c->kind == VERDICT_TIMEOUT)
                        policy->timeout_usec = SHORT_USEC;
                uint64_t start = monotonic_usec();
                _cleanup_result_ struct result *r = run(c->code);
                uint64_t took = monotonic_usec() - start;
                if (r->verdict.kind != c->kind || r->state_kept != c->kept || !strstr(r->verdict.message, c->says))
                        fail_msg("\"%s\": %s, state %s: %s", c->code, verdict_name(r->verdict.kind), r->state_kept ? "kept" : "lost",
                                 r->verdict.message);
                if (took > (c->msec + 10000) * 1000) /* on a busy machine; the time limit is farther */
                        fail_msg("\"%s\" took %llu ms", c->code, (unsigned long long)took / 1000);
                policy->timeout_usec = 30000000;
                /* Afterwards the context works, and says whether it is the same one. */
                _cleanup_result_ struct result *next = run("out next");
                if (next->verdict.kind != VERDICT_OK || next->state_restarted != !c->kept || strcmp(next->out.data, "next") != 0)
                        fail_msg("after \"%s\": %s, \"%s\"", c->code, next->verdict.message, next->out.data ? next->out.data : "");
                assert_int_equal(context_close(context, NULL), 0);
        }
}

/* Frames of the last run are dropped; a flood of them ends. */
static void test_stale_frames(void **state)
{
        open_context(&python);
        expect("out x", VERDICT_OK, true);
        expect("raw P 1 15\\ntext/plain 2\\n42X 1 0\\nR 1 0\\nR 1 0\\n", VERDICT_OK, true);
        policy->timeout_usec = 60000000;
        _cleanup_result_ struct result *r = run("flood stale");
        assert_non_null(strstr(r->verdict.message, "flood of frames"));
        assert_int_equal(r->n_values, 0);
}

/* Somebody in the box answers a run before it was asked. */
static void test_answer_ahead(void **state)
{
        open_context(&python);
        expect("late", VERDICT_OK, true);
        usleep(1000000);
        _cleanup_result_ struct result *r = run("out never");
        assert_int_equal(r->verdict.kind, VERDICT_ERROR);
        assert_non_null(strstr(r->verdict.message, "yet to come"));
        assert_false(r->state_kept);
        assert_false(r->facts.started);
        expect("out x", VERDICT_OK, true);
}

static void test_result_limits(void **state)
{
        open_context(&python);
        _cleanup_result_ struct result *r = run("big 10\nbig 2000000\nbig 20\nbig 30\nbig 40\nbig 50");
        assert_int_equal(r->verdict.kind, VERDICT_OK);
        assert_int_equal(r->n_values, 4); /* result_count */
        assert_int_equal(r->values_dropped, 2);
        assert_int_equal(r->values[1]->parts[0].size, 20);
        _cleanup_result_ struct result *whole = run("big 1048000\nbig 1000");
        assert_int_equal(whole->n_values, 1); /* result_limit, of all together */
        assert_int_equal(whole->values_dropped, 1);
        policy->timeout_usec = SHORT_USEC;
        _cleanup_result_ struct result *flooded = run("flood results");
        assert_true(flooded->state_kept || flooded->facts.channel_broken);
        assert_true(flooded->n_values <= 4 && flooded->values_dropped > 0);
}

static void test_huge_code(void **state)
{
        size_t size = CODE_BYTES_MAX;
        char *code = malloc(size + 1);

        memset(code, '\n', size + 1);
        memcpy(code, "out big", 7);
        open_context(&python);
        policy->timeout_usec = 20000000;
        struct seen seen = {0};
        struct context_request request = request_of("", &seen);
        request.code = code;
        request.code_size = size;
        _cleanup_result_ struct result *r = run_request(&request);
        assert_string_equal(r->out.data, "big");
        request.code_size = size + 1;
        struct result *none = NULL;
        gb_error err = {0};
        assert_int_equal(context_run(context, &request, &none, &err), -EFBIG);
        assert_int_equal(err.code, GB_E_LIMIT);
        /* An interpreter that does not read is ended by the time limit, in the middle of the code. */
        policy->timeout_usec = 300000;
        assert_int_equal(context_close(context, NULL), 0);
        fake.greeting = GREET_DEAF_READER;
        open_context(&python);
        request.code_size = size;
        _cleanup_result_ struct result *unread = run_request(&request);
        assert_int_equal(unread->verdict.kind, VERDICT_TIMEOUT);
        assert_false(unread->state_kept);
        free(code);
}

static void test_greetings(void **state)
{
        static const struct {
                enum fake_greeting greeting;
                enum verdict_kind kind;
                const char *says;
        } rows[] = {
                {GREET_NEVER, VERDICT_TIMEOUT, "time limit"},
                {GREET_WRONG, VERDICT_ERROR, "before the first"},
                {GREET_AND_DIE, VERDICT_ERROR, "status 5"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                fake.greeting = rows[i].greeting;
                open_context(&python);
                policy->timeout_usec = rows[i].kind == VERDICT_TIMEOUT ? SHORT_USEC : 10000000;
                _cleanup_result_ struct result *r = run("out x");
                policy->timeout_usec = 10000000;
                if (r->verdict.kind != rows[i].kind || !strstr(r->verdict.message, rows[i].says) || r->state_kept || r->facts.started)
                        fail_msg("greeting %d: %s", (int)rows[i].greeting, r->verdict.message);
                fake.greeting = GREET;
                _cleanup_result_ struct result *next = run("out x");
                assert_true(next->verdict.kind == VERDICT_OK && next->state_restarted);
                assert_int_equal(context_close(context, NULL), 0);
        }
}

static void test_deaf_code(void **state)
{
        open_context(&python);
        expect("out up", VERDICT_OK, true);
        policy->timeout_usec = SHORT_USEC;
        uint64_t start = monotonic_usec();
        expect("deaf\nspin", VERDICT_TIMEOUT, false);
        uint64_t took = monotonic_usec() - start;
        assert_in_range(took, SHORT_USEC + INTERRUPT_GRACE_USEC, 20000000);
}

/* When a callback stands still, the backend's clock ends the program. */
static void on_output_slow(void *data, enum run_stream stream, const void *bytes, size_t size, uint64_t t_usec)
{
        struct seen *s = data;

        if (s->n++ == 0)
                usleep(SHORT_USEC + INTERRUPT_GRACE_USEC + DEADLINE_SLACK_USEC + 200000);
}

static void test_slow_reader(void **state)
{
        struct seen seen = {0};

        open_context(&python);
        expect("out up", VERDICT_OK, true);
        policy->timeout_usec = SHORT_USEC;
        struct context_request request = request_of("deaf\nout x\nspin", &seen);
        request.callbacks = (struct session_callbacks){.output = on_output_slow, .data = &seen};
        _cleanup_result_ struct result *r = run_request(&request);
        assert_int_equal(r->verdict.kind, VERDICT_TIMEOUT);
        assert_false(r->state_kept);
        assert_true(r->facts.wall_usec < 20000000);
}

/* Code that does not read, input that does not end, and more than a frame can hold. */
static void test_stdin_bounds(void **state)
{
        struct seen seen = {0};
        struct context_request request = request_of("out x", &seen);
        struct result *none = NULL;
        gb_error err = {0};
        int fds[2];

        policy->timeout_usec = 60000000; /* more than a frame holds is to be read within it, with sanitizers too */
        open_context(&python);
        request.stdin_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
        _cleanup_result_ struct result *r = run_request(&request);
        assert_string_equal(r->out.data, "x");
        open_context(&bash);
        assert_int_equal(context_run(context, &request, &none, &err), -EFBIG);
        assert_int_equal(err.code, GB_E_LIMIT);
        assert_null(none);
        close(request.stdin_fd);
        /* The code waits for the end of its input until the time is over; it was never sent. */
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        request.stdin_fd = fds[0];
        policy->timeout_usec = SHORT_USEC;
        _cleanup_result_ struct result *waiting = run_request(&request);
        policy->timeout_usec = 10000000;
        assert_int_equal(waiting->verdict.kind, VERDICT_TIMEOUT);
        assert_true(waiting->state_kept && !waiting->facts.started && waiting->out.size == 0);
        close(fds[0]);
        close(fds[1]);
        expect("out x", VERDICT_OK, true);
}

static void test_output_limit(void **state)
{
        open_context(&python);
        _cleanup_result_ struct result *r = run("flood out");
        assert_int_equal(r->verdict.kind, VERDICT_OUTPUT);
        assert_true(r->truncated && r->state_kept);
        assert_int_equal(r->out.size, 64 * KIB);
        assert_true(r->facts.output_bytes > 64 * KIB);
        /* The limit is that of one run. */
        expect("out x", VERDICT_OK, true);
        expect("deaf\nflood out", VERDICT_OUTPUT, false);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_hostile_interpreter), TEST(test_stale_frames), TEST(test_answer_ahead), TEST(test_result_limits),
                TEST(test_huge_code), TEST(test_greetings), TEST(test_deaf_code), TEST(test_slow_reader),
                TEST(test_stdin_bounds), TEST(test_output_limit),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
