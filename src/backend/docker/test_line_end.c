/* SPDX-License-Identifier: Apache-2.0
 *
 * The ends of programs and of lines: only observed ends are reported. */
#include "backend/docker/test_line_fixture.h"

#include "base/fd.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cmocka.h>

/* A program that has ended by itself keeps its end when the container is ended for memory. */
static void test_memory_is_not_the_end_of_those_that_ended_before(void **state)
{
        struct fixture *f = *state;
        struct wire_end good = {.ending = ENDING_OF_EXIT(0)};
        struct box_event event;
        struct starter ended, running;

        f->end = LINE_END_MEMORY;
        greet(f);
        uint32_t number = start(&ended, f, false, -1);
        start(&running, f, false, -1);
        say(f, WIRE_ENDED, number, 0, 0, &good, sizeof(good));
        shutdown(f->agent, SHUT_RDWR);
        assert_int_equal(next_event(&running, &event, NULL), 0);
        assert_int_equal(event.end.stop, BOX_STOP_MEMORY);
        assert_int_equal(next_event(&ended, &event, NULL), 0);
        assert_int_equal(event.end.stop, BOX_STOP_NONE);
        assert_true(ending_is_exit(&event.end.ending) && event.end.ending.value == 0);
        finish(&ended);
        finish(&running);
}

/* The kernel has killed a process for memory, but the container was ended from here, for another reason. */
static void test_what_broke_a_rule_was_not_ended_for_memory(void **state)
{
        struct fixture *f = *state;
        struct box_event event;
        gb_error err = {0};
        struct starter s;

        f->end = LINE_END_MEMORY;
        greet(f);
        uint32_t number = start(&s, f, false, -1);
        say(f, WIRE_STARTED, number, 0, 0, NULL, 0);
        assert_true(next_event(&s, &event, &err) < 0);
        assert_int_equal(err.code, GB_E_LOST);
        finish(&s);
}

static bool memory_ran_out(void *data)
{
        return atomic_exchange(&((struct fixture *)data)->memory_ran_out, false);
}

/* The program is told to stop because the kernel has killed another one, but has ended already. */
static void test_memory_ran_out_while_a_program_ended_by_itself(void **state)
{
        const struct {
                struct ending ending;
                enum box_stop stop;
        } rows[] = {
                {ENDING_OF_EXIT(0), BOX_STOP_NONE},
                {ENDING_OF_EXIT(1), BOX_STOP_NONE},
                {ENDING_OF_SIGNAL(SIGSEGV), BOX_STOP_NONE},
                {ENDING_OF_SIGNAL(SIGKILL), BOX_STOP_MEMORY},
                {{0}, BOX_STOP_MEMORY},
        };
        struct itimerspec later = {.it_value = {.tv_sec = 60}};
        char payload[WIRE_DATA_MAX];

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct wire_end end = {.ending = rows[i].ending};
                struct box_event event;
                struct starter s;
                void *fresh = NULL;
                set_up(&fresh);
                struct fixture *f = fresh;
                f->line.owner.memory_ran_out = memory_ran_out;
                greet(f);
                uint32_t number = start(&s, f, false, -1);
                assert_int_equal(timerfd_settime(s.io.deadline, 0, &later, NULL), 0);
                atomic_store(&f->memory_ran_out, true);
                line_wake(&f->line);
                assert_int_equal(hear(f, payload).type, WIRE_STOP);
                say(f, WIRE_ENDED, number, 0, 0, &end, sizeof(end));
                assert_int_equal(next_event(&s, &event, NULL), 0);
                assert_int_equal(event.end.stop, rows[i].stop);
                assert_memory_equal(&event.end.ending, &rows[i].ending, sizeof(rows[i].ending));
                finish(&s);
                tear_down(&fresh);
        }
}

