/* SPDX-License-Identifier: Apache-2.0
 *
 * Python's words. Any bytes are some: what Python would refuse is passed over. */
#ifndef GUARD_READER_LEXER_H
#define GUARD_READER_LEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum token_kind { TOKEN_END, TOKEN_NEWLINE, TOKEN_NAME, TOKEN_NUMBER, TOKEN_STRING, TOKEN_OPERATOR, TOKEN_COMMAND };

enum word {
        WORD_NONE, WORD_AND, WORD_AS, WORD_ASSERT, WORD_ASYNC, WORD_AWAIT, WORD_BREAK, WORD_CLASS, WORD_CONTINUE, WORD_DEF, WORD_DEL, WORD_ELIF,
        WORD_ELSE, WORD_EXCEPT, WORD_FINALLY, WORD_FOR, WORD_FROM, WORD_GLOBAL, WORD_IF, WORD_IMPORT, WORD_IN, WORD_IS, WORD_LAMBDA, WORD_NONLOCAL,
        WORD_NOT, WORD_OR, WORD_PASS, WORD_RAISE, WORD_RETURN, WORD_TRY, WORD_WHILE, WORD_WITH, WORD_YIELD,
};

#define OP2(a, b) ((uint32_t)(a) | (uint32_t)(b) << 8)
#define OP3(a, b, c) (OP2(a, b) | (uint32_t)(c) << 16)

struct place {
        uint32_t line, column; /* from 1; bytes */
};

struct token {
        enum token_kind kind;
        enum word word;      /* of a name that is a keyword */
        uint32_t op;         /* of an operator: its characters */
        struct place place;
        const char *text;    /* of a string: between its quotes; of a formatted one: behind the first */
        size_t size;
        char quote;          /* of a string */
        bool triple, raw, bytes, formatted;
};

struct lexer {
        const char *at, *end, *line_start;
        uint32_t line;
        uint32_t depth;       /* of brackets */
        bool begins;          /* nothing of this line was read yet */
        bool fixed;           /* code out of a string: all of it is where that string is used */
        struct place fixed_place;
};

void lexer_init(struct lexer *l, const char *text, size_t size);
void lexer_next(struct lexer *l, struct token *ret);
/* Whether the code says (PEP 263) that its bytes are not what they seem: in some encodings a comment may be code. */
bool lexer_is_encoded(const char *text, size_t size);

/* A piece of a formatted string, up to where it cannot go on as text. PIECE_MORE: the next piece follows (a doubled brace was in between). */
enum piece_end { PIECE_MORE, PIECE_OPEN, PIECE_CLOSE, PIECE_QUOTE };
/* in_format: behind the colon of a field, where } is its end. */
enum piece_end lexer_piece(struct lexer *l, const struct token *string, bool in_format, const char **ret_text, size_t *ret_size);
/* The rest of a string as if it were no formatted one. */
void lexer_skip_string(struct lexer *l, const struct token *string);
/* The rest of the line, for what is no Python. */
void lexer_rest_of_line(struct lexer *l, const char **ret_text, size_t *ret_size);

#endif
