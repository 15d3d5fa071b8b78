/* SPDX-License-Identifier: Apache-2.0
 *
 * Which files of a directory are hidden, by their names. The names come from the guard's rules: one list for both (docs/hiding.md). */
#ifndef HIDE_NAMES_H
#define HIDE_NAMES_H

#include "base/macro.h"

#include <limits.h>
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
        size_t size;
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

/* The last part of a path, in the directory that is called parent ("" where nothing is known). A copy that an editor or a tool makes of a file (.env~, .id_rsa.swp,
 * .netrc.bak) is judged as the file is. */
enum hide_verdict hide_names_judge(const struct hide_names *n, const char *parent, const char *name);

/* Takes from name, in place, what makes it the name of a copy. *ret_inner: the name, or the same without a dot before it where that is not known (vim's). False: it is
 * not the name of a copy. */
bool hide_names_strip(char *name, char **ret_inner);

/* Where a path has come to. Names below refs and logs of a .git directory are those of branches. */
struct hide_walk {
        char parent[NAME_MAX + 1];
        enum { HIDE_GIT_NONE, HIDE_GIT_TOP, HIDE_GIT_INNER, HIDE_GIT_REFS } git;
};

enum hide_verdict hide_walk_judge(const struct hide_names *n, const struct hide_walk *w, const char *name);
void hide_walk_enter(struct hide_walk *w, const char *name);
/* Goes along a path, and ends at a part that is hidden: the verdict is of that one, or of the last. */
enum hide_verdict hide_walk_path(const struct hide_names *n, struct hide_walk *w, const char *path);

#endif
