/* SPDX-License-Identifier: Apache-2.0 */
#include "server/admission.h"

#include "base/limits.h"
#include "server/host_memory.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <cmocka.h>

static struct server_config config(uint64_t tenant_sessions, uint64_t all_sessions, uint64_t memory)
{
        return (struct server_config){
                .tenant = {.sessions = tenant_sessions, .runs = 4, .memory_bytes = memory},
                .all = {.sessions = all_sessions, .runs = 6, .memory_bytes = memory},
        };
}

static const struct admission_counts session = {.sessions = 1, .memory_bytes = 100}, run = {.runs = 1};

static void assert_counts(struct admission *a, const char *tenant, uint64_t sessions, uint64_t runs, uint64_t memory)
{
        struct admission_counts now;

        admission_count(a, tenant, &now);
        assert_int_equal(now.sessions, sessions);
        assert_int_equal(now.runs, runs);
        assert_int_equal(now.memory_bytes, memory);
}

static void test_quotas(void **state)
{
        struct server_config c = config(2, 3, UINT64_MAX);
        struct admission *a;
        struct reservation r[4] = {0};
        gb_error err = {0};

        assert_int_equal(admission_new(&c, &a, &err), 0);
        assert_int_equal(admission_take(a, "one", &session, &r[0], &err), 0);
        assert_int_equal(admission_take(a, "one", &session, &r[1], &err), 0);
        assert_true(admission_take(a, "one", &session, &r[2], &err) < 0);
        assert_int_equal(err.code, GB_E_QUOTA);
        assert_int_equal(admission_take(a, "two", &session, &r[2], &err), 0);
        assert_true(admission_take(a, "two", &session, &r[3], &err) < 0);
        assert_int_equal(err.code, GB_E_UNAVAILABLE);
        assert_counts(a, "one", 2, 0, 200);
        assert_counts(a, "two", 1, 0, 100);
        assert_counts(a, NULL, 3, 0, 300);
        assert_counts(a, "three", 0, 0, 0);
        admission_release(&r[0]);
        admission_release(&r[0]); /* holds nothing any more */
        assert_counts(a, NULL, 2, 0, 200);
        assert_int_equal(admission_take(a, "two", &session, &r[3], &err), 0);
        for (size_t i = 0; i < 4; i++)
                admission_release(&r[i]);
        assert_counts(a, NULL, 0, 0, 0);
        admission_free(a);
}

/* A sum never wraps, and what can never be had is told apart from what cannot be had now. */
static void test_memory(void **state)
{
        struct server_config c = config(100, 100, 1000);
        const struct admission_counts too_much = {.memory_bytes = 1001}, endless = {.memory_bytes = UINT64_MAX}, most = {.memory_bytes = 1000};
        struct admission *a;
        struct reservation r[2] = {0};
        gb_error err = {0};

        assert_int_equal(admission_new(&c, &a, &err), 0);
        assert_true(admission_take(a, "one", &too_much, &r[0], &err) < 0);
        assert_int_equal(err.code, GB_E_LIMIT);
        assert_true(admission_take(a, "one", &endless, &r[0], &err) < 0);
        assert_int_equal(err.code, GB_E_LIMIT);
        assert_int_equal(admission_take(a, "one", &most, &r[0], &err), 0);
        assert_true(admission_take(a, "one", &session, &r[1], &err) < 0);
        assert_int_equal(err.code, GB_E_QUOTA);
        /* A run in a session that lives needs no more. */
        assert_int_equal(admission_take(a, "one", &run, &r[1], &err), 0);
        admission_release(&r[0]);
        admission_release(&r[1]);
        c.tenant.memory_bytes = c.all.memory_bytes = UINT64_MAX;
        assert_int_equal(admission_take(a, "one", &endless, &r[0], &err), 0);
        assert_true(admission_take(a, "two", &session, &r[1], &err) < 0);
        admission_release(&r[0]);
        assert_counts(a, NULL, 0, 0, 0);
        /* A host that has less than that. */
        c.free_memory_bytes = UINT64_MAX;
        assert_true(admission_take(a, "one", &session, &r[0], &err) < 0);
        assert_int_equal(err.code, GB_E_UNAVAILABLE);
        admission_free(a);
}

/* Without descriptors it is not known how much memory there is: that is not "any amount". */
static void test_memory_not_seen(void **state)
{
        struct host_memory m;
        struct rlimit before;

        host_memory_init(&m);
        uint64_t seen = host_memory_available(&m);
        assert_true(seen > 0 && seen < UINT64_MAX);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        m.looked_usec = 1; /* long ago */
        uint64_t again = host_memory_available(&m);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(again, seen);
        host_memory_done(&m);
}

static void test_closed(void **state)
{
        struct server_config c = config(10, 10, UINT64_MAX);
        struct admission *a;
        struct reservation r = {0};
        gb_error err = {0};

        assert_int_equal(admission_new(&c, &a, &err), 0);
        admission_close(a);
        assert_true(admission_take(a, "one", &run, &r, &err) < 0);
        assert_int_equal(err.code, GB_E_UNAVAILABLE);
        assert_counts(a, NULL, 0, 0, 0);
        admission_free(a);
}

struct hammer {
        struct admission *a;
        unsigned seed;
        uint64_t granted;
};

static void *hammer(void *data)
{
        static const char *const tenants[] = {"a", "b", "c"};
        struct hammer *h = data;
        struct reservation held[5] = {0};

        for (int i = 0; i < 20000; i++) {
                struct reservation *r = &held[(unsigned)rand_r(&h->seed) % 5];
                if (r->admission)
                        admission_release(r);
                else
                        h->granted += admission_take(h->a, tenants[(unsigned)rand_r(&h->seed) % 3], rand_r(&h->seed) % 2 ? &session : &run, r, NULL) == 0;
                struct admission_counts now;
                admission_count(h->a, NULL, &now);
                if (now.sessions > 7 || now.runs > 6 || now.memory_bytes != now.sessions * 100)
                        h->granted = 0;
        }
        for (size_t i = 0; i < 5; i++)
                admission_release(&held[i]);
        return NULL;
}

static void test_threads(void **state)
{
        struct server_config c = config(4, 7, UINT64_MAX);
        struct hammer hammers[4];
        pthread_t threads[4];
        struct admission *a;

        assert_int_equal(admission_new(&c, &a, NULL), 0);
        for (unsigned i = 0; i < 4; i++) {
                hammers[i] = (struct hammer){.a = a, .seed = i + 1};
                assert_int_equal(pthread_create(&threads[i], NULL, hammer, &hammers[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
                pthread_join(threads[i], NULL);
                assert_true(hammers[i].granted > 0);
        }
        assert_counts(a, NULL, 0, 0, 0);
        assert_counts(a, "a", 0, 0, 0);
        admission_free(a);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_quotas),
                cmocka_unit_test(test_memory),
                cmocka_unit_test(test_memory_not_seen),
                cmocka_unit_test(test_closed),
                cmocka_unit_test(test_threads),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
