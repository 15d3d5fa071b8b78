/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors of the host under a run of test_context_backend.c: none of them becomes an end of input or output, a count or
 * a status. */
#include "base/fd.h"
#include "engine/claims.h"
#include "engine/inlet.h"
#include "engine/network.h"
#include "engine/pump.h"
#include "engine/run.h"
#include "engine/test_context_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- faults ---- */

/* of all reads of a descriptor after the first whose data ends with "!", wherever else that comes; 0: none. Programs of
 * the test are forks of it: their reads never fail. */
static int bad_read_errno;
static pid_t reader;
static int bad_fd = -1;
static int failing = -1; /* allocations until one fails; -1: none does */

static bool fails(void)
{
        return failing >= 0 && failing-- == 0;
}

ssize_t __real_read(int fd, void *bytes, size_t size);
ssize_t __wrap_read(int fd, void *bytes, size_t size);
ssize_t __wrap_read(int fd, void *bytes, size_t size)
{
        if (getpid() != reader)
                return __real_read(fd, bytes, size);
        if (bad_fd >= 0 && fd == bad_fd) {
                errno = bad_read_errno;
                return -1;
        }
        ssize_t n = __real_read(fd, bytes, size);
        if (bad_read_errno != 0 && bad_fd < 0 && n > 0 && ((char *)bytes)[n - 1] == '!')
                bad_fd = fd;
        return n;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
        return fails() ? NULL : __real_malloc(size);
}

void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size)
{
        return fails() ? NULL : __real_realloc(p, size);
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
        return fails() ? NULL : __real_calloc(n, size);
}

static int open_faults(void **state)
{
        reader = getpid();
        bad_read_errno = 0;
        bad_fd = failing = -1;
        return open_all(state);
}

static int close_faults(void **state)
{
        bad_read_errno = 0;
        bad_fd = failing = -1;
        return close_all(state);
}

/* ---- output and input ---- */

static struct result *run_once(const char *code, int stdin_fd, int cancel_fd)
{
        struct once_request request = {
                .language = &plain_c, .code = code, .code_size = strlen(code), .stdin_fd = stdin_fd,
                .cancel_fd = cancel_fd, .keep_output = true,
        };
        struct result *r = NULL;
        gb_error err = {0};

        if (session_run(session, &request, &r, &err) < 0)
                fail_msg("%s", err.message);
        return r;
}

static void expect_lost(const struct result *r, const char *reason)
{
        assert_int_equal(r->verdict.kind, VERDICT_LOST);
        if (!strstr(r->verdict.message, reason))
                fail_msg("%s", r->verdict.message);
}

static void test_output_that_cannot_be_read(void **state)
{
        open_context(&python);
        bad_read_errno = EIO;
        _cleanup_result_ struct result *r = run("out a!\nsleep 5000\nout b");
        expect_lost(r, "its output could not be read: Input/output error");
        assert_string_equal(r->out.data, "a!");
}

/* The program does not see an end of input that is none. */
static void test_input_that_cannot_be_read(void **state)
{
        _cleanup_close_ int fd = file_with("some input!", 11);

        bad_read_errno = EIO;
        _cleanup_result_ struct result *r = run_once("cat", fd, -1);
        expect_lost(r, "standard input could not be read to its end: Input/output error");
}

static void test_input_for_a_runner_that_gets_it_whole(void **state)
{
        _cleanup_close_ int fd = file_with("some input!", 11);
        _cleanup_close_ int directory = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct seen seen = {0};
        struct context_request request = request_of("stdin", &seen);
        struct result *r = NULL;
        gb_error err = {0};

        open_context(&bash);
        request.stdin_fd = fd;
        bad_read_errno = EIO;
        assert_true(context_run(context, &request, &r, &err) < 0);
        assert_string_equal(err.message, "standard input cannot be read: Input/output error");
        bad_read_errno = 0;
        bad_fd = -1;
        request.stdin_fd = directory;
        assert_true(context_run(context, &request, &r, &err) < 0);
        assert_string_equal(err.message, "standard input cannot be read: Is a directory");
        assert_string_equal(seen.text, ""); /* nothing was run */
        expect("out x", VERDICT_OK, true);
}

