/* SPDX-License-Identifier: Apache-2.0
 *
 * Bash: open quotes and brackets, the words that open and close a command (where a command may stand), a line that
 * ends with a backslash or an operator, and here-documents. */
#include "cli/block.h"

#include "base/macro.h"

#include <ctype.h>
#include <string.h>

/* Besides characters that close themselves: */
#define PARAMETER 'P'  /* ${; closed by "}" */
#define ARITHMETIC 'A' /* ((; closed by "))" */
#define NESTED 'N'     /* a bracket in it */
#define ENDS_FI 'f'
#define ENDS_DONE 'd'
#define ENDS_ESAC 'e'

/* Words with a meaning of their own where a command may stand. After each of them another command may, but for
 * those that close something or take words. */
static const struct {
        const char *word;
        unsigned char opens, closes;
        bool then_command;
} words[] = {
        {"if", ENDS_FI, 0, true},      {"fi", 0, ENDS_FI, false},       {"for", ENDS_DONE, 0, false},  {"select", ENDS_DONE, 0, false},
        {"while", ENDS_DONE, 0, true}, {"until", ENDS_DONE, 0, true},   {"done", 0, ENDS_DONE, false}, {"case", ENDS_ESAC, 0, false},
        {"esac", 0, ENDS_ESAC, false}, {"{", '}', 0, true},             {"}", 0, '}', false},          {"then", 0, 0, true},
        {"else", 0, 0, true},          {"elif", 0, 0, true},            {"do", 0, 0, true},            {"!", 0, 0, true},
        {"time", 0, 0, true},
};

static bool ends_word(char c)
{
        return isspace((unsigned char)c) || strchr(";&|()<>\"'`$\\", c);
}

/* A word without quotes; its length. */
static size_t scan_word(struct block *b, const char *line, size_t size, size_t i)
{
        size_t n = 1;

        while (i + n < size && !ends_word(line[i + n]))
                n++;
        if (!b->command)
                return n;
        b->command = false;
        for (size_t w = 0; w < ARRAY_SIZE(words); w++) {
                if (strlen(words[w].word) != n || memcmp(words[w].word, line + i, n) != 0)
                        continue;
                if (words[w].opens)
                        block_push(b, words[w].opens);
                if (words[w].closes)
                        block_pop(b, words[w].closes);
                b->command = words[w].then_command;
        }
        return n;
}

static bool is_quoting(char c)
{
        return c == '"' || c == '\'' || c == '\\';
}

/* "<<WORD" and "<<-WORD"; WORD may be in quotes. */
static size_t scan_heredoc(struct block *b, const char *line, size_t size, size_t i)
{
        struct block_heredoc *h = &b->heredocs[b->n_heredocs];
        size_t at = i + 2, n = 0;

        if (at < size && line[at] == '<')
                return 3; /* a string, not a document */
        if (b->n_heredocs == BLOCK_HEREDOCS_MAX) {
                b->broken = true;
                return 2;
        }
        *h = (struct block_heredoc){.tabs = at < size && line[at] == '-'};
        at += h->tabs;
        while (at < size && (line[at] == ' ' || line[at] == '\t'))
                at++;
        for (; at < size && (is_quoting(line[at]) || !ends_word(line[at])); at++)
                if (is_quoting(line[at]))
                        continue;
                else if (n + 1 < sizeof(h->delimiter))
                        h->delimiter[n++] = line[at];
                else
                        b->broken = true;
        b->n_heredocs += n > 0;
        return at - i;
}

/* "(" and "(("; the number of bytes. */
static size_t open_bracket(struct block *b, const char *line, size_t size, size_t i)
{
        bool arithmetic = i + 1 < size && line[i + 1] == '(';

        block_push(b, arithmetic ? ARITHMETIC : ')');
        b->command = !arithmetic;
        return arithmetic ? 2 : 1;
}

/* "$(", "$((", "${" and what is no more than a dollar. */
static size_t scan_dollar(struct block *b, const char *line, size_t size, size_t i)
{
        char next = i + 1 < size ? line[i + 1] : 0;

        if (next == '(')
                return 1 + open_bracket(b, line, size, i + 1);
        b->command = false;
        if (next == '{') {
                block_push(b, PARAMETER);
                return 2;
        }
        return next == '#' ? 2 : 1; /* the number of arguments, not a comment */
}

