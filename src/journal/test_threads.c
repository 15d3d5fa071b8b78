/* SPDX-License-Identifier: Apache-2.0
 *
 * Many threads at once: no key is used twice, nothing is seen in halves. With the argument "bench": how long each call takes. */
#include "base/limits.h"
#include "journal/state.h"
#include "journal/test_fixture.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RACERS 8
#define RACES 50

struct racer {
        struct journal *j;
        unsigned number;
        unsigned won;
        char ids[RACES][JOURNAL_ID_MAX];
};

static void *race(void *data)
{
        struct racer *r = data;
        char text[16];

        for (unsigned i = 0; i < RACES; i++) {
                struct journal_run run = run_of("a", 1000 * r->number + i);
                gb_error err = {0};
                snprintf(text, sizeof(text), "key %u", i);
                struct journal_key key = {.key = text, .hash = {1}};
                int n = journal_run_begin(r->j, &run, &key, r->ids[i], &err);
                if (n < 0)
                        return err.message[0] ? strdup(err.message) : strdup("?");
                r->won += n == 0;
        }
        return NULL;
}

static void test_one_wins(void **state)
{
        _cleanup_journal_ struct journal *j = open_journal(NULL, NULL);
        static struct racer racers[RACERS];
        pthread_t threads[RACERS];
        unsigned won = 0;

        for (unsigned i = 0; i < RACERS; i++) {
                racers[i] = (struct racer){.j = j, .number = i + 1};
                assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
        }
        for (unsigned i = 0; i < RACERS; i++) {
                void *message = NULL;
                pthread_join(threads[i], &message);
                assert_null(message);
                won += racers[i].won;
        }
        assert_int_equal(won, RACES);
        for (unsigned i = 1; i < RACERS; i++)
                for (unsigned k = 0; k < RACES; k++)
                        assert_string_equal(racers[i].ids[k], racers[0].ids[k]);
}

#define HAMMERS 6
#define HAMMER_RUNS 60

struct hammer {
        struct journal *j;
        unsigned number;
        _Atomic bool *stop;
};

static int sum(void *data, const struct journal_event *event)
{
        uint64_t *next = data;

        if (event->seq != *next)
                return -EBADMSG;
        ++*next;
        return 0;
}

static void *hammer(void *data)
{
        struct hammer *h = data;
        gb_error err = {0};

        for (unsigned i = 0; i < HAMMER_RUNS; i++) {
                struct journal_run run = run_of("a", h->number * 10000 + i);
                char id[JOURNAL_ID_MAX];
                bool ok = journal_run_begin(h->j, &run, NULL, id, &err) == 0;
                for (int k = 0; ok && k < 6; k++)
                        ok = journal_event(h->j, id, k ? JOURNAL_STDOUT : JOURNAL_STARTED, 0, "some output", 11, &err) == k;
                ok = ok && journal_run_end(h->j, id, &(struct journal_end){.verdict = "ok", .event = "{}"}, &err) == 0;
                uint64_t next = 0;
                ok = ok && journal_events(h->j, id, 0, SIZE_MAX, sum, &next, &err) == 7;
                if (!ok)
                        return strdup(err.message);
        }
        return NULL;
}

/* Looks at everything while it changes; what it sees is always whole. */
static void *look(void *data)
{
        struct hammer *h = data;
        gb_error err = {0};

        while (!*h->stop) {
                for (int s = -1; s <= JOURNAL_ENDED; s++) {
                        struct journal_query q = {.tenant = "a", .state = s, .limit = 20};
                        struct journal_run *runs = NULL;
                        size_t n = 0;
                        if (journal_runs(h->j, &q, &runs, &n, NULL, &err) < 0)
                                return strdup(err.message);
                        for (size_t i = 0; i < n; i++) {
                                _cleanup_journal_run_ struct journal_run run = {0};
                                uint64_t next = 0;
                                if (journal_run_get(h->j, "a", runs[i].id, &run, &err) < 0 || journal_events(h->j, run.id, 0, SIZE_MAX, sum, &next, &err) < 0)
                                        return strdup(err.message);
                                if (next < run.next_seq || (run.state == JOURNAL_ENDED) != (run.result != NULL) || run.state < runs[i].state)
                                        return strdup("half of a run was seen");
                        }
                        journal_runs_free(runs, n);
                }
        }
        return NULL;
}

static void *tidy(void *data)
{
        struct hammer *h = data;
        gb_error err = {0};
        struct journal_stats stats;

        while (!*h->stop)
                if (journal_tidy(h->j, &err) < 0 || journal_stats(h->j, &stats, &err) < 0)
                        return strdup(err.message);
        return NULL;
}