static void test_input_of_a_wrong_kind(void **state)
{
        _cleanup_close_ int directory = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_close_ int writable = open("/dev/null", O_WRONLY | O_CLOEXEC);
        const struct {
                int fd;
                const char *says;
        } rows[] = {
                {directory, "standard input cannot be read: it is a directory"},
                {writable, "standard input cannot be read: it is not open for reading"},
        };

        open_context(&python);
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct once_request once = {.language = &plain_c, .code = "cat", .code_size = 3,
                        .stdin_fd = rows[i].fd, .cancel_fd = -1};
                struct seen seen = {0};
                struct context_request request = request_of("stdin", &seen);
                struct result *r = NULL;
                gb_error err = {0};
                assert_true(session_run(session, &once, &r, &err) < 0);
                assert_string_equal(err.message, rows[i].says);
                assert_int_equal(err.code, GB_E_USAGE);
                request.stdin_fd = rows[i].fd;
                assert_true(context_run(context, &request, &r, &err) < 0);
                assert_string_equal(err.message, rows[i].says);
        }
        expect("out x", VERDICT_OK, true);
}

static int refuse_to_see(void *data, const void *bytes, size_t size)
{
        return -ENOMEM;
}

static void note_errno(void *data, int errnum)
{
        *(int *)data = errnum;
}

/* Input that could not be examined is not handed on, and the pipe does not end. */
static void test_input_that_cannot_be_looked_at(void **state)
{
        int source[2], child = -1, errnum = 0;
        char byte;
        short events;

        assert_int_equal(pipe2(source, O_CLOEXEC), 0);
        struct pump p = PUMP_INIT;
        p.seen = refuse_to_see;
        p.failed = note_errno;
        p.failed_data = &errnum;
        assert_int_equal(pump_open(&p, source[0], &child), 0);
        assert_int_equal(fd_set_nonblock(child), 0);
        assert_int_equal(write(source[1], "x", 1), 1);
        pump_step(&p);
        assert_int_equal(errnum, ENOMEM);
        assert_int_equal(pump_wait_for(&p, &events), -1);
        assert_int_equal(read(child, &byte, 1), -1);
        assert_int_equal(errno, EAGAIN);
        pump_done(&p);
        close(child);
        close(source[0]);
        close(source[1]);
}

static void test_inlet_without_memory(void **state)
{
        static const char key[] = "ghp_" "pPJcL1IC0StCAz8XQulao70Wm8JgYJ3aecfH";
        struct inlet i = {0};
        struct watch *w = NULL;
        gb_error err = {0};
        int seen = 0;

        policy->scrub = WATCH_STRICT;
        assert_int_equal(watch_open(policy, &w, &err), 0);
        _cleanup_result_ struct result *r = result_new(policy, &python, "fake", false);
        i.watch = w;
        failing = 0;
        assert_int_equal(inlet_see(&i, key, strlen(key)), -ENOMEM);
        failing = -1;
        seen = inlet_see(&i, "more", 4);
        assert_int_equal(seen, -ENOMEM);
        assert_int_equal(inlet_end(&i, r), -ENOMEM);
        inlet_done(&i);
        watch_close(w);
}

/* ---- frames ---- */

/* A lack of memory is not blamed on the policy, and does not hide an exception. */
static void test_frames_without_memory(void **state)
{
        static const char value[] = "text/plain 2\n42", error[] = "name 1\nEvalue 1\nvtraceback 1\nt";
        const struct frame frames[] = {
                {.kind = 'R', .size = strlen(value), .payload = value},
                {.kind = 'X', .size = strlen(error), .payload = error},
        };

        for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
                struct session_callbacks callbacks = {0};
                _cleanup_result_ struct result *r = result_new(policy, &python, "fake", false);
                struct claims c = {.result = r, .policy = policy, .callbacks = &callbacks};
                failing = 0;
                const char *rule = claims_take(&c, &frames[i]);
                failing = -1;
                assert_ptr_equal(rule, claims_no_memory);
                assert_int_equal(r->values_dropped, 0);
        }
}

