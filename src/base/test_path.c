/* SPDX-License-Identifier: Apache-2.0
 *
 * The test itself runs from the build tree. */
#include "base/path.h"

#include "base/macro.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_config(void **state)
{
        _cleanup_free_ char *built = NULL, *set = NULL, *empty = NULL;

        unsetenv("GLOVEBOX_CONFIG_DIR");
        assert_int_equal(path_config_file("x.yaml", &built), 0);
        assert_string_equal(built, GLOVEBOX_SOURCE_CONFDIR "/x.yaml");
        assert_true(path_config_is_optional());
        setenv("GLOVEBOX_CONFIG_DIR", "/", 1);
        assert_true(path_config_is_optional());
        setenv("GLOVEBOX_CONFIG_DIR", "/somewhere", 1);
        assert_false(path_config_is_optional());
        assert_int_equal(path_config_file("x.yaml", &set), 0);
        assert_string_equal(set, "/somewhere/x.yaml");
        setenv("GLOVEBOX_CONFIG_DIR", "", 1);
        assert_int_equal(path_config_file("x.yaml", &empty), 0);
        assert_string_equal(empty, built);
}

static void test_libexec(void **state)
{
        _cleanup_free_ char *built = NULL, *set = NULL;

        unsetenv("GLOVEBOX_LIBEXEC_DIR");
        assert_int_equal(path_libexec("glovebox-warden", &built), 0);
        assert_string_equal(built, GLOVEBOX_BUILD_ROOT "/src/warden/glovebox-warden");
        setenv("GLOVEBOX_LIBEXEC_DIR", "/somewhere", 1);
        assert_int_equal(path_libexec("glovebox-warden", &set), 0);
        assert_string_equal(set, "/somewhere/glovebox-warden");
}

static void test_runtime(void **state)
{
        _cleanup_free_ char *set = NULL, *open_to_all = NULL;

        setenv("GLOVEBOX_RUNTIME_DIR", "/somewhere", 1);
        assert_int_equal(path_runtime("warm.sock", &set), 0);
        assert_string_equal(set, "/somewhere/warm.sock");
        setenv("GLOVEBOX_RUNTIME_DIR", "/tmp", 1); /* where everybody can write */
        assert_int_equal(path_runtime("warm.sock", &open_to_all), -EPERM);
        unsetenv("GLOVEBOX_RUNTIME_DIR");
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_config), cmocka_unit_test(test_libexec), cmocka_unit_test(test_runtime)};
        return cmocka_run_group_tests(tests, NULL, NULL);
}
