/* SPDX-License-Identifier: Apache-2.0
 *
 * The real agent as an ordinary child, spoken to through pipes. It is not process 1 here, but a subreaper, and what it starts is locked in all the same.
 *
 * Attacks of docs/attack-catalogue.md: 68 (kill everybody), 94 (stopped processes), 95 and 98 (orphans), 97 (the main thread leaves), 152 (nobody
 * reads), 165 (what a program holds), 208 (what is said in glovebox's name). */
#include "agent/test_peer.h"
#include "base/error.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static bool is_gone(pid_t pid)
{
        return kill(pid, 0) < 0 && errno == ESRCH;
}

/* It may be waited for by its parent. */
static bool is_dead(pid_t pid)
{
        char path[32], text[256] = "";

        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        return fd < 0 || read(fd, text, sizeof(text) - 1) <= 0 || strstr(text, ") Z ") || strstr(text, ") X ");
}

static void assert_ending(const struct wire_end *end, enum ending_kind kind, uint32_t value)
{
        assert_int_equal(end->ending.kind, kind);
        assert_int_equal(end->ending.value, value);
}

static void assert_end(struct peer *a, uint32_t program, enum ending_kind kind, uint32_t value)
{
        struct wire_end end = await_end(a, program);

        assert_ending(&end, kind, value);
}

/* ---- tests ---- */

static void test_hello(void **state)
{
        const struct peer *a = *state;

        assert_int_equal(a->hello.version, WIRE_VERSION);
        assert_int_equal(a->hello.pid, a->pid);
        assert_int_equal(a->hello.uid, geteuid());
        assert_true(a->hello.release[0] != '\0');
        assert_int_equal(a->hello.is_gvisor, 0);
}

static void test_once(void **state)
{
        struct peer *a = *state;

        start(a, 5, (struct order){.run = "echo out; echo err >&2; exit 3"});
        assert_int_equal(next(a), WIRE_STARTED); /* before anything of it */
        struct wire_end end = await_end(a, 5);
        assert_ending(&end, ENDING_EXIT, 3);
        assert_int_equal(end.unkillable, 0);
        assert_string_equal(a->text[WIRE_STDOUT], "out\n");
        assert_string_equal(a->text[WIRE_STDERR], "err\n");
        start(a, 5, (struct order){.run = "kill -TERM $$"});
        end = await_end(a, 5);
        assert_ending(&end, ENDING_SIGNAL, SIGTERM);
}

static void test_code_and_compiler(void **state)
{
        struct peer *a = *state;
        char dir[] = "/tmp/glovebox-test-agent-XXXXXX", path[96], sub[64];
        struct stat st;

        assert_non_null(mkdtemp(dir));
        snprintf(sub, sizeof(sub), "%s/code", dir);
        snprintf(path, sizeof(path), "%s/main", sub);
        for (int i = 0; i < 2; i++) { /* a second one takes the place of the first */
                start(a, 1, (struct order){.path = path, .code = "exit 7", .compile = "exit 0", .run = "exit 1"});
                assert_end(a, 1, ENDING_EXIT, 1);
        }
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0444);
        assert_int_equal(st.st_size, 6);
        unlink(path);
        rmdir(sub);
        rmdir(dir);

        start(a, 1, (struct order){.compile = "echo wrong; exit 2", .run = "echo never"});
        struct wire_end end = await_end(a, 1);
        assert_ending(&end, ENDING_EXIT, 2);
        assert_int_equal(end.compiling, 1);
        assert_string_equal(a->text[WIRE_STDOUT], "wrong\n");
}

static void test_failures(void **state)
{
        struct peer *a = *state;
        char *words[] = {(char *)"no-such-program", NULL};
        gb_error error;

        start(a, 2, (struct order){.words = words});
        assert_int_equal(next(a), WIRE_FAILED);
        memcpy(&error, a->payload, sizeof(error));
        assert_int_equal(error.code, GB_E_NOT_FOUND);
        assert_non_null(strstr(error.message, "no-such-program is not installed in the box"));
        start(a, 2, (struct order){.path = "/proc/none/code", .code = "x", .run = "exit 0"});
        assert_int_equal(next(a), WIRE_FAILED);
        memcpy(&error, a->payload, sizeof(error));
        assert_int_equal(error.code, GB_E_LIMIT);
}