/* More than a pipe holds, and an end; then the line is lost. Returns when it is. */
static uint32_t lose_with_output(struct fixture *f, struct starter *s, bool in_run, size_t size)
{
        struct itimerspec later = {.it_value = {.tv_sec = 60}};
        struct wire_end end = {.ending = ENDING_OF_EXIT(0)};
        _cleanup_free_ char *piece = calloc(1, WIRE_DATA_MAX);

        assert_non_null(piece);
        memset(piece, 'x', WIRE_DATA_MAX);
        greet(f);
        uint32_t number = start(s, f, false, -1);
        if (in_run)
                assert_int_equal(timerfd_settime(s->io.deadline, 0, &later, NULL), 0);
        for (size_t sent = 0; sent < size; sent += WIRE_DATA_MAX)
                say(f, WIRE_DATA, number, WIRE_STDOUT, 0, piece, WIRE_DATA_MAX);
        say(f, WIRE_ENDED, number, 0, 0, &end, sizeof(end));
        shutdown(f->agent, SHUT_WR);
        for (int i = 0; !line_is_lost(&f->line, NULL) && i < PATIENCE_MSEC; i++)
                usleep(1000);
        assert_true(line_is_lost(&f->line, NULL));
        return number;
}

static void test_output_that_has_come_is_handed_on_after_the_loss(void **state)
{
        struct fixture *f = *state;
        struct pollfd ended = {-1, POLLIN, 0};
        struct box_event event;
        struct starter s;
        char text[5000];
        size_t got = 0;

        lose_with_output(f, &s, true, WIRE_WINDOW);
        ended.fd = f->line.ended;
        usleep(50000);
        assert_int_equal(poll(&ended, 1, 0), 0); /* the run is not over yet */
        assert_int_equal(line_next_event(s.program, &event, NULL), 0);
        assert_int_equal(event.kind, BOX_EVENT_NONE);
        while (got < WIRE_WINDOW) {
                wait_for(s.io.out);
                ssize_t n = read(s.io.out, text, sizeof(text));
                assert_true(n > 0 && text[0] == 'x');
                got += (size_t)n;
        }
        assert_int_equal(next_event(&s, &event, NULL), 0);
        assert_int_equal(event.kind, BOX_EVENT_ENDED);
        assert_true(ending_is_exit(&event.end.ending));
        wait_for(f->line.ended);
        finish(&s);
}

/* No run is in progress, so the output is not read: the known end must not be reported without it. */
static void test_output_that_is_lost_makes_its_run_lost(void **state)
{
        struct fixture *f = *state;
        struct box_event event;
        gb_error err = {0};
        struct starter s;

        lose_with_output(f, &s, false, WIRE_WINDOW);
        assert_true(next_event(&s, &event, &err) < 0);
        assert_int_equal(err.code, GB_E_LOST);
        assert_non_null(strstr(err.message, "a part of what it wrote is missing"));
        wait_for(f->line.ended);
        finish(&s);
}

/* The program is forgotten, or the line is closed, while output waits to be read. */
static void test_a_lost_line_can_be_left(void **state)
{
        struct fixture *f = *state;
        struct starter s;

        lose_with_output(f, &s, true, WIRE_WINDOW);
        finish(&s);
        wait_for(f->line.ended);
        tear_down(state);
        set_up(state);
        f = *state;
        lose_with_output(f, &s, true, WIRE_WINDOW);
        line_close(&f->line); /* its thread ends */
        struct box_event event;
        assert_true(line_next_event(s.program, &event, NULL) < 0);
        finish(&s);
        safe_close(f->agent);
        free(f);
        set_up(state);
}

/* Its SIGKILL is the agent's, which had no room for its input. */
static void test_a_starved_program_is_lost(void **state)
{
        struct fixture *f = *state;
        struct wire_end end = {.ending = ENDING_OF_SIGNAL(SIGKILL), .starved = 1};
        struct box_event event;
        gb_error err = {0};
        struct starter s;

        greet(f);
        uint32_t number = start(&s, f, false, -1);
        say(f, WIRE_ENDED, number, 0, 0, &end, sizeof(end));
        assert_true(next_event(&s, &event, &err) < 0);
        assert_int_equal(err.code, GB_E_LOST);
        assert_non_null(strstr(err.message, "no room"));
        finish(&s);
}

