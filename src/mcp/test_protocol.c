/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/protocol.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define META(inner) "\"_meta\":{" inner "}"
#define VERSION(text) "\"io.modelcontextprotocol/protocolVersion\":\"" text "\""
#define CAPABILITIES "\"io.modelcontextprotocol/clientCapabilities\":{}"
#define GOOD META(VERSION("2026-07-28") "," CAPABILITIES)

struct message {
        json_t *value;
        struct rpc_message rpc;
};

static struct message message(const char *method, const char *params)
{
        struct message m = {.value = json_pack("{s:s, s:i, s:s}", "jsonrpc", "2.0", "id", 1, "method", method)};
        json_t *object = json_parse(params, strlen(params), 0, NULL);

        assert_non_null(object);
        assert_int_equal(json_object_set_new(m.value, "params", object), 0);
        assert_int_equal(rpc_read(m.value, &m.rpc, NULL), 0);
        return m;
}

static void message_done(struct message *m)
{
        json_decref(m->value);
}
#define _cleanup_message_ _cleanup_(message_done)

static void test_eras(void **state)
{
        _cleanup_message_ struct message old = message("tools/list", "{}"), new = message("tools/list", "{" GOOD "}"), hands = message("initialize", "{" GOOD "}");

        assert_int_equal(mcp_era_of(&old.rpc, NULL), MCP_HANDSHAKE);
        assert_int_equal(mcp_era_of(&old.rpc, "2025-11-25"), MCP_HANDSHAKE);
        assert_int_equal(mcp_era_of(&old.rpc, "2026-07-28"), MCP_STATELESS);
        assert_int_equal(mcp_era_of(&new.rpc, NULL), MCP_STATELESS);
        assert_int_equal(mcp_era_of(&hands.rpc, NULL), MCP_HANDSHAKE);
        assert_true(mcp_version_is_known("2024-10-07"));
        assert_false(mcp_version_is_known("2026-07-28"));
        assert_true(mcp_version_primes("2025-11-25"));
        assert_false(mcp_version_primes("2025-06-18"));
}

static void expect_meta(const char *params, int code)
{
        _cleanup_message_ struct message m = message("tools/list", params);
        _cleanup_rpc_error_ struct rpc_error err = {0};
        int r = mcp_meta_check(&m.rpc, &err);

        assert_int_equal(r < 0 ? err.code : 0, code);
        if (code == RPC_VERSION)
                assert_int_equal(json_array_size(json_object_get(err.data, "supported")), 2);
}

static void test_meta(void **state)
{
        expect_meta("{" GOOD "}", 0);
        expect_meta("{}", RPC_PARAMS);
        expect_meta("{" META(VERSION("2026-07-28")) "}", RPC_PARAMS);
        expect_meta("{" META(CAPABILITIES) "}", RPC_PARAMS);
        expect_meta("{" META(VERSION("2027-01-01") "," CAPABILITIES) "}", RPC_VERSION);
        expect_meta("{" META(VERSION("2026-07-28") ",\"io.modelcontextprotocol/clientCapabilities\":7") "}", RPC_PARAMS);
        expect_meta("{" META(VERSION("2026-07-28") "," CAPABILITIES ",\"io.modelcontextprotocol/logLevel\":\"debug\"") "}", 0);
        expect_meta("{" META(VERSION("2026-07-28") "," CAPABILITIES ",\"io.modelcontextprotocol/logLevel\":\"loud\"") "}", RPC_PARAMS);
        expect_meta("{" META(VERSION("2026-07-28") "," CAPABILITIES ",\"io.modelcontextprotocol/logLevel\":3") "}", RPC_PARAMS);
}

static int headers(const char *method, const char *params, const char *version, const char *said, const char *name)
{
        _cleanup_message_ struct message m = message(method, params);
        _cleanup_rpc_error_ struct rpc_error err = {0};

        return mcp_headers_check(&m.rpc, version, said, name, &err) < 0 ? err.code : 0;
}

