/* SPDX-License-Identifier: Apache-2.0
 *
 * How the front makes the block of rules.h. */
#ifndef EGRESS_RULES_WRITE_H
#define EGRESS_RULES_WRITE_H

#include "egress/rules.h"

/* A rule as it is added; texts are copied. */
struct egress_rule_source {
        struct host_pattern pattern;
        enum egress_protocol protocol;
        bool intercept;
        uint32_t n_ports;
        const uint16_t (*ports)[2]; /* first, last */
        const char *text;
        const char *const *methods, *const *paths; /* n of them */
        size_t n_methods, n_paths;
        const char *const (*headers)[2]; /* name, value */
        size_t n_headers;
};

/* head: everything but size, n_rules and what follows. Makes a block that egress_rules_valid() takes; it may hold secrets, so ret becomes a buffer with .secret. 0, or
 * -ENOMEM, -EFBIG, -EINVAL, and ret is untouched. */
int egress_rules_write(const struct egress_rules *head, const struct egress_rule_source *rules, size_t n_rules, struct buffer *ret);

#endif
