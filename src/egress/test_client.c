/* SPDX-License-Identifier: Apache-2.0
 *
 * The front's side of the proxy, with one that dies, lies and keeps silent when it is told to (test_client_proxy.c): what it was told of is told to the next one,
 * and what nobody serves is closed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fd.h"
#include "egress/client.h"
#include "egress/protocol.h"
#include "egress/rules_write.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <netinet/in.h>
#include <unistd.h>

#define WAIT_USEC 20000000ULL /* for what comes in milliseconds: a host may be busy */

static char directory[] = "/tmp/glovebox-test-client-XXXXXX";

static struct buffer rules_saying(const char *word)
{
        const struct egress_rules head = {.connections_max = 1};
        uint16_t ports[][2] = {{443, 443}};
        struct egress_rule_source rule = {.protocol = EGRESS_HTTPS, .n_ports = 1, .ports = ports, .text = word};
        struct buffer b = {0};

        assert_int_equal(host_pattern_parse("example.com", strlen("example.com"), &rule.pattern), 0);
        assert_int_equal(egress_rules_write(&head, &rule, 1, &b), 0);
        return b;
}

static struct egress_box *box_saying(const char *word, const struct buffer *authority)
{
        struct buffer rules = rules_saying(word);
        struct egress_box *b = NULL;
        gb_error err = {0};

        if (egress_box_new(&rules, authority, &b, &err) < 0)
                fail_msg("%s", err.message);
        assert_null(rules.data);
        return b;
}

static int change(struct egress_box *b, const char *word, gb_error *err)
{
        struct buffer rules = rules_saying(word);

        return egress_box_change(b, &rules, err);
}

static int listener(uint16_t *ret_port)
{
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(a);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_true(fd >= 0);
        assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
        assert_int_equal(listen(fd, 16), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &size), 0);
        *ret_port = ntohs(a.sin_port);
        return fd;
}

static int dial(uint16_t port)
{
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        return connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? -errno : 0;
}

/* How often a proxy was told that of the box; pid 0: any. */
static uint64_t told(const struct egress_box *b, const char *what, int pid)
{
        _cleanup_free_ struct ledger_copy *l = ledger_read(egress_box_ledger(b));
        uint64_t n = 0;
        char name[64];

        snprintf(name, sizeof(name), "%s.%d", what, pid);
        for (size_t i = 0; i < l->n; i++)
                if (pid > 0 ? strcmp(l->rows[i].host, name) == 0 : strncmp(l->rows[i].host, what, strlen(what)) == 0)
                        n += l->rows[i].requests;
        return n;
}

static void wait_for_another(int pid)
{
        uint64_t end = monotonic_usec() + WAIT_USEC;

        while ((egress_pid() == pid || egress_pid() == 0) && monotonic_usec() < end)
                usleep(1000);
        assert_int_not_equal(egress_pid(), pid);
        assert_int_not_equal(egress_pid(), 0);
}

static void wait_until_told(const struct egress_box *b, const char *what, int pid)
{
        uint64_t end = monotonic_usec() + WAIT_USEC;

        while (told(b, what, pid) == 0 && monotonic_usec() < end)
                usleep(1000);
        assert_int_not_equal(told(b, what, pid), 0);
}

static int put_program(void)
{
        char path[64];

        snprintf(path, sizeof(path), "%s/glovebox-egress", directory);
        return symlink(TEST_PROXY, path);
}

static int remove_program(void)
{
        char path[64];

        snprintf(path, sizeof(path), "%s/glovebox-egress", directory);
        return unlink(path);
}

/* ---- tests ---- */

static void test_orders(void **state)
{
        struct egress_box *b = box_saying("fine", NULL);
        gb_error err = {0};
        uint16_t port;

        assert_true(egress_pid() > 0);
        int pid = egress_pid();
        assert_int_equal(told(b, "box", 0), 0); /* nothing passes before it is attached */
        assert_int_equal(egress_box_attach(b, listener(&port), &err), 0);
        assert_int_equal(told(b, "box", pid), 1);
        assert_true(egress_box_attach(b, listener(&port), &err) < 0); /* once */
        assert_int_equal(change(b, "other", &err), 0);
        assert_int_equal(told(b, "rules", pid), 1);
        assert_int_equal(change(b, "refuse", &err), -EIO);
        assert_int_equal(err.code, GB_E_LIMIT);
        assert_string_equal(err.message, "no, thank you");
        assert_int_equal(egress_pid(), pid);
        egress_box_end(b);
        assert_int_equal(told(b, "gone", pid), 1); /* its ledger is still there */
        egress_box_free(b);
        struct buffer nonsense = {.max = 100};
        assert_int_equal(buffer_add_string(&nonsense, "no rules at all"), 0);
        assert_true(egress_box_new(&nonsense, NULL, &b, &err) < 0);
        assert_null(nonsense.data);
        assert_int_equal(egress_pid(), pid);
}

