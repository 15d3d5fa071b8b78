/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/script.h"

#include "base/fd.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define WORD(text) ((char *)(uintptr_t)(text))

static const struct language python = {
        .name = WORD("python"), .context = WORD("python"), .run = {WORD("python3"), WORD("{file}")},
        .env = {WORD("PYTHONDONTWRITEBYTECODE=1"), WORD("PYTHONPATH=/sandbox"), WORD("PYTHONSAFEPATH=1")},
};

static struct policy policy;

static const char *why_not(const struct language *l, const char *command, const char *code, size_t size, char *const *args,
                           int workspace_fd)
{
        struct script s = {
                .python = command, .language = l, .policy = &policy, .code = code, .code_size = size, .args = args,
                .workspace_fd = workspace_fd,
        };

        return script_why_not(&s);
}

static const char *why_not_language(const struct language *l)
{
        return why_not(l, "python3", "1", 1, NULL, -1);
}

static int reset(void **state)
{
        policy = (struct policy){.warm = true};
        return 0;
}

static void test_fits(void **state)
{
        char *args[] = {WORD("a"), WORD(""), NULL};

        assert_null(why_not(&python, "python3", "print('\xc3\xa9')", 11, args, -1));
        assert_null(why_not(&python, "python3", "", 0, NULL, -1));
        policy.warm = false;
        assert_non_null(why_not_language(&python));
}

static void test_command(void **state)
{
        struct language l = python;

        assert_non_null(why_not(&python, "python3.12", "1", 1, NULL, -1));
        l.run[1] = WORD("-O");
        l.run[2] = WORD("{file}");
        assert_non_null(why_not_language(&l));
        l = python;
        l.compile[0] = WORD("true");
        assert_non_null(why_not_language(&l));
        l = python;
        l.context = WORD("bash");
        assert_non_null(why_not_language(&l));
        l.context = NULL;
        assert_non_null(why_not_language(&l));
}

static void test_code(void **state)
{
        assert_non_null(why_not(&python, "python3", "\xe9", 1, NULL, -1));
        assert_non_null(why_not(&python, "python3", "a\0b", 3, NULL, -1));
}

static void test_arguments(void **state)
{
        _cleanup_free_ char *large = calloc(1, 200 * KIB);
        char *args[] = {large, NULL};

        memset(large, 'a', 200 * KIB - 1);
        assert_non_null(why_not(&python, "python3", "1", 1, args, -1));
}

static void test_language_variables(void **state)
{
        struct language l = python;

        l.env[3] = WORD("MINE=1"); /* can be set later */
        assert_null(why_not_language(&l));
        l.env[3] = WORD("PYTHONOPTIMIZE=1");
        assert_non_null(why_not_language(&l));
        l = python;
        l.env[1] = WORD("PYTHONPATH={workspace}"); /* as languages.yaml has it */
        assert_null(why_not_language(&l));
        policy.scratch_only = true;
        assert_non_null(why_not_language(&l));
        policy.scratch_only = false;
        l.env[1] = WORD("PYTHONPATH=/elsewhere");
        assert_non_null(why_not_language(&l));
        l = python;
        l.env[2] = NULL; /* the template has it */
        assert_non_null(why_not_language(&l));
}

static void test_policy_variables(void **state)
{
        static const struct {
                const char *name;
                bool fits;
        } rows[] = {{"A", true}, {"TZ", true}, {"PYTHONUNBUFFERED", false}, {"LANG", false}, {"LC_ALL", false}, {"LD_PRELOAD", false},
                    {"PATH", false}, {"HOME", false}, {"OMP_NUM_THREADS", false}, {"pythonpath", true}};

        policy.n_env = 1;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                policy.env[0] = (struct policy_env){WORD(rows[i].name), WORD("x")};
                assert_int_equal(why_not_language(&python) == NULL, rows[i].fits);
        }
}

/* One entry in an empty workspace; NULL makes none. */
static const char *why_not_with(const char *file, const char *directory, const char *inside, const char *link)
{
        char path[] = "/tmp/test-script-XXXXXX", name[128];

        assert_non_null(mkdtemp(path));
        _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(fd >= 0);
        if (file)
                safe_close(openat(fd, file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        if (directory)
                assert_int_equal(mkdirat(fd, directory, 0700), 0);
        snprintf(name, sizeof(name), "%s/%s", directory ? directory : "", inside ? inside : "");
        if (inside)
                safe_close(openat(fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        if (link)
                assert_int_equal(symlinkat("/nowhere", fd, link), 0);
        const char *why = why_not(&python, "python3", "1", 1, NULL, fd);
        if (inside)
                unlinkat(fd, name, 0);
        if (directory)
                unlinkat(fd, directory, AT_REMOVEDIR);
        if (file)
                unlinkat(fd, file, 0);
        if (link)
                unlinkat(fd, link, 0);
        assert_int_equal(rmdir(path), 0);
        return why;
}

static void test_workspace(void **state)
{
        assert_null(why_not_with(NULL, NULL, NULL, NULL));
        assert_null(why_not_with("data.csv", "data", "a.py", NULL));
        assert_null(why_not_with(".py", ".git", "__init__.py", "link.txt"));
        assert_non_null(why_not_with("json.py", NULL, NULL, NULL));
        assert_non_null(why_not_with("json.cpython-311-x86_64-linux-gnu.so", NULL, NULL, NULL));
        assert_non_null(why_not_with("json.pyc", NULL, NULL, NULL));
        assert_non_null(why_not_with(NULL, "json", "__init__.py", NULL));
        assert_non_null(why_not_with(NULL, NULL, NULL, "json"));
        /* One that cannot be looked into. */
        assert_non_null(why_not(&python, "python3", "1", 1, NULL, STDIN_FILENO));
}

static void test_path(void **state)
{
        char path[SCRIPT_FILE_MAX], name[BOX_PATH_MAX + 1];

        assert_int_equal(script_path("main.py", path), 0);
        assert_string_equal(path, "/run/glovebox/main.py");
        memset(name, 'a', sizeof(name) - 1);
        name[sizeof(name) - 1] = '\0';
        assert_true(script_path(name, path) < 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(test_fits, reset), cmocka_unit_test_setup(test_command, reset), cmocka_unit_test_setup(test_code, reset),
                cmocka_unit_test_setup(test_arguments, reset), cmocka_unit_test_setup(test_language_variables, reset),
                cmocka_unit_test_setup(test_policy_variables, reset), cmocka_unit_test_setup(test_workspace, reset),
                cmocka_unit_test_setup(test_path, reset),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
