/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections over a line whose agent the test plays, well behaved and not: catalogue 119 and 124 for containers. */
#include "backend/docker/test_line_fixture.h"

#include "base/fd.h"
#include "base/message.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define PORT 3128

struct listening {
        struct fixture *f;
        int r;
        gb_error err;
        pthread_t thread;
};

static void *listen_main(void *data)
{
        struct listening *l = data;

        l->r = line_listen(&l->f->line, PORT, &l->err);
        return NULL;
}

/* Asks the agent; what it answers is the caller's. */
static void ask_to_listen(struct listening *l, struct fixture *f)
{
        char payload[WIRE_DATA_MAX];

        *l = (struct listening){.f = f};
        greet(f);
        assert_int_equal(pthread_create(&l->thread, NULL, listen_main, l), 0);
        struct wire_frame frame = hear(f, payload);
        assert_int_equal(frame.type, WIRE_LISTEN);
        assert_int_equal(frame.value, PORT);
}

/* The socket on which connections come. */
static int listen_on(struct fixture *f)
{
        struct listening l;
        gb_error err;

        ask_to_listen(&l, f);
        say(f, WIRE_LISTENING, 0, 0, PORT, NULL, 0);
        pthread_join(l.thread, NULL);
        assert_int_equal(l.r, 0);
        int fd = line_take_listener(&f->line, &err);
        assert_true(fd >= 0);
        assert_true(line_take_listener(&f->line, &err) < 0); /* once */
        return fd;
}