/* 95, 98: in sessions of their own, without a parent. */
static void test_orphans_die(void **state)
{
        struct peer *a = *state;
        int pids[3];

        start(a, 1, (struct order){.run = "(setsid sh -c 'echo $$; exec sleep 1000' &); (setsid sh -c 'echo $$; (sleep 1000 &); exec sleep 1000' &);"
                                          "sleep 1000 & echo $!; read line", .flags = WIRE_PLAN_STDIN});
        while (sscanf(a->text[WIRE_STDOUT], "%d %d %d\n", &pids[0], &pids[1], &pids[2]) < 3)
                next(a);
        put(a, WIRE_DATA, 1, WIRE_STDIN, 0, "x\n", 2);
        assert_end(a, 1, ENDING_EXIT, 0);
        for (int i = 0; i < 3; i++)
                assert_true(is_gone(pids[i]));
}

static bool is_anybody_named(const char *name)
{
        DIR *proc = opendir("/proc");
        bool found = false;

        assert_non_null(proc);
        for (struct dirent *e; (e = readdir(proc)) && !found;) {
                char path[300], comm[32] = "";
                snprintf(path, sizeof(path), "/proc/%s/comm", e->d_name);
                _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
                found = fd >= 0 && read(fd, comm, sizeof(comm) - 1) > 0 && strncmp(comm, name, strlen(name)) == 0;
        }
        closedir(proc);
        return found;
}

/* 95: each is dead as soon as its child lives, so that a list of those who live may hold none of them. One that is faster than its end, on a busy machine,
 * must be said to be unkillable: then the host ends the container. */
static void test_a_chain_of_forks_dies(void **state)
{
        struct peer *a = *state;
        char name[16];
        int clean = 0;

        snprintf(name, sizeof(name), "chain-%d", (int)getpid());
        for (int i = 0; i < 15; i++) {
                start(a, 1, (struct order){.words = (char *[]){helper, (char *)"chain", name, NULL}});
                bool was_clean = await_end(a, 1).unkillable == 0;
                clean += was_clean;
                assert_true(!was_clean || !is_anybody_named(name));
                while (!was_clean && is_anybody_named(name))
                        usleep(10000); /* the agent goes on, and the chain has an end */
        }
        assert_true(clean > 0);
}

/* Told to end before it is executed, most of the time: then it has neither a beginning nor an end. */
static void test_stopped_at_once(void **state)
{
        struct peer *a = *state;

        for (int i = 0; i < 10; i++) {
                start(a, 1, (struct order){.run = "sleep 1000"});
                put(a, WIRE_STOP, 1, 0, 0, NULL, 0);
                uint16_t type = next(a);
                assert_true(type == WIRE_STARTED || type == WIRE_FAILED);
                if (type == WIRE_STARTED)
                        assert_end(a, 1, ENDING_SIGNAL, SIGKILL);
        }
}

/* 97 */
static void test_first_thread_leaves(void **state)
{
        struct peer *a = *state;
        char *words[] = {helper, (char *)"leave", NULL};

        start(a, 1, (struct order){.words = words});
        assert_end(a, 1, ENDING_EXIT, 4);
        assert_string_equal(a->text[WIRE_STDOUT], "later");
}

