/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests through the proxy, several on a connection, long ones, and those that end before their end. */
#include "egress/test_requests.h"

#include "base/fd.h"
#include "egress/forward.h"

#include <string.h>
#include <sys/socket.h>

/* ---- more than one request ---- */

#define GET_A "GET http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\n\r\n"
#define GOT_A "GET / HTTP/1.1\r\nHost: a.test:@\r\n\r\n"

/* Each is judged, whatever the connection was used for. */
static void test_keep_alive_is_no_pass(void **state)
{
        _cleanup_close_ int client = client_open();

        say_filled(client, GET_A);
        _cleanup_close_ int upstream = server_accept(server);
        hear_filled(upstream, GOT_A);
        say(upstream, OK);
        hear(client, OK);
        say_filled(client, "GET http://d.test:@/ HTTP/1.1\r\nHost: d.test:@\r\n\r\n");
        hear_refusal(client, 403, "no-rule", true);
        hear_end(upstream); /* it was for another host: nobody keeps it */
        say_filled(client, "GET http://a.test:@/ HTTP/1.1\r\nHost: d.test:@\r\n\r\n");
        hear_refusal(client, 400, "malformed", false);
        hear_end(client);
        assert_true(server_is_alone(server));
        assert_int_equal(world_requests("a.test", EGRESS_ALLOWED), 1);
        assert_int_equal(world_requests("d.test", EGRESS_NO_RULE), 1);
}

static void test_another_host_is_another_connection(void **state)
{
        _cleanup_close_ int client = client_open();

        say_filled(client, GET_A);
        _cleanup_close_ int first = server_accept(server);
        hear_filled(first, GOT_A);
        say(first, OK);
        hear(client, OK);
        say_filled(client, "GET http://b.test:&/ HTTP/1.1\r\nHost: b.test:&\r\n\r\n");
        _cleanup_close_ int second = server_accept(other_server);
        hear_end(first);
        hear_filled(second, "GET / HTTP/1.1\r\nHost: b.test:&\r\nAuthorization: Bearer s3cret\r\nX-Api-Key: k3y\r\n\r\n");
        say(second, OK);
        hear(client, OK);
        /* The same address, but not the same host: no credentials. */
        say_filled(client, "GET http://a.test:&/ HTTP/1.1\r\nHost: a.test:&\r\n\r\n");
        _cleanup_close_ int third = server_accept(other_server);
        hear_end(second);
        hear_filled(third, "GET / HTTP/1.1\r\nHost: a.test:&\r\n\r\n");
}

static void test_pipelining(void **state)
{
        _cleanup_close_ int client = client_open();

        say_filled(client, GET_A "POST http://a.test:@/2 HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 3\r\n\r\nabc"
                                 "GET http://d.test:@/3 HTTP/1.1\r\nHost: d.test:@\r\n\r\n" GET_A);
        _cleanup_close_ int upstream = server_accept(server);
        hear_filled(upstream, GOT_A);
        hear_nothing(upstream); /* the second waits for the answer to the first */
        say(upstream, OK);
        hear(client, OK);
        hear_filled(upstream, "POST /2 HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 3\r\n\r\nabc");
        say(upstream, OK);
        hear(client, OK);
        hear_refusal(client, 403, "no-rule", true);
        _cleanup_close_ int next = server_accept(server);
        hear_filled(next, GOT_A);
        say(next, OK);
        hear(client, OK);
}

static void test_connect_comes_first_or_not_at_all(void **state)
{
        _cleanup_close_ int client = client_open();

        say_filled(client, GET_A);
        _cleanup_close_ int upstream = server_accept(server);
        hear_filled(upstream, GOT_A);
        say(upstream, OK);
        hear(client, OK);
        say_filled(client, "CONNECT a.test:@ HTTP/1.1\r\nHost: a.test:@\r\n\r\n");
        hear_refusal(client, 400, "malformed", false);
        hear_end(client);
}

/* What an upstream says without having been asked answers nothing. */
static void test_answers_to_nothing(void **state)
{
        _cleanup_close_ int client = client_open();

        say_filled(client, GET_A);
        _cleanup_close_ int first = server_accept(server);
        hear_filled(first, GOT_A);
        say(first, OK "HTTP/1.1 200 Smuggled\r\nContent-Length: 0\r\n\r\n");
        hear(client, OK);
        hear_end(first);
        say_filled(client, GET_A);
        _cleanup_close_ int second = server_accept(server);
        hear_filled(second, GOT_A);
        say(second, OK);
        hear(client, OK);
        say(second, "HTTP/1.1 200 Later\r\nContent-Length: 0\r\n\r\n");
        hear_end(second);
        say_filled(client, GET_A);
        _cleanup_close_ int third = server_accept(server);
        hear_filled(third, GOT_A);
        say(third, OK);
        hear(client, OK);
}

