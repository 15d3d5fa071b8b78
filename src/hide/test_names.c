/* SPDX-License-Identifier: Apache-2.0
 *
 * What is hidden by its name, and what by its content. */
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

static void test_keys(void **state)
{
        static const char certificate[] = "-----BEGIN CERTIFICATE-----\nMII\n", key[] = "x\n-----BEGIN EC PRIVATE KEY-----\nMII\n";

        assert_false(hide_is_key(certificate, sizeof(certificate), true));
        assert_true(hide_is_key(key, sizeof(key), false));
        assert_true(hide_is_key("\x30\x82", 2, true)); /* perhaps one without its armour */
        assert_false(hide_is_key("\x30\x82", 2, false));
        assert_true(hide_is_key("", 0, true));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_kinds_of_patterns), cmocka_unit_test(test_what_is_shown_all_the_same), cmocka_unit_test(test_names_that_cannot_be_judged),
                cmocka_unit_test(test_lists_that_are_none), cmocka_unit_test(test_keys),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
