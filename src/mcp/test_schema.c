/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/schema.h"

#include "base/json.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static json_t *parse(const char *text)
{
        json_t *json = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);

        assert_non_null(json);
        return json;
}

static void expect(const char *schema_text, const char *value_text, const char *expected)
{
        _cleanup_json_ json_t *schema = parse(schema_text), *value = parse(value_text);
        char why[SCHEMA_WHY_MAX] = "";

        assert_int_equal(schema_is_known(schema, why), 0);
        int r = schema_check(schema, value, "arguments", why);
        assert_int_equal(r, expected ? -EINVAL : 0);
        if (expected)
                assert_string_equal(why, expected);
}

#define TOOL                                                                                                                                          \
        "{\"type\": \"object\", \"properties\": {\"code\": {\"type\": \"string\"}, \"timeout\": {\"type\": \"number\", \"minimum\": 0.1, \"maximum\": 86400}," \
        " \"limit\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 1000}, \"args\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}, \"maxItems\": 2}," \
        " \"session\": {\"type\": \"string\", \"minLength\": 2, \"maxLength\": 4}, \"files\": {\"type\": \"string\", \"enum\": [\"keep\", \"delete\"]}}," \
        " \"required\": [\"code\"], \"additionalProperties\": false}"

static void test_messages(void **state)
{
        static const struct {
                const char *value, *expected; /* NULL: good */
        } rows[] = {
                {"{\"code\": \"\"}", NULL},
                {"{\"code\": \"x\", \"timeout\": 0.1, \"limit\": 1, \"args\": [], \"session\": \"new\", \"files\": \"keep\"}", NULL},
                {"{\"code\": \"x\", \"timeout\": 86400, \"limit\": 1000, \"args\": [\"\", \"b\"], \"files\": \"delete\"}", NULL},
                {"{}", "arguments.code is required"},
                {"[]", "arguments must be an object, and is an array"},
                {"null", "arguments must be an object, and is null"},
                {"{\"code\": 1}", "arguments.code must be a string, and is a number"},
                {"{\"code\": 1.5}", "arguments.code must be a string, and is 1.5"},
                {"{\"code\": null}", "arguments.code must be a string, and is null"},
                {"{\"code\": true}", "arguments.code must be a string, and is a boolean"},
                {"{\"code\": {}}", "arguments.code must be a string, and is an object"},
                {"{\"cod\": \"print(1)\"}", "arguments.cod is not known; did you mean code?"},
                {"{\"code\": \"\", \"zebra\": 1}", "arguments.zebra is not known; there are: code, timeout, limit, args, session, files"},
                {"{\"code\": \"\", \"\": 1}", "arguments has a name that is not known, of 0 bytes; there are: code, timeout, limit, args, session, files"},
                {"{\"code\": \"\", \"a\\nb\": 1}", "arguments has a name that is not known, of 3 bytes; there are: code, timeout, limit, args, session, files"},
                {"{\"code\": \"\", \"timeout\": 0}", "arguments.timeout: 0 is too small; the least is 0.1"},
                {"{\"code\": \"\", \"timeout\": -1e300}", "arguments.timeout: -1e+300 is too small; the least is 0.1"},
                {"{\"code\": \"\", \"timeout\": 86400.5}", "arguments.timeout: 86400.5 is too large; the most is 86400"},
                {"{\"code\": \"\", \"timeout\": \"5\"}", "arguments.timeout must be a number, and is a string"},
                {"{\"code\": \"\", \"limit\": 5.5}", "arguments.limit must be a whole number, and is 5.5"},
                {"{\"code\": \"\", \"limit\": 1e300}", "arguments.limit must be a whole number, and is 1e+300"},
                {"{\"code\": \"\", \"limit\": 1001.0}", "arguments.limit: 1001 is too large; the most is 1000"},
                {"{\"code\": \"\", \"limit\": 9223372036854775807}", "arguments.limit: 9223372036854775807 is too large; the most is 1000"},
                {"{\"code\": \"\", \"args\": \"-x\"}", "arguments.args must be an array, and is a string"},
                {"{\"code\": \"\", \"args\": [\"-x\", 2]}", "arguments.args[1] must be a string, and is a number"},
                {"{\"code\": \"\", \"args\": [\"a\", \"b\", \"c\"]}", "arguments.args is too long: it has 3 items, and the most is 2"},
                {"{\"code\": \"\", \"session\": \"\"}", "arguments.session must not be empty"},
                {"{\"code\": \"\", \"session\": \"a\"}", "arguments.session is too short: its length is 1, and the least is 2"},
                {"{\"code\": \"\", \"session\": \"abcde\"}", "arguments.session is too long: its length is 5, and the most is 4"},
                {"{\"code\": \"\", \"files\": \"kep\"}", "arguments.files must be one of keep, delete; did you mean keep?"},
                {"{\"code\": \"\", \"files\": \"everything\"}", "arguments.files must be one of keep, delete"},
        };
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                expect(TOOL, rows[i].value, rows[i].expected);
}

