/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/test_world.h"

#include "base/fd.h"
#include "egress/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_USEC 20000000ULL /* a test that waits longer has failed */

struct event_base *egress_base;

static struct {
        struct box *box;
        struct ledger *ledger;
        struct sockaddr_in address;
} world;

/* ---- the box ---- */

static struct rules_block *make_rules(const struct egress_rule_source *rules, size_t n, const struct egress_rules *budgets)
{
        struct egress_rules head = {.version = EGRESS_RULES_VERSION, .n_ranges = 1, .connections_max = 64};
        _cleanup_buffer_ struct buffer block = {0};

        if (budgets) {
                head.bytes_max = budgets->bytes_max;
                head.requests_max = budgets->requests_max;
        }
        assert_int_equal(address_range_parse("127.0.0.0/8", strlen("127.0.0.0/8"), &head.ranges[0]), 0);
        assert_int_equal(egress_rules_write(&head, rules, n, &block), 0);
        _cleanup_close_ int fd = memfd_create("rules", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_true(fd >= 0);
        assert_int_equal(fd_write_all(fd, block.data, block.size), 0);
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW), 0);
        struct rules_block *b = rules_map(fd);
        assert_non_null(b);
        return b;
}

static int listen_somewhere(struct sockaddr_in *ret)
{
        socklen_t size = sizeof(*ret);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        *ret = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        assert_int_equal(bind(fd, (struct sockaddr *)ret, size), 0);
        assert_int_equal(listen(fd, 16), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)ret, &size), 0);
        return fd;
}

void world_open(const struct egress_rule_source *rules, size_t n, const struct egress_rules *budgets, struct authority *authority)
{
        static const char hosts[] = "127.0.0.1 a.test b.test c.test e.test\n", resolv[] = "nameserver 127.0.0.1\n";
        gb_error err = {0};
        int ledger_fd;

        signal(SIGPIPE, SIG_IGN);
        if (!egress_base)
                egress_base = event_base_new();
        assert_non_null(egress_base);
        assert_int_equal(resolve_set(resolv, strlen(resolv), hosts, strlen(hosts), &err), 0);
        assert_int_equal(ledger_new(&ledger_fd, &world.ledger), 0);
        safe_close(ledger_fd);
        int listener = listen_somewhere(&world.address);
        assert_int_equal(box_new(1, make_rules(rules, n, budgets), world.ledger, authority, listener, &err), 0);
        world.box = box_find(1);
}

void world_close(void)
{
        box_free(world.box);
        world.box = NULL;
        world_turn();
}

struct box *world_box(void)
{
        return world.box;
}

void world_change(const struct egress_rule_source *rules, size_t n)
{
        box_change(world.box, make_rules(rules, n, NULL));
}

void world_turn(void)
{
        event_base_loop(egress_base, EVLOOP_NONBLOCK);
}

uint64_t world_requests(const char *host, enum egress_decision d)
{
        struct ledger_copy *c = ledger_read(world.ledger);
        uint64_t n = 0;

        assert_non_null(c);
        for (size_t i = 0; i < c->n; i++)
                if (strcmp(c->rows[i].host, host) == 0 && c->rows[i].decision == d)
                        n += c->rows[i].requests;
        free(c);
        return n;
}

/* ---- sockets ---- */

/* Until fd can do that. */
static void wait_for(int fd, short events)
{
        uint64_t end = monotonic_usec() + PATIENCE_USEC;
        struct pollfd p = {fd, events, 0};

        for (;;) {
                world_turn();
                if (poll(&p, 1, 1) > 0)
                        return;
                if (monotonic_usec() > end)
                        fail_msg("nothing comes");
        }
}

int client_open(void)
{
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        assert_true(connect(fd, (struct sockaddr *)&world.address, sizeof(world.address)) == 0 || errno == EINPROGRESS);
        wait_for(fd, POLLOUT);
        return fd;
}

int server_open(uint16_t *ret_port)
{
        struct sockaddr_in address;
        int fd = listen_somewhere(&address);

        *ret_port = ntohs(address.sin_port);
        return fd;
}

int server_accept(int server)
{
        wait_for(server, POLLIN);
        int fd = accept4(server, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        assert_true(fd >= 0);
        return fd;
}

bool server_is_alone(int server)
{
        for (int i = 0; i < 50; i++)
                world_turn();
        int fd = accept4(server, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        safe_close(fd);
        return fd < 0;
}

void say_bytes(int fd, const void *bytes, size_t size)
{
        for (const char *p = bytes; size > 0;) {
                ssize_t n = send(fd, p, size, MSG_NOSIGNAL);
                if (n < 0 && errno == EAGAIN) {
                        wait_for(fd, POLLOUT);
                        continue;
                }
                assert_true(n > 0);
                p += n;
                size -= (size_t)n;
        }
        world_turn();
}

void say(int fd, const char *text)
{
        say_bytes(fd, text, strlen(text));
}

/* 0 at the end; an end by force is one, too. */
static size_t hear_some(int fd, char *to, size_t size)
{
        wait_for(fd, POLLIN);
        ssize_t n = recv(fd, to, size, 0);
        if (n < 0 && errno == ECONNRESET)
                n = 0;
        assert_true(n >= 0);
        return (size_t)n;
}

void hear(int fd, const char *text)
{
        size_t size = strlen(text), have = 0;
        _cleanup_free_ char *heard = calloc(1, size + 1);

        while (have < size) {
                size_t n = hear_some(fd, heard + have, size - have);
                if (n == 0)
                        fail_msg("the end instead of: %s", text + have);
                have += n;
                if (memcmp(heard, text, have) != 0)
                        fail_msg("heard:\n%s\nand not:\n%s", heard, text);
        }
}

void hear_head(int fd, struct buffer *ret)
{
        char c;

        buffer_init(ret, 1 << 20);
        buffer_add_string(ret, "");
        while (!(ret->size >= 4 && memcmp(ret->data + ret->size - 4, "\r\n\r\n", 4) == 0) && hear_some(fd, &c, 1) > 0)
                buffer_add(ret, &c, 1);
}

void hear_rest(int fd, struct buffer *ret)
{
        char bytes[4096];

        buffer_init(ret, 64 << 20);
        buffer_add_string(ret, "");
        for (size_t n; (n = hear_some(fd, bytes, sizeof(bytes))) > 0;)
                assert_int_equal(buffer_add(ret, bytes, n), 0);
}

void hear_end(int fd)
{
        char c;
        size_t n = hear_some(fd, &c, 1);

        if (n > 0)
                fail_msg("heard '%c' and not the end", c);
}

void hear_nothing(int fd)
{
        char c;

        for (int i = 0; i < 50; i++)
                world_turn();
        ssize_t n = recv(fd, &c, 1, 0);
        if (n >= 0)
                fail_msg("heard '%c' and not nothing", n > 0 ? c : '$');
        assert_int_equal(errno, EAGAIN);
}