static void test_signal_and_stop(void **state)
{
        struct peer *a = *state;

        start(a, 1, (struct order){.run = "trap 'echo caught; exit 5' INT; echo ready; sleep 1000 & wait"});
        await(a, WIRE_DATA, 1);
        put(a, WIRE_SIGNAL, 1, 0, SIGINT, NULL, 0);
        await(a, WIRE_SIGNALLED, 1);
        assert_int_equal(a->frame.value, SIGINT);
        assert_end(a, 1, ENDING_EXIT, 5);
        assert_string_equal(a->text[WIRE_STDOUT], "ready\ncaught\n");

        start(a, 1, (struct order){.run = "trap '' INT TERM; (setsid sh -c 'echo $$; kill -STOP $$' &); kill -STOP $$"}); /* 94 */
        await(a, WIRE_DATA, 1);
        put(a, WIRE_STOP, 1, 0, 0, NULL, 0);
        assert_end(a, 1, ENDING_SIGNAL, SIGKILL);
        assert_true(is_gone(atoi(a->text[WIRE_STDOUT])));
        for (int i = 0; i < 30; i++) { /* told to end while it ends: its supervisor's report is heard all the same */
                start(a, 1, (struct order){.run = "sleep 1000 & exec sleep 1000"});
                await(a, WIRE_STARTED, 1);
                put(a, WIRE_STOP, 1, 0, 0, NULL, 0);
                assert_true(await_end(a, 1).wall_usec > 0);
        }
        /* What comes late for it is nothing wrong. */
        put(a, WIRE_STOP, 1, 0, 0, NULL, 0);
        put(a, WIRE_CREDIT, 1, WIRE_STDOUT, 5, NULL, 0);
        put(a, WIRE_LOOK, 0, 0, 12, NULL, 0);
        assert_int_equal(next(a), WIRE_USAGE);
        assert_int_equal(a->frame.value, 12);
}

/* What a program has left running when it ends is counted: the most that there were in the moment that they get. */
static void test_left_running(void **state)
{
        struct peer *a = *state;

        start(a, 1, (struct order){.run = "sleep 1000 & sleep 1000 & (sleep 0.005; sleep 1000 & sleep 1000 & sleep 1000) & exit 0"});
        struct wire_end end = await_end(a, 1);
        assert_ending(&end, ENDING_EXIT, 0);
        assert_in_range(end.tasks_left, 3, 6);
        start(a, 1, (struct order){.run = "sleep 0 & wait; exit 0"});
        assert_int_equal(await_end(a, 1).tasks_left, 0);
}

/* All that programs have started is killed, also what is stopped or in a session of its own. They themselves go on. */
static void test_clear(void **state)
{
        struct peer *a = *state;
        int pids[3];

        put(a, WIRE_CLEAR, 0, 0, 0, NULL, 0);
        assert_int_equal(next(a), WIRE_CLEARED);
        assert_int_equal(a->frame.value, 0);
        start(a, 1, (struct order){.run = "(setsid sh -c 'echo $$; exec sleep 1000' &); sleep 1000 & echo $!; sh -c 'echo $$; kill -STOP $$' & read line; echo $line",
                                   .flags = WIRE_PLAN_STDIN});
        while (sscanf(a->text[WIRE_STDOUT], "%d %d %d\n", &pids[0], &pids[1], &pids[2]) < 3)
                next(a);
        put(a, WIRE_CLEAR, 0, 0, 0, NULL, 0);
        await(a, WIRE_CLEARED, 0);
        assert_int_equal(a->frame.value, 3);
        for (int i = 0; i < 3; i++)
                assert_true(is_dead(pids[i]));
        put(a, WIRE_DATA, 1, WIRE_STDIN, 0, "on\n", 3);
        assert_end(a, 1, ENDING_EXIT, 0);
        assert_non_null(strstr(a->text[WIRE_STDOUT], "on\n"));
}

/* 68, 94: the code is the supervisor's user; here we do to that what the code may do where there is no Landlock. */
static void test_supervisor_attacked(void **state)
{
        struct peer *a = *state;
        int supervisor, orphan;

        for (int i = 0; i < 2; i++) {
                start(a, 3, (struct order){.run = "(setsid sh -c \"echo \\$\\$ $PPID; exec sleep 1000\" &); sleep 1000"});
                while (sscanf(a->text[WIRE_STDOUT], "%d %d\n", &orphan, &supervisor) < 2)
                        next(a);
                assert_int_equal(kill(supervisor, i == 0 ? SIGKILL : SIGSTOP), 0);
                if (i == 1)
                        put(a, WIRE_STOP, 3, 0, 0, NULL, 0);
                struct wire_end end = await_end(a, 3);
                assert_ending(&end, ENDING_SIGNAL, SIGKILL);
                assert_int_equal(end.unkillable, 0);
                assert_true(is_gone(orphan));
        }
}

