/* SPDX-License-Identifier: Apache-2.0
 *
 * Indexes, manifests and configurations: those that are meant, and those that are refused. */
#include "image/oci.h"
#include "image/unpack.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define TAR "application/vnd.oci.image.layer.v1.tar"
#define DESCRIPTOR(type, digest, size) "{\"mediaType\":\"" type "\",\"digest\":\"sha256:" digest "\",\"size\":" size "}"
#define MANIFEST(layers) "{\"schemaVersion\":2,\"config\":" DESCRIPTOR("c", A, "7") ",\"layers\":[" layers "]}"

static void test_index(void **state)
{
        static const struct {
                const char *text;
                int code;
        } rows[] = {
                {"{\"manifests\":[" DESCRIPTOR("m", A, "5") "]}", GB_E_NONE},
                {"{\"manifests\":[{\"digest\":\"sha256:" B "\",\"size\":1,\"platform\":{\"os\":\"linux\",\"architecture\":\"s390x\"}},"
                 "{\"digest\":\"sha256:" A "\",\"size\":5,\"platform\":{\"os\":\"linux\",\"architecture\":\"amd64\"}},"
                 "{\"digest\":\"sha256:" B "\",\"size\":1,\"platform\":{\"os\":\"unknown\",\"architecture\":\"unknown\"}}]}",
                 GB_E_NONE},
                {"{\"manifests\":[" DESCRIPTOR("m", A, "5") "," DESCRIPTOR("m", B, "5") "]}", GB_E_USAGE},
                {"{\"manifests\":[{\"digest\":\"sha256:" B "\",\"size\":1,\"platform\":{\"os\":\"windows\"}}]}", GB_E_USAGE},
                {"{\"manifests\":[]}", GB_E_USAGE},
                {"{\"manifests\":{}}", GB_E_USAGE},
                {"{}", GB_E_USAGE},
                {"[]", GB_E_USAGE},
                {"", GB_E_USAGE},
                {"{\"manifests\":[7]}", GB_E_USAGE},
                {"{\"manifests\":[{\"digest\":\"sha256:" A "\"}]}", GB_E_USAGE},
                {"{\"manifests\":[" DESCRIPTOR("m", A, "-1") "]}", GB_E_USAGE},
                {"{\"manifests\":[" DESCRIPTOR("m", "../../../../etc/passwd", "1") "]}", GB_E_USAGE},
                {"{\"manifests\":[" DESCRIPTOR("m", A "a", "1") "]}", GB_E_USAGE},
                {"{\"manifests\":[{\"digest\":\"md5:" A "\",\"size\":1}]}", GB_E_USAGE},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct oci_reference ref = {0};
                gb_error err = {0};
                int r = oci_parse_index(rows[i].text, strlen(rows[i].text), "amd64", &ref, &err);
                assert_int_equal(err.code, rows[i].code);
                assert_int_equal(r == 0, rows[i].code == GB_E_NONE);
                if (r == 0) {
                        assert_string_equal(ref.path, "blobs/sha256/" A);
                        assert_int_equal(ref.size, 5);
                } else
                        assert_true(strlen(err.message) > 10);
        }
}

static void test_manifest(void **state)
{
        static const struct {
                const char *text;
                int code;
        } rows[] = {
                {MANIFEST(DESCRIPTOR(TAR, A, "1024")), GB_E_NONE},
                {MANIFEST(DESCRIPTOR(TAR "+gzip", A, "1") "," DESCRIPTOR(TAR "+zstd", B, "9999")), GB_E_NONE},
                {MANIFEST(DESCRIPTOR(TAR, A, "1024") "," DESCRIPTOR(TAR, A, "1024")), GB_E_NONE}, /* an empty one */
                {MANIFEST(DESCRIPTOR(TAR, A, "99999") "," DESCRIPTOR(TAR, B, "5") "," DESCRIPTOR(TAR, A, "99999")), GB_E_USAGE},
                {MANIFEST(DESCRIPTOR("application/octet-stream", A, "1")), GB_E_USAGE},
                {MANIFEST(DESCRIPTOR("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", A, "1")), GB_E_USAGE},
                {MANIFEST(""), GB_E_USAGE},
                {MANIFEST("null"), GB_E_USAGE},
                {"{\"schemaVersion\":1,\"config\":" DESCRIPTOR("c", A, "7") ",\"layers\":[" DESCRIPTOR(TAR, A, "1") "]}", GB_E_USAGE},
                {"{\"schemaVersion\":2,\"layers\":[" DESCRIPTOR(TAR, A, "1") "]}", GB_E_USAGE},
                {"{\"schemaVersion\":2,\"config\":" DESCRIPTOR("c", A, "7") "}", GB_E_USAGE},
                {"{\"schemaVersion\":2,\"schemaVersion\":2}", GB_E_USAGE},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_oci_plan_ struct oci_plan plan = {0};
                gb_error err = {0};
                int r = oci_parse_manifest(rows[i].text, strlen(rows[i].text), &plan, &err);
                assert_int_equal(err.code, rows[i].code);
                assert_int_equal(r == 0, rows[i].code == GB_E_NONE);
                if (r == 0)
                        assert_string_equal(plan.layers[0].path, "blobs/sha256/" A);
        }
}