/* Killed, it comes back by itself and knows everything that the one before knew. */
static void test_death(void **state)
{
        struct egress_box *a = box_saying("fine", NULL), *b = box_saying("fine", NULL);
        int first = egress_pid();
        gb_error err = {0};
        uint16_t port_a, port_b;

        assert_int_equal(egress_box_attach(a, listener(&port_a), &err), 0);
        assert_int_equal(egress_box_attach(b, listener(&port_b), &err), 0);
        assert_int_equal(change(b, "newer", &err), 0);
        kill(first, SIGKILL);
        wait_for_another(first);
        int second = egress_pid();
        wait_until_told(a, "box", second);
        wait_until_told(b, "box", second);
        assert_int_equal(dial(port_a), 0); /* the listener is the same */
        assert_true(egress_box_is_served(a) && egress_box_is_served(b));
        egress_box_free(a);
        kill(second, SIGKILL);
        wait_for_another(second);
        wait_until_told(b, "box", egress_pid());
        egress_box_free(b);
}

/* An order by which it dies fails, is not told to the next one, and all others live on. */
static void test_order_that_kills(void **state)
{
        struct egress_box *a = box_saying("fine", NULL), *b = box_saying("fine", NULL);
        gb_error err = {0};
        uint16_t port;

        assert_int_equal(egress_box_attach(a, listener(&port), &err), 0);
        assert_int_equal(egress_box_attach(b, listener(&port), &err), 0);
        int pid = egress_pid();
        assert_true(change(b, "die", &err) < 0);
        assert_int_equal(err.code, GB_E_UNENFORCEABLE);
        wait_for_another(pid);
        wait_until_told(b, "box", egress_pid());
        wait_until_told(a, "box", egress_pid());
        assert_int_equal(change(b, "fine", &err), 0);
        egress_box_free(a);
        egress_box_free(b);
}

/* A box by which each next one dies loses its own network, and not that of the others. */
static void test_box_that_kills(void **state)
{
        struct egress_box *a = box_saying("fine", NULL), *b = box_saying("relapse", NULL), *c = box_saying("fine", NULL);
        gb_error err = {0};
        uint16_t port_a, port_b, port_c;

        assert_int_equal(egress_box_attach(a, listener(&port_a), &err), 0);
        assert_int_equal(egress_box_attach(b, listener(&port_b), &err), 0);
        assert_int_equal(egress_box_attach(c, listener(&port_c), &err), 0);
        kill(egress_pid(), SIGKILL);
        uint64_t end = monotonic_usec() + WAIT_USEC;
        while (egress_box_is_served(b) && monotonic_usec() < end)
                usleep(1000);
        assert_false(egress_box_is_served(b));
        assert_int_equal(dial(port_b), -ECONNREFUSED);
        int pid = egress_pid(); /* a proxy has a number before it has been told of the boxes */
        for (; (pid == 0 || told(a, "box", pid) == 0 || told(c, "box", pid) == 0) && monotonic_usec() < end; pid = egress_pid())
                usleep(1000);
        assert_int_equal(told(a, "box", pid), 1);
        assert_int_equal(told(c, "box", pid), 1);
        assert_true(egress_box_is_served(a) && egress_box_is_served(c));
        assert_int_equal(dial(port_a), 0);
        assert_int_equal(dial(port_c), 0);
        egress_box_free(a);
        egress_box_free(b);
        egress_box_free(c);
}