/* Characters are counted, not bytes. */
static void test_lengths(void **state)
{
        static const char schema[] = "{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 4}";

        expect(schema, "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80x\"", NULL);
        expect(schema, "\"\xf0\x9f\x98\x80\"", "arguments is too short: its length is 1, and the least is 2");
        expect(schema, "\"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\"", "arguments is too long: its length is 5, and the most is 4");
}

static void test_whole_numbers(void **state)
{
        static const char schema[] = "{\"type\": \"integer\"}";

        expect(schema, "5", NULL);
        expect(schema, "5.0", NULL);
        expect(schema, "-0.0", NULL);
        expect(schema, "1e3", NULL);
        expect(schema, "9007199254740992.0", NULL);
        expect(schema, "9007199254740994.0", "arguments must be a whole number, and is 9.00719925474099e+15");
        expect(schema, "-1e19", "arguments must be a whole number, and is -1e+19");
        expect(schema, "0.5", "arguments must be a whole number, and is 0.5");
        expect("{\"type\": \"number\"}", "5", NULL);
        expect("{\"type\": \"number\"}", "true", "arguments must be a number, and is a boolean");
        expect("{\"type\": \"boolean\"}", "0", "arguments must be a boolean, and is a number");
}

static void test_any(void **state)
{
        static const char schema[] = "{\"anyOf\": [{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\"}}, \"required\": [\"name\"],"
                                     " \"additionalProperties\": false}, {\"type\": \"null\"}]}";

        expect(schema, "null", NULL);
        expect(schema, "{\"name\": \"a\"}", NULL);
        expect(schema, "5", "arguments must be an object or null, and is a number");
        /* What it was meant to be is known: then it is told what is wrong with it. */
        expect(schema, "{\"name\": 5}", "arguments.name must be a string, and is a number");
        expect(schema, "{}", "arguments.name is required");
        expect("{\"type\": \"array\", \"items\": {\"anyOf\": [{\"type\": \"integer\"}, {\"type\": \"null\"}]}}", "[1, null, \"\"]",
               "arguments[2] must be a whole number or null, and is a string");
}

/* Properties that are not named are free, unless the schema says otherwise. */
static void test_additional(void **state)
{
        expect("{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"string\"}}}", "{\"b\": 1}", NULL);
        expect("{\"type\": \"object\", \"additionalProperties\": true}", "{\"b\": 1}", NULL);
        expect("{\"type\": \"object\", \"additionalProperties\": false}", "{\"b\": 1}", "arguments.b is not known; there are: none");
}

/* What somebody has sent is not repeated: it may be a secret, and it may be long. */
static void test_silence(void **state)
{
        static const char secret[] = "hunter2-hunter2-hunter2-hunter2-hunter2-hunter2-hunter2";
        _cleanup_json_ json_t *schema = parse(TOOL), *value = json_object(), *key = json_object();
        char why[SCHEMA_WHY_MAX] = "";

        json_object_set_new(value, "code", json_string(secret));
        json_object_set_new(value, "files", json_string(secret));
        assert_int_equal(schema_check(schema, value, "arguments", why), -EINVAL);
        assert_null(strstr(why, "hunter2"));
        json_object_del(value, "files");
        json_object_set_new(value, "session", json_string(secret));
        assert_int_equal(schema_check(schema, value, "arguments", why), -EINVAL);
        assert_null(strstr(why, "hunter2"));
        json_object_set_new(key, secret, json_true());
        assert_int_equal(schema_check(schema, key, "arguments", why), -EINVAL);
        assert_null(strstr(why, "hunter2"));
}

