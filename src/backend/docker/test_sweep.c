/* SPDX-License-Identifier: Apache-2.0
 *
 * Which containers of a played engine a sweep takes (catalogue 205), and the state of one. */
#include "backend/docker/plan.h"
#include "backend/docker/test_player.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct taken {
        char ids[64]; /* the first digit of each */
        size_t n;
};

static void note(void *data, const char *kind, const char *name)
{
        struct taken *t = data;

        assert_string_equal(kind, "container");
        assert_true(t->n < sizeof(t->ids) - 1);
        t->ids[t->n++] = name[0];
}

static void add(char *list, size_t size, char id, const char *owner, const char *session, const char *name)
{
        size_t n = strlen(list);

        snprintf(list + n, size - n, "%s{\"Id\":\"%c0\",\"Names\":[\"/%s\"],\"Labels\":{\"" LABEL_OWNER "\":\"%s\",\"" LABEL_SESSION "\":\"%s\"}}",
                 list[n - 1] == '[' ? "" : ",", id, name, owner, session);
}

/* What this process would be if it had been another one. */
static void owner_with(char ret[static CONTAINER_OWNER_MAX], const char *self, int pid, const char *start)
{
        size_t colons = 0, n = 0;

        while (colons < 2)
                colons += self[n++] == ':';
        snprintf(ret, CONTAINER_OWNER_MAX, "%.*s%d:%s", (int)n, self, pid, start);
}

static void test_what_is_left_and_nothing_else(void **state)
{
        static char list[8192] = PLAYER_JSON("[");
        char self[CONTAINER_OWNER_MAX], dead[CONTAINER_OWNER_MAX], again[CONTAINER_OWNER_MAX], init[CONTAINER_OWNER_MAX];
        struct container used = {0}, given_up = {0};
        struct taken taken = {0};
        struct backend_sweep sweep = {.only_look = true, .found = note, .data = &taken};
        struct engine engine;
        struct player p;

        pid_t pid = fork();
        if (pid == 0)
                _exit(0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_int_equal(owner_self(self), 0);
        owner_with(dead, self, (int)pid, "17");
        owner_with(again, self, (int)getpid(), "17"); /* its number is another's now */
        owner_with(init, self, 1, "x");
        assert_int_equal(container_use(&used, "s-used"), 0);
        assert_int_equal(container_use(&given_up, "s-given-up"), 0);
        container_give_up(&given_up);
        container_give_up(&given_up);
        add(list, sizeof(list), '1', self, "s-used", "glovebox-s-used");
        add(list, sizeof(list), '2', self, "s-given-up", "glovebox-s-given-up");
        add(list, sizeof(list), '3', dead, "s-dead", "glovebox-s-dead");
        add(list, sizeof(list), '4', again, "s-again", "glovebox-s-again");
        add(list, sizeof(list), '5', dead, "s-dead", "somebody-elses");
        add(list, sizeof(list), '6', init, "s-init", "glovebox-s-init");
        add(list, sizeof(list), '7', "another-boot:1:2:3", "s-far", "glovebox-s-far");
        strcat(list, "]");
        const struct player_answer answers[] = {player_docker[0], player_docker[1], {NULL, list, 0, PLAYER_CLOSE}};
        player_start(&p, answers);
        assert_int_equal(engine_open(&engine, NULL), 0);
        assert_int_equal(container_sweep(&engine, &sweep, NULL), 0);
        assert_string_equal(taken.ids, "234");

        container_give_up(&used);
        taken = (struct taken){0};
        assert_int_equal(container_sweep(&engine, &sweep, NULL), 0);
        assert_string_equal(taken.ids, "1234");
        player_stop(&p);
}

static void play(struct player *p, struct engine *e, struct player_answer answers[static 3], const char *answer)
{
        answers[0] = player_docker[0];
        answers[1] = player_docker[1];
        answers[2] = (struct player_answer){NULL, answer, 0, PLAYER_CLOSE};
        player_start(p, answers);
        assert_int_equal(engine_open(e, NULL), 0);
}

/* Such an answer does not say that no container is left. */
static void test_no_list_is_not_an_empty_one(void **state)
{
        static const char *const rows[] = {PLAYER_JSON("{}"), PLAYER_JSON("null"), PLAYER_JSON("{\"message\":\"x\"}")};
        struct backend_sweep sweep = {.only_look = true};

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct player_answer answers[3];
                struct engine engine;
                struct player p;
                gb_error err = {0};
                play(&p, &engine, answers, rows[i]);
                assert_true(container_sweep(&engine, &sweep, &err) < 0);
                assert_non_null(strstr(err.message, "no list"));
                player_stop(&p);
        }
}

