/* SPDX-License-Identifier: Apache-2.0
 *
 * What a template hands out and when it tries again. The rest of it is processes: tests/escape/test_16*.py and their neighbours. */
#include "warden/template.c" /* NOLINT: its parts are what the test is about */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct template *fresh_template(void)
{
        struct template *t = template_new();

        assert_non_null(t);
        t->state = TEMPLATE_READY;
        t->pool = 1;
        t->fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return t;
}

static void template_free(struct template *t)
{
        forget_spec(t);
        t->state = TEMPLATE_NONE;
}

static void lose(struct template *t, uint32_t slot)
{
        struct box lost = {.slot = slot};

        template_lost_session(t, &lost);
}

/* No two living sessions have the same id, however many there were before. */
static void test_slots(void **state)
{
        struct template *t = fresh_template();

        for (uint32_t slot = 1; slot < TEMPLATE_UIDS_MAX; slot++)
                assert_int_equal(take_slot(t), slot); /* 0 is the template's own */
        lose(t, 777);
        lose(t, 5);
        assert_int_equal(take_slot(t), 5);
        assert_int_equal(take_slot(t), 777);
        /* One that has just become free is the last to be used again. */
        lose(t, 777);
        lose(t, 778);
        assert_int_equal(take_slot(t), 778);
        lose(t, 778);
        assert_int_equal(take_slot(t), 777);
        template_free(t);
}

/* What is made ahead and fails is tried less and less often, until one is of use to somebody. */
static void test_pause(void **state)
{
        struct template *t = fresh_template(), *short_of = NULL;
        struct box made = {.state = BOX_OPEN}, parked = {.state = BOX_OPEN};
        struct program program = {0};
        uint64_t before = 0;

        for (int i = 0; i < 20; i++) {
                t->again_usec = 0; /* as if it were over */
                struct box **place = find_place(&short_of);
                assert_ptr_equal(place, &t->ahead[0]);
                assert_ptr_equal(short_of, t);
                *place = &made;
                assert_int_equal(template_next_usec(), 0);
                template_lost_session(t, &made);
                assert_null(t->ahead[0]);
                assert_true(template_next_usec() > monotonic_usec() && template_next_usec() == t->again_usec);
                assert_true(t->pause_usec >= AHEAD_PAUSE_MIN_USEC && t->pause_usec <= AHEAD_PAUSE_MAX_USEC);
                assert_true(t->pause_usec > before || before == AHEAD_PAUSE_MAX_USEC);
                before = t->pause_usec;
        }
        assert_int_equal(t->pause_usec, AHEAD_PAUSE_MAX_USEC);
        /* The end of one that somebody has is not a failure. */
        t->again_usec = 0;
        parked.parked = &program;
        t->ahead[0] = &parked;
        assert_ptr_equal(template_take(t, &parked.spec), &parked);
        template_lost_session(t, &parked);
        assert_int_equal(template_next_usec(), 1);
        assert_int_equal(t->pause_usec, 0);
        template_free(t);
}

/* Sessions are made ahead like the last one, unless that came with something of its caller's: the socket that its listener goes to, say. */
static void test_remembered(void **state)
{
        struct template *t = fresh_template();
        struct box_spec plain = {.n_fds = 1, .fds = {{.role = BOX_FD_PAYLOAD}}};
        struct box_spec others[] = {
                {.n_fds = 2, .fds = {{.role = BOX_FD_PAYLOAD}, {.role = BOX_FD_LISTENER}}},
                {.n_fds = 2, .fds = {{.role = BOX_FD_PAYLOAD}, {.role = BOX_FD_SOURCE}}},
        };
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC), fds[] = {null, null};

        template_remember(t, &plain, fds);
        assert_memory_equal(&t->spec, &plain, sizeof(plain));
        for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
                template_remember(t, &others[i], fds);
                assert_memory_equal(&t->spec, &plain, sizeof(plain));
                assert_int_equal(t->fds[1], -1);
        }
        safe_close(null);
        template_free(t);
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_slots), cmocka_unit_test(test_pause), cmocka_unit_test(test_remembered)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
