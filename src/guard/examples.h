/* SPDX-License-Identifier: Apache-2.0
 *
 * Each rule carries examples of what it must find and of what it must leave alone; here they are tried. */
#ifndef GUARD_EXAMPLES_H
#define GUARD_EXAMPLES_H

#include "guard/rules.h"

struct example_failure {
        const char *rule, *set;
        const char *language; /* of an example of code; NULL: of a secret */
        bool must_match;
        const char *text;
        size_t size;
};

struct example_counts {
        size_t tried, failed;
};

/* Negative: they could not be tried. */
int examples_try(const struct rules *r, void (*on_failure)(void *data, const struct example_failure *f), void *data, struct example_counts *ret, gb_error *err);

#endif
