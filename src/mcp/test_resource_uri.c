/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/resource_uri.h"

#include "base/macro.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define ID "0123456789abcdef0123456789abcdef"
#define FILES "glovebox://sessions/" ID "/files/"
#define RUN "glovebox://runs/" ID

static void test_files(void **state)
{
        static const struct {
                const char *path, *encoded;
        } rows[] = {
                {"a", "a"}, {"out/plot.png", "out/plot.png"}, {"a b", "a%20b"}, {"100%", "100%25"}, {"a?b#c", "a%3Fb%23c"},
                {"\xc3\xa9/\xe2\x82\xac", "%C3%A9/%E2%82%AC"},
                {"-._~", "-._~"}, {"...", "..."}, {".hidden", ".hidden"}, {"a..b/..c", "a..b/..c"}, {"a\nb\x7f\\\"", "a%0Ab%7F%5C%22"},
                {"a+b&c=d;e:f@g,h!i*j'k(l)[m]", "a%2Bb%26c%3Dd%3Be%3Af%40g%2Ch%21i%2Aj%27k%28l%29%5Bm%5D"},
        };
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct resource_uri u;
                char expected[512];
                _cleanup_free_ char *uri = resource_uri_file(ID, rows[i].path);
                snprintf(expected, sizeof(expected), FILES "%s", rows[i].encoded);
                assert_string_equal(uri, expected);
                assert_int_equal(resource_uri_parse(uri, &u), 0);
                assert_int_equal(u.kind, RESOURCE_FILE);
                assert_string_equal(u.id, ID);
                assert_string_equal(u.path, rows[i].path);
        }
}

static void test_outputs(void **state)
{
        struct resource_uri u;
        _cleanup_free_ char *out = resource_uri_output(ID, RESOURCE_STDOUT), *err = resource_uri_output(ID, RESOURCE_STDERR);

        assert_string_equal(out, RUN "/stdout");
        assert_string_equal(err, RUN "/stderr");
        assert_int_equal(resource_uri_parse(out, &u), 0);
        assert_int_equal(u.kind, RESOURCE_STDOUT);
        assert_string_equal(u.id, ID);
        assert_string_equal(u.path, "");
        assert_int_equal(resource_uri_parse(err, &u), 0);
        assert_int_equal(u.kind, RESOURCE_STDERR);
}

static void test_refused(void **state)
{
        static const char *const refused[] = {
                "", "glovebox:", "glovebox://", "glovebox://sessions", "glovebox://sessions/", "glovebox://sessions/" ID, "glovebox://sessions/" ID "/",
                "glovebox://sessions/" ID "/files",
                FILES, "GLOVEBOX://runs/" ID "/stdout", " " RUN "/stdout", "glovebox:///runs/" ID "/stdout", "file:///etc/passwd", "glovebox://files/" ID "/files/a",
                /* ids */
                "glovebox://sessions/0123456789abcdef0123456789abcde/files/a", "glovebox://sessions/" ID "0/files/a",
                "glovebox://sessions/0123456789ABCDEF0123456789abcdef/files/a",
                "glovebox://sessions/0123456789abcdeg0123456789abcdef/files/a", "glovebox://sessions//files/a",
                "glovebox://sessions/%30123456789abcdef0123456789abcdef/files/a",
                /* outputs */
                RUN, RUN "/", RUN "/stdin", RUN "/stdout/", RUN "/stdout/x", RUN "/stdoutx", RUN "/STDOUT", RUN "//stdout", RUN "/stdout?x", RUN "/stdout#x",
                RUN "/%73tdout", RUN "/files/a",
                "glovebox://runs/0123456789abcdef/stdout", "glovebox://sessions/" ID "/stdout",
                /* paths that lead elsewhere, or name nothing */
                FILES "/a", FILES "a/", FILES "a//b", FILES ".", FILES "..", FILES "../a", FILES "a/..", FILES "a/../b", FILES "./a", FILES "a/.",
                FILES "a/./b", FILES "%2E%2E/a", FILES "%2e%2e",
                FILES "/", FILES "%2Fetc", FILES "..%2Fa", FILES "a%2F..%2Fb",
                /* another spelling of one that there is */
                FILES "%61", FILES "a%2Fb", FILES "a%2fb", FILES "%c3%a9", FILES "%C3%a9", FILES "a%2D", FILES "a b", FILES "a+b", FILES "a?b", FILES "a#b",
                FILES "a:b", FILES "\xc3\xa9", FILES "a\nb",
                /* what is no text */
                FILES "a%00", FILES "%00", FILES "a%00b", FILES "%FF", FILES "%C3", FILES "%C0%AF", FILES "%ED%A0%80", FILES "%", FILES "a%2", FILES "%GG",
                FILES "\xff",
        };
        struct resource_uri u = {.path = "untouched"};

        for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
                if (resource_uri_parse(refused[i], &u) != -EINVAL)
                        fail_msg("taken: %s", refused[i]);
        assert_string_equal(u.path, "untouched");
}

