/* SPDX-License-Identifier: Apache-2.0
 *
 * Options and examples of the verbs about rules and secrets; for the table in commands.c only. */
#ifndef CLI_COMMANDS_GUARD_H
#define CLI_COMMANDS_GUARD_H

#define WATCH_MODES "off on strict"

static const struct option guard_check_options[] = {
        {.id = OPT_CODE, .letter = 'c', .value = VALUE_REQUIRED, .placeholder = "CODE", .help = "look at this text instead of a file"},
        {.id = OPT_LANG, .name = "lang", .letter = 'l', .value = VALUE_REQUIRED, .placeholder = "LANGUAGE", .env = "GLOVEBOX_LANG",
         .help = "the language of the code; 'glovebox languages' lists them", .fallback = "by the extension of FILE; python for -c and -",
         .completion = COMPLETE_LANGUAGE},
        {.id = OPT_LANG, .name = "language", .value = VALUE_REQUIRED, .placeholder = "LANGUAGE", .help = "the same as --lang", .completion = COMPLETE_LANGUAGE},
        ROW_POLICY,
        ROW_TRUST,
        ROWS_POLICY_LISTS,
        ROW_QUIET("say nothing; the exit status tells"),
        ROW_SERVER("by a server, under its rules and policy: unix:/path or http://host:port"),
        ROW_JSON("print what was found as one object"),
        ROW_HELP,
};

static const struct option guard_test_options[] = {
        ROW_QUIET("print only what failed"),
        ROW_JSON("print the outcome as one object"),
        ROW_HELP,
};

static const struct option guard_list_options[] = {
        {.id = OPT_SECRETS_LIST, .name = "secrets", .help = "the shapes of secrets instead of the rules about code"},
        {.id = OPT_FILES_LIST, .name = "files", .help = "list the names of credential files that mounts with :hide leave out, instead of the rules"},
        ROW_POLICY,
        ROW_TRUST,
        {.id = OPT_POLICY_KEY, .key = "guard", .name = "guard", .value = VALUE_REQUIRED, .placeholder = "MODE", .env = "GLOVEBOX_GUARD",
         .help = "off, on or strict, as for 'glovebox run'", .fallback = "the policy's", .completion = COMPLETE_WORDS, .words = WATCH_MODES},
        {.id = OPT_POLICY_KEY, .key = "scrub", .name = "scrub", .value = VALUE_REQUIRED, .placeholder = "MODE", .env = "GLOVEBOX_SCRUB",
         .help = "off, on or strict, as for 'glovebox run'", .fallback = "the policy's", .completion = COMPLETE_WORDS, .words = WATCH_MODES},
        ROW_GUARD_RULE,
        ROW_JSON("print the list as one object"),
        ROW_HELP,
};

static const struct option guard_scrub_options[] = {
        {.id = OPT_POLICY_KEY, .key = "scrub", .name = "scrub", .value = VALUE_REQUIRED, .placeholder = "MODE",
         .help = "on, or strict for shapes that other things have, too", .fallback = "on", .completion = COMPLETE_WORDS, .words = "on strict"},
        ROWS_SECRETS,
        ROW_QUIET("do not tell how much was scrubbed"),
        ROW_JSON("tell it as one object, on standard error"),
        ROW_HELP,
};

static const struct command_example guard_check_examples[] = {
        {"glovebox guard check job.py", "would it run? Where not, and why not?"},
        {"generate | glovebox guard check --json -", "code from a pipe; what was found as JSON"},
        {"glovebox guard check --guard strict src/*.py", "several files; a warning refuses, too"},
        {NULL, NULL},
};

static const struct command_example guard_test_examples[] = {
        {"glovebox guard test", "the rules of this installation"},
        {"glovebox guard test ./my-rules.yaml", "one's own, before they are installed"},
        {NULL, NULL},
};

static const struct command_example guard_list_examples[] = {
        {"glovebox guard list", "rules about code, and what is done about each"},
        {"glovebox guard list --secrets --json", "shapes of secrets, for machines"},
        {NULL, NULL},
};

static const struct command_example guard_scrub_examples[] = {
        {"make deploy 2>&1 | glovebox guard scrub", "a log without the tokens that are in it"},
        {"glovebox guard scrub --secrets .env app.log > clean.log", "and without one's own secrets, however they are encoded"},
        {NULL, NULL},
};

#endif
