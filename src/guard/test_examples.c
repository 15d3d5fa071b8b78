/* SPDX-License-Identifier: Apache-2.0
 *
 * The shipped rules find what they say, and nothing of what they say they leave alone. */
#include "guard/examples.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void on_failure(void *data, const struct example_failure *f)
{
        fprintf(stderr, "%s (%s)%s%s %s: %.*s\n", f->rule, f->set, f->language ? " in " : "", f->language ? f->language : "",
                f->must_match ? "does not find" : "finds", (int)f->size, f->text);
}

static void test_shipped(void **state)
{
        const struct rules *r = NULL;
        struct example_counts counts = {0};
        gb_error err = {0};

        assert_int_equal(rules_get_shipped(&r, &err), 0);
        assert_true(r->n_code >= 60 && r->n_shapes >= 100);
        assert_int_equal(examples_try(r, on_failure, NULL, &counts, &err), 0);
        assert_true(counts.tried >= 2 * (r->n_code + r->n_shapes)); /* one of each kind at least */
        assert_int_equal(counts.failed, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_shipped),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
