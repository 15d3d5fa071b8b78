/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/reader/lexer.h"

#include "base/macro.h"

#include <string.h>

void lexer_init(struct lexer *l, const char *text, size_t size)
{
        *l = (struct lexer){.at = text, .end = text + size, .line_start = text, .line = 1, .begins = true};
        if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
                l->at += 3;
                l->line_start += 3;
        }
}

/* The name that stands behind `coding:`, if it is one in which ASCII is ASCII. */
static bool is_plain_encoding(const char *text, size_t size)
{
        static const char *const names[] = {
                "utf-8", "utf8", "utf-8-sig", "u8", "ascii", "us-ascii", "latin-1", "latin1", "iso-8859-1", "iso-8859-15", "iso-latin-1", "cp1252",
        };
        char name[16] = "";

        for (size_t i = 0; i < size && i < sizeof(name); i++)
                name[i] = text[i] == '_' ? '-' : text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] | 0x20) : text[i];
        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (strlen(names[i]) == size && memcmp(names[i], name, size) == 0)
                        return true;
        return false;
}

bool lexer_is_encoded(const char *text, size_t size)
{
        static const char blanks[] = " \t\f", letters[] = "-_.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", word[] = "coding";
        const char *end = text + size;

        for (int line = 0; line < 2 && text < end; line++) {
                const char *stop = text;
                while (stop < end && *stop != '\n' && *stop != '\r')
                        stop++;
                while (text < stop && (*text & 0x80 || memchr(blanks, *text, sizeof(blanks) - 1)))
                        text++; /* and a BOM */
                const char *at = text < stop && *text == '#' ? text : stop;
                while ((at = memmem(at, (size_t)(stop - at), word, sizeof(word) - 1))) {
                        at += sizeof(word) - 1;
                        if (at >= stop || (*at != ':' && *at != '='))
                                continue;
                        for (at++; at < stop && (*at == ' ' || *at == '\t'); at++)
                                ;
                        const char *name = at;
                        while (at < stop && memchr(letters, *at, sizeof(letters) - 1))
                                at++;
                        if (at > name)
                                return !is_plain_encoding(name, (size_t)(at - name));
                }
                text = stop;
                text += end - text > 1 && text[0] == '\r' && text[1] == '\n' ? 2 : text < end;
        }
        return false;
}

static char peek(const struct lexer *l, size_t n)
{
        return (size_t)(l->end - l->at) > n ? l->at[n] : '\0';
}

static bool is_digit(char c)
{
        return c >= '0' && c <= '9';
}

