/* SPDX-License-Identifier: Apache-2.0
 *
 * Which files of a directory are hidden, by their names. The names come from the guard's rules: one list for both (docs/hiding.md). */
#ifndef HIDE_NAMES_H
#define HIDE_NAMES_H

#include "base/macro.h"

#include <stdbool.h>
#include <stddef.h>

/* What is said of a name. */
enum hide_verdict {
        HIDE_NOTHING,
        HIDE_IF_KEY, /* its content decides: a private key is hidden, a certificate is not */
        HIDE_ALWAYS,
};

struct hide_pattern {
        const char *text; /* in lower case, as fnmatch() has it; with a slash: the last two parts of a path */
        size_t fixed;     /* bytes before its first wildcard */
        bool has_slash, is_literal, is_end; /* is_end: "*" and then no wildcard */
};

struct hide_names {
        struct hide_pattern *hidden, *shown, *keys;
        size_t n_hidden, n_shown, n_keys;
        char *text; /* that they point into */
};

/* Of a text with one pattern in a line, behind a letter: "h" hides a name, "s" shows one that would be hidden, of "k" the content decides (rules_file_names()). A
 * negative errno. */
int hide_names_parse(struct hide_names *n, const char *text, size_t size);
void hide_names_done(struct hide_names *n);

/* The last part of a path, in the directory that is called parent ("" where nothing is known). */
enum hide_verdict hide_names_judge(const struct hide_names *n, const char *parent, const char *name);

/* Whether the content of a file is a private key. is_pem: something without an armour is taken for one. */
bool hide_is_key(const void *bytes, size_t size, bool is_pem);

#endif