/* An upstream that closes a connection just when the next request comes has not read it. */
static void test_a_kept_connection_that_closes(void **state)
{
        _cleanup_close_ int client = client_open();

        say_filled(client, GET_A);
        _cleanup_close_ int first = server_accept(server);
        hear_filled(first, GOT_A);
        say(first, OK);
        hear(client, OK);
        say_filled(client, GET_A);
        hear_filled(first, GOT_A);
        first = safe_close(first);
        _cleanup_close_ int second = server_accept(server);
        hear_filled(second, GOT_A);
        say(second, OK);
        hear(client, OK);
}

/* ---- streams ---- */

/* What nobody reads is not read: the proxy keeps little of it. */
static void test_a_client_that_does_not_read(void **state)
{
        static char piece[64 * 1024];
        _cleanup_close_ int client = client_open();
        size_t sent = 0;

        say_filled(client, GET_A);
        _cleanup_close_ int upstream = server_accept(server);
        hear_filled(upstream, GOT_A);
        say(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n");
        for (int idle = 0; idle < 200;) {
                ssize_t n = sent < 67108864 ? send(upstream, piece, MIN(sizeof(piece), 67108864 - sent), MSG_NOSIGNAL) : -1;
                idle = n > 0 ? 0 : idle + 1;
                sent += n > 0 ? (size_t)n : 0;
                world_turn();
        }
        assert_true(sent < 32 << 20); /* the buffers of two sockets, and our own */
        struct connection *c = LIST_FIRST(&world_box()->connections);
        assert_true(evbuffer_get_length(bufferevent_get_output(c->client)) <= 256 * KIB);
        assert_true(evbuffer_get_length(bufferevent_get_input(c->forward->up.events)) <= 256 * KIB);
        /* And when it reads, all of it comes. */
        static char got[256 * 1024];
        size_t have = 0;
        hear(client, "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n");
        while (have < 67108864) {
                ssize_t n = recv(client, got, sizeof(got), 0);
                have += n > 0 ? (size_t)n : 0;
                assert_false(n == 0);
                if (sent < 67108864) {
                        n = send(upstream, piece, MIN(sizeof(piece), 67108864 - sent), MSG_NOSIGNAL);
                        sent += n > 0 ? (size_t)n : 0;
                }
                world_turn();
        }
        assert_int_equal(have, 67108864);
}

static void test_an_upstream_that_does_not_read(void **state)
{
        static char piece[64 * 1024];
        _cleanup_close_ int client = client_open();
        size_t sent = 0;

        say_filled(client, "POST http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 67108864\r\n\r\n");
        _cleanup_close_ int upstream = server_accept(server);
        assert_true(upstream >= 0);
        for (int idle = 0; idle < 200;) {
                ssize_t n = sent < 67108864 ? send(client, piece, MIN(sizeof(piece), 67108864 - sent), MSG_NOSIGNAL) : -1;
                idle = n > 0 ? 0 : idle + 1;
                sent += n > 0 ? (size_t)n : 0;
                world_turn();
        }
        assert_true(sent < 32 << 20);
        struct connection *c = LIST_FIRST(&world_box()->connections);
        assert_true(evbuffer_get_length(bufferevent_get_output(c->forward->up.events)) <= 256 * KIB);
        assert_true(evbuffer_get_length(bufferevent_get_input(c->client)) <= 256 * KIB);
}

/* An answer before the end of the request: the rest of that is dropped, and the connection ends when it is long. */
static void test_an_early_answer(void **state)
{
        _cleanup_close_ int client = client_open();

        say_filled(client, "POST http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 10\r\n\r\nhello");
        _cleanup_close_ int upstream = server_accept(server);
        hear_filled(upstream, "POST / HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 10\r\n\r\nhello");
        say(upstream, "HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n");
        hear(client, "HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n");
        hear_end(upstream);
        say_filled(client, "world" GET_A);
        _cleanup_close_ int second = server_accept(server);
        hear_filled(second, GOT_A);
}

/* ---- budgets and rules ---- */

static void test_bytes_are_counted(void **state)
{
        _cleanup_close_ int client = client_open();
        _cleanup_free_ char *up = fill("POST / HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 5\r\n\r\nhello");

        say_filled(client, "POST http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nProxy-Authorization: long and dropped\r\nContent-Length: 5\r\n\r\nhello");
        _cleanup_close_ int upstream = server_accept(server);
        hear(upstream, up);
        say(upstream, OK);
        hear(client, OK);
        struct ledger_copy *l = ledger_read(world_box()->ledger);
        assert_int_equal(l->bytes_up, strlen(up));
        assert_int_equal(l->bytes_down, strlen(OK));
        assert_int_equal(l->requests, 1);
        free(l);
}

static void test_the_budget_of_bytes_ends_it(void **state)
{
        struct egress_rules budgets = {.bytes_max = 2000};
        _cleanup_buffer_ struct buffer rest = {0};
        char piece[1000];

        world_close();
        world_open(rules, ARRAY_SIZE(rules), &budgets, NULL);
        _cleanup_close_ int client = client_open();
        say_filled(client, GET_A);
        _cleanup_close_ int upstream = server_accept(server);
        hear_filled(upstream, GOT_A);
        say(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
        memset(piece, 'x', sizeof(piece));
        for (int i = 0; i < 100 && send(upstream, piece, sizeof(piece), MSG_NOSIGNAL) > 0; i++)
                world_turn();
        hear_rest(client, &rest);
        assert_true(rest.size <= 2000 + sizeof(piece)); /* what was read at once with the last byte of it */
        assert_int_equal(world_box()->ledger->cut, EGRESS_OVER_BYTES);
}

static void test_other_rules(void **state)
{
        _cleanup_close_ int client = client_open(), idle = client_open();

        say_filled(idle, GET_A);
        _cleanup_close_ int kept = server_accept(server);
        hear_filled(kept, GOT_A);
        say(kept, OK);
        hear(idle, OK);
        say_filled(client, GET_A);
        _cleanup_close_ int upstream = server_accept(server);
        hear_filled(upstream, GOT_A);
        /* Still allowed: what is under way goes on. */
        world_change(rules, ARRAY_SIZE(rules));
        say(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhi");
        hear(client, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhi");
        /* And now not: it is cut. */
        world_change(rules + 1, ARRAY_SIZE(rules) - 1);
        hear_end(client);
        hear_end(upstream);
        hear_end(kept);
        say_filled(idle, GET_A);
        hear_refusal(idle, 403, "no-rule", true);
}

/* ---- time ---- */

/* The time of the only connection is over, whatever it is waiting for. */
static void be_late(void)
{
        event_active(LIST_FIRST(&world_box()->connections)->forward->timer, EV_TIMEOUT, 0);
}

static void test_a_request_that_does_not_come(void **state)
{
        _cleanup_close_ int client = client_open(), silent = -1;

        say_filled(client, "GET http://a.test:@/ HTTP/1.1\r\nHost: a.te");
        be_late();
        hear_refusal(client, 408, "malformed", false);
        hear_end(client);
        client = safe_close(client);
        /* Between two requests nobody is told. */
        silent = client_open();
        say_filled(silent, "GET http://d.test:@/ HTTP/1.1\r\nHost: d.test:@\r\n\r\n");
        hear_refusal(silent, 403, "no-rule", true);
        be_late();
        hear_end(silent);
}

static void test_an_answer_that_does_not_come(void **state)
{
        static const char *const beginnings[] = {"", "HTTP/1.1 200 OK\r\nX:"};

        for (size_t i = 0; i < ARRAY_SIZE(beginnings); i++) {
                _cleanup_close_ int client = client_open();
                say_filled(client, GET_A);
                _cleanup_close_ int upstream = server_accept(server);
                hear_filled(upstream, GOT_A);
                say(upstream, beginnings[i]);
                be_late();
                hear_refusal(client, 504, "unreached", true);
                hear_end(upstream);
                client = safe_close(client);
                world_turn();
        }
        /* In the middle of it: the client sees that it is not whole. */
        _cleanup_close_ int client = client_open();
        say_filled(client, GET_A);
        _cleanup_close_ int upstream = server_accept(server);
        hear_filled(upstream, GOT_A);
        say(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi");
        hear(client, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi");
        be_late();
        hear_end(client);
        hear_end(upstream);
}

static void test_a_client_that_closes_its_side(void **state)
{
        _cleanup_close_ int client = client_open();

        say_filled(client, GET_A);
        shutdown(client, SHUT_WR);
        _cleanup_close_ int upstream = server_accept(server);
        hear_filled(upstream, GOT_A);
        say(upstream, OK);
        hear(client, OK);
        hear_end(client);
}

static void test_a_client_that_leaves(void **state)
{
        _cleanup_close_ int client = client_open();

        say_filled(client, "POST http://a.test:@/ HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 10\r\n\r\nhello");
        _cleanup_close_ int upstream = server_accept(server);
        hear_filled(upstream, "POST / HTTP/1.1\r\nHost: a.test:@\r\nContent-Length: 10\r\n\r\nhello");
        client = safe_close(client);
        hear_end(upstream);
        assert_int_equal(world_box()->n_connections, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_keep_alive_is_no_pass),
                TEST(test_another_host_is_another_connection),
                TEST(test_pipelining),
                TEST(test_connect_comes_first_or_not_at_all),
                TEST(test_answers_to_nothing),
                TEST(test_a_kept_connection_that_closes),
                TEST(test_a_client_that_does_not_read),
                TEST(test_an_upstream_that_does_not_read),
                TEST(test_an_early_answer),
                TEST(test_bytes_are_counted),
                TEST(test_the_budget_of_bytes_ends_it),
                TEST(test_other_rules),
                TEST(test_a_request_that_does_not_come),
                TEST(test_an_answer_that_does_not_come),
                TEST(test_a_client_that_closes_its_side),
                TEST(test_a_client_that_leaves),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
