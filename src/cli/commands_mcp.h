/* SPDX-License-Identifier: Apache-2.0
 *
 * Options and examples of the verbs that are about MCP; for the table in commands.c only. */
#ifndef CLI_COMMANDS_MCP_H
#define CLI_COMMANDS_MCP_H

static const struct option mcp_options[] = {
        ROW_WORKSPACE("an empty one that goes with the session"),
        {.id = OPT_TEMPLATE, .name = "template", .value = VALUE_REQUIRED, .placeholder = "NAME",
         .help = "what Python is forked from; none: it is started afresh", .fallback = "python", .completion = COMPLETE_TEMPLATE},
        {.id = OPT_IDLE, .name = "idle", .value = VALUE_REQUIRED, .placeholder = "TIME",
         .help = "a session ends when it was not used for so long", .fallback = "the server's"},
        {.id = OPT_LIFETIME, .name = "lifetime", .value = VALUE_REQUIRED, .placeholder = "TIME",
         .help = "a session ends so long after its creation", .fallback = "the server's"},
        {.id = OPT_TRUST, .name = "trust", .value = VALUE_REQUIRED, .placeholder = "LEVEL", .env = "GLOVEBOX_TRUST",
         .help = "a trust level of the server's policy file", .fallback = "the file's default_trust"},
        {.id = OPT_POLICY_KEY, .key = "env", .name = "env", .letter = 'e', .value = VALUE_REQUIRED, .placeholder = "NAME=VALUE",
         .help = "set a variable of the programs; may be repeated"},
        ROWS_ALLOW,
        ROW_ALLOW_WEAKER,
        ROW_GUARD_RULE,
        ROWS_SECRETS,
        ROW_SERVER("by this server: unix:/path or http://host:port"),
        {.id = OPT_PRIVATE, .name = "private", .help = "by a server of its own, also when another one is running"},
        {.id = OPT_POLICY, .name = "policy", .value = VALUE_REQUIRED, .placeholder = "FILE",
         .help = "the policy file of a server of its own; implies --private", .fallback = "sandbox.yaml of the installation",
         .completion = COMPLETE_FILE},
        {.id = OPT_WARM, .name = "warm", .value = VALUE_REQUIRED, .placeholder = "TEMPLATE",
         .help = "a template that a server of its own keeps warm; implies --private; may be repeated", .completion = COMPLETE_TEMPLATE},
        {.id = OPT_VERBOSE, .name = "verbose", .letter = 'v', .help = "show all that a server of its own logs, on standard error"},
        ROW_JSON("errors at the start as one object"),
        ROW_HELP,
};

static const struct command_example mcp_examples[] = {
        {"glovebox mcp", "what a client starts: MCP on standard input and output"},
        {"glovebox mcp --workspace ./project --memory 1g --timeout 2m", "with a directory as /sandbox, and limits"},
        {"glovebox mcp --server=http://127.0.0.1:8080", "by a server; GLOVEBOX_TOKEN has the token"},
        {NULL, NULL},
};

#endif
