/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/template.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct templates *parse(const char *text)
{
        struct templates *t = NULL;
        gb_error err;

        if (templates_parse("x.yaml", text, strlen(text), &t, &err) < 0)
                fail_msg("%s", err.message);
        return t;
}

static bool has_module(const struct template *row, const char *name)
{
        for (char *const *module = row->modules; *module; module++)
                if (strcmp(*module, name) == 0)
                        return true;
        return false;
}

static void test_shipped(void **state)
{
        _cleanup_templates_ struct templates *t = NULL;
        const struct template *row = NULL;
        gb_error err;

        if (templates_load(SHIPPED_CONFIG "/templates.yaml", &t, &err) < 0)
                fail_msg("%s", err.message);
        assert_int_equal(template_by_name(t, "python", &row, &err), 0);
        assert_string_equal(row->python, "python3");
        assert_null(row->rootfs);
        assert_int_equal(row->pool, 2);
        assert_true(has_module(row, "json") && has_module(row, "urllib.parse") && has_module(row, "asyncio"));
        assert_int_equal(template_by_name(t, "python-data", &row, &err), 0);
        assert_true(has_module(row, "numpy") && has_module(row, "matplotlib.pyplot") && has_module(row, "scipy.stats"));
}

static void test_builtin(void **state)
{
        _cleanup_templates_ struct templates *builtin = NULL, *shipped = NULL;
        char dir[] = "/tmp/glovebox-test-XXXXXX";
        const struct template *a = NULL, *b = NULL;
        gb_error err;

        assert_non_null(mkdtemp(dir));
        setenv("GLOVEBOX_CONFIG_DIR", dir, 1);
        int r = templates_load(NULL, &builtin, &err);
        rmdir(dir);
        assert_int_equal(r, 0);
        assert_int_equal(templates_load(NULL, &shipped, &err), -ENOENT); /* the directory is lost */
        setenv("GLOVEBOX_CONFIG_DIR", SHIPPED_CONFIG, 1);
        assert_int_equal(templates_load(NULL, &shipped, &err), 0);
        assert_int_equal(builtin->n, 1);
        assert_int_equal(template_by_name(builtin, "python", &a, &err), 0);
        assert_int_equal(template_by_name(shipped, "python", &b, &err), 0);
        assert_string_equal(a->python, b->python);
        assert_string_equal(a->description, b->description);
        assert_int_equal(a->pool, b->pool);
        assert_true(!a->rootfs && !b->rootfs);
        for (size_t i = 0; a->modules[i] || b->modules[i]; i++)
                assert_string_equal(a->modules[i], b->modules[i]);
}

static void test_values(void **state)
{
        _cleanup_templates_ struct templates *t =
                parse("templates:\n  bare: {}\n  full: {rootfs: /srv/image, python: /opt/bin/python3.12, modules: [a, _b.c1], pool: 0, description: x y}\n"
                      "  most: {rootfs: host, pool: 64}\n");
        const struct template *row = NULL;
        gb_error err;

        assert_int_equal(t->n, 3);
        assert_int_equal(template_by_name(t, "bare", &row, &err), 0);
        assert_string_equal(row->python, "python3");
        assert_string_equal(row->description, "");
        assert_null(row->rootfs);
        assert_null(row->modules[0]);
        assert_int_equal(row->pool, 2);
        assert_int_equal(template_by_name(t, "full", &row, &err), 0);
        assert_string_equal(row->rootfs, "/srv/image");
        assert_string_equal(row->python, "/opt/bin/python3.12");
        assert_string_equal(row->modules[0], "a");
        assert_string_equal(row->modules[1], "_b.c1");
        assert_null(row->modules[2]);
        assert_string_equal(row->description, "x y");
        assert_int_equal(row->pool, 0);
        assert_int_equal(template_by_name(t, "most", &row, &err), 0);
        assert_null(row->rootfs);
        assert_int_equal(row->pool, 64);
}

#define MODULES "; allowed: names of modules such as json or urllib.parse"

