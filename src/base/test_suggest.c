/* SPDX-License-Identifier: Apache-2.0 */
#include "base/suggest.h"

#include "base/macro.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_nearest(void **state)
{
        static const char *const names[] = {"mem_limit", NULL, "timeout", "timeout_max", "mounts", "c", ""};
        static const struct {
                const char *word, *nearest;
        } rows[] = {
                {"mem_limt", "mem_limit"}, {"memlimit", "mem_limit"}, {"MEM_LIMIT", "mem_limit"}, {"timeuot", "timeout"},
                {"timeout_mx", "timeout_max"}, {"mount", "mounts"}, {"mounts", "mounts"}, {"zebra", NULL}, {"", NULL},
                {"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", NULL},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                const char *nearest = suggest_nearest(rows[i].word, names, ARRAY_SIZE(names));
                if (!rows[i].nearest)
                        assert_null(nearest);
                else
                        assert_string_equal(nearest, rows[i].nearest);
        }
        assert_null(suggest_nearest("x", names, 0));
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_nearest)};
        return cmocka_run_group_tests(tests, NULL, NULL);
}
