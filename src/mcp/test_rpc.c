/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/rpc.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static json_t *parse(const char *text)
{
        json_t *value = json_parse(text, strlen(text), JSON_DECODE_ANY, NULL);

        assert_non_null(value);
        return value;
}

static void expect_bad(const char *text, const char *part, bool has_id)
{
        _cleanup_json_ json_t *value = parse(text);
        _cleanup_rpc_error_ struct rpc_error err = {0};
        struct rpc_message m;

        assert_int_equal(rpc_read(value, &m, &err), -EINVAL);
        assert_int_equal(err.code, RPC_INVALID);
        assert_non_null(strstr(err.message, part));
        assert_int_equal(m.id != NULL, has_id);
}

static void test_messages(void **state)
{
        _cleanup_json_ json_t *request = parse("{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"ping\"}"),
                              *notification = parse("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\",\"params\":{\"a\":1}}"),
                              *answer = parse("{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{}}"),
                              *error = parse("{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1,\"message\":\"\"}}");
        struct rpc_message m;

        assert_int_equal(rpc_read(request, &m, NULL), 0);
        assert_int_equal(m.kind, RPC_REQUEST);
        assert_true(json_is_integer(m.id)); /* 0 is an id as any other */
        assert_string_equal(m.method, "ping");
        assert_int_equal(json_object_size(m.params), 0);
        assert_int_equal(rpc_read(notification, &m, NULL), 0);
        assert_int_equal(m.kind, RPC_NOTIFICATION);
        assert_null(m.id);
        assert_int_equal(json_object_size(m.params), 1);
        assert_int_equal(rpc_read(answer, &m, NULL), 0);
        assert_int_equal(m.kind, RPC_ANSWER);
        assert_null(m.method);
        assert_int_equal(rpc_read(error, &m, NULL), 0);
        assert_int_equal(m.kind, RPC_ANSWER);
}

static void test_what_is_none(void **state)
{
        char text[RPC_ID_MAX + 128];

        expect_bad("[]", "batch", false);
        expect_bad("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", "batch", false);
        expect_bad("7", "object", false);
        expect_bad("null", "object", false);
        expect_bad("{}", "jsonrpc", false);
        expect_bad("{\"jsonrpc\":2.0,\"id\":1,\"method\":\"ping\"}", "jsonrpc", true);
        expect_bad("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", "jsonrpc", true);
        expect_bad("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", "id", false);
        expect_bad("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", "id", false);
        expect_bad("{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"ping\"}", "id", false);
        expect_bad("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", "id", false);
        expect_bad("{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"ping\"}", "id", false);
        expect_bad("{\"jsonrpc\":\"2.0\",\"id\":1}", "method", true);
        expect_bad("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", "method", true);
        expect_bad("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\"}", "method", true);
        expect_bad("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}", "params", true);
        expect_bad("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":null}", "params", true);
        (void)snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":\"%0*d\",\"method\":\"ping\"}", RPC_ID_MAX + 1, 0);
        expect_bad(text, "id", false);
}

static void expect_text(json_t *taken, const char *text)
{
        _cleanup_json_ json_t *value = taken;
        _cleanup_free_ char *printed = json_dumps(value, JSON_COMPACT);

        assert_non_null(printed);
        assert_string_equal(printed, text);
}

static void test_answers(void **state)
{
        _cleanup_json_ json_t *id = json_integer(0), *name = json_string("a");
        _cleanup_rpc_error_ struct rpc_error err = {0};

        expect_text(rpc_result(id, NULL), "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}");
        expect_text(rpc_result(name, json_pack("{s:i}", "n", 1)), "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"n\":1}}");
        expect_text(rpc_notification("n/x", NULL), "{\"jsonrpc\":\"2.0\",\"method\":\"n/x\",\"params\":{}}");
        (void)rpc_fail(&err, RPC_PARAMS, "no %s", "\xff");
        expect_text(rpc_error_to_json(NULL, &err), "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32602,\"message\":\"no \xef\xbf\xbd\"}}");
        err.data = json_pack("{s:i}", "a", 1);
        expect_text(rpc_error_to_json(id, &err), "{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":-32602,\"message\":\"no \xef\xbf\xbd\",\"data\":{\"a\":1}}}");
}

/* "1" and 1 are two ids. */
static void test_keys(void **state)
{
        _cleanup_json_ json_t *number = json_integer(1), *text = json_string("1");
        char a[RPC_KEY_MAX], b[RPC_KEY_MAX];

        rpc_key(number, a);
        rpc_key(text, b);
        assert_string_not_equal(a, b);
        rpc_key(NULL, a);
        assert_string_equal(a, "");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_messages),
                cmocka_unit_test(test_what_is_none),
                cmocka_unit_test(test_answers),
                cmocka_unit_test(test_keys),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
