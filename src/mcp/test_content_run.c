/* SPDX-License-Identifier: Apache-2.0
 *
 * Of a run: pictures that are large, files that have changed, the status of a command. The rest is in test_content.c. */
#include "mcp/test_content.h"

/* Together they have no more bytes than there may be; one that is smaller still fits. */
static void test_large_pictures(void **state)
{
        size_t size = MCP_PICTURES_BYTES_MAX / 4 * 3;
        _cleanup_free_ char *bytes = calloc(1, size + 3);
        json_t *result = result_with("ok", "", "{'results':[]}"), *results = json_object_get(result, "results");

        assert_non_null(bytes);
        memcpy(bytes, PNG, 8);
        json_array_append_new(results, picture("image/png", bytes, size + 3));
        json_array_append_new(results, picture("image/png", bytes, size - 12));
        json_array_append_new(results, picture("image/png", PNG, 12));
        json_array_append_new(results, picture("image/png", PNG, 12));
        _cleanup_json_ json_t *out = make(result, &plain);
        assert_int_equal(count_items(out, "image"), 2);
        assert_has(text_of(out), "2 pictures were left out");
}

/* ---- files ---- */

static void test_files(void **state)
{
        struct content_run o = {.run = RUN, .session = SESSION, .files = json_array(), .more_files = 2};

        for (int i = 0; i < MCP_FILES_MAX + 1; i++) {
                char path[32], uri[128];
                snprintf(path, sizeof(path), "out/%d.csv", i);
                snprintf(uri, sizeof(uri), "glovebox://sessions/" SESSION "/files/%s", path);
                json_array_append_new(o.files, json_pack("{s:s, s:s, s:s, s:i}", "path", path, "uri", uri, "type", "text/csv", "size", i));
        }
        _cleanup_json_ json_t *out = make(result_with("ok", "", NULL), &o);
        assert_has(text_of(out), "It printed nothing.\nsession: " SESSION "\nchanged files:\n<files-");
        assert_has(text_of(out), " untrusted>\n- \"out/0.csv\" (text/csv, 0 bytes)\n- \"out/1.csv\" (text/csv, 1 bytes)\n");
        assert_has(text_of(out), "- and 3 more\n");
        assert_int_equal(json_array_size(structured(out, "files")), MCP_FILES_MAX);
        assert_int_equal(count_items(out, "resource_link"), MCP_FILES_MAX);
        assert_true(json_equal(json_array_get(structured(out, "files"), 3), json_array_get(o.files, 3)));
        const json_t *link = json_array_get(json_object_get(out, "content"), 4);
        assert_string_equal(json_string_value(json_object_get(link, "uri")), "glovebox://sessions/" SESSION "/files/out/3.csv");
        assert_string_equal(json_string_value(json_object_get(link, "name")), "out/3.csv");
        assert_int_equal(json_integer_value(json_object_get(link, "size")), 3);
        json_decref(o.files);

        o.files = parse("[1, {}, {'path':'a'}, {'path':1,'uri':'u'}, {'path':'a\\u0000b','uri':'u'}, {'path':'fine','uri':'u','size':'x'}]");
        _cleanup_json_ json_t *odd = make(result_with("ok", "", NULL), &o);
        assert_has(text_of(odd), " untrusted>\n- \"fine\" (application/octet-stream)\n- and 2 more\n");
        assert_int_equal(json_array_size(structured(odd, "files")), 1);
        assert_true(json_is_null(json_object_get(json_array_get(structured(odd, "files"), 0), "size")));
        json_decref(o.files);

        o.files = NULL;
        _cleanup_json_ json_t *only = make(result_with("ok", "", NULL), &o);
        assert_has(text_of(only), " untrusted>\n2\n</files-");
        assert_lacks(text_of(only), "looked at");
        o.files_unknown = true;
        o.more_files = 0;
        _cleanup_json_ json_t *unknown = make(result_with("ok", "", NULL), &o);
        assert_has(text_of(unknown), "Which files have changed is not known");
        assert_true(json_is_true(json_object_get(json_object_get(json_array_get(json_object_get(odd, "content"), 0), "_meta"), "glovebox/untrusted")));
}