static void test_stdin(void **state)
{
        struct peer *a = *state;
        char piece[WIRE_DATA_MAX];
        size_t window = WIRE_WINDOW, sent = 0;

        memset(piece, 'x', sizeof(piece));
        start(a, 1, (struct order){.flags = WIRE_PLAN_STDIN, .run = "wc -c"});
        for (int i = 0; i < 64; i++, sent += sizeof(piece)) {
                while (window < sizeof(piece)) {
                        await(a, WIRE_CREDIT, 1);
                        window += a->frame.value;
                }
                put(a, WIRE_DATA, 1, WIRE_STDIN, 0, piece, sizeof(piece));
                window -= sizeof(piece);
        }
        put(a, WIRE_EOF, 1, WIRE_STDIN, 0, NULL, 0);
        assert_end(a, 1, ENDING_EXIT, 0);
        assert_int_equal(atoi(a->text[WIRE_STDOUT]), sent);

        start(a, 1, (struct order){.flags = WIRE_PLAN_STDIN, .run = "exec <&-; echo closed; sleep 1000"});
        await(a, WIRE_SHUT, 1);
        assert_int_equal(a->frame.stream, WIRE_STDIN);
        put(a, WIRE_DATA, 1, WIRE_STDIN, 0, "late", 4);
        put(a, WIRE_STOP, 1, 0, 0, NULL, 0);
        await_end(a, 1);
}

static void test_control(void **state)
{
        struct peer *a = *state;
        char piece[20000] = "o";

        start_echo(a, 1);
        for (int i = 0; i < 100; i++) { /* output that was written before is there before */
                put(a, WIRE_DATA, 1, WIRE_CONTROL, 0, piece, sizeof(piece));
                while (a->sizes[WIRE_CONTROL] < sizeof(piece) * ((size_t)i + 1)) {
                        await(a, WIRE_DATA, 1);
                        if (a->frame.stream != WIRE_CONTROL)
                                continue;
                        assert_true(a->sizes[WIRE_STDOUT] >= a->sizes[WIRE_CONTROL]);
                        assert_true(a->sizes[WIRE_STDERR] >= a->sizes[WIRE_CONTROL]);
                }
        }
        for (int i = 0; i < 30; i++) { /* more pipes than there are numbers */
                memset(a->text, 0, sizeof(a->text));
                memset(a->sizes, 0, sizeof(a->sizes));
                put(a, WIRE_PASS, 1, WIRE_CONTROL, WIRE_PIPE_FIRST + (uint32_t)i % 12, "p", 1);
                put(a, WIRE_DATA, 1, WIRE_PIPE_FIRST + (uint16_t)(i % 12), 0, piece, sizeof(piece));
                put(a, WIRE_EOF, 1, WIRE_PIPE_FIRST + (uint16_t)(i % 12), 0, NULL, 0);
                await(a, WIRE_DATA, 1);
                assert_string_equal(a->text[WIRE_CONTROL], "20000 bytes");
        }
        put(a, WIRE_EOF, 1, WIRE_CONTROL, 0, NULL, 0);
        assert_end(a, 1, ENDING_EXIT, 9);
}

/* 152: what is not read stops at its window, and stops nobody else. Control bytes wait for the output before them. */
static void test_nobody_reads(void **state)
{
        struct peer *a = *state;
        char piece[WIRE_DATA_MAX];

        memset(piece, 'q', sizeof(piece));
        a->silent = true;
        start_echo(a, 1);
        start(a, 2, (struct order){.run = "head -c 3000000 /dev/zero >&2"});
        for (size_t i = 0; i < WIRE_WINDOW / sizeof(piece); i++)
                put(a, WIRE_DATA, 1, WIRE_CONTROL, 0, piece, sizeof(piece));
        while (a->sizes[WIRE_STDOUT] < WIRE_WINDOW || a->sizes[WIRE_STDERR] < WIRE_WINDOW) {
                assert_int_not_equal(next(a), 0);
                assert_true(2 * a->sizes[WIRE_CONTROL] <= a->sizes[WIRE_STDOUT]);
        }
        start(a, 3, (struct order){.run = "echo third"});
        assert_end(a, 3, ENDING_EXIT, 0);
        assert_string_equal(a->text[WIRE_STDOUT], "third\n"); /* and nothing of the others any more */
        assert_int_equal(a->sizes[WIRE_STDERR], 0);
        put(a, WIRE_CREDIT, 1, WIRE_STDOUT, WIRE_WINDOW, NULL, 0);
        put(a, WIRE_SHUT, 2, WIRE_STDERR, 0, NULL, 0);
        await_end(a, 2);
        while (a->sizes[WIRE_STDOUT] < WIRE_WINDOW + 6 || a->sizes[WIRE_CONTROL] == 0)
                await(a, WIRE_DATA, 1);
        put(a, WIRE_STOP, 1, 0, 0, NULL, 0);
        put(a, WIRE_SHUT, 1, WIRE_STDOUT, 0, NULL, 0);
        put(a, WIRE_SHUT, 1, WIRE_CONTROL, 0, NULL, 0);
        await_end(a, 1);
}

