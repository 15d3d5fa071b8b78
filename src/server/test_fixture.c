/* SPDX-License-Identifier: Apache-2.0 */
#include "server/test_fixture.h"

#include "base/fd.h"
#include "server/loop.h"
#include "server/metrics.h"
#include "server/reply.h"
#include "server/routes.h"
#include "server/workers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_SEC 60

_Atomic unsigned fixture_waiting, fixture_gone, fixture_written;
static int release_fd = -1;

/* What is counted is the business of another test. */
void metrics_add(struct metrics *m, enum metrics_number number, int64_t n)
{
}

void metrics_request(struct metrics *m, const struct route *route, int status, uint64_t took_usec)
{
}

/* ---- handlers ---- */

static void handle_echo(struct request *r)
{
        static const char *const names[] = {"x", "n", NULL};
        gb_error err = {0};
        uint64_t n;

        if (request_check_query(r, names, &err) < 0 || request_query_number(r, "n", 1, 10, 5, &n, &err) < 0) {
                reply_error(r, &err);
                return;
        }
        const char *x = request_query(r, "x");
        (void)reply_header(r, "X-Word", "%s", r->params[0]);
        reply_json(r, 200, json_pack("{s:s, s:s?, s:I, s:s, s:i, s:b}", "word", r->params[0], "x", x, "n", (json_int_t)n, "tenant", r->caller.tenant, "scopes",
                                     (int)r->caller.scopes, "local", r->caller.local));
}

static void handle_json(struct request *r)
{
        gb_error err = {0};
        json_t *json;

        if (request_json(r, true, &json, &err) < 0)
                reply_error(r, &err);
        else
                reply_json(r, 200, json);
}

static void handle_bytes(struct request *r)
{
        unsigned long long sum = 0;
        unsigned char piece[4096];
        ssize_t n;

        if (r->body.fd >= 0) {
                while ((n = read(r->body.fd, piece, sizeof(piece))) > 0)
                        for (ssize_t i = 0; i < n; i++)
                                sum += piece[i];
        } else {
                for (size_t i = 0; i < r->body.memory.size; i++)
                        sum += (unsigned char)r->body.memory.data[i];
        }
        reply_json(r, 201, json_pack("{s:s, s:I, s:I, s:b}", "path", r->params[0], "size", (json_int_t)r->body.size, "sum", (json_int_t)sum, "file", r->body.fd >= 0));
}

static void handle_large(struct request *r)
{
        gb_error err = {0};
        uint64_t size;
        bool chunked, cut;
        char piece[10000];

        if (request_query_number(r, "size", 0, 1 << 30, 0, &size, &err) < 0 || request_query_bool(r, "chunked", &chunked, &err) < 0 ||
            request_query_bool(r, "cut", &cut, &err) < 0) {
                reply_error(r, &err);
                return;
        }
        memset(piece, 'x', sizeof(piece));
        int k = reply_begin(r, 200, "text/plain", chunked ? -1 : (int64_t)size);
        for (uint64_t left = size; left > 0 && k == 0;) {
                size_t n = MIN(left, (uint64_t)sizeof(piece));
                k = reply_write(r, piece, n);
                left -= n;
                fixture_written++;
                if (cut && left < size / 2) {
                        reply_abort(r);
                        return;
                }
        }
        if (k == 0)
                reply_end(r);
        else
                fixture_gone++;
}

static void handle_stream(struct request *r)
{
        if (r->answer != ANSWER_SSE && r->answer != ANSWER_NDJSON) {
                reply_json(r, 200, json_object());
                return;
        }
        (void)reply_stream_begin(r);
        for (int i = 0; i < 3; i++) {
                json_t *object = json_pack("{s:i, s:s}", "seq", i, "data", "a\n\nevent: fake\r\ndata: x\xe2\x80\xa8y");
                (void)reply_stream_event(r, i, "stdout", object);
                json_decref(object);
        }
        (void)reply_stream_ping(r);
        (void)reply_end(r);
}

static void handle_wait(struct request *r)
{
        struct pollfd fds[] = {{.fd = request_gone_fd(r), .events = POLLIN}, {.fd = release_fd, .events = POLLIN}};

        fixture_waiting++;
        poll(fds, 2, PATIENCE_SEC * 1000);
        if (fds[0].revents) {
                assert_true(request_is_gone(r));
                fixture_gone++;
        }
        fixture_waiting--;
        reply_json(r, 200, json_pack("{s:b}", "gone", fds[0].revents != 0));
}

static void handle_nothing(struct request *r)
{
}

