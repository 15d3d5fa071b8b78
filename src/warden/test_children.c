/* SPDX-License-Identifier: Apache-2.0
 *
 * The owners that may reap a child. This process is the warden. */
#include "base/fd.h"
#include "kernel/sys.h"
#include "warden/children.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

/* A child that waits for a byte at its socket, then exits with this status; its pidfd. */
static int make_child(int status, int *ret_go)
{
        int pair[2], pidfd = -1;
        char go;
        struct clone_args args = {.flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&pidfd, .exit_signal = SIGCHLD};

        assert_int_equal(pipe(pair), 0);
        pid_t pid = sys_clone3(&args);
        assert_true(pid >= 0);
        if (pid == 0) {
                close(pair[1]);
                _exit(read(pair[0], &go, 1) == 1 ? status : 99);
        }
        close(pair[0]);
        *ret_go = pair[1];
        return pidfd;
}

static void let_go(int go)
{
        assert_int_equal(write(go, "g", 1), 1);
        close(go);
}

/* Until it has ended; it is not reaped. */
static void await_end(int pidfd)
{
        siginfo_t info = {0};

        assert_int_equal(waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOWAIT), 0);
}

static bool is_reaped(int pidfd)
{
        siginfo_t info = {0};

        return waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

static void test_a_claimed_child_is_its_owners(void **state)
{
        struct child c = CHILD_NONE;
        struct ending end = {0};
        int go, pidfd = make_child(7, &go), copy = dup(pidfd);

        assert_int_equal(child_claim(&c, &pidfd), 0);
        assert_int_equal(pidfd, -1);
        assert_false(child_reap(&c, WNOHANG, &end));
        let_go(go);
        await_end(copy);
        children_reap_unclaimed();
        assert_false(is_reaped(copy));
        child_discard(copy); /* not another's to discard */
        assert_false(is_reaped(copy));
        assert_true(child_has_ended(&c));
        assert_true(child_reap(&c, WNOHANG, &end));
        assert_true(ending_is_exit(&end));
        assert_int_equal(end.value, 7);
        assert_false(child_exists(&c));
        close(copy);
}

static void test_one_that_was_reaped_cannot_be_claimed(void **state)
{
        struct child c = CHILD_NONE;
        int go, pidfd = make_child(3, &go);

        let_go(go);
        await_end(pidfd);
        children_reap_unclaimed();
        assert_true(is_reaped(pidfd));
        assert_int_equal(child_claim(&c, &pidfd), -ECHILD);
        assert_true(pidfd >= 0); /* still the caller's */
        assert_false(child_exists(&c));
        assert_false(child_reap(&c, WNOHANG, NULL));
        close(pidfd);
}

static void test_a_claim_has_one_owner(void **state)
{
        struct child c = CHILD_NONE, other = CHILD_NONE;
        int go, pidfd = make_child(0, &go), copy = dup(pidfd), self = (int)syscall(SYS_pidfd_open, getpid(), 0);

        assert_int_equal(child_claim(&c, &pidfd), 0);
        assert_int_equal(child_claim(&other, &copy), -ECHILD);
        assert_int_equal(child_claim(&other, &self), -ECHILD); /* no child of ours */
        let_go(go);
        assert_true(child_reap(&c, 0, NULL));
        close(copy);
        close(self);
}

static void test_unclaimed_ones_behind_a_claimed_one_are_reaped(void **state)
{
        struct child c = CHILD_NONE;
        struct ending end;
        int go, first = make_child(4, &go), second_go, second = make_child(5, &second_go), copy = dup(first);

        assert_int_equal(child_claim(&c, &first), 0);
        let_go(go);
        await_end(copy);
        let_go(second_go);
        await_end(second);
        children_reap_unclaimed();
        assert_true(is_reaped(second) || access("/proc/thread-self/children", R_OK) < 0);
        assert_true(child_reap(&c, 0, &end));
        assert_int_equal(end.value, 4);
        children_reap_unclaimed();
        assert_true(is_reaped(second));
        close(second);
        close(copy);
}

/* It cannot happen in the warden. When it does all the same, there is an end and no status. */
static void test_an_end_that_another_saw_has_no_status(void **state)
{
        struct child c = CHILD_NONE;
        struct ending end = ENDING_OF_EXIT(0);
        int go, pidfd = make_child(6, &go);

        assert_int_equal(child_claim(&c, &pidfd), 0);
        let_go(go);
        assert_int_equal(waitpid(c.pid, NULL, 0), c.pid);
        assert_true(child_reap(&c, WNOHANG, &end));
        assert_false(ending_is_seen(&end));
}

static void test_signals_are_endings(void **state)
{
        struct child c = CHILD_NONE;
        struct ending end;
        int go, pidfd = make_child(0, &go);

        assert_int_equal(child_claim(&c, &pidfd), 0);
        child_kill(&c);
        assert_true(child_reap(&c, 0, &end));
        assert_int_equal(ending_signal(&end), SIGKILL);
        assert_false(ending_is_exit(&end));
        close(go);
}

static void test_what_nobody_wants_is_ended(void **state)
{
        int go, pidfd = make_child(0, &go);

        child_discard(pidfd);
        for (int i = 0; i < 1000 && !is_reaped(pidfd); i++) {
                usleep(1000);
                children_reap_unclaimed();
        }
        assert_true(is_reaped(pidfd));
        close(pidfd);
        close(go);
}

/* One whose end nobody waits for: the warden looks until it is gone, and then no more. */
static void test_it_looks_until_none_is_left(void **state)
{
        int go, pidfd = make_child(0, &go);

        if (access("/proc/thread-self/children", R_OK) < 0)
                skip();
        assert_false(children_need_look());
        children_look_again();
        children_reap_unclaimed();
        assert_true(children_need_look());
        let_go(go);
        await_end(pidfd);
        children_reap_unclaimed();
        assert_true(is_reaped(pidfd));
        assert_false(children_need_look());
        close(pidfd);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_claimed_child_is_its_owners),
                cmocka_unit_test(test_one_that_was_reaped_cannot_be_claimed),
                cmocka_unit_test(test_a_claim_has_one_owner),
                cmocka_unit_test(test_unclaimed_ones_behind_a_claimed_one_are_reaped),
                cmocka_unit_test(test_an_end_that_another_saw_has_no_status),
                cmocka_unit_test(test_signals_are_endings),
                cmocka_unit_test(test_what_nobody_wants_is_ended),
                cmocka_unit_test(test_it_looks_until_none_is_left),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
