/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mcp_install_clients.h"

#include "base/quote.h"
#include "base/suggest.h"
#include "cli/json_edit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CALL_TIMEOUT "600" /* seconds that clients are told to wait for a call, where the default is shorter than a run may last */

/* ---- pieces ---- */

/* A text in double quotes as JSON has it, which TOML, YAML and Python read in the same way. */
static int add_quoted(struct buffer *out, const char *text)
{
        _cleanup_json_ json_t *string = json_string(text);
        if (!string)
                return -EILSEQ;
        _cleanup_free_ char *quoted = json_dumps(string, JSON_ENCODE_ANY);
        return quoted ? buffer_add_string(out, quoted) : -ENOMEM;
}

/* ["mcp", "--template", "python"] */
static int add_args(struct buffer *out, const struct install_order *o)
{
        int r = buffer_add_string(out, "[\"mcp\"");

        for (size_t i = 0; r == 0 && o->args[i]; i++) {
                r = buffer_add_string(out, ", ");
                if (r == 0)
                        r = add_quoted(out, o->args[i]);
        }
        return r < 0 ? r : buffer_add_string(out, "]");
}

/* For a shell: in single quotes, unless it is plain. */
static int add_word(struct buffer *out, const char *text)
{
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+";

        if (text[0] && text[strspn(text, plain)] == '\0')
                return buffer_printf(out, " %s", text);
        int r = buffer_add_string(out, " '");
        for (; r == 0 && *text; text++)
                r = *text == '\'' ? buffer_add_string(out, "'\\''") : buffer_add(out, text, 1);
        return r < 0 ? r : buffer_add_string(out, "'");
}

/* " -- /usr/bin/glovebox mcp ARGS" and the end of the line. */
static int add_program(struct buffer *out, const struct install_order *o)
{
        int r = buffer_add_string(out, " --");

        if (r == 0)
                r = add_word(out, o->program);
        if (r == 0)
                r = buffer_add_string(out, " mcp");
        for (size_t i = 0; r == 0 && o->args[i]; i++)
                r = add_word(out, o->args[i]);
        return r < 0 ? r : buffer_add_string(out, "\n");
}

static bool has_token(const struct install_order *o)
{
        return o->token || o->token_env;
}

/* "Bearer ..." as the client's file has it. */
static int add_bearer(struct buffer *out, const struct install_client *c, const struct install_order *o)
{
        if (o->token)
                return buffer_printf(out, "Bearer %s", o->token);
        return buffer_printf(out, "Bearer %s%s%s", c->variable, o->token_env, c->variable_end);
}

/* ---- what is not JSON ---- */

static int toml_snippet(struct buffer *out, const struct install_client *c, const struct install_order *o)
{
        int r = buffer_printf(out, "[mcp_servers.%s]\n%s = ", o->name, o->url ? c->url : "command");
        if (r == 0)
                r = add_quoted(out, o->url ? o->url : o->program);
        if (r == 0 && !o->url) {
                r = buffer_add_string(out, "\nargs = ");
                if (r == 0)
                        r = add_args(out, o);
        }
        if (r == 0 && o->url && o->token) {
                _cleanup_buffer_ struct buffer bearer;
                buffer_init(&bearer, out->max);
                r = add_bearer(&bearer, c, o);
                if (r == 0)
                        r = buffer_add_string(out, "\nhttp_headers = { \"Authorization\" = ");
                if (r == 0)
                        r = add_quoted(out, bearer.data);
                if (r == 0)
                        r = buffer_add_string(out, " }");
        } else if (r == 0 && o->url && o->token_env)
                r = buffer_printf(out, "\nbearer_token_env_var = \"%s\"", o->token_env);
        return r < 0 ? r : buffer_add_string(out, "\ntool_timeout_sec = " CALL_TIMEOUT "\n");
}

