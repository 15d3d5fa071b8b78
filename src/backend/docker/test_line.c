/* SPDX-License-Identifier: Apache-2.0
 *
 * The line to an agent that the test plays, well behaved and not: catalogue 148, 157 and 158 for containers. */
#include "backend/docker/test_line_fixture.h"

#include "base/fd.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cmocka.h>

static void test_output_comes_before_the_word_of_the_interpreter_and_the_end(void **state)
{
        struct fixture *f = *state;
        const struct wire_usage usage = {.known = WIRE_USAGE_DISK, .disk_bytes = 7};
        struct wire_end end = {.ending = ENDING_OF_EXIT(3), .wall_usec = 42, .usage = usage};
        struct box_event event;
        struct starter s;
        char text[16] = "";

        greet(f);
        uint32_t number = start(&s, f, true, -1);
        say(f, WIRE_DATA, number, WIRE_STDOUT, 0, "out", 3);
        say(f, WIRE_DATA, number, WIRE_CONTROL, 0, "word", 4);
        say(f, WIRE_ENDED, number, 0, 0, &end, sizeof(end));
        wait_for(s.io.control);
        assert_int_equal(read(s.io.out, text, sizeof(text)), 3);
        assert_int_equal(next_event(&s, &event, NULL), 0);
        assert_int_equal(event.kind, BOX_EVENT_ENDED);
        assert_true(ending_is_exit(&event.end.ending));
        assert_int_equal(event.end.ending.value, 3);
        assert_int_equal(event.end.wall_usec, 42);
        assert_int_equal(event.end.disk_peak_bytes, 7);
        finish(&s);
}

static void test_what_nobody_reads_gets_no_credit_and_stands_in_no_ones_way(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *piece = calloc(1, WIRE_DATA_MAX);
        char payload[WIRE_DATA_MAX];
        struct starter deaf, other;
        char text[8];

        greet(f);
        uint32_t a = start(&deaf, f, false, -1);
        uint32_t b = start(&other, f, false, -1);
        for (size_t sent = 0; sent < WIRE_WINDOW; sent += WIRE_DATA_MAX)
                say(f, WIRE_DATA, a, WIRE_STDOUT, 0, piece, WIRE_DATA_MAX);
        say(f, WIRE_DATA, b, WIRE_STDOUT, 0, "hello", 5);
        wait_for(other.io.out);
        assert_int_equal(read(other.io.out, text, sizeof(text)), 5);
        uint64_t credit = 0;
        for (struct wire_frame frame = hear(f, payload); frame.program != b; frame = hear(f, payload)) {
                assert_int_equal(frame.type, WIRE_CREDIT);
                credit += frame.value;
        }
        assert_true(credit < WIRE_WINDOW);
        gb_error why;
        assert_false(line_is_lost(&f->line, &why));
        finish(&deaf);
        finish(&other);
}

struct clearer {
        struct line *line;
        unsigned ended;
        gb_error err;
        int r;
};

static void *clear_line(void *data)
{
        struct clearer *c = data;

        c->r = line_clear(c->line, &c->ended, &c->err);
        return NULL;
}

/* What the agent could not end is no success; the next answer stands for itself. */
static void test_the_answer_to_a_clear(void **state)
{
        struct fixture *f = *state;
        const gb_error error = {.code = GB_E_INTERNAL, .errnum = EMFILE, .message = "cannot be listed"};
        char payload[WIRE_DATA_MAX];

        greet(f);
        for (int i = 0; i < 2; i++) {
                struct clearer c = {.line = &f->line, .ended = 99};
                pthread_t thread;
                assert_int_equal(pthread_create(&thread, NULL, clear_line, &c), 0);
                while (hear(f, payload).type != WIRE_CLEAR)
                        ;
                say(f, WIRE_CLEARED, 0, 0, i == 0 ? 0 : 5, &error, i == 0 ? sizeof(error) : 0);
                pthread_join(thread, NULL);
                assert_int_equal(c.r < 0, i == 0);
                assert_int_equal(c.ended, i == 0 ? 0 : 5);
                if (i == 0) {
                        assert_int_equal(c.err.code, GB_E_UNAVAILABLE);
                        assert_string_equal(c.err.message, "cannot be listed");
                }
        }
}