static void test_headers(void **state)
{
        static const char call[] = "{\"name\":\"run_python\"," GOOD "}", read[] = "{\"uri\":\"glovebox://\xc3\xa4\"," GOOD "}";

        assert_int_equal(headers("tools/list", "{" GOOD "}", "2026-07-28", "tools/list", NULL), 0);
        assert_int_equal(headers("tools/list", "{" GOOD "}", NULL, "tools/list", NULL), RPC_HEADER);
        assert_int_equal(headers("tools/list", "{" GOOD "}", "2027-01-01", "tools/list", NULL), RPC_VERSION);
        assert_int_equal(headers("tools/list", "{" GOOD "}", "2025-11-25", "tools/list", NULL), RPC_HEADER);
        assert_int_equal(headers("tools/list", "{" GOOD "}", "2026-07-28", "tools/call", NULL), RPC_HEADER);
        assert_int_equal(headers("tools/list", "{" GOOD "}", "2026-07-28", NULL, NULL), RPC_HEADER);
        assert_int_equal(headers("tools/call", call, "2026-07-28", "tools/call", "run_python"), 0);
        assert_int_equal(headers("tools/call", call, "2026-07-28", "tools/call", "=?base64?cnVuX3B5dGhvbg==?="), 0);
        assert_int_equal(headers("tools/call", call, "2026-07-28", "tools/call", "=?base64?cnVuX3NoZWxs?="), RPC_HEADER);
        assert_int_equal(headers("tools/call", call, "2026-07-28", "tools/call", "=?base64?*?="), RPC_HEADER);
        assert_int_equal(headers("tools/call", call, "2026-07-28", "tools/call", "=?base64?="), RPC_HEADER);
        assert_int_equal(headers("tools/call", call, "2026-07-28", "tools/call", "run_shell"), RPC_HEADER);
        assert_int_equal(headers("tools/call", call, "2026-07-28", "tools/call", NULL), RPC_HEADER);
        assert_int_equal(headers("resources/read", read, "2026-07-28", "resources/read", "=?base64?Z2xvdmVib3g6Ly/DpA==?="), 0);
}

static void test_tokens_and_levels(void **state)
{
        _cleanup_message_ struct message none = message("x", "{}"), zero = message("x", "{\"_meta\":{\"progressToken\":0}}"),
                                         wrong = message("x", "{\"_meta\":{\"progressToken\":{}}}"), odd = message("x", "{\"_meta\":7}");

        assert_null(mcp_progress_token(&none.rpc));
        assert_non_null(mcp_progress_token(&zero.rpc));
        assert_null(mcp_progress_token(&wrong.rpc));
        assert_null(mcp_progress_token(&odd.rpc));
        assert_int_equal(mcp_level_by_name("debug"), MCP_DEBUG);
        assert_int_equal(mcp_level_by_name("emergency"), MCP_EMERGENCY);
        assert_int_equal(mcp_level_by_name("DEBUG"), -1);
        assert_string_equal(mcp_level_name(MCP_WARNING), "warning");
}

static const char *text_of(const json_t *o, const char *key)
{
        return json_string_value(json_object_get(o, key));
}

static void test_results(void **state)
{
        _cleanup_json_ json_t *same = mcp_initialize_result("2025-06-18"), *newest = mcp_initialize_result("2026-07-28");
        _cleanup_json_ json_t *list = mcp_finish_result(MCP_STATELESS, "tools/list", json_pack("{s:[]}", "tools")),
                              *call = mcp_finish_result(MCP_STATELESS, "tools/call", json_object()),
                              *plain = mcp_finish_result(MCP_HANDSHAKE, "tools/list", json_pack("{s:[]}", "tools")),
                              *discovered = mcp_finish_result(MCP_STATELESS, "server/discover", mcp_discover_result());

        assert_string_equal(text_of(same, "protocolVersion"), "2025-06-18");
        assert_string_equal(text_of(newest, "protocolVersion"), MCP_NEWEST_HANDSHAKE);
        assert_true(strlen(text_of(newest, "instructions")) > 100);
        assert_string_equal(text_of(list, "resultType"), "complete");
        assert_true(json_integer_value(json_object_get(list, "ttlMs")) > 0);
        assert_string_equal(text_of(list, "cacheScope"), "private");
        assert_string_equal(text_of(json_object_get(json_object_get(list, "_meta"), "io.modelcontextprotocol/serverInfo"), "name"), "glovebox");
        assert_string_equal(text_of(call, "resultType"), "complete");
        assert_null(json_object_get(call, "ttlMs"));
        assert_int_equal(json_object_size(plain), 1);
        assert_string_equal(json_string_value(json_array_get(json_object_get(discovered, "supportedVersions"), 0)), MCP_STATELESS_VERSION);
        assert_null(mcp_finish_result(MCP_STATELESS, "tools/list", NULL));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_eras),   cmocka_unit_test(test_meta),    cmocka_unit_test(test_headers),
                cmocka_unit_test(test_tokens_and_levels), cmocka_unit_test(test_results),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
