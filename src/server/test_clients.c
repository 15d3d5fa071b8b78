/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients that are slow, silent, or many. Times here are short, and only ever waited for: nothing must happen within one. */
#include "base/fd.h"
#include "server/loop.h"
#include "server/test_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define HOST "Host: localhost\r\n"
#define SOON_USEC 300000ULL

static struct fixture f;

static int teardown(void **state)
{
        fixture_stop(&f);
        return 0;
}

static void test_silent_clients_are_closed(void **state)
{
        fixture_init(&f);
        f.server.config.keep_alive_usec = 10 * SOON_USEC;
        fixture_start(&f);
        _cleanup_close_ int silent = fixture_connect(&f), idle = fixture_connect_tcp(&f);
        say(idle, "GET /echo/a HTTP/1.1\r\n" HOST "\r\n");
        _cleanup_answer_ struct answer a = hear(idle);
        assert_int_equal(a.status, 200);
        char byte;
        assert_int_equal(recv(silent, &byte, 1, 0), 0);
        assert_int_equal(recv(idle, &byte, 1, 0), 0);
}

static void test_slow_heads_are_refused(void **state)
{
        fixture_init(&f);
        f.server.config.header_usec = SOON_USEC;
        fixture_start(&f);
        _cleanup_close_ int fd = fixture_connect(&f), drip = fixture_connect_tcp(&f);
        say(fd, "GET /echo/a HTTP/1.1\r\nHos");
        _cleanup_answer_ struct answer a = hear(fd);
        assert_int_equal(a.status, 408);
        assert_true(is_closed(fd));
        /* A byte now and then does not help. */
        say(drip, "GET /echo/a HTTP/1.1\r\nX: ");
        struct pollfd p = {.fd = drip, .events = POLLIN};
        while (poll(&p, 1, 20) == 0)
                say(drip, "y");
        _cleanup_answer_ struct answer b = hear(drip);
        assert_int_equal(b.status, 408);
        /* The time is that of a head, not of a connection. */
        _cleanup_close_ int again = fixture_connect(&f);
        for (int i = 0; i < 3; i++) {
                say(again, "GET /echo/a HTTP/1.1\r\n" HOST "\r\n");
                _cleanup_answer_ struct answer c = hear(again);
                assert_int_equal(c.status, 200);
                nanosleep(&(struct timespec){.tv_nsec = 250000000}, NULL);
        }
}

static void test_slow_bodies_are_refused(void **state)
{
        fixture_init(&f);
        f.server.config.body_usec = SOON_USEC;
        fixture_start(&f);
        _cleanup_close_ int fd = fixture_connect(&f);
        say(fd, "PUT /bytes/a HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\nhel");
        _cleanup_answer_ struct answer a = hear(fd);
        assert_int_equal(a.status, 408);
        assert_true(is_closed(fd));
}

/* With all the time in the world, so much must come in each window. */
static void test_dripping_bodies_are_refused(void **state)
{
        fixture_init(&f);
        fixture_start(&f);
        _cleanup_close_ int fd = fixture_connect(&f);
        say(fd, "PUT /bytes/a HTTP/1.1\r\n" HOST "Content-Length: 100000\r\n\r\nhel");
        struct pollfd p = {.fd = fd, .events = POLLIN};
        while (poll(&p, 1, 100) == 0)
                say(fd, "y");
        _cleanup_answer_ struct answer a = hear(fd);
        assert_int_equal(a.status, 408);
}

/* A client that reads nothing: the writer hears of it, and the thread is free again. */
static void test_stalled_readers_are_cut(void **state)
{
        fixture_init(&f);
        f.server.config.stalled_usec = SOON_USEC;
        fixture_start(&f);
        _cleanup_close_ int fd = fixture_connect(&f), tcp = fixture_connect_tcp(&f);
        say(fd, "GET /large?size=100000000 HTTP/1.1\r\n" HOST "\r\n");
        say(tcp, "GET /large?size=100000000&chunked=true HTTP/1.1\r\n" HOST "\r\n");
        assert_true(reaches(&fixture_gone, 2));
        assert_true(fixture_written < 10000); /* pieces of 10,000 bytes: not all of it went anywhere */
        _cleanup_answer_ struct answer a = hear(fd), b = hear(tcp);
        assert_false(a.whole);
        assert_false(b.whole);
}

/* What is left when the handler has returned: the loop cuts it. */
static void test_stalled_rests_are_cut(void **state)
{
        fixture_init(&f);
        f.server.config.stalled_usec = SOON_USEC;
        fixture_start(&f);
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_un path = {.sun_family = AF_UNIX};
        snprintf(path.sun_path, sizeof(path.sun_path), "%s", f.socket);
        assert_int_equal(connect(fd, (struct sockaddr *)&path, sizeof(path)), 0);
        say(fd, "GET /large?size=400000 HTTP/1.1\r\n" HOST "\r\n");
        uint64_t connections = 1, requests;
        for (int i = 0; i < 6000 && connections > 0; i++) {
                nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
                loop_count(f.server.loop, &connections, &requests);
        }
        assert_int_equal(connections, 0);
        _cleanup_answer_ struct answer a = hear(fd);
        assert_false(a.whole);
}

