/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tools.h"

#include "base/limits.h"
#include "mcp/schema.h"
#include "mcp/tools_text.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

DEFINE_CLEANUP(struct mcp_tools, mcp_tools_free)
#define _cleanup_tools_ _cleanup_(mcp_tools_free_ptr)

static const char *const languages[] = {"bash", "c++", "python", NULL};

static const char *const names[] = {
        [TOOL_LIST_FILES] = "list_files", [TOOL_READ_FILE] = "read_file", [TOOL_RESET_SESSION] = "reset_session", [TOOL_RUN_CODE] = "run_code",
        [TOOL_RUN_PYTHON] = "run_python", [TOOL_RUN_SHELL] = "run_shell", [TOOL_SESSION_INFO] = "session_info",   [TOOL_WRITE_FILE] = "write_file",
};

static json_t *parse(const char *text)
{
        json_t *json = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);

        assert_non_null(json);
        return json;
}

static struct mcp_tools *make(const char *const *all)
{
        struct mcp_tools *t = mcp_tools_new(all);

        assert_non_null(t);
        return t;
}

static struct mcp_tool find(const struct mcp_tools *t, enum mcp_tool_id id)
{
        struct mcp_tool tool = {0};

        assert_int_equal(mcp_tool_find(t, names[id], &tool, NULL), 0);
        return tool;
}

static const json_t *at(const json_t *json, const char *a, const char *b)
{
        return json_object_get(json_object_get(json, a), b);
}

static const json_t *language_of(const struct mcp_tools *t)
{
        return at(find(t, TOOL_RUN_CODE).input, "properties", "language");
}

/* ---- the list ---- */

static void test_list(void **state)
{
        _cleanup_tools_ struct mcp_tools *t = make(languages);
        _cleanup_json_ json_t *list = mcp_tools_list(t), *again = mcp_tools_list(t);
        const json_t *all = json_object_get(list, "tools");

        assert_ptr_equal(list, again);
        assert_int_equal(json_object_size(list), 1);
        assert_int_equal(json_array_size(all), TOOLS_N);
        assert_int_equal(ARRAY_SIZE(names), TOOLS_N);
        for (size_t i = 0; i < TOOLS_N; i++) {
                struct mcp_tool tool = find(t, (enum mcp_tool_id)i);
                assert_int_equal(tool.id, i);
                assert_string_equal(tool.name, names[i]);
                assert_ptr_equal(tool.definition, json_array_get(all, i));
                assert_true(i == 0 || strcmp(names[i - 1], names[i]) < 0);
        }
}

static void test_definitions(void **state)
{
        static const char *const keys[] = {"name", "title", "description", "inputSchema", "outputSchema", "annotations"};
        _cleanup_tools_ struct mcp_tools *t = make(languages);

        for (size_t i = 0; i < TOOLS_N; i++) {
                struct mcp_tool tool = find(t, (enum mcp_tool_id)i);
                const char *description = json_string_value(json_object_get(tool.definition, "description"));
                const char *title = json_string_value(json_object_get(tool.definition, "title"));
                assert_int_equal(json_object_size(tool.definition), ARRAY_SIZE(keys));
                for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
                        assert_non_null(json_object_get(tool.definition, keys[k]));
                assert_true(strlen(description) >= 80 && strlen(description) <= 1500);
                assert_null(strchr(description, '@'));
                assert_string_equal(json_string_value(at(tool.definition, "annotations", "title")), title);
        }
}

static void test_annotations(void **state)
{
        static const struct {
                bool read_only, destructive, idempotent;
        } rows[TOOLS_N] = {
                [TOOL_LIST_FILES] = {true, false, true},    [TOOL_READ_FILE] = {true, false, true},   [TOOL_RESET_SESSION] = {false, true, true},
                [TOOL_RUN_CODE] = {false, true, false},     [TOOL_RUN_PYTHON] = {false, true, false}, [TOOL_RUN_SHELL] = {false, true, false},
                [TOOL_SESSION_INFO] = {true, false, true},  [TOOL_WRITE_FILE] = {false, true, true},
        };
        _cleanup_tools_ struct mcp_tools *t = make(languages);

        for (size_t i = 0; i < TOOLS_N; i++) {
                const json_t *annotations = json_object_get(find(t, (enum mcp_tool_id)i).definition, "annotations");
                assert_int_equal(json_object_size(annotations), 5);
                assert_ptr_equal(json_object_get(annotations, "readOnlyHint"), json_boolean(rows[i].read_only));
                assert_ptr_equal(json_object_get(annotations, "destructiveHint"), json_boolean(rows[i].destructive));
                assert_ptr_equal(json_object_get(annotations, "idempotentHint"), json_boolean(rows[i].idempotent));
                assert_ptr_equal(json_object_get(annotations, "openWorldHint"), json_false());
        }
}

