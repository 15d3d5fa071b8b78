/* SPDX-License-Identifier: Apache-2.0
 *
 * Options and examples of the verbs that are about a server; for the table in commands.c only. */
#ifndef CLI_COMMANDS_SERVICE_H
#define CLI_COMMANDS_SERVICE_H

#define ROW_SERVER(text)                                                                             \
        {.id = OPT_SERVER, .name = "server", .value = VALUE_OPTIONAL, .placeholder = "ADDRESS",      \
         .env = "GLOVEBOX_SERVER", .help = (text),                                                   \
         .fallback = "glovebox.sock in the user's runtime directory"}
#define ROW_SERVER_PLAIN ROW_SERVER("the server: unix:/path or http://host:port")
#define ROW_DIRECTORY                                                                                \
        {.id = OPT_DIRECTORY, .name = "directory", .value = VALUE_REQUIRED, .placeholder = "DIR",    \
         .help = "where the server keeps its journal and tokens",                                    \
         .fallback = "GLOVEBOX_STATE_DIR, or one of this user", .completion = COMPLETE_DIRECTORY}
#define ROW_CONFIG                                                                                   \
        {.id = OPT_CONFIG, .name = "config", .value = VALUE_REQUIRED, .placeholder = "FILE",         \
         .help = "the server's configuration", .fallback = "server.yaml of the installation",        \
         .completion = COMPLETE_FILE}
#define ROW_INTERVAL                                                                                 \
        {.id = OPT_INTERVAL, .name = "interval", .value = VALUE_REQUIRED, .placeholder = "TIME",     \
         .help = "time between two samples: 100ms to 60s", .fallback = "1s"}

static const struct option serve_options[] = {
        {.id = OPT_LISTEN, .name = "listen", .value = VALUE_REQUIRED, .placeholder = "ADDRESS",
         .help = "unix:/path, 127.0.0.1:8080 or [::1]:8080; may be repeated", .fallback = "a socket in the user's runtime directory"},
        ROW_DIRECTORY,
        {.id = OPT_TLS_CERT, .name = "tls-cert", .value = VALUE_REQUIRED, .placeholder = "FILE",
         .help = "certificate in PEM; TCP addresses then speak TLS", .completion = COMPLETE_FILE},
        {.id = OPT_TLS_KEY, .name = "tls-key", .value = VALUE_REQUIRED, .placeholder = "FILE", .help = "its key in PEM",
         .completion = COMPLETE_FILE},
        {.id = OPT_NO_TOKENS, .name = "no-tokens", .help = "callers at a loopback address need no token"},
        {.id = OPT_POLICY, .name = "policy", .value = VALUE_REQUIRED, .placeholder = "FILE", .help = "the policy file",
         .fallback = "sandbox.yaml of the installation", .completion = COMPLETE_FILE},
        {.id = OPT_WARM, .name = "warm", .value = VALUE_REQUIRED, .placeholder = "TEMPLATE",
         .help = "start this template and keep it warm; may be repeated", .completion = COMPLETE_TEMPLATE},
        {.id = OPT_WORKSPACES, .name = "workspaces", .value = VALUE_REQUIRED, .placeholder = "DIR",
         .help = "where kept workspaces are; without it there are none", .completion = COMPLETE_DIRECTORY},
        ROW_CONFIG,
        {.id = OPT_SET, .name = "set", .value = VALUE_REQUIRED, .placeholder = "KEY=VALUE",
         .help = "any other key of the configuration; may be repeated"},
        {.id = OPT_USER, .name = "user", .value = VALUE_REQUIRED, .placeholder = "NAME",
         .help = "started as root: the account to become, by name or number"},
        {.id = OPT_CHECK, .name = "check", .help = "say what is wrong with the configuration, and start nothing"},
        {.id = OPT_PARENT_FD, .name = "parent-fd", .value = VALUE_REQUIRED, .placeholder = "NUMBER",
         .help = "for programs that start a server for themselves: it ends when this descriptor does", .hidden = true},
        ROW_JSON("log lines are JSON objects"),
        ROW_HELP,
};

static const struct option token_create_options[] = {
        {.id = OPT_TENANT, .name = "tenant", .value = VALUE_REQUIRED, .placeholder = "NAME",
         .help = "whose it is: what one tenant has does not exist for the others", .fallback = "default"},
        {.id = OPT_SCOPE, .name = "scope", .value = VALUE_REQUIRED, .placeholder = "LIST",
         .help = "what it lets: read, run, metrics, admin; a list with commas", .fallback = "run", .completion = COMPLETE_WORDS,
         .words = "read run metrics admin"},
        {.id = OPT_EXPIRES, .name = "expires", .value = VALUE_REQUIRED, .placeholder = "TIME",
         .help = "it counts for so long", .fallback = "for ever"},
        {.id = OPT_NAME, .name = "name", .value = VALUE_REQUIRED, .placeholder = "TEXT", .help = "for people"},
        ROW_DIRECTORY,
        ROW_CONFIG,
        ROW_JSON("print the token and what it lets as one object"),
        ROW_HELP,
};

