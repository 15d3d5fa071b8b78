/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests: the proxy with one box, in this process, between sockets of the tests. Only its main() and its orders are not there. */
#ifndef EGRESS_TEST_WORLD_H
#define EGRESS_TEST_WORLD_H

#include "base/buffer.h"
#include "egress/core.h"
#include "egress/rules_write.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* a.test, b.test and c.test lead to 127.0.0.1; from budgets only those are taken. */
void world_open(const struct egress_rule_source *rules, size_t n, const struct egress_rules *budgets, struct authority *authority);
void world_close(void);
struct box *world_box(void);
void world_change(const struct egress_rule_source *rules, size_t n);
/* Lets the proxy work. */
void world_turn(void);
/* What the ledger says of such rows. */
uint64_t world_requests(const char *host, enum egress_decision d);

/* A client of the box. */
int client_open(void);
/* A server; and its next connection. */
int server_open(uint16_t *ret_port);
int server_accept(int server);
/* Whether nobody has come. */
bool server_is_alone(int server);

void say(int fd, const char *text);
void say_bytes(int fd, const void *bytes, size_t size);
/* The next bytes are these. */
void hear(int fd, const char *text);
/* All up to the end of the next head, or of the connection. */
void hear_head(int fd, struct buffer *ret);
/* Reads up to the end of the connection. */
void hear_rest(int fd, struct buffer *ret);
void hear_end(int fd);
/* Nothing has come, though the proxy had time. */
void hear_nothing(int fd);

#endif
