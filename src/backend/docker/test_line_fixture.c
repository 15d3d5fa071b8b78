/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/docker/test_line_fixture.h"

#include "base/fd.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static bool engine_answers(void *data)
{
        return ((struct fixture *)data)->engine_answers;
}

static int kill_container(void *data)
{
        ((struct fixture *)data)->kills++;
        return 0;
}

static enum line_end explain(void *data, bool engine_lost, gb_error *why)
{
        return ((struct fixture *)data)->end;
}

int set_up(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));
        struct line_owner owner = {.engine_answers = engine_answers, .kill = kill_container, .explain = explain, .data = f};
        struct buffer early = {0};
        int pair[2];

        assert_non_null(f);
        f->engine_answers = true;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        f->agent = pair[1];
        assert_int_equal(line_open(&f->line, pair[0], &early, &owner, NULL), 0);
        *state = f;
        return 0;
}

int tear_down(void **state)
{
        struct fixture *f = *state;

        line_close(&f->line);
        safe_close(f->agent);
        free(f);
        return 0;
}

void say_raw(const struct fixture *f, uint8_t stream, const void *bytes, size_t size)
{
        uint8_t head[8] = {stream, 0, 0, 0, (uint8_t)(size >> 24), (uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size};

        assert_int_equal(fd_write_all(f->agent, head, sizeof(head)), 0);
        assert_int_equal(fd_write_all(f->agent, bytes, size), 0);
}

void say(struct fixture *f, uint16_t type, uint32_t program, uint16_t stream, uint32_t value, const void *payload, uint32_t size)
{
        _cleanup_free_ char *bytes = malloc(sizeof(struct wire_frame) + size);
        struct wire_frame frame = {.type = type, .stream = stream, .program = program, .value = value, .size = size};

        assert_non_null(bytes);
        if (size > 0)
                memcpy(bytes + sizeof(frame), payload, size);
        if (type != WIRE_HELLO || f->n_said > 0)
                frame.tag = wire_tag(f->keys.from_agent, f->n_said++, &frame, payload);
        memcpy(bytes, &frame, sizeof(frame));
        say_raw(f, 1, bytes, sizeof(frame) + size);
}

struct wire_frame hear(struct fixture *f, char *payload)
{
        struct wire_frame frame;

        assert_int_equal(recv(f->agent, &frame, sizeof(frame), MSG_WAITALL), sizeof(frame));
        assert_true(frame.size <= WIRE_DATA_MAX);
        if (frame.size > 0)
                assert_int_equal(recv(f->agent, payload, frame.size, MSG_WAITALL), frame.size);
        if (frame.type == WIRE_KEY)
                memcpy(&f->keys, payload, sizeof(f->keys));
        else
                assert_int_equal(frame.tag, wire_tag(f->keys.to_agent, f->n_heard++, &frame, payload));
        return frame;
}

void greet(struct fixture *f)
{
        struct wire_hello hello = {.version = WIRE_VERSION, .pid = 1};
        char payload[WIRE_DATA_MAX];

        assert_int_equal(hear(f, payload).type, WIRE_KEY);
        say(f, WIRE_HELLO, 0, 0, 0, &hello, sizeof(hello));
        assert_int_equal(line_greet(&f->line, NULL), 0);
        assert_int_equal(hear(f, payload).type, WIRE_LOOK);
}

static void *start_main(void *data)
{
        struct starter *s = data;
        struct buffer plan;

        buffer_init(&plan, WIRE_PLAN_MAX);
        if (buffer_add(&plan, "plan", 4) < 0)
                abort();
        s->r = line_start(&s->f->line, &plan, s->stdin_fd, s->control, &s->program, &s->io, &s->err);
        buffer_done(&plan);
        return NULL;
}

uint32_t ask_for_start(struct starter *s, struct fixture *f, bool control, int stdin_fd)
{
        char payload[WIRE_DATA_MAX];

        *s = (struct starter){.f = f, .control = control, .stdin_fd = stdin_fd};
        assert_int_equal(pthread_create(&s->thread, NULL, start_main, s), 0);
        struct wire_frame plan = hear(f, payload);
        assert_int_equal(plan.type, WIRE_PLAN);
        assert_memory_equal(payload, "plan", 4);
        assert_int_equal(hear(f, payload).type, WIRE_START);
        return plan.program;
}

uint32_t start(struct starter *s, struct fixture *f, bool control, int stdin_fd)
{
        uint32_t number = ask_for_start(s, f, control, stdin_fd);

        say(f, WIRE_STARTED, number, 0, 0, NULL, 0);
        pthread_join(s->thread, NULL);
        assert_int_equal(s->r, 0);
        return number;
}

void finish(struct starter *s)
{
        safe_close(s->io.out);
        safe_close(s->io.err);
        safe_close(s->io.control);
        safe_close(s->io.deadline);
        line_forget(s->program);
}

void wait_for(int fd)
{
        struct pollfd p = {fd, POLLIN, 0};

        assert_int_equal(poll(&p, 1, PATIENCE_MSEC), 1);
}

int next_event(struct starter *s, struct box_event *ret, gb_error *err)
{
        wait_for(s->program->event);
        return line_next_event(s->program, ret, err);
}
