/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/language.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void test_shipped(void **state)
{
        static const struct {
                const char *name, *row, *file;
        } rows[] = {
                {"python", "python", "a.py"}, {"py", "python", "/x/y.b.py"}, {"Python3", "python", "x.py"}, {"bash", "bash", "a.bash"},
                {"sh", "sh", "a.sh"}, {"javascript", "node", "a.mjs"}, {"cpp", "c++", "a.cc"}, {"c", "c", "a.c"}, {"r", "r", "a.R"},
                {"go", "go", "a.go"}, {"rust", "rust", "a.rs"}, {"java", "java", "a.java"}, {"perl", "perl", "a.pl"},
                {"ruby", "ruby", "a.rb"}, {"php", "php", "a.php"}, {"lua", "lua", "a.lua"}, {"awk", "awk", "a.awk"},
        };
        _cleanup_languages_ struct languages *l = NULL;
        gb_error err;

        if (languages_load(SHIPPED_CONFIG "/languages.yaml", &l, &err) < 0)
                fail_msg("%s", err.message);
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                const struct language *row = NULL;
                assert_int_equal(language_by_name(l, rows[i].name, &row, &err), 0);
                assert_string_equal(row->name, rows[i].row);
                assert_int_equal(language_by_file(l, rows[i].file, &row, &err), 0);
                assert_string_equal(row->name, rows[i].row);
        }
        const struct language *c;
        assert_int_equal(language_by_name(l, "c", &c, &err), 0);
        assert_string_equal(c->compile[0], "cc");
        assert_string_equal(c->run[0], "{out}");
        assert_null(c->run[1]);
        assert_null(c->context);
        assert_int_equal(language_by_name(l, "js", &c, &err), 0);
        assert_string_equal(c->context, "node");
}

static void test_builtin(void **state)
{
        static const char *const names[] = {"python", "bash", "sh"};
        _cleanup_languages_ struct languages *builtin = NULL, *shipped = NULL;
        char dir[] = "/tmp/glovebox-test-XXXXXX";
        gb_error err;

        assert_non_null(mkdtemp(dir));
        setenv("GLOVEBOX_CONFIG_DIR", dir, 1);
        int r = languages_load(NULL, &builtin, &err);
        rmdir(dir);
        assert_int_equal(r, 0);
        assert_int_equal(languages_load(NULL, &shipped, &err), -ENOENT); /* the directory is lost */
        setenv("GLOVEBOX_CONFIG_DIR", SHIPPED_CONFIG, 1);
        assert_int_equal(languages_load(NULL, &shipped, &err), 0);
        assert_int_equal(builtin->n, ARRAY_SIZE(names));
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                const struct language *a, *b;
                assert_int_equal(language_by_name(builtin, names[i], &a, &err), 0);
                assert_int_equal(language_by_name(shipped, names[i], &b, &err), 0);
                assert_string_equal(a->file, b->file);
                assert_string_equal(a->context ? a->context : "none", b->context ? b->context : "none");
                assert_int_equal(a->memory_min_bytes, b->memory_min_bytes);
                for (size_t w = 0; a->run[w] || b->run[w]; w++)
                        assert_string_equal(a->run[w], b->run[w]);
                for (size_t w = 0; a->env[w] || b->env[w]; w++)
                        assert_string_equal(a->env[w], b->env[w]);
        }
}

#define GOOD "run: [x, '{file}'], file: a"

