/* SPDX-License-Identifier: Apache-2.0
 *
 * The client against a server that a child process plays: each test says what it does with a connection. */
#include "client/client.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_USEC 30000000ULL
#define ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"

typedef void player(int listener);

static char directory[64], path[80];
static pid_t child;

static void start(player *f, struct client *c)
{
        struct client_address address;
        struct sockaddr_un un = {.sun_family = AF_UNIX};

        snprintf(directory, sizeof(directory), "/tmp/gbclient-XXXXXX");
        assert_non_null(mkdtemp(directory));
        snprintf(path, sizeof(path), "%s/s", directory);
        strcpy(un.sun_path, path);
        int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(listener >= 0);
        assert_int_equal(bind(listener, (struct sockaddr *)&un, sizeof(un)), 0);
        assert_int_equal(listen(listener, 8), 0);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
                alarm(60);
                f(listener);
                _exit(0);
        }
        safe_close(listener);
        assert_int_equal(client_address_unix(path, &address), 0);
        client_init(c, &address, NULL);
}

static void finish(struct client *c)
{
        int status;

        client_done(c);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        unlink(path);
        rmdir(directory);
}

/* ---- what the players do ---- */

static void require(bool condition)
{
        if (!condition)
                _exit(1);
}

/* Reads the head of a request, and as much of its body as is wanted. */
static void read_request(int fd, const char *first_line, size_t body)
{
        char buf[8192] = "";
        size_t used = 0;
        char *end;

        while (!(end = strstr(buf, "\r\n\r\n"))) {
                ssize_t n = read(fd, buf + used, sizeof(buf) - 1 - used);
                require(n > 0);
                used += (size_t)n;
                buf[used] = '\0';
        }
        require(strncmp(buf, first_line, strlen(first_line)) == 0);
        size_t have = used - (size_t)(end + 4 - buf);
        while (have < body) {
                char rest[4096];
                ssize_t n = read(fd, rest, MIN(sizeof(rest), body - have));
                require(n > 0);
                have += (size_t)n;
        }
        require(body == 0 || have == body);
}

static void say(int fd, const char *text)
{
        require(fd_write_all(fd, text, strlen(text)) == 0);
}

static void await_end(int fd)
{
        char buf[4096];

        while (read(fd, buf, sizeof(buf)) > 0)
                ;
}

static void await_nobody(int listener)
{
        int fd = accept(listener, NULL, NULL);

        await_end(fd);
}

/* ---- the client's side ---- */

static int ask(struct client *c, const char *method, const char *target, const char *body, gb_error *err)
{
        int r = client_start(c,
                             &(struct client_request){.method = method,
                                                      .target = target,
                                                      .type = body ? "text/plain" : NULL,
                                                      .body = body,
                                                      .body_size = body ? strlen(body) : 0,
                                                      .body_fd = -1},
                             err);
        return r < 0 ? r : client_wait(c, CLIENT_WHOLE, monotonic_usec() + PATIENCE_USEC, -1, err);
}

static void answer_twice(int listener)
{
        int fd = accept(listener, NULL, NULL);

        read_request(fd, "GET /one HTTP/1.1\r\n", 0);
        say(fd, ANSWER "ok");
        read_request(fd, "POST /two HTTP/1.1\r\n", 5);
        say(fd, ANSWER "ko");
        await_end(fd);
}

static void test_connection_is_used_again(void **state)
{
        struct client c;
        gb_error err = {0};

        start(answer_twice, &c);
        assert_int_equal(ask(&c, "GET", "/one", NULL, &err), 0);
        assert_string_equal(c.body.data, "ok");
        assert_int_equal(ask(&c, "POST", "/two", "12345", &err), 0);
        assert_string_equal(c.body.data, "ko");
        finish(&c);
}

/* What the caller adds stands in the head once, and not in that of the next request. */
static void look_for_fields(int listener)
{
        static const char *const wanted[] = {"\r\nA: one\r\nB: two\r\n", NULL};
        int fd = accept(listener, NULL, NULL);

        for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
                char buf[4096] = "";
                size_t used = 0;
                while (!strstr(buf, "\r\n\r\n")) {
                        ssize_t n = read(fd, buf + used, sizeof(buf) - 1 - used);
                        require(n > 0);
                        used += (size_t)n;
                        buf[used] = '\0';
                }
                require(wanted[i] ? strstr(buf, wanted[i]) != NULL : !strstr(buf, "\r\nA:"));
                say(fd, ANSWER "ok");
        }
        await_end(fd);
}

