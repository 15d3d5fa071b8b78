/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/verdict.h"

#include <setjmp.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct policy policy = {
        .mem_limit_bytes = 512 * MIB,
        .timeout_usec = 30000000,
        .cpu_time_usec = 10000000,
        .pids_limit = 64,
        .tmp_size_bytes = 64 * MIB,
        .disk_limit_bytes = 256 * MIB,
        .inode_limit = 1000,
        .output_limit_bytes = 1 * MIB,
};

#define EXIT(code) .started = true, .known = ALL_KNOWN, .ending = ENDING_OF_EXIT(code)
#define KILLED(by) .started = true, .known = ALL_KNOWN, .ending = ENDING_OF_SIGNAL(by)
/* In a context whose interpreter lives. */
#define CLAIM(failed) .started = true, .known = ALL_KNOWN, .claimed = true, .claimed_error = (failed)
/* Every counter at once, so that only precedence can tell the kind. */
#define ALL_HITS .oom_kills = 1, .pids_refused = 1, .disk_full = true

struct verdict_case {
        const char *what;
        struct run_facts facts;
        enum verdict_kind kind;
        int exit_status;
        const char *says; /* part of the message */
};

static const struct verdict_case cases[] = {
        /* The plain ends. */
        {"a good end", {EXIT(0)}, VERDICT_OK, 0, "ended well"},
        {"an exit status", {EXIT(3)}, VERDICT_ERROR, 3, "The program exited with status 3."},
        {"a compiler's exit status", {EXIT(1), .compiling = true}, VERDICT_ERROR, 1, "The compiler failed with status 1."},
        {"a crash", {KILLED(SIGSEGV)}, VERDICT_ERROR, 128 + SIGSEGV,
         "The program was ended by SIGSEGV (invalid memory access)."},
        {"a compiler's crash", {KILLED(SIGABRT), .compiling = true}, VERDICT_ERROR, 128 + SIGABRT, "The compiler was ended"},
        {"a signal without a name", {KILLED(40)}, VERDICT_ERROR, 168, "ended by SIGRTMIN+"},

        /* Never from 137 alone. */
        {"killed from inside", {KILLED(SIGKILL)}, VERDICT_ERROR, 137, "SIGKILL (killed from inside"},
        {"exit status 137", {EXIT(137)}, VERDICT_ERROR, 137, "status 137"},
        {"exit status 124", {EXIT(124)}, VERDICT_ERROR, 124, "status 124"},
        {"exit status of SIGSYS", {EXIT(128 + SIGSYS)}, VERDICT_ERROR, 128 + SIGSYS, "status 159"},

        /* 1. lost before all. */
        {"lost", {.started = true, .stop = STOP_LOST, ALL_HITS}, VERDICT_LOST, 116, "outcome is unknown"},
        {"lost, though reaped", {EXIT(0), .stop = STOP_LOST}, VERDICT_LOST, 116, "outcome is unknown"},
        {"nobody saw the end", {.started = true, ALL_HITS}, VERDICT_LOST, 116, "outcome is unknown"},

        /* 2. our stop before counters and signals. */
        {"timeout", {KILLED(SIGKILL), .stop = STOP_TIMEOUT, ALL_HITS}, VERDICT_TIMEOUT, 124, "time limit of 30 s"},
        {"timeout, not reaped", {.started = true, .stop = STOP_TIMEOUT}, VERDICT_TIMEOUT, 124, "time limit"},
        {"timeout, exits 0 on SIGINT", {EXIT(0), .stop = STOP_TIMEOUT}, VERDICT_TIMEOUT, 124, "time limit"},
        {"timeout of the compiler", {KILLED(SIGKILL), .stop = STOP_TIMEOUT, .compiling = true}, VERDICT_TIMEOUT, 124,
         "while compiling"},
        {"cpu stop", {KILLED(SIGKILL), .stop = STOP_CPU, ALL_HITS, .cpu_usec = 10240000}, VERDICT_CPU, 122,
         "limit of 10 s (used 10.2 s)"},
        {"disk stop", {KILLED(SIGKILL), .stop = STOP_DISK, .oom_kills = 1, .disk_peak_bytes = 300 * MIB}, VERDICT_DISK,
         120, "disk limit of 256 MB (peak 300 MB)"},
        {"inode stop", {KILLED(SIGKILL), .stop = STOP_DISK, .inodes_peak = 1000}, VERDICT_DISK, 120, "1000 files"},
        {"output stop", {KILLED(SIGKILL), .stop = STOP_OUTPUT, ALL_HITS}, VERDICT_OUTPUT, 121, "output limit of 1 MB"},
        {"cancelled", {KILLED(SIGKILL), .stop = STOP_CANCELLED, ALL_HITS}, VERDICT_CANCELLED, 130, "cancelled"},
        {"cancelled before it began", {.stop = STOP_CANCELLED}, VERDICT_CANCELLED, 130, "cancelled"},
        {"memory stop", {KILLED(SIGKILL), .stop = STOP_MEMORY}, VERDICT_MEMORY, 118, "memory limit of 512 MB"},

        /* 4. memory before the rest. */
        {"oom", {KILLED(SIGKILL), ALL_HITS, .memory_peak_bytes = 512 * MIB}, VERDICT_MEMORY, 118,
         "Stopped by the memory limit of 512 MB (peak 512 MB): process the data in smaller pieces"},
        {"oom of a child, then failed", {EXIT(1), .oom_kills = 2, .memory_peak_bytes = 512 * MIB}, VERDICT_MEMORY, 118, "memory limit"},
        {"oom of a group above", {KILLED(SIGKILL), .oom_kills = 1, .memory_peak_bytes = 40 * MIB}, VERDICT_MEMORY, 118, "a group above the box"},
        {"oom before SIGSYS", {KILLED(SIGSYS), ALL_HITS, .memory_peak_bytes = 512 * MIB}, VERDICT_MEMORY, 118, "memory limit"},
        {"oom of a child, ended well", {EXIT(0), .oom_kills = 1}, VERDICT_OK, 0, "ended well"},

        /* 5. syscall. */
        {"filter", {KILLED(SIGSYS), .pids_refused = 1, .disk_full = true}, VERDICT_SYSCALL, 123, "system call"},

        /* 6. pids. */
        {"pids by exit", {EXIT(1), .pids_refused = 3, .disk_full = true, .pids_peak = 64}, VERDICT_PIDS, 119,
         "limit of 64 processes and threads was reached (peak 64, 3 refused)"},
        {"pids by signal", {KILLED(SIGABRT), .pids_refused = 3}, VERDICT_PIDS, 119, "64 processes"},
        {"pids before SIGXCPU", {KILLED(SIGXCPU), .pids_refused = 3}, VERDICT_PIDS, 119, "64 processes"},
        {"pids, ended well", {EXIT(0), .pids_refused = 3}, VERDICT_OK, 0, "ended well"},
        {"pids of what it left", {EXIT(0), .pids_refused = 3, .tasks_left = 60, .pids_peak = 64}, VERDICT_PIDS, 119, "left running reached the limit of 64 processes and threads (peak 64, 3 refused)"},
        {"pids of what it left, not counted", {EXIT(0), .pids_full = true, .tasks_left = 63}, VERDICT_PIDS, 119, "left running reached the limit"},
        {"pids, and a process left", {EXIT(0), .pids_refused = 3, .tasks_left = 1}, VERDICT_OK, 0, "ended well"},
        {"many processes left", {EXIT(0), .tasks_left = 40}, VERDICT_OK, 0, "ended well"},
        {"pids of what a context left", {CLAIM(false), .pids_refused = 3, .tasks_left = 60}, VERDICT_PIDS, 119, "left running reached the limit"},

        /* 7. disk by a full place. */
        {"full", {EXIT(1), .disk_full = true, .disk_peak_bytes = 64 * MIB}, VERDICT_DISK, 120,
         "no room left to write (workspace 256 MB, /tmp 64 MB, peak 64 MB)"},
        {"full /tmp", {EXIT(1), .disk_full = FULL_TMP, .disk_peak_bytes = 256 * MIB}, VERDICT_DISK, 120, "no room left in /tmp (limit 64 MB)"},
        {"full /tmp, the flag", {EXIT(1), .disk_full = FULL_TMP}, VERDICT_DISK, 120, "--tmp-size"},
        {"full /dev/shm", {EXIT(1), .disk_full = FULL_SHM}, VERDICT_DISK, 120, "no room left in /dev/shm"},
        {"full workspace and /tmp", {EXIT(1), .disk_full = FULL_TMP | FULL_WORKSPACE, .disk_peak_bytes = 300 * MIB}, VERDICT_DISK, 120, "disk limit of 256 MB"},
        {"full place of the code", {EXIT(3), .disk_full = FULL_CODE, .disk_peak_bytes = 300 * MIB}, VERDICT_DISK, 120, "no room left in /run/glovebox"},
        {"full place of the code, and the workspace", {EXIT(3), .disk_full = FULL_CODE | FULL_WORKSPACE, .disk_peak_bytes = 300 * MIB}, VERDICT_DISK, 120,
         "disk limit of 256 MB"},
        {"full workspace, the flag", {EXIT(1), .disk_full = FULL_WORKSPACE, .disk_peak_bytes = 256 * MIB}, VERDICT_DISK, 120, "with --disk"},
        {"full workspace", {EXIT(1), .disk_full = true, .disk_peak_bytes = 256 * MIB}, VERDICT_DISK, 120, "disk limit of 256 MB"},
        {"full before SIGXCPU", {KILLED(SIGXCPU), .disk_full = true}, VERDICT_DISK, 120, "no room"},
        /* Full from an earlier run of the session: nothing is known of this failure. */
        {"full before", {EXIT(3), .disk_full = true, .disk_full_before = true, .disk_peak_bytes = 256 * MIB}, VERDICT_ERROR, 3, "status 3."},
        {"full before a crash", {KILLED(SIGSEGV), .disk_full = true, .disk_full_before = true}, VERDICT_ERROR, 128 + SIGSEGV, "SIGSEGV"},
        {"full before, pids", {EXIT(1), .disk_full = true, .disk_full_before = true, .pids_refused = 1}, VERDICT_PIDS, 119, "64 processes"},
        {"full before, disk stop", {KILLED(SIGKILL), .stop = STOP_DISK, .disk_full = true, .disk_full_before = true}, VERDICT_DISK, 120, "no room"},
        {"full before, room at the end", {EXIT(1), .disk_full_before = true}, VERDICT_ERROR, 1, "status 1."},
        {"full, ended well", {EXIT(0), .disk_full = true}, VERDICT_OK, 0, "ended well"},

        /* Claims of an interpreter that lives. */
        {"claims to be done", {CLAIM(false)}, VERDICT_OK, 0, "The code ended well."},
        {"claims an error", {CLAIM(true)}, VERDICT_ERROR, 1, "The code failed: the error"},
        {"claims to have exited", {CLAIM(true), .claimed_ending = ENDING_OF_EXIT(3), .error_name = "SystemExit"}, VERDICT_ERROR, 3, "exited with status 3."},
        {"claims to have exited well", {CLAIM(false), .claimed_ending = ENDING_OF_EXIT(0)}, VERDICT_OK, 0, "ended well"},
        {"claims a status, and ends with another", {CLAIM(true), .claimed_ending = ENDING_OF_EXIT(3), .ending = ENDING_OF_EXIT(4)}, VERDICT_ERROR, 4, "status 4"},
        {"claims a status, over a limit", {CLAIM(true), .claimed_ending = ENDING_OF_EXIT(3), ALL_HITS, .memory_peak_bytes = 512 * MIB}, VERDICT_MEMORY, 118, "memory limit"},
        {"claims an error by name", {CLAIM(true), .error_name = "numpy.linalg.LinAlgError"}, VERDICT_ERROR, 1, "failed with numpy.linalg.LinAlgError: "},
        {"a name that is none", {CLAIM(true), .error_name = "Stopped by the memory limit"}, VERDICT_ERROR, 1, "The code failed: the error"},
        {"an empty name", {CLAIM(true), .error_name = ""}, VERDICT_ERROR, 1, "The code failed: the error"},
        {"claims to be done, over a limit", {CLAIM(false), ALL_HITS}, VERDICT_OK, 0, "ended well"},
        {"claims an error, oom", {CLAIM(true), ALL_HITS, .memory_peak_bytes = 512 * MIB}, VERDICT_MEMORY, 118, "memory limit"},
        {"claims an error, pids", {CLAIM(true), .pids_refused = 1, .disk_full = true}, VERDICT_PIDS, 119, "64 processes"},
        {"claims an error, full", {CLAIM(true), .disk_full = true}, VERDICT_DISK, 120, "no room"},
        {"claims an error, full before", {CLAIM(true), .disk_full = true, .disk_full_before = true, .error_name = "NameError"}, VERDICT_ERROR, 1,
         "failed with NameError: "},
        {"claims to be done after the time", {CLAIM(false), .stop = STOP_TIMEOUT}, VERDICT_TIMEOUT, 124, "time limit"},
        {"claims and is lost", {CLAIM(false), .stop = STOP_LOST}, VERDICT_LOST, 116, "unknown"},
        {"a fact before a claim", {EXIT(3), .claimed = true}, VERDICT_ERROR, 3, "status 3"},
        {"a broken channel", {KILLED(SIGKILL), .channel_broken = true, ALL_HITS, .broken_rule = "a malformed frame"}, VERDICT_ERROR,
         128 + SIGKILL, "control channel (a malformed frame)"},
        {"a broken channel after a claim", {CLAIM(false), .channel_broken = true}, VERDICT_ERROR, 1, "control channel"},
        {"a broken channel after the time", {CLAIM(false), .channel_broken = true, .stop = STOP_TIMEOUT}, VERDICT_TIMEOUT, 124, "time limit"},

        /* 8, 9. the limits the kernel tells by a signal. */
        {"SIGXCPU", {KILLED(SIGXCPU), .cpu_usec = 10000000}, VERDICT_ERROR, 128 + SIGXCPU, "SIGXCPU"},
        {"SIGXFSZ", {KILLED(SIGXFSZ)}, VERDICT_ERROR, 128 + SIGXFSZ, "SIGXFSZ"},
};

