/* SPDX-License-Identifier: Apache-2.0
 *
 * What a policy has looked at: code and input before a run, output on its way. */
#include "engine/inlet.h"
#include "engine/outlet.h"
#include "engine/watch.h"

#include "base/fd.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* In pieces: who looks for secrets in source code finds none here. */
#define KEY "AKIA" "Q7RWZ3NB5TEXV2KM"
#define OWN "a secret of nobody's shape"

static const struct language python = {.name = (char *)(uintptr_t)"python"};

static struct policy *make_policy(const char *text)
{
        struct policy *p = NULL;
        gb_error err = {0};

        if (policy_parse("test.yaml", text, strlen(text), NULL, &p, &err) < 0)
                fail_msg("%s", err.message);
        return p;
}

static struct watch *make_watch(const struct policy *p)
{
        struct watch *w = NULL;
        gb_error err = {0};

        if (watch_open(p, &w, &err) < 0)
                fail_msg("%s", err.message);
        return w;
}

static int look(const struct watch *w, const char *code, int stdin_fd, struct result *result)
{
        gb_error err = {0};
        struct watch_subject subject = {.language = &python, .code = code, .code_size = strlen(code), .stdin_fd = stdin_fd};

        int r = watch_before(w, &subject, result, &err);
        if (r < 0)
                fail_msg("%s", err.message);
        return r;
}

