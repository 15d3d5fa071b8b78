/* SPDX-License-Identifier: Apache-2.0
 *
 * The way out of a container, as the agent has it: its listener, and what goes over it. Attacks of docs/attack-catalogue.md: 119 (who else may have the port),
 * 124 (as many connections as there can be), 152 (nobody reads). */
#include "agent/test_peer.h"

#include "base/error.h"
#include "base/fd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static uint16_t listen_any(struct peer *a)
{
        put(a, WIRE_LISTEN, 0, 0, 0, NULL, 0);
        assert_int_equal(next(a), WIRE_LISTENING);
        assert_int_equal(a->frame.size, 0);
        assert_in_range(a->frame.value, 1, UINT16_MAX);
        return (uint16_t)a->frame.value;
}

static int dial(uint16_t port)
{
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_true(fd >= 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
        return fd;
}

static uint32_t await_open(struct peer *a)
{
        assert_int_equal(next(a), WIRE_CONNECTION_OPEN);
        assert_int_equal(a->frame.size, 0);
        assert_in_range(a->frame.program, 1, WIRE_CONNECTIONS_MAX);
        return a->frame.program;
}

static void expect_of(struct peer *a, uint16_t type, uint32_t number)
{
        assert_int_equal(next(a), type);
        assert_int_equal(a->frame.program, number);
}

/* It lives, and answers. */
static void expect_answer(struct peer *a)
{
        uint16_t type;

        put(a, WIRE_LOOK, 0, 0, 4711, NULL, 0);
        while ((type = next(a)) != WIRE_USAGE || a->frame.value != 4711)
                assert_int_not_equal(type, 0);
}

static void test_bytes_and_ends_go_both_ways(void **state)
{
        struct peer *a = *state;
        char text[16] = "";
        _cleanup_close_ int fd = dial(listen_any(a));
        uint32_t number = await_open(a);

        assert_int_equal(fd_write_all(fd, "question", 8), 0);
        expect_of(a, WIRE_CONNECTION_DATA, number);
        assert_int_equal(a->frame.size, 8);
        assert_memory_equal(a->payload, "question", 8);
        shutdown(fd, SHUT_WR);
        expect_of(a, WIRE_CONNECTION_EOF, number);
        put(a, WIRE_CONNECTION_DATA, number, 0, 0, "answer", 6);
        assert_int_equal(recv(fd, text, 6, MSG_WAITALL), 6);
        assert_memory_equal(text, "answer", 6);
        put(a, WIRE_CONNECTION_EOF, number, 0, 0, NULL, 0);
        assert_int_equal(recv(fd, text, sizeof(text), 0), 0);
        expect_of(a, WIRE_CONNECTION_CLOSE, number);
        put(a, WIRE_CONNECTION_CREDIT, number, 0, 8, NULL, 0); /* said before the host knew */
        put(a, WIRE_CONNECTION_CLOSE, number, 0, 0, NULL, 0);
        expect_answer(a);
}

/* What was said before a close is heard. */
static void test_the_host_closes(void **state)
{
        struct peer *a = *state;
        _cleanup_free_ char *bytes = calloc(1, WIRE_CONNECTION_WINDOW);
        char unread[5000] = "";
        _cleanup_close_ int fd = dial(listen_any(a));
        uint32_t number = await_open(a);

        assert_int_equal(fd_write_all(fd, unread, sizeof(unread)), 0);
        for (uint32_t got = 0; got < sizeof(unread); got += a->frame.size)
                expect_of(a, WIRE_CONNECTION_DATA, number);
        for (size_t sent = 0; sent < WIRE_CONNECTION_WINDOW; sent += WIRE_DATA_MAX)
                put(a, WIRE_CONNECTION_DATA, number, 0, 0, bytes, WIRE_DATA_MAX);
        put(a, WIRE_CONNECTION_CLOSE, number, 0, 0, NULL, 0);
        assert_int_equal(recv(fd, bytes, WIRE_CONNECTION_WINDOW, MSG_WAITALL), WIRE_CONNECTION_WINDOW);
        assert_int_equal(recv(fd, bytes, 1, 0), 0);
        while (next(a) != WIRE_CONNECTION_CLOSE)
                assert_int_equal(a->frame.type, WIRE_CONNECTION_CREDIT);
}

/* A client that is killed has its kernel say so; the number is free when both sides have closed it. */
static void test_the_code_breaks_off(void **state)
{
        struct peer *a = *state;
        const struct linger at_once = {.l_onoff = 1};
        uint16_t port = listen_any(a);

        for (int i = 0; i < WIRE_CONNECTIONS_MAX + 10; i++) {
                int fd = dial(port);
                uint32_t number = await_open(a);
                assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
                safe_close(fd);
                expect_of(a, WIRE_CONNECTION_CLOSE, number);
                put(a, WIRE_CONNECTION_DATA, number, 0, 0, "late", 4);
                put(a, WIRE_CONNECTION_CLOSE, number, 0, 0, NULL, 0);
        }
}

/* 152: one that is sent more than it reads, and one that sends what the host does not take: neither is in another's way. */
static void test_nobody_reads(void **state)
{
        struct peer *a = *state;
        _cleanup_free_ char *much = calloc(1, 4 * MIB);
        uint16_t port = listen_any(a);
        uint32_t credit = WIRE_CONNECTION_WINDOW, got = 0;
        uint64_t sent = 0;
        _cleanup_close_ int deaf = dial(port);
        uint32_t number = await_open(a);

        for (; credit >= WIRE_DATA_MAX; credit -= WIRE_DATA_MAX, sent += WIRE_DATA_MAX) {
                put(a, WIRE_CONNECTION_DATA, number, 0, 0, much, WIRE_DATA_MAX);
                put(a, WIRE_LOOK, 0, 0, 1, NULL, 0);
                while (next(a) == WIRE_CONNECTION_CREDIT)
                        credit += a->frame.value;
                assert_int_equal(a->frame.type, WIRE_USAGE);
        }
        _cleanup_close_ int pushy = dial(port);
        uint32_t other = await_open(a);
        assert_int_equal(fd_set_nonblock(pushy), 0);
        assert_true(send(pushy, much, 4 * MIB, MSG_NOSIGNAL) > (ssize_t)WIRE_CONNECTION_WINDOW);
        while (got < WIRE_CONNECTION_WINDOW) {
                expect_of(a, WIRE_CONNECTION_DATA, other);
                got += a->frame.size;
        }
        assert_int_equal(got, WIRE_CONNECTION_WINDOW);
        expect_answer(a); /* and no byte more of it */
        start(a, 1, (struct order){.run = "echo still here"});
        await_end(a, 1);
        assert_string_equal(a->text[WIRE_STDOUT], "still here\n");
        put(a, WIRE_CONNECTION_CREDIT, other, 0, 7, NULL, 0);
        expect_of(a, WIRE_CONNECTION_DATA, other);
        assert_int_equal(a->frame.size, 7);
        for (uint64_t n = 0; n < sent;) {
                ssize_t r = recv(deaf, much, 4 * MIB, 0);
                assert_true(r > 0);
                n += (uint64_t)r;
        }
}

/* 124: those above the most are closed at once, and there is room again when one has ended. */
static void test_as_many_as_there_can_be(void **state)
{
        struct peer *a = *state;
        int fds[WIRE_CONNECTIONS_MAX];
        uint16_t port = listen_any(a);
        char byte;

        for (int i = 0; i < WIRE_CONNECTIONS_MAX; i++) {
                fds[i] = dial(port);
                (void)await_open(a);
        }
        for (int i = 0; i < 40; i++) {
                _cleanup_close_ int more = dial(port);
                assert_true(recv(more, &byte, 1, 0) <= 0);
        }
        safe_close(fds[0]);
        assert_int_equal(next(a), WIRE_CONNECTION_EOF);
        put(a, WIRE_CONNECTION_CLOSE, a->frame.program, 0, 0, NULL, 0);
        assert_int_equal(next(a), WIRE_CONNECTION_CLOSE);
        fds[0] = dial(port);
        (void)await_open(a);
        for (int i = 0; i < WIRE_CONNECTIONS_MAX; i++)
                safe_close(fds[i]);
        expect_answer(a);
}

/* 119: whatever options a socket has. */
static void test_nobody_else_gets_the_port(void **state)
{
        struct peer *a = *state;
        const int on = 1;
        uint16_t port = listen_any(a);
        const uint32_t addresses[] = {INADDR_LOOPBACK, INADDR_ANY};

        for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
                struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(addresses[i])};
                _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
                assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
                assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
                assert_true(bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 && errno == EADDRINUSE);
        }
}

