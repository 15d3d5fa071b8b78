/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the journal share: a directory of their own, and short ways to write and look. */
#ifndef JOURNAL_TEST_FIXTURE_H
#define JOURNAL_TEST_FIXTURE_H

#include "journal/journal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

extern char top[64]; /* fresh for each test */

int make_top(void **state);
int remove_top(void **state);

/* Fails the test with the message of the error. */
#define assert_ok(expression, err)                                                              \
        do {                                                                                    \
                long long _r = (expression);                                                    \
                if (_r < 0)                                                                     \
                        fail_msg("%s: %lld, %s", #expression, _r, (err)->message);              \
        } while (0)

struct journal *open_journal(const struct journal_limits *limits, uint64_t *ret_lost); /* NULL: no limits */

/* The run of that number, of the tenant. Ids are made from the number. */
struct journal_run run_of(const char *tenant, unsigned number);
void begin(struct journal *j, const char *tenant, unsigned number);
void output(struct journal *j, unsigned number, enum journal_kind kind, const char *text);
void end(struct journal *j, unsigned number, const char *verdict);
/* begin, started, "hello", ok */
void whole(struct journal *j, const char *tenant, unsigned number);
struct journal_run get(struct journal *j, unsigned number); /* journal_run_done() */
bool is_there(struct journal *j, unsigned number);

#endif