/* ---- ends ---- */

/* Its output stays when the backend is lost. */
static void test_output_of_a_lost_program(void **state)
{
        open_context(&python);
        fake.lose_after_exit = true;
        _cleanup_result_ struct result *r = run("out printed\nexit 0");
        expect_lost(r, "the warden is gone");
        assert_string_equal(r->out.data, "printed");
        assert_false(r->facts.known.wall);
}

static int late_cancel = -1;

/* While our side sleeps the code ends, and then somebody cancels it. */
static void cancel_when_it_is_over(void *data, enum run_stream stream, const void *bytes, size_t size, uint64_t t_usec)
{
        uint64_t one = 1;

        usleep(1000000);
        (void)!write(late_cancel, &one, sizeof(one));
}

static void test_an_end_comes_before_a_cancel(void **state)
{
        struct seen seen = {0};

        late_cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        struct context_request request = request_of("out x", &seen);
        request.callbacks.output = cancel_when_it_is_over;
        request.cancel_fd = late_cancel;
        open_context(&python);
        _cleanup_result_ struct result *r = run_request(&request);
        assert_int_equal(r->verdict.kind, VERDICT_OK);
        /* and a program that has ended */
        uint64_t count;
        (void)!read(late_cancel, &count, sizeof(count));
        struct once_request once = {
                .language = &plain_c, .code = "say", .code_size = 3, .stdin_fd = -1, .cancel_fd = late_cancel,
                .callbacks = {.output = cancel_when_it_is_over},
        };
        struct result *ended = NULL;
        gb_error err = {0};
        assert_int_equal(session_run(session, &once, &ended, &err), 0);
        assert_int_equal(ended->verdict.kind, VERDICT_OK);
        result_free(ended);
        close(late_cancel);
}

static void sleep_long(void *data, enum run_stream stream, const void *bytes, size_t size, uint64_t t_usec)
{
        usleep(600000);
}

/* The same for the time limit of 400 ms: the code took none of it. */
static void test_an_end_comes_before_a_timeout(void **state)
{
        struct seen seen = {0};
        struct context_request request = request_of("out x\nbig 200000", &seen);

        request.callbacks.output = sleep_long;
        open_context(&python);
        expect("out up", VERDICT_OK, true);
        policy->timeout_usec = SHORT_USEC;
        _cleanup_result_ struct result *r = run_request(&request);
        assert_int_equal(r->verdict.kind, VERDICT_OK);
}

/* A limit that cannot be looked at ends the run. */
static void test_processor_time_that_cannot_be_read(void **state)
{
        open_context(&python);
        policy->timeout_usec = 10000000;
        policy->cpu_time_usec = 15000;
        fake.usage_left = 2;
        _cleanup_result_ struct result *r = run("sleep 60000");
        expect_lost(r, "its processor time, which has a limit, could not be read");
}

#define FAULT_TEST(f) cmocka_unit_test_setup_teardown(f, open_faults, close_faults)

int main(void)
{
        const struct CMUnitTest tests[] = {
                FAULT_TEST(test_output_that_cannot_be_read), FAULT_TEST(test_input_that_cannot_be_read),
                FAULT_TEST(test_input_for_a_runner_that_gets_it_whole),
                FAULT_TEST(test_input_of_a_wrong_kind), FAULT_TEST(test_input_that_cannot_be_looked_at),
                FAULT_TEST(test_inlet_without_memory),
                FAULT_TEST(test_frames_without_memory), FAULT_TEST(test_output_of_a_lost_program),
                FAULT_TEST(test_an_end_comes_before_a_cancel),
                FAULT_TEST(test_an_end_comes_before_a_timeout), FAULT_TEST(test_processor_time_that_cannot_be_read),
        };

        return cmocka_run_group_tests_name("engine/faults", tests, NULL, NULL);
}
