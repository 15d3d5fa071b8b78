/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside engine/: a program that runs to its end in an interpreter that was forked from a template. It has to be
 * what `python3 FILE ARG...` would be; where it could not, there is a fresh exec. */
#ifndef ENGINE_SCRIPT_H
#define ENGINE_SCRIPT_H

#include "policy/language.h"
#include "policy/policy.h"

#include <stddef.h>

#define SCRIPT_FILE_MAX 512 /* the path of the code, with its NUL */
#define TEMPLATE_USER 1000  /* and its group: who the files of a template know */

struct script {
        const char *python; /* the template's command */
        const struct language *language;
        const struct policy *policy;
        const char *code;
        size_t code_size;
        char *const *args;
        int workspace_fd; /* what modules are imported from; -1: it is empty */
};

/* Why it needs a fresh exec; NULL: it does not. */
const char *script_why_not(const struct script *s);
/* Where the code is in the box. */
int script_path(const char *name, char ret[static SCRIPT_FILE_MAX]);

#endif
