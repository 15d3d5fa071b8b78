/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of verbs and the rows of their options. */
#include "cli/command.h"

#include <stdio.h>
#include <string.h>

#define SET(table, with_policy) {.rows = (table), .n_rows = ARRAY_SIZE(table), .policy = (with_policy)}

#define ROW_JSON(text) {.id = OPT_JSON, .name = "json", .help = (text)}
#define ROW_HELP {.id = OPT_HELP, .name = "help", .letter = 'h', .help = "show this help"}
#define ROW_QUIET(text) {.id = OPT_QUIET, .name = "quiet", .letter = 'q', .help = (text)}
#define ROW_POLICY                                                                                   \
        {.id = OPT_POLICY, .name = "policy", .value = VALUE_REQUIRED, .placeholder = "FILE",         \
         .env = "GLOVEBOX_POLICY", .help = "the policy file",                                        \
         .fallback = "sandbox.yaml of the installation", .completion = COMPLETE_FILE}
#define ROW_TRUST                                                                                    \
        {.id = OPT_TRUST, .name = "trust", .value = VALUE_REQUIRED, .placeholder = "LEVEL",          \
         .env = "GLOVEBOX_TRUST", .help = "the trust level of the policy file to apply",             \
         .fallback = "the file's default_trust"}
#define ROW_ALLOW_WEAKER                                                                             \
        {.id = OPT_ALLOW_WEAKER, .key = "allow_weaker", .name = "allow-weaker",                      \
         .value = VALUE_REQUIRED, .placeholder = "CONTROL", .env = "GLOVEBOX_ALLOW_WEAKER",          \
         .help = "run even if this host can enforce the control only in part: landlock, memory, "    \
                 "pids, cpu, or cgroup for the last three; may be repeated, or a list with commas",  \
         .completion = COMPLETE_CONTROL}
#define ROWS_POLICY_LISTS                                                                            \
        {.id = OPT_POLICY_KEY, .key = "env", .name = "env", .letter = 'e', .value = VALUE_REQUIRED,  \
         .placeholder = "NAME=VALUE", .help = "set a variable of the program; may be repeated"},     \
        {.id = OPT_POLICY_KEY, .key = "mounts", .name = "mount", .value = VALUE_REQUIRED,            \
         .placeholder = "SRC:DST[:rw]",                                                              \
         .help = "show a file or directory of the host in the box, read-only without :rw; "          \
                 "may be repeated", .completion = COMPLETE_FILE},                                    \
        ROW_ALLOW_WEAKER

static const struct option run_options[] = {
        {.id = OPT_CODE, .letter = 'c', .value = VALUE_REQUIRED, .placeholder = "CODE",
         .help = "run this text instead of a file"},
        {.id = OPT_LANG, .name = "lang", .letter = 'l', .value = VALUE_REQUIRED, .placeholder = "LANGUAGE",
         .env = "GLOVEBOX_LANG", .help = "the language of the code; 'glovebox languages' lists them",
         .fallback = "by the extension of FILE; python for -c and -", .completion = COMPLETE_LANGUAGE},
        {.id = OPT_NAME, .name = "name", .value = VALUE_REQUIRED, .placeholder = "NAME",
         .help = "file name of the code in the box", .fallback = "that of FILE, or the language's own"},
        {.id = OPT_WORKSPACE, .name = "workspace", .letter = 'w', .value = VALUE_REQUIRED, .placeholder = "DIR",
         .env = "GLOVEBOX_WORKSPACE", .help = "directory of the host that is /sandbox in the box",
         .fallback = "an empty one that goes with the run", .completion = COMPLETE_DIRECTORY},
        {.id = OPT_ROOTFS, .name = "rootfs", .value = VALUE_REQUIRED, .placeholder = "DIR",
         .env = "GLOVEBOX_ROOTFS", .help = "root directory of an image for the box", .fallback = "the host's /usr",
         .completion = COMPLETE_DIRECTORY},
        {.id = OPT_USER, .name = "user", .value = VALUE_REQUIRED, .placeholder = "UID[:GID]", .env = "GLOVEBOX_USER",
         .help = "identity in the box, never 0", .fallback = "1000:1000"},
        ROW_POLICY,
        ROW_TRUST,
        ROWS_POLICY_LISTS,
        ROW_JSON("print one object at the end, which holds the output"),
        {.id = OPT_EVENTS, .name = "events", .help = "print a line of JSON for each thing that happens"},
        ROW_QUIET("no line on standard error about how the run ended, no warnings"),
        {.id = OPT_RAW, .name = "raw", .help = "let the output drive the terminal (escape sequences and controls)"},
        ROW_HELP,
};

