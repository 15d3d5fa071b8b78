/* SPDX-License-Identifier: Apache-2.0
 *
 * What runs in a box: the language's commands with {file} and {out} filled in, the program's arguments, and its variables (ours,
 * the language's, the policy's, the session's secrets: the last one wins). */
#ifndef BACKEND_COMMAND_H
#define BACKEND_COMMAND_H

#include "base/error.h"
#include "base/macro.h"
#include "policy/language.h"
#include "policy/place.h"

#define BOX_CODE_DIR "/run/glovebox"

/* A list of strings it owns, NULL-terminated. */
struct words {
        char *list[ARG_COUNT_MAX + COMMAND_WORDS_MAX + 1];
        size_t n;
};

struct command {
        struct words compile; /* empty: there is nothing to compile */
        struct words run;
        struct words env;
};

struct command *command_new(void);
void command_free(struct command *c);
DEFINE_CLEANUP(struct command, command_free)
#define _cleanup_command_ _cleanup_(command_free_ptr)

/* Where the code of a program lies. slot tells it from others in its session; -1: there are none, and it lies where that of a box does. */
struct code_place {
        char dir[64], file[BOX_PATH_MAX], out[64];
};
int command_place(struct code_place *ret, const struct policy *policy, const char *code_name, int slot, gb_error *err);

/* Code in a file: compiled where the language wants that, and run. */
int command_set_program(struct command *c, const struct language *language, const struct policy *policy, const struct code_place *place,
                        char *const *args, gb_error *err);
/* An interpreter that takes code through its control channel; runner_dir: where our half of it lies in the box. */
int command_set_context(struct command *c, const struct language *language, const struct policy *policy, const char *runner_dir, gb_error *err);
/* These words as they are, with the environment of the language. */
int command_set_words(struct command *c, const struct language *language, const struct policy *policy, char *const *words, char *const *more,
                      gb_error *err);

#endif
