/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs and supervisors that die at a bad moment: the agent reports only what it has observed. */
#include "agent/test_peer.h"
#include "agent/tree.h"
#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#define TRIES_MAX 2000
#define HITS 3
#define LOOKS_MAX 20000

static bool read_of(pid_t pid, const char *file, char *text, size_t size)
{
        char path[128];

        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
        return file_read_at(AT_FDCWD, path, text, size) >= 0;
}

/* The agent has spares as well, which are older than its supervisor. */
static pid_t youngest_child(pid_t pid)
{
        char file[64], text[256];

        snprintf(file, sizeof(file), "task/%d/children", (int)pid);
        if (!read_of(pid, file, text, sizeof(text)))
                return 0;
        char *end = text + strlen(text);
        while (end > text && end[-1] == ' ')
                *--end = '\0';
        char *space = strrchr(text, ' ');
        return (pid_t)atoi(space ? space + 1 : text);
}

static char state_of(pid_t pid)
{
        char text[1024];
        const char *p = read_of(pid, "stat", text, sizeof(text)) ? strrchr(text, ')') : NULL;

        return p && p[1] ? p[2] : 0;
}

static void wait_for_state(pid_t pid, char state)
{
        for (int i = 0; state_of(pid) != state; i++) {
                assert_true(i < LOOKS_MAX);
                usleep(1000);
        }
}

/* The process so many steps below, stopped before its exec; 0: it was quicker, or there was none in time. */
static pid_t stop_before_exec(pid_t top, int depth)
{
        char name[64] = "";
        pid_t pid = 0;

        for (int i = 0; i < LOOKS_MAX && pid == 0; i++) {
                pid = top;
                for (int d = 0; d < depth && pid > 0; d++)
                        pid = youngest_child(pid);
        }
        if (pid <= 0 || kill(pid, SIGSTOP) < 0)
                return 0;
        for (int i = 0; i < LOOKS_MAX && state_of(pid) == 'R'; i++)
                ;
        if (state_of(pid) == 'T' && read_of(pid, "comm", name, sizeof(name)) && strncmp(name, "gb-", 3) == 0)
                return pid;
        (void)kill(pid, SIGCONT);
        return 0;
}

/* Kills it before its exec until that was done some times. */
static void kill_before_exec(struct peer *a, struct order order, int depth, const char *message)
{
        int hits = 0;

        for (int i = 0; i < TRIES_MAX && hits < HITS; i++) {
                start(a, 1, order);
                pid_t pid = stop_before_exec(a->pid, depth);
                if (pid == 0) {
                        await_end(a, 1);
                        continue;
                }
                assert_int_equal(kill(pid, SIGKILL), 0);
                assert_int_equal(next(a), WIRE_FAILED);
                gb_error error;
                memcpy(&error, a->payload, sizeof(error));
                assert_int_equal(error.code, GB_E_LOST);
                assert_non_null(strstr(error.message, message));
                hits++;
        }
        assert_int_equal(hits, HITS);
}

static void test_killed_before_it_is_executed(void **state)
{
        kill_before_exec(*state, (struct order){.run = "exit 0"}, 2, "the program was killed before it could start");
}

static void test_compiler_killed_before_it_is_executed(void **state)
{
        kill_before_exec(*state, (struct order){.compile = "exit 0", .run = "exit 0"}, 3,
                         "the compiler was killed before it could start");
}

/* The same end, right after it: these have been started. */
static void test_killed_right_after_it_is_executed(void **state)
{
        struct peer *a = *state;

        for (int i = 0; i < 30; i++) {
                start(a, 1, (struct order){.run = "kill -KILL $$"});
                assert_int_equal(next(a), WIRE_STARTED);
                struct wire_end end = await_end(a, 1);
                assert_int_equal(end.ending.kind, ENDING_SIGNAL);
                assert_int_equal(end.ending.value, SIGKILL);
        }
}

/* The supervisor dies before it has reported anything. */
static void test_supervisor_killed_before_the_exec(void **state)
{
        struct peer *a = *state;
        int hits = 0;

        for (int i = 0; i < TRIES_MAX && hits < HITS; i++) {
                start(a, 1, (struct order){.run = "exit 0"});
                pid_t leader = stop_before_exec(a->pid, 2);
                pid_t supervisor = youngest_child(a->pid);
                if (leader == 0 || supervisor == 0) {
                        await_end(a, 1);
                        continue;
                }
                assert_int_equal(kill(supervisor, SIGKILL), 0);
                assert_int_equal(next(a), WIRE_FAILED);
                gb_error error;
                memcpy(&error, a->payload, sizeof(error));
                assert_non_null(strstr(error.message, "is not known"));
                hits++;
        }
        assert_int_equal(hits, HITS);
}

/* The supervisor is stopped, then killed: the agent becomes the parent of the leader, and sees its end. */
static void test_leader_ends_by_itself_before_its_supervisor_is_killed(void **state)
{
        static const struct {
                const char *end;
                enum ending_kind kind;
                uint32_t value;
        } rows[] = {{"exit 5", ENDING_EXIT, 5}, {"exit 0", ENDING_EXIT, 0}, {"kill -SEGV $$", ENDING_SIGNAL, SIGSEGV}};
        struct peer *a = *state;

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                char code[96];
                int supervisor, leader;
                snprintf(code, sizeof(code), "echo $PPID $$; read x; %s", rows[i].end);
                start(a, 1, (struct order){.flags = WIRE_PLAN_STDIN, .run = code});
                while (sscanf(a->text[WIRE_STDOUT], "%d %d\n", &supervisor, &leader) < 2)
                        next(a);
                assert_int_equal(kill(supervisor, SIGSTOP), 0);
                wait_for_state(supervisor, 'T');
                put(a, WIRE_DATA, 1, WIRE_STDIN, 0, "x\n", 2);
                wait_for_state(leader, 'Z');
                assert_int_equal(kill(supervisor, SIGKILL), 0);
                struct wire_end end = await_end(a, 1);
                assert_int_equal(end.ending.kind, rows[i].kind);
                assert_int_equal(end.ending.value, rows[i].value);
                assert_int_equal(end.unkillable, 0);
        }
}

