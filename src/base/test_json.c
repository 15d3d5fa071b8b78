/* SPDX-License-Identifier: Apache-2.0
 *
 * Each allocation fails in turn, by the linker's --wrap: what comes back is whole or nothing, and nothing is lost (as the address sanitizer sees). */
#include "base/json.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

static long left = -1; /* until one fails; below 0: none does, or one did */

static bool fails(void)
{
        return left >= 0 && left-- == 0;
}

void *__wrap_malloc(size_t size)
{
        return fails() ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *old, size_t size)
{
        return fails() ? NULL : __real_realloc(old, size);
}

#define LONG_TEXT "a text that is longer than the first buffer of the reader, with \\\"escapes\\\" \\u00e4\\n in it"

static const char sample[] = "{\"name\":\"" LONG_TEXT "\",\"numbers\":[1,-2.5e300,0.021000000000000001,12345678901234567890e5],\"deep\":{\"a\":{\"b\":[true,false,null,{}]}},"
                             "\"" LONG_TEXT "\":[]}";

static void test_reading(void **state)
{
        _cleanup_json_ json_t *expected = json_parse(sample, strlen(sample), 0, NULL);
        json_error_t why;
        long n = 0;

        assert_non_null(expected);
        for (bool done = false; !done; n++) {
                left = n;
                _cleanup_json_ json_t *value = json_parse(sample, strlen(sample), JSON_REJECT_DUPLICATES, &why);
                done = left >= 0;
                left = -1;
                if (done) {
                        assert_true(json_equal(value, expected));
                        assert_false(json_lacked_memory());
                        break;
                }
                assert_null(value);
                assert_int_equal(json_error_code(&why), json_error_out_of_memory);
                assert_true(json_lacked_memory());
                assert_false(json_lacked_memory());
        }
        assert_true(n > 30);
}

static void test_writing(void **state)
{
        _cleanup_json_ json_t *value = json_parse(sample, strlen(sample), 0, NULL);
        _cleanup_free_ char *expected = json_print(value, 0);
        long n = 0;

        assert_non_null(expected);
        for (bool done = false; !done; n++) {
                left = n;
                _cleanup_free_ char *text = json_print(value, 0);
                done = left >= 0;
                left = -1;
                if (text)
                        assert_string_equal(text, expected);
                assert_true(done == (text != NULL));
        }
        assert_true(n > 5);
}

/* The same bytes as jansson's. */
static void test_printing(void **state)
{
        static const char *const texts[] = {
                sample, "{}", "[]", "[[],[[]],{\"\":{}}]", "\"\"", "0", "-9223372036854775808", "9223372036854775807", "1e-7", "0.1", "123456789.123456789", "1e308", "-0.0",
                "[true,false,null]", "\"\\u0000\\u0001\\b\\f\\n\\r\\t\\u001f\\u007f/\\\\\\\"\\u20ac\\ud83d\\ude00\"", "{\"a\\n\\\"\":1,\"b\":2}",
        };
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
                for (size_t precision = 0; precision <= 15; precision += 15) {
                        _cleanup_json_ json_t *value = json_parse(texts[i], strlen(texts[i]), JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
                        assert_non_null(value);
                        _cleanup_free_ char *theirs = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(precision));
                        _cleanup_free_ char *ours = json_print(value, JSON_REAL_PRECISION(precision));
                        assert_string_equal(ours, theirs);
                }
        _cleanup_json_ json_t *deep = json_array(), *loop = json_array();
        for (int i = 0; i < 250; i++) {
                json_t *outer = json_array();
                json_array_append_new(outer, deep);
                deep = outer;
        }
        _cleanup_free_ char *theirs = json_dumps(deep, JSON_COMPACT), *ours = json_print(deep, 0);
        assert_string_equal(ours, theirs);
        json_t *inner = json_array();
        json_array_append_new(loop, inner);
        json_array_append(inner, loop);
        assert_null(json_print(loop, 0));
        json_array_clear(inner);
}

/* What was made without memory is not written. */
static void test_making(void **state)
{
        _cleanup_json_ json_t *o = json_object();

        left = 0;
        (void)json_object_set_new(o, "a", json_integer(1));
        left = -1;
        assert_null(json_print(o, 0));
        _cleanup_free_ char *text = json_print(o, 0);
        assert_string_equal(text, "{}");
        assert_null(json_print(NULL, 0));
}

static void test_errors_are_jansson_s(void **state)
{
        json_error_t why;

        assert_null(json_parse("{\"a\":1,\"a\":2}", 13, JSON_REJECT_DUPLICATES, &why));
        assert_int_equal(json_error_code(&why), json_error_duplicate_key);
        assert_null(json_parse("{", 1, 0, NULL));
        assert_false(json_lacked_memory());
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_reading),
                cmocka_unit_test(test_writing),
                cmocka_unit_test(test_printing),
                cmocka_unit_test(test_making),
                cmocka_unit_test(test_errors_are_jansson_s),
        };

        json_guard_memory();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
