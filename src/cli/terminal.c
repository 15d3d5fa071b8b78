/* SPDX-License-Identifier: Apache-2.0
 *
 * Theory of operation. A terminal obeys bytes: a program inside a box could set the clipboard,
 * answer queries into the shell's input, retitle windows or overwrite lines that were read
 * already. So what goes to a terminal passes this machine, byte by byte:
 *
 *   TEXT    printable ASCII, tab and newline pass; ESC, CR and the first byte of a UTF-8
 *           sequence are held and change the state; all other controls are shown as ^X
 *   CR      before a newline it vanishes, otherwise it is shown as ^M
 *   ESCAPE  only "[" goes on, to CSI; otherwise ESC is shown as ^[ and the byte looked at anew
 *   CSI     digits, ";" and ":" are collected; "m" makes it a colour, which passes whole;
 *           anything else shows ^[ and the collected text
 *   UTF8    a whole valid sequence passes, unless it is a control of its own (C1, the ones that
 *           change the direction of writing): those are shown as \u{202e}. What is not valid is
 *           shown byte by byte as \x9b
 *
 * Colours are reset before each newline and at the end, so they never reach what others print.
 * All that is held over lives in the struct, so the cuts between pieces change nothing. */
#include "cli/terminal.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define COLOUR_RESET "\033[0m"

static int emit(struct terminal *t, struct buffer *out, const void *bytes, size_t size)
{
        t->in_line = true;
        return buffer_add(out, bytes, size);
}

static int emit_text(struct terminal *t, struct buffer *out, const char *text)
{
        return emit(t, out, text, strlen(text));
}

static int emit_caret(struct terminal *t, struct buffer *out, unsigned char c)
{
        const char shown[] = {'^', (char)(c ^ 0x40)};

        return emit(t, out, shown, sizeof(shown));
}

static int emit_newline(struct terminal *t, struct buffer *out)
{
        if (t->one_line)
                return emit_caret(t, out, '\n');

        int r = t->coloured ? buffer_add_string(out, COLOUR_RESET) : 0;
        if (r < 0)
                return r;
        t->coloured = false;
        t->in_line = false;
        return buffer_add(out, "\n", 1);
}

static void hold(struct terminal *t, unsigned char c, enum terminal_state state)
{
        t->held[t->n_held++] = c;
        t->state = state;
}

/* Ends a sequence: shows what was held, harmlessly. */
static int show_held(struct terminal *t, struct buffer *out)
{
        size_t n = t->n_held;
        int r = 0;

        for (size_t i = 0; i < n && r == 0; i++) {
                char shown[8];
                unsigned char c = t->held[i];
                if (c < 0x20)
                        r = emit_caret(t, out, c);
                else if (c < 0x80)
                        r = emit(t, out, &t->held[i], 1);
                else {
                        snprintf(shown, sizeof(shown), "\\x%02x", c);
                        r = emit_text(t, out, shown);
                }
        }
        t->n_held = 0;
        t->state = TERMINAL_TEXT;
        return r;
}

static int add_text(struct terminal *t, struct buffer *out, unsigned char c)
{
        if (c == '\n')
                return emit_newline(t, out);
        if ((c >= 0x20 && c < 0x7f) || (c == '\t' && !t->one_line))
                return emit(t, out, &c, 1);
        if (c == '\r')
                hold(t, c, TERMINAL_CR);
        else if (c == 0x1b && t->colours)
                hold(t, c, TERMINAL_ESCAPE);
        else if (c < 0x80)
                return emit_caret(t, out, c);
        else {
                hold(t, c, TERMINAL_UTF8);
                t->n_needed = c < 0xc2 || c > 0xf4 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
                if (t->n_needed == 1)
                        return show_held(t, out);
        }
        return 0;
}

/* Controls that are valid UTF-8: C1, and those that change the direction of writing. */
static bool is_control(uint32_t c)
{
        return c < 0xa0 || c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
               (c >= 0x2066 && c <= 0x2069);
}

static bool continues_utf8(const struct terminal *t, unsigned char c)
{
        if (t->n_held == 1) /* overlong forms, surrogates and what is above U+10FFFF show here */
                switch (t->held[0]) {
                case 0xe0:
                        return c >= 0xa0 && c <= 0xbf;
                case 0xed:
                        return c >= 0x80 && c <= 0x9f;
                case 0xf0:
                        return c >= 0x90 && c <= 0xbf;
                case 0xf4:
                        return c >= 0x80 && c <= 0x8f;
                default:
                        break;
                }
        return c >= 0x80 && c <= 0xbf;
}

static int end_utf8(struct terminal *t, struct buffer *out)
{
        uint32_t c = t->held[0] & (0x7fu >> t->n_held);
        for (size_t i = 1; i < t->n_held; i++)
                c = c << 6 | (t->held[i] & 0x3fu);

        char shown[16];
        size_t n = t->n_held;
        t->n_held = 0;
        t->state = TERMINAL_TEXT;
        if (!is_control(c))
                return emit(t, out, t->held, n);
        snprintf(shown, sizeof(shown), "\\u{%x}", c);
        return emit_text(t, out, shown);
}

static int end_colour(struct terminal *t, struct buffer *out)
{
        hold(t, 'm', TERMINAL_TEXT);
        t->coloured = false;
        for (size_t i = 2; i < t->n_held - 1; i++)
                if (t->held[i] != '0' && t->held[i] != ';')
                        t->coloured = true;

        size_t n = t->n_held;
        t->n_held = 0;
        return buffer_add(out, t->held, n);
}

/* Whether the byte belongs to what is held; *ret is then the outcome. */
static bool continues(struct terminal *t, struct buffer *out, unsigned char c, int *ret)
{
        *ret = 0;
        switch (t->state) {
        case TERMINAL_TEXT:
                break;
        case TERMINAL_CR:
                if (c != '\n')
                        return false;
                t->n_held = 0;
                t->state = TERMINAL_TEXT;
                *ret = emit_newline(t, out);
                return true;
        case TERMINAL_ESCAPE:
                if (c != '[')
                        return false;
                hold(t, c, TERMINAL_CSI);
                return true;
        case TERMINAL_CSI:
                if (c == 'm') {
                        *ret = end_colour(t, out);
                        return true;
                }
                if (!((c >= '0' && c <= '9') || c == ';' || c == ':') || t->n_held >= sizeof(t->held) - 1)
                        return false;
                hold(t, c, TERMINAL_CSI);
                return true;
        case TERMINAL_UTF8:
                if (!continues_utf8(t, c))
                        return false;
                hold(t, c, TERMINAL_UTF8);
                if (t->n_held == t->n_needed)
                        *ret = end_utf8(t, out);
                return true;
        }
        return false;
}

int terminal_add(struct terminal *t, struct buffer *out, const void *bytes, size_t size)
{
        const unsigned char *p = bytes;
        int r = 0;

        for (size_t i = 0; i < size; i++) {
                if (t->state != TERMINAL_TEXT) {
                        if (continues(t, out, p[i], &r)) {
                                if (r < 0)
                                        return r;
                                continue;
                        }
                        r = show_held(t, out);
                        if (r < 0)
                                return r;
                }
                r = add_text(t, out, p[i]);
                if (r < 0)
                        return r;
        }
        return 0;
}

int terminal_flush(struct terminal *t, struct buffer *out)
{
        int r = show_held(t, out);
        if (r == 0 && t->coloured)
                r = buffer_add_string(out, COLOUR_RESET);
        t->coloured = false;
        return r;
}