static void test_threads(void **state)
{
        struct journal_limits limits = {.runs = 100000, .bytes = 1 << 28, .age_usec = 3600000000};
        _cleanup_journal_ struct journal *j = open_journal(&limits, NULL);
        _Atomic bool stop = false;
        struct hammer h[HAMMERS + 3];
        pthread_t threads[HAMMERS + 3];
        void *message;

        for (unsigned i = 0; i < HAMMERS + 3; i++) {
                h[i] = (struct hammer){.j = j, .number = i + 1, .stop = &stop};
                assert_int_equal(pthread_create(&threads[i], NULL, i < HAMMERS ? hammer : i < HAMMERS + 2 ? look : tidy, &h[i]), 0);
        }
        for (unsigned i = 0; i < HAMMERS + 3; i++) {
                if (i == HAMMERS)
                        stop = true;
                pthread_join(threads[i], &message);
                if (message)
                        fail_msg("%s", (char *)message);
        }
        struct journal_stats stats;
        gb_error err = {0};
        assert_ok(journal_stats(j, &stats, &err), &err);
        assert_int_equal(stats.runs, HAMMERS * HAMMER_RUNS);
        assert_int_equal(stats.events, HAMMERS * HAMMER_RUNS * 7);
}

/* ---- many at once are written together ---- */

#define CROWD 16
#define CROWD_EVENTS 100

static void *add_events(void *data)
{
        struct hammer *h = data;
        struct journal_run run = run_of("a", 1);
        gb_error err = {0};

        for (unsigned i = 0; i < CROWD_EVENTS; i++)
                if (journal_event(h->j, run.id, JOURNAL_STDOUT, 0, "x", 1, &err) < 0)
                        return strdup(err.message);
        return NULL;
}

/* While the writer is held, until all but the one who waits for it stand in the queue: so there is a group, however the threads are scheduled. */
static void wait_for_crowd(struct journal *j)
{
        for (size_t n = 0; n < CROWD - 1; usleep(1000)) {
                n = 0;
                pthread_mutex_lock(&j->queue_lock);
                for (const struct write *w = j->queue; w; w = w->next)
                        n++;
                pthread_mutex_unlock(&j->queue_lock);
        }
}

/* All of one run: two of them in a group take the same number, so each such group fails and is written one by one. Nothing is lost or doubled. */
static void test_groups_that_fail(void **state)
{
        _cleanup_journal_ struct journal *j = open_journal(NULL, NULL);
        struct journal_run run = run_of("a", 1);
        struct hammer h[CROWD];
        pthread_t threads[CROWD];
        void *message;
        char id[JOURNAL_ID_MAX];
        gb_error err = {0};

        assert_int_equal(journal_run_begin(j, &run, NULL, id, &err), 0);
        pthread_mutex_lock(&j->writer.lock);
        for (unsigned i = 0; i < CROWD; i++) {
                h[i] = (struct hammer){.j = j, .number = i};
                assert_int_equal(pthread_create(&threads[i], NULL, add_events, &h[i]), 0);
        }
        wait_for_crowd(j);
        pthread_mutex_unlock(&j->writer.lock);
        for (unsigned i = 0; i < CROWD; i++) {
                pthread_join(threads[i], &message);
                assert_null(message);
        }
        assert_true(j->commits < 1 + CROWD * CROWD_EVENTS); /* there were groups */
        uint64_t next = 0;
        while (journal_events(j, id, next, SIZE_MAX, sum, &next, &err) > 0)
                ;
        assert_int_equal(next, CROWD * CROWD_EVENTS);
        assert_ok(journal_run_end(j, id, &(struct journal_end){.verdict = "ok", .event = "{}", .ret_run = &run}, &err), &err);
        assert_int_equal(run.out_bytes, CROWD * CROWD_EVENTS);
}

/* ---- who waits for the disk ---- */

static __thread unsigned waits;

/* In the place of those that SQLite would call. */
__attribute__((visibility("default"))) int fdatasync(int fd)
{
        waits++;
        return (int)syscall(SYS_fdatasync, fd);
}

__attribute__((visibility("default"))) int fsync(int fd)
{
        waits++;
        return (int)syscall(SYS_fsync, fd);
}

static _Atomic unsigned rounds; /* of upkeep */

static void *tidy_and_count(void *data)
{
        struct hammer *h = data;
        gb_error err = {0};
        int r = 0;

        waits = 0;
        while (!*h->stop && r == 0) {
                r = journal_tidy(h->j, &err);
                rounds++;
        }
        h->number = waits;
        rounds = UINT_MAX; /* nobody shall wait for more */
        return r < 0 ? strdup(err.message) : NULL;
}

