/* SPDX-License-Identifier: Apache-2.0
 *
 * Options and examples of 'mcp install'; for the table in commands.c only. */
#ifndef CLI_COMMANDS_MCP_INSTALL_H
#define CLI_COMMANDS_MCP_INSTALL_H

#define INSTALL_WORDS "claude-code claude-desktop cursor vscode windsurf zed cline gemini-cli codex continue openai-agents langchain pydantic-ai generic"

static const struct option mcp_install_options[] = {
        {.id = OPT_WRITE, .name = "write", .help = "put it into the client's file, and keep a copy of the file as it was"},
        {.id = OPT_DRY_RUN, .name = "dry-run", .help = "show what --write or --remove would change"},
        {.id = OPT_REMOVE, .name = "remove", .help = "take it out of the client's file again, and keep a copy"},
        {.id = OPT_FORCE, .name = "force", .help = "with --write: replace another entry of that name"},
        {.id = OPT_PROJECT, .name = "project", .help = "the file of the project in the current directory"},
        {.id = OPT_FILE, .name = "file", .value = VALUE_REQUIRED, .placeholder = "FILE", .help = "this file", .fallback = "the user's file of the client",
         .completion = COMPLETE_FILE},
        {.id = OPT_NAME, .name = "name", .value = VALUE_REQUIRED, .placeholder = "NAME", .help = "what the client calls it", .fallback = "glovebox"},
        {.id = OPT_HTTP, .name = "http", .value = VALUE_REQUIRED, .placeholder = "URL",
         .help = "a running server, http://host:port, instead of a program that the client starts"},
        {.id = OPT_TOKEN_ENV, .name = "token-env", .value = VALUE_REQUIRED, .placeholder = "VARIABLE",
         .help = "with --http: the client's variable that holds the token", .fallback = "GLOVEBOX_TOKEN"},
        {.id = OPT_TOKEN, .name = "token", .value = VALUE_REQUIRED, .placeholder = "TEXT", .help = "with --http: the token itself, in clear"},
        {.id = OPT_NO_TOKENS, .name = "no-token", .help = "with --http: the server asks for none"},
        ROW_JSON("print the list, the snippet or the outcome as one object"),
        ROW_HELP,
};

static const struct command_example mcp_install_examples[] = {
        {"glovebox mcp install", "the clients that it knows"},
        {"glovebox mcp install claude-code --write", "for Claude Code, in all projects of this user"},
        {"glovebox mcp install vscode --project --write -- --workspace .", "for VS Code in this project, with a flag of 'glovebox mcp'"},
        {"glovebox mcp install cursor --http http://127.0.0.1:8080 --write", "a running server; the token comes from GLOVEBOX_TOKEN"},
        {NULL, NULL},
};

#endif