static void test_a_port_that_is_taken(void **state)
{
        struct peer *a = *state;
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(at);
        gb_error error;
        _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
        assert_int_equal(listen(fd, 1), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
        put(a, WIRE_LISTEN, 0, 0, ntohs(at.sin_port), NULL, 0);
        assert_int_equal(next(a), WIRE_LISTENING);
        assert_int_equal(a->frame.value, 0);
        assert_int_equal(a->frame.size, sizeof(error));
        memcpy(&error, a->payload, sizeof(error));
        assert_int_equal(error.code, GB_E_UNENFORCEABLE);
        assert_int_equal(error.errnum, EADDRINUSE);
}

/* The code may take the agent's descriptors away; who waits then costs no processor. */
static void test_without_descriptors(void **state)
{
        struct peer *a = *state;
        uint16_t port = listen_any(a);
        struct rlimit before, few;
        struct timespec used;
        clockid_t clock;

        assert_int_equal(prlimit(a->pid, RLIMIT_NOFILE, NULL, &before), 0);
        few = (struct rlimit){.rlim_cur = 6, .rlim_max = before.rlim_max}; /* enough to wait with, not for another one */
        assert_int_equal(prlimit(a->pid, RLIMIT_NOFILE, &few, NULL), 0);
        _cleanup_close_ _unused_ int fd = dial(port);
        usleep(1000000);
        assert_int_equal(prlimit(a->pid, RLIMIT_NOFILE, &before, NULL), 0);
        (void)await_open(a);
        assert_int_equal(clock_getcpuclockid(a->pid, &clock), 0);
        assert_int_equal(clock_gettime(clock, &used), 0);
        assert_true(used.tv_sec == 0 && used.tv_nsec < 500000000);
}

static void test_what_the_host_would_not_say(void **state)
{
        static const struct wire_frame wrong[] = {
                {.type = WIRE_LISTEN}, {.type = WIRE_CONNECTION_OPEN, .program = 9}, {.type = WIRE_CONNECTION_DATA, .program = 9, .size = 4},
                {.type = WIRE_CONNECTION_DATA, .program = 1}, {.type = WIRE_CONNECTION_EOF, .program = 0},
                {.type = WIRE_CONNECTION_CLOSE, .program = WIRE_CONNECTIONS_MAX + 1}, {.type = WIRE_CONNECTION_CREDIT, .program = 1, .value = 1},
                {.type = WIRE_CONNECTION_EOF, .program = 1, .size = 4}, {.type = WIRE_CONNECTION_CLOSE + 1, .program = 1},
        };

        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                struct peer *a = *state;
                _cleanup_close_ _unused_ int fd = dial(listen_any(a));
                assert_int_equal(await_open(a), 1);
                assert_int_equal(fd_write_all(a->in, &wrong[i], sizeof(wrong[i])), 0);
                (void)fd_write_all(a->in, "data", MIN(wrong[i].size, 4U));
                assert_int_equal(next(a), 0);
                assert_int_equal(teardown(state), 0);
                assert_int_equal(setup(state), 0);
        }
}

