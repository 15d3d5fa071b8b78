/* SPDX-License-Identifier: Apache-2.0
 *
 * The ledger: what is counted where, what is left when there are more hosts than rows (attack 126), and what the front makes of one that a stranger has written. */
#include "egress/ledger.h"

#include "base/fd.h"
#include "base/macro.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
        int fd;
        struct ledger *l;
};

static int setup(void **state)
{
        static struct fixture f;

        *state = &f;
        return ledger_new(&f.fd, &f.l);
}

static int teardown(void **state)
{
        struct fixture *f = *state;

        ledger_unmap(f->l);
        close(f->fd);
        return 0;
}

static void ask(struct ledger *l, const char *host, enum egress_decision d, uint64_t up, uint64_t down)
{
        struct ledger_row *row = ledger_row(l, host, 443, d, EGRESS_HTTPS, d == EGRESS_ALLOWED ? "*.com" : NULL);

        ledger_count(l, row);
        if (up + down > 0)
                ledger_add(l, row, up, down);
}

static void test_counts(void **state)
{
        struct fixture *f = *state;

        ask(f->l, "a.com", EGRESS_ALLOWED, 10, 100);
        ask(f->l, "b.com", EGRESS_NO_RULE, 0, 0);
        ask(f->l, "a.com", EGRESS_ALLOWED, 1, 2);
        ask(f->l, "a.com", EGRESS_UNREACHED, 0, 0);
        _cleanup_free_ struct ledger_copy *c = ledger_read(f->l);
        assert_int_equal(c->requests, 4);
        assert_int_equal(c->denied, 1);
        assert_int_equal(c->bytes_up, 11);
        assert_int_equal(c->bytes_down, 102);
        assert_int_equal(c->cut, 0);
        assert_int_equal(c->n, 3);
        assert_string_equal(c->rows[0].host, "a.com");
        assert_string_equal(c->rows[0].rule, "*.com");
        assert_int_equal(c->rows[0].port, 443);
        assert_int_equal(c->rows[0].requests, 2);
        assert_int_equal(c->rows[0].bytes_down, 102);
        assert_string_equal(c->rows[1].host, "b.com");
        assert_int_equal(c->rows[1].decision, EGRESS_NO_RULE);
        assert_string_equal(c->rows[1].rule, "");
        assert_int_equal(c->rows[2].decision, EGRESS_UNREACHED);
}

static void test_since(void **state)
{
        struct fixture *f = *state;

        ask(f->l, "a.com", EGRESS_ALLOWED, 10, 100);
        ask(f->l, "b.com", EGRESS_NO_RULE, 0, 0);
        _cleanup_free_ struct ledger_copy *before = ledger_read(f->l);
        ask(f->l, "b.com", EGRESS_NO_RULE, 0, 0);
        ask(f->l, "c.com", EGRESS_ALLOWED, 5, 6);
        ledger_add(f->l, ledger_row(f->l, "a.com", 443, EGRESS_ALLOWED, EGRESS_HTTPS, "*.com"), 0, 7); /* an older tunnel goes on */
        atomic_store(&f->l->cut, EGRESS_OVER_BYTES);
        _cleanup_free_ struct ledger_copy *c = ledger_since(f->l, before), *all = ledger_since(f->l, NULL), *now = ledger_read(f->l), *nothing = ledger_since(f->l, now);
        assert_int_equal(c->n, 3);
        assert_int_equal(c->requests, 2);
        assert_int_equal(c->denied, 1);
        assert_int_equal(c->bytes_up, 5);
        assert_int_equal(c->bytes_down, 13);
        assert_int_equal(c->cut, EGRESS_OVER_BYTES);
        assert_string_equal(c->rows[0].host, "a.com");
        assert_int_equal(c->rows[0].requests, 0);
        assert_int_equal(c->rows[0].bytes_down, 7);
        assert_int_equal(c->rows[1].requests, 1);
        assert_string_equal(c->rows[2].host, "c.com");
        assert_int_equal(all->n, 3);
        assert_int_equal(all->requests, 4);
        assert_int_equal(nothing->n, 0);
        assert_int_equal(nothing->requests, 0);
        assert_int_equal(nothing->cut, 0);
}

/* Who asks for a thousand names that are refused hides nothing that he reaches. */
static void test_flood(void **state)
{
        struct fixture *f = *state;
        char name[32];

        for (int i = 0; i < 1000; i++) {
                snprintf(name, sizeof(name), "x%d.evil.com", i);
                ask(f->l, name, EGRESS_NO_RULE, 0, 0);
        }
        ask(f->l, "a.com", EGRESS_ALLOWED, 3, 4);
        _cleanup_free_ struct ledger_copy *c = ledger_read(f->l);
        assert_int_equal(c->requests, 1001);
        assert_int_equal(c->denied, 1000);
        assert_int_equal(c->n, LEDGER_ROWS_MAX / 2 + 2);
        assert_string_equal(c->rows[LEDGER_ROWS_MAX / 2].host, "a.com");
        assert_string_equal(c->rows[c->n - 1].host, "");
        assert_int_equal(c->rows[c->n - 1].requests, 1000 - LEDGER_ROWS_MAX / 2);
        assert_int_equal(c->rows[c->n - 1].decision, EGRESS_NO_RULE);
        for (int i = 0; i < 1000; i++) {
                snprintf(name, sizeof(name), "y%d.com", i);
                ask(f->l, name, EGRESS_ALLOWED, 1, 0);
        }
        _cleanup_free_ struct ledger_copy *full = ledger_read(f->l), *since = ledger_since(f->l, c);
        assert_int_equal(full->n, LEDGER_ROWS_ALL); /* what passed and what did not are told apart there, too */
        assert_int_equal(full->rows[full->n - 2].decision, EGRESS_ALLOWED);
        assert_int_equal(full->rows[full->n - 2].requests, 1001 - LEDGER_ROWS_MAX / 2);
        assert_int_equal(full->requests, 2001);
        assert_int_equal(full->bytes_up, 1003);
        uint64_t sum = 0;
        for (size_t i = 0; i < full->n; i++)
                sum += full->rows[i].requests;
        assert_int_equal(sum, 2001);
        sum = 0;
        for (size_t i = 0; i < since->n; i++)
                sum += since->rows[i].requests;
        assert_int_equal(sum, 1000);
}

