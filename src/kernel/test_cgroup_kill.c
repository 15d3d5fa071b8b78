/* SPDX-License-Identifier: Apache-2.0
 *
 * Killing the processes of a group by a list of their numbers, on a plain directory: its cgroup.procs is a FIFO that
 * serves another list each time that it is opened. */
#include "kernel/cgroup.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct plain {
        char path[64];
        int fd;
};

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        return remove(path);
}

static int plain_setup(void **state)
{
        static struct plain p;

        strcpy(p.path, "/tmp/test-cgroup-XXXXXX");
        if (!mkdtemp(p.path))
                return -1;
        p.fd = open(p.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        *state = &p;
        return p.fd < 0 ? -1 : 0;
}

static int plain_teardown(void **state)
{
        struct plain *p = *state;

        safe_close(p->fd);
        return nftw(p->path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

#define SERVER_SECONDS 30
static const char again[] = "";
#define SERVE_AGAIN again /* instead of another text: the one before it, without end */

/* Serves cgroup.procs as a row of texts, one for each time that it is opened. The file is a FIFO; the next one takes its
 * name before the reader of this one can see its end. */
static _noreturn_ void serve_lists(int dir, const char *const texts[])
{
        alarm(SERVER_SECONDS); /* for a list that nobody asks for */
        for (size_t i = 0; texts[i]; i++) {
                int fd = openat(dir, "cgroup.procs", O_WRONLY | O_CLOEXEC);
                size_t size = strlen(texts[i]);
                if (fd < 0 || mkfifoat(dir, "next", 0600) < 0 || renameat(dir, "next", dir, "cgroup.procs") < 0 ||
                    fd_write_all(fd, texts[i], size) < 0)
                        _exit(1);
                close(fd);
                if (texts[i + 1] == SERVE_AGAIN)
                        i--;
        }
        _exit(0);
}

static pid_t start_bystander(void)
{
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL); /* it is not left behind by a test that fails */
                for (;;)
                        pause();
        }
        return pid;
}

static void assert_killed(pid_t pid)
{
        int status;

        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Kills the box whose cgroup.procs shows these texts one after the other; every one must be asked for. */
static void kill_listed_box(struct plain *p, const char *const texts[])
{
        int parents[CGROUP_KIND_COUNT] = { -1, p->fd, -1, -1, -1 };
        const struct cgroup_limits none = { 0 };
        struct cgroup_box b;
        int status;

        assert_int_equal(cgroup_box_create(&b, parents, false, "glovebox-00000004", &none), 0);
        assert_int_equal(mkfifoat(b.dir[CGROUP_MEMORY], "cgroup.procs", 0600), 0);
        pid_t server = fork();
        assert_true(server >= 0);
        if (server == 0)
                serve_lists(b.dir[CGROUP_MEMORY], texts);
        assert_int_equal(cgroup_box_kill(&b), 0);
        assert_int_equal(waitpid(server, &status, 0), server);
        assert_int_equal(status, 0);
        assert_int_equal(unlinkat(b.dir[CGROUP_MEMORY], "cgroup.procs", 0), 0);
        assert_int_equal(cgroup_box_remove(&b, 0), 0);
}

/* A process of the box ends between the look at the list and the signal, and its number becomes a bystander's. */
static void test_kill_recycled_number(void **state)
{
        pid_t bystander = start_bystander(), listed = start_bystander();
        char both[32], one[16];
        int status;

        snprintf(both, sizeof(both), "%d\n%d\n", (int)bystander, (int)listed);
        snprintf(one, sizeof(one), "%d\n", (int)listed);
        kill_listed_box(*state, (const char *const[]){ both, one, "", NULL });
        assert_killed(listed);
        assert_int_equal(waitpid(bystander, &status, WNOHANG), 0);
        kill(bystander, SIGKILL);
        assert_killed(bystander);
}

/* More processes than are signalled after one look. */
static void test_kill_many(void **state)
{
        enum { MANY = 150 };
        char all[MANY * 12], *end = all;
        pid_t pids[MANY];

        for (size_t i = 0; i < MANY; i++) {
                pids[i] = start_bystander();
                end += snprintf(end, 12, "%d\n", (int)pids[i]);
        }
        kill_listed_box(*state, (const char *const[]){ all, all, all, all, "", NULL });
        for (size_t i = 0; i < MANY; i++)
                assert_killed(pids[i]);
}

static bool is_first(const void *spared, pid_t pid)
{
        return *(const pid_t *)spared == pid;
}

/* Clears the box whose cgroup.procs shows these texts, and returns what came of it. */
static int clear_listed_box(struct plain *p, const char *name, const char *const texts[], const pid_t *spared)
{
        int parents[CGROUP_KIND_COUNT] = {-1, -1, p->fd, -1, -1};
        const struct cgroup_limits none = {0};
        struct cgroup_box b;

        assert_int_equal(cgroup_box_create(&b, parents, false, name, &none), 0);
        assert_int_equal(mkfifoat(b.dir[CGROUP_PIDS], "cgroup.procs", 0600), 0);
        pid_t server = fork();
        assert_true(server >= 0);
        if (server == 0)
                serve_lists(b.dir[CGROUP_PIDS], texts);
        int r = cgroup_box_clear(&b, is_first, spared);
        kill(server, SIGKILL);
        assert_int_equal(waitpid(server, NULL, 0), server);
        unlinkat(b.dir[CGROUP_PIDS], "next", 0);
        assert_int_equal(unlinkat(b.dir[CGROUP_PIDS], "cgroup.procs", 0), 0);
        assert_int_equal(cgroup_box_remove(&b, 0), 0);
        return r;
}

/* The list cannot be read once, after processes were stopped: they are killed, not left behind. */
static void test_clear_after_an_error(void **state)
{
        pid_t spared = start_bystander(), one = start_bystander();
        char both[32], last[16], broken[5000];

        memset(broken, 'x', sizeof(broken) - 1);
        broken[sizeof(broken) - 1] = '\0';
        snprintf(both, sizeof(both), "%d\n%d\n", (int)spared, (int)one);
        snprintf(last, sizeof(last), "%d\n", (int)spared);
        const char *const texts[] = {both, both, broken, both, both, last, NULL};
        assert_int_equal(clear_listed_box(*state, "glovebox-00000006", texts, &spared), 1);
        assert_killed(one);
        kill(spared, SIGKILL);
        assert_killed(spared);
}

/* A process that stays in the list was not ended, whatever signal was sent. */
static void test_clear_that_fails(void **state)
{
        pid_t spared = start_bystander(), one = start_bystander();
        char both[32];

        snprintf(both, sizeof(both), "%d\n%d\n", (int)spared, (int)one);
        const char *const texts[] = {both, SERVE_AGAIN, NULL};
        assert_int_equal(clear_listed_box(*state, "glovebox-00000007", texts, &spared), -EBUSY);
        assert_killed(one);
        kill(spared, SIGKILL);
        assert_killed(spared);
}

/* All but one are stopped, again as long as there are more of them, and killed. */
static void test_clear(void **state)
{
        struct plain *p = *state;
        int parents[CGROUP_KIND_COUNT] = {-1, -1, p->fd, -1, -1}, status;
        const struct cgroup_limits none = {0};
        pid_t spared = start_bystander(), one = start_bystander(), late = start_bystander();
        char few[64], all[64], last[16];
        struct cgroup_box b;

        snprintf(few, sizeof(few), "%d\n%d\n", (int)spared, (int)one);
        snprintf(all, sizeof(all), "%d\n%d\n%d\n", (int)spared, (int)one, (int)late);
        snprintf(last, sizeof(last), "%d\n", (int)spared);
        /* Two looks for each round: stop, stop again with one that was forked meanwhile, stop, kill, look. */
        const char *const texts[] = {few, few, all, all, all, all, all, all, last, NULL};
        assert_int_equal(cgroup_box_create(&b, parents, false, "glovebox-00000005", &none), 0);
        assert_int_equal(mkfifoat(b.dir[CGROUP_PIDS], "cgroup.procs", 0600), 0);
        pid_t server = fork();
        assert_true(server >= 0);
        if (server == 0)
                serve_lists(b.dir[CGROUP_PIDS], texts);
        assert_int_equal(cgroup_box_clear(&b, is_first, &spared), 2);
        assert_int_equal(waitpid(server, &status, 0), server);
        assert_int_equal(status, 0);
        assert_killed(one);
        assert_killed(late);
        assert_int_equal(waitpid(spared, &status, WNOHANG), 0);
        kill(spared, SIGKILL);
        assert_killed(spared);
        assert_int_equal(unlinkat(b.dir[CGROUP_PIDS], "cgroup.procs", 0), 0);
        assert_int_equal(cgroup_box_remove(&b, 0), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_kill_recycled_number, plain_setup, plain_teardown),
                cmocka_unit_test_setup_teardown(test_kill_many, plain_setup, plain_teardown),
                cmocka_unit_test_setup_teardown(test_clear, plain_setup, plain_teardown),
                cmocka_unit_test_setup_teardown(test_clear_after_an_error, plain_setup, plain_teardown),
                cmocka_unit_test_setup_teardown(test_clear_that_fails, plain_setup, plain_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