static void handle_some(struct request *r)
{
        (void)reply_begin(r, 200, "text/plain", -1);
        (void)reply_write(r, "some", 4);
}

static void handle_plain(struct request *r)
{
        reply_json(r, 200, json_pack("{s:s}", "status", "ok"));
}

const struct route routes[] = {
        {"GET", "/echo/{word}", SCOPE_READ, ROUTE_DRAINING, handle_echo},
        {"POST", "/json", SCOPE_RUN, 0, handle_json},
        {"PUT", "/bytes/{path...}", SCOPE_RUN, ROUTE_BYTES, handle_bytes},
        {"DELETE", "/bytes/{path...}", SCOPE_RUN, 0, handle_plain},
        {"GET", "/large", SCOPE_READ, 0, handle_large},
        {"GET", "/stream", SCOPE_READ, ROUTE_STREAMS, handle_stream},
        {"GET", "/wait", SCOPE_READ, 0, handle_wait},
        {"GET", "/nothing", SCOPE_READ, 0, handle_nothing},
        {"GET", "/some", SCOPE_READ, 0, handle_some},
        {"GET", "/admin", SCOPE_ADMIN, 0, handle_plain},
        {"GET", "/open", 0, ROUTE_OPEN | ROUTE_INLINE | ROUTE_DRAINING, handle_plain},
};
const size_t n_routes = ARRAY_SIZE(routes);

void fixture_release(void)
{
        assert_int_equal(write(release_fd, &(uint64_t){1}, sizeof(uint64_t)), sizeof(uint64_t));
}

/* ---- the server ---- */

void fixture_init(struct fixture *f)
{
        *f = (struct fixture){0};
        struct server_config *c = &f->server.config;
        snprintf(f->directory, sizeof(f->directory), "/tmp/glovebox-test-XXXXXX");
        assert_non_null(mkdtemp(f->directory));
        c->directory = f->directory;
        c->connections = 64;
        c->threads = 8;
        c->body_bytes = 32 * MIB;
        c->upload_bytes = 8 * MIB;
        c->header_usec = c->body_usec = c->keep_alive_usec = c->stalled_usec = PATIENCE_SEC * 1000000ULL;
        f->server.state = SERVER_READY;
        fixture_waiting = fixture_gone = fixture_written = 0;
        release_fd = eventfd(0, EFD_CLOEXEC);
}

static void *run(void *data)
{
        gb_error err = {0};
        struct fixture *f = data;

        if (loop_run(f->server.loop, &err) < 0)
                abort();
        return NULL;
}

/* Its port. */
static int listen_at(struct fixture *f, const void *address, socklen_t size, enum listener_kind kind, struct ssl_ctx_st *tls)
{
        gb_error err = {0};
        struct sockaddr_storage local;
        socklen_t local_size = sizeof(local);
        int fd = socket(((const struct sockaddr *)address)->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_true(fd >= 0);
        assert_int_equal(bind(fd, address, size), 0);
        assert_int_equal(listen(fd, 128), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)&local, &local_size), 0);
        assert_int_equal(loop_add_listener(f->server.loop, fd, kind, tls, &err), 0);
        return kind == LISTENER_TCP ? ntohs(((struct sockaddr_in *)&local)->sin_port) : 0;
}

static struct sockaddr_un unix_address(const struct fixture *f)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};

        snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->socket);
        return address;
}

void fixture_start(struct fixture *f)
{
        gb_error err = {0};
        struct loop *l;

        snprintf(f->socket, sizeof(f->socket), "%s/socket", f->directory);
        struct sockaddr_un path = unix_address(f);
        struct sockaddr_in tcp = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        assert_int_equal(workers_new(f->server.config.threads, &f->server.workers, &err), 0);
        assert_int_equal(loop_new(&f->server, &l, &err), 0);
        listen_at(f, &path, sizeof(path), LISTENER_UNIX, NULL);
        f->port = listen_at(f, &tcp, sizeof(tcp), LISTENER_TCP, NULL);
        if (f->tls)
                f->tls_port = listen_at(f, &tcp, sizeof(tcp), LISTENER_TCP, f->tls);
        assert_int_equal(pthread_create(&f->thread, NULL, run, f), 0);
        f->running = true;
}

