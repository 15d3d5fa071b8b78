/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/growth.h"

#include "base/fd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t cpu_usec;
static bool cpu_known = true, cpu_is_old;

static int usage(struct backend_session *box, struct box_usage *ret, gb_error *err)
{
        *ret = (struct box_usage){.cpu_usec = cpu_usec, .cpu_known = cpu_known, .cpu_is_old = cpu_is_old};
        return 0;
}

static const struct backend backend = {.name = "test", .session_usage = usage};

struct place {
        char path[64];
        int fd;
        struct session s;
};

/* Until the clock of files shows a time that is later than now. */
static void wait_for_tick(void)
{
        struct timespec before, now;

        assert_int_equal(clock_gettime(CLOCK_REALTIME, &before), 0);
        do {
                usleep(1000);
                assert_int_equal(clock_gettime(CLOCK_REALTIME_COARSE, &now), 0);
        } while (now.tv_sec == before.tv_sec ? now.tv_nsec <= before.tv_nsec : now.tv_sec < before.tv_sec);
}

static int setup(void **state)
{
        static struct place p;

        p = (struct place){.s = {.backend = &backend, .backend_lock = PTHREAD_MUTEX_INITIALIZER, .disk_lock = PTHREAD_MUTEX_INITIALIZER}};
        snprintf(p.path, sizeof(p.path), "/tmp/glovebox-test-XXXXXX");
        assert_non_null(mkdtemp(p.path));
        p.fd = open(p.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(p.fd >= 0);
        disk_watch_init(&p.s.places.disk, 1 * MIB, 100);
        assert_int_equal(disk_watch_add(&p.s.places.disk, p.fd), 0);
        p.s.places.mark.is_whole = true;
        cpu_usec = 1000;
        cpu_known = true;
        cpu_is_old = false;
        wait_for_tick(); /* the directory was made in an earlier one */
        *state = &p;
        return 0;
}

static int teardown(void **state)
{
        struct place *p = *state;
        char command[128];

        safe_close(p->fd);
        snprintf(command, sizeof(command), "rm -r %s", p->path);
        return system(command) == 0 ? 0 : -1;
}

static void write_at_once(struct place *p, const char *name, size_t size)
{
        _cleanup_free_ char *bytes = malloc(size);

        assert_non_null(bytes);
        memset(bytes, 'x', size);
        int fd = openat(p->fd, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        assert_true(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
        safe_close(fd);
        p->s.places.next_usec = p->s.places.mark.next_usec = 0; /* no look is too soon */
}

/* In another tick than the last look. */
static void write_file(struct place *p, const char *name, size_t size)
{
        wait_for_tick();
        write_at_once(p, name, size);
}

/* A run that uses no time and writes nothing. */
static bool is_over(struct place *p)
{
        struct result result = {0};
        struct exec x = {.session = &p->s, .result = &result};
        gb_error err = {0};

        assert_int_equal(usage(NULL, &x.before, NULL), 0);
        growth_start(x.session);
        assert_int_equal(growth_begin(&x, &err), 0);
        uint64_t asked = monotonic_usec();
        bool over = growth_look(&x, false);
        growth_end(&x, &x.before, asked);
        return over;
}

static void test_what_the_host_adds_is_not_counted(void **state)
{
        struct place *p = *state;

        write_file(p, "before-the-first-run", 4 * MIB);
        assert_false(is_over(p));
        for (int i = 0; i < 5; i++) {
                char name[16];
                snprintf(name, sizeof(name), "host%d", i);
                write_file(p, name, 2 * MIB);
                assert_false(is_over(p));
        }
        assert_true(p->s.places.disk.bytes < 64 * KIB);
}

/* Modules in the workspace run while an interpreter starts. */
static void test_what_an_interpreter_writes_before_its_first_run(void **state)
{
        struct place *p = *state;

        growth_start(&p->s);
        write_file(p, "by-a-module", 4 * MIB);
        cpu_usec += 50000;
        assert_true(is_over(p));
}

/* Processes that a run left behind may write while nobody looks. */
static void test_what_processor_time_explains_is_counted(void **state)
{
        struct place *p = *state;

        assert_false(is_over(p));
        write_file(p, "left-behind", 4 * MIB);
        cpu_usec += 300;
        assert_true(is_over(p));
        /* And it stays counted, whatever the host adds later. */
        write_file(p, "host", 2 * MIB);
        assert_true(is_over(p));
}

/* While a run lasts: it waits, or it computes. */
static void test_what_the_host_adds_during_a_run(void **state)
{
        struct place *p = *state;
        struct result result = {0};
        struct exec x = {.session = &p->s, .result = &result};
        gb_error err = {0};

        assert_int_equal(usage(NULL, &x.before, NULL), 0);
        growth_start(x.session);
        assert_int_equal(growth_begin(&x, &err), 0);
        assert_false(growth_look(&x, false));
        write_file(p, "while-it-waits", 4 * MIB);
        assert_false(growth_look(&x, false));
        assert_true(p->s.places.disk.peak_bytes < 64 * KIB);
        write_file(p, "while-it-computes", 4 * MIB);
        cpu_usec += 50000;
        assert_true(growth_look(&x, false));
        assert_true(p->s.places.disk.peak_bytes > 1 * MIB);
}

/* A file that grows over several looks, during and after a run. */
static void test_what_the_host_adds_bit_by_bit(void **state)
{
        struct place *p = *state;
        struct result result = {0};
        struct exec x = {.session = &p->s, .result = &result};
        gb_error err = {0};

        assert_int_equal(usage(NULL, &x.before, NULL), 0);
        growth_start(x.session);
        assert_int_equal(growth_begin(&x, &err), 0);
        for (int i = 0; i < 6; i++) {
                write_file(p, "grows", MIB / 2);
                assert_false(growth_look(&x, false));
        }
        growth_end(&x, &x.before, 0);
        assert_false(is_over(p));
        assert_true(p->s.places.disk.bytes < 64 * KIB);
}

/* Moves a file of 4 MB out, or back in. */
static void move(struct place *p, bool in)
{
        char outside[80], inside[80];

        snprintf(outside, sizeof(outside), "%s-outside", p->path);
        snprintf(inside, sizeof(inside), "%s/shown", p->path);
        assert_int_equal(in ? rename(outside, inside) : rename(inside, outside), 0);
        p->s.places.next_usec = p->s.places.mark.next_usec = 0;
}

/* The code can hide a file from a look by moving it past the walk, and show it later for no time. Then a directory has changed. */
static void test_a_file_that_a_look_has_missed_is_counted(void **state)
{
        struct place *p = *state;

        assert_false(is_over(p));
        write_file(p, "shown", 4 * MIB);
        cpu_usec += 1000;
        move(p, false);
        assert_false(is_over(p));
        p->s.places.mark.is_whole = false;
        move(p, true);
        assert_true(is_over(p));
}

/* The host may move a file in that is older than the session. */
static void test_an_old_file_of_the_host(void **state)
{
        struct place *p = *state;
        struct result result = {0};
        struct exec x = {.session = &p->s, .result = &result};
        gb_error err = {0};

        write_file(p, "shown", 4 * MIB);
        move(p, false);
        wait_for_tick();
        assert_int_equal(usage(NULL, &x.before, NULL), 0);
        growth_start(&p->s);
        assert_int_equal(growth_begin(&x, &err), 0);
        assert_false(growth_look(&x, false));
        move(p, true);
        assert_false(growth_look(&x, false));
        assert_true(p->s.places.disk.bytes < 64 * KIB);
        /* It is not credited twice. */
        move(p, false);
        assert_false(growth_look(&x, false));
        move(p, true);
        assert_false(growth_look(&x, false));
        cpu_usec += 50000;
        write_file(p, "code", 4 * MIB);
        assert_true(growth_look(&x, false));
}

/* A file of the host that grows from run to run. */
static void test_a_file_of_the_host_that_grows(void **state)
{
        struct place *p = *state;

        for (int i = 0; i < 10; i++) {
                write_file(p, "log", MIB / 2);
                wait_for_tick();
                assert_false(is_over(p));
                cpu_usec += 60000;
                assert_false(is_over(p));
        }
        assert_true(p->s.places.disk.bytes <= 1 * MIB); /* of the 5 MB; what is not over is judged later */
}

/* No more than the walk could miss may count as the code's: nothing, where no name has changed. */
static void test_what_the_host_adds_right_after_a_run(void **state)
{
        struct place *p = *state;

        for (int i = 0; i < 20; i++) {
                char name[16];
                snprintf(name, sizeof(name), "host%d", i);
                wait_for_tick();
                assert_false(is_over(p));
                write_at_once(p, name, 2 * MIB);
                assert_false(is_over(p));
        }
        assert_true(p->s.places.disk.bytes < 64 * KIB);
}

/* The host reserves room for a file before it has a size. */
static void test_a_file_that_the_host_has_begun(void **state)
{
        struct place *p = *state;
        struct result result = {0};
        struct exec x = {.session = &p->s, .result = &result};
        gb_error err = {0};

        assert_int_equal(usage(NULL, &x.before, NULL), 0);
        growth_start(x.session);
        assert_int_equal(growth_begin(&x, &err), 0);
        wait_for_tick();
        assert_false(growth_look(&x, false));
        _cleanup_close_ int fd = openat(p->fd, "ahead", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        assert_int_equal(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 4 * MIB), 0);
        assert_false(growth_look(&x, false));
        assert_true(p->s.places.disk.peak_bytes < 64 * KIB);
        assert_int_equal(ftruncate(fd, 4 * MIB), 0);
        assert_false(growth_look(&x, false));
        assert_true(p->s.places.disk.bytes < 64 * KIB);
        cpu_usec += 50000; /* now it may be the code's */
        assert_int_equal(fallocate(fd, FALLOC_FL_KEEP_SIZE, 4 * MIB, 4 * MIB), 0);
        assert_true(growth_look(&x, false));
}

/* What a file system gives ahead of time is not what somebody has written: the host does not get it. */
static void test_only_what_a_file_holds_is_given(void **state)
{
        struct place *p = *state;

        assert_false(is_over(p));
        uint64_t before = p->s.places.disk.before.bytes;
        _cleanup_close_ int fd = openat(p->fd, "ahead", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        assert_int_equal(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 4 * MIB), 0);
        assert_int_equal(write(fd, "x", 1), 1);
        p->s.places.next_usec = p->s.places.mark.next_usec = 0;
        assert_false(is_over(p));
        assert_true(p->s.places.disk.before.bytes <= before + 64 * KIB);
        cpu_usec += 50000;
        assert_true(is_over(p));
}

/* Many runs could write a little each. */
static void test_a_run_that_does_not_begin(void **state)
{
        struct place *p = *state;
        struct exec x = {.session = &p->s};
        gb_error err = {0};
        char path[80];

        p->s.places.disk.limit_inodes = 4;
        assert_false(is_over(p));
        cpu_usec += 50000;
        for (int i = 0; i < 6; i++) {
                snprintf(path, sizeof(path), "f%d", i);
                write_file(p, path, 1);
        }
        assert_true(is_over(p));
        assert_int_equal(growth_begin(&x, &err), 0); /* which may delete some */
        for (int i = 6; i < 9; i++) {
                snprintf(path, sizeof(path), "f%d", i);
                write_file(p, path, 1);
        }
        cpu_usec += 50000;
        assert_int_equal(growth_begin(&x, &err), -ENOSPC);
        assert_int_equal(err.code, GB_E_DISK_FULL);
        assert_int_equal(unlinkat(p->fd, "f1", 0), 0);
        assert_int_equal(growth_begin(&x, &err), 0);
}

/* A look is not due: nothing is counted. */
static void test_a_look_that_is_not_due(void **state)
{
        struct place *p = *state;
        struct result result = {0};
        struct exec x = {.session = &p->s, .result = &result};
        gb_error err = {0};

        p->s.places.disk.limit_bytes = UINT64_MAX; /* others write to the same file system, and more than the limit would be worth a look */
        assert_int_equal(usage(NULL, &x.before, NULL), 0);
        growth_start(x.session);
        assert_int_equal(growth_begin(&x, &err), 0);
        assert_false(growth_look(&x, false));
        write_file(p, "code", 4 * KIB);
        cpu_usec += 50000;
        p->s.places.next_usec = UINT64_MAX;
        assert_false(growth_look(&x, true));
        assert_int_equal(p->s.places.disk.bytes, 0);
}

static void test_unknown_time_explains_everything(void **state)
{
        struct place *p = *state;

        cpu_known = false;
        assert_false(is_over(p));
        write_file(p, "host", 4 * MIB);
        assert_true(is_over(p));
}

/* An engine's statistics are up to a second old. */
static void test_old_time_explains_everything(void **state)
{
        struct place *p = *state;

        cpu_is_old = true;
        assert_false(is_over(p));
        write_file(p, "code", 4 * MIB);
        assert_true(is_over(p));
}

/* A client must not get room by uploads between runs. */
static void test_uploads_are_counted(void **state)
{
        struct place *p = *state;

        assert_false(is_over(p));
        growth_reserve(&p->s.places, 4 * MIB, 1);
        write_file(p, "upload", 4 * MIB);
        assert_true(is_over(p));
}

static void test_amounts(void **state)
{
        struct growth_credit c = {0};

        assert_int_equal(growth_unexplained(1000, 0, 10), 1000);
        assert_int_equal(growth_unexplained(1000, 60, 10), 400);
        assert_int_equal(growth_unexplained(1000, 100, 10), 0);
        assert_int_equal(growth_unexplained(1000, UINT64_MAX, 10), 0);
        assert_int_equal(growth_credit(&c, 100), 100);
        assert_int_equal(growth_credit(&c, 100), 0);
        assert_int_equal(growth_credit(&c, 60), 0);
        c.reserved = 50;
        assert_int_equal(growth_credit(&c, 130), 0);
        assert_int_equal(growth_credit(&c, 160), 10);
        c.since_mark = 0;
        assert_int_equal(growth_credit(&c, 5), 5);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        const struct CMUnitTest tests[] = {
                TEST(test_what_the_host_adds_is_not_counted), TEST(test_what_processor_time_explains_is_counted), TEST(test_what_an_interpreter_writes_before_its_first_run),
                TEST(test_unknown_time_explains_everything), TEST(test_old_time_explains_everything), TEST(test_what_the_host_adds_during_a_run), TEST(test_a_look_that_is_not_due), TEST(test_a_run_that_does_not_begin),
                TEST(test_what_the_host_adds_bit_by_bit), TEST(test_a_file_that_a_look_has_missed_is_counted), TEST(test_an_old_file_of_the_host), TEST(test_a_file_of_the_host_that_grows),
                TEST(test_what_the_host_adds_right_after_a_run), TEST(test_a_file_that_the_host_has_begun), TEST(test_only_what_a_file_holds_is_given), TEST(test_uploads_are_counted), cmocka_unit_test(test_amounts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