static void test_many_layers(void **state)
{
        static char text[IMAGE_LAYERS_MAX * 256 + 1024];
        _cleanup_oci_plan_ struct oci_plan plan = {0};
        gb_error err = {0};

        (void)state;
        char *at = text + sprintf(text, "{\"schemaVersion\":2,\"config\":" DESCRIPTOR("c", A, "7") ",\"layers\":[");
        for (int i = 0; i <= IMAGE_LAYERS_MAX; i++)
                at += sprintf(at, "%s{\"mediaType\":\"" TAR "\",\"digest\":\"sha256:%064x\",\"size\":1}", i > 0 ? "," : "", (unsigned)i);
        strcpy(at, "]}");
        assert_true(oci_parse_manifest(text, strlen(text), &plan, &err) < 0);
        assert_int_equal(err.code, GB_E_LIMIT);
}

static void test_docker(void **state)
{
        static const struct {
                const char *text;
                bool good;
        } rows[] = {
                {"[{\"Config\":\"" A ".json\",\"RepoTags\":null,\"Layers\":[\"" B "/layer.tar\"]}]", true},
                {"[{\"Config\":\"blobs/sha256/" A "\",\"Layers\":[\"blobs/sha256/" B "\"]}]", true},
                {"[{\"Config\":\"sha256:" A "\",\"Layers\":[\"" B ".tar.gz\"]}]", true},
                {"[]", false},
                {"{}", false},
                {"[{\"Config\":\"" A ".json\",\"Layers\":[\"" B ".tar\"]},{\"Config\":\"" A ".json\",\"Layers\":[\"" B ".tar\"]}]", false},
                {"[{\"Config\":\"../" A ".json\",\"Layers\":[\"" B "/layer.tar\"]}]", false},
                {"[{\"Config\":\"" A ".json\",\"Layers\":[\"" B "/../../etc/passwd\"]}]", false},
                {"[{\"Config\":\"" A ".json\",\"Layers\":[\"/etc/passwd\"]}]", false},
                {"[{\"Config\":\"" A ".json\",\"Layers\":[\"etc/passwd\"]}]", false},
                {"[{\"Config\":\"" A ".json\",\"Layers\":[7]}]", false},
                {"[{\"Config\":\"" A ".json\"}]", false},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_oci_plan_ struct oci_plan plan = {0};
                gb_error err = {0};
                assert_int_equal(oci_parse_docker(rows[i].text, strlen(rows[i].text), &plan, &err) == 0, rows[i].good);
                if (rows[i].good)
                        assert_string_equal(plan.config_digest, A);
        }
}

static void test_config(void **state)
{
        static const struct {
                const char *text;
                bool good;
        } rows[] = {
                {"{\"os\":\"linux\",\"rootfs\":{\"diff_ids\":[\"sha256:" A "\"]}}", true},
                {"{\"os\":\"linux\",\"rootfs\":{\"diff_ids\":[\"sha256:" B "\"]}}", false},
                {"{\"os\":\"windows\",\"rootfs\":{\"diff_ids\":[\"sha256:" A "\"]}}", false},
                {"{\"architecture\":\"vax\",\"rootfs\":{\"diff_ids\":[\"sha256:" A "\"]}}", false},
                {"{\"rootfs\":{\"diff_ids\":[]}}", false},
                {"{\"rootfs\":{\"diff_ids\":[\"sha256:" A "\",\"sha256:" A "\"]}}", false},
                {"{\"rootfs\":{\"diff_ids\":[null]}}", false},
                {"{}", false},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_oci_plan_ struct oci_plan plan = {0};
                gb_error err = {0};
                assert_int_equal(oci_parse_manifest(MANIFEST(DESCRIPTOR(TAR, A, "9")), strlen(MANIFEST(DESCRIPTOR(TAR, A, "9"))), &plan, &err), 0);
                assert_int_equal(oci_parse_config(rows[i].text, strlen(rows[i].text), &plan, &err) == 0, rows[i].good);
        }
}

static void test_paths(void **state)
{
        static const struct {
                const char *path, *clean; /* NULL: refused */
        } rows[] = {
                {"a", "a"}, {"./a", "a"}, {"a//b/./c/", "a/b/c"}, {".", ""}, {"./", ""}, {"..", NULL}, {"../a", NULL}, {"a/..", NULL}, {"a/../b", NULL},
                {"/a", NULL}, {"//a", NULL}, {"...", "..."}, {"..a", "..a"}, {"a/..b", "a/..b"},
        };
        char clean[HOST_PATH_MAX], deep[4 * IMAGE_DEPTH_MAX] = "";

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                assert_int_equal(image_clean_path(rows[i].path, rows[i].path, clean, NULL) == 0, rows[i].clean != NULL);
                if (rows[i].clean)
                        assert_string_equal(clean, rows[i].clean);
        }
        for (int i = 0; i < IMAGE_DEPTH_MAX; i++)
                strcat(deep, "d/");
        assert_int_equal(image_clean_path(deep, deep, clean, NULL), 0);
        strcat(deep, "d");
        assert_true(image_clean_path(deep, deep, clean, NULL) < 0);

        assert_true(oci_knows_path("manifest.json"));
        assert_true(oci_knows_path("blobs/sha256/x"));
        assert_true(oci_knows_path(A "/layer.tar"));
        assert_true(oci_knows_path(A ".json"));
        assert_false(oci_knows_path("etc/passwd"));
        assert_false(oci_knows_path(""));
        assert_false(oci_knows_path("manifest.jso"));
        assert_false(oci_knows_path(A ".exe"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_index), cmocka_unit_test(test_manifest), cmocka_unit_test(test_many_layers),
                cmocka_unit_test(test_docker), cmocka_unit_test(test_config), cmocka_unit_test(test_paths),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
