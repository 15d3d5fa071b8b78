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
        gb_session_close(NULL);
        gb_file_list_free(NULL);
        gb_findings_free(NULL);
        assert_int_equal(gb_context_close(NULL, NULL), 0);
}

static void test_session_arguments(void **state)
{
        gb_session_options options = GB_SESSION_OPTIONS_INIT;
        gb_context_run_options run = GB_CONTEXT_RUN_OPTIONS_INIT;
        gb_run_options once = GB_RUN_OPTIONS_INIT;
        gb_session *session = NULL;
        gb_context *context = NULL;
        gb_result *result = NULL;
        gb_file_list *list = NULL;
        gb_error err = {0};
        void *bytes = NULL;
        size_t size;

        assert_int_equal(options.size, sizeof(options));
        assert_int_equal(run.size, sizeof(run));
        assert_true(run.code_size == GB_CODE_IS_TEXT && run.stdin_fd == -1 && run.cancel_fd == -1);
        assert_int_equal(gb_session_open(NULL, &options, &session, &err), -EINVAL);
        assert_non_null(strstr(err.message, "a policy"));
        options.size = 8;
        assert_int_equal(gb_session_open(NULL, &options, &session, &err), -EINVAL);
        assert_non_null(strstr(err.message, "GB_SESSION_OPTIONS_INIT"));
        assert_int_equal(gb_context_open(NULL, "python", &context, &err), -EINVAL);
        assert_int_equal(gb_context_restart(NULL, &err), -EINVAL);
        assert_int_equal(gb_context_interrupt(NULL, &err), -EINVAL);
        assert_int_equal(gb_context_run(NULL, &run, &result, &err), -EINVAL);
        assert_non_null(strstr(err.message, "no code"));
        run.code = once.code = "1";
        assert_int_equal(gb_context_run(NULL, &run, &result, &err), -EINVAL);
        assert_non_null(strstr(err.message, "a context"));
        run.code_size = 1 << 30; /* never read */
        assert_int_equal(gb_context_run(NULL, &run, &result, &err), -EFBIG);
        assert_int_equal(gb_session_run(NULL, &once, &result, &err), -EINVAL);
        assert_int_equal(gb_file_write(NULL, "a", "", 0, 0, &err), -EINVAL);
        assert_int_equal(gb_file_read(NULL, "a", &bytes, &size, &err), -EINVAL);
        assert_int_equal(gb_file_remove(NULL, "a", &err), -EINVAL);
        assert_int_equal(gb_directory_make(NULL, "a", 0, &err), -EINVAL);
        assert_int_equal(gb_file_list_read(NULL, ".", &list, &err), -EINVAL);
        assert_true(!session && !context && !result && !bytes && !list);
}