static void test_more_fields(void **state)
{
        struct client_request request = {.method = "GET", .target = "/", .headers = "A: one\r\nB: two\r\n", .body_fd = -1};
        struct client c;
        gb_error err = {0};

        start(look_for_fields, &c);
        for (int i = 0; i < 2; i++) {
                assert_int_equal(client_start(&c, &request, &err), 0);
                assert_int_equal(client_wait(&c, CLIENT_WHOLE, monotonic_usec() + PATIENCE_USEC, -1, &err), 0);
                request.headers = NULL;
        }
        finish(&c);
}

static void test_fields_that_do_not_fit(void **state)
{
        static char large[CLIENT_HEAD_BYTES_MAX + 1];
        struct client_request request = {.method = "GET", .target = "/", .headers = large, .body_fd = -1};
        struct client c;
        gb_error err = {0};

        memset(large, 'x', sizeof(large) - 1);
        start(await_nobody, &c);
        assert_int_equal(client_start(&c, &request, &err), -E2BIG);
        assert_int_equal(err.code, GB_E_LIMIT);
        finish(&c);
}

static void close_between(int listener)
{
        for (int i = 0; i < 2; i++) {
                int fd = accept(listener, NULL, NULL);
                read_request(fd, "GET / ", 0);
                say(fd, ANSWER "ok");
                close(fd);
        }
}

static void test_a_connection_that_was_closed_meanwhile(void **state)
{
        struct client c;
        gb_error err = {0};

        start(close_between, &c);
        assert_int_equal(ask(&c, "GET", "/", NULL, &err), 0);
        /* The end of the connection has come before it is used again. */
        struct pollfd p = {.fd = c.fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, (int)(PATIENCE_USEC / 1000)), 1);
        assert_int_equal(ask(&c, "GET", "/", NULL, &err), 0);
        finish(&c);
}

