/* SPDX-License-Identifier: Apache-2.0
 *
 * The first line is a message of a client, the next three, where they are there, are the headers MCP-Protocol-Version, Mcp-Method and Mcp-Name. Whatever it says, it is
 * read as one of the three kinds or refused with an error that can be sent; arguments that are let through are what the tool wants, and an address of a
 * resource that is understood is the only one of that resource. */
#include "base/limits.h"
#include "base/utf8.h"
#include "mcp/protocol.h"
#include "mcp/resource_uri.h"
#include "mcp/tools.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LINES_MAX 4

static void check(bool holds)
{
        if (!holds)
                abort();
}

/* The error as it goes out, and as the other side reads it. */
static void check_error(json_t *id, struct rpc_error *e)
{
        check(e->code < 0 && e->message[0] && memchr(e->message, '\0', sizeof(e->message)));
        _cleanup_json_ json_t *message = rpc_error_to_json(id, e);
        _cleanup_free_ char *text = json_print(message, 0);
        check(text != NULL);
        _cleanup_json_ json_t *read = json_parse(text, strlen(text), JSON_REJECT_DUPLICATES, NULL);
        const json_t *error = json_object_get(read, "error"), *said = json_object_get(error, "message");
        check(json_integer_value(json_object_get(error, "code")) == e->code);
        check(json_string_length(said) > 0 && utf8_is_valid(json_string_value(said), json_string_length(said)));
        check(id ? json_equal(json_object_get(read, "id"), id) : json_is_null(json_object_get(read, "id")));
        rpc_error_done(e);
}

static void check_message(const struct rpc_message *m)
{
        char key[RPC_KEY_MAX];

        check(m->kind == RPC_ANSWER ? m->method == NULL : m->method && m->method[0]);
        check(m->kind != RPC_REQUEST || m->id);
        check(m->kind != RPC_NOTIFICATION || !m->id);
        check(json_is_object(m->params));
        rpc_key(m->id, key);
        check(memchr(key, '\0', sizeof(key)) && (m->id ? key[0] && key[1] == ':' : !key[0]));
        const json_t *token = mcp_progress_token(m);
        check(!token || json_is_string(token) || json_is_integer(token));
}

static void check_result(enum mcp_era era, const struct rpc_message *m)
{
        const char *version = json_string_value(json_object_get(m->params, "protocolVersion"));
        _cleanup_json_ json_t *result = mcp_finish_result(era, m->method, version ? mcp_initialize_result(version) : mcp_discover_result());

        check(json_is_object(result));
        check((era == MCP_STATELESS) == (json_object_get(result, "resultType") != NULL));
        _cleanup_json_ json_t *answer = rpc_result(m->id, TAKE_PTR(result));
        _cleanup_free_ char *text = json_print(answer, 0);
        check(text != NULL);
}

/* ---- what a method is given ---- */

static const struct mcp_tools *all_tools(void)
{
        static const char *const languages[] = {"bash", "node", "python", NULL};
        static struct mcp_tools *tools;

        if (!tools)
                tools = mcp_tools_new(languages);
        check(tools != NULL);
        return tools;
}

static void check_call(const struct rpc_message *m)
{
        const json_t *arguments = json_object_get(m->params, "arguments"), *session, *each;
        _cleanup_rpc_error_ struct rpc_error err = {0};
        struct mcp_tool tool;
        size_t i;

        if (mcp_tool_find(all_tools(), json_string_value(json_object_get(m->params, "name")), &tool, &err) < 0) {
                check_error(m->id, &err);
                return;
        }
        check(tool.id < TOOLS_N && tool.name && tool.input && tool.output && tool.definition);
        if (mcp_tool_check(&tool, arguments, &err) < 0) {
                check_error(m->id, &err);
                return;
        }
        check(!arguments || json_is_object(arguments));
        session = json_object_get(arguments, "session");
        check(!session || json_is_string(session));
        json_array_foreach(json_object_get(tool.input, "required"), i, each) {
                check(json_object_get(arguments, json_string_value(each)) != NULL);
        }
}

static void check_uri(const char *text)
{
        struct resource_uri uri = {0};

        if (!text || resource_uri_parse(text, &uri) < 0)
                return;
        check(strlen(uri.id) + 1 == RESOURCE_ID_MAX && strlen(uri.path) < sizeof(uri.path) && utf8_is_valid(uri.path, strlen(uri.path)));
        _cleanup_free_ char *again = uri.kind == RESOURCE_FILE ? resource_uri_file(uri.id, uri.path) : resource_uri_output(uri.id, uri.kind);
        check(again && strcmp(again, text) == 0);
}

static void run(json_t *value, char *const headers[static LINES_MAX - 1])
{
        _cleanup_rpc_error_ struct rpc_error err = {0};
        struct rpc_message m;

        if (rpc_read(value, &m, &err) < 0) {
                check_error(m.id, &err);
                return;
        }
        check_message(&m);
        if (m.kind == RPC_ANSWER)
                return;
        enum mcp_era era = mcp_era_of(&m, headers[0]);
        if (mcp_meta_check(&m, &err) < 0)
                check_error(m.id, &err);
        else
                check(mcp_meta(&m) && (era == MCP_STATELESS || strcmp(m.method, "initialize") == 0));
        if (mcp_headers_check(&m, headers[0], headers[1], headers[2], &err) < 0)
                check_error(m.id, &err);
        else
                check(headers[0] && headers[1] && strcmp(headers[1], m.method) == 0);
        check_result(era, &m);
        if (strcmp(m.method, "tools/call") == 0)
                check_call(&m);
        check_uri(json_string_value(json_object_get(m.params, "uri")));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *lines[LINES_MAX] = {0};
        size_t at = 0, first = 0;

        for (size_t i = 0; i < LINES_MAX && at < size; i++) {
                const uint8_t *end = memchr(data + at, '\n', size - at);
                size_t n = end ? (size_t)(end - data) - at : size - at;
                lines[i] = strndup((const char *)data + at, n); /* a header has no NUL */
                check(lines[i] != NULL);
                if (i == 0)
                        first = n;
                at += n + 1;
        }
        _cleanup_json_ json_t *value = json_parse((const char *)data, first, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
        if (value)
                run(value, lines + 1);
        for (size_t i = 0; i < LINES_MAX; i++)
                free(lines[i]);
        return 0;
}
