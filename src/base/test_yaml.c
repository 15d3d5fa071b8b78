/* SPDX-License-Identifier: Apache-2.0 */
#include "base/yaml.h"

#include "base/limits.h"
#include "base/buffer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct yaml_doc *parse(const char *text)
{
        struct yaml_doc *doc = NULL;
        struct yaml_where where;

        if (yaml_parse(text, strlen(text), &doc, &where) < 0)
                fail_msg("%zu:%zu: %s", where.line, where.column, where.problem);
        return doc;
}

static void test_types(void **state)
{
        static const struct {
                const char *text;
                json_type type;
        } rows[] = {
                {"true", JSON_TRUE}, {"false", JSON_FALSE}, {"yes", JSON_STRING}, {"no", JSON_STRING},
                {"True", JSON_STRING}, {"null", JSON_NULL}, {"~", JSON_NULL}, {"", JSON_NULL}, {"30", JSON_INTEGER},
                {"-1", JSON_INTEGER}, {"0", JSON_INTEGER}, {"1.5", JSON_REAL}, {"1e3", JSON_REAL}, {"512m", JSON_STRING},
                {"0777", JSON_STRING}, {"0x1f", JSON_STRING}, {"1.2.3", JSON_STRING}, {"+1", JSON_STRING},
                {".nan", JSON_STRING}, {".inf", JSON_STRING}, {"'30'", JSON_STRING}, {"\"true\"", JSON_STRING},
                {"[]", JSON_ARRAY}, {"{}", JSON_OBJECT}, {"-", JSON_ARRAY}, {"1_000", JSON_STRING},
                {"2024-01-01", JSON_STRING}, {"1:30", JSON_STRING},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_yaml_doc_ struct yaml_doc *doc = parse(rows[i].text);
                if (json_typeof(doc->root) != rows[i].type)
                        fail_msg("\"%s\" is of type %d", rows[i].text, json_typeof(doc->root));
        }
}

static void test_marks(void **state)
{
        _cleanup_yaml_doc_ struct yaml_doc *doc = parse("# comment\n"
                                                        "mem_limit: 512m\n"
                                                        "timeout:   1.50\n"
                                                        "\"quoted\": '007'\n"
                                                        "list:\n"
                                                        "  - a\n"
                                                        "  - {b: true}\n");
        const struct yaml_mark *m = yaml_doc_mark(doc, doc->root, "mem_limit", 0);
        assert_int_equal(m->line, 2);
        assert_int_equal(m->column, 12);
        assert_int_equal(m->key_column, 1);
        assert_string_equal(m->text, "512m");
        assert_false(m->quoted);

        m = yaml_doc_mark(doc, doc->root, "timeout", 0);
        assert_int_equal(m->column, 12);
        assert_string_equal(m->text, "1.50");

        m = yaml_doc_mark(doc, doc->root, "quoted", 0);
        assert_string_equal(m->text, "007");
        assert_true(m->quoted);

        const json_t *list = json_object_get(doc->root, "list");
        assert_null(yaml_doc_mark(doc, doc->root, "list", 0)->text);
        m = yaml_doc_mark(doc, list, NULL, 0);
        assert_int_equal(m->line, 6);
        assert_int_equal(m->column, 5);
        m = yaml_doc_mark(doc, json_array_get(list, 1), "b", 0);
        assert_int_equal(m->line, 7);
        assert_int_equal(m->key_column, 6);
        assert_int_equal(m->column, 9);
        assert_string_equal(m->text, "true");

        assert_int_equal(yaml_doc_mark(doc, NULL, NULL, 0)->line, 2);
        assert_int_equal(yaml_doc_mark(doc, doc->root, "none", 0)->line, 1);
}

struct refused {
        const char *text;
        size_t line, column;
        const char *problem;
        size_t size; /* 0: strlen */
        int r;       /* 0: -EINVAL */
};

static void check_refused(const struct refused *row)
{
        struct yaml_doc *doc = NULL;
        struct yaml_where where;

        int r = yaml_parse(row->text, row->size ? row->size : strlen(row->text), &doc, &where);
        assert_null(doc);
        if (r != (row->r ? row->r : -EINVAL) || where.line != row->line || where.column != row->column ||
            !strstr(where.problem, row->problem))
                fail_msg("%.40s: got %d %zu:%zu: %s", row->text, r, where.line, where.column, where.problem);
}

