/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of languages, from config/languages.yaml. */
#ifndef POLICY_LANGUAGE_H
#define POLICY_LANGUAGE_H

#include "base/error.h"
#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LANGUAGE_EXTENSIONS_MAX 8
#define LANGUAGE_ENV_MAX 16
#define LANGUAGE_ETC_MAX 8

/* A word of a command may hold {file} (the code in the box) or {out} (a fresh path in /tmp for
 * what a compiler makes). The first word is looked up in the box's PATH. */
struct language {
        char *name;
        char *aliases[LANGUAGE_EXTENSIONS_MAX + 1];    /* NULL-terminated */
        char *extensions[LANGUAGE_EXTENSIONS_MAX + 1]; /* without the dot */
        char *file;                                    /* name of the code in the box when it comes from -c or - */
        char *compile[COMMAND_WORDS_MAX + 1];          /* empty for interpreted languages */
        char *run[COMMAND_WORDS_MAX + 1];
        char *env[LANGUAGE_ENV_MAX + 1]; /* "NAME=value" */
        char *etc[LANGUAGE_ETC_MAX + 1]; /* what it needs of the host's /etc; what is absent is left out */
        char *context;                   /* the runner that keeps its state from run to run; NULL: one-shot only */
        uint64_t memory_min_bytes;       /* below this it cannot even start; 0: not known */
};

struct languages {
        struct language rows[LANGUAGE_COUNT_MAX];
        size_t n;
};

/* NULL: the default file, or when there is none a built-in table of python, bash and sh. */
int languages_load(const char *file, struct languages **ret, gb_error *err);
/* The same from memory; name stands for the file in errors. */
int languages_parse(const char *name, const char *text, size_t size, struct languages **ret, gb_error *err);
void languages_free(struct languages *l);
DEFINE_CLEANUP(struct languages, languages_free)
#define _cleanup_languages_ _cleanup_(languages_free_ptr)

/* Whether a box that is made of the host's /usr would find the language's first command. */
bool language_is_found(const struct language *l);

/* By name or alias; the error names the nearest and lists all. */
int language_by_name(const struct languages *l, const char *name, const struct language **ret, gb_error *err);
/* By the extension of a file name; the error says to use --lang. */
int language_by_file(const struct languages *l, const char *file_name, const struct language **ret, gb_error *err);

#endif