/* The leader ends by itself after the death of its supervisor, while the agent kills it: one of the two is seen. */
static void test_leader_outlives_its_supervisor(void **state)
{
        struct peer *a = *state;
        char *words[] = {helper, (char *)"outlive", NULL};

        for (int i = 0; i < 20; i++) {
                int supervisor;
                start(a, 1, (struct order){.words = words});
                while (sscanf(a->text[WIRE_STDOUT], "%d\n", &supervisor) < 1)
                        next(a);
                assert_int_equal(kill(supervisor, SIGKILL), 0);
                struct wire_end end = await_end(a, 1);
                bool by_itself = ending_is_exit(&end.ending) && end.ending.value == 5;
                assert_true(by_itself || ending_signal(&end.ending) == SIGKILL);
        }
}

/* The supervisor does not report the end, but has reported the phase. */
static void test_supervisor_killed_while_compiling(void **state)
{
        struct peer *a = *state;

        start(a, 1, (struct order){.compile = "echo on; sleep 1000", .run = "exit 0"});
        await(a, WIRE_DATA, 1);
        assert_int_equal(kill(youngest_child(a->pid), SIGKILL), 0);
        struct wire_end end = await_end(a, 1);
        assert_int_equal(end.compiling, 1);
        assert_int_equal(end.ending.kind, ENDING_SIGNAL);
}

static struct wire_usage look(struct peer *a)
{
        struct wire_usage usage;

        put(a, WIRE_LOOK, 0, 0, 1, NULL, 0);
        await(a, WIRE_USAGE, 0);
        assert_int_equal(a->frame.size, sizeof(usage));
        memcpy(&usage, a->payload, sizeof(usage));
        return usage;
}

/* Without descriptors the agent cannot count: that is not a count of 0. */
static void test_tasks_that_cannot_be_counted(void **state)
{
        struct peer *a = *state;
        struct rlimit before, none = {6, 0}; /* as many as it waits for, all of them open */

        start(a, 1, (struct order){.run = "echo on; exec sleep 1000"});
        await(a, WIRE_DATA, 1);
        struct wire_usage usage = look(a);
        assert_true(usage.known & WIRE_USAGE_TASKS);
        assert_true(usage.tasks > 0);
        assert_int_equal(prlimit(a->pid, RLIMIT_NOFILE, NULL, &before), 0);
        none.rlim_max = before.rlim_max;
        assert_int_equal(prlimit(a->pid, RLIMIT_NOFILE, &none, NULL), 0);
        usage = look(a);
        assert_false(usage.known & WIRE_USAGE_TASKS);
        assert_int_equal(usage.tasks, 0);
        assert_int_equal(prlimit(a->pid, RLIMIT_NOFILE, &before, NULL), 0);
        assert_true(look(a).known & WIRE_USAGE_TASKS);
        put(a, WIRE_STOP, 1, 0, 0, NULL, 0);
        await_end(a, 1);
}

/* Without descriptors it cannot see whether somebody is left: that is no success. */
static void test_what_cannot_be_listed_is_not_cleared(void **state)
{
        struct peer *a = *state;
        struct rlimit before, none = {6, 0};
        gb_error error;

        start(a, 1, (struct order){.run = "sleep 1000 & echo on; exec sleep 1000"});
        await(a, WIRE_DATA, 1);
        assert_int_equal(prlimit(a->pid, RLIMIT_NOFILE, NULL, &before), 0);
        none.rlim_max = before.rlim_max;
        assert_int_equal(prlimit(a->pid, RLIMIT_NOFILE, &none, NULL), 0);
        put(a, WIRE_CLEAR, 0, 0, 0, NULL, 0);
        await(a, WIRE_CLEARED, 0);
        assert_int_equal(a->frame.size, sizeof(error));
        memcpy(&error, a->payload, sizeof(error));
        assert_int_equal(error.code, GB_E_UNAVAILABLE);
        assert_int_equal(error.errnum, EMFILE);
        assert_int_equal(prlimit(a->pid, RLIMIT_NOFILE, &before, NULL), 0);
        put(a, WIRE_CLEAR, 0, 0, 0, NULL, 0);
        await(a, WIRE_CLEARED, 0);
        assert_int_equal(a->frame.size, 0);
        assert_int_equal(a->frame.value, 1);
        put(a, WIRE_STOP, 1, 0, 0, NULL, 0);
        await_end(a, 1);
}

int main(void)
{
        signal(SIGPIPE, SIG_IGN);
        const struct CMUnitTest tests[] = {
                TEST(test_what_cannot_be_listed_is_not_cleared),
                TEST(test_killed_before_it_is_executed),
                TEST(test_compiler_killed_before_it_is_executed),
                TEST(test_killed_right_after_it_is_executed),
                TEST(test_supervisor_killed_before_the_exec),
                TEST(test_leader_ends_by_itself_before_its_supervisor_is_killed),
                TEST(test_leader_outlives_its_supervisor),
                TEST(test_supervisor_killed_while_compiling),
                TEST(test_tasks_that_cannot_be_counted),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