static int file_with(const char *text)
{
        int fd = memfd_create("input", MFD_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        return fd;
}

static struct outlet outlet_to(const struct watch *w, struct result *result, uint64_t limit)
{
        return (struct outlet){.result = result, .scrub = watch_scrub(w), .limit_bytes = limit, .keep = true};
}

/* Catalogue 179: one byte at a time, and the other stream between any two. */
static void test_output_in_bytes(void **state)
{
        _cleanup_policy_ struct policy *p = make_policy("scrub: on\n");
        gb_error err = {0};
        assert_int_equal(policy_add_secret(p, "OWN", OWN, strlen(OWN), NULL, &err), 0);
        _cleanup_watch_ struct watch *w = make_watch(p);
        _cleanup_result_ struct result *result = result_new(p, &python, "native", true);
        struct outlet o = outlet_to(w, result, 1000);
        static const char text[] = "[" KEY "] and " OWN ".\n";

        for (size_t i = 0; i < strlen(text); i++) {
                assert_int_equal(outlet_write(&o, RUN_STDOUT, text + i, 1), 0);
                assert_int_equal(outlet_write(&o, RUN_STDERR, "e", 1), 0);
        }
        assert_int_equal(outlet_end(&o), 0);
        outlet_done(&o);
        assert_int_equal(result->out.size, strlen("[[scrubbed:aws-access-key]] and [scrubbed:OWN].\n"));
        assert_memory_equal(result->out.data, "[[scrubbed:aws-access-key]] and [scrubbed:OWN].\n", result->out.size);
        assert_int_equal(result->err.size, strlen(text));
        assert_int_equal(result->scrubbed.total, 2);
        assert_false(result->truncated);
        assert_int_equal(result->facts.output_bytes, 2 * strlen(text)); /* what the program wrote, not what came out */
}

static void test_output_limit(void **state)
{
        _cleanup_policy_ struct policy *p = make_policy("scrub: on\n");
        _cleanup_watch_ struct watch *w = make_watch(p);
        _cleanup_result_ struct result *result = result_new(p, &python, "native", true);
        struct outlet o = outlet_to(w, result, 10);

        assert_int_equal(outlet_write(&o, RUN_STDOUT, KEY, strlen(KEY)), 1); /* once, that the limit was passed */
        assert_int_equal(outlet_write(&o, RUN_STDOUT, KEY, strlen(KEY)), 0);
        assert_int_equal(outlet_end(&o), 0);
        outlet_done(&o);
        assert_true(result->truncated);
        assert_int_equal(result->out.size, SCRUB_SHOWN_MAX); /* what was cut may have been the beginning of more */
        assert_memory_equal(result->out.data, KEY, SCRUB_SHOWN_MAX);
}

static void test_scrub_off(void **state)
{
        _cleanup_policy_ struct policy *p = make_policy("scrub: off\n");
        _cleanup_watch_ struct watch *w = make_watch(p);
        _cleanup_result_ struct result *result = result_new(p, &python, "native", true);
        struct outlet o = outlet_to(w, result, 100);

        assert_null(watch_scrub(w));
        assert_int_equal(outlet_write(&o, RUN_STDOUT, KEY, strlen(KEY)), 0);
        assert_int_equal(outlet_end(&o), 0);
        outlet_done(&o);
        assert_memory_equal(result->out.data, KEY, strlen(KEY));
}

static void test_blocked(void **state)
{
        _cleanup_policy_ struct policy *p = make_policy("guard: on\n");
        _cleanup_watch_ struct watch *w = make_watch(p);
        _cleanup_result_ struct result *result = result_new(p, &python, "native", true);

        assert_int_equal(look(w, "x = 1\nopen('/var/run' '/docker.sock')\n", -1, result), 1);
        assert_int_equal(result->verdict.kind, VERDICT_BLOCKED);
        assert_string_equal(result->findings->rows[0].rule, "container-socket");
        assert_int_equal(result->findings->rows[0].line, 2);
        assert_int_equal(result->findings->rows[0].column, 6);
        assert_non_null(strstr(result->verdict.message, "container-socket"));
        assert_non_null(strstr(result->verdict.message, "line 2, column 6"));
}

static void test_switches(void **state)
{
        static const struct {
                const char *policy;
                int blocked;
                size_t findings;
        } rows[] = {
                {"guard: on\nguard_rules: {container-socket: warn}\n", 0, 1},
                {"guard: on\nguard_rules: {host-escape: off}\n", 0, 0},
                {"guard: on\nguard_rules: {host-escape: off, container-socket: block}\n", 1, 1}, /* a rule is stronger than its set */
                {"guard: strict\nguard_rules: {container-socket: warn}\n", 1, 1},
                {"guard: off\n", 0, 0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_policy_ struct policy *p = make_policy(rows[i].policy);
                _cleanup_watch_ struct watch *w = make_watch(p);
                _cleanup_result_ struct result *result = result_new(p, &python, "native", true);
                assert_int_equal(look(w, "open('/var/run/docker.sock')", -1, result), rows[i].blocked);
                assert_int_equal(result->findings ? result->findings->n : 0, rows[i].findings);
        }
}

static void test_unknown_rule(void **state)
{
        _cleanup_policy_ struct policy *p = make_policy("guard_rules: {container-sockets: off}\n");
        struct watch *w = NULL;
        gb_error err = {0};

        assert_int_equal(watch_open(p, &w, &err), -EINVAL);
        assert_non_null(strstr(err.message, "\"container-sockets\""));
        assert_non_null(strstr(err.message, "did you mean \"container-socket\""));
}

static void test_input_file(void **state)
{
        static const struct {
                const char *policy, *input;
                int blocked;
                size_t findings;
        } rows[] = {
                {"scrub: on\n", "name: " KEY "\n", 0, 1},
                {"scrub: strict\n", "name: " KEY "\n", 1, 1},
                {"scrub: on\nguard_rules: {secret-in-stdin: off}\n", "name: " KEY "\n", 0, 0},
                {"scrub: on\n", "name: nothing\n", 0, 0},
                {"scrub: off\n", "name: " KEY "\n", 0, 0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_policy_ struct policy *p = make_policy(rows[i].policy);
                _cleanup_watch_ struct watch *w = make_watch(p);
                _cleanup_result_ struct result *result = result_new(p, &python, "native", true);
                _cleanup_close_ int fd = file_with(rows[i].input);
                assert_int_equal(look(w, "pass", fd, result), rows[i].blocked);
                assert_int_equal(result->findings ? result->findings->n : 0, rows[i].findings);
                if (result->findings)
                        assert_string_equal(result->findings->rows[0].rule, GUARD_SECRET_INPUT_RULE);
                assert_int_equal(lseek(fd, 0, SEEK_CUR), 0); /* the program reads all of it */
        }
}

/* What comes while the program runs is remarked, and what was found before stays. */
static void test_input_stream(void **state)
{
        _cleanup_policy_ struct policy *p = make_policy("scrub: strict\nguard_rules: {container-socket: warn}\n");
        _cleanup_watch_ struct watch *w = make_watch(p);
        _cleanup_result_ struct result *before = result_new(p, &python, "native", true), *result = result_new(p, &python, "native", true);
        struct inlet i = {.watch = w};

        assert_int_equal(look(w, "open('/var/run/docker.sock')", -1, before), 0);
        inlet_see(&i, KEY, 7);
        inlet_see(&i, &KEY[7], strlen(KEY) - 7);
        assert_int_equal(inlet_end(&i, result), 0);
        inlet_done(&i);
        assert_int_equal(result->findings->n, 1);
        assert_int_equal(result->findings->rows[0].action, GUARD_WARN); /* it runs already */
        assert_int_equal(watch_add(before->findings, result), 0);
        assert_int_equal(result->findings->n, 2);
        assert_null(guard_blocks(result->findings));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_output_in_bytes), cmocka_unit_test(test_output_limit), cmocka_unit_test(test_scrub_off),
                cmocka_unit_test(test_blocked),         cmocka_unit_test(test_switches),     cmocka_unit_test(test_unknown_rule),
                cmocka_unit_test(test_input_file),      cmocka_unit_test(test_input_stream),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
