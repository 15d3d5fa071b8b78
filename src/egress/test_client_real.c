/* SPDX-License-Identifier: Apache-2.0
 *
 * The front's side with the proxy itself: what is asked of a box is answered, also by the next one after a death, with the rules that were set last and with a
 * ledger that has forgotten nothing. Nothing is dialled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fd.h"
#include "egress/client.h"
#include "egress/rules_write.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define THREADS 8
#define ROUNDS 10

static struct buffer rules_allowing(const char *host)
{
        const struct egress_rules head = {.connections_max = 64};
        uint16_t ports[][2] = {{80, 80}};
        struct egress_rule_source rule = {.protocol = EGRESS_HTTP, .n_ports = 1, .ports = ports, .text = host};
        struct buffer b = {0};

        assert_int_equal(host_pattern_parse(host, strlen(host), &rule.pattern), 0);
        assert_int_equal(egress_rules_write(&head, &rule, 1, &b), 0);
        return b;
}

static struct egress_box *box_allowing(const char *host, const struct buffer *authority)
{
        struct buffer rules = rules_allowing(host);
        struct egress_box *b = NULL;
        gb_error err = {0};

        if (egress_box_new(&rules, authority, &b, &err) < 0)
                fail_msg("%s", err.message);
        return b;
}

static int make_listener(uint16_t *ret_port)
{
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(a);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_true(fd >= 0);
        assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
        assert_int_equal(listen(fd, 64), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &size), 0);
        *ret_port = ntohs(a.sin_port);
        return fd;
}

static uint16_t attach(struct egress_box *b)
{
        gb_error err = {0};
        uint16_t port;

        if (egress_box_attach(b, make_listener(&port), &err) < 0)
                fail_msg("%s", err.message);
        return port;
}

/* What is said to a request for something that no rule names; it may take as long as a new proxy needs. "": it was cut. */
static void ask(uint16_t port, char *ret, size_t size)
{
        static const char request[] = "GET http://refused.example/ HTTP/1.1\r\nHost: refused.example\r\nConnection: close\r\n\r\n";
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct timeval patience = {.tv_sec = 20};
        size_t n = 0;
        ssize_t got;

        ret[0] = '\0';
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
                return;
        while (n < size - 1 && (got = recv(fd, ret + n, size - 1 - n, 0)) > 0)
                n += (size_t)got;
        ret[n] = '\0';
}

static uint64_t refused(const struct egress_box *b)
{
        _cleanup_free_ struct ledger_copy *l = ledger_read(egress_box_ledger(b));

        return l->denied;
}

static void test_life(void **state)
{
        struct egress_box *b = box_allowing("before.example", NULL);
        struct buffer rules = rules_allowing("after.example");
        uint16_t port = attach(b);
        char answer[4096];
        gb_error err = {0};

        ask(port, answer, sizeof(answer));
        assert_non_null(strstr(answer, "HTTP/1.1 403"));
        assert_non_null(strstr(answer, "before.example"));
        assert_int_equal(refused(b), 1);
        assert_int_equal(egress_box_change(b, &rules, &err), 0);
        ask(port, answer, sizeof(answer));
        assert_non_null(strstr(answer, "after.example"));
        for (int i = 0; i < 3; i++) {
                int pid = egress_pid();
                assert_true(pid > 0);
                kill(pid, SIGKILL);
                while (egress_pid() == pid) /* what is asked before it is seen to be dead is cut, and that is no answer */
                        usleep(1000);
                ask(port, answer, sizeof(answer));
                assert_non_null(strstr(answer, "after.example")); /* with the rules that were set last */
                assert_int_equal(refused(b), 3 + i);
        }
        egress_box_end(b);
        ask(port, answer, sizeof(answer));
        assert_string_equal(answer, "");
        assert_int_equal(refused(b), 5);
        egress_box_free(b);
}

static void test_authority(void **state)
{
        _cleanup_buffer_ struct buffer one = {0}, two = {0};
        char answer[4096];
        gb_error err = {0};

        if (egress_make_authority(&one, &err) < 0 || egress_make_authority(&two, &err) < 0)
                fail_msg("%s", err.message);
        assert_string_not_equal(one.data, two.data);
        struct egress_box *b = box_allowing("a.example", &one);
        uint16_t port = attach(b);
        int pid = egress_pid();
        kill(pid, SIGKILL);
        while (egress_pid() == pid)
                usleep(1000);
        ask(port, answer, sizeof(answer)); /* the next one has taken certificates and all */
        assert_non_null(strstr(answer, "a.example"));
        egress_box_free(b);
}

static void *come_and_go(void *data)
{
        char answer[4096];

        for (int i = 0; i < ROUNDS; i++) {
                struct egress_box *b = box_allowing("a.example", NULL);
                ask(attach(b), answer, sizeof(answer));
                assert_non_null(strstr(answer, "HTTP/1.1 403"));
                assert_int_equal(refused(b), 1);
                egress_box_free(b);
        }
        return NULL;
}

static void test_threads(void **state)
{
        pthread_t threads[THREADS];

        for (int i = 0; i < THREADS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
        for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_life), cmocka_unit_test(test_authority), cmocka_unit_test(test_threads)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