/* 165 */
static void test_descriptors(void **state)
{
        struct peer *a = *state;

        start_echo(a, 1);
        start_echo(a, 2);
        start(a, 3, (struct order){.run = "ls /proc/self/fd; grep -E 'Seccomp:|NoNewPrivs:|SigIgn|SigBlk' /proc/self/status"});
        assert_end(a, 3, ENDING_EXIT, 0);
        assert_string_equal(a->text[WIRE_STDOUT],
                            "0\n1\n2\n3\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n");
}

static void expect_end(struct peer *a, pid_t child)
{
        while (next(a) != 0)
                ;
        for (int i = 0; !is_gone(child) && i < 1000; i++)
                usleep(10000);
        assert_true(is_gone(child));
}

static void test_wrong_frames(void **state)
{
        static const struct wire_frame wrong[] = {
                {.type = 0}, {.type = WIRE_HELLO, .program = 1}, {.type = 99, .program = 1},
                {.type = WIRE_START, .program = 2}, {.type = WIRE_START, .program = 1}, {.type = WIRE_STOP, .program = 0},
                {.type = WIRE_STOP, .program = WIRE_PROGRAMS_MAX + 1}, {.type = WIRE_PLAN, .program = 1, .size = 4},
                {.type = WIRE_STOP, .program = 1, .size = 4}, {.type = WIRE_DATA, .program = 1, .stream = WIRE_STDIN, .size = 4},
                {.type = WIRE_DATA, .program = 1, .stream = WIRE_PIPE_FIRST, .size = 4}, {.type = WIRE_DATA, .program = 1, .stream = 16, .size = 4},
                {.type = WIRE_CREDIT, .program = 1, .stream = WIRE_STDOUT, .value = WIRE_WINDOW}, {.type = WIRE_SIGNAL, .program = 1, .value = 65},
                {.type = WIRE_PASS, .program = 1, .stream = WIRE_CONTROL, .value = WIRE_CONTROL, .size = 4},
                {.type = WIRE_STOP, .program = 1, .size = WIRE_DATA_MAX + 1}, {.type = WIRE_SHUT, .program = 1, .stream = WIRE_STDIN},
        };

        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                struct peer *a = *state;
                start(a, 1, (struct order){.flags = WIRE_PLAN_CONTEXT, .run = "echo $$; sleep 1000"});
                await(a, WIRE_DATA, 1);
                assert_int_equal(fd_write_all(a->in, &wrong[i], sizeof(wrong[i])), 0);
                (void)fd_write_all(a->in, "data", MIN(wrong[i].size, 4U));
                expect_end(a, atoi(a->text[WIRE_STDOUT]));
                assert_int_equal(teardown(state), 0);
                assert_int_equal(setup(state), 0);
        }
}

static void put_keys(struct peer *a)
{
        a->keys = (struct wire_keys){{11, 12}, {13, 14}};
        put(a, WIRE_KEY, 0, 0, 0, &a->keys, sizeof(a->keys));
        a->has_keys = true;
}

