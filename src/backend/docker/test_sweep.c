/* SPDX-License-Identifier: Apache-2.0
 *
 * Which containers of a played engine a sweep takes: catalogue 205. */
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

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_is_left_and_nothing_else),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