static void test_table(void **state)
{
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const struct verdict_case *c = &cases[i];
                struct verdict v;
                verdict_decide(&c->facts, &policy, &v);
                if (v.kind != c->kind)
                        fail_msg("%s: %s, not %s", c->what, verdict_name(v.kind), verdict_name(c->kind));
                if (verdict_exit_status(&v, &c->facts) != c->exit_status)
                        fail_msg("%s: exit status %d, not %d", c->what, verdict_exit_status(&v, &c->facts), c->exit_status);
                if (!strstr(v.message, c->says))
                        fail_msg("%s: \"%s\" does not say \"%s\"", c->what, v.message, c->says);
        }
}

/* One sentence, whole: with the largest numbers it must still end with its full stop. */
static void test_messages_fit(void **state)
{
        static const struct policy huge = {
                .mem_limit_bytes = UINT64_MAX - 1, .timeout_usec = UINT64_MAX, .cpu_time_usec = UINT64_MAX,
                .pids_limit = UINT64_MAX, .tmp_size_bytes = UINT64_MAX, .disk_limit_bytes = UINT64_MAX,
                .inode_limit = UINT64_MAX, .output_limit_bytes = UINT64_MAX,
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct run_facts f = cases[i].facts;
                f.compiling = true;
                f.language = "a language with a name that is much longer than any sane name of one";
                f.memory_min_bytes = UINT64_MAX;
                f.wall_usec = f.cpu_usec = f.memory_peak_bytes = f.pids_peak = f.disk_peak_bytes = UINT64_MAX - 1;
                f.output_bytes = UINT64_MAX;
                f.known = ALL_KNOWN;
                if (f.pids_refused > 0)
                        f.pids_refused = UINT64_MAX;

                struct verdict v;
                verdict_decide(&f, &huge, &v);
                assert_int_equal(v.message[strlen(v.message) - 1], '.');
                assert_null(strchr(v.message, '\n'));
        }
}