/* 208: with keys only what has the right tag is done; anything else ends the agent, and all that it has started. */
static void test_tags(void **state)
{
        enum { NO_TAG, ONE_BIT, KEY_OF_THE_AGENT, TAG_OF_BEFORE, TAG_OF_ANOTHER, ROWS };
        const struct wire_frame stop = {.type = WIRE_STOP, .program = 1}, another = {.type = WIRE_STOP, .program = 2};

        for (int row = 0; row < ROWS; row++) {
                struct peer *a = *state;
                put_keys(a);
                start(a, 1, (struct order){.run = "echo $$; exec sleep 1000"});
                await(a, WIRE_DATA, 1);
                pid_t child = atoi(a->text[WIRE_STDOUT]);
                start(a, 2, (struct order){.run = "exec sleep 1000"});
                await(a, WIRE_STARTED, 2);
                put(a, WIRE_STOP, 2, 0, 0, NULL, 0); /* one with its tag */
                assert_end(a, 2, ENDING_SIGNAL, SIGKILL);

                struct wire_frame wrong = stop;
                const uint64_t good = wire_tag(a->keys.to_agent, a->n_put, &stop, NULL);
                const uint64_t tags[ROWS] = {0, good ^ 1, wire_tag(a->keys.from_agent, a->n_put, &stop, NULL),
                                             wire_tag(a->keys.to_agent, a->n_put - 1, &stop, NULL), wire_tag(a->keys.to_agent, a->n_put, &another, NULL)};
                wrong.tag = tags[row];
                assert_int_equal(fd_write_all(a->in, &wrong, sizeof(wrong)), 0);
                for (uint16_t type; (type = next(a)) != 0;)
                        assert_int_not_equal(type, WIRE_ENDED); /* it was not done */
                expect_end(a, child);
                assert_int_equal(teardown(state), 0);
                assert_int_equal(setup(state), 0);
        }
}

/* Keys come before all others, and once. */
static void test_keys_too_late(void **state)
{
        struct peer *a = *state;

        put_keys(a);
        put(a, WIRE_LOOK, 0, 0, 12, NULL, 0);
        assert_int_equal(next(a), WIRE_USAGE);
        put(a, WIRE_KEY, 0, 0, 0, &a->keys, sizeof(a->keys)); /* with its tag */
        assert_int_equal(next(a), 0);
        assert_int_equal(teardown(state), 0);
        assert_int_equal(setup(state), 0);
        a = *state;
        put(a, WIRE_LOOK, 0, 0, 12, NULL, 0);
        assert_int_equal(next(a), WIRE_USAGE);
        put_keys(a);
        a->has_keys = false;
        assert_int_equal(next(a), 0);
}

/* More than the window, and a plan that is none. */
static void test_wrong_sizes(void **state)
{
        struct peer *a = *state;
        char piece[WIRE_DATA_MAX] = {0};

        start(a, 1, (struct order){.flags = WIRE_PLAN_STDIN, .run = "echo $$; exec sleep 1000"});
        await(a, WIRE_DATA, 1);
        for (size_t i = 0; i <= WIRE_WINDOW / sizeof(piece) + 2; i++) /* the pipe takes two, which come back as credit */
                put(a, WIRE_DATA, 1, WIRE_STDIN, 0, piece, sizeof(piece));
        expect_end(a, atoi(a->text[WIRE_STDOUT]));
        assert_int_equal(teardown(state), 0);
        assert_int_equal(setup(state), 0);
        a = *state;
        put(a, WIRE_PLAN, 1, 0, 0, piece, 60);
        put(a, WIRE_START, 1, 0, 0, NULL, 0);
        assert_int_equal(next(a), 0);
}

static void test_end_of_input(void **state)
{
        struct peer *a = *state;

        start(a, 1, (struct order){.run = "(setsid sleep 1000 & echo $!); exec sleep 1000"});
        await(a, WIRE_DATA, 1);
        a->in = safe_close(a->in);
        expect_end(a, atoi(a->text[WIRE_STDOUT]));
}

int main(void)
{
        signal(SIGPIPE, SIG_IGN);
        const struct CMUnitTest tests[] = {
                TEST(test_hello), TEST(test_once), TEST(test_code_and_compiler), TEST(test_failures), TEST(test_orphans_die), TEST(test_left_running), TEST(test_clear), TEST(test_a_chain_of_forks_dies), TEST(test_stopped_at_once),
                TEST(test_first_thread_leaves), TEST(test_signal_and_stop), TEST(test_supervisor_attacked), TEST(test_stdin), TEST(test_control),
                TEST(test_nobody_reads), TEST(test_descriptors), TEST(test_wrong_frames), TEST(test_tags), TEST(test_keys_too_late), TEST(test_wrong_sizes),
                TEST(test_end_of_input),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