static size_t scan_operator(struct block *b, const char *line, size_t size, size_t i)
{
        char c = line[i], next = i + 1 < size ? line[i + 1] : 0;
        unsigned char top = block_top(b);

        if (c == '<' && next == '<')
                return scan_heredoc(b, line, size, i);
        if (c == '<' || c == '>') {
                if (next == '(')
                        return 1 + open_bracket(b, line, size, i + 1);
                return next == '&' || next == '|' ? 2 : 1;
        }
        if (c == '(')
                return open_bracket(b, line, size, i);
        b->command = true;
        if (c == ')' && top != ENDS_ESAC) /* where it ends a pattern */
                block_pop(b, ')');
        return 1;
}

static size_t scan_code(struct block *b, const char *line, size_t size, size_t i)
{
        char c = line[i];

        if (isspace((unsigned char)c))
                return 1;
        if (c == '#' && (i == 0 || strchr(" \t;&|()`", line[i - 1])))
                return 0;
        if (c == '\\') {
                b->continued = i + 1 == size;
                b->command = b->command && b->continued;
                return 2;
        }
        bool joins = c == '|' || (c == '&' && b->last == '&' && i > 0 && line[i - 1] == '&');
        b->last = joins ? '|' : c;
        if (c == '$')
                return scan_dollar(b, line, size, i);
        if (strchr(";&|()<>", c))
                return scan_operator(b, line, size, i);
        if (c == '\'' || c == '"' || c == '`') {
                if (c == '`' && block_top(b) == '`') {
                        block_pop(b, '`');
                        b->command = false;
                } else {
                        block_push(b, (unsigned char)c);
                        b->command = c == '`';
                }
                return 1;
        }
        return scan_word(b, line, size, i);
}

/* Within (( )). */
static size_t scan_arithmetic(struct block *b, const char *line, size_t size, size_t i)
{
        unsigned char top = block_top(b);
        char c = line[i];

        if (c == '$')
                return scan_dollar(b, line, size, i);
        if (c == '(')
                block_push(b, NESTED);
        if (c != ')')
                return 1;
        block_pop(b, top);
        b->command = top == ARITHMETIC;
        return top == ARITHMETIC ? 2 : 1;
}

/* Within quotes and ${}. */
static size_t scan_quoted(struct block *b, const char *line, size_t size, size_t i)
{
        unsigned char top = block_top(b);
        char c = line[i];

        if (top == '\'') {
                if (c == '\'')
                        block_pop(b, top);
                return 1;
        }
        if (c == '\\') {
                b->continued = i + 1 == size;
                return 2;
        }
        if ((unsigned char)c == (top == PARAMETER ? '}' : top)) {
                block_pop(b, top);
                return 1;
        }
        if (c == '$')
                return scan_dollar(b, line, size, i);
        if (c == '`' || (top == PARAMETER && (c == '"' || c == '\'')))
                block_push(b, (unsigned char)c);
        return 1;
}

/* Whether the line belongs to a here-document. */
static bool take_heredoc(struct block *b, const char *line, size_t size)
{
        if (b->heredoc == b->n_heredocs)
                return false;
        const struct block_heredoc *h = &b->heredocs[b->heredoc];
        while (h->tabs && size > 0 && *line == '\t') {
                line++;
                size--;
        }
        if (size == strlen(h->delimiter) && memcmp(line, h->delimiter, size) == 0)
                b->heredoc++;
        if (b->heredoc == b->n_heredocs)
                b->heredoc = b->n_heredocs = 0;
        return true;
}

void block_scan_bash(struct block *b, const char *line, size_t size)
{
        if (take_heredoc(b, line, size))
                return;
        for (size_t i = 0; i < size && !b->broken;) {
                unsigned char top = block_top(b);
                size_t n = top == '\'' || top == '"' || top == PARAMETER ? scan_quoted(b, line, size, i)
                           : top == ARITHMETIC || top == NESTED          ? scan_arithmetic(b, line, size, i)
                                                                         : scan_code(b, line, size, i);
                if (n == 0)
                        break;
                i += n;
        }
        if (b->continued)
                return;
        /* "a |" and "a &&" want another command. */
        b->continued = b->last == '|';
        if (!b->continued)
                b->last = 0;
        b->command = true;
}