static const struct option token_list_options[] = {
        ROW_DIRECTORY,
        ROW_CONFIG,
        ROW_JSON("print the list as one object"),
        ROW_HELP,
};

static const struct option token_revoke_options[] = {
        {.id = OPT_TENANT, .name = "tenant", .value = VALUE_REQUIRED, .placeholder = "NAME", .help = "all tokens of this tenant"},
        ROW_DIRECTORY,
        ROW_CONFIG,
        ROW_JSON("print how many as one object"),
        ROW_HELP,
};

static const struct option audit_options[] = {
        {.id = OPT_SINCE, .name = "since", .value = VALUE_REQUIRED, .placeholder = "TIME",
         .help = "not before this: 2026-01-05T10:00:00Z, or a time ago such as 2h"},
        {.id = OPT_UNTIL, .name = "until", .value = VALUE_REQUIRED, .placeholder = "TIME", .help = "not after this"},
        {.id = OPT_TENANT, .name = "tenant", .value = VALUE_REQUIRED, .placeholder = "NAME", .help = "of this tenant"},
        {.id = OPT_SESSION, .name = "session", .value = VALUE_REQUIRED, .placeholder = "ID", .help = "of this session"},
        {.id = OPT_VERDICT, .name = "verdict", .value = VALUE_REQUIRED, .placeholder = "KIND", .help = "of runs that ended so",
         .completion = COMPLETE_WORDS, .words = "ok error timeout cpu memory pids disk output syscall blocked cancelled lost"},
        {.id = OPT_LIMIT, .name = "limit", .value = VALUE_REQUIRED, .placeholder = "N", .help = "the newest so many", .fallback = "all"},
        ROW_DIRECTORY,
        ROW_CONFIG,
        ROW_JSON("a line of JSON for each record, with all that is known"),
        ROW_HELP,
};

static const struct option ps_options[] = {
        {.id = OPT_ALL, .name = "all", .letter = 'a', .help = "the newest runs that have ended, too, with their verdicts"},
        {.id = OPT_LIMIT, .name = "limit", .value = VALUE_REQUIRED, .placeholder = "N", .help = "with --all: so many", .fallback = "50"},
        ROW_QUIET("only the ids, one a line, whole"),
        ROW_SERVER_PLAIN,
        ROW_JSON("print the lists as one object"),
        ROW_HELP,
};

static const struct option stats_options[] = {
        {.id = OPT_FOLLOW, .name = "follow", .letter = 'f', .help = "a line for each sample, until it ends"},
        {.id = OPT_FOLLOW, .name = "watch", .help = "the same as --follow"},
        ROW_INTERVAL,
        ROW_SERVER_PLAIN,
        ROW_JSON("print the sample as one object; with --follow a line for each"),
        ROW_HELP,
};

static const struct option top_options[] = {
        {.id = OPT_SORT, .name = "sort", .value = VALUE_REQUIRED, .placeholder = "BY", .help = "cpu or memory", .fallback = "cpu",
         .completion = COMPLETE_WORDS, .words = "cpu memory"},
        ROW_INTERVAL,
        ROW_SERVER_PLAIN,
        ROW_JSON("a line of JSON for each sample"),
        ROW_HELP,
};

static const struct option logs_options[] = {
        {.id = OPT_FOLLOW, .name = "follow", .letter = 'f', .help = "go on until the run has ended"},
        {.id = OPT_FROM, .name = "from", .value = VALUE_REQUIRED, .placeholder = "N", .help = "from this event on", .fallback = "0"},
        {.id = OPT_EVENTS, .name = "events", .help = "print a line of JSON for each thing that happened"},
        {.id = OPT_RAW, .name = "raw", .help = "let the output drive the terminal (escape sequences and controls)"},
        ROW_QUIET("not how the run ended"),
        ROW_SERVER_PLAIN,
        ROW_JSON("print the events as one object"),
        ROW_HELP,
};

