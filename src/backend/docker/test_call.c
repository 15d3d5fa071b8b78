/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions, streams and raw connections, to engines that answer well and badly. Catalogue: group M. */
#include "backend/docker/engine.h"

#include "backend/docker/test_player.h"
#include "base/fd.h"
#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define SOON_USEC 200000ULL
#define PATIENCE_USEC 20000000ULL

static struct player player;
static struct engine engine;

/* An engine that says one thing to everybody. */
static void play(const char *bytes, size_t size, enum player_end end)
{
        static struct player_answer answers[1];

        answers[0] = (struct player_answer){NULL, bytes, size, end};
        player_start(&player, answers);
        engine = (struct engine){.api = "1.41", .name = "Docker Engine", .from = "a test"};
        snprintf(engine.socket, sizeof(engine.socket), "%s", player.socket);
}

static void assert_says(const gb_error *err, const char *text)
{
        if (!strstr(err->message, text))
                fail_msg("\"%s\" does not say \"%s\"", err->message, text);
}

static int get(uint64_t wait_usec, int *status, json_t **ret, gb_error *err)
{
        return engine_call(&engine, "GET", "/x", NULL, wait_usec, status, ret, err);
}

/* ---- one question ---- */

static void answers(void **state _unused_)
{
        static const struct {
                const char *bytes;
                int status;
                const char *json; /* NULL: none */
        } rows[] = {
                {PLAYER_JSON(" {\"a\":[1,2.5,\"x\\\"}\"]}\r\n"), 200, "{\"a\":[1,2.5,\"x\\\"}\"]}"},
                {PLAYER_JSON("[]"), 200, "[]"},
                {PLAYER_JSON("null\n"), 200, NULL},
                {PLAYER_JSON(""), 200, NULL},
                {"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nOK", 200, NULL},
                {"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 200, "{}"},
                {"HTTP/1.1 204 No Content\r\nApi-Version: 1.41\r\n\r\n", 204, NULL},
                {"HTTP/1.1 304 Not Modified\r\nContent-Length: 50\r\n\r\n", 304, NULL},
                {"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\nNot Found\n", 404, "{\"message\":\"Not Found\"}"},
                {"HTTP/1.1 502 Bad\r\nContent-Type: application/json\r\n\r\n{\"cut", 502, "{\"message\":\"{\\\"cut\"}"},
                {"HTTP/1.1 500 Bad\r\nContent-Length: 0\r\n\r\n", 500, NULL},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                for (int each = 0; each < 2; each++) {
                        _cleanup_json_ json_t *answer = NULL;
                        gb_error err = {0};
                        int status = 0;

                        play(rows[i].bytes, 0, each ? PLAYER_BYTES : PLAYER_CLOSE);
                        assert_int_equal(get(0, &status, &answer, &err), 0);
                        player_stop(&player);
                        assert_int_equal(status, rows[i].status);
                        _cleanup_free_ char *text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
                        if (rows[i].json)
                                assert_string_equal(text, rows[i].json);
                        else
                                assert_null(answer);
                }
        }
}

/* Asks what is answered with count times piece, after a head and a beginning. */
static int get_large(const char *begin, const char *piece, size_t count, gb_error *err)
{
        size_t one = strlen(piece), used = strlen(begin);
        char *bytes = malloc(used + one * count + 1);
        _cleanup_json_ json_t *answer = NULL;
        int status;

        assert_non_null(bytes);
        memcpy(bytes, begin, used);
        for (size_t i = 0; i < count; i++, used += one)
                memcpy(bytes + used, piece, one);
        play(bytes, used, PLAYER_CLOSE);
        int r = get(PATIENCE_USEC, &status, &answer, err);
        player_stop(&player);
        free(bytes);
        return r;
}

static void too_much(void **state _unused_)
{
        gb_error err = {0};

        assert_int_equal(get_large(PLAYER_JSON("[\""), "xxxxxxxx", 2 * MIB, &err), -EFBIG);
        assert_int_equal(err.code, GB_E_LIMIT);
        assert_says(&err, "8 MB");
        assert_int_equal(get_large(PLAYER_JSON(""), "[", 1000000, &err), -EBADMSG);
        assert_says(&err, "nested too deeply");
        assert_int_equal(err.code, GB_E_LOST);
        assert_int_equal(get_large(PLAYER_JSON(""), "{\"a\":", 1000000, &err), -EBADMSG);
        assert_says(&err, "nested too deeply");
        assert_int_equal(get_large(PLAYER_JSON("["), "[],", 1000000, &err), -EBADMSG);
        assert_says(&err, "too many parts");
        assert_int_equal(get_large(PLAYER_JSON("{\"n\":1"), "0", 1000000, &err), -EBADMSG);
        assert_says(&err, "cut off");
        assert_int_equal(get_large("HTTP/1.1 200 OK\r\n", "X-Y: z\r\n", 100000, &err), -EBADMSG);
        assert_says(&err, "head does not end");
        assert_int_equal(get_large("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "X-Y: z\r\n", 100000, &err), -EBADMSG);
        assert_says(&err, "trailer does not end");
}

static void silence(void **state _unused_)
{
        static const char *const begins[] = {"", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", PLAYER_JSON("{}")};

        for (size_t i = 0; i < ARRAY_SIZE(begins); i++) {
                gb_error err = {0};
                json_t *answer = NULL;
                int status = 0;

                play(begins[i], 0, PLAYER_HANG);
                assert_int_equal(get(SOON_USEC, &status, &answer, &err), -ETIMEDOUT);
                assert_int_equal(err.code, GB_E_LOST);
                assert_says(&err, "GET /x");
                player_stop(&player);
                assert_null(answer);
        }
}

/* Bytes that come for ever are no answer either. */
static void endless_answer(void **state _unused_)
{
        gb_error err = {0};
        int status = 0;

        play("HTTP/1.1 200 OK\r\n\r\n", 0, PLAYER_REPEAT);
        assert_true(get(PATIENCE_USEC, &status, NULL, &err) < 0);
        player_stop(&player);
        assert_int_equal(err.code, GB_E_LIMIT);
}

/* Nobody takes connections: the queue is full. */
static void full_queue(void **state _unused_)
{
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        char directory[] = "/tmp/gbengine-XXXXXX";
        int fds[4], status, listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        gb_error err = {0};

        assert_non_null(mkdtemp(directory));
        engine = (struct engine){.from = "a test"};
        snprintf(engine.socket, sizeof(engine.socket), "%s/s", directory);
        strcpy(un.sun_path, engine.socket);
        assert_int_equal(bind(listener, (struct sockaddr *)&un, sizeof(un)), 0);
        assert_int_equal(listen(listener, 0), 0);
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
                fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
                if (connect(fds[i], (struct sockaddr *)&un, sizeof(un)) < 0)
                        assert_int_equal(errno, EAGAIN);
        }
        assert_int_equal(get(SOON_USEC, &status, NULL, &err), -ETIMEDOUT);
        assert_int_equal(err.code, GB_E_UNAVAILABLE);
        assert_says(&err, "takes no connection");
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
                safe_close(fds[i]);
        safe_close(listener);
        unlink(engine.socket);
        rmdir(directory);
}

static void bad_targets(void **state _unused_)
{
        static const char *const targets[] = {"", "x", "/a b", "/a\r\nX: y", "/\x7f", "/\xc3\xa4"};
        gb_error err = {0};
        int status;

        play(PLAYER_JSON("{}"), 0, PLAYER_CLOSE);
        for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
                assert_true(engine_call(&engine, "GET", targets[i], NULL, 0, &status, NULL, &err) < 0);
                assert_int_equal(err.code, GB_E_INTERNAL);
        }
        assert_int_equal(player.asked, 0);
        player_stop(&player);
}

static void refusals(void **state _unused_)
{
        _cleanup_json_ json_t *nasty = json_pack("{s:s}", "message", "a\x1b[31m\nb\xe2\x80\xae" "c ");
        _cleanup_json_ json_t *space = json_pack("{s:s}", "message", "write /x: no space left on device");
        _cleanup_json_ json_t *typed = json_pack("{s:[i]}", "message", 7);
        struct engine e = {.podman = true};
        gb_error err;
        char large[2000];

        assert_int_equal(engine_refusal(&e, 404, nasty, "create", &err), -ENOENT);
        assert_int_equal(err.code, GB_E_NOT_FOUND);
        assert_string_equal(err.message, "create: Podman says 404: a [31m b c");
        assert_true(engine_refusal(&e, 500, space, "create", &err) < 0);
        assert_int_equal(err.code, GB_E_DISK_FULL);
        assert_true(engine_refusal(&e, 500, typed, "create", &err) < 0);
        assert_int_equal(err.code, GB_E_UNAVAILABLE);
        assert_says(&err, "no reason");
        assert_true(engine_refusal(&e, 409, NULL, "create", &err) < 0);
        assert_int_equal(err.code, GB_E_CONFLICT);
        memset(large, 'x', sizeof(large) - 1);
        large[sizeof(large) - 1] = '\0';
        _cleanup_json_ json_t *much = json_pack("{s:s}", "message", large);
        assert_true(engine_refusal(&e, 400, much, "create", &err) < 0);
        assert_int_equal(err.code, GB_E_INTERNAL);
        assert_says(&err, "xxx...");
}

/* ---- streams ---- */

struct heard {
        unsigned count;
        json_int_t sum;
        int cancel_fd; /* written to at the first; -1: not */
        int result;
};

static int hear(void *data, const json_t *value)
{
        struct heard *h = data;

        h->count++;
        h->sum += json_integer_value(json_object_get(value, "n"));
        if (h->cancel_fd >= 0)
                assert_int_equal(write(h->cancel_fd, "x", 1), 1);
        return h->result;
}

static int stream(struct heard *h, int cancel_fd, uint64_t silence_usec, int *status, gb_error *err)
{
        return engine_stream(&engine, "POST", "/build", NULL, -1, 0, silence_usec, cancel_fd, hear, h, status, err);
}

static void stream_values(void **state _unused_)
{
        static const char *const good[] = {
                PLAYER_JSON("{\"n\":1}\r\n{\"n\":2}\n\n{\"n\":4,\"s\":\"}{\\\\\\\"\"} {\"n\":8}"),
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{\"n\"\r\n9\r\n:1}{\"n\":2\r\n1\r\n}\r\n10\r\n\n{\"n\":12,\"a\":{}}\r\n0\r\n\r\n",
        };

        for (size_t i = 0; i < ARRAY_SIZE(good); i++)
                for (int each = 0; each < 2; each++) {
                        struct heard h = {.cancel_fd = -1};
                        gb_error err = {0};
                        int status = 0;

                        play(good[i], 0, each ? PLAYER_BYTES : PLAYER_CLOSE);
                        assert_int_equal(stream(&h, -1, PATIENCE_USEC, &status, &err), 0);
                        player_stop(&player);
                        assert_int_equal(status, 200);
                        assert_int_equal(h.sum, 15);
                }
}

static void stream_bad(void **state _unused_)
{
        static const struct {
                const char *bytes, *says;
                unsigned heard;
        } rows[] = {
                {PLAYER_JSON("{\"n\":1}{\"n\":"), "cut off", 1},
                {PLAYER_JSON("{\"n\":1} rubbish"), "not JSON", 1},
                {PLAYER_JSON("{\"n\":1}{\"n\":1,\"n\":2}"), "a key twice", 1},
                {PLAYER_JSON("{\"n\":1}{\"n\":1]"), "broken", 1},
                {PLAYER_JSON("}"), "not JSON", 0},
                {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n{\"n\":1}\r\n", "ended the connection", 1},
                {"HTTP/1.1 500 Oops\r\nContent-Length: 18\r\n\r\n{\"message\":\"oops\"}", "says 500: oops", 0},
                {"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope", "says 404: nope", 0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct heard h = {.cancel_fd = -1};
                gb_error err = {0};
                int status = 0;

                play(rows[i].bytes, 0, PLAYER_CLOSE);
                assert_true(stream(&h, -1, PATIENCE_USEC, &status, &err) < 0);
                player_stop(&player);
                assert_says(&err, rows[i].says);
                assert_int_equal(h.count, rows[i].heard);
                assert_true(status > 0);
        }
}

/* Without end: ended by the listener, by a cancel, by silence, or because one value does not end. */
static void stream_without_end(void **state _unused_)
{
        static const char head[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n{\"n\":1}\r\n";
        struct heard h = {.cancel_fd = -1, .result = -ENOTUNIQ};
        gb_error err = {0};
        int status = 0, cancel[2];

        assert_int_equal(pipe(cancel), 0);
        play(head, 0, PLAYER_HANG);
        assert_int_equal(stream(&h, -1, PATIENCE_USEC, &status, &err), -ENOTUNIQ);
        player_stop(&player);
        play(head, 0, PLAYER_HANG);
        h = (struct heard){.cancel_fd = cancel[1]};
        assert_int_equal(stream(&h, cancel[0], PATIENCE_USEC, &status, &err), -ECANCELED);
        assert_int_equal(h.count, 1);
        player_stop(&player);
        play(head, 0, PLAYER_HANG);
        h = (struct heard){.cancel_fd = -1};
        assert_int_equal(stream(&h, -1, SOON_USEC, &status, &err), -ETIMEDOUT);
        assert_int_equal(h.count, 1);
        assert_int_equal(err.code, GB_E_LOST);
        player_stop(&player);
        size_t size = ENGINE_ANSWER_BYTES_MAX + MIB;
        char *large = malloc(size);
        assert_non_null(large);
        memset(large, 'x', size);
        memcpy(large, PLAYER_JSON("{\"n"), strlen(PLAYER_JSON("{\"n")));
        play(large, size, PLAYER_HANG);
        assert_int_equal(stream(&h, -1, PATIENCE_USEC, &status, &err), -EFBIG);
        assert_int_equal(err.code, GB_E_LIMIT);
        player_stop(&player);
        free(large);
        /* It never stops talking: a cancel counts all the same. The one in the pipe is still there. */
        play("HTTP/1.1 200 OK\r\n\r\n", 0, PLAYER_REPEAT);
        assert_int_equal(stream(&h, cancel[0], PATIENCE_USEC, &status, &err), -ECANCELED);
        player_stop(&player);
        safe_close(cancel[0]);
        safe_close(cancel[1]);
}

static void stream_body(void **state _unused_)
{
        const size_t size = 3 * MIB;
        _cleanup_close_ int fd = memfd_create("body", MFD_CLOEXEC);
        struct heard h = {.cancel_fd = -1};
        gb_error err = {0};
        int status = 0;

        assert_int_equal(ftruncate(fd, (off_t)size), 0);
        play(PLAYER_JSON("{\"n\":5}"), 0, PLAYER_CLOSE);
        player.body = size;
        assert_int_equal(engine_stream(&engine, "POST", "/images/create?fromSrc=-", "application/x-tar", fd, size, PATIENCE_USEC, -1, hear, &h, &status, &err), 0);
        assert_int_equal(h.sum, 5);
        /* It tells why it does not want the rest. */
        player.body = 1000;
        static struct player_answer no[] = {{NULL, "HTTP/1.1 403 No\r\nContent-Length: 16\r\n\r\n{\"message\":\"no\"}", 0, PLAYER_CLOSE}};
        player.answers = no;
        assert_true(engine_stream(&engine, "POST", "/build", "application/x-tar", fd, size, PATIENCE_USEC, -1, hear, &h, &status, &err) < 0);
        assert_int_equal(status, 403);
        assert_int_equal(err.code, GB_E_DENIED);
        player_stop(&player);
        /* The file is shorter than was said. */
        play(PLAYER_JSON("{\"n\":5}"), 0, PLAYER_CLOSE);
        player.body = size + 1;
        assert_true(engine_stream(&engine, "POST", "/build", "application/x-tar", fd, size + 1, PATIENCE_USEC, -1, hear, &h, &status, &err) < 0);
        assert_int_equal(err.code, GB_E_INTERNAL);
        player_stop(&player);
}

static void saves(void **state _unused_)
{
        static const char bytes[] = "HTTP/1.1 200 OK\r\nContent-Type: application/x-tar\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na\0b\r\n2\r\ncd\r\n0\r\n\r\n";
        _cleanup_close_ int fd = memfd_create("save", MFD_CLOEXEC);
        gb_error err = {0};
        int status = 0;
        char buf[16];

        play(bytes, sizeof(bytes) - 1, PLAYER_BYTES);
        assert_int_equal(engine_save(&engine, "/images/x/get", fd, 5, -1, &status, &err), 0);
        assert_int_equal(status, 200);
        assert_int_equal(pread(fd, buf, sizeof(buf), 0), 5);
        assert_memory_equal(buf, "a\0bcd", 5);
        assert_int_equal(engine_save(&engine, "/images/x/get", fd, 4, -1, &status, &err), -EFBIG);
        assert_int_equal(err.code, GB_E_LIMIT);
        for (player.cut = 0; player.cut < sizeof(bytes) - 1; player.cut++)
                assert_true(engine_save(&engine, "/images/x/get", fd, 5, -1, &status, &err) < 0);
        player_stop(&player);
        assert_int_equal(ftruncate(fd, 0), 0);
        play("HTTP/1.1 404 No\r\nContent-Length: 4\r\n\r\nnope", 0, PLAYER_CLOSE);
        assert_int_equal(engine_save(&engine, "/images/x/get", fd, 100, -1, &status, &err), -ENOENT);
        assert_int_equal(status, 404);
        assert_int_equal(lseek(fd, 0, SEEK_END), 0);
        player_stop(&player);
}

/* ---- raw connections ---- */

static void hijacked(void **state _unused_)
{
        static const char *const heads[] = {
                "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n",
                "HTTP/1.1 101 UPGRADED\r\nContent-Length: 0\r\n\r\nearly",
        };

        for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
                struct buffer early;
                gb_error err = {0};
                int fd = -1;
                char buf[64] = "";

                buffer_init(&early, ENGINE_EARLY_BYTES_MAX);
                play(heads[i], 0, PLAYER_ECHO);
                assert_int_equal(engine_hijack(&engine, "/containers/x/attach?stream=1", &fd, &early, &err), 0);
                assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
                assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
                assert_int_equal(write(fd, "hello", 5), 5);
                struct pollfd p = {.fd = fd, .events = POLLIN};
                while (early.size < (i == 2 ? 10U : 5U)) {
                        assert_int_equal(poll(&p, 1, (int)(PATIENCE_USEC / 1000)), 1);
                        ssize_t n = read(fd, buf, sizeof(buf));
                        assert_true(n > 0);
                        assert_int_equal(buffer_add(&early, buf, (size_t)n), 0);
                }
                assert_string_equal(early.data, i == 2 ? "earlyhello" : "hello");
                /* Half closed, the rest still comes: here the end. */
                assert_int_equal(shutdown(fd, SHUT_WR), 0);
                assert_int_equal(poll(&p, 1, (int)(PATIENCE_USEC / 1000)), 1);
                assert_int_equal(read(fd, buf, sizeof(buf)), 0);
                safe_close(fd);
                buffer_done(&early);
                player_stop(&player);
        }
}

static void not_hijacked(void **state _unused_)
{
        static const struct {
                const char *bytes;
                gb_error_code code;
                const char *says;
        } rows[] = {
                {"HTTP/1.1 404 Not Found\r\nContent-Length: 34\r\n\r\n{\"message\":\"No such container: x\"}\n", GB_E_LOST, "goes on after"},
                {"HTTP/1.1 404 Not Found\r\nContent-Length: 35\r\n\r\n{\"message\":\"No such container: x\"}\n", GB_E_NOT_FOUND, "No such container"},
                {"HTTP/1.1 409 Conflict\r\n\r\n{\"message\":\"not running\"}", GB_E_CONFLICT, "not running"},
                {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", GB_E_LOST, "let go"},
                {"HTTP/1.1 204 No Content\r\n\r\n", GB_E_LOST, "let go"},
                {"HTTP/1.1 101 UPGRADED\r\n", GB_E_LOST, "ended the connection"},
                {"", GB_E_LOST, "ended the connection"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct buffer early;
                gb_error err = {0};
                int fd = -1;

                buffer_init(&early, ENGINE_EARLY_BYTES_MAX);
                play(rows[i].bytes, 0, PLAYER_CLOSE);
                assert_true(engine_hijack(&engine, "/containers/x/attach", &fd, &early, &err) < 0);
                player_stop(&player);
                assert_int_equal(err.code, rows[i].code);
                assert_says(&err, rows[i].says);
                assert_int_equal(fd, -1);
                assert_int_equal(early.size, 0);
                buffer_done(&early);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(answers),      cmocka_unit_test(too_much),   cmocka_unit_test(silence),            cmocka_unit_test(endless_answer),
                cmocka_unit_test(full_queue),   cmocka_unit_test(bad_targets), cmocka_unit_test(refusals),          cmocka_unit_test(stream_values),
                cmocka_unit_test(stream_bad),   cmocka_unit_test(stream_without_end), cmocka_unit_test(stream_body), cmocka_unit_test(saves),
                cmocka_unit_test(hijacked),     cmocka_unit_test(not_hijacked),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
