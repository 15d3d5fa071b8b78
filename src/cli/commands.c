/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of verbs and the rows of their options. */
#include "base/limits.h"
#include "cli/command.h"

#include <stdio.h>
#include <string.h>

#define SET(table, with_policy) {.rows = (table), .n_rows = ARRAY_SIZE(table), .policy = (with_policy)}

#define WORDS_MANY 256 /* words of a verb that takes a list */

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
         .help = "run even if this host can enforce the control only in part: landlock, runtime, "   \
                 "memory, pids, cpu, or cgroup for the last three; may be repeated, or a list with commas",  \
         .completion = COMPLETE_CONTROL}
#define ROW_TEMPLATE(text, otherwise)                                                                \
        {.id = OPT_TEMPLATE, .name = "template", .value = VALUE_REQUIRED, .placeholder = "NAME",     \
         .env = "GLOVEBOX_TEMPLATE", .help = (text), .fallback = (otherwise),                        \
         .completion = COMPLETE_TEMPLATE}
#define ALLOW_WORDS "python-packages node-packages debian-packages github dependencies" /* the presets */
#define ROW_GUARD_RULE                                                                               \
        {.id = OPT_POLICY_KEY, .key = "guard_rules", .name = "guard-rule", .value = VALUE_REQUIRED,  \
         .placeholder = "NAME=ACTION",                                                               \
         .help = "what is done about code that this rule or set finds: off, log, warn or block; "    \
                 "may be repeated ('glovebox guard list')"}
#define ROWS_ALLOW                                                                                   \
        {.id = OPT_POLICY_KEY, .key = "network_allow", .name = "allow", .value = VALUE_REQUIRED,     \
         .placeholder = "RULE",                                                                      \
         .help = "what the program may reach, and nothing else: a host such as pypi.org or "         \
                 "*.a.com:8443, http://a.com/path, tcp://a.com:22, or a preset such as "             \
                 "python-packages; implies --network allowlist; may be repeated",                    \
         .completion = COMPLETE_WORDS, .words = ALLOW_WORDS},                                        \
        {.id = OPT_POLICY_KEY, .key = "network_ranges", .name = "allow-range",                       \
         .value = VALUE_REQUIRED, .placeholder = "CIDR",                                             \
         .help = "addresses that names in --allow may lead to although they are not public, such "   \
                 "as 10.1.2.0/24; may be repeated"}
#define ROWS_SECRETS                                                                                 \
        {.id = OPT_SECRET, .name = "secret", .value = VALUE_REQUIRED, .placeholder = "NAME[=FILE]",  \
         .help = "a secret for the program, as its variable NAME: what NAME is in the environment "  \
                 "of this command, or what FILE holds; it is scrubbed from what comes back; may be " \
                 "repeated", .completion = COMPLETE_FILE},                                           \
        {.id = OPT_SECRET_FILE, .name = "secret-file", .value = VALUE_REQUIRED,                      \
         .placeholder = "NAME=FILE", .help = "the same, as the file " SECRETS_DIR "/NAME in the box",\
         .completion = COMPLETE_FILE},                                                               \
        {.id = OPT_SECRETS, .name = "secrets", .value = VALUE_REQUIRED, .placeholder = "FILE",       \
         .help = "secrets from a file: lines NAME=VALUE, or a JSON object of names to values",       \
         .completion = COMPLETE_FILE}
#define ROWS_POLICY_LISTS                                                                            \
        {.id = OPT_POLICY_KEY, .key = "env", .name = "env", .letter = 'e', .value = VALUE_REQUIRED,  \
         .placeholder = "NAME=VALUE", .help = "set a variable of the program; may be repeated"},     \
        {.id = OPT_POLICY_KEY, .key = "mounts", .name = "mount", .value = VALUE_REQUIRED,            \
         .placeholder = "SRC:DST[:MODE]",                                                            \
         .help = "show a file or directory of the host in the box; MODE is ro (the default), rw, or "\
                 "hide: read-only and without credential files; may be repeated",                    \
         .completion = COMPLETE_FILE},                                                               \
        ROWS_ALLOW,                                                                                  \
        ROW_ALLOW_WEAKER,                                                                            \
        ROW_GUARD_RULE,                                                                              \
        ROWS_SECRETS