void fixture_stop(struct fixture *f)
{
        if (f->running) {
                loop_stop(f->server.loop);
                pthread_join(f->thread, NULL);
                workers_free(f->server.workers);
                loop_free(f->server.loop);
                unlink(f->socket);
                f->running = false;
        }
        char tokens[128];
        static const char *const files[] = {"tokens.db", "tokens.db-wal", "tokens.db-shm"};
        tokens_close(f->server.tokens);
        f->server.tokens = NULL;
        for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
                snprintf(tokens, sizeof(tokens), "%s/%s", f->directory, files[i]);
                unlink(tokens);
        }
        assert_int_equal(rmdir(f->directory), 0);
        release_fd = safe_close(release_fd);
}

/* ---- a client ---- */

static int patient(int fd)
{
        struct timeval tv = {.tv_sec = PATIENCE_SEC};

        assert_true(fd >= 0);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
        return fd;
}

int fixture_connect(const struct fixture *f)
{
        struct sockaddr_un path = unix_address(f);
        int fd = patient(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));

        assert_int_equal(connect(fd, (struct sockaddr *)&path, sizeof(path)), 0);
        return fd;
}

int fixture_connect_port(int port)
{
        struct sockaddr_in tcp = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
        int fd = patient(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));

        assert_int_equal(connect(fd, (struct sockaddr *)&tcp, sizeof(tcp)), 0);
        return fd;
}

int fixture_connect_tcp(const struct fixture *f)
{
        return fixture_connect_port(f->port);
}

void say_bytes(int fd, const void *bytes, size_t size)
{
        const char *p = bytes;

        while (size > 0) {
                ssize_t n = send(fd, p, size, MSG_NOSIGNAL);
                if (n <= 0)
                        return; /* who is refused early hears of it */
                p += n;
                size -= (size_t)n;
        }
}

void say(int fd, const char *text)
{
        say_bytes(fd, text, strlen(text));
}

static bool hear_exactly(int fd, struct buffer *b, size_t size)
{
        char piece[65536];

        while (size > 0) {
                ssize_t n = recv(fd, piece, MIN(size, sizeof(piece)), 0);
                if (n <= 0)
                        return false;
                assert_int_equal(buffer_add(b, piece, (size_t)n), 0);
                size -= (size_t)n;
        }
        return true;
}

static bool hear_until(int fd, struct buffer *b, const char *end)
{
        size_t length = strlen(end), start = b->size;

        while (b->size - start < length || memcmp(b->data + b->size - length, end, length) != 0)
                if (!hear_exactly(fd, b, 1))
                        return false;
        return true;
}

static bool hear_chunks(int fd, struct buffer *body)
{
        for (;;) {
                _cleanup_buffer_ struct buffer line = {0}, end = {0};
                buffer_init(&line, 64);
                buffer_init(&end, 64);
                if (!hear_until(fd, &line, "\r\n"))
                        return false;
                size_t size = strtoul(line.data, NULL, 16);
                if (!hear_exactly(fd, body, size) || !hear_exactly(fd, &end, 2))
                        return false;
                if (size == 0)
                        return true;
        }
}

struct answer hear(int fd)
{
        struct answer a = {0};
        struct buffer head, body;

        buffer_init(&head, 65536);
        buffer_init(&body, 1 << 30);
        buffer_add(&head, "", 0);
        buffer_add(&body, "", 0);
        bool got = hear_until(fd, &head, "\r\n\r\n");
        a.head = head.data;
        if (got) {
                const char *length = strstr(a.head, "Content-Length: ");
                a.status = atoi(a.head + strlen("HTTP/1.1 "));
                if (strstr(a.head, "Transfer-Encoding: chunked"))
                        a.whole = hear_chunks(fd, &body);
                else if (length)
                        a.whole = hear_exactly(fd, &body, strtoul(length + strlen("Content-Length: "), NULL, 10));
                else if (a.status == 204 || a.status == 100)
                        a.whole = true;
                else
                        while (hear_exactly(fd, &body, 1))
                                ;
        }
        a.body = body.data;
        a.body_size = body.size;
        return a;
}

void answer_done(struct answer *a)
{
        free(a->head);
        free(a->body);
}

struct answer ask(const struct fixture *f, const char *text)
{
        _cleanup_close_ int fd = fixture_connect(f);

        say(fd, text);
        return hear(fd);
}

bool is_closed(int fd)
{
        char piece[4096];
        ssize_t n;

        while ((n = recv(fd, piece, sizeof(piece), 0)) > 0)
                ;
        return n == 0 || errno == ECONNRESET;
}

bool reaches(const _Atomic unsigned *number, unsigned value)
{
        for (int i = 0; i < PATIENCE_SEC * 200 && *number < value; i++)
                nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        return *number >= value;
}