/* An amount that was not observed is neither in the message nor in the amounts. */
static void test_unknown_amounts(void **state)
{
        static const struct run_facts facts[] = {
                {KILLED(SIGKILL), .stop = STOP_MEMORY, .memory_peak_bytes = 7},
                {KILLED(SIGKILL), .stop = STOP_CPU, .cpu_usec = 7},
                {EXIT(1), .pids_refused = 3, .pids_peak = 7},
                {EXIT(1), .stop = STOP_DISK, .disk_peak_bytes = 7},
                {EXIT(1), .disk_full = true, .disk_peak_bytes = 7},
                {EXIT(1), .stop = STOP_DISK, .host_full = true, .disk_peak_bytes = 7},
                {KILLED(SIGKILL), .stop = STOP_TIMEOUT, .wall_usec = 7},
                {KILLED(SIGKILL), .stop = STOP_CANCELLED, .wall_usec = 7},
        };

        for (size_t i = 0; i < ARRAY_SIZE(facts); i++) {
                struct run_facts f = facts[i];
                struct verdict v;

                f.known = (struct known_amounts){0};
                verdict_decide(&f, &policy, &v);
                if (v.peak_known || v.peak != 0 || strpbrk(v.message, "(7") || strstr(v.message, "peak"))
                        if (!strstr(v.message, "(workspace 256 MB, /tmp 64 MB)"))
                                fail_msg("%zu: peak %llu: %s", i, (unsigned long long)v.peak, v.message);
        }
        struct run_facts hidden = {KILLED(SIGKILL), .stop = STOP_DISK, .disk_hidden = true, .disk_error = EMFILE};
        struct verdict v;
        verdict_decide(&hidden, &policy, &v);
        assert_non_null(strstr(v.message, "the host could not measure what was written (Too many open files)"));
        struct run_facts killed = {KILLED(SIGKILL)};
        killed.known.kills = false;
        verdict_decide(&killed, &policy, &v);
        assert_null(strstr(v.message, "not by a limit"));
}