/* Much more than a window, read in small pieces: all of it comes, in its order, and the queue does not grow. */
static void test_a_slow_reader_gets_everything(void **state)
{
        enum { PIECE = 3000, TOTAL = 3 * 1024 * 1024 };
        struct fixture *f = *state;
        unsigned char piece[PIECE], text[777];
        char payload[WIRE_DATA_MAX];
        uint64_t said = 0, got = 0, credit = WIRE_WINDOW;
        struct starter s;

        greet(f);
        uint32_t number = start(&s, f, false, -1);
        while (got < TOTAL) {
                while (said < TOTAL && credit >= PIECE) {
                        for (size_t i = 0; i < PIECE; i++)
                                piece[i] = (unsigned char)((said + i) * 7 / 5);
                        say(f, WIRE_DATA, number, WIRE_STDOUT, 0, piece, PIECE);
                        said += PIECE;
                        credit -= PIECE;
                }
                ssize_t n = read(s.io.out, text, sizeof(text));
                for (ssize_t i = 0; i < n; i++)
                        assert_int_equal(text[i], (unsigned char)((got + (uint64_t)i) * 7 / 5));
                got += n > 0 ? (uint64_t)n : 0;
                struct pollfd credits = {f->agent, POLLIN, 0};
                while (poll(&credits, 1, n > 0 ? 0 : 1) > 0) {
                        struct wire_frame frame = hear(f, payload);
                        assert_int_equal(frame.type, WIRE_CREDIT);
                        credit += frame.value;
                }
                assert_false(line_is_lost(&f->line, NULL));
                assert_true(credit <= WIRE_WINDOW);
        }
        finish(&s);
}

static void test_input_goes_within_its_window(void **state)
{
        struct fixture *f = *state;
        char payload[WIRE_DATA_MAX];
        struct starter s;
        int pair[2];

        greet(f);
        assert_int_equal(pipe(pair), 0);
        uint32_t number = start(&s, f, false, pair[0]);
        _cleanup_free_ char *much = calloc(1, 64 * KIB);
        uint64_t got = 0;
        while (got < WIRE_WINDOW) {
                assert_int_equal(fd_write_all(pair[1], much, WIRE_DATA_MAX), 0);
                for (uint64_t end = got + WIRE_DATA_MAX; got < end;) {
                        struct wire_frame frame = hear(f, payload);
                        assert_int_equal(frame.type, WIRE_DATA);
                        assert_int_equal(frame.stream, WIRE_STDIN);
                        got += frame.size;
                }
        }
        assert_int_equal(fd_write_all(pair[1], "x", 1), 0);
        struct pollfd silent = {f->agent, POLLIN, 0};
        assert_int_equal(poll(&silent, 1, 100), 0);
        say(f, WIRE_CREDIT, number, WIRE_STDIN, 1, NULL, 0);
        assert_int_equal(hear(f, payload).size, 1);
        safe_close(pair[1]);
        say(f, WIRE_CREDIT, number, WIRE_STDIN, 10, NULL, 0);
        assert_int_equal(hear(f, payload).type, WIRE_EOF);
        safe_close(pair[0]);
        finish(&s);
}

static void test_a_pipe_is_passed_with_the_first_byte(void **state)
{
        struct fixture *f = *state;
        char payload[WIRE_DATA_MAX];
        struct starter s;
        int pair[2];
        union {
                char bytes[CMSG_SPACE(sizeof(int))];
                struct cmsghdr align;
        } control = {0};
        struct iovec iov = {(char *)(uintptr_t)"code", 4};
        struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};

        greet(f);
        uint32_t number = start(&s, f, true, -1);
        assert_int_equal(pipe(pair), 0);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(c), &pair[0], sizeof(int));
        assert_int_equal(sendmsg(s.io.control, &m, 0), 4);
        struct wire_frame frame = hear(f, payload);
        assert_int_equal(frame.type, WIRE_PASS);
        assert_true(frame.value >= WIRE_PIPE_FIRST && frame.value < WIRE_STREAMS_MAX);
        assert_memory_equal(payload, "code", 4);
        assert_int_equal(fd_write_all(pair[1], "in", 2), 0);
        struct wire_frame data = hear(f, payload);
        assert_int_equal(data.type, WIRE_DATA);
        assert_int_equal(data.stream, frame.value);
        assert_int_equal(data.program, number);
        safe_close(pair[1]);
        assert_int_equal(hear(f, payload).type, WIRE_EOF);
        safe_close(pair[0]);
        finish(&s);
}