static void test_wrong_answers(void **state)
{
        static const char *const words[] = {"wrong", "deaf"};
        struct egress_box *a = box_saying("fine", NULL);
        gb_error err = {0};
        uint16_t port, port_a;

        assert_int_equal(egress_box_attach(a, listener(&port_a), &err), 0);
        for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
                struct egress_box *b = box_saying(words[i], NULL);
                int pid = egress_pid();
                assert_true(egress_box_attach(b, listener(&port), &err) < 0);
                assert_int_equal(err.code, GB_E_UNENFORCEABLE);
                assert_false(egress_box_is_served(b));
                assert_int_equal(dial(port), -ECONNREFUSED); /* nobody waits there for ever */
                wait_for_another(pid);
                wait_until_told(a, "box", egress_pid());
                assert_int_equal(dial(port_a), 0);
                egress_box_free(b);
        }
        egress_box_free(a);
}

static void test_refused_box(void **state)
{
        struct egress_box *b = box_saying("refuse", NULL);
        int pid = egress_pid();
        gb_error err = {0};
        uint16_t port;

        assert_true(egress_box_attach(b, listener(&port), &err) < 0);
        assert_int_equal(err.code, GB_E_LIMIT);
        assert_int_equal(egress_pid(), pid);
        assert_false(egress_box_is_served(b));
        egress_box_free(b);
}

/* One that keeps silent is ended after its time, and the order fails. */
static void test_silence(void **state)
{
        struct egress_box *a = box_saying("fine", NULL);
        gb_error err = {0};
        uint16_t port;

        assert_int_equal(egress_box_attach(a, listener(&port), &err), 0);
        int pid = egress_pid();
        assert_true(change(a, "mute", &err) < 0);
        assert_int_equal(err.errnum, ETIMEDOUT);
        wait_for_another(pid);
        wait_until_told(a, "box", egress_pid());
        egress_box_free(a);
}

static void test_authority(void **state)
{
        _cleanup_buffer_ struct buffer pem = {0};
        gb_error err = {0};
        uint16_t port;

        assert_int_equal(egress_make_authority(&pem, &err), 0);
        assert_non_null(strstr(pem.data, "BEGIN CERTIFICATE"));
        assert_true(pem.secret);
        struct egress_box *b = box_saying("fine", &pem);
        assert_int_equal(egress_box_attach(b, listener(&port), &err), 0);
        egress_box_free(b);
}

/* Without its program nothing is begun, what is there is closed in the end, and with it everything is well again. */
static void test_no_program(void **state)
{
        struct egress_box *a = box_saying("fine", NULL), *b = NULL;
        struct buffer rules = rules_saying("fine");
        gb_error err = {0};
        uint16_t port;

        assert_int_equal(egress_box_attach(a, listener(&port), &err), 0);
        remove_program();
        kill(egress_pid(), SIGKILL);
        uint64_t end = monotonic_usec() + WAIT_USEC;
        while (egress_box_is_served(a) && monotonic_usec() < end)
                usleep(1000);
        assert_false(egress_box_is_served(a));
        assert_int_equal(dial(port), -ECONNREFUSED);
        assert_int_equal(egress_box_new(&rules, NULL, &b, &err), -ENOENT);
        assert_int_equal(err.code, GB_E_UNENFORCEABLE);
        assert_non_null(strstr(err.message, "GLOVEBOX_LIBEXEC_DIR"));
        _cleanup_buffer_ struct buffer pem = {0};
        assert_true(egress_make_authority(&pem, &err) < 0);
        assert_int_equal(err.code, GB_E_UNENFORCEABLE);
        assert_int_equal(put_program(), 0);
        b = box_saying("fine", NULL);
        assert_int_equal(egress_box_attach(b, listener(&port), &err), 0);
        assert_true(egress_box_is_served(b));
        assert_true(change(a, "fine", &err) < 0); /* what was closed stays closed */
        assert_int_equal(err.code, GB_E_LOST);
        egress_box_free(a);
        egress_box_free(b);
}

static int make_directory(void **state)
{
        if (!mkdtemp(directory))
                return -1;
        setenv("GLOVEBOX_LIBEXEC_DIR", directory, 1);
        return put_program();
}

static int remove_directory(void **state)
{
        return remove_program() | rmdir(directory);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_orders), cmocka_unit_test(test_death), cmocka_unit_test(test_order_that_kills), cmocka_unit_test(test_box_that_kills),
                cmocka_unit_test(test_wrong_answers), cmocka_unit_test(test_refused_box), cmocka_unit_test(test_authority),
                cmocka_unit_test(test_silence), cmocka_unit_test(test_no_program),
        };

        return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