/* As long as a path may be, each byte encoded; and one more. */
static void test_long(void **state)
{
        static struct resource_uri u;
        static char path[HOST_PATH_MAX + 1];

        for (int encoded = 0; encoded < 2; encoded++) {
                memset(path, encoded ? ' ' : 'a', sizeof(path));
                path[HOST_PATH_MAX] = '\0';
                _cleanup_free_ char *above = resource_uri_file(ID, path);
                assert_int_equal(resource_uri_parse(above, &u), -EINVAL);
                path[HOST_PATH_MAX - 1] = '\0';
                _cleanup_free_ char *fits = resource_uri_file(ID, path);
                assert_int_equal(resource_uri_parse(fits, &u), 0);
                assert_string_equal(u.path, path);
        }
        size_t size = 4 * MIB;
        _cleanup_free_ char *huge = malloc(size);
        assert_non_null(huge);
        memset(huge, 'a', size);
        memcpy(huge, FILES, strlen(FILES));
        huge[size - 1] = '\0';
        assert_int_equal(resource_uri_parse(huge, &u), -EINVAL);
}

static void test_types(void **state)
{
        static const struct {
                const char *name, *type;
        } rows[] = {
                {"a.png", "image/png"}, {"A.PNG", "image/png"}, {"x/y.jpeg", "image/jpeg"}, {"b.jpg", "image/jpeg"}, {"a.b.csv", "text/csv"},
                {"a.tar.gz", "application/gzip"}, {"a.7z", "application/x-7z-compressed"},
                {"a.zst", "application/zstd"}, {"main.py", "text/x-python"}, {"a.json", "application/json"}, {"a.txt", "text/plain"},
                {"a.md", "text/markdown"}, {"a.svg", "image/svg+xml"},
                {"a.html", "text/html"}, {"a.r", "text/x-r"}, {"a.c", "text/x-c"}, {"a.webp", "image/webp"}, {"a.gif", "image/gif"},
                {"a.pdf", "application/pdf"}, {"a.yml", "application/yaml"},
                {"", "application/octet-stream"}, {"a", "application/octet-stream"}, {"a.", "application/octet-stream"}, {".", "application/octet-stream"},
                {".py", "application/octet-stream"},
                {"x.d/a", "application/octet-stream"}, {"x.py/", "application/octet-stream"}, {"dir/.csv", "application/octet-stream"},
                {"a.pngx", "application/octet-stream"}, {"png", "application/octet-stream"},
        };
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                assert_string_equal(media_type_of(rows[i].name), rows[i].type);
}

/* The table is searched by halves: were a row not in its place, some of these would not be found. */
static void test_every_type(void **state)
{
        static const char *const extensions[] = {
                "7z", "bmp", "bz2", "c", "cc", "cfg", "conf", "cpp", "css", "csv", "docx", "gif", "go", "gz", "h", "htm", "html", "ini", "ipynb", "java",
                "jpeg", "jpg", "js", "json", "jsonl", "log",
                "md", "mjs", "mp3", "mp4", "ndjson", "ogg", "parquet", "pdf", "png", "pptx", "py", "r", "rb", "rs", "rst", "sh", "sql", "sqlite", "svg", "tar",
                "tex", "tgz", "tif", "tiff", "toml",
                "ts", "tsv", "txt", "wasm", "wav", "webp", "xlsx", "xml", "xz", "yaml", "yml", "zip", "zst",
        };
        for (size_t i = 0; i < ARRAY_SIZE(extensions); i++) {
                char name[32];
                snprintf(name, sizeof(name), "a.%s", extensions[i]);
                if (strcmp(media_type_of(name), "application/octet-stream") == 0)
                        fail_msg("not known: %s", name);
        }
}

static void test_pictures(void **state)
{
        static const char *const others[] = {"", "image/", "image/svg+xml", "image/bmp", "image/tiff", "text/plain", "IMAGE/PNG", "image/png;a"};

        assert_true(media_is_picture("image/png"));
        assert_true(media_is_picture("image/jpeg"));
        assert_true(media_is_picture("image/gif"));
        assert_true(media_is_picture("image/webp"));
        for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                assert_false(media_is_picture(others[i]));
}

static void test_pictures_by_bytes(void **state)
{
        static const struct {
                const char *bytes;
                size_t size;
                const char *type;
        } rows[] = {
                {"\x89PNG\r\n\x1a\n.", 9, "image/png"},   {"\xff\xd8\xff.", 4, "image/jpeg"}, {"GIF87a.", 7, "image/gif"}, {"GIF89a.", 7, "image/gif"},
                {"RIFF\0\0\0\0WEBP.", 13, "image/webp"}, {"RIFF\0\0\0\0WAVE.", 13, NULL},   {"....\0\0\0\0WEBP.", 13, NULL}, {"GIF88a.", 7, NULL},
                {"\x89PNG\n\x1a\n..", 9, NULL},          {"BM......", 8, NULL},
        };
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                const char *type = media_picture_of(rows[i].bytes, rows[i].size);
                assert_true(type ? rows[i].type && strcmp(type, rows[i].type) == 0 : !rows[i].type);
                assert_null(media_picture_of(rows[i].bytes, rows[i].size - 1)); /* nothing but its head */
        }
        assert_null(media_picture_of("", 0));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_files),
                cmocka_unit_test(test_outputs),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_long),
                cmocka_unit_test(test_types),
                cmocka_unit_test(test_every_type),
                cmocka_unit_test(test_pictures),
                cmocka_unit_test(test_pictures_by_bytes),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