/* The next connection, as the proxy gets it. */
static int accept_on(int source)
{
        int fds[BOX_FDS_MAX], n = 0;
        char byte;

        wait_for(source);
        assert_int_equal(message_receive(source, MSG_DONTWAIT, &byte, 1, fds, &n), 1);
        assert_int_equal(n, 1);
        assert_true(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
        return fds[0];
}

static struct wire_frame hear_of(struct fixture *f, uint32_t number, char *payload)
{
        struct wire_frame frame = hear(f, payload);

        assert_int_equal(frame.program, number);
        return frame;
}

static void wait_until_free(struct fixture *f, uint32_t number)
{
        bool there = true;

        for (int i = 0; there && i < PATIENCE_MSEC; i++) {
                pthread_mutex_lock(&f->line.lock);
                there = f->line.connections[number] != NULL;
                pthread_mutex_unlock(&f->line.lock);
                usleep(there ? 1000 : 0);
        }
        assert_false(there);
}

static void wait_until_lost(struct fixture *f, gb_error *why)
{
        wait_for(f->line.ended);
        assert_true(line_is_lost(&f->line, why));
}

static void test_bytes_and_ends_go_both_ways(void **state)
{
        struct fixture *f = *state;
        char payload[WIRE_DATA_MAX], text[16] = "";
        _cleanup_close_ int source = listen_on(f);

        say(f, WIRE_CONNECTION_OPEN, 7, 0, 0, NULL, 0);
        say(f, WIRE_CONNECTION_DATA, 7, 0, 0, "question", 8);
        say(f, WIRE_CONNECTION_EOF, 7, 0, 0, NULL, 0);
        _cleanup_close_ int fd = accept_on(source);
        wait_for(fd);
        assert_int_equal(recv(fd, text, sizeof(text), MSG_WAITALL | MSG_DONTWAIT), 8);
        assert_memory_equal(text, "question", 8);
        wait_for(fd);
        assert_int_equal(recv(fd, text, sizeof(text), MSG_DONTWAIT), 0);
        assert_int_equal(fd_write_all(fd, "answer", 6), 0);
        struct wire_frame frame = hear_of(f, 7, payload);
        assert_int_equal(frame.type, WIRE_CONNECTION_DATA);
        assert_memory_equal(payload, "answer", 6);
        fd = safe_close(fd);
        assert_int_equal(hear_of(f, 7, payload).type, WIRE_CONNECTION_EOF);
        assert_int_equal(hear_of(f, 7, payload).type, WIRE_CONNECTION_CLOSE);
        say(f, WIRE_CONNECTION_CREDIT, 7, 0, 6, NULL, 0); /* said before it knew */
        say(f, WIRE_CONNECTION_CLOSE, 7, 0, 0, NULL, 0);
        wait_until_free(f, 7);
        say(f, WIRE_CONNECTION_OPEN, 7, 0, 0, NULL, 0);
        fd = accept_on(source);
}

static void test_what_nobody_reads_gets_no_credit_and_stands_in_no_ones_way(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *piece = calloc(1, WIRE_DATA_MAX);
        char text[8];
        _cleanup_close_ int source = listen_on(f);
        uint64_t credit = WIRE_CONNECTION_WINDOW, said = 0;
        struct pollfd agent = {f->agent, POLLIN, 0};

        say(f, WIRE_CONNECTION_OPEN, 1, 0, 0, NULL, 0);
        say(f, WIRE_CONNECTION_OPEN, 2, 0, 0, NULL, 0);
        _cleanup_close_ int deaf = accept_on(source), other = accept_on(source);
        /* As much as the kernel takes for the pair, and a window. */
        for (;;) {
                for (; credit >= WIRE_DATA_MAX; credit -= WIRE_DATA_MAX, said += WIRE_DATA_MAX)
                        say(f, WIRE_CONNECTION_DATA, 1, 0, 0, piece, WIRE_DATA_MAX);
                if (poll(&agent, 1, 200) == 0)
                        break;
                struct wire_frame frame = hear_of(f, 1, piece);
                assert_int_equal(frame.type, WIRE_CONNECTION_CREDIT);
                credit += frame.value;
                memset(piece, 0, WIRE_DATA_MAX);
        }
        assert_in_range(said, WIRE_CONNECTION_WINDOW, 4 * WIRE_CONNECTION_WINDOW);
        say(f, WIRE_CONNECTION_DATA, 2, 0, 0, "hello", 5);
        wait_for(other);
        assert_int_equal(recv(other, text, sizeof(text), MSG_DONTWAIT), 5);
        /* It is closed meanwhile by the agent; who reads it late gets all of it. */
        say(f, WIRE_CONNECTION_CLOSE, 1, 0, 0, NULL, 0);
        uint64_t got = 0;
        for (ssize_t n = 1; n != 0;) {
                wait_for(deaf);
                n = recv(deaf, piece, WIRE_DATA_MAX, MSG_DONTWAIT);
                assert_true(n >= 0);
                got += (uint64_t)n;
        }
        assert_int_equal(got, said);
        wait_until_free(f, 1);
}

static void test_an_answer_goes_within_its_window(void **state)
{
        struct fixture *f = *state;
        _cleanup_free_ char *much = calloc(1, 64 * KIB);
        char payload[WIRE_DATA_MAX];
        struct pollfd agent = {f->agent, POLLIN, 0};
        _cleanup_close_ int source = listen_on(f);

        say(f, WIRE_CONNECTION_OPEN, 256, 0, 0, NULL, 0);
        _cleanup_close_ int fd = accept_on(source);
        uint64_t got = 0;
        while (got < WIRE_CONNECTION_WINDOW) {
                (void)send(fd, much, 64 * KIB, MSG_DONTWAIT);
                struct wire_frame frame = hear_of(f, 256, payload);
                assert_int_equal(frame.type, WIRE_CONNECTION_DATA);
                got += frame.size;
        }
        assert_int_equal(got, WIRE_CONNECTION_WINDOW);
        (void)send(fd, much, 64 * KIB, MSG_DONTWAIT);
        assert_int_equal(poll(&agent, 1, 100), 0);
        say(f, WIRE_CONNECTION_CREDIT, 256, 0, 3, NULL, 0);
        assert_int_equal(hear_of(f, 256, payload).size, 3);
}

/* What it answered before it closed still goes to the code, whatever that was still sending. */
static void test_who_closes_with_something_unread_is_heard(void **state)
{
        struct fixture *f = *state;
        char payload[WIRE_DATA_MAX] = "";
        _cleanup_close_ int source = listen_on(f);

        say(f, WIRE_CONNECTION_OPEN, 1, 0, 0, NULL, 0);
        say(f, WIRE_CONNECTION_DATA, 1, 0, 0, payload, 1000);
        int fd = accept_on(source);
        wait_for(fd);
        assert_int_equal(fd_write_all(fd, "no", 2), 0);
        safe_close(fd);
        say(f, WIRE_CONNECTION_DATA, 1, 0, 0, payload, 1000);
        assert_int_equal(hear_of(f, 1, payload).type, WIRE_CONNECTION_DATA);
        assert_memory_equal(payload, "no", 2);
        assert_int_equal(hear_of(f, 1, payload).type, WIRE_CONNECTION_EOF);
        assert_int_equal(hear_of(f, 1, payload).type, WIRE_CONNECTION_CLOSE);
        say(f, WIRE_CONNECTION_DATA, 1, 0, 0, payload, 1000); /* said before it knew */
        say(f, WIRE_CONNECTION_CLOSE, 1, 0, 0, NULL, 0);
        wait_until_free(f, 1);
        assert_false(line_is_lost(&f->line, NULL));
}

/* All that there can be, and nobody who takes them; then nobody at all. */
static void test_connections_that_nobody_takes_are_closed(void **state)
{
        struct fixture *f = *state;
        char payload[WIRE_DATA_MAX];
        int source = listen_on(f);

        for (uint32_t i = 1; i <= WIRE_CONNECTIONS_MAX - 1; i++)
                say(f, WIRE_CONNECTION_OPEN, i, 0, 0, NULL, 0);
        for (uint32_t i = 1; i <= WIRE_CONNECTIONS_MAX - 1; i++)
                say(f, WIRE_CONNECTION_CLOSE, i, 0, 0, NULL, 0);
        for (uint32_t i = 1; i <= WIRE_CONNECTIONS_MAX - 1; i++)
                assert_int_equal(hear(f, payload).type, WIRE_CONNECTION_CLOSE);
        safe_close(source);
        say(f, WIRE_CONNECTION_OPEN, WIRE_CONNECTIONS_MAX, 0, 0, NULL, 0);
        assert_int_equal(hear_of(f, WIRE_CONNECTIONS_MAX, payload).type, WIRE_CONNECTION_CLOSE);
        assert_false(line_is_lost(&f->line, NULL));
}

static void test_an_agent_that_cannot_listen(void **state)
{
        struct fixture *f = *state;
        struct listening l;
        gb_error told = {.code = GB_E_UNENFORCEABLE, .errnum = EADDRINUSE, .message = "taken\x1b[31m"};

        ask_to_listen(&l, f);
        say(f, WIRE_LISTENING, 0, 0, 0, &told, sizeof(told));
        pthread_join(l.thread, NULL);
        assert_true(l.r < 0);
        assert_int_equal(l.err.code, GB_E_UNENFORCEABLE);
        assert_string_equal(l.err.message, "taken [31m");
        assert_true(line_take_listener(&f->line, &l.err) < 0);
}

static void test_the_end_of_the_line_ends_its_connections(void **state)
{
        struct fixture *f = *state;
        char text[8];
        _cleanup_close_ int source = listen_on(f);

        say(f, WIRE_CONNECTION_OPEN, 1, 0, 0, NULL, 0);
        _cleanup_close_ int fd = accept_on(source);
        shutdown(f->agent, SHUT_RDWR);
        wait_until_lost(f, NULL);
        wait_for(fd);
        assert_int_equal(recv(fd, text, sizeof(text), MSG_DONTWAIT), 0);
        wait_for(source);
        assert_int_equal(recv(source, text, sizeof(text), MSG_DONTWAIT), 0);
}

/* Whether something waits for room in the pair of a connection, and all credit that was given for it has been heard. */
static bool is_stuck(struct fixture *f, uint32_t number, uint64_t credit)
{
        pthread_mutex_lock(&f->line.lock);
        const struct line_connection *c = f->line.connections[number];
        bool stuck = c && c->queue.size > c->queue_at && c->uncredited == WIRE_CONNECTION_WINDOW - credit;
        pthread_mutex_unlock(&f->line.lock);
        return stuck;
}

/* Each of these ends the session, whose connection 1 is open, 2 has had its end, and 3 is closed by the agent and not yet by us. */
static void test_what_an_enemy_would_say(void **state)
{
        static const struct {
                uint16_t type;
                uint32_t number, value, size;
        } rows[] = {
                {WIRE_CONNECTION_OPEN, 1, 0, 0}, {WIRE_CONNECTION_OPEN, 0, 0, 0}, {WIRE_CONNECTION_OPEN, WIRE_CONNECTIONS_MAX + 1, 0, 0}, {WIRE_CONNECTION_OPEN, 9, 0, 1},
                {WIRE_CONNECTION_OPEN, 3, 0, 0}, {WIRE_CONNECTION_DATA, 9, 0, 1}, {WIRE_CONNECTION_DATA, 1, 0, 0}, {WIRE_CONNECTION_DATA, 2, 0, 1},
                {WIRE_CONNECTION_DATA, 3, 0, 1}, {WIRE_CONNECTION_DATA, UINT32_MAX, 0, 1}, {WIRE_CONNECTION_EOF, 2, 0, 0}, {WIRE_CONNECTION_EOF, 9, 0, 0},
                {WIRE_CONNECTION_EOF, 1, 0, 1}, {WIRE_CONNECTION_CREDIT, 1, 1, 0}, {WIRE_CONNECTION_CREDIT, 1, UINT32_MAX, 0}, {WIRE_CONNECTION_CREDIT, 9, 1, 0},
                {WIRE_CONNECTION_CLOSE, 9, 0, 0}, {WIRE_CONNECTION_CLOSE, 3, 0, 0}, {WIRE_CONNECTION_CLOSE + 1, 1, 0, 0}, {WIRE_LISTENING, 0, PORT, 0},
        };
        static char piece[WIRE_DATA_MAX];

        for (size_t i = 0; i <= ARRAY_SIZE(rows); i++) {
                void *fresh = NULL;
                gb_error why = {0};
                set_up(&fresh);
                struct fixture *f = fresh;
                int source = listen_on(f), fds[3];
                for (uint32_t number = 1; number <= 3; number++) {
                        say(f, WIRE_CONNECTION_OPEN, number, 0, 0, NULL, 0);
                        fds[number - 1] = accept_on(source);
                }
                say(f, WIRE_CONNECTION_EOF, 2, 0, 0, NULL, 0);
                /* More than the pair takes, so that something waits. */
                uint64_t credit = WIRE_CONNECTION_WINDOW;
                struct pollfd agent = {f->agent, POLLIN, 0};
                do {
                        for (; credit >= sizeof(piece); credit -= sizeof(piece))
                                say(f, WIRE_CONNECTION_DATA, 3, 0, 0, piece, sizeof(piece));
                        while (poll(&agent, 1, 1) == 1)
                                credit += hear_of(f, 3, piece).value;
                } while (credit >= sizeof(piece) || !is_stuck(f, 3, credit));
                if (i == ARRAY_SIZE(rows)) /* the one that is too much */
                        say(f, WIRE_CONNECTION_DATA, 3, 0, 0, piece, (uint32_t)credit + 1);
                else {
                        say(f, WIRE_CONNECTION_CLOSE, 3, 0, 0, NULL, 0);
                        say(f, rows[i].type, rows[i].number, 0, rows[i].value, piece, rows[i].size);
                }
                wait_until_lost(f, &why);
                assert_non_null(strstr(why.message, "broke the rules of its channel"));
                for (int k = 0; k < 3; k++)
                        safe_close(fds[k]);
                safe_close(source);
                tear_down(&fresh);
        }
}

static void test_nobody_listens(void **state)
{
        struct fixture *f = *state;

        greet(f);
        say(f, WIRE_CONNECTION_OPEN, 1, 0, 0, NULL, 0);
        wait_until_lost(f, NULL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_bytes_and_ends_go_both_ways),
                TEST(test_what_nobody_reads_gets_no_credit_and_stands_in_no_ones_way),
                TEST(test_an_answer_goes_within_its_window),
                TEST(test_who_closes_with_something_unread_is_heard),
                TEST(test_connections_that_nobody_takes_are_closed),
                TEST(test_an_agent_that_cannot_listen),
                TEST(test_the_end_of_the_line_ends_its_connections),
                cmocka_unit_test(test_what_an_enemy_would_say),
                TEST(test_nobody_listens),
        };
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
