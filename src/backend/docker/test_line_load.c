/* SPDX-License-Identifier: Apache-2.0
 *
 * A line under load: much under way in both directions, readers that stand still, programs that are forgotten in the middle. */
#include "backend/docker/test_line_fixture.h"

#include "base/fd.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const struct wire_end good_end = {.ending = ENDING_OF_EXIT(0)};

static void rest(long msec)
{
        nanosleep(&(struct timespec){.tv_sec = msec / 1000, .tv_nsec = msec % 1000 * 1000000}, NULL);
}

static uint64_t processor_msec(void)
{
        struct rusage use;

        assert_int_equal(getrusage(RUSAGE_SELF, &use), 0);
        return (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000 + (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1000;
}

/* Of its last frame the pipe had taken a part. What still comes of it must not be counted with what is gone. */
static void test_a_program_is_forgotten_with_half_of_a_frame(void **state)
{
        enum { PIECE = 20000 };
        struct fixture *f = *state;
        char piece[PIECE] = "", payload[WIRE_DATA_MAX], text[8];
        struct starter s, other;

        greet(f);
        uint32_t number = start(&s, f, false, -1);
        for (int i = 0; i < 4; i++) /* more than a pipe holds */
                say(f, WIRE_DATA, number, WIRE_STDOUT, 0, piece, PIECE);
        struct pollfd credits = {f->agent, POLLIN, 0};
        uint64_t credit = 0;
        while (poll(&credits, 1, credit <= 3 * PIECE ? PATIENCE_MSEC : 50) > 0) {
                struct wire_frame frame = hear(f, payload);
                assert_int_equal(frame.type, WIRE_CREDIT);
                credit += frame.value;
        }
        assert_true(credit > 3 * PIECE && credit < 4 * PIECE);
        line_forget(s.program); /* as a context does it: the pipes are closed later */
        assert_int_equal(hear(f, payload).type, WIRE_STOP);
        say(f, WIRE_EOF, number, WIRE_STDOUT, 0, NULL, 0);
        say(f, WIRE_ENDED, number, 0, 0, &good_end, sizeof(good_end));
        uint32_t second = start(&other, f, false, -1);
        say(f, WIRE_DATA, second, WIRE_STDOUT, 0, "hello", 5);
        wait_for(other.io.out);
        assert_int_equal(read(other.io.out, text, sizeof(text)), 5);
        assert_false(line_is_lost(&f->line, NULL));
        for (int i = 0; i < 3; i++)
                safe_close((int[]){s.io.out, s.io.err, s.io.deadline}[i]);
        finish(&other);
}

/* It has ended, its output waits for a reader, and its time comes: nobody has anything to do then. */
static void test_a_deadline_after_the_end_costs_nothing(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *piece = calloc(1, WIRE_DATA_MAX);
        const struct itimerspec soon = {.it_value.tv_nsec = 1000000};
        struct starter s;

        greet(f);
        uint32_t number = start(&s, f, false, -1);
        for (size_t sent = 0; sent < WIRE_WINDOW; sent += WIRE_DATA_MAX)
                say(f, WIRE_DATA, number, WIRE_STDOUT, 0, piece, WIRE_DATA_MAX);
        say(f, WIRE_ENDED, number, 0, 0, &good_end, sizeof(good_end));
        assert_int_equal(timerfd_settime(s.io.deadline, 0, &soon, NULL), 0);
        rest(100);
        uint64_t before = processor_msec();
        rest(500);
        assert_in_range(processor_msec() - before, 0, 200);
        finish(&s);
}

/* Each of some sources has always more to send than the agent takes: what was sent long ago must not fill the line. */
static void test_steady_input_never_fills_the_line(void **state)
{
        enum { SOURCES = 3, TOTAL = 60 * 1024 * 1024 };
        struct fixture *f = *state;
        _cleanup_free_ char *much = calloc(1, 64 * KIB);
        char payload[WIRE_DATA_MAX];
        struct starter s[SOURCES];
        uint32_t number[SOURCES];
        int pipes[SOURCES][2];

        greet(f);
        for (int i = 0; i < SOURCES; i++) {
                assert_int_equal(pipe(pipes[i]), 0);
                number[i] = start(&s[i], f, false, pipes[i][0]);
                assert_int_equal(fd_set_nonblock(pipes[i][1]), 0);
        }
        for (uint64_t got = 0; got < TOTAL;) {
                for (int i = 0; i < SOURCES; i++)
                        (void)!write(pipes[i][1], much, 64 * KIB);
                nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL); /* slower than the sources: something is always under way */
                struct wire_frame frame = hear(f, payload); /* with its tag, which tells of a frame that is missing */
                assert_int_equal(frame.type, WIRE_DATA);
                got += frame.size;
                for (int i = 0; i < SOURCES; i++)
                        if (number[i] == frame.program)
                                say(f, WIRE_CREDIT, frame.program, WIRE_STDIN, frame.size, NULL, 0);
                assert_true(f->line.out.allocated <= 8 * MIB);
        }
        for (int i = 0; i < SOURCES; i++) {
                finish(&s[i]);
                safe_close(pipes[i][0]);
                safe_close(pipes[i][1]);
        }
}

static void test_single_bytes_of_two_streams_in_turn_have_room(void **state)
{
        struct fixture *f = *state;
        struct starter s;

        greet(f);
        uint32_t number = start(&s, f, true, -1);
        say(f, WIRE_DATA, number, WIRE_CONTROL, 0, "x", 1);
        for (uint32_t i = 0; i < WIRE_WINDOW; i++)
                for (uint16_t stream = WIRE_STDOUT; stream <= WIRE_STDERR; stream++)
                        say(f, WIRE_DATA, number, stream, 0, "y", 1);
        say(f, WIRE_ENDED, number, 0, 0, &good_end, sizeof(good_end));
        rest(50);
        assert_false(line_is_lost(&f->line, NULL));
        finish(&s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_a_program_is_forgotten_with_half_of_a_frame),
                TEST(test_a_deadline_after_the_end_costs_nothing),
                TEST(test_steady_input_never_fills_the_line),
                TEST(test_single_bytes_of_two_streams_in_turn_have_room),
        };
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