static void test_the_deadline_stops_it_and_what_resists_loses_its_container(void **state)
{
        struct fixture *f = *state;
        char payload[WIRE_DATA_MAX];
        struct itimerspec soon = {.it_value = {.tv_nsec = 1000000}};
        struct box_event event;
        struct starter s;

        greet(f);
        start(&s, f, false, -1);
        assert_int_equal(timerfd_settime(s.io.deadline, 0, &soon, NULL), 0);
        assert_int_equal(hear(f, payload).type, WIRE_STOP);
        /* The agent says nothing more: it is ended with all that is in it. */
        assert_int_equal(next_event(&s, &event, NULL), 0);
        assert_int_equal(f->kills, 1);
        assert_int_equal(event.kind, BOX_EVENT_ENDED);
        assert_int_equal(event.end.stop, BOX_STOP_TIMEOUT);
        assert_false(ending_is_seen(&event.end.ending)); /* dead, but its end was not observed */
        finish(&s);
}

static void test_an_engine_that_hangs_is_lost_within_five_seconds(void **state)
{
        struct fixture *f = *state;
        struct itimerspec later = {.it_value = {.tv_sec = 60}};
        struct box_event event;
        gb_error err = {0};
        struct starter s;

        f->engine_answers = false;
        greet(f);
        start(&s, f, false, -1);
        assert_int_equal(timerfd_settime(s.io.deadline, 0, &later, NULL), 0);
        uint64_t before = monotonic_usec();
        say(f, WIRE_SIGNALLED, s.program->number, 0, 0, NULL, 0); /* the last word */
        assert_true(next_event(&s, &event, &err) < 0);
        assert_true(monotonic_usec() - before < 6000000);
        assert_int_equal(err.code, GB_E_LOST);
        assert_non_null(strstr(err.message, "does not answer"));
        finish(&s);
}

static void test_memory_that_ended_the_container_is_the_verdict(void **state)
{
        struct fixture *f = *state;
        struct box_event event;
        struct starter s;

        f->end = LINE_END_MEMORY;
        greet(f);
        start(&s, f, false, -1);
        shutdown(f->agent, SHUT_RDWR);
        assert_int_equal(next_event(&s, &event, NULL), 0);
        assert_int_equal(event.end.stop, BOX_STOP_MEMORY);
        assert_false(ending_is_seen(&event.end.ending));
        assert_int_equal(event.end.memory_peak_bytes, 0); /* which the line has not seen */
        wait_for(f->line.ended);
        finish(&s);
}

static void test_a_failure_is_told_and_its_number_used_again(void **state)
{
        struct fixture *f = *state;
        gb_error error = {.code = GB_E_NOT_FOUND, .errnum = ENOENT, .message = "python3 is not installed"};
        struct starter s;

        greet(f);
        uint32_t number = ask_for_start(&s, f, false, -1);
        say(f, WIRE_FAILED, number, 0, 0, &error, sizeof(error));
        pthread_join(s.thread, NULL);
        assert_int_equal(s.r, -ENOENT);
        assert_string_equal(s.err.message, "python3 is not installed");
        for (int i = 0; i < 2 * WIRE_PROGRAMS_MAX; i++) {
                number = ask_for_start(&s, f, false, -1);
                say(f, WIRE_FAILED, number, 0, 0, &error, sizeof(error));
                pthread_join(s.thread, NULL);
        }
        assert_false(line_is_lost(&f->line, NULL));
}

