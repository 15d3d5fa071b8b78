/* SPDX-License-Identifier: Apache-2.0
 *
 * Theory of operation. A scanner goes over each line once and keeps a stack of what is open: a bracket or a quote by
 * the character that closes it, and by a letter what needs more than one. The top of the stack says how the next
 * character is read. Nothing of a line is kept but this state, so a long block costs no more than its length. */
#include "cli/block.h"

#include "base/macro.h"

#include <ctype.h>
#include <string.h>

/* Python */
#define TRIPLE_SINGLE 'S'
#define TRIPLE_DOUBLE 'D'
/* Node */
#define TEMPLATE '`'
#define TEMPLATE_CODE 'T' /* ${ in a template; a "}" closes it */
#define COMMENT '*'

void block_init(struct block *b, const char *language)
{
        static const struct {
                const char *language;
                void (*scan)(struct block *b, const char *line, size_t size);
        } rows[] = {{"python", block_scan_python}, {"bash", block_scan_bash}, {"node", block_scan_node}};

        *b = (struct block){.command = true};
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (strcmp(rows[i].language, language) == 0)
                        b->scan = rows[i].scan;
}

void block_push(struct block *b, unsigned char end)
{
        if (b->depth == sizeof(b->open))
                b->broken = true;
        else
                b->open[b->depth++] = end;
}

unsigned char block_top(const struct block *b)
{
        return b->depth > 0 ? b->open[b->depth - 1] : 0;
}

void block_pop(struct block *b, unsigned char end)
{
        if (block_top(b) == end)
                b->depth--;
        else
                b->broken = true;
}

static bool is_empty(const char *line, size_t size)
{
        for (size_t i = 0; i < size; i++)
                if (!isspace((unsigned char)line[i]))
                        return false;
        return true;
}

bool block_add_line(struct block *b, const char *line, size_t size)
{
        bool was_open = b->depth > 0 || b->continued || b->heredoc < b->n_heredocs;

        b->continued = false;
        if (b->scan)
                b->scan(b, line, size);
        if (b->broken)
                return true;
        if (b->depth > 0 || b->continued || b->heredoc < b->n_heredocs)
                return false;
        return !b->until_empty || (!was_open && is_empty(line, size));
}

/* The character that closes c, 0 when it opens nothing. */
static unsigned char closes(char c)
{
        return c == '(' ? ')' : c == '[' ? ']' : c == '{' ? '}' : 0;
}

static bool is_closer(char c)
{
        return c == ')' || c == ']' || c == '}';
}

/* ---- Python ---- */

static bool is_quote(unsigned char top)
{
        return top == '\'' || top == '"' || top == TRIPLE_SINGLE || top == TRIPLE_DOUBLE;
}

/* A character within a string; returns how many bytes were taken. */
static size_t scan_python_string(struct block *b, const char *line, size_t size, size_t i)
{
        unsigned char top = block_top(b);
        char quote = top == TRIPLE_SINGLE ? '\'' : top == TRIPLE_DOUBLE ? '"' : (char)top;

        if (line[i] == '\\') {
                b->continued = i + 1 == size;
                return 2;
        }
        if (line[i] != quote)
                return 1;
        if (top == (unsigned char)quote) {
                block_pop(b, top);
                return 1;
        }
        if (i + 2 < size && line[i + 1] == quote && line[i + 2] == quote) {
                block_pop(b, top);
                return 3;
        }
        return 1;
}

static size_t open_python_string(struct block *b, const char *line, size_t size, size_t i)
{
        bool triple = i + 2 < size && line[i + 1] == line[i] && line[i + 2] == line[i];

        b->last = line[i];
        block_push(b, !triple ? (unsigned char)line[i] : line[i] == '"' ? TRIPLE_DOUBLE : TRIPLE_SINGLE);
        return triple ? 3 : 1;
}