/* ---- schemas ---- */

/* All properties of results are there, always: who reads them need not ask. The same holds for objects in them. */
static void check_closed(const json_t *schema)
{
        const json_t *properties = json_object_get(schema, "properties");
        const char *key;
        json_t *each;
        size_t i;

        if (properties) {
                assert_ptr_equal(json_object_get(schema, "additionalProperties"), json_false());
                assert_int_equal(json_array_size(json_object_get(schema, "required")), json_object_size(properties));
        }
        json_object_foreach((json_t *)properties, key, each) {
                check_closed(each);
        }
        json_array_foreach(json_object_get(schema, "anyOf"), i, each) {
                check_closed(each);
        }
        if (json_object_get(schema, "items"))
                check_closed(json_object_get(schema, "items"));
}

static void test_schemas(void **state)
{
        _cleanup_tools_ struct mcp_tools *t = make(languages);
        const json_t *run = find(t, TOOL_RUN_PYTHON).output;
        char why[SCHEMA_WHY_MAX] = "";

        for (size_t i = 0; i < TOOLS_N; i++) {
                struct mcp_tool tool = find(t, (enum mcp_tool_id)i);
                const json_t *session = at(tool.input, "properties", "session");
                int r = schema_is_known(tool.input, why);
                r |= schema_is_known(tool.output, why);
                assert_string_equal(why, "");
                assert_int_equal(r, 0);
                assert_string_equal(json_string_value(json_object_get(tool.input, "type")), "object");
                assert_string_equal(json_string_value(json_object_get(tool.output, "type")), "object");
                assert_ptr_equal(json_object_get(tool.input, "additionalProperties"), json_false());
                check_closed(tool.output);
                /* The session is told in the same words everywhere (but that some make one for who has none, and those that only look never do), and comes back from
                 * everywhere. */
                bool makes = strncmp(tool.name, "run_", 4) == 0 || tool.id == TOOL_WRITE_FILE, looks = !makes && tool.id != TOOL_RESET_SESSION;
                assert_true(tool.id == TOOL_RESET_SESSION || json_equal(session, at(find(t, makes ? TOOL_RUN_PYTHON : TOOL_READ_FILE).input, "properties", "session")));
                assert_int_equal(strstr(json_string_value(json_object_get(session, "description")), "\"new\"") == NULL, looks);
                assert_int_equal(strstr(json_string_value(json_object_get(session, "description")), "gets a new session") != NULL, makes);
                assert_non_null(at(tool.output, "properties", "session"));
                /* What is to be filled in is said. */
                const char *key;
                json_t *property;
                json_object_foreach(json_object_get(tool.input, "properties"), key, property) {
                        assert_true(json_string_length(json_object_get(property, "description")) > 10);
                }
        }
        assert_true(json_equal(run, find(t, TOOL_RUN_SHELL).output));
        assert_true(json_equal(run, find(t, TOOL_RUN_CODE).output));
}

/* Numbers that are told are those of limits.h. */
static void test_limits(void **state)
{
        _cleanup_tools_ struct mcp_tools *t = make(languages);
        const json_t *read = find(t, TOOL_READ_FILE).input, *code = find(t, TOOL_RUN_CODE).input;

        assert_int_equal(json_integer_value(json_object_get(at(read, "properties", "limit"), "maximum")), MCP_READ_BYTES_MAX);
        assert_int_equal(json_integer_value(json_object_get(at(read, "properties", "limit"), "default")), MCP_TEXT_BYTES_MAX);
        assert_int_equal(json_integer_value(json_object_get(at(code, "properties", "args"), "maxItems")), ARG_COUNT_MAX);
        assert_int_equal(json_integer_value(json_object_get(at(find(t, TOOL_WRITE_FILE).input, "properties", "path"), "maxLength")), HOST_PATH_MAX);
        assert_non_null(strstr(json_string_value(json_object_get(find(t, TOOL_READ_FILE).definition, "description")), "262144"));
        assert_int_equal(MCP_READ_BYTES_MAX, 262144);
}