#define ROW_WORKSPACE(without)                                                                       \
        {.id = OPT_WORKSPACE, .name = "workspace", .letter = 'w', .value = VALUE_REQUIRED,           \
         .placeholder = "DIR", .env = "GLOVEBOX_WORKSPACE",                                          \
         .help = "directory of the host that is /sandbox in the box", .fallback = (without),         \
         .completion = COMPLETE_DIRECTORY}
#define ROW_ROOTFS                                                                                   \
        {.id = OPT_ROOTFS, .name = "rootfs", .value = VALUE_REQUIRED, .placeholder = "DIR",          \
         .env = "GLOVEBOX_ROOTFS", .help = "root directory of an image for the box",                 \
         .fallback = "the host's /usr", .completion = COMPLETE_DIRECTORY}
#define ROW_USER                                                                                     \
        {.id = OPT_USER, .name = "user", .value = VALUE_REQUIRED, .placeholder = "UID[:GID]",        \
         .env = "GLOVEBOX_USER", .help = "identity in the box, never 0", .fallback = "1000:1000"}

#include "cli/commands_service.h"
#include "cli/commands_image.h"
#include "cli/commands_guard.h"
#include "cli/commands_mcp.h"
#include "cli/commands_mcp_install.h"

static const struct option run_options[] = {
        {.id = OPT_CODE, .letter = 'c', .value = VALUE_REQUIRED, .placeholder = "CODE",
         .help = "run this text instead of a file"},
        {.id = OPT_LANG, .name = "lang", .letter = 'l', .value = VALUE_REQUIRED, .placeholder = "LANGUAGE",
         .env = "GLOVEBOX_LANG", .help = "the language of the code; 'glovebox languages' lists them",
         .fallback = "by the extension of FILE; python for -c and -", .completion = COMPLETE_LANGUAGE},
        {.id = OPT_NAME, .name = "name", .value = VALUE_REQUIRED, .placeholder = "NAME",
         .help = "file name of the code in the box", .fallback = "that of FILE, or the language's own"},
        ROW_WORKSPACE("an empty one that goes with the run"),
        ROW_ROOTFS,
        ROW_TEMPLATE("the template that Python comes from when it is kept warm ('glovebox warm') and makes no "
                     "difference to the program", "python"),
        ROW_USER,
        ROW_POLICY,
        ROW_TRUST,
        ROWS_POLICY_LISTS,
        ROW_JSON("print one object at the end, which holds the output"),
        {.id = OPT_EVENTS, .name = "events", .help = "print a line of JSON for each thing that happens"},
        ROW_QUIET("no line on standard error about how the run ended, no warnings"),
        {.id = OPT_RAW, .name = "raw", .help = "let the output drive the terminal (escape sequences and controls)"},
        ROW_SERVER("by a server, or not at all: unix:/path or http://host:port"),
        {.id = OPT_EMBEDDED, .name = "embedded", .help = "without a server, also when one is running"},
        ROW_HELP,
};

