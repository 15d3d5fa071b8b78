/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the reader.
 *
 * An expression becomes a value: a text as far as it is constant, with {} for what is not; a dotted name; a number; a list. A text that is put into a larger
 * one is not told by itself; one that goes no further is (reader_show()). So what is told is always the largest constant there is.
 *
 * Texts are made in an arena, and a text that lies at its end grows in place: a chain of a million + copies each byte once. What was made for a statement
 * is dropped behind it, unless a name was given to it. Every copy is paid for from a fixed purse (reader_spend()); who has spent all gets no more texts
 * put together, but is still read to the end. */
#ifndef GUARD_READER_STATE_H
#define GUARD_READER_STATE_H

#include "base/limits.h"
#include "guard/reader/lexer.h"
#include "guard/reader/read.h"

#include <string.h>

enum value_kind {
        VALUE_UNKNOWN,
        VALUE_TEXT,
        VALUE_NAME, /* dotted; with () where the result of a call is meant */
        VALUE_NUMBER,
        VALUE_LIST,
        VALUE_DICT, /* keys and values by turns */
};

enum {
        VALUE_HOLES = 1,    /* a text in which {} stands for something */
        VALUE_SHOWN = 2,    /* told already */
        VALUE_LONE = 4,     /* string literals and nothing else */
        VALUE_CUT = 8,      /* a list with more in it than is known */
        VALUE_KEYWORD = 16, /* an argument that was given by name */
        VALUE_CHR = 32,     /* chr() of the name in path */
        VALUE_STAR = 64,    /* *argument */
};

struct value {
        uint8_t kind;
        uint8_t flags;
        uint8_t call_size;
        struct place place;
        uint32_t size; /* of text; members of a list */
        union {
                const char *text;
                int64_t number;
                struct value *members;
        };
        const char *path; /* as it is written: what is assigned to, or the keyword of an argument */
        uint32_t path_size;
        const char *call; /* that gave it, as it was told; NULL: none, or a long one */
};

struct item {
        enum reader_kind kind;
        struct place place;
        uint32_t size;
        const char *text;
};

struct slot {
        const char *key; /* NULL: free */
        uint32_t size;
        bool gone;
        struct value value;
};

struct reader {
        struct lexer lexer;
        struct token token; /* the next that was not taken */
        unsigned depth, code_depth;
        unsigned no_in;           /* `in` is no operator: targets of a for */
        uint32_t format_depth;    /* of brackets, in a field of a formatted string; 0: in none */
        bool too_much;
        bool full;                /* no item can be told any more */
        bool kept;                /* something of this statement was remembered */
        bool own_print;           /* print is not Python's */

        char *arena, *top, *end, *mark;
        uint64_t work;

        reader_sink *sink;
        void *data;
        uint32_t n_told;
        uint64_t told_bytes;

        uint32_t n_stack, n_items;
        uint32_t named;     /* places of names that are not clean; stays from one code to the next */
        uint32_t name_mask; /* of their places: a short code needs few, and what is not touched need not be fetched */
        char call[READER_CALL_BYTES_MAX];
        struct value stack[READER_STACK_MAX];
        struct item items[READER_ITEMS_MAX], sorted[READER_ITEMS_MAX];
        struct slot names[READER_NAMES_MAX];
};

/* ---- value.c: texts, names, items ---- */
bool reader_spend(struct reader *r, size_t bytes);
/* NULL: there is no more; said in too_much. */
char *reader_allocate(struct reader *r, size_t size);
struct value value_unknown(struct place place);
struct value value_text(const char *text, size_t size, struct place place);
struct value value_name(const char *text, size_t size, struct place place);
struct value value_number(int64_t number, struct place place);
/* Its digits. */
struct value value_digits(struct reader *r, const struct value *number);
/* Takes what lies on the stack from base on. */
struct value value_list(struct reader *r, uint32_t base, struct place place);
static inline bool value_is(const struct value *v, const char *name)
{
        return v->kind == VALUE_NAME && v->size == strlen(name) && memcmp(v->text, name, v->size) == 0;
}
bool value_is_exact(const struct value *v); /* a text without holes */
/* v becomes a text when it is none, and text stands behind it. */
void text_append(struct reader *r, struct value *v, const char *text, size_t size);
void text_append_hole(struct reader *r, struct value *v);
void text_append_value(struct reader *r, struct value *v, struct value *more);
void reader_push(struct reader *r, struct value *v);
void reader_tell(struct reader *r, enum reader_kind kind, struct place place, const char *text, size_t size);
void reader_show(struct reader *r, struct value *v);
void reader_flush(struct reader *r);
void reader_assign(struct reader *r, const char *path, size_t size, const struct value *v);
void reader_forget_name(struct reader *r, const char *path, size_t size);
bool reader_find(struct reader *r, const char *path, size_t size, struct value *ret);

/* ---- literal.c ---- */
struct value literal_string(struct reader *r, const struct token *t, const char *text, size_t size);
struct value literal_number(const struct token *t);
/* Letters that Python takes for ASCII ones (NFKC) become those. */
void literal_name(struct reader *r, const char **text, size_t *size);
size_t utf8_put(uint32_t c, char out[4]);
/* letters.c: the letter of ASCII that a character is to Python; NUL: none. */
char letter_of(uint32_t c);

/* ---- decode.c: false when it is not of that kind. The result is new, or shares what it was made from. ---- */
bool decode_base64(struct reader *r, struct value *v);
bool decode_base32(struct reader *r, struct value *v);
bool decode_hex(struct reader *r, struct value *v);
bool decode_percent(struct reader *r, struct value *v);
bool decode_rot13(struct reader *r, struct value *v);

/* ---- fold.c ---- */
struct slice {
        bool is_slice, has[3];
        int64_t number[3];
};
struct value fold_binary(struct reader *r, uint32_t op, struct value *left, struct value *right);
struct value fold_subscript(struct reader *r, struct value *v, struct value *key, const struct slice *slice);
void fold_join_path(struct reader *r, struct value *v, struct value *more);
bool fold_reverse(struct reader *r, struct value *v);

/* ---- method.c: of a text; false when it is not known ---- */
bool fold_method(struct reader *r, struct value *v, const char *name, size_t size, struct value *args, uint32_t n);
/* % with a value */
bool fold_percent(struct reader *r, struct value *v, struct value *args);
bool fold_codec(struct reader *r, struct value *v, const struct value *codec);

/* ---- call.c ---- */
/* Tells the call and gives its result. name: of a method of callee, or NULL. */
struct value fold_call(struct reader *r, struct value *callee, const char *name, size_t size, struct value *args, uint32_t n);

/* ---- expression.c ---- */
void reader_next(struct reader *r);
bool reader_at(const struct reader *r, uint32_t op);
bool reader_at_word(const struct reader *r, enum word word);
bool reader_at_stop(const struct reader *r); /* the end of the line, or of all */
struct value read_expression(struct reader *r);
/* a, b, c: a list when there is a comma */
struct value read_expressions(struct reader *r);
/* Members up to the closing bracket, which is taken; they are on the stack. Returns whether there was a comma, and whether pairs. */
void read_members(struct reader *r, bool *ret_comma, bool *ret_pairs);
/* Names that are given a value that is not known. */
void forget_targets(struct reader *r, const struct value *v);

/* ---- string.c ---- */
struct value read_strings(struct reader *r);

/* ---- statement.c ---- */
void read_statements(struct reader *r);
void assign_value(struct reader *r, const struct value *target, struct value *v);
void read_code(struct reader *r, const struct value *text);

#endif
