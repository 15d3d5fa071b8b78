/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory and the files in it: whose they are, who may read them, and what becomes of damaged ones. */
#include "base/fd.h"
#include "journal/test_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[128];

static void test_one_writer(void **state)
{
        _cleanup_journal_ struct journal *j = open_journal(NULL, NULL), *second = NULL, *reader = NULL;
        struct journal_limits limits = {0};
        struct journal_run run = run_of("a", 1);
        char id[JOURNAL_ID_MAX];
        gb_error err = {0};

        assert_true(journal_open(top, &limits, &second, NULL, &err) < 0);
        assert_int_equal(err.code, GB_E_CONFLICT);
        whole(j, "a", 1);
        assert_ok(journal_open_reader(top, &reader, &err), &err);
        assert_true(is_there(reader, 1));
        whole(j, "a", 2);
        assert_true(is_there(reader, 2));
        assert_true(journal_run_begin(reader, &run, NULL, id, &err) < 0);
        assert_true(journal_tidy(reader, &err) < 0);
        journal_close(TAKE_PTR(reader));
        journal_close(TAKE_PTR(j));
        j = open_journal(NULL, NULL);
        assert_true(is_there(j, 2));
}

static void check_mode(const char *name, mode_t mode)
{
        char file[128];
        struct stat st;

        snprintf(file, sizeof(file), "%s/%s", top, name);
        assert_int_equal(lstat(file, &st), 0);
        assert_int_equal(st.st_mode & 0777, mode);
}

static void test_modes(void **state)
{
        struct journal_limits limits = {0};
        struct journal *j = NULL;
        gb_error err = {0};

        mode_t before = umask(0);
        snprintf(path, sizeof(path), "%s/some/where", top);
        assert_ok(journal_open(path, &limits, &j, NULL, &err), &err);
        umask(before);
        check_mode("some", 0700);
        check_mode("some/where", 0700);
        check_mode("some/where/journal.db", 0600);
        check_mode("some/where/journal.db-wal", 0600);
        check_mode("some/where/journal.db-shm", 0600);
        check_mode("some/where/journal.lock", 0600);
        journal_close(j);

        assert_int_equal(chmod(path, 0770), 0);
        assert_true(journal_open(path, &limits, &j, NULL, &err) < 0);
        assert_int_equal(err.code, GB_E_DENIED);
        assert_int_equal(chmod(path, 0700), 0);
        if (geteuid() == 0) {
                assert_int_equal(chown(path, 65533, 65533), 0);
                assert_true(journal_open(path, &limits, &j, NULL, &err) < 0);
                assert_int_equal(err.code, GB_E_DENIED);
        }
        snprintf(path, sizeof(path), "%s/file", top);
        safe_close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        assert_true(journal_open(path, &limits, &j, NULL, &err) < 0);
        assert_true(journal_open("", &limits, &j, NULL, &err) < 0);
        assert_true(journal_open_reader("/nowhere/at/all", &j, &err) < 0);
        assert_int_equal(err.code, GB_E_NOT_FOUND);
}

/* A link in the place of a file leads nowhere. */
static void test_links(void **state)
{
        struct journal_limits limits = {0};
        struct journal *j = NULL;
        char victim[128];
        gb_error err = {0};

        snprintf(victim, sizeof(victim), "%s/victim", top);
        safe_close(open(victim, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        snprintf(path, sizeof(path), "%s/journal.db", top);
        assert_int_equal(symlink(victim, path), 0);
        assert_true(journal_open(top, &limits, &j, NULL, &err) < 0);
        assert_int_equal(err.code, GB_E_DENIED);
        struct stat st;
        assert_int_equal(stat(victim, &st), 0);
        assert_int_equal(st.st_size, 0);
}

/* ---- damage ---- */

static void fill_journal(void)
{
        _cleanup_journal_ struct journal *j = open_journal(NULL, NULL);

        for (unsigned i = 0; i < 200; i++)
                whole(j, i % 3 ? "a" : "b", i);
        begin(j, "a", 1000);
        snprintf(path, sizeof(path), "%s/journal.db", top);
}

/* Everything that reads and writes, on a file that may be anything. Errors are fine; a crash and an endless loop are not. */
static int ignore_event(void *data, const struct journal_event *event)
{
        return 0;
}

static int ignore_record(void *data, uint64_t cursor, const char *json)
{
        return 0;
}

static void use_all(struct journal *j)
{
        struct journal_query q = {.state = -1, .limit = 1000}, of_tenant = {.state = -1, .limit = 1000, .tenant = "a"};
        struct journal_run *runs = NULL, run = run_of("a", 5000);
        size_t n = 0;
        char id[JOURNAL_ID_MAX];
        gb_error err = {0};

        for (int i = 0; i < 2; i++)
                if (journal_runs(j, i ? &q : &of_tenant, &runs, &n, NULL, &err) == 0) {
                        for (size_t k = 0; k < n; k++) {
                                _cleanup_journal_run_ struct journal_run one = {0};
                                (void)journal_run_get(j, NULL, runs[k].id, &one, &err);
                                (void)journal_events(j, runs[k].id, 0, SIZE_MAX, ignore_event, NULL, &err);
                        }
                        journal_runs_free(runs, n);
                }
        (void)journal_audit(j, &q, ignore_record, NULL, NULL, &err);
        if (journal_run_begin(j, &run, &(struct journal_key){.key = "k"}, id, &err) == 0) {
                (void)journal_event(j, run.id, JOURNAL_STDOUT, 0, "x", 1, &err);
                (void)journal_run_end(j, run.id, &(struct journal_end){.verdict = "ok", .event = "{}"}, &err);
        }
        (void)journal_tidy(j, &err);
}

/* Whether it could be opened; a refusal says what to do. */
static bool try_journal(void)
{
        struct journal_limits limits = {.runs = 50, .age_usec = 1, .audit_records = 10};
        _cleanup_journal_ struct journal *j = NULL;
        gb_error err = {0};

        if (journal_open(top, &limits, &j, NULL, &err) < 0) {
                if (!strstr(err.message, "move it away") || !strstr(err.message, "journal.db"))
                        fail_msg("a refusal that does not say what to do: %s", err.message);
                return false;
        }
        use_all(j);
        return true;
}

static void overwrite(off_t offset, const void *bytes, size_t size)
{
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, bytes, size, offset), size);
}