/* ---- languages ---- */

static void test_languages(void **state)
{
        static const char *const other[] = {"node", NULL};
        _cleanup_tools_ struct mcp_tools *t = make(languages), *u = make(other);
        _cleanup_json_ json_t *three = json_pack("[s,s,s]", "bash", "c++", "python"), *one = json_pack("[s]", "node");

        assert_true(json_equal(json_object_get(language_of(t), "enum"), three));
        assert_true(json_equal(json_object_get(language_of(u), "enum"), one));
        assert_non_null(strstr(json_string_value(json_object_get(find(t, TOOL_RUN_CODE).definition, "description")), "The languages of this host: bash, c++, python. "));
        assert_non_null(strstr(json_string_value(json_object_get(find(u, TOOL_RUN_CODE).definition, "description")), "The languages of this host: node. "));
}

/* An empty enum is no schema. */
static void test_no_languages(void **state)
{
        static const char *const none[] = {NULL};
        _cleanup_tools_ struct mcp_tools *t = make(none), *u = make(NULL);
        char why[SCHEMA_WHY_MAX];

        assert_null(json_object_get(language_of(t), "enum"));
        assert_null(json_object_get(language_of(u), "enum"));
        assert_int_equal(schema_is_known(find(t, TOOL_RUN_CODE).input, why), 0);
        assert_non_null(strstr(json_string_value(json_object_get(find(t, TOOL_RUN_CODE).definition, "description")), "The languages of this host: none. "));
        mcp_tools_free(NULL);
}

/* ---- names ---- */

static void test_unknown(void **state)
{
#define ALL "list_files, read_file, reset_session, run_code, run_python, run_shell, session_info, write_file"
        static const struct {
                const char *name, *expected;
        } rows[] = {
                {NULL, "params.name must be the name of a tool; there are: " ALL},
                {"", "there is no tool of that name; there are: " ALL},
                {"run_pyton", "there is no tool run_pyton; did you mean run_python? There are: " ALL},
                {"RUN_PYTHON", "there is no tool RUN_PYTHON; did you mean run_python? There are: " ALL},
                {"search", "there is no tool search; there are: " ALL},
                {"run python", "there is no tool of that name; there are: " ALL},
                {"run_python\n", "there is no tool of that name; there are: " ALL},
                {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "there is no tool of that name; there are: " ALL},
        };
        _cleanup_tools_ struct mcp_tools *t = make(languages);

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_rpc_error_ struct rpc_error err = {0};
                struct mcp_tool tool = {.id = TOOLS_N};
                assert_int_equal(mcp_tool_find(t, rows[i].name, &tool, &err), -EINVAL);
                assert_int_equal(err.code, RPC_PARAMS);
                assert_string_equal(err.message, rows[i].expected);
                assert_int_equal(tool.id, TOOLS_N);
        }
}

/* ---- arguments ---- */

