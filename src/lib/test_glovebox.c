/* SPDX-License-Identifier: Apache-2.0
 *
 * The public API as a stranger meets it: only public headers. What runs code is tested end to
 * end; here is what must be refused before anything runs. */
#include <glovebox/glovebox.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_names(void **state)
{
        assert_string_equal(gb_version(), GLOVEBOX_VERSION);
        assert_string_equal(gb_error_name(GB_E_POLICY), "policy");
        assert_string_equal(gb_error_name(12345), "internal");
}

static void test_initializer(void **state)
{
        gb_run_options o = GB_RUN_OPTIONS_INIT;

        assert_int_equal(o.size, sizeof(o));
        assert_true(o.code_size == GB_CODE_IS_TEXT);
        assert_int_equal(o.stdin_fd, -1);
        assert_int_equal(o.cancel_fd, -1);
        assert_null(o.code);
        assert_null(o.data);
}

static void test_frees_take_null(void **state)
{
        gb_free(NULL);
        gb_policy_free(NULL);
        gb_result_free(NULL);
}

static void test_missing_arguments(void **state)
{
        gb_run_options o = GB_RUN_OPTIONS_INIT;
        gb_result *result = NULL;
        gb_error err = {0};

        assert_int_equal(gb_run(NULL, NULL, &result, &err), -EINVAL);
        o.code = "1";
        assert_int_equal(gb_run(NULL, &o, &result, &err), -EINVAL);
        assert_int_equal(err.code, GB_E_USAGE);
        assert_non_null(strstr(err.message, "a policy"));
        assert_int_equal(gb_run(NULL, &o, &result, NULL), -EINVAL);
        assert_int_equal(gb_policy_set(NULL, "mem_limit", "1MB", &err), -EINVAL);
        assert_int_equal(gb_policy_load(NULL, NULL, NULL, &err), -EINVAL);
        assert_null(result);
}

static void expect_refused(const gb_run_options *o, int r, const char *says)
{
        gb_result *result = NULL;
        gb_error err = {0};

        assert_int_equal(gb_run(NULL, o, &result, &err), r);
        if (!strstr(err.message, says))
                fail_msg("\"%s\" does not say \"%s\"", err.message, says);
        assert_null(result);
}

static void test_wrong_options(void **state)
{
        static const char *const names[] = {"", ".", "..", "a/b", "/etc/passwd"};
        gb_run_options o = GB_RUN_OPTIONS_INIT;

        expect_refused(&o, -EINVAL, "no code");
        o.code = "1";
        o.code_size = 1 << 30; /* never read */
        expect_refused(&o, -EFBIG, "bytes");
        o.code_size = 1;
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                o.name = names[i];
                expect_refused(&o, -EINVAL, "plain file name");
        }
}

/* A caller compiled against a later version, with a field more. */
static void test_options_of_other_versions(void **state)
{
        struct {
                gb_run_options o;
                uint64_t later;
        } newer = {.o = GB_RUN_OPTIONS_INIT};

        newer.o.code = "1";
        newer.o.size = sizeof(newer);
        expect_refused(&newer.o, -EINVAL, "a policy"); /* the options themselves were taken */
        newer.later = 1;
        expect_refused(&newer.o, -E2BIG, "does not have");

        newer.o.size = 0;
        expect_refused(&newer.o, -EINVAL, "GB_RUN_OPTIONS_INIT");
        newer.o.size = SIZE_MAX;
        expect_refused(&newer.o, -EINVAL, "GB_RUN_OPTIONS_INIT");
}

static void test_policy_not_found(void **state)
{
        gb_policy *policy = NULL;
        gb_error err = {0};

        assert_true(gb_policy_load("/nonexistent/policy.yaml", NULL, &policy, &err) < 0);
        assert_null(policy);
        assert_non_null(strstr(err.message, "/nonexistent/policy.yaml"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_initializer),
                cmocka_unit_test(test_frees_take_null),
                cmocka_unit_test(test_missing_arguments),
                cmocka_unit_test(test_wrong_options),
                cmocka_unit_test(test_options_of_other_versions),
                cmocka_unit_test(test_policy_not_found),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
