/* SPDX-License-Identifier: Apache-2.0
 *
 * The journal stays as large as it may be, whatever is written; what goes on is never removed; and when there is no room at all, that is told and
 * nothing is half written. */
#include "base/fd.h"
#include "base/limits.h"
#include "journal/state.h"
#include "journal/test_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DAY_USEC 86400000000ULL
#define SMALL_RUNS (GLOVEBOX_SANITIZED ? 20000 : 100000)

static void tidy(struct journal *j)
{
        gb_error err = {0};

        assert_ok(journal_tidy(j, &err), &err);
}

static struct journal_stats stats(struct journal *j)
{
        struct journal_stats s;
        gb_error err = {0};

        assert_ok(journal_stats(j, &s, &err), &err);
        return s;
}

static uint64_t file_bytes(const char *name)
{
        char path[128];
        struct stat st;

        snprintf(path, sizeof(path), "%s/%s", top, name);
        return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static void write_much(struct journal *j, unsigned number, size_t bytes)
{
        struct journal_run key = run_of("", number);
        static char data[64 * KIB];
        gb_error err = {0};

        memset(data, 'd', sizeof(data));
        for (; bytes >= sizeof(data); bytes -= sizeof(data))
                assert_ok(journal_event(j, key.id, JOURNAL_STDOUT, 0, data, sizeof(data), &err), &err);
}

static void test_many_small_runs(void **state)
{
        struct journal_limits limits = {.runs = 2000, .bytes = 16 * MIB, .audit_records = 3000, .key_usec = 1};
        _cleanup_journal_ struct journal *j = open_journal(&limits, NULL);
        uint64_t largest = 0, largest_log = 0;

        begin(j, "a", 0); /* goes on all the while */
        output(j, 0, JOURNAL_STDOUT, "first");
        for (unsigned i = 1; i <= SMALL_RUNS; i++) {
                whole(j, i % 2 ? "a" : "b", i);
                if (i % 1000 == 0) {
                        tidy(j);
                        struct journal_stats s = stats(j);
                        assert_true(s.runs <= 2000);
                        largest = MAX(largest, s.bytes);
                        largest = MAX(largest, file_bytes("journal.db"));
                        largest_log = MAX(largest_log, file_bytes("journal.db-wal"));
                }
        }
        assert_true(largest <= limits.bytes);
        assert_true(largest_log < 2 * JOURNAL_LOG_BYTES);
        assert_int_equal(stats(j).removed_runs, SMALL_RUNS + 1 - 2000);
        assert_true(is_there(j, SMALL_RUNS) && is_there(j, SMALL_RUNS - 1998) && !is_there(j, SMALL_RUNS - 1999));
        struct journal_run run = get(j, 0);
        assert_true(run.state == JOURNAL_QUEUED && run.out_bytes == 5);
        end(j, 0, "ok");
}

static void test_large_output(void **state)
{
        struct journal_limits limits = {.bytes = 32 * MIB};
        _cleanup_journal_ struct journal *j = open_journal(&limits, NULL);

        for (unsigned i = 1; i <= 120; i++) {
                begin(j, "a", i);
                write_much(j, i, 1 * MIB);
                end(j, i, "ok");
                if (i % 4 == 0)
                        tidy(j);
                assert_true(stats(j).bytes <= limits.bytes + JOURNAL_RESERVE_BYTES);
        }
        assert_true(is_there(j, 120) && is_there(j, 110) && !is_there(j, 80));
        assert_true(file_bytes("journal.db-wal") < 2 * JOURNAL_LOG_BYTES);
}

/* Who writes much pays for it; another's runs stay, also those that are older. */
static void test_nobody_is_pushed_out(void **state)
{
        struct journal_limits limits = {.bytes = 32 * MIB, .runs = 1000};
        _cleanup_journal_ struct journal *j = open_journal(&limits, NULL);

        for (unsigned i = 0; i < 100; i++)
                whole(j, "quiet", i);
        for (unsigned i = 100; i < 200; i++) {
                begin(j, "loud", i);
                write_much(j, i, 1 * MIB);
                end(j, i, "ok");
                if (i % 4 == 0)
                        tidy(j);
        }
        for (unsigned i = 200; i < 3000; i++) {
                whole(j, "loud", i);
                if (i % 100 == 0)
                        tidy(j);
        }
        tidy(j);
        assert_true(stats(j).runs <= 1000);
        for (unsigned i = 0; i < 100; i++)
                assert_true(is_there(j, i));
        assert_true(is_there(j, 2999) && !is_there(j, 110));
}

/* Nobody calls journal_tidy() at all: who writes makes room. */
static void test_without_upkeep(void **state)
{
        struct journal_limits limits = {.bytes = 8 * MIB};
        _cleanup_journal_ struct journal *j = open_journal(&limits, NULL);

        begin(j, "a", 0);
        for (unsigned i = 1; i <= 100; i++) {
                begin(j, "a", i);
                write_much(j, i, 1 * MIB);
                end(j, i, "ok");
                assert_true(stats(j).bytes <= limits.bytes + JOURNAL_RESERVE_BYTES);
        }
        assert_true(is_there(j, 100) && is_there(j, 0) && !is_there(j, 80));
        assert_true(file_bytes("journal.db-wal") <= JOURNAL_LOG_BYTES_MAX + 4 * MIB);
}

/* A run that is too large for one transaction goes in pieces; in between it is not there any more. */
static void test_large_run(void **state)
{
        struct journal_limits limits = {.runs = 1};
        struct journal *j = open_journal(NULL, NULL);
        uint64_t before;

        begin(j, "a", 1);
        write_much(j, 1, 24 * MIB);
        end(j, 1, "ok");
        whole(j, "a", 2);
        journal_close(j);
        before = file_bytes("journal.db");
        assert_true(before > 24 * MIB);
        j = open_journal(&limits, NULL);
        tidy(j);
        assert_true(!is_there(j, 1) && is_there(j, 2));
        for (int i = 0; i < 20; i++)
                tidy(j); /* the file becomes smaller step by step */
        assert_true(stats(j).bytes < before / 2);
        journal_close(j);
        assert_true(file_bytes("journal.db") < before / 2);
}

static void test_age(void **state)
{
        struct journal_limits limits = {.age_usec = DAY_USEC};
        _cleanup_journal_ struct journal *j = open_journal(&limits, NULL);

        whole(j, "a", 1);
        begin(j, "a", 2);
        tidy(j);
        assert_true(is_there(j, 1));
        journal_close(TAKE_PTR(j));
        limits.age_usec = 1; /* since the end: a microsecond is over */
        j = open_journal(&limits, NULL);
        begin(j, "a", 3);
        usleep(10);
        tidy(j);
        assert_true(!is_there(j, 1) && is_there(j, 3));
}

static int try_key(struct journal *j, unsigned number, const char *text)
{
        struct journal_run run = run_of("a", number);
        char id[JOURNAL_ID_MAX];
        gb_error err = {0};

        int r = journal_run_begin(j, &run, &(struct journal_key){.key = text, .hash = {1}}, id, &err);
        assert_ok(r, &err);
        return r;
}

/* A key is kept at least its time, also when the run's record is gone; then it may be used again. */
static void test_keys(void **state)
{
        struct journal_limits limits = {.runs = 1, .key_usec = DAY_USEC};
        _cleanup_journal_ struct journal *j = open_journal(&limits, NULL);

        assert_int_equal(try_key(j, 1, "k"), 0);
        end(j, 1, "ok");
        whole(j, "a", 2);
        tidy(j);
        assert_false(is_there(j, 1));
        assert_int_equal(try_key(j, 3, "k"), 1);
        journal_close(TAKE_PTR(j));

        limits.key_usec = 1;
        j = open_journal(&limits, NULL);
        assert_int_equal(try_key(j, 4, "k2"), 0); /* goes on: its key stays whatever its age */
        usleep(10);
        tidy(j);
        assert_int_equal(try_key(j, 3, "k"), 0);
        assert_int_equal(try_key(j, 5, "k2"), 1);
}

static int count_record(void *data, uint64_t cursor, const char *json)
{
        ++*(unsigned *)data;
        return 0;
}

static unsigned count_audit(struct journal *j)
{
        struct journal_query q = {.limit = 100000};
        unsigned n = 0;
        gb_error err = {0};

        assert_ok(journal_audit(j, &q, count_record, &n, NULL, &err), &err);
        return n;
}

static void test_audit(void **state)
{
        struct journal_limits limits = {.runs = 10, .audit_records = 700};
        _cleanup_journal_ struct journal *j = open_journal(&limits, NULL);
        struct journal_session session = {.tenant = "a"};
        char id[JOURNAL_ID_MAX];
        gb_error err = {0};

        for (unsigned i = 0; i < 1000; i++)
                whole(j, "a", i);
        tidy(j);
        assert_int_equal(count_audit(j), 700); /* outlives the runs */
        for (unsigned i = 0; i < 100; i++) {
                snprintf(session.id, sizeof(session.id), "5e55%u", i);
                assert_int_equal(journal_session_begin(j, &session, NULL, id, &err), 0);
                assert_ok(journal_session_end(j, id, "deleted", NULL, &err), &err);
        }
        for (int i = 0; i < 3; i++)
                tidy(j);
        assert_int_equal(count_audit(j), 700);
        assert_true(journal_session_get(j, NULL, "5e550", &session, &err) < 0);
        assert_ok(journal_session_get(j, NULL, "5e5599", &session, &err), &err);
        journal_close(TAKE_PTR(j));

        limits.audit_usec = 1;
        j = open_journal(&limits, NULL);
        usleep(10);
        for (int i = 0; i < 3; i++)
                tidy(j);
        assert_int_equal(count_audit(j), 0);
}

static int check_place(void *data, const struct journal_event *event)
{
        uint64_t *next = data;

        assert_int_equal(event->seq, *next);
        ++*next;
        return 0;
}

struct meanwhile {
        struct journal *j;
        unsigned calls;
};

/* Before a reader's statement about events begins. */
static int remove_meanwhile(unsigned kind, void *data, void *statement, void *text)
{
        struct meanwhile *m = data;
        gb_error err = {0};

        if (strstr(sqlite3_sql(statement), "FROM events") && m->calls++ == 0)
                (void)journal_tidy(m->j, &err);
        return 0;
}

/* Who reads has all events of the run, or hears that there is no such run; never what retention has left so far. */
static void test_removed_meanwhile(void **state)
{
        struct journal_limits limits = {.age_usec = 1};
        _cleanup_journal_ struct journal *j = open_journal(&limits, NULL);
        struct meanwhile m = {.j = j};
        struct journal_run key = run_of("a", 1);
        uint64_t next = 0;
        gb_error err = {0};

        begin(j, "a", 1);
        for (int i = 0; i < 100; i++)
                output(j, 1, JOURNAL_STDOUT, "text");
        end(j, 1, "ok");
        for (size_t i = 0; i < JOURNAL_READERS; i++)
                (void)sqlite3_trace_v2(j->readers[i].db, SQLITE_TRACE_STMT, remove_meanwhile, &m);
        assert_true(journal_events(j, key.id, 0, SIZE_MAX, check_place, &next, &err) < 0);
        assert_int_equal(err.code, GB_E_NOT_FOUND);
        assert_true(m.calls > 0 && next == 0 && !is_there(j, 1));
}

/* A run that goes on has all the room there is. */
static void test_full(void **state)
{
        struct journal_limits limits = {.bytes = JOURNAL_BYTES_MIN};
        _cleanup_journal_ struct journal *j = open_journal(&limits, NULL);
        struct journal_run key = run_of("a", 1), other = run_of("a", 2);
        static char data[64 * KIB];
        char id[JOURNAL_ID_MAX];
        uint64_t written = 0, next = 0;
        gb_error err = {0};
        int64_t r;

        whole(j, "a", 0);
        begin(j, "a", 1);
        while (written < 100 && (r = journal_event(j, key.id, JOURNAL_STDOUT, 0, data, sizeof(data), &err)) >= 0)
                assert_int_equal(r, written++);
        assert_int_equal(err.code, GB_E_DISK_FULL);
        assert_false(is_there(j, 0)); /* it made room as long as there was something to remove */
        assert_true(written > 40 && written < 64);
        assert_true(journal_run_begin(j, &other, &(struct journal_key){.key = "k"}, id, &err) < 0 || journal_event(j, other.id, JOURNAL_STDOUT, 0, data, sizeof(data), &err) < 0);
        assert_int_equal(err.code, GB_E_DISK_FULL);

        /* What was written is whole, and the end is written all the same. */
        assert_int_equal(journal_events(j, key.id, 0, SIZE_MAX, check_place, &next, &err), written);
        end(j, 1, "output");
        struct journal_run run = get(j, 1);
        assert_true(run.next_seq == written + 1 && run.out_bytes == written * sizeof(data));
        journal_run_done(&run);
        /* Now it may go, and there is room. */
        begin(j, "a", 3);
        write_much(j, 3, 1 * MIB);
        assert_false(is_there(j, 1));
        end(j, 3, "ok");
}

static void fill_disk(int fd)
{
        static char data[64 * KIB];

        for (size_t size = sizeof(data); size > 0;)
                if (write(fd, data, size) < (ssize_t)size)
                        size /= 2;
}

/* On a file system of its own that is full: what fails says so, and when there is room again all goes on. */
static void on_a_full_disk(void)
{
        struct journal_limits limits = {0};
        struct journal_run key = run_of("a", 1);
        static char data[64 * KIB];
        struct journal *j = NULL;
        char id[JOURNAL_ID_MAX], filler[128];
        gb_error err = {0};
        uint64_t next = 0;
        int64_t n, written = 0;
        unsigned refused = 0;

        snprintf(filler, sizeof(filler), "%s/filler", top);
        assert_ok(journal_open(top, &limits, &j, NULL, &err), &err);
        begin(j, "a", 1);
        while (written < 100 && (n = journal_event(j, key.id, JOURNAL_STDOUT, 0, data, sizeof(data), &err)) >= 0)
                assert_int_equal(n, written++);
        assert_int_equal(err.code, GB_E_DISK_FULL);
        _cleanup_close_ int fd = open(filler, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        if (fd >= 0)
                fill_disk(fd);
        /* Small ones still fit into what the large one had taken. */
        for (unsigned i = 2; i < 5000; i++) {
                struct journal_run run = run_of("a", i);
                err = (gb_error){0};
                n = journal_run_begin(j, &run, NULL, id, &err);
                assert_true(n == 0 ? is_there(j, i) : err.code == GB_E_DISK_FULL && !is_there(j, i));
                refused += n < 0;
        }
        assert_true(refused > 1000);
        assert_true(journal_run_end(j, key.id, &(struct journal_end){.verdict = "ok", .event = "{}"}, &err) < 0);
        assert_int_equal(err.code, GB_E_DISK_FULL);
        (void)journal_tidy(j, &err);
        assert_int_equal(journal_events(j, key.id, 0, SIZE_MAX, check_place, &next, &err), written);

        assert_true(unlink(filler) == 0 || errno == ENOENT);
        fd = safe_close(fd);
        assert_int_equal(mount("none", top, NULL, MS_REMOUNT, "size=64m"), 0);
        assert_ok(journal_run_end(j, key.id, &(struct journal_end){.verdict = "ok", .event = "{}"}, &err), &err);
        whole(j, "a", 9000);
        journal_close(j);
        j = open_journal(NULL, NULL);
        assert_true(is_there(j, 1) && is_there(j, 9000));
        journal_close(j);
}

static void test_disk_full(void **state)
{
        int status;

        if (geteuid() != 0) {
                print_message("needs root, to mount a small file system\n");
                skip();
        }
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                /* Its own mounts: nothing is left when it ends. */
                if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount("none", top, "tmpfs", 0, "size=4m,mode=0700") < 0)
                        _exit(77);
                on_a_full_disk();
                _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
                print_message("no mount namespace can be had here\n");
                skip();
        }
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_top, remove_top)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_many_small_runs), TEST(test_large_output), TEST(test_nobody_is_pushed_out), TEST(test_without_upkeep), TEST(test_large_run), TEST(test_age),
                TEST(test_keys), TEST(test_audit), TEST(test_removed_meanwhile), TEST(test_full), TEST(test_disk_full),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
