/* SPDX-License-Identifier: Apache-2.0
 *
 * The judges of `glovebox verify`: whatever is missing in what a probe said is a failure. */
#include "cli/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define TOKEN "0123456789abcdef0123456789abcdef"
#define OTHER_TOKEN "ffffffffffffffffffffffffffffffff"

static enum outcome outcome_of(const char *said, enum verdict_kind kind, judge_function *function)
{
        struct verify v = {.host = VERIFY_HOST_INIT};
        struct result result = {.verdict = {.kind = kind}, .facts = {.known = ALL_KNOWN}};
        struct policy policy = {.mem_limit_bytes = 64 << 20};
        struct trial t = {.v = &v, .result = &result, .policy = &policy};
        struct row row = {.outcome = OUTCOME_PASS};

        for (int i = 0; i < CONTROL_COUNT; i++)
                result.controls.status[i].state = CONTROL_ENFORCED;
        strcpy(v.host.token, TOKEN);
        buffer_init(&result.out, 4096);
        assert_int_equal(buffer_add_string(&result.out, said), 0);
        trial_read(&t);
        function(&t, &row);
        buffer_done(&result.out);
        return row.outcome;
}

static void test_whole_report(void **state)
{
        assert_int_equal(outcome_of(TOKEN " ran x\n" TOKEN " held a\n" TOKEN " note n\n" TOKEN " held b\n" TOKEN " done 2\n", VERDICT_OK,
                                    judge_report), OUTCOME_PASS);
}

static void test_something_missing(void **state)
{
        static const char *const reports[] = {
                "",                                                                       /* silence */
                TOKEN " ran x\n",                                                         /* no attempt, no end */
                TOKEN " ran x\n" TOKEN " done 0\n",                                       /* no attempt */
                TOKEN " held a\n" TOKEN " done 1\n",                                      /* no beginning */
                TOKEN " ran x\n" TOKEN " held a\n",                                       /* no end */
                TOKEN " ran x\n" TOKEN " held a\n" TOKEN " done 1",                       /* cut */
                TOKEN " ran x\n" TOKEN " held a\n" TOKEN " done 2\n",                     /* one attempt is lost */
                TOKEN " ran x\n" TOKEN " held a\n" TOKEN " open b\n" TOKEN " done 2\n",   /* one succeeded */
                "x" TOKEN " ran x\n" "x" TOKEN " held a\n" "x" TOKEN " done 1\n",         /* not from the probe */
                OTHER_TOKEN " ran x\n" OTHER_TOKEN " held a\n" OTHER_TOKEN " done 1\n",   /* another token */
        };

        for (size_t i = 0; i < ARRAY_SIZE(reports); i++)
                assert_int_equal(outcome_of(reports[i], VERDICT_OK, judge_report), OUTCOME_FAIL);
}

static void test_wrong_verdict(void **state)
{
        const char *whole = TOKEN " ran x\n" TOKEN " held a\n" TOKEN " done 1\n";

        assert_int_equal(outcome_of(whole, VERDICT_OK, judge_report), OUTCOME_PASS);
        for (int kind = VERDICT_OK + 1; kind <= VERDICT_LOST; kind++)
                assert_int_equal(outcome_of(whole, (enum verdict_kind)kind, judge_report), OUTCOME_FAIL);
}

static void test_bombs(void **state)
{
        assert_int_equal(outcome_of(TOKEN " ran memory\n", VERDICT_MEMORY, judge_memory), OUTCOME_PASS);
        assert_int_equal(outcome_of("", VERDICT_MEMORY, judge_memory), OUTCOME_FAIL);
        assert_int_equal(outcome_of(TOKEN " ran memory\n", VERDICT_OK, judge_memory), OUTCOME_FAIL);
        assert_int_equal(outcome_of(TOKEN " ran memory\n" TOKEN " open had it\n", VERDICT_MEMORY, judge_memory), OUTCOME_FAIL);
        assert_int_equal(outcome_of(TOKEN " ran disk_tmp\n", VERDICT_DISK, judge_disk), OUTCOME_PASS);
        assert_int_equal(outcome_of(TOKEN " ran disk_tmp\n", VERDICT_TIMEOUT, judge_disk), OUTCOME_FAIL);
}

static void test_weaker_needs_a_run(void **state)
{
        struct verify v = {.host = VERIFY_HOST_INIT};
        struct result result = {.verdict = {.kind = VERDICT_ERROR}};
        struct policy policy = {.mem_limit_bytes = 64 << 20};
        struct trial t = {.v = &v, .result = &result, .policy = &policy};
        struct row row = {.outcome = OUTCOME_PASS};

        result.controls.status[CONTROL_MEMORY].state = CONTROL_WEAKER;
        judge_memory(&t, &row);
        assert_int_equal(row.outcome, OUTCOME_FAIL);
        t.ran = true;
        judge_memory(&t, &row);
        assert_int_equal(row.outcome, OUTCOME_WEAKER);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whole_report), cmocka_unit_test(test_something_missing),
                cmocka_unit_test(test_wrong_verdict), cmocka_unit_test(test_bombs),
                cmocka_unit_test(test_weaker_needs_a_run),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