static void test_more_files_than_are_looked_at(void **state)
{
        static const char note[] = "Not all files of the workspace were looked at";
        struct content_run o = {.run = RUN, .session = SESSION, .more_files = 2, .files_cut = true};

        _cleanup_json_ json_t *only = make(result_with("ok", "", NULL), &o);
        assert_has(text_of(only), " untrusted>\nat least 2\n</files-");
        assert_has(text_of(only), note);
        assert_has(json_string_value(json_array_get(structured(only, "notes"), 0)), note);

        o.files = parse("[{'path':'a','uri':'u','size':1}]");
        _cleanup_json_ json_t *out = make(result_with("ok", "", NULL), &o);
        assert_has(text_of(out), " untrusted>\n- \"a\" (application/octet-stream, 1 bytes)\n- and at least 2 more\n</files-");

        o.more_files = 0;
        _cleanup_json_ json_t *all = make(result_with("ok", "", NULL), &o);
        assert_lacks(text_of(all), "at least");
        assert_has(text_of(all), note);
        json_decref(o.files);
}

/* ---- the status of a command, in a shell that lives on ---- */

#define FAILED "The code failed with ExitStatus: the error says what and where."

static void test_status_of_a_command(void **state)
{
        static const struct {
                const char *error;
                int status; /* -1: it is an error like others */
        } rows[] = {
                {"{'error':{'name':'ExitStatus','value':'1','traceback':''}}", 1},
                {"{'error':{'name':'ExitStatus','value':'255','traceback':''}}", 255},
                {"{'error':{'name':'ExitStatus','value':'0'}}", 0},
                {"{'error':{'name':'ExitStatus','value':'256','traceback':''}}", -1},
                {"{'error':{'name':'ExitStatus','value':'-1','traceback':''}}", -1},
                {"{'error':{'name':'ExitStatus','value':'0001','traceback':''}}", -1},
                {"{'error':{'name':'ExitStatus','value':'1\\u00001','traceback':''}}", -1},
                {"{'error':{'name':'ExitStatus','value':'','traceback':''}}", -1},
                {"{'error':{'name':'ExitStatus','value':1,'traceback':''}}", -1},
                {"{'error':{'name':'ExitStatus','value':'1','traceback':'Traceback'}}", -1}, /* an exception of that name */
                {"{'error':{'name':'ExitStatu','value':'1','traceback':''}}", -1},
        };
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_json_ json_t *out = make(result_with("error", FAILED, rows[i].error), &plain);
                char sentence[64];

                snprintf(sentence, sizeof(sentence), "The command exited with status %d.", rows[i].status);
                if (rows[i].status < 0) {
                        assert_has(text_of(out), "The code failed with an exception: the error says what and where.\n");
                        assert_has(text_of(out), "<error-");
                        assert_true(json_is_null(structured(out, "exit_code")) && json_is_object(structured(out, "error")));
                        continue;
                }
                assert_string_equal(json_string_value(structured(out, "message")), sentence);
                assert_has(text_of(out), sentence);
                assert_has(text_of(out), "It printed nothing.\n");
                assert_lacks(text_of(out), "<error-");
                assert_int_equal(json_integer_value(structured(out, "exit_code")), rows[i].status);
                assert_true(json_is_integer(structured(out, "exit_code")) && json_is_null(structured(out, "error")));
        }
        /* A limit that made it fail is told first. */
        _cleanup_json_ json_t *full = make(result_with("disk", "Stopped by the disk limit of 1 MB.", rows[0].error), &plain);
        assert_string_equal(json_string_value(structured(full, "message")), "Stopped by the disk limit of 1 MB.");
        assert_int_equal(json_integer_value(structured(full, "exit_code")), 1);
        assert_lacks(text_of(full), "<error-");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_large_pictures),
                cmocka_unit_test(test_files),
                cmocka_unit_test(test_more_files_than_are_looked_at),
                cmocka_unit_test(test_status_of_a_command),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
