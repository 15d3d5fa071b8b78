/* SPDX-License-Identifier: Apache-2.0 */
#include "server/scrubbing.h"

#include "base/json.h"
#include "base/limits.h"
#include "server/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char text_one[] = "of the first one", text_two[] = "of the second", name_one[] = "ONE", name_two[] = "TWO";
/* The shape of a key, in two pieces: nobody who looks for keys finds one here. */
#define SHAPED "AKIA" "QYLPMN5HHHFPZAM2"

static struct scrubbing *scrubbing;
static struct living_secrets *one, *two;

static void add(const char *name, const char *value, struct living_secrets **ret)
{
        struct policy p = {.n_secrets = 1};

        p.secrets[0] = (struct policy_secret){.name = (char *)(uintptr_t)name, .value = (char *)(uintptr_t)value, .size = strlen(value)};
        assert_int_equal(scrubbing_add(scrubbing, &p, ret, NULL), 0);
        assert_non_null(*ret);
}

static int setup(void **state)
{
        gb_error err = {0};

        if (scrubbing_new(&scrubbing, &err) < 0)
                fail_msg("%s", err.message);
        add(name_one, text_one, &one);
        add(name_two, text_two, &two);
        return 0;
}

static int teardown(void **state)
{
        scrubbing_free(scrubbing); /* with what still lives */
        return 0;
}

static void assert_line(const char *before, const char *after)
{
        char line[256];

        snprintf(line, sizeof(line), "%s", before);
        scrubbing_line(scrubbing, line, sizeof(line));
        assert_string_equal(line, after);
}

static void test_lines(void **state)
{
        assert_line("nothing", "nothing");
        assert_line("a " SHAPED " b", "a [scrubbed:aws-access-key] b");
        assert_line("x of the first one, of the second y", "x [scrubbed:ONE], [scrubbed:TWO] y");
        scrubbing_remove(scrubbing, one);
        assert_line("x of the first one, of the second y", "x of the first one, [scrubbed:TWO] y");
        scrubbing_remove(scrubbing, NULL);
}

static void test_a_line_is_cut(void **state)
{
        char line[20] = "of the first one +";

        scrubbing_line(scrubbing, line, 10);
        assert_string_equal(line, "[scrubbed");
}

/* An answer is nobody's place to learn of the secrets of others. */
static void test_errors(void **state)
{
        gb_error err;

        error_set(&err, GB_E_USAGE, 22, "of the first one, of the second, " SHAPED);
        scrubbing_error(scrubbing, living_secrets_scrub(one), &err);
        assert_string_equal(err.message, "[scrubbed:ONE], of the second, [scrubbed:aws-access-key]");
        assert_int_equal(err.code, GB_E_USAGE);
        assert_int_equal(err.errnum, 22);
        _cleanup_json_ json_t *details = json_pack("{s:s, s:i, s:s}", "field", "of the first one", "n", 3, "entry", SHAPED);
        scrubbing_details(scrubbing, NULL, details);
        assert_string_equal(json_string_value(json_object_get(details, "field")), "of the first one");
        assert_string_equal(json_string_value(json_object_get(details, "entry")), "[scrubbed:aws-access-key]");
        scrubbing_details(scrubbing, living_secrets_scrub(one), details);
        assert_string_equal(json_string_value(json_object_get(details, "field")), "[scrubbed:ONE]");
        assert_int_equal(json_integer_value(json_object_get(details, "n")), 3);
        scrubbing_error(NULL, NULL, &err);
        scrubbing_details(NULL, NULL, NULL);
}

static void test_texts(void **state)
{
        bool found = false;
        _cleanup_json_ json_t *plain = scrubbed_text(living_secrets_scrub(one), "a\xff", 2, &found);
        assert_string_equal(json_string_value(plain), "a\xef\xbf\xbd");
        assert_false(found);
        _cleanup_json_ json_t *other = scrubbed_text(living_secrets_scrub(one), "\xffof the first one", 17, &found);
        assert_string_equal(json_string_value(other), "\xef\xbf\xbd[scrubbed:ONE]");
        assert_true(found);
        assert_null(living_secrets_scrub(NULL));
}

/* What is longer than a line is scrubbed before it is cut: the beginning of a secret is none that would be found. */
static void test_log(void **state)
{
        char padding[LOG_LINE_MAX], line[8 * LOG_LINE_MAX] = "";
        int pipes[2];

        memset(padding, '.', sizeof(padding));
        assert_int_equal(pipe(pipes), 0);
        int saved = dup(STDERR_FILENO);
        dup2(pipes[1], STDERR_FILENO);
        log_scrub_by(scrubbing_line, scrubbing);
        log_info("test", "%.*sof the first one", LOG_LINE_MAX - 8, padding);
        log_info("test", "of the second");
        log_scrub_by(NULL, NULL);
        dup2(saved, STDERR_FILENO);
        close(saved);
        close(pipes[1]);
        for (ssize_t n, at = 0; (n = read(pipes[0], line + at, sizeof(line) - 1 - (size_t)at)) > 0; at += n)
                line[at + n] = '\0';
        close(pipes[0]);
        assert_non_null(strstr(line, ".[scrub"));
        assert_null(strstr(line, ".of"));
        assert_non_null(strstr(line, " info test: [scrubbed:TWO]\n"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_lines, setup, teardown), cmocka_unit_test_setup_teardown(test_a_line_is_cut, setup, teardown),
                cmocka_unit_test_setup_teardown(test_errors, setup, teardown), cmocka_unit_test_setup_teardown(test_texts, setup, teardown),
                cmocka_unit_test_setup_teardown(test_log, setup, teardown),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
