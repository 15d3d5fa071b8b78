/* SPDX-License-Identifier: Apache-2.0
 *
 * The code of a run: from a file, a pipe, standard input or the command line. */
#ifndef CLI_SOURCE_H
#define CLI_SOURCE_H

#include "base/error.h"
#include "policy/language.h"

#include <stddef.h>

struct source {
        char *read;       /* owned, when it was read */
        const char *code; /* read, or what -c gave */
        size_t size;
};

void source_done(struct source *s);
#define _cleanup_source_ _cleanup_(source_done)

/* path "-": standard input. */
int source_read(const char *path, struct source *ret, gb_error *err);
int source_text(const char *text, struct source *ret, gb_error *err);

/* Refuses what cannot be code of this language: programs for the machine, binary data. */
int source_check(const struct source *s, const struct language *language, const char *what, gb_error *err);

/* What the file is to be called in the box: its own name where that says the language,
 * otherwise NULL, for the language's own. */
const char *source_name_in_box(const char *path, const struct language *language);
int source_check_name(const char *name, gb_error *err);

#endif