/* A SIGKILL that came before ours was somebody else's. What the agent did not count is not known. */
static void test_a_stop_that_came_too_late(void **state)
{
        struct fixture *f = *state;
        char payload[WIRE_DATA_MAX];

        for (uint32_t by_itself = 0; by_itself < 2; by_itself++) {
                struct wire_end end = {.ending = ENDING_OF_SIGNAL(SIGKILL), .by_itself = by_itself,
                                       .usage = {.known = by_itself ? WIRE_USAGE_DISK : 0}};
                struct box_event event;
                struct starter s;

                if (by_itself == 0)
                        greet(f);
                uint32_t number = start(&s, f, false, -1);
                line_stop(s.program, BOX_STOP_ASKED);
                assert_int_equal(hear(f, payload).type, WIRE_STOP);
                say(f, WIRE_ENDED, number, 0, 0, &end, sizeof(end));
                assert_int_equal(next_event(&s, &event, NULL), 0);
                assert_int_equal(event.end.stop, by_itself ? BOX_STOP_NONE : BOX_STOP_ASKED);
                assert_int_equal(event.end.disk_known, by_itself);
                finish(&s);
        }
}

static void hear_usage(struct fixture *f, struct wire_usage usage, struct line_usage *ret)
{
        struct line_usage before;

        line_usage(&f->line, &before);

        say(f, WIRE_USAGE, 0, 0, 0, &usage, sizeof(usage));
        for (int i = 0; i < PATIENCE_MSEC; i++) {
                line_usage(&f->line, ret);
                if (memcmp(&before.seen, &ret->seen, sizeof(before.seen)) != 0)
                        return;
                usleep(1000);
        }
        fail_msg("no usage came");
}

static void test_what_the_agent_has_not_seen_is_not_known(void **state)
{
        struct fixture *f = *state;
        struct line_usage usage;

        greet(f);
        line_usage(&f->line, &usage);
        assert_int_equal(usage.seen.known, 0); /* not read yet */
        const struct wire_usage all = {
                .known = WIRE_USAGE_TASKS | WIRE_USAGE_DISK, .tasks = 3, .disk_bytes = 7, .inodes = 2, .disk_full = 1,
        };
        hear_usage(f, all, &usage);
        assert_int_equal(usage.seen.known, WIRE_USAGE_TASKS | WIRE_USAGE_DISK);
        assert_false(usage.disk_is_old);
        hear_usage(f, (struct wire_usage){0}, &usage);
        assert_int_equal(usage.seen.known, WIRE_USAGE_DISK); /* as they were last seen */
        assert_true(usage.disk_is_old);
        assert_int_equal(usage.seen.disk_bytes, 7);
        assert_int_equal(usage.seen.inodes, 2);
        assert_int_equal(usage.seen.disk_full, 1);
        hear_usage(f, (struct wire_usage){.known = WIRE_USAGE_TASKS, .tasks = 1}, &usage);
        assert_int_equal(usage.seen.known, WIRE_USAGE_TASKS | WIRE_USAGE_DISK);
        assert_int_equal(usage.seen.tasks, 1);
        assert_true(usage.disk_is_old);
        assert_int_equal(usage.tasks_peak, 3);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_memory_is_not_the_end_of_those_that_ended_before),
                TEST(test_what_broke_a_rule_was_not_ended_for_memory),
                cmocka_unit_test(test_memory_ran_out_while_a_program_ended_by_itself),
                TEST(test_output_that_has_come_is_handed_on_after_the_loss),
                TEST(test_output_that_is_lost_makes_its_run_lost),
                TEST(test_a_lost_line_can_be_left),
                TEST(test_a_starved_program_is_lost),
                TEST(test_a_stop_that_came_too_late),
                TEST(test_what_the_agent_has_not_seen_is_not_known),
        };
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
