/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/terminal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Everything at once, and in pieces of every size: the same bytes come out. */
static void check_with(struct terminal start, const char *in, size_t size, const char *expected)
{
        for (size_t piece = 1; piece <= size; piece++) {
                _cleanup_buffer_ struct buffer out;
                struct terminal t = start;

                buffer_init(&out, size * TERMINAL_GROWTH_MAX + TERMINAL_SLACK_BYTES);
                for (size_t i = 0; i < size; i += piece)
                        assert_int_equal(terminal_add(&t, &out, in + i, MIN(piece, size - i)), 0);
                assert_int_equal(terminal_flush(&t, &out), 0);
                assert_string_equal(out.size > 0 ? out.data : "", expected);
        }
}

static void check(const char *in, const char *expected)
{
        check_with((struct terminal){.colours = true}, in, strlen(in), expected);
}

static void test_text_passes(void **state)
{
        check("hello\n\tworld", "hello\n\tworld");
        check("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x8c\x8d", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x8c\x8d");
}

static void test_controls_are_shown(void **state)
{
        check("a\a\b\v\f\x7f", "a^G^H^K^L^?");
        check_with((struct terminal){.colours = true}, "a\0b", 3, "a^@b");
        check("\x0e\x0f", "^N^O");
}

static void test_carriage_return(void **state)
{
        check("dos\r\nline\r\n", "dos\nline\n");
        check("safe\revil", "safe^Mevil");
        check("\r\r\n", "^M\n");
        check("end\r", "end^M");
}

static void test_sequences_are_shown(void **state)
{
        check("\033]52;c;ZXZpbA==\a", "^[]52;c;ZXZpbA==^G"); /* clipboard */
        check("\033]8;;http://x\033\\link", "^[]8;;http://x^[\\link");
        check("\033[6n", "^[[6n"); /* a query that would type into the shell */
        check("\033[2J\033[H", "^[[2J^[[H");
        check("\033P+q\033\\", "^[P+q^[\\");
        check("\033[>4;1m", "^[[>4;1m"); /* key modifiers, not a colour */
        check("\033[?1m", "^[[?1m");
        check("\033[3 m", "^[[3 m");
        check("\033\033[1m", "^[\033[1m\033[0m");
        check("\033", "^[");
        check("\033[31", "^[[31");
        check("\033[\n", "^[[\n");
}

static void test_colours_pass_and_end(void **state)
{
        check("\033[31mred\033[0m.", "\033[31mred\033[0m.");
        check("\033[31mred", "\033[31mred\033[0m");
        check("\033[1;38;5;9mx\ny", "\033[1;38;5;9mx\033[0m\ny");
        check("\033[4:3mx\r\n", "\033[4:3mx\033[0m\n");
        check("\033[mplain\n", "\033[mplain\n");
}

static void test_colour_has_an_end(void **state)
{
        char in[200] = "\033[", expected[250] = "^[[";

        memset(in + 2, '1', 100);
        strcat(in, "m");
        memset(expected + 3, '1', 100);
        strcat(expected, "m");
        check(in, expected);
}

static void test_c1_and_direction(void **state)
{
        check("\x9b" "31m", "\\x9b31m");             /* CSI as one byte */
        check("\xc2\x9b" "31m", "\\u{9b}31m");       /* and as a character */
        check("\xe2\x80\xae" "txt.exe", "\\u{202e}txt.exe");
        check("\xe2\x81\xa6", "\\u{2066}");
        check("\xe2\x80\xa8", "\\u{2028}");
        check("\xc2\xa0", "\xc2\xa0");
}

static void test_not_utf8(void **state)
{
        check("\xff\xc0\xaf", "\\xff\\xc0\\xaf");
        check("\xe0\x80\x9b", "\\xe0\\x80\\x9b"); /* overlong */
        check("\xed\xa0\x80", "\\xed\\xa0\\x80"); /* surrogate */
        check("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80");
        check("\xe2\x82\033[6n", "\\xe2\\x82^[[6n");
        check("\xe2\x82", "\\xe2\\x82");
        check("\xc3\xc3\xbc", "\\xc3\xc3\xbc");
}

static void test_one_line_without_colours(void **state)
{
        const char *in = "a\nb\tc\033[31md";

        check_with((struct terminal){.one_line = true}, in, strlen(in), "a^Jb^Ic^[[31md");
}

static void test_cap(void **state)
{
        _cleanup_buffer_ struct buffer out;
        struct terminal t = {0};

        buffer_init(&out, 2);
        assert_true(terminal_add(&t, &out, "abc", 3) < 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_text_passes),
                cmocka_unit_test(test_controls_are_shown),
                cmocka_unit_test(test_carriage_return),
                cmocka_unit_test(test_sequences_are_shown),
                cmocka_unit_test(test_colours_pass_and_end),
                cmocka_unit_test(test_colour_has_an_end),
                cmocka_unit_test(test_c1_and_direction),
                cmocka_unit_test(test_not_utf8),
                cmocka_unit_test(test_one_line_without_colours),
                cmocka_unit_test(test_cap),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