/* And who asks for names that pass and lead nowhere does not, either. */
static void test_flood_of_nothing(void **state)
{
        struct fixture *f = *state;
        char name[32];

        for (int i = 0; i < 1000; i++) {
                snprintf(name, sizeof(name), "x%d.a.com", i);
                ask(f->l, name, i % 2 ? EGRESS_UNRESOLVED : EGRESS_UNREACHED, 0, 0);
        }
        ask(f->l, "a.com", EGRESS_ALLOWED, 3, 4);
        _cleanup_free_ struct ledger_copy *c = ledger_read(f->l);
        assert_int_equal(c->n, LEDGER_ROWS_MAX / 2 + 2);
        assert_string_equal(c->rows[LEDGER_ROWS_MAX / 2].host, "a.com");
        assert_int_equal(c->rows[LEDGER_ROWS_MAX / 2].bytes_down, 4);
}

/* A proxy that was taken over writes what it likes. */
static void test_garbage(void **state)
{
        struct fixture *f = *state;

        memset(f->l, 0xff, sizeof(*f->l));
        _cleanup_free_ struct ledger_copy *c = ledger_read(f->l);
        assert_int_equal(c->n, 0); /* no row has a decision that there is */
        assert_int_equal(c->cut, 0);
        for (size_t i = 0; i < LEDGER_ROWS_ALL; i++) {
                f->l->rows[i].decision = EGRESS_ALLOWED;
                f->l->rows[i].protocol = EGRESS_TCP;
                memset(f->l->rows[i].host, i % 2 ? '\n' : 'a', sizeof(f->l->rows[i].host));
        }
        _cleanup_free_ struct ledger_copy *full = ledger_read(f->l);
        assert_int_equal(full->n, LEDGER_ROWS_ALL);
        for (size_t i = 0; i < full->n; i++) {
                assert_true(strnlen(full->rows[i].host, HOST_TEXT_MAX) < HOST_TEXT_MAX);
                assert_true(strnlen(full->rows[i].rule, NETWORK_RULE_TEXT_MAX) < NETWORK_RULE_TEXT_MAX);
                assert_null(strpbrk(full->rows[i].host, "\n\xff"));
        }
        /* And back: numbers that shrink have not grown. */
        atomic_store(&f->l->requests, 1);
        atomic_store(&f->l->rows[0].requests, 1);
        _cleanup_free_ struct ledger_copy *since = ledger_since(f->l, full);
        assert_int_equal(since->requests, 0);
}

static void test_map(void **state)
{
        struct fixture *f = *state;
        struct ledger *again = NULL;

        ask(f->l, "a.com", EGRESS_ALLOWED, 0, 0);
        assert_int_equal(ledger_map(f->fd, &again), 0);
        ask(again, "a.com", EGRESS_ALLOWED, 1, 1);
        assert_int_equal(atomic_load(&f->l->requests), 2); /* the same memory */
        ledger_unmap(again);
        assert_int_equal(ftruncate(f->fd, 0), -1);
        assert_int_equal(ftruncate(f->fd, 1 << 24), -1);

        again = NULL;
        _cleanup_close_ int open_size = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING), small = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        uint32_t version = LEDGER_VERSION, other = LEDGER_VERSION + 1;
        assert_int_equal(ftruncate(open_size, sizeof(struct ledger)), 0);
        assert_int_equal(pwrite(open_size, &version, sizeof(version), 0), sizeof(version));
        assert_int_equal(ledger_map(open_size, &again), -EINVAL); /* its size could change under us */
        assert_int_equal(ftruncate(small, 100), 0);
        assert_int_equal(fcntl(small, F_ADD_SEALS, F_SEAL_SHRINK), 0);
        assert_int_equal(ledger_map(small, &again), -EINVAL);
        assert_int_equal(fcntl(open_size, F_ADD_SEALS, F_SEAL_SHRINK), 0);
        assert_int_equal(pwrite(open_size, &other, sizeof(other), 0), sizeof(other));
        assert_int_equal(ledger_map(open_size, &again), -EINVAL);
        _cleanup_close_ int pipe_end = open("/dev/null", O_RDWR | O_CLOEXEC);
        assert_int_equal(ledger_map(pipe_end, &again), -EINVAL);
        assert_null(again);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_counts, setup, teardown), cmocka_unit_test_setup_teardown(test_since, setup, teardown),
                cmocka_unit_test_setup_teardown(test_flood_of_nothing, setup, teardown),
                cmocka_unit_test_setup_teardown(test_flood, setup, teardown),  cmocka_unit_test_setup_teardown(test_garbage, setup, teardown),
                cmocka_unit_test_setup_teardown(test_map, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
