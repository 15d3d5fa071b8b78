/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_set(void **state)
{
        gb_error err = {0};

        assert_int_equal(error_set(&err, GB_E_POLICY, ENOENT, "cannot open %s", "x"), -ENOENT);
        assert_int_equal(err.code, GB_E_POLICY);
        assert_int_equal(err.errnum, ENOENT);
        assert_string_equal(err.message, "cannot open x");

        assert_int_equal(error_set(&err, GB_E_USAGE, 0, "no"), -EINVAL);
        assert_int_equal(err.errnum, 0);
        assert_int_equal(error_set(NULL, GB_E_USAGE, EPERM, "no"), -EPERM);
}

static void test_no_descriptor(void **state)
{
        gb_error err = {0};

        assert_int_equal(error_set(&err, GB_E_NOT_FOUND, EMFILE, "cannot open x"), -EMFILE);
        assert_int_equal(err.code, GB_E_UNAVAILABLE);
        error_set(&err, GB_E_LOST, ENFILE, "gone");
        assert_int_equal(err.code, GB_E_LOST);
}

static void test_prefix(void **state)
{
        gb_error err = {0};

        error_set(&err, GB_E_POLICY, EACCES, "closed");
        assert_int_equal(error_prefix(&err, "a:%d", 1), -EACCES);
        assert_string_equal(err.message, "a:1: closed");
        assert_int_equal(err.code, GB_E_POLICY);
        assert_int_equal(error_prefix(NULL, "x"), -EINVAL);
}

static void test_long_messages_are_cut(void **state)
{
        gb_error err = {0};
        char text[2 * GB_ERROR_MESSAGE_MAX];

        memset(text, 'x', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        error_set(&err, GB_E_INTERNAL, 0, "%s", text);
        assert_int_equal(strlen(err.message), GB_ERROR_MESSAGE_MAX - 1);
        error_prefix(&err, "front");
        assert_int_equal(strlen(err.message), GB_ERROR_MESSAGE_MAX - 1);
        assert_int_equal(strncmp(err.message, "front: xxx", 10), 0);
        error_prefix(&err, "%s", text);
        assert_int_equal(strlen(err.message), GB_ERROR_MESSAGE_MAX - 1);
}

static void test_codes(void **state)
{
        assert_string_equal(error_code_name(GB_E_NONE), "none");
        assert_string_equal(error_code_name(GB_E_LIMIT), "limit");
        assert_int_equal(error_exit_status(GB_E_USAGE), 110);
        /* A code from a newer peer is our own failure to understand it. */
        assert_string_equal(error_code_name(-1), "internal");
        assert_int_equal(error_exit_status(1000), 115);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_set),
                cmocka_unit_test(test_no_descriptor),
                cmocka_unit_test(test_prefix),
                cmocka_unit_test(test_long_messages_are_cut),
                cmocka_unit_test(test_codes),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
