/* SPDX-License-Identifier: Apache-2.0
 *
 * The other side of a real agent, which is an ordinary child here, spoken to through pipes. */
#ifndef AGENT_TEST_PEER_H
#define AGENT_TEST_PEER_H

#include "agent/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

extern char helper[]; /* test_program.c */

struct peer {
        pid_t pid;
        int in, out;
        bool silent; /* gives no credit */
        bool has_keys; /* then frames have tags, both ways */
        struct wire_keys keys;
        uint64_t n_put, n_taken; /* with tags */
        struct wire_frame frame;
        char payload[WIRE_DATA_MAX];
        char text[WIRE_STREAMS_MAX][4096]; /* the first bytes of each stream, since peer_start() */
        size_t sizes[WIRE_STREAMS_MAX];
        struct wire_hello hello;
};

void put(struct peer *a, uint16_t type, uint32_t program, uint16_t stream, uint32_t value, const void *data, size_t size);
/* The next frame; its type, or 0 at the end. */
uint16_t next(struct peer *a);
void await(struct peer *a, uint16_t type, uint32_t program);
struct wire_end await_end(struct peer *a, uint32_t program);

struct order {
        uint32_t flags;
        const char *path, *code;
        const char *compile, *run; /* for sh -c */
        char *const *words;        /* instead of run */
};

void start(struct peer *a, uint32_t program, struct order o);
void start_echo(struct peer *a, uint32_t program);

int setup(void **state);
/* The end of its standard input is the end of the agent. */
int teardown(void **state);

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