static int yaml_snippet(struct buffer *out, const struct install_client *c, const struct install_order *o)
{
        int r = buffer_printf(out, "name: %s\nversion: 0.0.1\nschema: v1\nmcpServers:\n  - name: %s\n    type: %s\n    %s: ", o->name, o->name,
                              o->url ? c->type_http : c->type_stdio, o->url ? c->url : "command");
        if (r == 0)
                r = add_quoted(out, o->url ? o->url : o->program);
        if (r == 0 && !o->url) {
                r = buffer_add_string(out, "\n    args: ");
                if (r == 0)
                        r = add_args(out, o);
        }
        if (r == 0 && o->url && has_token(o)) {
                _cleanup_buffer_ struct buffer bearer;
                buffer_init(&bearer, out->max);
                r = add_bearer(&bearer, c, o);
                if (r == 0)
                        r = buffer_add_string(out, "\n    requestOptions:\n      headers:\n        Authorization: ");
                if (r == 0)
                        r = add_quoted(out, bearer.data);
        }
        return r < 0 ? r : buffer_add_string(out, "\n");
}

/* {"command": ..., "args": [...]} or {"url": ..., "headers": ...} */
static int python_entry(struct buffer *out, const struct install_order *o)
{
        int r = buffer_printf(out, "{\"%s\": ", o->url ? "url" : "command");
        if (r == 0)
                r = add_quoted(out, o->url ? o->url : o->program);
        if (r == 0 && !o->url) {
                r = buffer_add_string(out, ", \"args\": ");
                if (r == 0)
                        r = add_args(out, o);
        }
        if (r == 0 && o->url && o->token) {
                r = buffer_add_string(out, ", \"headers\": {\"Authorization\": \"Bearer \" + ");
                if (r == 0)
                        r = add_quoted(out, o->token);
                if (r == 0)
                        r = buffer_add_string(out, "}");
        } else if (r == 0 && o->url && o->token_env)
                r = buffer_printf(out, ", \"headers\": {\"Authorization\": \"Bearer \" + os.environ[\"%s\"]}", o->token_env);
        return r < 0 ? r : buffer_add_string(out, "}");
}

static const char *python_os(const struct install_order *o)
{
        return o->url && o->token_env && !o->token ? "import os\n" : "";
}

static int openai_snippet(struct buffer *out, const struct install_client *c _unused_, const struct install_order *o)
{
        const char *class = o->url ? "MCPServerStreamableHttp" : "MCPServerStdio";
        int r = buffer_printf(out,
                              "import asyncio\n%s\nfrom agents import Agent, Runner\nfrom agents.mcp import %s\n\n\n"
                              "async def main():\n    async with %s(\n        name=\"%s\",\n        params=",
                              python_os(o), class, class, o->name);
        if (r == 0)
                r = python_entry(out, o);
        return r < 0 ? r
                     : buffer_add_string(out, ",\n        client_session_timeout_seconds=" CALL_TIMEOUT ",\n        cache_tools_list=True,\n    ) as server:\n"
                                              "        agent = Agent(name=\"Assistant\", instructions=\"Run code to find out.\", mcp_servers=[server])\n"
                                              "        result = await Runner.run(agent, \"What is the 1000th prime number?\")\n"
                                              "        print(result.final_output)\n\n\nasyncio.run(main())\n");
}

static int langchain_snippet(struct buffer *out, const struct install_client *c _unused_, const struct install_order *o)
{
        int r = buffer_printf(out,
                              "import asyncio\n%s\nfrom langchain.agents import create_agent\nfrom langchain.mcp import MCPAdapter\n\n"
                              "SERVERS = {\"mcpServers\": {\"%s\": ",
                              python_os(o), o->name);
        if (r == 0)
                r = python_entry(out, o);
        return r < 0 ? r
                     : buffer_add_string(out, "}}\n\n\nasync def main(model):\n    async with MCPAdapter(SERVERS) as adapter:  # the session lives as long as this\n"
                                              "        agent = create_agent(model, await adapter.list_tools())\n"
                                              "        question = {\"role\": \"user\", \"content\": \"What is the 1000th prime number?\"}\n"
                                              "        result = await agent.ainvoke({\"messages\": [question]})\n"
                                              "        print(result[\"messages\"][-1].content)\n\n\nasyncio.run(main(\"PROVIDER:MODEL\"))\n");
}