static bool is_name_start(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

static bool is_line_end(char c)
{
        return c == '\n' || c == '\r'; /* to Python a lone \r is one, too */
}

static struct place here(const struct lexer *l)
{
        if (l->fixed)
                return l->fixed_place;
        return (struct place){l->line, (uint32_t)(l->at - l->line_start) + 1};
}

/* Behind the end of the line that stands here. */
static void pass_line_end(struct lexer *l)
{
        l->at += peek(l, 0) == '\r' && peek(l, 1) == '\n' ? 2 : 1;
        l->line++;
        l->line_start = l->at;
}

static void pass_rest(struct lexer *l)
{
        while (l->at < l->end && !is_line_end(*l->at))
                l->at++;
}

void lexer_rest_of_line(struct lexer *l, const char **ret_text, size_t *ret_size)
{
        const char *start = l->at;

        pass_rest(l);
        while (start < l->at && (*start == ' ' || *start == '\t'))
                start++;
        *ret_text = start;
        *ret_size = (size_t)(l->at - start);
}

/* ---- names ---- */

static enum word word_of(const char *text, size_t size)
{
        static const struct {
                char text[9];
                uint8_t size;
                uint8_t word;
        } words[] = {
                {"and", 3, WORD_AND}, {"as", 2, WORD_AS}, {"assert", 6, WORD_ASSERT}, {"async", 5, WORD_ASYNC}, {"await", 5, WORD_AWAIT},
                {"break", 5, WORD_BREAK}, {"class", 5, WORD_CLASS}, {"continue", 8, WORD_CONTINUE}, {"def", 3, WORD_DEF}, {"del", 3, WORD_DEL},
                {"elif", 4, WORD_ELIF}, {"else", 4, WORD_ELSE}, {"except", 6, WORD_EXCEPT}, {"finally", 7, WORD_FINALLY}, {"for", 3, WORD_FOR},
                {"from", 4, WORD_FROM}, {"global", 6, WORD_GLOBAL}, {"if", 2, WORD_IF}, {"import", 6, WORD_IMPORT}, {"in", 2, WORD_IN},
                {"is", 2, WORD_IS}, {"lambda", 6, WORD_LAMBDA}, {"nonlocal", 8, WORD_NONLOCAL}, {"not", 3, WORD_NOT}, {"or", 2, WORD_OR},
                {"pass", 4, WORD_PASS}, {"raise", 5, WORD_RAISE}, {"return", 6, WORD_RETURN}, {"try", 3, WORD_TRY}, {"while", 5, WORD_WHILE},
                {"with", 4, WORD_WITH}, {"yield", 5, WORD_YIELD},
        };

        if (size < 2 || size > 8)
                return WORD_NONE;
        for (size_t i = 0; i < ARRAY_SIZE(words) && words[i].text[0] <= text[0]; i++)
                if (words[i].size == size && memcmp(words[i].text, text, size) == 0)
                        return (enum word)words[i].word;
        return WORD_NONE;
}

static void lex_name(struct lexer *l, struct token *t)
{
        t->kind = TOKEN_NAME;
        t->text = l->at;
        while (l->at < l->end && (is_name_start(*l->at) || is_digit(*l->at)))
                l->at++;
        t->size = (size_t)(l->at - t->text);
        t->word = word_of(t->text, t->size);
}

static void lex_number(struct lexer *l, struct token *t)
{
        char radix = (char)(peek(l, 1) | 0x20);

        t->kind = TOKEN_NUMBER;
        t->text = l->at;
        if (*l->at == '0' && (radix == 'x' || radix == 'o' || radix == 'b')) {
                l->at += 2;
                while (l->at < l->end &&
                       (is_digit(*l->at) || *l->at == '_' || (radix == 'x' && (*l->at | 0x20) >= 'a' && (*l->at | 0x20) <= 'f')))
                        l->at++;
        } else {
                while (l->at < l->end && (is_digit(*l->at) || *l->at == '_' || *l->at == '.'))
                        l->at++;
                char sign = peek(l, 1);
                if ((peek(l, 0) | 0x20) == 'e' && (is_digit(sign) || ((sign == '+' || sign == '-') && is_digit(peek(l, 2)))))
                        for (l->at += 2; l->at < l->end && (is_digit(*l->at) || *l->at == '_'); l->at++)
                                ;
                if ((peek(l, 0) | 0x20) == 'j')
                        l->at++;
        }
        t->size = (size_t)(l->at - t->text);
}

/* ---- strings ---- */

static bool closes(const struct lexer *l, const struct token *t)
{
        return *l->at == t->quote && (!t->triple || (peek(l, 1) == t->quote && peek(l, 2) == t->quote));
}

void lexer_skip_string(struct lexer *l, const struct token *t)
{
        while (l->at < l->end && !closes(l, t)) {
                if (*l->at == '\\' && l->end - l->at > 1)
                        l->at++; /* what is behind it ends nothing, in raw strings neither */
                else if (is_line_end(*l->at) && !t->triple)
                        return;
                if (is_line_end(*l->at))
                        pass_line_end(l);
                else
                        l->at++;
        }
}

/* Whether a string begins here; then t says which. */
static bool lex_string(struct lexer *l, struct token *t)
{
        size_t n = 0;
        bool raw = false, bytes = false, formatted = false;

        for (; n < 3; n++) {
                char c = (char)(peek(l, n) | 0x20);
                if (c == 'r' && !raw)
                        raw = true;
                else if (c == 'b' && !bytes)
                        bytes = true;
                else if ((c == 'f' || c == 't') && !formatted)
                        formatted = true;
                else if (c != 'u')
                        break;
        }
        char quote = peek(l, n);
        if (quote != '"' && quote != '\'')
                return false;
        t->kind = TOKEN_STRING;
        t->quote = quote;
        t->raw = raw;
        t->bytes = bytes;
        t->formatted = formatted;
        t->triple = peek(l, n + 1) == quote && peek(l, n + 2) == quote;
        l->at += n + (t->triple ? 3 : 1);
        t->text = l->at;
        if (formatted)
                return true;
        lexer_skip_string(l, t);
        t->size = (size_t)(l->at - t->text);
        if (l->at < l->end && closes(l, t))
                l->at += t->triple ? 3 : 1;
        return true;
}

/* Behind a backslash in a formatted string. */
static void pass_escape(struct lexer *l, const struct token *t)
{
        l->at++;
        if (l->at >= l->end || *l->at == '{' || *l->at == '}')
                return;
        if (!t->raw && *l->at == 'N' && peek(l, 1) == '{') {
                const char *at = l->at;
                while (at < l->end && *at != '}' && *at != t->quote && !is_line_end(*at))
                        at++;
                if (at < l->end && *at == '}')
                        l->at = at + 1;
                else
                        l->at++;
        } else if (is_line_end(*l->at)) {
                pass_line_end(l);
        } else {
                l->at++;
        }
}

enum piece_end lexer_piece(struct lexer *l, const struct token *t, bool in_format, const char **ret_text, size_t *ret_size)
{
        const char *start = l->at;
        enum piece_end end = PIECE_QUOTE;
        size_t pass = 0;

        for (;;) {
                if (l->at >= l->end || (is_line_end(*l->at) && !t->triple))
                        break;
                char c = *l->at;
                if (closes(l, t)) {
                        pass = t->triple ? 3 : 1;
                        break;
                }
                if ((c == '{' || c == '}') && !in_format && peek(l, 1) == c) {
                        *ret_text = start;
                        *ret_size = (size_t)(l->at - start) + 1;
                        l->at += 2;
                        return PIECE_MORE;
                }
                if (c == '{' || (c == '}' && in_format)) {
                        end = c == '{' ? PIECE_OPEN : PIECE_CLOSE;
                        pass = 1;
                        break;
                }
                if (c == '\\')
                        pass_escape(l, t);
                else if (is_line_end(c))
                        pass_line_end(l);
                else
                        l->at++;
        }
        *ret_text = start;
        *ret_size = (size_t)(l->at - start);
        l->at += pass;
        return end;
}

/* ---- operators ---- */

static void lex_operator(struct lexer *l, struct token *t)
{
        static const char three[][4] = {"**=", "//=", ">>=", "<<=", "..."};
        static const char two[][3] = {
                "**", "//", ">>", "<<", "<=", ">=", "==", "!=", "->", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "@=", ":=", "<>",
        };
        char second = peek(l, 1);
        bool longer = second == '=' || second == '*' || second == '/' || second == '<' || second == '>' || second == '.';
        size_t n = 1;

        t->kind = TOKEN_OPERATOR;
        t->text = l->at;
        for (size_t i = 0; longer && n == 1 && i < ARRAY_SIZE(three); i++)
                if (l->end - l->at >= 3 && memcmp(l->at, three[i], 3) == 0)
                        n = 3;
        for (size_t i = 0; longer && n == 1 && i < ARRAY_SIZE(two); i++)
                if (l->end - l->at >= 2 && memcmp(l->at, two[i], 2) == 0)
                        n = 2;
        for (size_t i = 0; i < n; i++)
                t->op |= (uint32_t)(unsigned char)l->at[i] << (8 * i);
        t->size = n;
        l->at += n;
        if (t->op == '(' || t->op == '[' || t->op == '{')
                l->depth++;
        else if ((t->op == ')' || t->op == ']' || t->op == '}') && l->depth > 0)
                l->depth--;
}

/* IPython: `!command`, `%magic`; below `%%magic` all is its text. */
static void lex_command(struct lexer *l, struct token *t)
{
        bool whole = *l->at == '%' && peek(l, 1) == '%';

        t->kind = TOKEN_COMMAND;
        while (l->at < l->end && (*l->at == '!' || *l->at == '%'))
                l->at++;
        lexer_rest_of_line(l, &t->text, &t->size);
        if (whole) {
                t->size = (size_t)(l->end - t->text);
                l->at = l->end;
        }
}

/* ---- the whole ---- */

/* Blanks, comments, continued lines. True when a line has ended. */
static bool pass_blanks(struct lexer *l)
{
        while (l->at < l->end) {
                char c = *l->at;
                if (c == '#') {
                        pass_rest(l);
                } else if (c == '\\' && l->end - l->at > 1 && is_line_end(l->at[1])) {
                        l->at++;
                        pass_line_end(l);
                } else if (is_line_end(c)) {
                        bool ends = l->depth == 0 && !l->begins;
                        if (ends)
                                return true;
                        pass_line_end(l);
                } else if (c == ' ' || c == '\t' || c == '\f' || c == '\v' || c == '\0') {
                        l->at++;
                } else {
                        break;
                }
        }
        return false;
}

void lexer_next(struct lexer *l, struct token *t)
{
        bool ended = pass_blanks(l);

        *t = (struct token){.kind = TOKEN_END, .place = here(l), .text = l->at};
        if (ended) {
                t->kind = TOKEN_NEWLINE;
                l->begins = true;
                pass_line_end(l);
                return;
        }
        if (l->at >= l->end)
                return;
        bool first = l->begins;
        char c = *l->at;
        l->begins = false;
        if (first && l->depth == 0 && (c == '!' || c == '%'))
                lex_command(l, t);
        else if (is_digit(c) || (c == '.' && is_digit(peek(l, 1))))
                lex_number(l, t);
        else if ((is_name_start(c) || c == '"' || c == '\'') && lex_string(l, t))
                return;
        else if (is_name_start(c))
                lex_name(l, t);
        else
                lex_operator(l, t);
}