static const struct option net_options[] = {
        {.id = OPT_FOLLOW, .name = "follow", .letter = 'f', .help = "a line for each host when something new came of it, until the session ends"},
        ROW_INTERVAL,
        {.id = OPT_ALLOW, .name = "allow", .value = VALUE_REQUIRED, .placeholder = "RULE",
         .help = "let this pass from now on, in the place of the rules that are there: a host such as pypi.org or *.example.com:8443, a URL, or a preset; may be repeated",
         .completion = COMPLETE_WORDS, .words = "python-packages node-packages debian-packages github"},
        {.id = OPT_ALLOW_RANGE, .name = "allow-range", .value = VALUE_REQUIRED, .placeholder = "CIDR",
         .help = "with --allow: addresses that may be dialled although they are not public; may be repeated", .fallback = "as they are"},
        {.id = OPT_CLEAR, .name = "clear", .help = "let nothing pass from now on"},
        {.id = OPT_SET, .name = "set", .value = VALUE_REQUIRED, .placeholder = "KEY=VALUE",
         .help = "with --allow or --clear: bytes=SIZE or requests=N of the whole session (0: no limit), or connections=N at a time; may be repeated", .fallback = "as they are"},
        ROW_SERVER_PLAIN,
        ROW_JSON("print all of it as one object; with --follow a line for each row"),
        ROW_HELP,
};

static const struct option session_create_options[] = {
        {.id = OPT_NAME, .name = "name", .value = VALUE_REQUIRED, .placeholder = "NAME", .help = "a name, which the other verbs understand"},
        {.id = OPT_TEMPLATE, .name = "template", .value = VALUE_REQUIRED, .placeholder = "NAME",
         .help = "what Python is forked from; none: it is started afresh", .fallback = "python", .completion = COMPLETE_TEMPLATE},
        {.id = OPT_IDLE, .name = "idle", .value = VALUE_REQUIRED, .placeholder = "TIME",
         .help = "it ends when it was not used for so long", .fallback = "the server's"},
        {.id = OPT_LIFETIME, .name = "lifetime", .value = VALUE_REQUIRED, .placeholder = "TIME",
         .help = "it ends so long after its creation", .fallback = "the server's"},
        {.id = OPT_KEPT, .name = "kept", .help = "its files stay when it ends, where the server has a place for that"},
        {.id = OPT_TRUST, .name = "trust", .value = VALUE_REQUIRED, .placeholder = "LEVEL", .env = "GLOVEBOX_TRUST",
         .help = "a trust level of the server's policy file", .fallback = "the file's default_trust"},
        {.id = OPT_POLICY_KEY, .key = "env", .name = "env", .letter = 'e', .value = VALUE_REQUIRED, .placeholder = "NAME=VALUE",
         .help = "set a variable of its programs; may be repeated"},
        ROWS_ALLOW,
        ROW_ALLOW_WEAKER,
        ROW_GUARD_RULE,
        ROWS_SECRETS,
        ROW_SERVER_PLAIN,
        ROW_JSON("print the session as one object"),
        ROW_HELP,
};

static const struct option session_exec_options[] = {
        {.id = OPT_CODE, .letter = 'c', .value = VALUE_REQUIRED, .placeholder = "CODE", .help = "run this text instead of a file"},
        {.id = OPT_LANG, .name = "lang", .letter = 'l', .value = VALUE_REQUIRED, .placeholder = "LANGUAGE", .help = "the language of the code",
         .fallback = "by the extension of FILE; python for -c and -", .completion = COMPLETE_LANGUAGE},
        {.id = OPT_CONTEXT, .name = "context", .value = VALUE_REQUIRED, .placeholder = "N",
         .help = "in this interpreter of the session", .fallback = "the language's own"},
        {.id = OPT_FRESH, .name = "fresh", .help = "as a program of its own, that runs to its end"},
        {.id = OPT_STDIN, .name = "stdin", .letter = 'i', .help = "standard input goes to the code"},
        {.id = OPT_TIMEOUT, .name = "timeout", .value = VALUE_REQUIRED, .placeholder = "TIME", .help = "wall clock time of this run",
         .fallback = "the session's"},
        {.id = OPT_EVENTS, .name = "events", .help = "print a line of JSON for each thing that happens"},
        ROW_QUIET("no line on standard error about how the run ended, no warnings"),
        {.id = OPT_RAW, .name = "raw", .help = "let the output drive the terminal (escape sequences and controls)"},
        ROW_SERVER_PLAIN,
        ROW_JSON("print one object at the end, which holds the output"),
        ROW_HELP,
};

static const struct option session_ls_options[] = {
        ROW_QUIET("only the ids, one a line, whole"),
        ROW_SERVER_PLAIN,
        ROW_JSON("print the list as one object"),
        ROW_HELP,
};

static const struct option session_show_options[] = {
        ROW_SERVER_PLAIN,
        ROW_JSON("print the session as one object"),
        ROW_HELP,
};

static const struct option session_rm_options[] = {
        ROW_SERVER_PLAIN,
        ROW_JSON("print the ids of those that were removed as one object"),
        ROW_HELP,
};

