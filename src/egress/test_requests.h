/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of forward.c: a box that may reach a.test, b.test (with credentials, and GET, HEAD and POST only), c.test (below /ok/) and
 * e.test (to read: GET and HEAD only) by HTTP, and two servers. */
#ifndef EGRESS_TEST_REQUESTS_H
#define EGRESS_TEST_REQUESTS_H

#include "egress/test_world.h"

#define OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
#define TEST(f) cmocka_unit_test_setup_teardown(f, requests_setup, requests_teardown)

extern struct egress_rule_source rules[4];
extern int server, other_server;

int requests_setup(void **state);
int requests_teardown(void **state);

/* Texts in which @ is the port of the server, and & that of the other one. The caller frees it. */
char *fill(const char *text);
void say_filled(int fd, const char *text);
void hear_filled(int fd, const char *text);
/* An answer of ours: all of it. */
void hear_refusal(int client, int status, const char *word, bool stays);

#endif