static void test_refused(void **state)
{
        static const struct {
                const char *text, *message;
        } rows[] = {
                {"", "x.yaml:1:1: this file: allowed: a mapping \"templates\" of names to their keys"},
                {"template: {}", "x.yaml:1:1: unknown key \"template\"; did you mean \"templates\"?"},
                {"templates: []", "x.yaml:1:1: this file: allowed: a mapping \"templates\" of names to their keys"},
                {"templates: {X: {}}", "x.yaml:1:16: templates: \"X\" is not a name; allowed: a small letter, then small letters, digits, _ -, at most 32 in all"},
                {"templates: {../x: {}}", "x.yaml:1:19: templates: \"../x\" is not a name; allowed: a small letter, then small letters, digits, _ -, at most 32 in all"},
                {"templates: {x: 1}", "x.yaml:1:16: x: a value; allowed: a mapping of keys"},
                {"templates: {x: {module: [a]}}", "x.yaml:1:17: unknown key \"module\"; did you mean \"modules\"?"},
                {"templates: {x: {zzz: 1}}", "x.yaml:1:17: unknown key \"zzz\"; the keys here are: rootfs, python, modules, pool, description"},
                {"templates: {x: {modules: json}}", "x.yaml:1:26: modules: a value; allowed: a list of names of modules such as json or urllib.parse"},
                {"templates: {x: {modules: ['']}}", "x.yaml:1:27: modules: \"\"" MODULES},
                {"templates: {x: {modules: [a, .b]}}", "x.yaml:1:30: modules: \".b\"" MODULES},
                {"templates: {x: {modules: [a.]}}", "x.yaml:1:27: modules: \"a.\"" MODULES},
                {"templates: {x: {modules: [a..b]}}", "x.yaml:1:27: modules: \"a..b\"" MODULES},
                {"templates: {x: {modules: [1a]}}", "x.yaml:1:27: modules: \"1a\"" MODULES},
                {"templates: {x: {modules: [a.1b]}}", "x.yaml:1:27: modules: \"a.1b\"" MODULES},
                {"templates: {x: {modules: ['os; x()']}}", "x.yaml:1:27: modules: \"os; x()\"" MODULES},
                {"templates: {x: {modules: [a-b]}}", "x.yaml:1:27: modules: \"a-b\"" MODULES},
                {"templates: {x: {modules: [{a: b}]}}", "x.yaml:1:27: modules: a mapping" MODULES},
                {"templates: {x: {pool: 65}}", "x.yaml:1:23: pool: \"65\"; allowed: a whole number from 0 to 64"},
                {"templates: {x: {pool: -1}}", "x.yaml:1:23: pool: \"-1\"; allowed: a whole number from 0 to 64"},
                {"templates: {x: {pool: []}}", "x.yaml:1:23: pool: a list; allowed: a whole number from 0 to 64"},
                {"templates: {x: {rootfs: image}}", "x.yaml:1:25: rootfs: \"image\"; allowed: host, or the absolute path of an image"},
                {"templates: {x: {rootfs: }}", "x.yaml:1:25: rootfs: nothing; allowed: host, or the absolute path of an image"},
                {"templates: {x: {python: python3 -c}}", "x.yaml:1:25: python: \"python3 -c\"; allowed: a command such as python3, or its absolute path"},
                {"templates: {x: {python: bin/python3}}", "x.yaml:1:25: python: \"bin/python3\"; allowed: a command such as python3, or its absolute path"},
                {"templates: {x: {python: -c}}", "x.yaml:1:25: python: \"-c\"; allowed: a command such as python3, or its absolute path"},
                {"templates: {x: {description: [a]}}", "x.yaml:1:30: description: a list; allowed: one line of at most 200 bytes"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct templates *t = NULL;
                gb_error err = {0};
                int r = templates_parse("x.yaml", rows[i].text, strlen(rows[i].text), &t, &err);
                if (r >= 0 || t || err.code != GB_E_POLICY || strcmp(err.message, rows[i].message) != 0)
                        fail_msg("%s: %d, %s", rows[i].text, r, err.message);
        }
}

/* n items between head and tail: "xN" + item each, or the bare item when it is to become one long word. */
static int parse_many(const char *head, size_t n, bool numbered, const char *item, const char *tail)
{
        _cleanup_templates_ struct templates *t = NULL;
        char text[8192], *end = text + sprintf(text, "%s", head);
        gb_error err;

        for (size_t i = 0; i < n; i++)
                end += numbered ? sprintf(end, "x%zu%s", i, item) : sprintf(end, "%s", item);
        sprintf(end, "%s", tail);
        return templates_parse("x.yaml", text, strlen(text), &t, &err);
}

static void test_bounds(void **state)
{
        static const char modules[] = "templates: {x: {modules: [", names[] = "templates: {";

        assert_int_equal(parse_many(names, TEMPLATE_COUNT_MAX, true, ": {}, ", "}"), 0);
        assert_true(parse_many(names, TEMPLATE_COUNT_MAX + 1, true, ": {}, ", "}") < 0);
        assert_int_equal(parse_many(modules, TEMPLATE_MODULES_MAX, true, ", ", "]}}"), 0);
        assert_true(parse_many(modules, TEMPLATE_MODULES_MAX + 1, true, ", ", "]}}") < 0);
        assert_int_equal(parse_many(modules, 128, false, "m", "]}}"), 0);
        assert_true(parse_many(modules, 129, false, "m", "]}}") < 0);
        assert_int_equal(parse_many(names, TEMPLATE_NAME_MAX, false, "a", ": {}}"), 0);
        assert_true(parse_many(names, TEMPLATE_NAME_MAX + 1, false, "a", ": {}}") < 0);
        assert_int_equal(parse_many("templates: {x: {description: ", 200, false, "a", "}}"), 0);
        assert_true(parse_many("templates: {x: {description: ", 201, false, "a", "}}") < 0);
}

static void test_not_found(void **state)
{
        _cleanup_templates_ struct templates *t = parse("templates: {python: {}, python-data: {}}"), *none = parse("templates: {}");
        const struct template *row = NULL;
        gb_error err;

        assert_int_equal(template_by_name(t, "pyton", &row, &err), -ENOENT);
        assert_int_equal(err.code, GB_E_NOT_FOUND);
        assert_string_equal(err.message, "there is no template \"pyton\"; did you mean \"python\"? There are: python, python-data");
        assert_true(template_by_name(t, "ruby-on-rails", &row, &err) < 0);
        assert_string_equal(err.message, "there is no template \"ruby-on-rails\"; there are: python, python-data");
        assert_true(template_by_name(t, "Python", &row, &err) < 0); /* a name is a file name: case counts */
        assert_true(template_by_name(none, "x", &row, &err) < 0);
        assert_string_equal(err.message, "there is no template \"x\"; templates.yaml has none");
        assert_null(row);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_shipped),
                cmocka_unit_test(test_builtin),
                cmocka_unit_test(test_values),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_bounds),
                cmocka_unit_test(test_not_found),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
