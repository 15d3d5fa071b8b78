/* SPDX-License-Identifier: Apache-2.0
 *
 * What is made of what rules find: places, actions, switches, and the list of modules that a policy has instead of the shipped one. */
#include "guard/code.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct rules *rules;
static struct guard_findings found;

static void check(const struct guard_settings *s, const char *language, const char *code)
{
        gb_error err = {0};

        if (guard_check(rules, s, language, code, strlen(code), &found, &err) < 0)
                fail_msg("%s", err.message);
}

static const struct guard_finding *find(const char *rule)
{
        for (size_t i = 0; i < found.n; i++)
                if (strcmp(found.rows[i].rule, rule) == 0)
                        return &found.rows[i];
        return NULL;
}

static const struct guard_settings on = {.mode = GUARD_MODE_ON};

static void test_places(void **state)
{
        static const struct {
                const char *language, *code, *rule;
                uint32_t line, column;
        } rows[] = {
                {"python", "x = 1\ny = open('/etc/shadow')", "shadow-file", 2, 10},
                {"python", "x = 1\n\n  open('/etc/' +\n  'shadow')", "shadow-file", 3, 8},
                {"python", "import json\nfrom selenium import webdriver", "browser-automation", 2, 6},
                {"python", "import os\nos.chroot('x')", "chroot-call", 2, 1},
                {"python", "a = 'b'\nexec('import os; open(\"/etc/shadow\")')", "shadow-file", 2, 6},
                {"bash", "ls\n  cat /etc/shadow\n", "shadow-file", 2, 7},
                {"node", "let x = 1;\nrequire('puppeteer');\n", "browser-automation-node", 2, 1},
                {"python", "s = socket.socket()\nos.dup2(s.fileno(), 0)\n", "reverse-shell-python", 1, 5},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                check(&on, rows[i].language, rows[i].code);
                const struct guard_finding *f = find(rows[i].rule);
                if (!f || f->line != rows[i].line || f->column != rows[i].column)
                        fail_msg("%s\n%s is at %u:%u, not at %u:%u", rows[i].code, rows[i].rule, f ? f->line : 0, f ? f->column : 0, rows[i].line, rows[i].column);
                assert_true(strlen(f->message) > 0 && strlen(f->remedy) > 0);
        }
}

/* Pieces are scanned together: more of them than fit at once, a very long one, and nothing that spans two. */
static void test_batches(void **state)
{
        size_t size = 200000, n = 0;
        _cleanup_free_ char *code = malloc(size + 100);

        assert_non_null(code);
        for (int i = 0; i < 3000; i++)
                n += (size_t)snprintf(code + n, size - n, "x%d = 'a'\n", i % 10);
        n += (size_t)snprintf(code + n, size - n, "open('/etc/shadow')\n");
        for (int i = 0; i < 10; i++)
                n += (size_t)snprintf(code + n, size - n, "y = 'b'\n");
        check(&on, "python", code);
        assert_int_equal(found.n, 1);
        assert_int_equal(found.rows[0].line, 3001);

        memset(code, 'a', 100000);
        memcpy(code, "x = 1\nx = '", 11);
        strcpy(code + 100000, " /etc/shadow'\nf('z')\nopen('/dev/mem')");
        check(&on, "python", code);
        assert_int_equal(find("shadow-file")->line, 2);
        assert_int_equal(find("memory-device")->line, 3 + 1);

        check(&on, "python", "f('/etc/', 'shadow')\nx = ['nsenter ', ' -t 1', 'mount', '/dev/sdb']\n");
        assert_null(find("shadow-file"));
        assert_null(find("namespace-command"));
        assert_null(find("mount-command"));
}

static void test_modes(void **state)
{
        static const struct guard_settings strict = {.mode = GUARD_MODE_STRICT}, off = {.mode = GUARD_MODE_OFF};

        check(&on, "python", "open('.env'); print(__import__('os').environ)");
        assert_int_equal(find("dotenv-file")->action, GUARD_WARN);
        assert_int_equal(find("environment-dump")->action, GUARD_LOG);
        assert_null(guard_blocks(&found));
        check(&strict, "python", "open('.env'); print(__import__('os').environ)");
        assert_string_equal(guard_blocks(&found)->rule, "dotenv-file");
        assert_int_equal(find("environment-dump")->action, GUARD_LOG);
        check(&off, "python", "open('/etc/shadow')");
        assert_int_equal(found.n, 0);
}

