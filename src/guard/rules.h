/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules as they are used: one piece of memory without pointers, made by the program glovebox-rules from files of YAML (docs/rules.md). The
 * shipped ones are made at build time and part of the program; an operator's are made when they are first met, and kept in a cache.
 *
 * Two kinds: rules about code (what is refused or remarked before it runs), and shapes (what a secret looks like in output). Text is an offset into the
 * texts of the piece: rules_text(). */
#ifndef GUARD_RULES_H
#define GUARD_RULES_H

#include "base/error.h"
#include "base/macro.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RULES_MAGIC "gbrules4"
#define RULES_ALIGN 64 /* of the piece in memory, and of each database in it */

/* What is done about code that a rule finds; the larger one counts. OFF: only as a switch. */
enum guard_action { GUARD_OFF, GUARD_LOG, GUARD_WARN, GUARD_BLOCK };

/* What a pattern of a code rule is held against. TEXT: the code as it is written; the others are what the reader finds in Python. A rule that says
 * nothing has STRING for Python, and OTHERS. */
enum guard_place { GUARD_IN_TEXT = 1, GUARD_IN_STRING = 2, GUARD_IN_IMPORT = 4, GUARD_IN_CALL = 8, GUARD_IN_OTHERS = 16 /* text, but of Python */ };

/* What a rule says of names of files: they hide one; such a name is shown all the same; the content of the file decides. */
enum rule_files { RULE_FILES_HIDDEN, RULE_FILES_SHOWN, RULE_FILES_KEYS };
#define RULE_FILES_KINDS 3

struct code_rule {
        uint32_t id, set, message, remedy;
        uint32_t languages; /* names, each with its NUL, an empty one at the end; 0: all */
        uint32_t imports;   /* the same: modules of Python, each for itself and what is below it; 0: none */
        uint32_t files[RULE_FILES_KINDS]; /* the same: names of files that hold credentials (hide/names.h); 0: none */
        uint32_t action;    /* enum guard_action */
};

/* Number i of the database of code. */
struct code_pattern {
        uint32_t rule;
        uint32_t places; /* bits of enum guard_place */
};

enum shape_check {
        SHAPE_CHECK_NONE,
        SHAPE_CHECK_GITHUB, /* the last six are the CRC-32 of the rest behind the first '_', in base 62 */
        SHAPE_CHECK_JWT,    /* the first piece is base64url of a JSON object with "alg" */
        SHAPE_CHECK_COUNT,
};

/* Where a candidate begins is told by its `start`s (struct shape_start). It ends before the first byte that is not in `chars`, behind the first `end` after its
 * start, or after `max` bytes. Then the pattern decides, from the candidate's first byte on, as long as it can be; then the rest below. */
struct shape_rule {
        uint32_t id, set, about;
        uint32_t min, max; /* bytes of a candidate */
        uint32_t end;      /* text; 0: none */
        uint32_t needs;    /* text that must be in a candidate, or the pattern is not even tried; 0: none */
        uint32_t except;   /* texts, an empty one at the end: a match with one of them in it is none; 0: none */
        uint32_t lead;     /* 1: what the lead pattern matches at its beginning stays */
        uint32_t keep_end; /* so many bytes at the end of a match stay as well */
        uint32_t check;    /* enum shape_check */
        uint32_t entropy_milli; /* thousandths of a bit per byte that the match without lead and start must have; 0: any */
        uint32_t word_before, word_after; /* 1: no letter, digit or _ may stand there */
        uint32_t strict;   /* 1: only where scrubbing is strict */
        uint8_t chars[32]; /* bit (1 << b % 8) of byte b / 8 */
};

/* A literal of at least SHAPE_START_MIN bytes. They are sorted by their texts. */
struct shape_start {
        uint32_t rule;
        uint32_t text, size;
};

/* In the database of patterns (block mode, each anchored at its beginning): 2 * i is the pattern of shape i, 2 * i + 1 its lead. */

struct rule_example {
        uint32_t rule;     /* of code rules, or of shapes */
        uint32_t is_shape;
        uint32_t matches;  /* 1: it must be found; 0: it must not */
        uint32_t language; /* of a code rule's: text; 0 for shapes */
        uint32_t text, size;
};

struct rules_piece {
        uint32_t at, size; /* bytes of a database; count of anything else */
};

struct rules_head {
        char magic[8];
        char made_by[56]; /* versions of glovebox and vectorscan: one that was made by others is made anew */
        uint64_t size;    /* of the whole */
        struct rules_piece texts; /* bytes; the first is NUL */
        struct rules_piece code, patterns, shapes, starts, examples;
        struct rules_piece code_db, shape_db; /* as they lie in memory; size 0: none */
        uint64_t checksum; /* rules_wire.h */
};

struct hs_database;
struct hs_scratch;

/* Never changed once it is there; any thread may use it. */
struct rules {
        const struct rules_head *head;
        const struct code_rule *code;
        const struct code_pattern *patterns;
        const struct shape_rule *shapes;
        const struct shape_start *starts;
        const struct rule_example *examples;
        size_t n_code, n_patterns, n_shapes, n_starts, n_examples;
        struct hs_database *code_db, *shape_db; /* NULL: there are no such rules */
        struct rules_index *index;  /* rules_state.h */
        void *memory;               /* that it owns; NULL: the shipped ones */
};

enum rules_kind { RULES_CODE, RULES_SHAPES, RULES_KINDS };

/* What vectorscan needs to scan with the database of one kind, for one thread at a time. Some are kept for the next who asks. The first costs more than most
 * texts do, so ask late. NULL: there is no memory, or no such database. */
struct hs_scratch *rules_scratch_get(const struct rules *r, enum rules_kind kind);
void rules_scratch_put(const struct rules *r, enum rules_kind kind, struct hs_scratch *scratch); /* takes NULL */

static inline const char *rules_text(const struct rules *r, uint32_t at)
{
        return (const char *)r->head + r->head->texts.at + at;
}

/* The rules of this installation: the shipped ones, with those of an operator's directory (rules/ beside the policy) in their place or beside them. Read once,
 * and never freed: a second call gives the same. A directory whose rules are wrong is an error, with file, line and column. */
int rules_get(const struct rules **ret, gb_error *err);
/* Reads them again: from now on rules_get() gives these, and what has the others keeps them. When something is wrong with them nothing changes. */
int rules_reload(gb_error *err);
void rules_reload_undo(void); /* the last one */
/* The shipped ones alone. */
int rules_get_shipped(const struct rules **ret, gb_error *err);
/* Out of memory that is copied: checked in all its parts. For the cache, for `glovebox guard test FILE`, and for tests. */
int rules_from_memory(const void *bytes, size_t size, struct rules **ret, gb_error *err);
/* Compiles files of YAML by the helper; with_shipped: in addition to the shipped ones, whose rules of the same id they replace. */
int rules_compile(const char *const *files, size_t n_files, bool with_shipped, struct rules **ret, gb_error *err);
void rules_free(struct rules *r);
DEFINE_CLEANUP(struct rules, rules_free)
#define _cleanup_rules_ _cleanup_(rules_free_ptr)

/* All names of files that hold credentials, one in a line, as hide/names.h reads them. */
int rules_file_names(const struct rules *r, char **ret);

const char *guard_action_name(enum guard_action action);
int guard_action_parse(const char *text, enum guard_action *ret); /* -EINVAL */

#endif