static void test_more_than_the_window(void **state)
{
        struct peer *a = *state;
        static char piece[WIRE_DATA_MAX];
        uint32_t credit = WIRE_CONNECTION_WINDOW;
        _cleanup_close_ _unused_ int fd = dial(listen_any(a));
        uint32_t number = await_open(a);

        for (; credit >= sizeof(piece); credit -= sizeof(piece)) {
                put(a, WIRE_CONNECTION_DATA, number, 0, 0, piece, sizeof(piece));
                put(a, WIRE_LOOK, 0, 0, 1, NULL, 0);
                while (next(a) == WIRE_CONNECTION_CREDIT)
                        credit += a->frame.value;
        }
        put(a, WIRE_CONNECTION_DATA, number, 0, 0, piece, credit + 1);
        assert_int_equal(next(a), 0);
}

int main(void)
{
        signal(SIGPIPE, SIG_IGN);
        const struct CMUnitTest tests[] = {
                TEST(test_bytes_and_ends_go_both_ways), TEST(test_the_host_closes), TEST(test_the_code_breaks_off), TEST(test_nobody_reads),
                TEST(test_as_many_as_there_can_be), TEST(test_nobody_else_gets_the_port), TEST(test_a_port_that_is_taken), TEST(test_without_descriptors),
                TEST(test_what_the_host_would_not_say), TEST(test_more_than_the_window),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