static struct container_stats stats_of(const char *answer)
{
        struct container c = {.id = "ab"};
        struct container_stats stats = {.pids = 99};
        struct player_answer answers[3];
        struct engine engine;
        struct player p;

        play(&p, &engine, answers, answer);
        assert_int_equal(container_stats(&engine, &c, &stats, NULL), 0);
        player_stop(&p);
        return stats;
}

#define SAMPLED "\"read\":\"2026-01-01T00:00:00Z\","

static void test_numbers_that_are_not_in_the_answer_are_not_known(void **state)
{
        struct container_stats s = stats_of(PLAYER_JSON(
                "{" SAMPLED "\"cpu_stats\":{\"cpu_usage\":{\"total_usage\":5000}},"
                "\"memory_stats\":{\"usage\":100,\"max_usage\":300,\"stats\":{\"inactive_file\":40}},"
                "\"pids_stats\":{\"current\":2},\"blkio_stats\":{\"io_service_bytes_recursive\":"
                "[{\"op\":\"read\",\"value\":7},{\"op\":\"Write\",\"value\":8}]}}"));
        assert_true(s.cpu_known && s.memory_known && s.pids_known && s.io_known);
        assert_int_equal(s.cpu_usec, 5);
        assert_int_equal(s.memory_bytes, 60);
        assert_true(s.memory_peak_known);
        assert_int_equal(s.memory_peak_bytes, 300);
        assert_int_equal(s.pids, 2);
        assert_int_equal(s.io_read_bytes, 7);
        assert_int_equal(s.io_write_bytes, 8);

        s = stats_of(PLAYER_JSON("{" SAMPLED "\"cpu_stats\":{\"cpu_usage\":{\"total_usage\":-5}},"
                                 "\"memory_stats\":{\"usage\":100},\"pids_stats\":{},"
                                 "\"blkio_stats\":{\"io_service_bytes_recursive\":null}}"));
        assert_true(!s.cpu_known && s.memory_known && !s.pids_known && !s.io_known);
        assert_false(s.memory_peak_known);
        assert_int_equal(s.pids, 0);

        s = stats_of(PLAYER_JSON("{" SAMPLED "\"cpu_stats\":null,\"memory_stats\":{\"usage\":18446744073709551615}}"));
        assert_true(!s.cpu_known && !s.memory_known && !s.pids_known && !s.io_known);
}

/* As Docker 20.10 answers for one that has just stopped. */
static void test_a_container_that_has_stopped_has_no_numbers(void **state)
{
        struct container_stats s = stats_of(PLAYER_JSON(
                "{\"read\":\"0001-01-01T00:00:00Z\",\"preread\":\"0001-01-01T00:00:00Z\",\"pids_stats\":{},"
                "\"blkio_stats\":{\"io_service_bytes_recursive\":null},"
                "\"cpu_stats\":{\"cpu_usage\":{\"total_usage\":0}},\"memory_stats\":{}}"));
        assert_true(!s.cpu_known && !s.memory_known && !s.pids_known && !s.io_known);
}

static void test_what_an_engine_says_of_an_end(void **state)
{
        static const struct {
                const char *answer;
                int r;
                struct container_end end;
        } rows[] = {
                {PLAYER_JSON("{\"State\":{\"Running\":true,\"ExitCode\":0}}"), 0, {true, false, -1}},
                {PLAYER_JSON("{\"State\":{\"Running\":false,\"ExitCode\":137,\"OOMKilled\":true}}"), 0,
                 {false, true, 137}},
                {PLAYER_JSON("{\"State\":{\"Running\":false}}"), 0, {false, false, -1}},
                {PLAYER_JSON("{\"State\":{\"ExitCode\":0}}"), -1, {0}},
                {PLAYER_JSON("{}"), -1, {0}},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct container c = {.id = "ab"};
                struct container_end end = {0};
                struct player_answer answers[3];
                struct engine engine;
                struct player p;
                play(&p, &engine, answers, rows[i].answer);
                assert_int_equal(container_ended(&engine, &c, &end, NULL) < 0, rows[i].r < 0);
                if (rows[i].r == 0) {
                        assert_int_equal(end.running, rows[i].end.running);
                        assert_int_equal(end.oom, rows[i].end.oom);
                        assert_int_equal(end.exit_code, rows[i].end.exit_code);
                }
                player_stop(&p);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_is_left_and_nothing_else),
                cmocka_unit_test(test_no_list_is_not_an_empty_one),
                cmocka_unit_test(test_numbers_that_are_not_in_the_answer_are_not_known),
                cmocka_unit_test(test_a_container_that_has_stopped_has_no_numbers),
                cmocka_unit_test(test_what_an_engine_says_of_an_end),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