static void test_amounts(void **state)
{
        static const struct {
                struct run_facts facts;
                uint64_t limit, peak;
                const char *unit;
        } rows[] = {
                {{KILLED(SIGKILL), .oom_kills = 1, .memory_peak_bytes = 7}, 512 * MIB, 7, "bytes"},
                {{KILLED(SIGKILL), .stop = STOP_TIMEOUT, .wall_usec = 31}, 30000000, 31, "usec"},
                {{KILLED(SIGKILL), .stop = STOP_CPU, .cpu_usec = 11}, 10000000, 11, "usec"},
                {{EXIT(1), .pids_refused = 1, .pids_peak = 64}, 64, 64, "tasks"},
                {{EXIT(1), .disk_full = true, .inodes_peak = 1001}, 1000, 1001, "inodes"},
                {{EXIT(1), .stop = STOP_DISK, .disk_peak_bytes = 257 * MIB}, 256 * MIB, 257 * MIB, "bytes"},
                {{EXIT(1), .stop = STOP_OUTPUT, .output_bytes = 99}, 1 * MIB, 99, "bytes"},
                {{EXIT(0)}, 0, 0, NULL},
                {{EXIT(1)}, 0, 0, NULL},
                {{KILLED(SIGSYS)}, 0, 0, NULL},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct verdict v;
                verdict_decide(&rows[i].facts, &policy, &v);
                assert_int_equal(v.limit, rows[i].limit);
                assert_int_equal(v.peak, rows[i].peak);
                if (rows[i].unit)
                        assert_string_equal(v.unit, rows[i].unit);
                else
                        assert_null(v.unit);
        }
}