static const struct {
        enum mcp_tool_id tool;
        const char *arguments; /* NULL: there are none */
        const char *expected;  /* NULL: good */
} calls[] = {
        {TOOL_LIST_FILES, NULL, NULL},
        {TOOL_LIST_FILES, "{\"path\": \"out\", \"limit\": 1000, \"cursor\": \"x\", \"session\": \"new\"}", NULL},
        {TOOL_LIST_FILES, "{\"limit\": 0}", "arguments.limit: 0 is too small; the least is 1"},
        {TOOL_LIST_FILES, "{\"dir\": \"out\"}", "arguments.dir is not known; there are: path, session, limit, cursor"},
        {TOOL_LIST_FILES, "[]", "arguments must be an object, and is an array"},
        {TOOL_READ_FILE, "{\"path\": \"a\"}", NULL},
        {TOOL_READ_FILE, "{\"path\": \"glovebox://runs/0/stdout\", \"offset\": 0, \"limit\": 262144.0}", NULL},
        {TOOL_READ_FILE, NULL, "arguments.path is required"},
        {TOOL_READ_FILE, "{\"path\": \"\"}", "arguments.path must not be empty"},
        {TOOL_READ_FILE, "{\"path\": \"a\", \"offset\": -1}", "arguments.offset: -1 is too small; the least is 0"},
        {TOOL_READ_FILE, "{\"path\": \"a\", \"offset\": 9007199254740993}", "arguments.offset: 9007199254740993 is too large; the most is 9007199254740991"},
        {TOOL_READ_FILE, "{\"path\": \"a\", \"limit\": 262145}", "arguments.limit: 262145 is too large; the most is 262144"},
        {TOOL_READ_FILE, "{\"path\": \"a\", \"limit\": 0.5}", "arguments.limit must be a whole number, and is 0.5"},
        {TOOL_RESET_SESSION, NULL, NULL},
        {TOOL_RESET_SESSION, "{\"files\": \"delete\", \"session\": \"0123456789abcdef0123456789abcdef\"}", NULL},
        {TOOL_RESET_SESSION, "{\"files\": \"remove\"}", "arguments.files must be one of keep, delete"},
        {TOOL_RUN_CODE, "{\"language\": \"c++\", \"code\": \"int main() {}\", \"stdin\": \"1\", \"args\": [\"-v\"], \"timeout\": 5}", NULL},
        {TOOL_RUN_CODE, "{\"code\": \"1\"}", "arguments.language is required"},
        {TOOL_RUN_CODE, "{\"language\": \"python\"}", "arguments.code is required"},
        {TOOL_RUN_CODE, "{\"language\": \"pyhton\", \"code\": \"1\"}", "arguments.language must be one of bash, c++, python; did you mean python?"},
        {TOOL_RUN_CODE, "{\"language\": \"cobol\", \"code\": \"1\"}", "arguments.language must be one of bash, c++, python"},
        {TOOL_RUN_CODE, "{\"language\": \"bash\", \"code\": \"1\", \"args\": \"-v\"}", "arguments.args must be an array, and is a string"},
        {TOOL_RUN_CODE, "{\"language\": \"bash\", \"code\": \"1\", \"stdin\": null}", "arguments.stdin must be a string, and is null"},
        {TOOL_RUN_PYTHON, "{\"code\": \"\"}", NULL},
        {TOOL_RUN_PYTHON, "{\"code\": \"1\", \"timeout\": 0.1, \"session\": \"new\"}", NULL},
        {TOOL_RUN_PYTHON, NULL, "arguments.code is required"},
        {TOOL_RUN_PYTHON, "{\"cod\": \"1\"}", "arguments.cod is not known; did you mean code?"},
        {TOOL_RUN_PYTHON, "{\"code\": 1}", "arguments.code must be a string, and is a number"},
        {TOOL_RUN_PYTHON, "{\"code\": \"1\", \"timeout\": 0}", "arguments.timeout: 0 is too small; the least is 0.1"},
        {TOOL_RUN_PYTHON, "{\"code\": \"1\", \"timeout\": 86401}", "arguments.timeout: 86401 is too large; the most is 86400"},
        {TOOL_RUN_PYTHON, "{\"code\": \"1\", \"session\": \"01234567890123456789012345678901234567890123456789012345678901234\"}",
         "arguments.session is too long: its length is 65, and the most is 64"},
        {TOOL_RUN_SHELL, "{\"command\": \"ls\"}", NULL},
        {TOOL_RUN_SHELL, "{\"code\": \"ls\"}", "arguments.code is not known; there are: command, session, timeout"},
        {TOOL_SESSION_INFO, NULL, NULL},
        {TOOL_SESSION_INFO, "{\"session\": 5}", "arguments.session must be a string, and is a number"},
        {TOOL_WRITE_FILE, "{\"path\": \"a\", \"content\": \"\"}", NULL},
        {TOOL_WRITE_FILE, "{\"path\": \"a\", \"content_base64\": \"AA==\"}", NULL},
        {TOOL_WRITE_FILE, "{\"content\": \"x\"}", "arguments.path is required"},
        {TOOL_WRITE_FILE, "{\"path\": \"a\", \"contents\": \"x\"}", "arguments.contents is not known; did you mean content?"},
};

static void test_arguments(void **state)
{
        _cleanup_tools_ struct mcp_tools *t = make(languages);
        bool good[TOOLS_N] = {0}, bad[TOOLS_N] = {0};

        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                _cleanup_json_ json_t *arguments = calls[i].arguments ? parse(calls[i].arguments) : NULL;
                _cleanup_rpc_error_ struct rpc_error err = {0};
                struct mcp_tool tool = find(t, calls[i].tool);
                int r = mcp_tool_check(&tool, arguments, &err);
                assert_string_equal(err.message, calls[i].expected ? calls[i].expected : "");
                assert_int_equal(r, calls[i].expected ? -EINVAL : 0);
                assert_int_equal(err.code, calls[i].expected ? RPC_PARAMS : 0);
                (calls[i].expected ? bad : good)[calls[i].tool] = true;
        }
        for (size_t i = 0; i < TOOLS_N; i++)
                assert_true(good[i] && bad[i]);
}