/* What no agent of ours would say; each ends the line, and the program as lost. */
static void test_a_hostile_agent_ends_its_own_session_only(void **state)
{
        static const struct {
                const char *name;
                uint16_t type, stream;
                uint32_t program_plus, size;
        } rows[] = {
                {"a second greeting", WIRE_HELLO, 0, 0, sizeof(struct wire_hello)},
                {"a type that is none", 999, 0, 0, 0},
                {"a program that is none", WIRE_DATA, WIRE_STDOUT, 1, 1},
                {"a number far away", WIRE_ENDED, 0, 1000000, sizeof(struct wire_end)},
                {"standard input that comes out", WIRE_DATA, WIRE_STDIN, 0, 1},
                {"a stream that is none", WIRE_DATA, 60000, 0, 1},
                {"a second start", WIRE_STARTED, 0, 0, 0},
                {"an end of another size", WIRE_ENDED, 0, 0, 3},
                {"a failure after the start", WIRE_FAILED, 0, 0, sizeof(gb_error)},
                {"numbers of another size", WIRE_USAGE, 0, 0, 5},
                {"credit for its own stream", WIRE_CREDIT, WIRE_STDOUT, 0, 0},
                {"the end of a stream that is none", WIRE_EOF, 77, 0, 0},
                {"the end of standard input", WIRE_EOF, WIRE_STDIN, 0, 0},
                {"nobody reads a stream that is none", WIRE_SHUT, WIRE_STREAMS_MAX, 0, 0},
                {"a word that is only ours", WIRE_PLAN, 0, 0, 8},
                {"the number of no program", WIRE_SIGNALLED, 0, (uint32_t)-1, 0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                char payload[2048] = "";
                struct box_event event;
                gb_error err = {0};
                struct starter s;
                void *fresh = NULL;
                set_up(&fresh);
                struct fixture *f = fresh;
                greet(f);
                uint32_t number = start(&s, f, false, -1);
                say(f, rows[i].type, number + rows[i].program_plus, rows[i].stream, 0, payload, rows[i].size);
                if (next_event(&s, &event, &err) == 0)
                        fail_msg("%s was taken", rows[i].name);
                assert_int_equal(err.code, GB_E_LOST);
                finish(&s);
                tear_down(&fresh);
        }
}

static void test_more_than_its_window_ends_it(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *piece = calloc(1, WIRE_DATA_MAX);
        struct box_event event;
        gb_error err = {0};
        struct starter s;

        greet(f);
        uint32_t number = start(&s, f, false, -1);
        /* Nobody reads: what a pipe holds is credited, the rest is not. */
        for (size_t sent = 0; sent <= 2 * WIRE_WINDOW; sent += WIRE_DATA_MAX) {
                struct wire_frame frame = {.type = WIRE_DATA, .stream = WIRE_STDOUT, .program = number, .size = WIRE_DATA_MAX};
                uint32_t size = sizeof(frame) + frame.size;
                frame.tag = wire_tag(f->keys.from_agent, f->n_said++, &frame, piece);
                uint8_t head[8] = {1, 0, 0, 0, (uint8_t)(size >> 24), (uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size};
                if (send(f->agent, head, sizeof(head), MSG_NOSIGNAL) < 0 || send(f->agent, &frame, sizeof(frame), MSG_NOSIGNAL) < 0 ||
                    send(f->agent, piece, WIRE_DATA_MAX, MSG_NOSIGNAL) < 0)
                        break;
        }
        assert_true(next_event(&s, &event, &err) < 0);
        assert_non_null(strstr(err.message, "window"));
        finish(&s);
}

/* Catalogue 148: under gVisor code can write to the streams of process 1. */
static void test_what_another_says_in_its_name_is_not_believed(void **state)
{
        static const char *const names[] = {"no tag", "the tag of another frame", "an old frame again", "another key"};

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                struct wire_end end = {.ending = ENDING_OF_EXIT(0)};
                struct box_event event;
                gb_error err = {0};
                struct starter s;
                void *fresh = NULL;
                set_up(&fresh);
                struct fixture *f = fresh;
                greet(f);
                uint32_t number = start(&s, f, false, -1);
                struct wire_frame frame = {.type = WIRE_ENDED, .program = number, .size = sizeof(end)};
                char bytes[sizeof(frame) + sizeof(end)];
                const uint64_t other[2] = {1, 2};
                const uint64_t tags[] = {
                        0, wire_tag(f->keys.from_agent, f->n_said, &(struct wire_frame){.type = WIRE_EOF, .program = number}, NULL),
                        wire_tag(f->keys.from_agent, f->n_said - 1, &frame, &end), wire_tag(other, f->n_said, &frame, &end),
                };
                frame.tag = tags[i];
                memcpy(bytes, &frame, sizeof(frame));
                memcpy(bytes + sizeof(frame), &end, sizeof(end));
                say_raw(f, 1, bytes, sizeof(bytes));
                if (next_event(&s, &event, &err) == 0)
                        fail_msg("%s was believed", names[i]);
                assert_non_null(strstr(err.message, "not its own"));
                finish(&s);
                tear_down(&fresh);
        }
}

/* A program that writes dots, and a reader that has gone for lunch. */
static void test_a_window_of_single_bytes_has_room(void **state)
{
        struct fixture *f = *state;
        char bytes[64];
        struct starter s;

        greet(f);
        uint32_t number = start(&s, f, false, -1);
        for (size_t sent = 0; sent < WIRE_WINDOW; sent++)
                say(f, WIRE_DATA, number, WIRE_STDOUT, 0, ".", 1);
        for (int i = 0; i < 1000; i++) /* nothing at all costs nothing, too */
                say(f, WIRE_DATA, number, WIRE_STDOUT, 0, "", 0);
        say(f, WIRE_ENDED, number, 0, 0, &(struct wire_end){0}, sizeof(struct wire_end));
        size_t got = 0;
        for (ssize_t n; got < WIRE_WINDOW; got += (size_t)n) {
                wait_for(s.io.out);
                n = read(s.io.out, bytes, sizeof(bytes));
                assert_true(n > 0 && bytes[0] == '.' && bytes[n - 1] == '.');
        }
        struct box_event event;
        assert_int_equal(next_event(&s, &event, NULL), 0);
        assert_int_equal(got, WIRE_WINDOW);
        finish(&s);
}

static void test_ends_that_are_none(void **state)
{
        static const struct wire_end rows[] = {
                {.ending = {ENDING_EXIT, 256}}, {.ending = {ENDING_EXIT, UINT32_MAX}}, {.ending = {ENDING_NOT_SEEN, 3}},
                {.ending = {ENDING_SIGNAL, 0}}, {.ending = {ENDING_SIGNAL, 65}},       {.ending = {3, 0}},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct box_event event;
                gb_error err = {0};
                struct starter s;
                void *fresh = NULL;
                set_up(&fresh);
                struct fixture *f = fresh;
                greet(f);
                uint32_t number = start(&s, f, false, -1);
                say(f, WIRE_ENDED, number, 0, 0, &rows[i], sizeof(rows[i]));
                if (next_event(&s, &event, &err) == 0)
                        fail_msg("an ending of kind %u with value %u was taken", rows[i].ending.kind,
                                 rows[i].ending.value);
                assert_non_null(strstr(err.message, "an end that is none"));
                finish(&s);
                tear_down(&fresh);
        }
}

static void test_words_of_a_failure_do_not_speak_to_terminals(void **state)
{
        struct fixture *f = *state;
        gb_error error = {.code = GB_E_NOT_FOUND, .errnum = ENOENT, .message = "a\033[2Jb\nc\177d"};
        struct starter s;

        memset(error.message + 16, 'x', sizeof(error.message) - 16); /* and no end */
        greet(f);
        uint32_t number = ask_for_start(&s, f, false, -1);
        say(f, WIRE_FAILED, number, 0, 0, &error, sizeof(error));
        pthread_join(s.thread, NULL);
        assert_string_equal(s.err.message, "a [2Jb c d");
}

static void test_garbage_in_the_place_of_the_engines_frames(void **state)
{
        struct fixture *f = *state;
        gb_error err = {0};

        assert_int_equal(fd_write_all(f->agent, "HTTP/1.1 200 OK\r\n", 17), 0);
        assert_true(line_greet(&f->line, &err) < 0);
        assert_int_equal(err.code, GB_E_LOST);
}

static void test_last_words_are_kept(void **state)
{
        struct fixture *f = *state;
        gb_error err = {0};

        say_raw(f, 2, "cannot go on\n", 13);
        shutdown(f->agent, SHUT_RDWR);
        assert_true(line_greet(&f->line, &err) < 0);
        assert_non_null(strstr(err.message, "cannot go on"));
}

static void test_it_can_be_closed_while_a_program_is_held(void **state)
{
        void *fresh = NULL;
        struct box_event event;
        gb_error err = {0};
        struct starter s;

        set_up(&fresh);
        struct fixture *f = fresh;
        greet(f);
        start(&s, f, true, -1);
        tear_down(&fresh);
        assert_true(line_next_event(s.program, &event, &err) < 0);
        finish(&s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_output_comes_before_the_word_of_the_interpreter_and_the_end),
                TEST(test_what_nobody_reads_gets_no_credit_and_stands_in_no_ones_way),
                TEST(test_a_slow_reader_gets_everything),
                TEST(test_the_answer_to_a_clear),
                TEST(test_input_goes_within_its_window),
                TEST(test_a_pipe_is_passed_with_the_first_byte),
                TEST(test_the_deadline_stops_it_and_what_resists_loses_its_container),
                TEST(test_an_engine_that_hangs_is_lost_within_five_seconds),
                TEST(test_memory_that_ended_the_container_is_the_verdict),
                TEST(test_a_failure_is_told_and_its_number_used_again),
                cmocka_unit_test(test_a_hostile_agent_ends_its_own_session_only),
                TEST(test_more_than_its_window_ends_it),
                cmocka_unit_test(test_what_another_says_in_its_name_is_not_believed),
                TEST(test_a_window_of_single_bytes_has_room),
                cmocka_unit_test(test_ends_that_are_none),
                TEST(test_words_of_a_failure_do_not_speak_to_terminals),
                TEST(test_garbage_in_the_place_of_the_engines_frames),
                TEST(test_last_words_are_kept),
                cmocka_unit_test(test_it_can_be_closed_while_a_program_is_held),
        };
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