static int pydantic_snippet(struct buffer *out, const struct install_client *c _unused_, const struct install_order *o)
{
        int r = buffer_printf(out,
                              "import asyncio\n%s\nfrom pydantic_ai import Agent\nfrom pydantic_ai.mcp import MCPToolset\n\n"
                              "SERVERS = {\"mcpServers\": {\"%s\": ",
                              python_os(o), o->name);
        if (r == 0)
                r = python_entry(out, o);
        return r < 0 ? r
                     : buffer_add_string(out, "}}\n\n\nasync def main(model):\n    agent = Agent(model, toolsets=[MCPToolset(SERVERS)])\n"
                                              "    async with agent:  # the session lives as long as this\n"
                                              "        result = await agent.run(\"What is the 1000th prime number?\")\n"
                                              "        print(result.output)\n\n\nasyncio.run(main(\"PROVIDER:MODEL\"))\n");
}

/* ---- lines for the shell ---- */

static int claude_command(struct buffer *out, const struct install_client *c, const struct install_order *o)
{
        int r = buffer_printf(out, "claude mcp add --scope %s%s", o->project ? "project" : "user", o->url ? " --transport http" : "");

        if (r == 0)
                r = add_word(out, o->name);
        if (r < 0 || !o->url)
                return r < 0 ? r : add_program(out, o);
        r = add_word(out, o->url);
        if (r == 0 && has_token(o)) {
                _cleanup_buffer_ struct buffer header;
                buffer_init(&header, out->max);
                r = buffer_add_string(&header, "Authorization: ");
                if (r == 0)
                        r = add_bearer(&header, c, o);
                if (r == 0)
                        r = buffer_add_string(out, " --header");
                if (r == 0)
                        r = add_word(out, header.data);
        }
        return r < 0 ? r : buffer_add_string(out, "\n");
}

static int codex_command(struct buffer *out, const struct install_client *c _unused_, const struct install_order *o)
{
        if (o->project || o->token)
                return 0; /* it knows neither */
        int r = buffer_add_string(out, "codex mcp add");
        if (r == 0)
                r = add_word(out, o->name);
        if (r < 0 || !o->url)
                return r < 0 ? r : add_program(out, o);
        r = buffer_add_string(out, " --url");
        if (r == 0)
                r = add_word(out, o->url);
        if (r == 0 && o->token_env)
                r = buffer_printf(out, " --bearer-token-env-var %s", o->token_env);
        return r < 0 ? r : buffer_add_string(out, "\n");
}

static int gemini_command(struct buffer *out, const struct install_client *c _unused_, const struct install_order *o)
{
        if (o->url || o->args[0])
                return 0; /* flags behind the program would be taken for its own */
        int r = buffer_printf(out, "gemini mcp add --scope %s", o->project ? "project" : "user");
        if (r == 0)
                r = add_word(out, o->name);
        if (r == 0)
                r = add_word(out, o->program);
        return r < 0 ? r : buffer_add_string(out, " mcp\n");
}

/* ---- the table ---- */

#define IN_MCP_SERVERS .format = INSTALL_JSON, .key = "mcpServers"
#define SHELL_VARIABLE .variable = "${", .variable_end = "}"
#define EDITOR_VARIABLE .variable = "${env:", .variable_end = "}"
#define IN_PYTHON .format = INSTALL_PYTHON, .url = "url", .variable = "", .variable_end = ""