/* Never who writes a run, whatever upkeep does meanwhile to the log; unless each commit has to reach the disk. */
static void test_waits(void **state)
{
        struct journal_limits limits = {.bytes = 32 * MIB};
        struct journal *j = open_journal(&limits, NULL);
        _Atomic bool stop = false;
        struct hammer h = {.j = j, .stop = &stop};
        pthread_t thread;
        void *message = NULL;

        waits = 0;
        rounds = 0;
        whole(j, "a", 1);
        assert_int_equal(pthread_create(&thread, NULL, tidy_and_count, &h), 0);
        for (unsigned i = 2; i < 4000; i++) {
                whole(j, "a", i);
                while (i % 400 == 0 && rounds < i / 400) /* upkeep keeps pace, however slow the disk is */
                        usleep(1000);
        }
        assert_true(waits <= 1); /* one, where the machine is so busy that upkeep does not come to it: see JOURNAL_LOG_BYTES_MAX */
        stop = true;
        pthread_join(thread, &message);
        assert_null(message);
        assert_true(h.number > 3);
        struct journal_stats stats;
        gb_error err = {0};
        assert_ok(journal_stats(j, &stats, &err), &err);
        assert_true(stats.wal_bytes < 3 * limits.bytes); /* it was begun anew, or it would be larger */
        journal_close(j);

        limits.sync = true;
        j = open_journal(&limits, NULL);
        waits = 0;
        whole(j, "a", 50000);
        assert_true(waits >= 3); /* begin, output, end */
        journal_close(j);
}

/* A log that grew is written over as long as there is much to write, and made small again afterwards. */
static void test_large_log(void **state)
{
        static char block[1 << 20];
        _cleanup_journal_ struct journal *j = open_journal(NULL, NULL);
        struct journal_run run = run_of("a", 1);
        struct journal_stats stats;
        char id[JOURNAL_ID_MAX];
        gb_error err = {0};

        assert_int_equal(journal_run_begin(j, &run, NULL, id, &err), 0);
        for (int i = 0; i < 140; i++)
                assert_true(journal_event(j, id, JOURNAL_STDOUT, 0, block, sizeof(block), &err) >= 0);
        for (int i = 0; i < 2; i++) {
                assert_ok(journal_tidy(j, &err), &err);
                assert_ok(journal_stats(j, &stats, &err), &err);
                assert_true(i == 0 ? stats.wal_bytes > 128 << 20 : stats.wal_bytes < 1 << 20);
                assert_true(journal_event(j, id, JOURNAL_STDOUT, 0, block, 1, &err) >= 0);
        }
}

/* ---- how fast ---- */

static int compare(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return x < y ? -1 : x > y;
}

static uint64_t nsec(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void show(const char *name, uint64_t *values, size_t n)
{
        qsort(values, n, sizeof(*values), compare);
        uint64_t p50 = values[n / 2], p99 = values[n * 99 / 100];
        printf("%-16s p50 %6.1f us   p99 %6.1f us\n", name, (double)p50 / 1000, (double)p99 / 1000);
}

static int bench(void)
{
        enum { N = 20000 };
        static uint64_t took[4][N];
        struct journal_limits limits = {.runs = 100000, .bytes = 1ULL << 30};
        static char result[1800], controls[1200];
        struct journal *j = NULL;
        gb_error err = {0};
        char id[JOURNAL_ID_MAX];

        if (make_top(NULL) < 0 || journal_open(top, &limits, &j, NULL, &err) < 0)
                return 1;
        memset(result, 'r', sizeof(result) - 1);
        memset(controls, 'c', sizeof(controls) - 1);
        for (unsigned i = 0; i < N; i++) {
                struct journal_run run = run_of("local", i);
                struct journal_end e = {.verdict = "ok", .event = result, .result = result, .peaks = "{\"memory_bytes\":1}", .controls = controls};
                uint64_t t[5];
                t[0] = nsec();
                journal_run_begin(j, &run, NULL, id, &err);
                t[1] = nsec();
                journal_event(j, id, JOURNAL_STARTED, 0, NULL, 0, &err);
                t[2] = nsec();
                journal_event(j, id, JOURNAL_STDOUT, 0, "hello, world\n", 13, &err);
                t[3] = nsec();
                journal_run_end(j, id, &e, &err);
                t[4] = nsec();
                for (int k = 0; k < 4; k++)
                        took[k][i] = t[k + 1] - t[k];
                if (i % 500 == 0 && journal_tidy(j, &err) < 0)
                        printf("%s\n", err.message);
        }
        show("run_begin", took[0], N);
        show("event (started)", took[1], N);
        show("event (stdout)", took[2], N);
        show("run_end", took[3], N);
        journal_close(j);
        return remove_top(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_top, remove_top)

int main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = {TEST(test_one_wins), TEST(test_threads), TEST(test_groups_that_fail), TEST(test_waits), TEST(test_large_log)};

        if (argc > 1 && strcmp(argv[1], "bench") == 0)
                return bench();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