static void refuse_early(int listener)
{
        int fd = accept(listener, NULL, NULL);

        read_request(fd, "PUT /big ", 0);
        say(fd, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno");
        await_end(fd);
        close(fd);
        fd = accept(listener, NULL, NULL);
        read_request(fd, "GET /next ", 0);
        say(fd, ANSWER "ok");
        await_end(fd);
}

static void test_an_answer_before_the_request_was_sent(void **state)
{
        struct client c;
        gb_error err = {0};
        _cleanup_close_ int file = open("/dev/zero", O_RDONLY | O_CLOEXEC);

        start(refuse_early, &c);
        /* More than any buffer takes: it must not wait until all of it has left. */
        assert_int_equal(client_start(&c, &(struct client_request){.method = "PUT", .target = "/big", .type = "a/b", .body_size = (size_t)1 << 40, .body_fd = file},
                                      &err),
                         0);
        assert_int_equal(client_wait(&c, CLIENT_WHOLE, monotonic_usec() + PATIENCE_USEC, -1, &err), 0);
        assert_int_equal(c.response.status, 413);
        assert_string_equal(c.body.data, "no");
        assert_int_equal(ask(&c, "GET", "/next", NULL, &err), 0);
        assert_int_equal(c.response.status, 200);
        finish(&c);
}

static void cut_off(int listener)
{
        int fd = accept(listener, NULL, NULL);

        read_request(fd, "GET / ", 0);
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart");
        close(fd);
}

static void test_an_answer_that_is_cut_off(void **state)
{
        struct client c;
        gb_error err = {0};

        start(cut_off, &c);
        assert_true(ask(&c, "GET", "/", NULL, &err) < 0);
        assert_int_equal(err.code, GB_E_LOST);
        finish(&c);
}

static void close_at_once(int listener)
{
        int fd = accept(listener, NULL, NULL);

        read_request(fd, "POST / ", 1);
        close(fd);
}

static void test_nothing_is_sent_twice(void **state)
{
        struct client c;
        gb_error err = {0};

        /* Would the client try again, the player would not be there to accept. */
        start(close_at_once, &c);
        assert_true(ask(&c, "POST", "/", "x", &err) < 0);
        assert_int_equal(err.code, GB_E_LOST);
        finish(&c);
}

static void more_than_the_answer(int listener)
{
        int fd = accept(listener, NULL, NULL);

        read_request(fd, "GET / ", 0);
        say(fd, ANSWER "okHTTP/1.1 200 OK\r\n");
        await_end(fd);
}

static void test_bytes_behind_the_answer(void **state)
{
        struct client c;
        gb_error err = {0};

        start(more_than_the_answer, &c);
        assert_true(ask(&c, "GET", "/", NULL, &err) < 0);
        assert_int_equal(err.code, GB_E_LOST);
        assert_non_null(strstr(err.message, "after its end"));
        finish(&c);
}

static void never_answer(int listener)
{
        int fd = accept(listener, NULL, NULL);

        await_end(fd);
}

static void test_patience_ends(void **state)
{
        struct client c;
        gb_error err = {0};
        int fds[2];

        start(never_answer, &c);
        assert_int_equal(client_start(&c, &(struct client_request){.method = "GET", .target = "/", .body_fd = -1}, &err), 0);
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        assert_int_equal(write(fds[1], "x", 1), 1);
        assert_int_equal(client_wait(&c, CLIENT_WHOLE, 0, fds[0], &err), -ECANCELED);
        assert_true(client_wait(&c, CLIENT_WHOLE, monotonic_usec() + 1000, -1, &err) < 0);
        assert_int_equal(err.code, GB_E_LOST);
        safe_close(fds[0]);
        safe_close(fds[1]);
        finish(&c);
}

static void expect_close(int listener)
{
        int fd = accept(listener, NULL, NULL);

        read_request(fd, "GET /stream ", 0);
        say(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n");
        await_end(fd);
}

static void test_a_stream_is_read_as_it_comes(void **state)
{
        struct client c;
        gb_error err = {0};
        size_t size;

        start(expect_close, &c);
        assert_int_equal(client_start(&c, &(struct client_request){.method = "GET", .target = "/stream", .body_fd = -1}, &err), 0);
        assert_int_equal(client_wait(&c, CLIENT_MORE, monotonic_usec() + PATIENCE_USEC, -1, &err), 0);
        const char *data = client_data(&c, &size);
        assert_int_equal(size, 4);
        assert_memory_equal(data, "one\n", 4);
        client_take(&c, 4);
        client_data(&c, &size);
        assert_int_equal(size, 0);
        assert_false(client_is_done(&c));
        finish(&c);
}

static void test_nobody_listens(void **state)
{
        struct client_address address;
        struct client c;
        gb_error err = {0};

        assert_int_equal(client_address_unix("/nowhere/at/all", &address), 0);
        client_init(&c, &address, NULL);
        assert_true(client_connect(&c, &err) < 0);
        assert_int_equal(err.code, GB_E_UNAVAILABLE);
        client_done(&c);
}

static void test_encoding(void **state)
{
        _cleanup_buffer_ struct buffer b;

        buffer_init(&b, 4096);
        assert_int_equal(client_add_encoded(&b, "a b/c?#%\xc3\xbc-._~", true), 0);
        assert_string_equal(b.data, "a%20b/c%3F%23%25%C3%BC-._~");
        b.size = 0;
        assert_int_equal(client_add_encoded(&b, "a/b", false), 0);
        assert_string_equal(b.data, "a%2Fb");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_connection_is_used_again),
                cmocka_unit_test(test_more_fields),
                cmocka_unit_test(test_fields_that_do_not_fit),
                cmocka_unit_test(test_a_connection_that_was_closed_meanwhile),
                cmocka_unit_test(test_an_answer_before_the_request_was_sent),
                cmocka_unit_test(test_an_answer_that_is_cut_off),
                cmocka_unit_test(test_nothing_is_sent_twice),
                cmocka_unit_test(test_bytes_behind_the_answer),
                cmocka_unit_test(test_patience_ends),
                cmocka_unit_test(test_a_stream_is_read_as_it_comes),
                cmocka_unit_test(test_nobody_listens),
                cmocka_unit_test(test_encoding),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
