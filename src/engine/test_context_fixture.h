/* SPDX-License-Identifier: Apache-2.0
 *
 * A session over test_context_backend.c with one context, and how tests run code in it. */
#ifndef ENGINE_TEST_CONTEXT_FIXTURE_H
#define ENGINE_TEST_CONTEXT_FIXTURE_H

#include "engine/context.h"
#include "engine/test_context_backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PATIENCE_MSEC 20000
#define SHORT_USEC 400000 /* a time limit for code that is to reach it, in an interpreter that is up already */

extern struct language python, bash, plain_c;

extern struct policy *policy;
extern struct session *session;
extern struct context *context;

int open_all(void **state);
int close_all(void **state);
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_all, close_all)

void open_context(const struct language *language);

/* Events in the order they came, as one text. */
struct seen {
        char text[8192];
        size_t n;
        uint64_t last_usec;
};

extern const struct session_callbacks seen_callbacks; /* but for their data */

struct context_request request_of(const char *code, struct seen *seen);
/* In the context; the result is the caller's. */
struct result *run_request(const struct context_request *request);
struct result *run(const char *code);
void expect(const char *code, enum verdict_kind kind, bool kept);

/* A file of that content, open at its beginning. */
int file_with(const char *text, size_t size);

#endif