static void test_refused(void **state)
{
        static const struct {
                const char *text, *message;
        } rows[] = {
                {"", "x.yaml:1:1: this file: allowed: a mapping \"languages\" of names to their keys"},
                {"langs: {}", "x.yaml:1:1: unknown key \"langs\"; the keys here are: languages"},
                {"languages: []", "x.yaml:1:1: this file: allowed: a mapping \"languages\" of names to their keys"},
                {"languages: {X: {}}", "x.yaml:1:16: languages: \"X\" is not a name; allowed: a small letter, then small letters, digits, + # _ -, at most 32 in all"},
                {"languages: {x: 1}", "x.yaml:1:16: x: a value; allowed: a mapping of keys"},
                {"languages: {x: {}}", "x.yaml:1:16: x: no command; give run, such as [python3, \"{file}\"]"},
                {"languages: {x: {run: [a]}}", "x.yaml:1:16: x: no file; give the name of the code in the box, such as main.py"},
                {"languages: {x: {run: [a], file: b}}", "x.yaml:1:16: x: run must hold {file}"},
                {"languages: {x: {run: ['{out}', '{file}'], file: b}}", "x.yaml:1:16: x: run holds {out}, but there is no compile that makes it"},
                {"languages: {x: {run: ['{out}'], compile: [a], file: b}}", "x.yaml:1:16: x: compile must hold {file} and {out}"},
                {"languages: {x: {runn: [a]}}", "x.yaml:1:17: unknown key \"runn\"; did you mean \"run\"?"},
                {"languages: {x: {run: a}}", "x.yaml:1:22: run: a value; allowed: a list of words of a command"},
                {"languages: {x: {run: ['']}}", "x.yaml:1:23: run: \"\"; allowed: words of a command"},
                {"languages: {x: {run: [[]]}}", "x.yaml:1:23: run: a list; allowed: words of a command"},
                {"languages: {x: {file: ../a}}", "x.yaml:1:23: file: \"../a\"; allowed: letters, digits and . _ + -, at most 64"},
                {"languages: {x: {extensions: [.py]}}", "x.yaml:1:30: extensions: \".py\"; allowed: extensions without the dot"},
                {"languages: {x: {aliases: [P]}}", "x.yaml:1:27: aliases: \"P\"; allowed: names in small letters"},
                {"languages: {x: {aliases: [a,b,c,d,e,f,g,h,i]}}", "x.yaml:1:26: aliases: too many; at most 8"},
                {"languages: {x: {memory_min: much}}", "x.yaml:1:29: memory_min: \"much\" is not a size; allowed: a size such as 16m"},
                {"languages: {x: {memory_min: []}}", "x.yaml:1:29: memory_min: a list is not a size; allowed: a size such as 16m"},
                {"languages: {x: {context: ruby}}", "x.yaml:1:26: context: \"ruby\"; allowed: python, bash or node"},
                {"languages: {x: {context: [python]}}", "x.yaml:1:26: context: a list; allowed: python, bash or node"},
                {"languages: {x: {env: {1: 2}}}", "x.yaml:1:26: env: \"1\" is not a variable's name; allowed are letters, digits and _, and no digit at its start"},
                {"languages: {x: {env: {A: }}}", "x.yaml:1:26: env: \"A\" is nothing; allowed: a text or number, \"\" for an empty one"},
                {"languages: {x: {" GOOD "}, y: {aliases: [x], " GOOD "}}", "x.yaml:1:50: y: the alias \"x\" is already that of another language"},
                {"languages: {x: {aliases: [y], " GOOD "}, y: {" GOOD "}}", "x.yaml:1:64: y: the name is already the alias of another language"},
                {"languages: {x: {extensions: [e], " GOOD "}, y: {extensions: [e], " GOOD "}}",
                 "x.yaml:1:67: y: the extension \"e\" is already that of another language"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct languages *l = NULL;
                gb_error err = {0};
                int r = languages_parse("x.yaml", rows[i].text, strlen(rows[i].text), &l, &err);
                if (r >= 0 || l || err.code != GB_E_POLICY || strcmp(err.message, rows[i].message) != 0)
                        fail_msg("%s: %d, %s", rows[i].text, r, err.message);
        }
}

static void test_not_found(void **state)
{
        static const char text[] = "languages: {python: {" GOOD "}, bash: {extensions: [sh], " GOOD "}}";
        _cleanup_languages_ struct languages *l = NULL;
        const struct language *row = NULL;
        gb_error err;

        assert_int_equal(languages_parse("x.yaml", text, strlen(text), &l, &err), 0);
        assert_int_equal(language_by_name(l, "pyton", &row, &err), -ENOENT);
        assert_int_equal(err.code, GB_E_NOT_FOUND);
        assert_string_equal(err.message, "there is no language \"pyton\"; did you mean \"python\"? There are: python, bash");
        assert_true(language_by_name(l, "cobol", &row, &err) < 0);
        assert_string_equal(err.message, "there is no language \"cobol\"; there are: python, bash");

        static const char *const files[] = {"x", "x.", "x.py2", ".sh", "a.sh/b", "", "x.SH"};
        for (size_t i = 0; i < ARRAY_SIZE(files); i++)
                assert_int_equal(language_by_file(l, files[i], &row, &err), -ENOENT);
        assert_int_equal(language_by_file(l, "dir.x/prog", &row, &err), -ENOENT);
        assert_string_equal(err.message, "the language of \"prog\" is not known by its name; say it with --lang, such as --lang python");
        assert_null(row);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_shipped),
                cmocka_unit_test(test_builtin),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_not_found),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