static const struct option doctor_options[] = {
        ROW_JSON("print the findings as one object"),
        ROW_POLICY,
        ROW_TRUST,
        ROW_ALLOW_WEAKER,
        ROW_HELP,
};

static const struct option verify_options[] = {
        ROW_POLICY,
        ROW_TRUST,
        ROW_ALLOW_WEAKER,
        ROW_JSON("print the outcomes as one object"),
        ROW_QUIET("print only what failed"),
        ROW_HELP,
};

static const struct option languages_options[] = {
        ROW_JSON("print the table as one object"),
        {.id = OPT_NAMES, .name = "names", .help = "print only the names, one a line"},
        ROW_HELP,
};

static const struct option policy_show_options[] = {
        ROW_POLICY,
        ROW_TRUST,
        ROWS_POLICY_LISTS,
        ROW_JSON("print the policy as one object"),
        ROW_HELP,
};

static const struct option policy_check_options[] = {
        ROW_TRUST,
        ROW_JSON("print the outcome as one object"),
        ROW_HELP,
};

static const struct option completion_options[] = {ROW_JSON("errors as one object"), ROW_HELP};

static const struct option help_options[] = {
        ROW_JSON("errors as one object"),
        {.id = OPT_MAN, .name = "man", .help = "write the manual page", .hidden = true},
        ROW_HELP,
};

static const struct command_example run_examples[] = {
        {"glovebox run hello.py", "run a file; the language comes from its extension"},
        {"glovebox run -c 'print(6 * 7)'", "run a line of Python"},
        {"glovebox run --lang bash -c 'echo \"$1\"' -- hello", "another language, with an argument"},
        {"generate | glovebox run --json --timeout 5s -", "code from a pipe, everything about the run as JSON"},
        {"glovebox run --memory 256m --workspace ./data job.py < input.csv", "limits, files and standard input"},
        {NULL, NULL},
};

static const struct command_example doctor_examples[] = {
        {"glovebox doctor", "what this host can enforce, and what to do about the rest"},
        {"glovebox doctor --json", "the same for machines"},
        {NULL, NULL},
};

static const struct command_example verify_examples[] = {
        {"glovebox verify", "try to break out of a box on this host"},
        {NULL, NULL},
};

static const struct command_example languages_examples[] = {
        {"glovebox languages", "the table of languages"},
        {"glovebox languages --json", "the same for machines"},
        {NULL, NULL},
};

static const struct command_example policy_show_examples[] = {
        {"glovebox policy show", "what holds for a run without any flags"},
        {"glovebox policy show --memory 1g --json", "the same with a flag of 'glovebox run', for machines"},
        {NULL, NULL},
};

static const struct command_example policy_check_examples[] = {
        {"glovebox policy check ./policy.yaml", "exit status 0 when the file is right"},
        {NULL, NULL},
};

static const struct command_example completion_examples[] = {
        {"glovebox completion bash > ~/.local/share/bash-completion/completions/glovebox", "for bash"},
        {"glovebox completion zsh > ~/.zfunc/_glovebox", "for zsh, where ~/.zfunc is in its fpath"},
        {"glovebox completion fish > ~/.config/fish/completions/glovebox.fish", "for fish"},
        {NULL, NULL},
};