/* Slow is not stalled. */
static void test_slow_readers_get_everything(void **state)
{
        fixture_init(&f);
        fixture_start(&f);
        _cleanup_close_ int fd = fixture_connect_tcp(&f);
        char piece[65536];
        size_t got = 0;
        ssize_t n;

        say(fd, "GET /large?size=12000000 HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
        while ((n = recv(fd, piece, sizeof(piece), 0)) > 0) {
                got += (size_t)n;
                nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
        assert_true(got > 12000000);
}

/* There are as many connections as there may be. */
static void test_idle_ones_make_room(void **state)
{
        fixture_init(&f);
        f.server.config.connections = 8;
        fixture_start(&f);
        int fds[8];
        for (size_t i = 0; i < 8; i++) {
                fds[i] = fixture_connect(&f);
                say(fds[i], "GET /open HTTP/1.1\r\n" HOST "\r\n"); /* by the loop itself: it is idle when the answer is there */
                _cleanup_answer_ struct answer a = hear(fds[i]);
                assert_int_equal(a.status, 200);
        }
        /* The first one is used again, so the second is the one that goes. */
        say(fds[0], "GET /open HTTP/1.1\r\n" HOST "\r\n");
        _cleanup_answer_ struct answer again = hear(fds[0]);
        assert_int_equal(again.status, 200);
        _cleanup_answer_ struct answer a = ask(&f, "GET /echo/a HTTP/1.1\r\n" HOST "\r\n");
        assert_int_equal(a.status, 200);
        assert_true(is_closed(fds[1]));
        say(fds[0], "GET /echo/a HTTP/1.1\r\n" HOST "\r\n");
        _cleanup_answer_ struct answer still = hear(fds[0]);
        assert_int_equal(still.status, 200);
        for (size_t i = 0; i < 8; i++)
                close(fds[i]);
}

static void test_slow_heads_make_room(void **state)
{
        fixture_init(&f);
        f.server.config.connections = 8;
        fixture_start(&f);
        int fds[8];
        for (size_t i = 0; i < 8; i++) {
                fds[i] = fixture_connect(&f);
                say(fds[i], "GET /echo/a HTTP/1.1\r\n" HOST "X: ");
        }
        for (size_t i = 0; i < 8; i++) {
                _cleanup_answer_ struct answer a = ask(&f, "GET /echo/a HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
                assert_int_equal(a.status, 200);
        }
        for (size_t i = 0; i < 8; i++)
                close(fds[i]);
}

static void test_busy_ones_do_not(void **state)
{
        fixture_init(&f);
        f.server.config.connections = 4;
        fixture_start(&f);
        int fds[4];
        for (size_t i = 0; i < 4; i++) {
                fds[i] = fixture_connect(&f);
                say(fds[i], "GET /wait HTTP/1.1\r\n" HOST "\r\n");
        }
        assert_true(reaches(&fixture_waiting, 4));
        _cleanup_answer_ struct answer a = ask(&f, "GET /echo/a HTTP/1.1\r\n" HOST "\r\n");
        assert_int_equal(a.status, 503);
        assert_non_null(strstr(a.head, "\r\nRetry-After: "));
        for (size_t i = 0; i < 4; i++)
                close(fds[i]);
        assert_true(reaches(&fixture_gone, 4));
}

static int highest_fd(void)
{
        DIR *directory = opendir("/proc/self/fd");
        struct dirent *entry;
        int highest = 0;

        assert_non_null(directory);
        while ((entry = readdir(directory)))
                highest = MAX(highest, atoi(entry->d_name));
        closedir(directory);
        return highest;
}

static double cpu_seconds(void)
{
        struct timespec t;

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* No descriptor is left: who comes is told, the loop does not spin, and all is well when there are some again. */
static void test_no_descriptors(void **state)
{
        struct rlimit before, low;
        struct sockaddr_un path = {.sun_family = AF_UNIX};
        int fds[24];

        fixture_init(&f);
        fixture_start(&f);
        snprintf(path.sun_path, sizeof(path.sun_path), "%s", f.socket);
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
                fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        low = before;
        low.rlim_cur = (rlim_t)highest_fd() + 4;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
                assert_int_equal(connect(fds[i], (struct sockaddr *)&path, sizeof(path)), 0);
                say(fds[i], "GET /wait HTTP/1.1\r\n" HOST "\r\n");
        }
        /* Some are worked on, and hold what descriptors there are (which, is a matter of time); the others are told. */
        double cpu = cpu_seconds();
        size_t told = 0;
        for (int i = 0; i < 3000 && told < ARRAY_SIZE(fds) / 2; i++) {
                told = 0;
                for (size_t k = 0; k < ARRAY_SIZE(fds); k++)
                        told += poll(&(struct pollfd){.fd = fds[k], .events = POLLIN}, 1, 0) == 1;
                nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        }
        assert_true(told >= ARRAY_SIZE(fds) / 2);
        assert_true(cpu_seconds() - cpu < 2);
        for (size_t k = 0; k < ARRAY_SIZE(fds); k++) {
                if (poll(&(struct pollfd){.fd = fds[k], .events = POLLIN}, 1, 0) != 1)
                        continue;
                _cleanup_answer_ struct answer a = hear(fds[k]);
                assert_true(a.status >= 500 || a.status == 0);
        }
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
                close(fds[i]);
        _cleanup_answer_ struct answer b = ask(&f, "GET /echo/a HTTP/1.1\r\n" HOST "\r\n");
        assert_int_equal(b.status, 200);
        fixture_release(); /* who had no descriptor for it does not hear that his client is gone */
        for (int i = 0; i < 6000 && fixture_waiting > 0; i++)
                nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

/* Clients that vanish at any byte of what they send and of what they get. */
static void *vanish(void *data)
{
        static const char *const texts[] = {
                "GET /echo/a HTTP/1.1\r\n" HOST "\r\nGET /open HTTP/1.1\r\n" HOST "\r\nGET /none HTTP/1.1\r\n" HOST "\r\n",
                "POST /json HTTP/1.1\r\n" HOST "Content-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\":1}GET /stream HTTP/1.1\r\n" HOST "Accept: text/event-stream\r\n\r\n",
                "PUT /bytes/a HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5\r\nhello\r\n0\r\n\r\nGET /bad\r\n",
                "GET /large?size=3000000&chunked=true HTTP/1.1\r\n" HOST "\r\nGET /large?size=300000&cut=true HTTP/1.1\r\n" HOST "\r\n",
                "GET /wait HTTP/1.1\r\n" HOST "\r\n",
        };
        unsigned seed = *(unsigned *)data;

        for (int i = 0; i < 400; i++) {
                const char *text = texts[(unsigned)rand_r(&seed) % ARRAY_SIZE(texts)];
                int fd = rand_r(&seed) % 2 ? fixture_connect(&f) : fixture_connect_tcp(&f);
                size_t size = strlen(text), cut = rand_r(&seed) % 2 ? size : (size_t)rand_r(&seed) % size, first = cut > 0 ? (size_t)rand_r(&seed) % cut : 0;
                char piece[8192];
                say_bytes(fd, text, first);
                say_bytes(fd, text + first, cut - first);
                struct pollfd p = {.fd = fd, .events = POLLIN};
                for (int reads = rand_r(&seed) % 6; reads > 0 && poll(&p, 1, 5) == 1; reads--)
                        if (recv(fd, piece, 1 + (size_t)rand_r(&seed) % sizeof(piece), MSG_DONTWAIT) <= 0)
                                break;
                if (rand_r(&seed) % 3 == 0)
                        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
                if (rand_r(&seed) % 3 == 0)
                        shutdown(fd, SHUT_WR);
                close(fd);
        }
        return NULL;
}

static int count_fds(void)
{
        DIR *directory = opendir("/proc/self/fd");
        int n = 0;

        while (readdir(directory))
                n++;
        closedir(directory);
        return n;
}

static void test_clients_that_vanish(void **state)
{
        pthread_t threads[4];
        unsigned seeds[4] = {1, 2, 3, 4};
        uint64_t connections = 1, requests = 1;

        fixture_init(&f);
        f.server.config.connections = 1000;
        fixture_start(&f);
        int before = count_fds();
        for (size_t i = 0; i < 4; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, vanish, &seeds[i]), 0);
        for (size_t i = 0; i < 4; i++)
                pthread_join(threads[i], NULL);
        int last[2] = {fixture_connect(&f), fixture_connect_tcp(&f)}; /* who came before has been accepted when these are answered */
        for (size_t i = 0; i < 2; i++) {
                say(last[i], "GET /open HTTP/1.1\r\n" HOST "\r\n");
                _cleanup_answer_ struct answer told = hear(last[i]);
                assert_int_equal(told.status, 200);
                close(last[i]);
        }
        for (int i = 0; i < 6000 && connections + requests > 0; i++) {
                nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
                loop_count(f.server.loop, &connections, &requests);
        }
        assert_int_equal(connections, 0);
        assert_int_equal(requests, 0);
        assert_int_equal(count_fds(), before);
        _cleanup_answer_ struct answer a = ask(&f, "GET /echo/a HTTP/1.1\r\n" HOST "\r\n");
        assert_int_equal(a.status, 200);
}

#define TEST(f) cmocka_unit_test_teardown(f, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_silent_clients_are_closed), TEST(test_slow_heads_are_refused), TEST(test_slow_bodies_are_refused), TEST(test_dripping_bodies_are_refused),
                TEST(test_stalled_readers_are_cut), TEST(test_stalled_rests_are_cut), TEST(test_slow_readers_get_everything), TEST(test_idle_ones_make_room), TEST(test_slow_heads_make_room),
                TEST(test_busy_ones_do_not), TEST(test_clients_that_vanish), TEST(test_no_descriptors),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
