/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/left.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct box_usage seen;
static int answer;
static unsigned asked;

static int usage(struct backend_session *box, struct box_usage *ret, gb_error *err)
{
        *ret = seen;
        return 0;
}

static int clear(struct backend_session *box, unsigned *ret_ended, gb_error *err)
{
        asked++;
        *ret_ended = 5;
        return answer;
}

static const struct backend backend = {.name = "test", .session_usage = usage, .session_clear = clear};
static const struct policy policy = {.pids_limit = 8};

/* A run of the only context, beside init: at its end the task limit has been reached. */
static void explode(struct session *s, struct result *result, bool *ret_bombed)
{
        struct exec x = {.session = s, .result = result};

        seen = (struct box_usage){.pids = 2, .pids_known = true};
        x.before = seen;
        left_begin(&x);
        seen = (struct box_usage){.pids = 8, .pids_known = true, .pids_refused = 3};
        struct box_usage now = seen;
        left_end(&x, &now);
        atomic_fetch_sub(&s->n_running, 1);
        *ret_bombed = x.bombed;
}

#define SESSION {.backend = &backend, .policy = &policy, .n_contexts = 1, .backend_lock = PTHREAD_MUTEX_INITIALIZER, .contexts_lock = PTHREAD_MUTEX_INITIALIZER}

static void test_a_bomb_is_ended(void **state)
{
        struct session s = SESSION;
        struct result result = {0};
        bool bombed;

        asked = answer = 0;
        explode(&s, &result, &bombed);
        assert_true(bombed);
        assert_int_equal(asked, 1);
        assert_int_equal(atomic_load(&s.bombs), 1);
        assert_int_equal(result.facts.tasks_ended, 5);
        assert_false(result.facts.tasks_unended);
}

/* A bomb that goes on is not reported as ended, and output is not thrown away for it. */
static void test_a_bomb_that_cannot_be_ended(void **state)
{
        struct session s = SESSION;
        struct result result = {0};
        bool bombed;

        asked = 0;
        answer = -EBUSY;
        explode(&s, &result, &bombed);
        assert_false(bombed);
        assert_true(asked > 1); /* tried again */
        assert_int_equal(atomic_load(&s.bombs), 0);
        assert_int_equal(result.facts.tasks_ended, 0);
        assert_true(result.facts.tasks_unended);
}

static void test_what_others_run_is_left_alone(void **state)
{
        struct session s = SESSION;
        struct result result = {0};
        bool bombed;

        asked = answer = 0;
        atomic_store(&s.n_running, 1);
        explode(&s, &result, &bombed);
        assert_false(bombed);
        assert_int_equal(asked, 0);
}

/* A surviving process writes as fast as it is read. Only output from before the run is dropped. */
static void test_dropping_output_ends(void **state)
{
        static char page[4096];
        struct program_io io = {.out = -1, .err = -1};
        _cleanup_chunk_ struct chunk chunk = {0};
        struct exec x = {.io = &io, .chunk = &chunk};
        int out[2], held = 0;

        assert_int_equal(chunk_init(&chunk), 0);
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        assert_int_equal(fcntl(out[0], F_SETFL, O_NONBLOCK), 0); /* the front's end only */
        io.out = out[0];
        pid_t writer = fork();
        assert_true(writer >= 0);
        if (writer == 0) {
                for (;;)
                        if (write(out[1], page, sizeof(page)) < 0)
                                _exit(1);
        }
        while (held < 16 * 4096)
                assert_int_equal(ioctl(out[0], FIONREAD, &held), 0);
        alarm(20); /* ends a test that never returns */
        for (int i = 0; i < 100; i++)
                exec_drop_outputs(&x);
        alarm(0);
        kill(writer, SIGKILL);
        assert_int_equal(waitpid(writer, NULL, 0), writer);
        exec_drop_outputs(&x);
        assert_int_equal(ioctl(out[0], FIONREAD, &held), 0);
        assert_int_equal(held, 0);
        close(out[0]);
        close(out[1]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_bomb_is_ended), cmocka_unit_test(test_a_bomb_that_cannot_be_ended), cmocka_unit_test(test_what_others_run_is_left_alone),
                cmocka_unit_test(test_dropping_output_ends),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