static void test_refused(void **state)
{
        static const struct refused rows[] = {
                {"a: &x 1\n", 1, 4, "anchors"},
                {"a: 1\nb: *x\n", 2, 4, "aliases"},
                {"a: &x [1]\n", 1, 4, "anchors"},
                {"a: !!str 1\n", 1, 4, "tags"},
                {"a: !x {b: 1}\n", 1, 4, "tags"},
                {"a: ! 1\n", 1, 4, "tags"},
                {"%TAG ! tag:x,1:\n---\na: 1\n", 1, 1, "tags"},
                {"a: 1\nb: 2\na: 3\n", 3, 1, "\"a\" stands here twice"},
                {"x: {a: 1, \"a\": 2}\n", 1, 11, "\"a\" stands here twice"},
                {"a: 1\n---\nb: 2\n", 2, 1, "second document"},
                {"? [a]\n: 1\n", 1, 3, "cannot be a key"},
                {"? {a: 1}\n: 1\n", 1, 3, "cannot be a key"},
                {"a: \"\\0\"\n", 1, 4, "NUL"},
                {"a: \"x\\0y\"\n", 1, 4, "NUL"},
                {"\"a\\0b\": 1\n", 1, 1, "NUL"},
                {"a: b\0c\n", 1, 5, "NUL", 7},
                {"a: 1\nb: \xff\n", 2, 4, "not UTF-8"},
                {"a: \xc3", 1, 4, "not UTF-8"},
                {"\xff\xfe" "a\0", 1, 1, "not UTF-8", 4}, /* UTF-16 */
                {"a: \x1b[2J\n", 1, 4, "control character"},
                {"a: 99999999999999999999\n", 1, 4, "too large"},
                {"a: 1e999\n", 1, 4, "too large"},
                {"a: [1, 2\n", 2, 1, "did not find expected ',' or ']'"},
                {"a: 1\n b: 2\n", 2, 3, "mapping values are not allowed"},
                {"a:\n\t- 1\n", 2, 1, "cannot start any token"},
                {"a: \"\\ud800\"\n", 1, 7, "Unicode"},
                {"a: 'x\n", 2, 1, "end of stream"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                check_refused(&rows[i]);
}

static void test_bounds(void **state)
{
        _cleanup_buffer_ struct buffer deep, many, big;

        buffer_init(&deep, 1000);
        for (int i = 0; i < YAML_DEPTH_MAX; i++)
                assert_int_equal(buffer_add_string(&deep, "["), 0);
        for (int i = 0; i < YAML_DEPTH_MAX; i++)
                assert_int_equal(buffer_add_string(&deep, "]"), 0);
        yaml_doc_free(parse(deep.data));
        memset(deep.data, '[', deep.size);
        check_refused(&(struct refused){deep.data, 1, YAML_DEPTH_MAX + 1, "too deep", .r = -EFBIG});

        buffer_init(&many, YAML_BYTES_MAX);
        for (int i = 0; i < YAML_NODES_MAX - 1; i++)
                assert_int_equal(buffer_add_string(&many, "- a\n"), 0);
        yaml_doc_free(parse(many.data));
        assert_int_equal(buffer_add_string(&many, "- a\n"), 0);
        check_refused(&(struct refused){many.data, YAML_NODES_MAX, 3, "too many", .r = -EFBIG});

        buffer_init(&big, 2 * YAML_BYTES_MAX);
        while (big.size <= YAML_BYTES_MAX)
                assert_int_equal(buffer_add_string(&big, "# some comment\n"), 0);
        check_refused(&(struct refused){big.data, 1, 1, "too large", .r = -EFBIG});
}

static void test_empty(void **state)
{
        static const char *const texts[] = {"", "\n", "# nothing\n", "---\n", "\xef\xbb\xbf"};

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                _cleanup_yaml_doc_ struct yaml_doc *doc = parse(texts[i]);
                assert_true(json_is_null(doc->root));
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_types),  cmocka_unit_test(test_marks), cmocka_unit_test(test_refused),
                cmocka_unit_test(test_bounds), cmocka_unit_test(test_empty),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