static off_t file_size(void)
{
        struct stat st;

        assert_int_equal(stat(path, &st), 0);
        return st.st_size;
}

static void test_truncated(void **state)
{
        fill_journal();
        off_t size = file_size();
        assert_true(size > 10 * 4096);
        static const off_t cuts[] = {4096, 5000, 100000};
        for (size_t i = 0; i < ARRAY_SIZE(cuts); i++) {
                assert_int_equal(truncate(path, size -= cuts[i]), 0);
                assert_false(try_journal());
        }
        assert_int_equal(truncate(path, 50), 0);
        assert_false(try_journal());
        /* Moved away, there is a new one. */
        assert_int_equal(unlink(path), 0);
        assert_true(try_journal());
}

static void test_garbage(void **state)
{
        char garbage[8192];

        for (size_t i = 0; i < sizeof(garbage); i++)
                garbage[i] = (char)(i * 31 + 7);
        fill_journal();
        overwrite(0, garbage, sizeof(garbage));
        assert_false(try_journal());

        assert_int_equal(unlink(path), 0);
        _cleanup_close_ int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        assert_int_equal(fd_write_all(fd, "#!/bin/sh\necho no database at all, but text that is longer than the header of one: 100 bytes .......\n", 101), 0);
        assert_false(try_journal());
}

/* Pages and bytes at random, from a seed that a failure would name. */
static void test_random_damage(void **state)
{
        for (unsigned seed = 1; seed <= 40; seed++) {
                char page[4096];
                unsigned x = seed * 2654435761u;
                assert_int_equal(remove_top(NULL), 0);
                assert_int_equal(mkdir(top, 0700), 0);
                fill_journal();
                off_t pages = file_size() / 4096;
                for (unsigned i = 0; i < 3; i++) {
                        for (size_t k = 0; k < sizeof(page); k++)
                                page[k] = (char)((x = x * 1103515245 + 12345) >> 16);
                        size_t size = seed % 2 ? sizeof(page) : 16;
                        overwrite((1 + (x >> 8) % (pages - 1)) * 4096 + (seed % 2 ? 0 : x % 4000), page, size);
                }
                (void)try_journal();
        }
}

static void exec_sql(const char *sql)
{
        char command[512];

        snprintf(command, sizeof(command), "python3 -c 'import sqlite3; c = sqlite3.connect(\"%s\"); c.executescript(\"%s\")'", path, sql);
        assert_int_equal(system(command), 0);
}

static void test_other_forms(void **state)
{
        struct journal_limits limits = {0};
        struct journal *j = NULL;
        gb_error err = {0};

        fill_journal();
        exec_sql("PRAGMA user_version=2");
        assert_true(journal_open(top, &limits, &j, NULL, &err) < 0);
        assert_non_null(strstr(err.message, "newer"));
        assert_true(journal_open_reader(top, &j, &err) < 0);
        exec_sql("PRAGMA user_version=1; PRAGMA application_id=7");
        assert_false(try_journal());
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_top, remove_top)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_one_writer), TEST(test_modes), TEST(test_links), TEST(test_truncated), TEST(test_garbage), TEST(test_random_damage), TEST(test_other_forms),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