static void test_full_place(void **state)
{
        static const struct policy huge = {.tmp_size_bytes = UINT64_MAX, .disk_limit_bytes = UINT64_MAX, .inode_limit = UINT64_MAX};
        struct run_facts f = {EXIT(1), .disk_full = true, .disk_peak_bytes = 256 * MIB, .inodes_peak = 7};
        char text[FULL_PLACE_MAX];

        assert_string_equal(verdict_full_place(&f, &policy, text), "a writable place had no room left at the end");
        f.disk_full_before = true;
        assert_string_equal(verdict_full_place(&f, &policy, text),
                            "a writable place was full before the run and at its end (workspace 256 MB, /tmp 64 MB, peak 256 MB): no more can be written "
                            "there until something is deleted");
        f.disk_full = FULL_TMP;
        assert_string_equal(verdict_full_place(&f, &policy, text),
                            "a writable place was full before the run and at its end: /tmp (limit 64 MB): no more can be written there until something is "
                            "deleted; ask for more with --tmp-size");
        f.disk_peak_bytes = 1;
        f.inodes_peak = 1000;
        assert_string_equal(verdict_full_place(&f, &policy, text),
                            "a writable place was full before the run and at its end (limit of 1000 files and directories, peak 1000): no more can be made "
                            "there until some are deleted");
        /* With the largest numbers it is still whole. */
        f.inodes_peak = UINT64_MAX;
        assert_non_null(strstr(verdict_full_place(&f, &huge, text), "some are deleted"));
        f.disk_peak_bytes = UINT64_MAX;
        assert_non_null(strstr(verdict_full_place(&f, &huge, text), "with --tmp-size"));
        f.disk_full = FULL_ALL;
        assert_non_null(strstr(verdict_full_place(&f, &huge, text), "something is deleted"));
}