static const struct option repl_options[] = {
        ROW_TEMPLATE("the template that Python is forked from, with its modules imported",
                     "python where it is kept warm ('glovebox warm'), else none"),
        {.id = OPT_LANG, .name = "lang", .letter = 'l', .value = VALUE_REQUIRED, .placeholder = "LANGUAGE",
         .help = "python, bash or node", .fallback = "python", .completion = COMPLETE_WORDS, .words = "python bash node"},
        ROW_WORKSPACE("an empty one that goes with the session"),
        ROW_ROOTFS,
        ROW_USER,
        ROW_POLICY,
        ROW_TRUST,
        ROWS_POLICY_LISTS,
        ROW_JSON("print one object for each input, which holds its output"),
        {.id = OPT_NO_BANNER, .name = "no-banner", .help = "begin with the prompt"},
        ROW_QUIET("no warnings at the start"),
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

static const struct option templates_options[] = {
        ROW_JSON("print the table as one object"),
        {.id = OPT_NAMES, .name = "names", .help = "print only the names, one a line"},
        ROW_HELP,
};

static const struct option warm_options[] = {
        {.id = OPT_POOL, .name = "pool", .value = VALUE_REQUIRED, .placeholder = "N",
         .help = "sessions that are made ahead of each template: 0 to 64", .fallback = "what templates.yaml says"},
        {.id = OPT_STOP, .name = "stop", .help = "end the one that serves, and wait until it has ended"},
        ROW_POLICY,
        ROW_TRUST,
        ROW_JSON("a line of JSON for each thing that happens"),
        ROW_QUIET("print nothing but errors"),
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
        {"glovebox run --secret API_KEY --secret DB_PASSWORD=./password job.py", "secrets, which are taken out of the output"},
        {"glovebox run --memory 256m --workspace ./data job.py < input.csv", "limits, files and standard input"},
        {NULL, NULL},
};

static const struct command_example repl_examples[] = {
        {"glovebox repl", "a Python prompt, sealed off"},
        {"glovebox repl --template python-data --memory 1g --workspace ./data", "with numpy, pandas and matplotlib, and files"},
        {"glovebox repl --json < steps.py", "each block of a file in turn, as JSON"},
        {NULL, NULL},
};

static const struct command_example doctor_examples[] = {
        {"glovebox doctor", "what this host can enforce, and what to do about the rest"},
        {"glovebox doctor --json", "the same for machines"},
        {"glovebox doctor --backend docker", "what a run in a container would have"},
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

static const struct command_example templates_examples[] = {
        {"glovebox templates", "the table of templates, and which are warm now"},
        {"glovebox templates --json", "the same for machines"},
        {NULL, NULL},
};

static const struct command_example warm_examples[] = {
        {"glovebox warm", "keep Python warm until Ctrl-C; 'glovebox run' uses it meanwhile"},
        {"glovebox warm python python-data --pool 4", "two templates, with four sessions of each made ahead"},
        {"glovebox warm --stop", "end the one that serves"},
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
        {.name = "repl", .usage = "", .summary = "an interpreter in a box, at a prompt",
         .description = "Runs what is typed in one interpreter that keeps its variables, sealed off from the host. Values "
                        "of expressions are shown; pictures are put into the workspace, and shown where the terminal can. "
                        "Ctrl-C interrupts what runs, a second one kills it. Ctrl-D, exit or quit leaves. Lines that begin "
                        "with % are about the session: %help lists them. The limits of time and output hold for each input. "
                        "When standard input is no terminal, each block is run as if it had been typed, without prompts; "
                        "the exit status is then 1 when the last one failed.",
         .options = SET(repl_options, true), .examples = repl_examples, .function = command_repl},
        {.name = "doctor", .usage = "", .summary = "say what this host can enforce",
         .description = "Looks at the kernel and the rights of the caller, and says for each control whether a run "
                        "would have it, how, and what to do where it is missing.",
         .options = SET(doctor_options, true), .examples = doctor_examples, .function = command_doctor},
        {.name = "verify", .usage = "", .summary = "prove the isolation on this host",
         .description = "Runs programs that try to break each control in a real box, and says which were held.",
         .options = SET(verify_options, false), .examples = verify_examples, .function = command_verify},
        {.name = "languages", .usage = "", .summary = "list the languages",
         .description = "Lists what 'glovebox run --lang' takes, with file extensions and commands, and whether the "
                        "command is found in the /usr of this host.",
         .options = SET(languages_options, false), .examples = languages_examples, .function = command_languages},
        {.name = "templates", .usage = "", .summary = "list the templates",
         .description = "Lists the templates of templates.yaml: what is imported in each, how many sessions are made ahead of "
                        "it, and whether it is kept warm now.",
         .options = SET(templates_options, false), .examples = templates_examples, .function = command_templates},
        {.name = "warm", .usage = "[TEMPLATE...]", .summary = "keep templates warm",
         .description = "Starts Python processes that have their imports done and keeps them, until it is interrupted. Runs "
                        "and sessions of the same user start from them meanwhile, in a fraction of the time. Without a name it "
                        "is the template python. One that dies is started again. The policy is that of the sessions that are "
                        "made ahead; runs with other limits start from the template, too, but their boxes are made when they are "
                        "asked for.",
         .options = SET(warm_options, false), .words_max = TEMPLATES_MAX, .completion = COMPLETE_TEMPLATE,
         .examples = warm_examples, .function = command_warm},
        {.name = "serve", .usage = "", .summary = "run code for others, over HTTP",
         .description = "Serves the HTTP API until it is told to end (Ctrl-C, SIGTERM): runs, sessions, files, statistics. Without --listen it "
                        "listens at a socket that only this user and root can use, and the other verbs find it there. Over TCP each "
                        "caller needs a token ('glovebox token create'); addresses other hosts can reach should have a certificate. Every "
                        "run is written down before it starts, and what it prints is kept, so that nothing is lost with a connection.",
         .options = SET(serve_options, false), .examples = serve_examples, .function = command_serve},
        {.name = "token", .sub = "create", .usage = "", .summary = "make a token for a server",
         .description = "Makes a token and prints it, once: only a hash of it is kept. A server that is running knows it at once.",
         .options = SET(token_create_options, false), .examples = token_create_examples, .function = command_token_create},
        {.name = "token", .sub = "list", .usage = "", .summary = "list the tokens of a server",
         .description = "Lists the tokens: whose they are, what they let, until when, and when they were used last.",
         .options = SET(token_list_options, false), .examples = token_list_examples, .function = command_token_list},
        {.name = "token", .sub = "revoke", .usage = "[ID...]", .summary = "let tokens count no more",
         .description = "Revokes tokens by their ids, or all of a tenant. It holds from the next request on.",
         .options = SET(token_revoke_options, false), .words_max = WORDS_MANY, .examples = token_revoke_examples,
         .function = command_token_revoke},
        {.name = "audit", .usage = "", .summary = "show who ran what on a server",
         .description = "Shows the audit records of a server, the oldest first: who ran what (as a hash), under which policy, and how it ended. The server need "
                        "not be running.",
         .options = SET(audit_options, false), .examples = audit_examples, .function = command_audit},
        {.name = "ps", .usage = "", .summary = "list what goes on on a server",
         .description = "Lists the sessions and the runs of a server that go on. Ids are shortened; any beginning of an id that is unique is understood.",
         .options = SET(ps_options, false), .examples = ps_examples, .function = command_ps},
        {.name = "stats", .usage = "ID", .summary = "show what a session or run uses",
         .description = "Shows processor time, memory, processes, disk, input and output of a session, or of a run that goes on. What the host does not count is -.",
         .options = SET(stats_options, false), .words_max = 1, .examples = stats_examples, .function = command_stats},
        {.name = "top", .usage = "", .summary = "watch what goes on on a server",
         .description = "Shows a table of sessions and runs that is drawn anew each second. Keys: c and m sort by cpu and memory, arrows and page keys "
                        "scroll, q quits. When standard output is no terminal it prints one table.",
         .options = SET(top_options, false), .examples = top_examples, .function = command_top},
        {.name = "logs", .usage = "RUN", .summary = "show what a run has printed",
         .description = "Shows the output of a run from the server's journal: standard output to standard output, standard error to standard "
                        "error. It is there while the run goes on, and afterwards for as long as the server keeps it.",
         .options = SET(logs_options, false), .words_max = 1, .examples = logs_examples, .function = command_logs},
        {.name = "net", .usage = "SESSION", .summary = "show and change what a session may reach",
         .description = "Shows the rules and budgets of a session whose network is an allowlist, and each host that was asked for: whether that was let pass, by which "
                        "rule, and how much went there and back. --allow and --clear give it other rules at once; what is open and not allowed any more is cut.",
         .options = SET(net_options, false), .words_max = 1, .completion = COMPLETE_SESSION, .examples = net_examples, .function = command_net},
        {.name = "session", .sub = "create", .usage = "", .summary = "make a session on a server",
         .description = "Makes a box that lives on a server over several runs, with interpreters that keep their variables and files that stay. Prints its id.",
         .options = SET(session_create_options, true), .examples = session_create_examples, .function = command_session_create},
        {.name = "session", .sub = "exec", .usage = "SESSION [FILE | -c CODE | -] [-- ARGS...]", .summary = "run code in a session",
         .description = "Runs code in an interpreter of the session, whose variables are there the next time; with --fresh as a program of its own. "
                        "Values of expressions are shown. Ctrl-C interrupts the code, a second one kills it. The exit status is that of "
                        "'glovebox run'; 1 when the code failed and the interpreter goes on.",
         .options = SET(session_exec_options, false), .words_max = 2, .takes_rest = true, .completion = COMPLETE_FILE,
         .examples = session_exec_examples, .function = command_session_exec},
        {.name = "session", .sub = "ls", .usage = "", .summary = "list the sessions of a server",
         .description = "Lists the sessions that live. Elsewhere a session is named by its id, a beginning of that (4 digits or more), or its name.",
         .options = SET(session_ls_options, false), .examples = session_ls_examples, .function = command_session_ls},
        {.name = "session", .sub = "show", .usage = "SESSION", .summary = "show all about a session",
         .description = "Shows its limits, its age, when it ends, and controls that are not enforced in full.",
         .options = SET(session_show_options, false), .words_max = 1, .examples = session_show_examples,
         .function = command_session_show},
        {.name = "session", .sub = "rm", .usage = "SESSION...", .summary = "end sessions",
         .description = "Ends sessions with everything in them. What runs in one is cancelled.",
         .options = SET(session_rm_options, false), .words_max = WORDS_MANY, .examples = session_rm_examples,
         .function = command_session_rm},
        {.name = "session", .sub = "files", .usage = "ACTION SESSION [PATH...]",
         .summary = "files of a session's workspace",
         .description = "Actions: ls SESSION [DIRECTORY] lists. get SESSION PATH [FILE]: a file out of the workspace, to standard output without FILE. put SESSION FILE "
                        "[PATH]: a file into it; - is standard input. rm SESSION PATH...: removes. pull SESSION DIRECTORY [PATH]: all of it, or of PATH in it, into a "
                        "new directory here. push SESSION DIRECTORY [PATH]: what is in a directory here into it. Links are not carried.",
         .options = SET(session_files_options, false), .words_max = WORDS_MANY, .completion = COMPLETE_WORDS,
         .words = "ls get put rm pull push", .examples = session_files_examples, .function = command_session_files},
        {.name = "mcp", .usage = "", .summary = "give an agent a sandbox, over MCP",
         .description = "Speaks the Model Context Protocol on standard input and output, for a client that starts it: tools that run Python, shell commands and other "
                        "languages in a box, and files of its workspace. The work is done by a server: the one of --server, else one that listens at the default "
                        "socket, else one of its own that ends with it. The flags say what the sessions of the client are like. It ends when standard input does.",
         .options = SET(mcp_options, true), .examples = mcp_examples, .function = command_mcp},
        {.name = "mcp", .sub = "install", .usage = "[CLIENT] [-- ARGS...]", .summary = "set up a client of MCP",
         .description = "Prints what CLIENT has to be told to start 'glovebox mcp', and where that belongs; --write puts it into the client's file. What else is in the file "
                        "stays as it is, and a copy of it is kept. Only plain JSON is changed: into a file with comments, TOML, YAML or a program it is to be pasted. "
                        "Without CLIENT it lists those that it knows. What follows -- are flags for 'glovebox mcp'.",
         .options = SET(mcp_install_options, false), .words_max = 1, .takes_rest = true, .completion = COMPLETE_WORDS, .words = INSTALL_WORDS,
         .examples = mcp_install_examples, .function = command_mcp_install},
        {.name = "image", .sub = "build", .usage = "NAME", .summary = "build an image",
         .description = "Builds an image from what the installation has for NAME: a root file system for native runs (by mmdebstrap, from the package sources of this host), or "
                        "an image of an engine. What a native build has fetched is kept, so that one that was interrupted goes on from there; at its end the image is "
                        "tried in a box.",
         .options = SET(image_build_options, false), .words_max = 1, .completion = COMPLETE_WORDS, .words = "glovebox-python glovebox-python-data",
         .examples = image_build_examples, .function = command_image_build},
        {.name = "image", .sub = "list", .usage = "", .summary = "list images",
         .description = "Lists the images of the store, or of an engine.",
         .options = SET(image_list_options, false), .examples = image_list_examples, .function = command_image_list},
        {.name = "image", .sub = "rm", .usage = "NAME...", .summary = "remove images of the store",
         .description = "Removes images of the store. What runs from one meanwhile loses its files.",
         .options = SET(image_rm_options, false), .words_max = WORDS_MANY, .examples = image_rm_examples, .function = command_image_rm},
        {.name = "image", .sub = "import", .usage = "FILE|DIR|- NAME", .summary = "make an image from an archive",
         .description = "Reads an OCI layout (a directory, or a tar of it), an archive of 'docker save', or a tar of a root file system, each perhaps compressed by gzip or "
                        "zstd; - is standard input. Digests are compared, set-user-id bits are removed, devices are left out, and an archive with anything hostile in it "
                        "is refused. An image of that name is replaced.",
         .options = SET(image_import_options, false), .words_max = 2, .completion = COMPLETE_FILE, .examples = image_import_examples,
         .function = command_image_import},
        {.name = "image", .sub = "export", .usage = "NAME [FILE|-]", .summary = "write an image as an archive",
         .description = "Writes a tar of the root file system, or with --oci an OCI layout; to standard output without FILE.",
         .options = SET(image_export_options, false), .words_max = 2, .completion = COMPLETE_FILE, .examples = image_export_examples,
         .function = command_image_export},
        {.name = "clean", .usage = "", .summary = "remove what killed processes have left",
         .description = "Removes control groups, sockets and containers of this user's glovebox whose makers have died without a chance to do it themselves, as after "
                        "kill -9. What belongs to a living process, and files of users, are never touched.",
         .options = SET(clean_options, false), .examples = clean_examples, .function = command_clean},
        {.name = "guard", .sub = "check", .usage = "[FILE... | -c CODE | -]", .summary = "look at code as a run would, and run nothing",
         .description = "Holds code against the rules that a run is refused by, with the flags of 'glovebox run'. Findings are told on standard error, one a line, as compilers do: "
                        "file:line:column: action: rule: message. The exit status is 0 when the code would run, 117 when it would be refused.",
         .options = SET(guard_check_options, true), .words_max = WORDS_MANY, .completion = COMPLETE_FILE, .examples = guard_check_examples,
         .function = command_guard_check},
        {.name = "guard", .sub = "test", .usage = "[FILE...]", .summary = "try the examples of the rules",
         .description = "Tries what each rule must find and what it must leave alone: of the rules of this installation, or of these files of rules together with the shipped ones. The "
                        "exit status is 1 when one of them fails.",
         .options = SET(guard_test_options, false), .words_max = WORDS_MANY, .completion = COMPLETE_FILE, .examples = guard_test_examples,
         .function = command_guard_test},
        {.name = "guard", .sub = "list", .usage = "", .summary = "list the rules",
         .description = "Lists the rules about code with what the policy does about each; with --secrets what secrets look like that are scrubbed.",
         .options = SET(guard_list_options, false), .examples = guard_list_examples, .function = command_guard_list},
        {.name = "guard", .sub = "scrub", .usage = "[FILE]", .summary = "take secrets out of a text",
         .description = "Copies FILE or standard input to standard output, with [scrubbed:NAME] in the place of each secret. How much was scrubbed is told on standard error.",
         .options = SET(guard_scrub_options, false), .words_max = 1, .completion = COMPLETE_FILE, .examples = guard_scrub_examples,
         .function = command_guard_scrub},
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
         .words = "run repl doctor verify languages templates warm serve token audit ps stats top logs net session mcp image clean guard policy completion "
                  "exit-codes", .examples = help_examples,
         .function = command_help},
};
const size_t n_commands = ARRAY_SIZE(commands);

const struct command *command_find(const char *name, const char *sub)
{
        const struct command *alone = NULL;

        for (size_t i = 0; i < n_commands; i++) {
                const struct command *c = &commands[i];
                if (strcmp(c->name, name) != 0)
                        continue;
                if (c->sub && sub && strcmp(c->sub, sub) == 0)
                        return c;
                if (!c->sub)
                        alone = c;
        }
        return alone;
}

const char *command_full_name(const struct command *c, char buf[static COMMAND_NAME_MAX])
{
        snprintf(buf, COMMAND_NAME_MAX, "%s%s%s", c->name, c->sub ? " " : "", c->sub ? c->sub : "");
        return buf;
}
