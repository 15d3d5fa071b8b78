/* SPDX-License-Identifier: Apache-2.0
 *
 * Bodies that are to be JSON: what is taken, and what the hostile ones cost. */
#include "base/buffer.h"
#include "base/fd.h"
#include "server/json_scan.h"
#include "server/live.h"
#include "server/loop.h"
#include "server/test_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct fixture f;

static int setup(void **state)
{
        fixture_init(&f);
        fixture_start(&f);
        return 0;
}

static int teardown(void **state)
{
        fixture_stop(&f);
        return 0;
}

static struct answer post(const char *type, const void *body, size_t size)
{
        _cleanup_close_ int fd = fixture_connect(&f);
        char head[256];

        snprintf(head, sizeof(head), "POST /json HTTP/1.1\r\nHost: a\r\n%sContent-Length: %zu\r\n\r\n", type, size);
        say(fd, head);
        say_bytes(fd, body, size);
        return hear(fd);
}

#define JSON_TYPE "Content-Type: application/json\r\n"
#define TEXT(text) (text), sizeof(text) - 1

static void test_types(void **state)
{
        static const struct {
                const char *type;
                int status;
        } rows[] = {
                {JSON_TYPE, 200}, {"content-type: Application/JSON\r\n", 200}, {"Content-Type: application/json; charset=utf-8\r\n", 200},
                {"Content-Type: application/json;charset=\"UTF-8\"\r\n", 200}, {"Content-Type: application/json; charset=latin1\r\n", 415}, {"", 415},
                {"Content-Type: text/plain\r\n", 415}, {"Content-Type: application/jsonp\r\n", 415}, {"Content-Type: application/x-www-form-urlencoded\r\n", 415},
                {"Content-Type:\r\n", 415},
        };
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_answer_ struct answer a = post(rows[i].type, TEXT("{\"a\": [1, null, \"x\"]}"));
                assert_int_equal(a.status, rows[i].status);
                if (a.status == 200)
                        assert_string_equal(a.body, "{\"a\":[1,null,\"x\"]}");
        }
        /* Nothing has no type. */
        _cleanup_answer_ struct answer empty = post("", "", 0);
        assert_int_equal(empty.status, 200);
        assert_string_equal(empty.body, "{}");
}

static void test_refused(void **state)
{
        static const struct {
                const char *text;
                size_t size;
                const char *says;
        } rows[] = {
                {TEXT("{"), "not JSON"}, {TEXT("[]"), "not a JSON object"}, {TEXT("1"), "not a JSON object"}, {TEXT("null"), "not a JSON object"}, {TEXT("{\"a\":1} x"), "not JSON"},
                {TEXT("{'a':1}"), "not JSON"}, {TEXT("{\"a\":1,}"), "not JSON"}, {TEXT("{\"a\":NaN}"), "not JSON"}, {TEXT("{\"a\":01}"), "not JSON"},
                {TEXT("{\"a\":1,\"a\":2}"), "twice"}, {TEXT("{\"b\":{\"a\":1,\"\\u0061\":2}}"), "twice"}, {TEXT("{\"a\":1e400}"), "too large"},
                {TEXT("{\"a\":-1e400}"), "too large"}, {TEXT("{\"a\":99999999999999999999}"), "too large"}, {TEXT("{\"a\":\"\\u0000\"}"), "NUL"},
                {TEXT("{\"\\u0000\":1}"), "NUL"}, {TEXT("{\"a\":\"\\ud800\"}"), "not JSON"}, {TEXT("{\"a\":\"\xff\"}"), "not UTF-8"}, {TEXT("{\"a\":\"\xc0\x80\"}"), "not UTF-8"},
                {TEXT("{\"a\":\"\xed\xa0\x80\"}"), "not UTF-8"}, {TEXT("\xef\xbb\xbf{}"), "byte-order mark"}, {TEXT("{\"a\":\0}"), "not JSON"}, {TEXT("{\"a\":\"\n\"}"), "not JSON"},
                {TEXT("\xff\xfe{\0}\0"), "not UTF-8"},
        };
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_answer_ struct answer a = post(JSON_TYPE, rows[i].text, rows[i].size);
                if (a.status != 400 || !strstr(a.body, rows[i].says))
                        print_error("%s gives %s%s\n", rows[i].text, a.head, a.body);
                assert_int_equal(a.status, 400);
                assert_non_null(strstr(a.body, "{\"error\":{\"code\":\"usage\","));
                assert_non_null(strstr(a.body, rows[i].says));
        }
}