static void test_memory_below_start(void **state)
{
        struct policy small = policy;
        struct run_facts f = {KILLED(SIGKILL), .oom_kills = 1, .memory_peak_bytes = 512 * MIB, .language = "python", .memory_min_bytes = 16 * MIB};
        struct verdict v;

        small.mem_limit_bytes = 4 * MIB;
        verdict_decide(&f, &small, &v);
        assert_int_equal(v.kind, VERDICT_MEMORY);
        assert_non_null(strstr(v.message, "python needs about 16 MB to start"));

        /* With no counter to prove it, it is a hint and not the verdict. */
        f.oom_kills = 0;
        verdict_decide(&f, &small, &v);
        assert_int_equal(v.kind, VERDICT_ERROR);
        assert_non_null(strstr(v.message, "python needs about 16 MB to start"));

        /* Enough to start: nothing about it. */
        f.oom_kills = 1;
        verdict_decide(&f, &policy, &v);
        assert_null(strstr(v.message, "to start"));
}

static void test_asks_with_the_flag(void **state)
{
        struct run_facts f = {KILLED(SIGKILL), .oom_kills = 1, .memory_peak_bytes = 512 * MIB};
        struct verdict v;

        verdict_decide(&f, &policy, &v);
        assert_non_null(strstr(v.message, "or ask for more with --memory."));
}

static void test_human_units(void **state)
{
        static const struct {
                uint64_t bytes;
                const char *says;
        } rows[] = {
                {0, "(0 bytes printed)"},           {1023, "(1023 bytes printed)"},     {1024, "(1 KB printed)"},
                {1536, "(1.5 KB printed)"},         {MIB - 1, "(1 MB printed)"},        {MIB + 1, "(1 MB printed)"},
                {512 * MIB, "(512 MB printed)"},    {3 * GIB / 2, "(1.5 GB printed)"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct run_facts f = {KILLED(SIGKILL), .stop = STOP_OUTPUT, .output_bytes = rows[i].bytes};
                struct verdict v;
                verdict_decide(&f, &policy, &v);
                if (!strstr(v.message, rows[i].says))
                        fail_msg("\"%s\" does not say \"%s\"", v.message, rows[i].says);
        }
}

static void test_names(void **state)
{
        char name[SIGNAL_NAME_MAX];

        assert_string_equal(verdict_name(VERDICT_OK), "ok");
        assert_string_equal(verdict_name(VERDICT_LOST), "lost");
        assert_string_equal(verdict_name((enum verdict_kind)99), "unknown");
        assert_string_equal(signal_name(SIGSEGV, name), "SIGSEGV");
        assert_string_equal(signal_name(SIGRTMIN + 3, name), "SIGRTMIN+3");
        assert_string_equal(signal_name(32, name), "SIG32");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_table),
                cmocka_unit_test(test_messages_fit),
                cmocka_unit_test(test_amounts),
                cmocka_unit_test(test_unknown_amounts),
                cmocka_unit_test(test_full_place),
                cmocka_unit_test(test_memory_below_start),
                cmocka_unit_test(test_asks_with_the_flag),
                cmocka_unit_test(test_human_units),
                cmocka_unit_test(test_names),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