/* However long what is told would be. */
static void test_bounds(void **state)
{
        char where[2 * SCHEMA_WHY_MAX], why[SCHEMA_WHY_MAX + 1];
        _cleanup_json_ json_t *schema = parse(TOOL), *value = parse("{\"zebra\": 1}"), *names = json_array(), *choice = NULL;

        for (size_t size = 0; size < sizeof(where); size++) {
                memset(where, 'w', size);
                where[size] = '\0';
                memset(why, 0x7f, sizeof(why));
                assert_int_equal(schema_check(schema, value, where, why), -EINVAL);
                assert_non_null(memchr(why, '\0', SCHEMA_WHY_MAX));
                assert_int_equal(why[SCHEMA_WHY_MAX], 0x7f);
        }
        /* Names of a list that do not fit are left out, whole. */
        for (int i = 0; i < 60; i++)
                json_array_append_new(names, json_sprintf("language%02d", i));
        choice = json_pack("{s:O}", "enum", names);
        assert_int_equal(schema_is_known(choice, why), 0);
        assert_int_equal(schema_check(choice, value, "arguments", why), -EINVAL);
        assert_non_null(strstr(why, "arguments must be one of language00, language01, "));
        assert_true(strlen(why) < SCHEMA_WHY_MAX - 1);
        assert_int_equal(strlen(strrchr(why, ' ')), strlen(" language00"));
}

static void test_known(void **state)
{
        static const struct {
                const char *schema, *expected;
        } rows[] = {
                {"true", "schema must be an object, and say something"},
                {"{}", "schema must be an object, and say something"},
                {"{\"pattern\": \"a\"}", "schema: the keyword pattern is not known"},
                {"{\"$ref\": \"#/x\"}", "schema: the keyword $ref is not known"},
                {"{\"type\": \"text\"}", "schema: the type text is not known"},
                {"{\"type\": [\"string\", \"null\"]}", "schema: the keyword type must have a value of type string"},
                {"{\"type\": \"object\", \"properties\": {\"a\": true}}", "schema.a must be an object, and say something"},
                {"{\"type\": \"object\", \"properties\": {\"a\": {\"oneOf\": []}}}", "schema.a: the keyword oneOf is not known"},
                {"{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"array\", \"items\": {\"x\": 1}}}}", "schema.a[]: the keyword x is not known"},
                {"{\"type\": \"object\", \"required\": [\"a\"]}", "schema: a is required, and no property"},
                {"{\"type\": \"object\", \"additionalProperties\": {\"type\": \"string\"}}",
                 "schema: the keyword additionalProperties must have a value of type boolean"},
                {"{\"anyOf\": []}", "schema: anyOf is empty"},
                {"{\"anyOf\": [{\"type\": \"null\"}, {\"type\": \"x\"}]}", "schema|1: the type x is not known"},
                {"{\"enum\": []}", "schema: enum must have 1 to 64 items"},
                {"{\"enum\": [\"a\", 1]}", "schema: enum must have nothing but strings"},
                {"{\"type\": \"string\", \"maxLength\": \"4\"}", "schema: the keyword maxLength must have a value of type integer"},
        };
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_json_ json_t *schema = parse(rows[i].schema);
                char why[SCHEMA_WHY_MAX] = "";
                assert_int_equal(schema_is_known(schema, why), -EINVAL);
                assert_string_equal(why, rows[i].expected);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_messages),      cmocka_unit_test(test_lengths), cmocka_unit_test(test_whole_numbers), cmocka_unit_test(test_any),
                cmocka_unit_test(test_additional),    cmocka_unit_test(test_silence), cmocka_unit_test(test_bounds),        cmocka_unit_test(test_known),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
