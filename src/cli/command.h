/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of the command. One row of commands[] is the verb's parser, help, man page section
 * and completion; one file holds its function. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "base/buffer.h"
#include "cli/options.h"

#include <stdbool.h>
#include <stddef.h>

struct command;

/* Returns the exit status. The arguments belong to the caller. */
typedef int command_function(const struct command *command, const struct arguments *arguments);

struct command_example {
        const char *line;
        const char *what;
};

struct command {
        const char *name;    /* "run" */
        const char *sub;     /* "show" of "policy show", or NULL */
        const char *usage;   /* "[FILE | -c CODE | -] [-- ARGS...]"; "" for none */
        const char *summary; /* one line */
        const char *description;
        struct option_set options;
        size_t words_max;    /* how many words it takes besides its options */
        bool takes_rest;     /* what follows "--" is not for us */
        enum option_completion completion; /* of its words */
        const char *words;                 /* for COMPLETE_WORDS */
        const struct command_example *examples; /* ends with a row of NULLs */
        command_function *function;
};

extern const struct command commands[];
extern const size_t n_commands;

command_function command_run;
command_function command_repl;
command_function command_doctor;
command_function command_verify;
command_function command_languages;
command_function command_templates;
command_function command_warm;
command_function command_serve;
command_function command_token_create;
command_function command_token_list;
command_function command_token_revoke;
command_function command_audit;
command_function command_ps;
command_function command_stats;
command_function command_top;
command_function command_logs;
command_function command_net;
command_function command_session_create;
command_function command_session_exec;
command_function command_session_ls;
command_function command_session_show;
command_function command_session_rm;
command_function command_session_files;
command_function command_mcp;
command_function command_mcp_install;
command_function command_image_build;
command_function command_image_list;
command_function command_image_rm;
command_function command_image_import;
command_function command_image_export;
command_function command_clean;
command_function command_guard_check;
command_function command_guard_test;
command_function command_guard_list;
command_function command_guard_scrub;
command_function command_policy_show;
command_function command_policy_check;
command_function command_completion;
command_function command_help;

/* The row of a verb, or NULL. sub: the word behind the verb, or NULL. A verb that also stands alone is found without one, and when sub is none of its own. */
const struct command *command_find(const char *name, const char *sub);
/* "policy show", into buf. */
#define COMMAND_NAME_MAX 64
const char *command_full_name(const struct command *c, char buf[static COMMAND_NAME_MAX]);

/* Says what went wrong: "glovebox: message" on standard error and, with --json or --events,
 * {"error": ...} on standard output. Returns the exit status of that error. */
int command_fail(const struct arguments *arguments, const gb_error *err);

/* Text about the verbs, from their rows; 0 or what buffer_add() returned. */
int help_write_short(struct buffer *out);
int help_write_command(struct buffer *out, const struct command *c);
int help_write_group(struct buffer *out, const char *name);
int help_write_exit_codes(struct buffer *out);
int man_write(struct buffer *out);

/* The exit statuses of the command, in the order of the lists they come from. */
struct exit_row {
        int status;
        const char *name;
        const char *help;
        bool is_verdict; /* the program was started */
};
size_t exit_rows(struct exit_row *rows, size_t max);
#define EXIT_ROWS_MAX 32

#endif
