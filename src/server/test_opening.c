/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns: so many at a time, in the order they came, and none for a crowd when others wait. */
#include "server/opening.h"

#include "base/limits.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <unistd.h>

#include <cmocka.h>

#define WAITERS 6

struct waiter {
        struct openings *o;
        const char *tenant;
        struct opening turn;
        pthread_t thread;
        _Atomic int place; /* in which the turn came; 0: not yet */
};

static _Atomic int places;

static void *wait_for_turn(void *data)
{
        struct waiter *w = data;
        gb_error err = {0};

        if (opening_begin(w->o, &w->turn, w->tenant, &err) < 0)
                return w;
        w->place = ++places;
        return NULL;
}

/* Started one after the other, and each is in the queue before the next: it takes a while to get there. */
static void start(struct waiter *w, struct openings *o, const char *tenant)
{
        *w = (struct waiter){.o = o, .tenant = tenant};
        assert_int_equal(pthread_create(&w->thread, NULL, wait_for_turn, w), 0);
        for (int i = 0; i < 10000 && !*(const char *volatile *)&w->turn.tenant; i++)
                usleep(1000);
        usleep(20000);
}

static void expect_place(struct waiter *w, int place)
{
        for (int i = 0; i < 10000 && w->place == 0; i++)
                usleep(1000);
        assert_int_equal(w->place, place);
}

static void test_turns(void **state)
{
        struct openings *o = NULL;
        struct opening first[2];
        struct waiter w[WAITERS];
        gb_error err = {0};
        void *failed;

        places = 0;
        assert_int_equal(openings_new(2, &o, &err), 0);
        assert_int_equal(opening_begin(o, &first[0], "crowd", &err), 0);
        assert_int_equal(opening_begin(o, &first[1], "crowd", &err), 0);
        /* Four of the crowd wait; the two of others came last. */
        for (int i = 0; i < WAITERS; i++)
                start(&w[i], o, i < 4 ? "crowd" : i == 4 ? "one" : "other");
        for (int i = 0; i < WAITERS; i++)
                assert_int_equal(w[i].place, 0);
        opening_end(o, &first[0]); /* the crowd still has one: others have none */
        expect_place(&w[4], 1);
        opening_end(o, &w[4].turn);
        expect_place(&w[5], 2);
        opening_end(o, &first[1]);
        expect_place(&w[0], 3);
        for (int i = 1; i < 4; i++) {
                opening_end(o, &w[i - 1].turn);
                expect_place(&w[i], 3 + i);
        }
        opening_end(o, &w[3].turn);
        opening_end(o, &w[5].turn);
        for (int i = 0; i < WAITERS; i++) {
                pthread_join(w[i].thread, &failed);
                assert_null(failed);
        }
        assert_int_equal(opening_begin(o, &first[0], "one", &err), 0); /* nothing is left behind */
        assert_int_equal(opening_begin(o, &first[1], "one", &err), 0);
        opening_end(o, &first[0]);
        opening_end(o, &first[1]);
        openings_free(o);
}

#define HAMMERS 16
#define HAMMER_TURNS 500

static _Atomic int at_once;

static void *hammer(void *data)
{
        struct waiter *w = data;
        gb_error err = {0};

        for (int i = 0; i < HAMMER_TURNS; i++) {
                struct opening turn;
                if (opening_begin(w->o, &turn, w->tenant, &err) < 0 || ++at_once > 3)
                        return w;
                at_once--;
                opening_end(w->o, &turn);
        }
        return NULL;
}

static void test_many(void **state)
{
        struct waiter w[HAMMERS];
        struct openings *o = NULL;
        gb_error err = {0};
        void *failed;

        assert_int_equal(openings_new(3, &o, &err), 0);
        for (int i = 0; i < HAMMERS; i++) {
                w[i] = (struct waiter){.o = o, .tenant = i % 2 ? "a" : "b"};
                assert_int_equal(pthread_create(&w[i].thread, NULL, hammer, &w[i]), 0);
        }
        for (int i = 0; i < HAMMERS; i++) {
                pthread_join(w[i].thread, &failed);
                assert_null(failed);
        }
        openings_free(o);
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_turns), cmocka_unit_test(test_many)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