const struct install_client install_clients[] = {
        {.name = "claude-code", .title = "Claude Code", IN_MCP_SERVERS, .file = ".claude.json", .project = ".mcp.json", .type_stdio = "stdio", .type_http = "http",
         .url = "url", SHELL_VARIABLE, .command = claude_command, .note = "/mcp in Claude Code shows whether it is connected"},
        {.name = "claude-desktop", .title = "Claude Desktop", IN_MCP_SERVERS, .file = ".config/Claude/claude_desktop_config.json",
         .note = "Claude Desktop reads it when it starts: quit it and start it again"},
        {.name = "cursor", .title = "Cursor", IN_MCP_SERVERS, .file = ".cursor/mcp.json", .project = ".cursor/mcp.json", .url = "url", EDITOR_VARIABLE,
         .note = "a new server is switched on in the settings of Cursor, under MCP"},
        {.name = "vscode", .title = "VS Code", .format = INSTALL_JSON, .key = "servers", .file = ".config/Code/User/mcp.json", .project = ".vscode/mcp.json",
         .type_stdio = "stdio", .type_http = "http", .url = "url", EDITOR_VARIABLE, .note = "'MCP: List Servers' in the command palette starts it"},
        {.name = "windsurf", .title = "Windsurf", IN_MCP_SERVERS, .file = ".codeium/windsurf/mcp_config.json", .url = "serverUrl", EDITOR_VARIABLE,
         .note = "Windsurf reads it after a refresh of its MCP panel"},
        {.name = "zed", .title = "Zed", .format = INSTALL_JSON, .key = "context_servers", .file = ".config/zed/settings.json", .project = ".zed/settings.json",
         .url = "url", .note = "Zed begins its settings with comments; --write changes only a file without any"},
        {.name = "cline", .title = "Cline (VS Code)", IN_MCP_SERVERS,
         .file = ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json", .type_http = "streamableHttp", .url = "url",
         .note = "Cline's command line has its own file: --file ~/.cline/data/settings/cline_mcp_settings.json"},
        {.name = "gemini-cli", .title = "Gemini CLI", IN_MCP_SERVERS, .file = ".gemini/settings.json", .project = ".gemini/settings.json", .url = "httpUrl",
         SHELL_VARIABLE, .command = gemini_command, .note = "/mcp in Gemini CLI shows whether it is connected"},
        {.name = "codex", .title = "Codex", .format = INSTALL_TOML, .file = ".codex/config.toml", .project = ".codex/config.toml", .url = "url", .variable = "",
         .variable_end = "", .snippet = toml_snippet, .command = codex_command, .note = "/mcp in Codex shows whether it is connected"},
        {.name = "continue", .title = "Continue", .format = INSTALL_YAML, .file = ".continue/mcpServers/glovebox.yaml", .project = ".continue/mcpServers/glovebox.yaml",
         .type_stdio = "stdio", .type_http = "streamable-http", .url = "url", .variable = "${{ secrets.", .variable_end = " }}", .snippet = yaml_snippet,
         .note = "tools are there in its agent mode only"},
        {.name = "openai-agents", .title = "OpenAI Agents SDK", IN_PYTHON, .snippet = openai_snippet, .note = "pip install openai-agents"},
        {.name = "langchain", .title = "LangChain", IN_PYTHON, .snippet = langchain_snippet, .note = "pip install \"langchain[mcp]\" (1.4 or newer)"},
        {.name = "pydantic-ai", .title = "Pydantic AI", IN_PYTHON, .snippet = pydantic_snippet, .note = "pip install \"pydantic-ai-slim[mcp]\" (2.45 or newer)"},
        {.name = "generic", .title = "any other", IN_MCP_SERVERS, .type_http = "http", .url = "url", SHELL_VARIABLE,
         .note = "most clients read this form; how a variable is written differs"},
};
const size_t n_install_clients = ARRAY_SIZE(install_clients);

