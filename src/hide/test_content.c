/* SPDX-License-Identifier: Apache-2.0
 *
 * Files with a name of keys: what is hidden for its content. */
#include "hide/content.h"

#include "base/macro.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define CERTIFICATE "-----BEGIN CERTIFICATE-----\nMII\n"
#define KEY "-----BEGIN EC PRIVATE KEY-----\nMII\n"
#define TEXT(text) text, sizeof(text) - 1

static void test_contents(void **state)
{
        static const struct {
                const char *name, *bytes;
                size_t size;
                bool is_hidden;
        } rows[] = {
                {"a.pem", TEXT(CERTIFICATE), false}, {"a.crt", TEXT("x\n" KEY), true}, {"a.pem", TEXT(CERTIFICATE KEY), true},
                {"a.pem", TEXT("\x30\x82"), true}, {"a.PEM~", TEXT("\x30\x82"), true}, {"a.crt", TEXT("\x30\x82"), false}, {"a.pem", TEXT(""), true},
                {"deploy_key", TEXT(KEY), true}, {"sort_key", TEXT("anything"), false},
                /* Text of several lines is shown, what may be a key is not. */
                {"en.key", TEXT("hello = Hello, world\nbye = Good bye\n"), false}, {"a.key", TEXT("x y\n" KEY), true}, {"a.key", TEXT("content"), true},
                {"a.key", TEXT("correct horse battery\n\n"), true}, {"a.key", TEXT("\x30\x82\0x\nx\n"), true}, {"a.key", TEXT("\xff\xfe\nx\n"), true}, {"a.key", TEXT(""), true},
                {"rndc.key", TEXT("key \"rndc\" {\n secret \"a3N2Y2hpZ2hlcg1kZGRkZA==\";\n};\n"), true}, {"a.key", TEXT("first\n0123456789abcdef0123456789abcdef\n"), true},
                {"a.key", TEXT("one = A_LONG_NAME_OF_SOMETHING_ELSE\ntwo = 2\n"), false},
                /* Translations are no tokens. */
                {"auth.json", TEXT("{\"login\": \"Log in\", \"password\": \"Password\"}"), false}, {"auth.json", TEXT("{\"http-basic\": {\"a\": {}}}"), true},
                {"auth.json.bak", TEXT("{\"github-oauth\": {\"github.com\": \"x\"}}"), true}, {"auth.json", TEXT("{\"access_token\": \"x\"}"), true},
                {"config", TEXT("[remote \"origin\"]\n\turl = https://github.com/a/b.git\n\turl = ssh://git@github.com/a\n"), false},
                {"config", TEXT("\turl = https://user@dev.azure.com/a\n"), false}, {"config", TEXT("\turl = https://a:secret@github.com/a\n"), true},
                {"config", TEXT("\turl = https://ghp_0123456789abcdefghij@github.com/a\n"), true}, {"config", TEXT("\textraheader = AUTHORIZATION: basic eDp5\n"), true},
                {"config", TEXT("\turl = https://host/a:b@c\n"), false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (hide_is_key(hide_content_of(rows[i].name), rows[i].bytes, rows[i].size, true) != rows[i].is_hidden)
                        fail_msg("row %zu: %s", i, rows[i].name);
}

static void test_the_beginning_decides_only_what_is_certain(void **state)
{
        assert_true(hide_is_key(HIDE_CONTENT_PEM, TEXT("\0\0\0\0"), false));
        assert_true(hide_is_key(HIDE_CONTENT_KEY, TEXT("\0\0\0\0"), false));
        assert_true(hide_is_key(HIDE_CONTENT_ANY, TEXT(KEY), false));
        assert_false(hide_is_key(HIDE_CONTENT_PEM, TEXT(CERTIFICATE), false));
        assert_false(hide_is_key(HIDE_CONTENT_KEY, TEXT("one line, cut within \xc3"), false));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_contents), cmocka_unit_test(test_the_beginning_decides_only_what_is_certain),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
