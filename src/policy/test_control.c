/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/control.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_names(void **state)
{
        for (int i = 0; i < CONTROL_COUNT; i++) {
                assert_int_equal(control_by_name(control_name((enum control_id)i)), i);
                assert_true(strlen(control_help((enum control_id)i)) > 0);
        }
        assert_int_equal(control_by_name("cgroup"), -1);
        assert_int_equal(control_by_name(""), -1);
        assert_string_equal(control_name(CONTROL_COUNT), "unknown");
        assert_false(control_may_be_weaker(CONTROL_COUNT));
        assert_string_equal(control_state_name(CONTROL_ENFORCED), "enforced");
        assert_string_equal(control_state_name(CONTROL_WEAKER), "weaker");
        assert_string_equal(control_state_name(CONTROL_OFF), "off");
        assert_string_equal(control_state_name(CONTROL_UNKNOWN), "unknown");
}

static void test_masks(void **state)
{
        gb_error err;
        uint32_t mask, all = 0;

        assert_int_equal(control_weaker_mask("cgroup", &mask, &err), 0);
        assert_int_equal(mask, 1u << CONTROL_MEMORY | 1u << CONTROL_PIDS | 1u << CONTROL_CPU);
        for (int i = 0; i < CONTROL_COUNT; i++) {
                const char *name = control_name((enum control_id)i);
                bool may = control_may_be_weaker((enum control_id)i);

                assert_int_equal(control_weaker_mask(name, &mask, &err), may ? 0 : -22);
                if (may)
                        all |= mask;
                /* The list in the message is written by hand. */
                control_weaker_mask("?", &mask, &err);
                if (may)
                        assert_non_null(strstr(err.message, name));
        }
        assert_int_equal(all, control_weaker_all());
}

static void test_messages(void **state)
{
        gb_error err;
        uint32_t mask = 7;

        assert_true(control_weaker_mask("seccomp", &mask, &err) < 0);
        assert_string_equal(err.message, "the control \"seccomp\" can never be weaker; those that can: "
                                         "landlock, runtime, memory, pids, cpu, or cgroup for the last three");
        assert_true(control_weaker_mask("memroy", &mask, &err) < 0);
        assert_non_null(strstr(err.message, "there is no control \"memroy\"; did you mean \"memory\"?"));
        assert_int_equal(mask, 7);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_masks),
                cmocka_unit_test(test_messages),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
