/* SPDX-License-Identifier: Apache-2.0
 *
 * A line whose agent the test plays. */
#ifndef DOCKER_TEST_LINE_FIXTURE_H
#define DOCKER_TEST_LINE_FIXTURE_H

#include "backend/docker/line.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PATIENCE_MSEC 20000

struct fixture {
        struct line line;
        int agent; /* the other end */
        struct wire_keys keys;
        uint64_t n_said, n_heard;
        bool engine_answers;
        atomic_bool memory_ran_out;
        enum line_end end;
        int kills;
};

struct starter {
        struct fixture *f;
        struct backend_program *program;
        struct program_io io;
        gb_error err;
        int r;
        bool control;
        int stdin_fd;
        pthread_t thread;
};

int set_up(void **state);
int tear_down(void **state);
/* As the engine carries it. */
void say_raw(const struct fixture *f, uint8_t stream, const void *bytes, size_t size);
void say(struct fixture *f, uint16_t type, uint32_t program, uint16_t stream, uint32_t value, const void *payload, uint32_t size);
struct wire_frame hear(struct fixture *f, char *payload);
void greet(struct fixture *f);
uint32_t ask_for_start(struct starter *s, struct fixture *f, bool control, int stdin_fd);
uint32_t start(struct starter *s, struct fixture *f, bool control, int stdin_fd);
void finish(struct starter *s);
void wait_for(int fd);
int next_event(struct starter *s, struct box_event *ret, gb_error *err);

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

#endif