static const struct option session_files_options[] = {
        {.id = OPT_RECURSIVE, .name = "recursive", .letter = 'r', .help = "rm: a directory with all that is in it"},
        {.id = OPT_PARENTS, .name = "parents", .letter = 'p', .help = "put: make the directories on the way"},
        {.id = OPT_MODE, .name = "mode", .value = VALUE_REQUIRED, .placeholder = "MODE", .help = "put: permissions, such as 0644",
         .fallback = "those of FILE"},
        {.id = OPT_FORCE, .name = "force", .help = "pull: into a directory that is not empty; files there may be replaced"},
        ROW_QUIET("do not show how far it has come"),
        ROW_SERVER_PLAIN,
        ROW_JSON("print the outcome as one object"),
        ROW_HELP,
};

static const struct option clean_options[] = {
        {.id = OPT_DRY_RUN, .name = "dry-run", .letter = 'n', .help = "say what would be removed, and remove nothing"},
        ROW_JSON("print what was removed as one object"),
        ROW_HELP,
};

static const struct command_example serve_examples[] = {
        {"glovebox serve", "at a socket for this user; 'glovebox run' uses it meanwhile"},
        {"glovebox serve --listen 127.0.0.1:8080 --warm python", "over TCP, with tokens; Python is kept warm"},
        {"glovebox serve --listen 0.0.0.0:8443 --tls-cert cert.pem --tls-key key.pem", "for other hosts, encrypted"},
        {NULL, NULL},
};

static const struct command_example token_create_examples[] = {
        {"glovebox token create --tenant team-a --expires 30d", "a token that lets run code, for a month"},
        {"glovebox token create --tenant monitoring --scope metrics", "one for Prometheus"},
        {NULL, NULL},
};

static const struct command_example token_list_examples[] = {
        {"glovebox token list", "who may do what; the secrets are not kept"},
        {NULL, NULL},
};

static const struct command_example token_revoke_examples[] = {
        {"glovebox token revoke a1b2c3d4", "this token does not count any more"},
        {"glovebox token revoke --tenant team-a", "none of this tenant's does"},
        {NULL, NULL},
};

static const struct command_example audit_examples[] = {
        {"glovebox audit --since 24h --verdict timeout", "runs of the last day that took too long"},
        {"glovebox audit --json > audit.jsonl", "everything, as JSON lines"},
        {NULL, NULL},
};

static const struct command_example ps_examples[] = {
        {"glovebox ps", "sessions and runs that go on"},
        {"glovebox ps --all", "and the last runs, with how they ended"},
        {NULL, NULL},
};

static const struct command_example stats_examples[] = {
        {"glovebox stats 4f2a", "what a session or run uses now"},
        {"glovebox stats 4f2a --follow --json", "a line of JSON each second"},
        {NULL, NULL},
};

static const struct command_example top_examples[] = {
        {"glovebox top", "a live table"},
        {"glovebox top --json | head -1", "one sample of everything, for machines"},
        {NULL, NULL},
};

static const struct command_example logs_examples[] = {
        {"glovebox logs 0f3c", "what a run has printed"},
        {"glovebox logs -f 0f3c", "and what it prints from now on"},
        {NULL, NULL},
};

static const struct command_example net_examples[] = {
        {"glovebox net work", "what the session work may reach, and has reached"},
        {"glovebox net work --follow", "as it comes"},
        {"glovebox net work --allow python-packages --allow api.example.com", "other rules from now on"},
        {"glovebox net work --clear", "nothing passes any more"},
        {NULL, NULL},
};

static const struct command_example session_create_examples[] = {
        {"glovebox session create --name work --memory 1g", "prints the id of the new session"},
        {"glovebox session create --template python-data --idle 30m", "with numpy and pandas imported"},
        {NULL, NULL},
};

static const struct command_example session_exec_examples[] = {
        {"glovebox session exec work -c 'x = 6 * 7'", "variables stay"},
        {"glovebox session exec work -c 'x'", "so that this prints 42"},
        {"glovebox session exec work --fresh -l bash -c 'ls -l'", "a program of its own, among the same files"},
        {NULL, NULL},
};

static const struct command_example session_ls_examples[] = {
        {"glovebox session ls", "the sessions that live"},
        {NULL, NULL},
};

static const struct command_example session_show_examples[] = {
        {"glovebox session show work", "all about one"},
        {NULL, NULL},
};

static const struct command_example session_rm_examples[] = {
        {"glovebox session rm work", "ends it, with everything in it"},
        {"glovebox session rm $(glovebox session ls -q)", "ends all"},
        {NULL, NULL},
};

static const struct command_example session_files_examples[] = {
        {"glovebox session files ls work", "what is in the workspace"},
        {"glovebox session files put work data.csv", "a file into it"},
        {"glovebox session files get work plot.png plot.png", "a file out of it"},
        {"glovebox session files push work ./project", "a directory into it"},
        {"glovebox session files pull work ./results out", "its directory out into ./results"},
        {NULL, NULL},
};

static const struct command_example clean_examples[] = {
        {"glovebox clean --dry-run", "what was left behind"},
        {"glovebox clean", "remove it"},
        {NULL, NULL},
};

#endif
