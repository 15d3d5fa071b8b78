/* SPDX-License-Identifier: Apache-2.0
 *
 * The program glovebox-rules: files of YAML in, compiled rules (guard/rules.h) out. It is the only part that is linked with vectorscan's compiler. */
#ifndef GUARD_COMPILE_COMPILE_H
#define GUARD_COMPILE_COMPILE_H

#include "base/buffer.h"
#include "base/document.h"
#include "base/limits.h"
#include "guard/rules.h"

/* A rule as it stands in its file. */
struct entry {
        const struct document *doc;
        const json_t *rule; /* a mapping */
        const char *id, *set;
        bool is_shape;
        bool is_extra; /* of an operator's file: it takes the place of a shipped one of the same id */
};

struct entries {
        struct entry *rows;
        size_t n, allocated;
};

/* Adds the rules of a document, whose keys and ids are checked. The document stays in use. */
int entries_add(struct entries *all, const struct document *doc, bool is_extra, gb_error *err);

/* A pattern, and what to say about it. */
struct pattern {
        char *text;
        struct place at;
};

struct patterns {
        struct pattern *rows;
        size_t n, allocated;
};

/* What becomes the piece. Arrays of the structs of rules.h. */
struct piece {
        struct buffer texts, code, code_patterns, shapes, starts, examples;
        struct patterns code_texts;  /* by number */
        struct patterns shape_texts; /* 2 * i: a shape's; 2 * i + 1: its lead, or NULL */
};

int piece_add_code(struct piece *p, const struct entry *e, gb_error *err);
int piece_add_shape(struct piece *p, const struct entry *e, gb_error *err);
/* All of it, with its databases. */
int piece_write(struct piece *p, struct buffer *out, gb_error *err);
void piece_done(struct piece *p);

/* Adds a text with its NUL; where it is. A negative errno when there is no room. */
int piece_text(struct piece *p, const char *text, uint32_t *ret);
int patterns_add(struct patterns *l, const char *text, const struct place *at);

/* ---- reading (values.c): a rule's keys ---- */

/* The place of a key of the rule. */
struct place entry_place(const struct entry *e, const char *key);
/* An error about a rule as a whole, at its id. */
int entry_error(const struct entry *e, gb_error *err, const char *format, ...) _printf_(3, 4);
int entry_check_keys(const struct entry *e, const char *const names[], size_t n, gb_error *err);
/* NULL in *ret when the key is not there and not required. */
int entry_text(const struct entry *e, const char *key, bool required, const char **ret, gb_error *err);
int entry_bool(const struct entry *e, const char *key, bool *ret, gb_error *err);
/* A list of texts, or one text; each is handed to take. */
int entry_texts(const struct entry *e, const char *key, bool required, int (*take)(void *data, const struct place *at, const char *text, gb_error *err), void *data,
                gb_error *err);
/* The same as a list of names in the texts: each with its NUL, an empty one at the end; 0: there is none. */
int entry_list(struct piece *p, const struct entry *e, const char *key, uint32_t *ret, gb_error *err);
/* Names of files that hold credentials, into rule->files. */
int entry_files(struct piece *p, const struct entry *e, struct code_rule *rule, gb_error *err);
/* The examples of a rule, at least one of each kind. */
int piece_add_examples(struct piece *p, const struct entry *e, uint32_t rule, gb_error *err);

/* ---- patterns (expression.c) ---- */

enum expression_mode { EXPRESSION_STREAM, EXPRESSION_BLOCK };

struct expression_facts {
        uint32_t min;     /* bytes that it matches at least */
        uint32_t max;     /* and at most; UINT32_MAX: there is no largest number */
};

/* Whether vectorscan can read it. */
int expression_check(const char *text, enum expression_mode mode, const struct place *at, struct expression_facts *ret, gb_error *err);
/* A database out of all; size 0 where there is no pattern. */
int expression_build(const struct patterns *l, enum expression_mode mode, struct buffer *out, gb_error *err);
/* Of the library, for the head. */
const char *expression_version(void);

#endif