/* A character of code; 0: the rest is a comment. */
static size_t scan_python_code(struct block *b, const char *line, size_t size, size_t i)
{
        char c = line[i];

        if (c == '#')
                return 0;
        if (isspace((unsigned char)c))
                return 1;
        if (c == '\\' && i + 1 == size) {
                b->continued = true;
                return 1;
        }
        if (c == '@' && b->last == 0)
                b->decorated = true;
        if (c == '\'' || c == '"')
                return open_python_string(b, line, size, i);
        b->last = c;
        if (closes(c))
                block_push(b, closes(c));
        else if (is_closer(c))
                block_pop(b, (unsigned char)c);
        return 1;
}

void block_scan_python(struct block *b, const char *line, size_t size)
{
        for (size_t i = 0; i < size && !b->broken;) {
                size_t n = is_quote(block_top(b)) ? scan_python_string(b, line, size, i) : scan_python_code(b, line, size, i);
                if (n == 0)
                        break;
                i += n;
        }
        unsigned char top = block_top(b);
        if ((top == '\'' || top == '"') && !b->continued)
                b->broken = true; /* a string that ends with its line */
        if (b->depth > 0 || b->continued)
                return;
        /* The logical line is whole. */
        if (b->last == ':' || b->decorated)
                b->until_empty = true;
        b->last = 0;
        b->decorated = false;
}

/* ---- Node ---- */

static size_t scan_node_string(struct block *b, const char *line, size_t size, size_t i)
{
        unsigned char top = block_top(b);

        if (line[i] == '\\') {
                b->continued = i + 1 == size;
                return 2;
        }
        if ((unsigned char)line[i] == top) {
                block_pop(b, top);
                return 1;
        }
        if (top == TEMPLATE && line[i] == '$' && i + 1 < size && line[i + 1] == '{') {
                block_push(b, TEMPLATE_CODE);
                b->last = '{';
                return 2;
        }
        return 1;
}

/* A regular expression from its first "/"; returns its length, or 1: it was a division. */
static size_t skip_regex(const char *line, size_t size, size_t i)
{
        bool in_class = false;

        for (size_t at = i + 1; at < size; at++) {
                if (line[at] == '\\')
                        at++;
                else if (line[at] == '[')
                        in_class = true;
                else if (line[at] == ']')
                        in_class = false;
                else if (line[at] == '/' && !in_class)
                        return at + 1 - i;
        }
        return 1;
}

/* What begins with a slash; 0: the rest is a comment. */
static size_t scan_node_slash(struct block *b, const char *line, size_t size, size_t i)
{
        char next = i + 1 < size ? line[i + 1] : 0, before = b->last;

        if (next == '/')
                return 0;
        if (next == '*') {
                block_push(b, COMMENT);
                return 2;
        }
        b->last = '/';
        /* After a value it divides. */
        if (isalnum((unsigned char)before) || (before && strchr("_$)]'\"`}", before)))
                return 1;
        b->last = ')';
        return skip_regex(line, size, i);
}

static size_t scan_node_code(struct block *b, const char *line, size_t size, size_t i)
{
        char c = line[i];

        if (isspace((unsigned char)c))
                return 1;
        if (c == '/')
                return scan_node_slash(b, line, size, i);
        b->last = c;
        if (c == '\'' || c == '"' || c == TEMPLATE)
                block_push(b, (unsigned char)c);
        else if (closes(c))
                block_push(b, closes(c));
        else if (c == '}' && block_top(b) == TEMPLATE_CODE)
                block_pop(b, TEMPLATE_CODE);
        else if (is_closer(c))
                block_pop(b, (unsigned char)c);
        return 1;
}

static size_t scan_node_comment(struct block *b, const char *line, size_t size, size_t i)
{
        if (line[i] != '*' || i + 1 == size || line[i + 1] != '/')
                return 1;
        block_pop(b, COMMENT);
        return 2;
}

void block_scan_node(struct block *b, const char *line, size_t size)
{
        for (size_t i = 0; i < size && !b->broken;) {
                unsigned char top = block_top(b);
                size_t n = top == COMMENT                                  ? scan_node_comment(b, line, size, i)
                           : top == '\'' || top == '"' || top == TEMPLATE ? scan_node_string(b, line, size, i)
                                                                          : scan_node_code(b, line, size, i);
                if (n == 0)
                        break;
                i += n;
        }
        unsigned char top = block_top(b);
        if ((top == '\'' || top == '"') && !b->continued)
                b->broken = true;
}