/* The most memory since the last call of forget_peak(). */
static long peak_kib(void)
{
        char line[256];
        long kib = -1;
        FILE *in = fopen("/proc/self/status", "re");

        assert_non_null(in);
        while (fgets(line, sizeof(line), in))
                if (strncmp(line, "VmHWM:", 6) == 0)
                        kib = atol(line + 6);
        fclose(in);
        return kib;
}

static void forget_peak(void)
{
        FILE *out = fopen("/proc/self/clear_refs", "we");

        if (out) {
                fputs("5", out);
                fclose(out);
        }
}

/* n times the same between two ends, in memory and as a file. */
static void check_bomb(const char *before, const char *piece, size_t n, const char *after, int status)
{
        _cleanup_buffer_ struct buffer text = {0};

        buffer_init(&text, 1 << 26);
        buffer_add_string(&text, before);
        for (size_t i = 0; i < n; i++)
                buffer_add_string(&text, piece);
        buffer_add_string(&text, after);
        forget_peak();
        long kib = peak_kib();
        _cleanup_answer_ struct answer a = post(JSON_TYPE, text.data, text.size);
        assert_int_equal(a.status, status);
        if (status != 200 && !GLOVEBOX_SANITIZED)
                assert_true(peak_kib() - kib < 8 * 1024);
}

static void test_bombs(void **state)
{
        check_bomb("{\"a\":", "[", JSON_DEPTH_MAX, "", 400);
        check_bomb("{\"a\":", "[", 100000, "", 400);
        check_bomb("", "{\"a\":", 1000000, "", 400);
        check_bomb("{\"a\":[", "1,", 1000000, "1]}", 400);
        check_bomb("{\"a\":[", "[],", 1000000, "1]}", 400);
        check_bomb("{", "\"k\":1,", 1000000, "\"b\":1}", 400);
        check_bomb("{\"a\":", "1", 1000000, "}", 400);
        check_bomb("{\"a\":", "1", JSON_NUMBER_BYTES_MAX + 1, "}", 400);
        check_bomb("", "\xff", 10000000, "", 400);
        check_bomb("{\"a\":\"", "x", 10000000, "", 400);
        /* What looks like one and is text */
        check_bomb("{\"a\":\"", "[{,:1\\\"", 1000000, "\"}", 200);
        check_bomb("{\"a\":\"", "\xc3\xa9", 5000000, "\"}", 200);
        check_bomb("{\"a\":[", "1,", 30000, "1]}", 200);
}

/* As it goes into the depth and out again, and where pieces are cut, changes nothing. */
static void test_scan(void **state)
{
        char nested[4 * JSON_DEPTH_MAX + 64] = "";
        gb_error err = {0};

        for (int i = 0; i < JSON_DEPTH_MAX; i++)
                strcat(nested, "[");
        for (int i = 0; i < JSON_DEPTH_MAX; i++)
                strcat(nested, "]");
        strcat(nested, ",\"\\\\\\\"[[[[[\",[]");
        for (size_t cut = 0; cut <= strlen(nested); cut++) {
                struct json_scan s = {0};
                assert_int_equal(json_scan(&s, nested, cut, &err), 0);
                assert_int_equal(json_scan(&s, nested + cut, strlen(nested) - cut, &err), 0);
                assert_int_equal(s.depth, 0);
        }
        struct json_scan s = {0};
        assert_int_equal(json_scan(&s, nested, JSON_DEPTH_MAX, &err), 0);
        assert_true(json_scan(&s, "{", 1, &err) < 0);
        assert_int_equal(err.code, GB_E_USAGE);
}

/* What is written when there is no memory to make it. */
static void test_fixed_ends(void **state)
{
        static const char *const unknown[] = {"exit_code", "signal", "duration_ms", "cpu_ms", "setup_ms", "truncated",
                                              "peaks", "limits"};
        json_t *lost = json_loads(RUN_LOST, JSON_REJECT_DUPLICATES, NULL);
        json_t *failed = json_loads(RUN_NO_MEMORY, JSON_REJECT_DUPLICATES, NULL);
        const json_t *verdict = json_object_get(lost, "verdict");

        assert_string_equal(json_string_value(json_object_get(verdict, "kind")), "lost");
        for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
                assert_true(json_is_null(json_object_get(lost, unknown[i])));
        assert_null(json_object_get(failed, "verdict"));
        assert_string_equal(json_string_value(json_object_get(json_object_get(failed, "error"), "code")), "internal");
        json_decref(lost);
        json_decref(failed);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {TEST(test_types), TEST(test_refused), TEST(test_bombs), TEST(test_scan),
                                           cmocka_unit_test(test_fixed_ends)};
        return cmocka_run_group_tests(tests, NULL, NULL);
}
