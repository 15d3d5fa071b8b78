/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct option rows[] = {
        {.id = OPT_CODE, .letter = 'c', .value = VALUE_REQUIRED, .placeholder = "CODE", .help = ""},
        {.id = OPT_LANG, .name = "lang", .letter = 'l', .value = VALUE_REQUIRED, .placeholder = "LANGUAGE",
         .env = "GLOVEBOX_TEST_LANG", .help = ""},
        {.id = OPT_JSON, .name = "json", .help = ""},
        {.id = OPT_QUIET, .name = "quiet", .letter = 'q', .help = ""},
        {.id = OPT_WORKSPACE, .name = "workspace", .value = VALUE_REQUIRED, .placeholder = "DIR", .help = ""},
        {.id = OPT_RAW, .name = "read", .value = VALUE_OPTIONAL, .placeholder = "BOOL", .help = ""},
        {.id = OPT_MAN, .name = "secret", .hidden = true, .help = ""},
};
static const struct option_set set = {.rows = rows, .n_rows = ARRAY_SIZE(rows)};

#define ARGV(...) ((char *[]){__VA_ARGS__, NULL})
#define W(text) ((char *)(uintptr_t)(text))

static void test_forms_of_values(void **state)
{
        char **lines[] = {
                ARGV(W("--lang"), W("bash")),
                ARGV(W("--lang=bash")),
                ARGV(W("-l"), W("bash")),
                ARGV(W("-lbash")),
                ARGV(W("--lang=python"), W("--lang=bash")),
                ARGV(W("file"), W("--lang"), W("bash")),
        };
        for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
                _cleanup_arguments_ struct arguments a;
                gb_error err = {0};
                assert_int_equal(options_parse(&set, lines[i], &a, &err), 0);
                assert_string_equal(arguments_get(&a, OPT_LANG), "bash");
                assert_false(arguments_has(&a, OPT_JSON));
        }
}

static void test_words_and_rest(void **state)
{
        _cleanup_arguments_ struct arguments a;
        gb_error err = {0};

        assert_int_equal(options_parse(&set, ARGV(W("a.py"), W("--json"), W("-"), W("--"), W("--json"), W("x")), &a, &err), 0);
        assert_int_equal(a.n_words, 2);
        assert_string_equal(a.words[0], "a.py");
        assert_string_equal(a.words[1], "-");
        assert_int_equal(arguments_count(&a, OPT_JSON), 1);
        assert_string_equal(a.rest[0], "--json");
        assert_string_equal(a.rest[1], "x");
        assert_null(a.rest[2]);
}

static void test_nothing_and_empty_values(void **state)
{
        _cleanup_arguments_ struct arguments a = {0}, b = {0}, c = {0};
        gb_error err = {0};

        assert_int_equal(options_parse(&set, (char *[]){NULL}, &a, &err), 0);
        assert_int_equal(a.n_words + a.n_uses, 0);
        assert_null(a.rest);
        assert_int_equal(options_parse(&set, ARGV(W("--lang="), W("-c"), W("--")), &b, &err), 0);
        assert_string_equal(arguments_get(&b, OPT_LANG), "");
        assert_string_equal(arguments_get(&b, OPT_CODE), "--"); /* a value is whatever follows */
        assert_null(b.rest);
        assert_int_equal(options_parse(&set, ARGV(W("--read"), W("no")), &c, &err), 0);
        assert_true(arguments_has(&c, OPT_RAW));
        assert_null(arguments_get(&c, OPT_RAW)); /* only "=" gives an optional value */
        assert_int_equal(c.n_words, 1);
}

static void test_errors(void **state)
{
        const struct {
                char **argv;
                const char *says;
        } wrong[] = {
                {ARGV(W("--langg=x")), "did you mean --lang?"},
                {ARGV(W("--work"), W("x")), "did you mean --workspace?"},
                {ARGV(W("--zzzzzz")), "unknown flag \"--zzzzzz\""},
                {ARGV(W("--secre")), "unknown flag \"--secre\""},
                {ARGV(W("f.py"), W("--zzzzzz")), "put -- before it"},
                {ARGV(W("f.py"), W("--langg")), "put -- before it"},
                {ARGV(W("-x")), "unknown flag \"-x\""},
                {ARGV(W("-qx")), "unknown flag \"-qx\""},
                {ARGV(W("--json=1")), "--json takes no value"},
                {ARGV(W("--lang")), "--lang needs a value: --lang LANGUAGE"},
                {ARGV(W("-c")), "-c needs a value: -c CODE"},
                {ARGV(W("---json")), "unknown flag"},
                {ARGV(W("--=x")), "unknown flag"},
        };
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                _cleanup_arguments_ struct arguments a;
                gb_error err = {0};
                assert_true(options_parse(&set, wrong[i].argv, &a, &err) < 0);
                assert_int_equal(err.code, GB_E_USAGE);
                if (!strstr(err.message, wrong[i].says))
                        fail_msg("\"%s\" does not say \"%s\"", err.message, wrong[i].says);
        }
}

static void test_hidden_is_not_suggested(void **state)
{
        _cleanup_arguments_ struct arguments a;
        gb_error err = {0};

        assert_true(options_parse(&set, ARGV(W("--secre")), &a, &err) < 0);
        assert_null(strstr(err.message, "--secret"));
}

static void test_environment(void **state)
{
        _cleanup_arguments_ struct arguments flag = {0}, none = {0};
        gb_error err = {0};

        assert_int_equal(options_parse(&set, ARGV(W("--lang=c")), &flag, &err), 0);
        unsetenv("GLOVEBOX_TEST_LANG");
        assert_null(arguments_get_or_env(&set, &none, OPT_LANG));
        setenv("GLOVEBOX_TEST_LANG", "", 1);
        assert_null(arguments_get_or_env(&set, &none, OPT_LANG));
        setenv("GLOVEBOX_TEST_LANG", "ruby", 1);
        assert_string_equal(arguments_get_or_env(&set, &none, OPT_LANG), "ruby");
        assert_string_equal(arguments_get_or_env(&set, &flag, OPT_LANG), "c");
}

static void test_policy_rows(void **state)
{
        const struct option_set both = {.rows = rows, .n_rows = ARRAY_SIZE(rows), .policy = true};
        struct option o;
        size_t flags = 0, seen = 0;

        for (size_t i = 0; i < n_policy_options; i++)
                flags += policy_options[i].flag != NULL;
        for (size_t i = 0; options_next(&both, &i, &o);)
                if (o.id == OPT_POLICY_KEY) {
                        seen++;
                        assert_non_null(o.key);
                        assert_non_null(o.placeholder);
                        assert_non_null(o.help);
                }
        assert_int_equal(seen, flags);
        assert_true(seen > 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_forms_of_values),
                cmocka_unit_test(test_words_and_rest),
                cmocka_unit_test(test_nothing_and_empty_values),
                cmocka_unit_test(test_errors),
                cmocka_unit_test(test_hidden_is_not_suggested),
                cmocka_unit_test(test_environment),
                cmocka_unit_test(test_policy_rows),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
