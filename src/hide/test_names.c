/* SPDX-License-Identifier: Apache-2.0
 *
 * What is hidden by its name. */
#include "hide/names.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static enum hide_verdict judge(const char *patterns, const char *parent, const char *name)
{
        struct hide_names n;

        assert_int_equal(hide_names_parse(&n, patterns, strlen(patterns)), 0);
        enum hide_verdict v = hide_names_judge(&n, parent, name);
        hide_names_done(&n);
        return v;
}

static void test_kinds_of_patterns(void **state)
{
        static const struct {
                const char *pattern, *parent, *name;
                bool hides;
        } rows[] = {
                {"h.env", "", ".env", true},           {"h.env", "", ".env2", false},          {"h.env", "", "x.env", false},
                {"h.env", ".env", "x", false},         {"h*.key", "", "a.key", true},          {"h*.key", "", ".key", true},
                {"h*.key", "", "key", false},          {"h*.key", "", "a.keys", false},        {"hid_rsa*", "", "id_rsa", true},
                {"hid_rsa*", "", "id_rsa.old", true},  {"hid_rsa*", "", "grid_rsa", false},    {"ha*b*c", "", "aXbYc", true},
                {"ha*b*c", "", "aXbY", false},         {"hx[_-]y", "", "x-y", true},           {"hx[_-]y", "", "x.y", false},
                {"hx?y", "", "xzy", true},             {"hgh/hosts.yml", "gh", "hosts.yml", true}, {"hgh/hosts.yml", "", "hosts.yml", false},
                {"hgh/hosts.yml", "xgh", "hosts.yml", false}, {"h.env", "", ".ENV", true},     {"h*.KEY", "", "a.Key", true},
                {"hgh/hosts.yml", "GH", "Hosts.yml", true}, {"h*", "", "anything", true},      {"", "", ".env", false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if ((judge(rows[i].pattern, rows[i].parent, rows[i].name) == HIDE_ALWAYS) != rows[i].hides)
                        fail_msg("%s of %s/%s", rows[i].pattern, rows[i].parent, rows[i].name);
}

static void test_what_is_shown_all_the_same(void **state)
{
        static const char all[] = "h.env.*\ns.env.example\nk*.pem\nhserver.pem\n";

        assert_int_equal(judge(all, "", ".env.local"), HIDE_ALWAYS);
        assert_int_equal(judge(all, "", ".env.example"), HIDE_NOTHING);
        assert_int_equal(judge(all, "", "a.pem"), HIDE_IF_KEY);
        assert_int_equal(judge(all, "", "server.pem"), HIDE_ALWAYS);
        assert_int_equal(judge(all, "", "example"), HIDE_NOTHING);
}

static void test_names_that_cannot_be_judged(void **state)
{
        char name[1024];

        memset(name, 'a', sizeof(name));
        name[sizeof(name) - 1] = '\0';
        assert_int_equal(judge("h.env", "", name), HIDE_ALWAYS);
        assert_int_equal(judge("h.env", name, "b"), HIDE_ALWAYS);
}

static void test_lists_that_are_none(void **state)
{
        static char many[2 * 5000];
        struct hide_names n;

        for (size_t i = 0; i < sizeof(many); i += 2)
                memcpy(many + i, "h\n", 2);
        assert_int_equal(hide_names_parse(&n, many, sizeof(many)), -EINVAL);
        assert_int_equal(hide_names_parse(&n, "ha\0b", 4), -EINVAL);
}

/* A copy that an editor or a tool has made is judged as the file is. */
static void test_copies(void **state)
{
        static const char all[] = "h.env\nhid_rsa\nh.netrc\nh.claude/.credentials.json\nk*.key\nk*.pem\n";
        static const struct {
                const char *parent, *name;
                enum hide_verdict verdict;
        } rows[] = {
                {"", ".env~", HIDE_ALWAYS}, {"", "..env.swp", HIDE_ALWAYS}, {"", ".env.swp", HIDE_ALWAYS}, {"", ".id_rsa.swo", HIDE_ALWAYS}, {"", "#.env#", HIDE_ALWAYS},
                {"", ".#.netrc", HIDE_ALWAYS}, {"", ".netrc.bak", HIDE_ALWAYS}, {"", ".NETRC.BAK", HIDE_ALWAYS}, {"", "id_rsa.old", HIDE_ALWAYS}, {"", "id_rsa.orig~", HIDE_ALWAYS},
                {".claude", ".credentials.json.tmp", HIDE_ALWAYS}, {".claude", ".credentials.json.tmp.41.1a2b", HIDE_ALWAYS}, {"x", ".credentials.json.tmp", HIDE_NOTHING},
                {"", "server.key~", HIDE_IF_KEY}, {"", ".server.key.swp", HIDE_IF_KEY}, {"", "ca.pem.backup", HIDE_IF_KEY}, {"", "main.py~", HIDE_NOTHING},
                {"", ".main.py.swp", HIDE_NOTHING}, {"", "~", HIDE_NOTHING}, {"", "##", HIDE_NOTHING}, {"", ".#", HIDE_NOTHING}, {"", ".bak", HIDE_NOTHING}, {"", ".swp", HIDE_NOTHING},
                {"", ".tmp.env", HIDE_NOTHING}, {"", "x.tmp.y", HIDE_NOTHING}, {"", "id_rsa.swp", HIDE_NOTHING}, {"", "id_rsa.bak.old.tmp", HIDE_NOTHING},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (judge(all, rows[i].parent, rows[i].name) != rows[i].verdict)
                        fail_msg("%s/%s", rows[i].parent, rows[i].name);
}

/* A pattern does not show what is hidden by its name in full. */
static void test_which_of_two_counts(void **state)
{
        static const char all[] = "hsecrets.*\nh.mongorc.js\ns*.js\nhx.js\nsx.js\n";

        assert_int_equal(judge(all, "", "secrets.js"), HIDE_NOTHING);
        assert_int_equal(judge(all, "", "secrets.json"), HIDE_ALWAYS);
        assert_int_equal(judge(all, "", ".mongorc.js"), HIDE_ALWAYS);
        assert_int_equal(judge(all, "", "x.js"), HIDE_NOTHING);
}

static void test_paths(void **state)
{
        static const char all[] = "h*.env\nh.aws\nhgh/hosts.yml\nk*.pem\n";
        static const struct {
                const char *path;
                enum hide_verdict verdict;
        } rows[] = {
                {"/", HIDE_NOTHING}, {"", HIDE_NOTHING}, {"/a/b", HIDE_NOTHING}, {"/.aws/x/y", HIDE_ALWAYS}, {"/a/gh/hosts.yml", HIDE_ALWAYS}, {"a//gh//hosts.yml", HIDE_ALWAYS},
                {"/a/x.pem", HIDE_IF_KEY}, {"/x.pem/a", HIDE_NOTHING},
                /* Branches. */
                {"/p/.git/refs/heads/prod.env", HIDE_NOTHING}, {"/p/.git/logs/refs/heads/a/prod.env", HIDE_NOTHING}, {"/.git/modules/a/refs/heads/prod.env", HIDE_NOTHING},
                {"/.git/worktrees/a/logs/prod.env", HIDE_NOTHING}, {"/.git/prod.env", HIDE_ALWAYS}, {"/.git/hooks/refs/prod.env", HIDE_ALWAYS}, {"/refs/prod.env", HIDE_ALWAYS},
                {"/x.git/refs/prod.env", HIDE_ALWAYS},
        };
        struct hide_names n;

        assert_int_equal(hide_names_parse(&n, all, strlen(all)), 0);
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct hide_walk walk = {0};
                if (hide_walk_path(&n, &walk, rows[i].path) != rows[i].verdict)
                        fail_msg("%s", rows[i].path);
        }
        hide_names_done(&n);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_kinds_of_patterns), cmocka_unit_test(test_what_is_shown_all_the_same), cmocka_unit_test(test_names_that_cannot_be_judged),
                cmocka_unit_test(test_lists_that_are_none), cmocka_unit_test(test_copies), cmocka_unit_test(test_which_of_two_counts),
                cmocka_unit_test(test_paths),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