const char *install_format_name(enum install_format format)
{
        static const char *const names[] = {[INSTALL_JSON] = "json", [INSTALL_TOML] = "toml", [INSTALL_YAML] = "yaml", [INSTALL_PYTHON] = "python"};

        return names[format];
}

bool install_client_writes(const struct install_client *c)
{
        return c->format == INSTALL_JSON;
}

const struct install_client *install_client_find(const char *name, gb_error *err)
{
        const char *names[ARRAY_SIZE(install_clients)];

        for (size_t i = 0; i < n_install_clients; i++) {
                if (strcmp(install_clients[i].name, name) == 0)
                        return &install_clients[i];
                names[i] = install_clients[i].name;
        }
        const char *near = suggest_nearest(name, names, n_install_clients);
        if (near)
                error_set(err, GB_E_USAGE, 0, "unknown client %s; did you mean '%s'?", quote(name).text, near);
        else
                error_set(err, GB_E_USAGE, 0, "unknown client %s; 'glovebox mcp install' lists them, and 'generic' is for all others", quote(name).text);
        return NULL;
}

int install_check(const struct install_client *c, const struct install_order *o, gb_error *err)
{
        if (!o->url)
                return 0;
        if (!c->url)
                return error_set(err, GB_E_USAGE, 0, "the file of %s names programs only; instead of --http: glovebox mcp install %s -- --server=http://HOST:PORT (without TLS)", c->title,
                                 c->name);
        if (o->token_env && !o->token && !c->variable)
                return error_set(err, GB_E_USAGE, 0,
                                 "%s takes no variable in a header, so that the token itself must stand there: --token TEXT; "
                                 "or let it start a program that has it: glovebox mcp install %s -- --server=http://HOST:PORT (without TLS)",
                                 c->title, c->name);
        return 0;
}

/* ---- the entry ---- */

static json_t *entry_args(const struct install_order *o)
{
        _cleanup_json_ json_t *args = json_array();
        int r = json_array_append_new(args, json_string("mcp"));

        for (size_t i = 0; o->args[i]; i++)
                r |= json_array_append_new(args, json_string(o->args[i]));
        return r == 0 ? TAKE_PTR(args) : NULL;
}

json_t *install_entry(const struct install_client *c, const struct install_order *o)
{
        _cleanup_json_ json_t *entry = json_object();
        _cleanup_buffer_ struct buffer bearer;
        const char *type = o->url ? c->type_http : c->type_stdio;
        int r = 0;

        buffer_init(&bearer, SIZE_MAX);
        if (type)
                r |= json_object_set_new(entry, "type", json_string(type));
        if (!o->url) {
                r |= json_object_set_new(entry, "command", json_string(o->program));
                r |= json_object_set_new(entry, "args", entry_args(o));
                return r == 0 ? TAKE_PTR(entry) : NULL;
        }
        r |= json_object_set_new(entry, c->url, json_string(o->url));
        if (has_token(o)) {
                r |= add_bearer(&bearer, c, o);
                r |= json_object_set_new(entry, "headers", r == 0 ? json_pack("{s:s}", "Authorization", bearer.data) : NULL);
        }
        return r == 0 ? TAKE_PTR(entry) : NULL;
}

static int json_snippet(struct buffer *out, const struct install_client *c, const struct install_order *o)
{
        _cleanup_json_ json_t *entry = install_entry(c, o);
        _cleanup_json_ json_t *whole = json_object(), *servers = json_object();
        int r = entry && json_object_set(servers, o->name, entry) == 0 && json_object_set(whole, c->key, servers) == 0 ? 0 : -ENOMEM;

        if (r == 0)
                r = json_edit_print(out, whole, "", "  ", "\n");
        return r < 0 ? r : buffer_add_string(out, "\n");
}

int install_snippet(struct buffer *out, const struct install_client *c, const struct install_order *o)
{
        return c->snippet ? c->snippet(out, c, o) : json_snippet(out, c, o);
}