/* The strongest comes first; a rule is told once for a line. */
static void test_order(void **state)
{
        check(&on, "python", "import webbrowser\nopen('.env')\nopen('/etc/shadow'), open('/etc/shadow')\nopen('/etc/gshadow')");
        assert_int_equal(found.n, 4);
        assert_int_equal(found.rows[0].line, 3);
        assert_int_equal(found.rows[1].line, 4);
        assert_int_equal(found.rows[2].action, GUARD_WARN);
        assert_int_equal(found.rows[3].action, GUARD_LOG);
}

static void test_switches(void **state)
{
        static const struct guard_switch switches[] = {{"credential-files", GUARD_OFF}, {"shadow-file", GUARD_LOG}, {"browser-automation-hint", GUARD_BLOCK}};
        static const struct guard_settings s = {.mode = GUARD_MODE_ON, .switches = switches, .n_switches = 3};

        check(&s, "python", "import webbrowser\nopen('/etc/shadow'); open('.env')");
        assert_int_equal(found.n, 2);
        assert_string_equal(guard_blocks(&found)->rule, "browser-automation-hint");
        assert_int_equal(find("shadow-file")->action, GUARD_LOG);
}

static void test_imports(void **state)
{
        static const char *const own[] = {"pandas", "torch.distributed", NULL}, *const none[] = {NULL};
        static const struct guard_settings s = {.mode = GUARD_MODE_ON, .imports = own}, empty = {.mode = GUARD_MODE_ON, .imports = none};

        check(&s, "python", "import selenium, pandas_extra, torch, torch.distributed_x");
        assert_null(find(GUARD_IMPORTS_RULE));
        check(&s, "python", "import pandas as pd");
        assert_non_null(find(GUARD_IMPORTS_RULE));
        check(&s, "python", "from pandas.core import frame");
        assert_non_null(find(GUARD_IMPORTS_RULE));
        check(&s, "python", "from torch import distributed");
        assert_non_null(find(GUARD_IMPORTS_RULE));
        check(&s, "python", "import importlib as i; i.import_module('torch.' + 'distributed.rpc')");
        assert_non_null(find(GUARD_IMPORTS_RULE));
        check(&empty, "python", "import selenium, pandas");
        assert_null(find(GUARD_IMPORTS_RULE));
        check(&empty, "python", "import webbrowser"); /* of other rules nothing changes */
        assert_non_null(find("browser-automation-hint"));
        check(&on, "python", "import selenium");
        assert_non_null(find(GUARD_IMPORTS_RULE));
}

/* What cannot be read to its end is said, and what is written in it is found all the same. */
static void test_unreadable(void **state)
{
        enum { DEPTH = 400 };
        char code[4 * DEPTH + 100];
        size_t n = (size_t)snprintf(code, sizeof(code), "x = '/etc/shadow'\ny = ");

        memset(code + n, '(', DEPTH);
        code[n + DEPTH] = '\0';
        check(&on, "python", code);
        assert_int_equal(find(GUARD_UNREADABLE_RULE)->action, GUARD_WARN);
        assert_string_equal(guard_blocks(&found)->rule, "shadow-file");
}

static void test_secrets(void **state)
{
        static const struct scrub_secret secret = {"TOKEN", "correct-horse-battery", 21};
        struct guard_settings s = {.mode = GUARD_MODE_OFF};
        struct scrub *scrub = NULL;
        gb_error err = {0};

        assert_int_equal(scrub_new(rules, SCRUB_ON, &secret, 1, &scrub, &err), 0);
        s.scrub = scrub;
        check(&s, "python", "x = 1\ny = 'correct-horse-battery'");
        assert_int_equal(found.n, 1);
        assert_string_equal(found.rows[0].rule, GUARD_SECRET_RULE);
        assert_int_equal(found.rows[0].action, GUARD_WARN);
        assert_int_equal(found.rows[0].line, 2);
        assert_int_equal(found.rows[0].column, 6);
        assert_null(strstr(found.rows[0].message, "correct-horse"));
        s.strict_scrub = true;
        check(&s, "python", "x = 1\ny = 'correct-horse-battery'");
        assert_non_null(guard_blocks(&found));
        check(&s, "python", "x = 1\ny = 'correct-horse'");
        assert_int_equal(found.n, 0);
        scrub_free(scrub);
}

static int set_up(void **state)
{
        gb_error err = {0};

        return rules_get_shipped(&rules, &err);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_places), cmocka_unit_test(test_batches), cmocka_unit_test(test_modes), cmocka_unit_test(test_order),
                cmocka_unit_test(test_switches), cmocka_unit_test(test_imports), cmocka_unit_test(test_unreadable), cmocka_unit_test(test_secrets),
        };

        return cmocka_run_group_tests(tests, set_up, NULL);
}