/* ---- results: an example of each, as docs and clients have them ---- */

static void test_results(void **state)
{
        static const char run[] = "{\"verdict\": \"error\", \"ok\": false, \"message\": \"m\", \"exit_code\": null, \"signal\": null, \"stdout\": \"\", \"stderr\": \"\","
                                  " \"stdout_bytes\": 0, \"stderr_bytes\": 0, \"truncated\": false, \"value\": null,"
                                  " \"error\": {\"name\": \"E\", \"value\": \"v\", \"traceback\": \"t\"},"
                                  " \"duration_ms\": 1.5, \"session\": \"4f\", \"run\": \"0f\", \"state_kept\": true, \"pictures\": 0,"
                                  " \"files\": [{\"path\": \"a\", \"uri\": \"u\", \"type\": \"text/plain\", \"size\": 1}], \"notes\": [\"n\"]}";
        _cleanup_tools_ struct mcp_tools *t = make(languages);
        const json_t *schema = find(t, TOOL_RUN_PYTHON).output;
        _cleanup_json_ json_t *result = parse(run);
        char why[SCHEMA_WHY_MAX] = "";

        assert_int_equal(schema_check(schema, result, "result", why), 0);
        json_object_set_new(result, "error", json_null());
        json_object_set_new(result, "exit_code", json_integer(3));
        assert_int_equal(schema_check(schema, result, "result", why), 0);
        json_object_set_new(result, "exit_code", json_string("3"));
        assert_int_equal(schema_check(schema, result, "result", why), -EINVAL);
        assert_string_equal(why, "result.exit_code must be a whole number or null, and is a string");
        json_object_set_new(result, "exit_code", json_null());
        json_object_del(result, "notes");
        assert_int_equal(schema_check(schema, result, "result", why), -EINVAL);
        assert_string_equal(why, "result.notes is required");
}

/* ---- memory ---- */

static long allocations, allocations_left; /* until one fails */

static void *failing_malloc(size_t size)
{
        allocations++;
        return allocations_left-- != 0 ? malloc(size) : NULL;
}

/* Each allocation of jansson after the text was read fails in turn: NULL comes back, and nothing is lost (as the address sanitizer sees). Reading is not of
 * this test: base/json.h says what it takes. */
static void test_out_of_memory(void **state)
{
        _cleanup_tools_ struct mcp_tools *whole = make(languages);
        struct mcp_tools *t = NULL;
        long failed = 0;

        json_object_seed(1); /* what jansson makes once */
        json_set_alloc_funcs(failing_malloc, free);
        allocations_left = LONG_MAX;
        json_decref(json_parse((const char *)mcp_tools_text, mcp_tools_size, JSON_REJECT_DUPLICATES, NULL));
        for (long n = allocations; !t && failed < 1000; n++, failed++) {
                allocations_left = n;
                t = mcp_tools_new(languages);
        }
        /* A call without arguments needs an empty object. */
        _cleanup_rpc_error_ struct rpc_error err = {0};
        struct mcp_tool tool = t ? find(t, TOOL_SESSION_INFO) : (struct mcp_tool){0};
        allocations_left = 0;
        int r = t ? mcp_tool_check(&tool, NULL, &err) : 0;
        json_set_alloc_funcs(malloc, free);
        assert_non_null(t);
        _cleanup_json_ json_t *list = mcp_tools_list(t), *expected = mcp_tools_list(whole);
        mcp_tools_free(t);
        assert_true(json_equal(list, expected));
        assert_true(failed > 5);
        assert_int_equal(r, -EINVAL);
        assert_int_equal(err.code, RPC_INTERNAL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_list),      cmocka_unit_test(test_definitions),  cmocka_unit_test(test_annotations), cmocka_unit_test(test_schemas),
                cmocka_unit_test(test_limits),    cmocka_unit_test(test_languages),    cmocka_unit_test(test_no_languages), cmocka_unit_test(test_unknown),
                cmocka_unit_test(test_arguments), cmocka_unit_test(test_results),      cmocka_unit_test(test_out_of_memory),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