/* A session with a template that is not there: refused before anything starts. */
static void test_unknown_template(void **state)
{
        gb_session_options options = GB_SESSION_OPTIONS_INIT;
        gb_policy *policy = NULL;
        gb_session *session = NULL;
        gb_error err = {0};

        assert_int_equal(gb_policy_load(NULL, NULL, &policy, &err), 0);
        options.template_name = "no-such-template";
        assert_true(gb_session_open(policy, &options, &session, &err) < 0);
        assert_non_null(strstr(err.message, "no-such-template"));
        assert_null(session);
        gb_policy_free(policy);
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

static void test_secrets(void **state)
{
        static const char secret[] = "correct horse battery";
        gb_policy *policy = NULL;
        gb_error err = {0};

        assert_int_equal(gb_policy_load(NULL, NULL, &policy, &err), 0);
        assert_int_equal(gb_policy_add_secret(NULL, "A", secret, sizeof(secret) - 1, NULL, &err), -EINVAL);
        assert_int_equal(gb_policy_add_secret(policy, "A", NULL, 0, NULL, &err), -EINVAL);
        assert_int_equal(gb_policy_read_secrets(policy, -1, &err), -EINVAL);
        assert_int_equal(err.code, GB_E_USAGE);
        assert_int_equal(gb_policy_add_secret(policy, "A", secret, sizeof(secret) - 1, NULL, &err), 0);
        assert_int_equal(gb_policy_add_secret(policy, "B", secret, sizeof(secret), "/run/secrets/b", &err), 0); /* with a NUL: any bytes */
        /* What is refused is told without the value. */
        assert_true(gb_policy_add_secret(policy, "NO-NAME", secret, sizeof(secret) - 1, NULL, &err) < 0);
        assert_null(strstr(err.message, secret));
        assert_true(gb_policy_add_secret(policy, "C", secret, 4, NULL, &err) < 0);
        assert_null(strstr(err.message, "corr"));
        assert_true(gb_policy_add_secret(policy, "C", secret, sizeof(secret) - 1, "/etc/c", &err) < 0);
        assert_null(strstr(err.message, secret));
        gb_policy_free(policy);
}

/* Shell code is looked at in this process; Python by the reader, end to end. */
static void test_guard_check(void **state)
{
        static const char token[] = "0123456789-abcdef", leak[] = "echo 0123456789-abcdef";
        gb_policy *policy = NULL;
        gb_findings *findings = NULL;
        gb_finding f;
        gb_error err = {0};

        assert_int_equal(gb_guard_check(NULL, "bash", "true", GB_CODE_IS_TEXT, &findings, &err), -EINVAL);
        assert_int_equal(gb_policy_load(NULL, NULL, &policy, &err), 0);
        assert_int_equal(gb_guard_check(policy, "bash", NULL, 0, &findings, &err), -EINVAL);
        assert_true(gb_guard_check(policy, "no-such-language", "true", GB_CODE_IS_TEXT, &findings, &err) < 0);
        assert_null(findings);
        assert_int_equal(gb_guard_check(policy, "bash", "true", GB_CODE_IS_TEXT, &findings, &err), 0);
        assert_true(gb_findings_count(findings) == 0 && !gb_findings_is_blocked(findings) && gb_findings_dropped(findings) == 0);
        assert_int_equal(gb_findings_get(findings, 0, &f), -ERANGE);

        assert_int_equal(gb_guard_check(policy, "bash", "true\ncat ~/.aws/credentials", GB_CODE_IS_TEXT, &findings, &err), 0);
        assert_true(gb_findings_is_blocked(findings));
        assert_int_equal(gb_findings_get(findings, 0, &f), 0);
        assert_string_equal(f.rule, "aws-credentials");
        assert_string_equal(f.set, "credential-files");
        assert_string_equal(f.action, "block");
        assert_true(f.line == 2 && f.column > 1 && f.message[0] && f.remedy[0]);
        assert_int_equal(gb_findings_get(findings, gb_findings_count(findings), &f), -ERANGE);
        gb_findings_free(findings);

        /* A secret in the code is remarked, and refused when the policy says so. */
        assert_int_equal(gb_policy_add_secret(policy, "TOKEN", token, sizeof(token) - 1, NULL, &err), 0);
        for (int strict = 0; strict < 2; strict++) {
                findings = NULL;
                assert_int_equal(gb_policy_set(policy, "scrub", strict ? "strict" : "on", &err), 0);
                assert_int_equal(gb_guard_check(policy, "bash", leak, sizeof(leak) - 1, &findings, &err), 0);
                assert_int_equal(gb_findings_get(findings, 0, &f), 0);
                assert_string_equal(f.rule, "secret-in-code");
                assert_null(strstr(f.message, token));
                assert_int_equal(gb_findings_is_blocked(findings), strict);
                gb_findings_free(findings);
        }
        assert_int_equal(gb_policy_set(policy, "guard_rules", "no-such-rule=off", &err), 0);
        findings = NULL;
        assert_true(gb_guard_check(policy, "bash", "true", GB_CODE_IS_TEXT, &findings, &err) < 0);
        assert_non_null(strstr(err.message, "no-such-rule"));
        assert_null(findings);
        gb_policy_free(policy);
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
                cmocka_unit_test(test_session_arguments),
                cmocka_unit_test(test_unknown_template),
                cmocka_unit_test(test_missing_arguments),
                cmocka_unit_test(test_wrong_options),
                cmocka_unit_test(test_options_of_other_versions),
                cmocka_unit_test(test_secrets),
                cmocka_unit_test(test_guard_check),
                cmocka_unit_test(test_policy_not_found),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
