/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/block.h"

#include "base/macro.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* After which line of the text the block is whole; 0: it is not. */
static size_t whole_after(const char *language, const char *text)
{
        struct block b;

        block_init(&b, language);
        for (size_t line = 1;; line++) {
                size_t n = strcspn(text, "\n");
                if (block_add_line(&b, text, n))
                        return line;
                if (text[n] == '\0')
                        return 0;
                text += n + 1;
        }
}

struct row {
        const char *text;
        size_t lines;
};

static void check(const char *language, const struct row *rows, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                size_t lines = whole_after(language, rows[i].text);
                if (lines != rows[i].lines)
                        fail_msg("%s, %s: whole after line %zu, expected %zu", language, rows[i].text, lines, rows[i].lines);
        }
}

static void python(void _unused_ **state)
{
        static const struct row rows[] = {
                {"1 + 1", 1},
                {"", 1},
                {"if x: y", 1},
                {"if x:", 0},
                {"if x:  # why", 0},
                {"if x:\n    y", 0},
                {"if x:\n    y\n", 3},
                {"if x:\n    y\nelse:\n    z\n", 5},
                {"if x:\n    f(\n\n)\n", 5},
                {"if x:\n    '''\n\n'''\n   ", 5},
                {"f(1,", 0},
                {"f(1,\n2)", 2},
                {"f(1,\n\n2)", 3},
                {"d = {'a': [1, (2)]}", 1},
                {"'a ( b'", 1},
                {"'it\\'s ('", 1},
                {"\"a # b\" # (", 1},
                {"'''", 0},
                {"'''a\nb'''", 2},
                {"\"\"\"a ' \"\" b\n\"\"\"", 2},
                {"x = ''", 1},
                {"x = '''''' + (", 0},
                {"x = 1 + \\\n2", 2},
                {"'a\\\nb'", 2},
                {"# a comment:", 1},
                {"x = [  # (", 0},
                {"@decorator\ndef f(): pass\n", 3},
                {"a @ b", 1},
                /* Wrong, which Python says. */
                {"'open", 1},
                {")", 1},
                {"(]", 1},
                {"f('\nx", 1},
        };

        check("python", rows, ARRAY_SIZE(rows));
}

static void bash(void _unused_ **state)
{
        static const struct row rows[] = {
                {"echo hello", 1},
                {"echo 'a\nb'", 2},
                {"echo \"a\nb\"", 2},
                {"echo \"$(echo \"a b\")\"", 1},
                {"echo \\\na", 2},
                {"echo 'a\\'", 1},
                {"for i in 1 2; do\necho $i\ndone", 3},
                {"for i in 1 2; do echo $i; done", 1},
                {"while read -r x\ndo\necho \"$x\"\ndone < f", 4},
                {"if true; then echo a; fi", 1},
                {"if true\nthen\necho a\nelse\necho b\nfi", 6},
                {"f() {\necho a\n}", 3},
                {"f() { echo a; }", 1},
                {"{ echo a; }", 1},
                {"echo }", 1},
                {"echo if then do", 1},
                {"case $x in\na|b) echo c;;\n(d) echo e;;\nesac", 4},
                {"case $x in a) echo b;; esac", 1},
                {"echo a |\ncat", 2},
                {"true &&\n\necho b", 3},
                {"true || # why\necho b", 2},
                {"sleep 1 &", 1},
                {"echo a 2>&1", 1},
                {"cat <<EOF\na 'b\nEOF", 3},
                {"cat <<-'EOF'\n\tif\n\tEOF", 3},
                {"cat <<A <<B\na\nA\nb\nB", 5},
                {"cat <<< 'a'", 1},
                {"echo $((1 << 2))", 1},
                {"((i = (1 + 2) * 3))", 1},
                {"x=$(\necho a\n)", 3},
                {"echo ${x:-\"a}\"}", 1},
                {"echo ${#x} $# a#b # (", 1},
                {"(cd /tmp\nls)", 2},
                {"echo `date\n`", 2},
                {"diff <(echo a) <(echo b)", 1},
                {"fi", 1},
                {"done", 1},
        };

        check("bash", rows, ARRAY_SIZE(rows));
}

static void node(void _unused_ **state)
{
        static const struct row rows[] = {
                {"1 + 1", 1},
                {"function f() {\nreturn 1;\n}", 3},
                {"f(1,\n2)", 2},
                {"`a\nb`", 2},
                {"`a ${[1,\n2]} b`", 2},
                {"`a ${`b ${c}`} d`", 1},
                {"'a ( b'", 1},
                {"'a\\\nb'", 2},
                {"// {", 1},
                {"/* {\n*/ 1", 2},
                {"x = /[({/\"]/g", 1},
                {"x = a / b / (", 0},
                {"x = (a) / 2", 1},
                {"'open", 1},
                {"}", 1},
        };

        check("node", rows, ARRAY_SIZE(rows));
}

static void bounds(void _unused_ **state)
{
        char deep[2 * BLOCK_DEPTH_MAX + 1], name[2 * BLOCK_DELIMITER_MAX];

        memset(deep, '(', sizeof(deep) - 1);
        deep[BLOCK_DEPTH_MAX] = '\0';
        assert_int_equal(whole_after("python", deep), 0);
        deep[BLOCK_DEPTH_MAX] = '(';
        deep[sizeof(deep) - 1] = '\0';
        assert_int_equal(whole_after("python", deep), 1);
        assert_int_equal(whole_after("node", deep), 1);

        memset(name, 'x', sizeof(name));
        memcpy(name, "<<", 2);
        name[2 + BLOCK_DELIMITER_MAX - 1] = '\0';
        assert_int_equal(whole_after("bash", name), 0);
        name[2 + BLOCK_DELIMITER_MAX - 1] = 'x';
        name[sizeof(name) - 1] = '\0';
        assert_int_equal(whole_after("bash", name), 1);
        assert_int_equal(whole_after("bash", "cat <<a <<b <<c <<d <<e"), 1);

        assert_int_equal(whole_after("perl", "if ("), 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(python),
                cmocka_unit_test(bash),
                cmocka_unit_test(node),
                cmocka_unit_test(bounds),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