static const struct command_example help_examples[] = {
        {"glovebox help run", "all about one verb"},
        {"glovebox help exit-codes", "what the exit statuses mean"},
        {NULL, NULL},
};

const struct command commands[] = {
        {.name = "run", .usage = "[FILE | -c CODE | -] [-- ARGS...]",
         .summary = "run code in a box",
         .description = "Runs a program sealed off from the host and shows what it prints. Standard input goes to the "
                        "program, unless the code itself is read from there (-). The exit status is the program's, or "
                        "says why glovebox ended it ('glovebox help exit-codes'). Flags may stand before or after "
                        "FILE; what follows -- is for the program. A flag is stronger than its environment variable, "
                        "and that is stronger than the policy file. On a terminal the output cannot do more than show "
                        "text and colours.",
         .options = SET(run_options, true), .words_max = 1, .takes_rest = true, .completion = COMPLETE_FILE,
         .examples = run_examples, .function = command_run},
        {.name = "doctor", .usage = "", .summary = "say what this host can enforce",
         .description = "Looks at the kernel and the rights of the caller, and says for each control whether a run "
                        "would have it, how, and what to do where it is missing.",
         .options = SET(doctor_options, false), .examples = doctor_examples, .function = command_doctor},
        {.name = "verify", .usage = "", .summary = "prove the isolation on this host",
         .description = "Runs programs that try to break each control in a real box, and says which were held.",
         .options = SET(verify_options, false), .examples = verify_examples, .function = command_verify},
        {.name = "languages", .usage = "", .summary = "list the languages",
         .description = "Lists what 'glovebox run --lang' takes, with file extensions and commands, and whether the "
                        "command is found in the /usr of this host.",
         .options = SET(languages_options, false), .examples = languages_examples, .function = command_languages},
        {.name = "policy", .sub = "show", .usage = "", .summary = "show the policy a run would have",
         .description = "Shows the policy after the file, the trust level, the environment and the flags were applied.",
         .options = SET(policy_show_options, true), .examples = policy_show_examples,
         .function = command_policy_show},
        {.name = "policy", .sub = "check", .usage = "FILE", .summary = "check a policy file",
         .description = "Reads a policy file as a run would, and says what is wrong with it.",
         .options = SET(policy_check_options, false), .words_max = 1, .completion = COMPLETE_FILE,
         .examples = policy_check_examples, .function = command_policy_check},
        {.name = "completion", .usage = "bash | zsh | fish", .summary = "write a completion script for a shell",
         .description = "Writes the script to standard output.", .options = SET(completion_options, false),
         .words_max = 1, .completion = COMPLETE_WORDS, .words = "bash zsh fish", .examples = completion_examples,
         .function = command_completion},
        {.name = "help", .usage = "[VERB | exit-codes]", .summary = "explain a verb, or the exit statuses",
         .description = "Shows all about one verb; without one, the list of verbs.", .options = SET(help_options, false),
         .words_max = 2, .completion = COMPLETE_WORDS,
         .words = "run doctor verify languages policy completion exit-codes", .examples = help_examples,
         .function = command_help},
};
const size_t n_commands = ARRAY_SIZE(commands);

const struct command *command_find(const char *name, const char *sub)
{
        for (size_t i = 0; i < n_commands; i++) {
                const struct command *c = &commands[i];
                if (strcmp(c->name, name) == 0 && (!c->sub || (sub && strcmp(c->sub, sub) == 0)))
                        return c;
        }
        return NULL;
}

const char *command_full_name(const struct command *c, char buf[static COMMAND_NAME_MAX])
{
        snprintf(buf, COMMAND_NAME_MAX, "%s%s%s", c->name, c->sub ? " " : "", c->sub ? c->sub : "");
        return buf;
}
