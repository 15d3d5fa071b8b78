/* SPDX-License-Identifier: Apache-2.0 */
#include "server/workers.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static _Atomic unsigned began, ended;
static int gate = -1;

static void pass_gate(void *data)
{
        struct pollfd p = {.fd = gate, .events = POLLIN};

        began++;
        poll(&p, 1, 60000);
        ended++;
}

static void add(void *data)
{
        *(_Atomic unsigned *)data += 1;
}

static void wait_for(const _Atomic unsigned *number, unsigned value)
{
        for (int i = 0; i < 12000 && *number < value; i++)
                nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        assert_int_equal(*number, value);
}

static int setup(void **state)
{
        gb_error err = {0};
        struct workers *w;

        began = ended = 0;
        gate = eventfd(0, EFD_CLOEXEC);
        assert_int_equal(workers_new(4, &w, &err), 0);
        *state = w;
        return 0;
}

static int teardown(void **state)
{
        assert_int_equal(write(gate, &(uint64_t){1}, sizeof(uint64_t)), sizeof(uint64_t));
        workers_free(*state);
        assert_int_equal(began, ended); /* it waited for all */
        gate = safe_close(gate);
        return 0;
}

static void test_jobs_beside_requests(void **state)
{
        struct workers *w = *state;
        struct workers_counts counts;

        for (int i = 0; i < 4; i++)
                assert_int_equal(workers_start_request(w, pass_gate, NULL), 0);
        assert_int_equal(workers_start_request(w, pass_gate, NULL), 1);
        /* Requests have all their threads: jobs have as many again, and no more. */
        for (int i = 0; i < 4; i++)
                assert_int_equal(workers_start(w, pass_gate, NULL), 0);
        assert_int_equal(workers_start(w, pass_gate, NULL), -EAGAIN);
        wait_for(&began, 8);
        workers_count(w, &counts);
        assert_int_equal(counts.threads, 8);
        assert_int_equal(counts.busy, 8);
        assert_int_equal(counts.waiting, 1);
        assert_int_equal(write(gate, &(uint64_t){1}, sizeof(uint64_t)), sizeof(uint64_t));
        wait_for(&ended, 9);
}

static void test_queue(void **state)
{
        struct workers *w = *state;
        static int marks[WORKERS_QUEUE_MAX];
        bool more;

        for (int i = 0; i < 4; i++)
                assert_int_equal(workers_start_request(w, pass_gate, NULL), 0);
        wait_for(&began, 4);
        for (int i = 0; i < WORKERS_QUEUE_MAX; i++)
                assert_int_equal(workers_start_request(w, pass_gate, &marks[i]), 1);
        assert_int_equal(workers_start_request(w, pass_gate, NULL), -EAGAIN);
        /* Those that wait longest are given back first. */
        assert_null(workers_take_late(w, 0, &more));
        assert_true(more);
        for (int i = 0; i < WORKERS_QUEUE_MAX / 2; i++)
                assert_ptr_equal(workers_take_late(w, UINT64_MAX, &more), &marks[i]);
        assert_int_equal(workers_start_request(w, pass_gate, NULL), 1);
        assert_int_equal(write(gate, &(uint64_t){1}, sizeof(uint64_t)), sizeof(uint64_t));
        wait_for(&ended, 4 + WORKERS_QUEUE_MAX / 2 + 1);
}

static void test_many_small_ones(void **state)
{
        struct workers *w = *state;
        _Atomic unsigned sum = 0;
        struct workers_counts counts;

        for (unsigned i = 0; i < 100000; i++)
                while (workers_start_request(w, add, &sum) < 0)
                        sched_yield();
        wait_for(&sum, 100000);
        workers_count(w, &counts);
        assert_true(counts.threads <= 4);
}

static void check_signals(void *data)
{
        sigset_t blocked;
        bool all = true;

        pthread_sigmask(SIG_SETMASK, NULL, &blocked);
        for (int i = 1; i < 32; i++)
                all &= i == SIGKILL || i == SIGSTOP || sigismember(&blocked, i) == 1;
        *(_Atomic unsigned *)data = all ? 1 : 2;
}

static void test_signals_are_blocked(void **state)
{
        _Atomic unsigned result = 0;

        assert_int_equal(workers_start(*state, check_signals, (void *)&result), 0);
        wait_for(&result, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {TEST(test_jobs_beside_requests), TEST(test_queue), TEST(test_many_small_ones), TEST(test_signals_are_blocked)};
        return cmocka_run_group_tests(tests, NULL, NULL);
}
