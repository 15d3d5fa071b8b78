/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"
#include "base/utf8.h"
#include "engine/result.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct policy policy = {
        .cpu_milli = 1000,
        .mem_limit_bytes = 512 * MIB,
        .timeout_usec = 30000000,
        .pids_limit = 64,
        .tmp_size_bytes = 64 * MIB,
        .disk_limit_bytes = 256 * MIB,
        .inode_limit = 1000,
        .output_limit_bytes = UINT64_MAX,
        .nofile = 256,
        .read_only = true,
};

static struct result *new_result(void)
{
        struct result *r = calloc(1, sizeof(*r));

        assert_non_null(r);
        strcpy(r->id, "0123456789abcdef0123456789abcdef");
        r->facts = (struct run_facts){.started = true, .ending = ENDING_OF_EXIT(0), .known = ALL_KNOWN,
                .wall_usec = 1234567, .cpu_usec = 100};
        r->setup_usec = 1300;
        r->setup_known = true;
        r->language = strdup("python");
        r->trust = strdup("untrusted");
        r->policy_origin = strdup("built-in");
        r->backend = strdup("native");
        for (int i = 0; i < CONTROL_COUNT; i++)
                r->controls.status[i] = (struct control_status){CONTROL_ENFORCED, "so"};
        buffer_init(&r->out, 1 * MIB);
        buffer_init(&r->err, 1 * MIB);
        return r;
}

/* To text and back, as a client reads it. */
static json_t *through_text(const struct result *r)
{
        json_t *j = result_to_json(r, &policy);
        assert_non_null(j);
        _cleanup_free_ char *text = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(15));
        json_decref(j);
        assert_non_null(text);
        assert_true(utf8_is_valid(text, strlen(text)));

        json_error_t error;
        j = json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
        if (!j)
                fail_msg("%s", error.text);
        return j;
}

static const char *string_of(json_t *j, const char *key)
{
        return json_string_value(json_object_get(j, key));
}

static void test_keys(void **state)
{
        static const char *const keys[] = {"id", "verdict", "exit_code", "signal", "phase", "duration_ms", "cpu_ms", "setup_ms",
                                           "stdout", "stderr", "truncated", "peaks", "limits", "policy", "language",
                                           "backend", "controls", "notes", "guard", "scrubbed"};
        _cleanup_result_ struct result *r = new_result();
        verdict_decide(&r->facts, &policy, &r->verdict);
        json_t *j = through_text(r);

        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
                if (!json_object_get(j, keys[i]))
                        fail_msg("%s is missing", keys[i]);
        assert_int_equal(json_object_size(j), ARRAY_SIZE(keys));
        assert_int_equal(json_object_size(json_object_get(j, "peaks")), 6);
        assert_int_equal(json_object_size(json_object_get(j, "limits")), 10);
        assert_int_equal(json_object_size(json_object_get(j, "policy")), 5);
        assert_int_equal(json_array_size(json_object_get(j, "controls")), CONTROL_COUNT);
        assert_int_equal(json_array_size(json_object_get(j, "notes")), 0);

        assert_string_equal(string_of(json_object_get(j, "verdict"), "kind"), "ok");
        assert_true(json_is_null(json_object_get(json_object_get(j, "verdict"), "limit")));
        assert_true(json_is_null(json_object_get(json_object_get(j, "verdict"), "unit")));
        assert_string_equal(string_of(json_object_get(j, "policy"), "network"), "none");
        assert_string_equal(string_of(j, "stdout"), "");
        /* What JSON cannot hold as a number is held as the largest it can. */
        assert_true(json_integer_value(json_object_get(json_object_get(j, "limits"), "output_bytes")) == INT64_MAX);
        json_decref(j);
}

static void test_times_have_three_decimals(void **state)
{
        _cleanup_result_ struct result *r = new_result();
        json_t *j = result_to_json(r, &policy);
        _cleanup_free_ char *text = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(15));

        assert_non_null(strstr(text, "\"duration_ms\":1234.567,\"cpu_ms\":0.1,\"setup_ms\":1.3,"));
        json_decref(j);
}

/* A number that was not observed is null, and not 0. */
static void test_unknown_amounts(void **state)
{
        static const char *const times[] = {"duration_ms", "cpu_ms", "setup_ms"};
        static const char *const peaks[] = {"memory_bytes", "cpu_usec", "pids", "disk_bytes", "inodes"};
        _cleanup_result_ struct result *r = new_result();

        r->facts.known = (struct known_amounts){0};
        r->setup_known = false;
        r->verdict = (struct verdict){.kind = VERDICT_MEMORY, .limit = 9, .unit = "bytes"};
        _cleanup_json_ json_t *j = through_text(r);
        for (size_t i = 0; i < ARRAY_SIZE(times); i++)
                assert_true(json_is_null(json_object_get(j, times[i])));
        for (size_t i = 0; i < ARRAY_SIZE(peaks); i++)
                assert_true(json_is_null(json_object_get(json_object_get(j, "peaks"), peaks[i])));
        assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "peaks"), "output_bytes")), 0);
        assert_true(json_is_integer(json_object_get(json_object_get(j, "peaks"), "output_bytes")));
        assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "verdict"), "limit")), 9);
        assert_true(json_is_null(json_object_get(json_object_get(j, "verdict"), "peak")));
}

static void test_ends(void **state)
{
        static const struct {
                struct run_facts facts;
                const char *exit_code, *signal, *phase;
        } rows[] = {
                {{.started = true, .ending = ENDING_OF_EXIT(3)}, "3", "null", "run"},
                {{.started = true, .ending = ENDING_OF_EXIT(1), .compiling = true}, "1", "null", "compile"},
                {{.started = true, .ending = ENDING_OF_SIGNAL(SIGSEGV)}, "null", "\"SIGSEGV\"", "run"},
                {{.started = true, .ending = ENDING_OF_SIGNAL(32)}, "null", "\"SIG32\"", "run"},
                {{.started = true, .stop = STOP_LOST}, "null", "null", "run"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_result_ struct result *r = new_result();
                r->facts = rows[i].facts;
                verdict_decide(&r->facts, &policy, &r->verdict);
                json_t *j = through_text(r);
                _cleanup_free_ char *code = json_dumps(json_object_get(j, "exit_code"), JSON_ENCODE_ANY);
                _cleanup_free_ char *by = json_dumps(json_object_get(j, "signal"), JSON_ENCODE_ANY);
                assert_string_equal(code, rows[i].exit_code);
                assert_string_equal(by, rows[i].signal);
                assert_string_equal(string_of(j, "phase"), rows[i].phase);
                json_decref(j);
        }
}

struct output_case {
        const char *bytes;
        size_t size;
        const char *readable;
        size_t readable_size;
        bool lossy;
};
#define OUTPUT(bytes, readable, lossy) {bytes, sizeof(bytes) - 1, readable, sizeof(readable) - 1, lossy}

static const struct output_case outputs[] = {
        OUTPUT("plain\n", "plain\n", false),
        OUTPUT("a\0b\033[31m\"\\", "a\0b\033[31m\"\\", false),
        OUTPUT("\xe2\x80\xa8\xf0\x9f\x98\x80\xef\xbb\xbf", "\xe2\x80\xa8\xf0\x9f\x98\x80\xef\xbb\xbf", false),
        OUTPUT("x\xff", "x\xef\xbf\xbd", true),
        OUTPUT("\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", true),
        OUTPUT("cut\xe2\x82", "cut\xef\xbf\xbd", true),
};

static void test_output(void **state)
{
        for (size_t i = 0; i < ARRAY_SIZE(outputs); i++) {
                const struct output_case *c = &outputs[i];
                _cleanup_result_ struct result *r = new_result();
                assert_int_equal(buffer_add(&r->err, c->bytes, c->size), 0);
                json_t *j = through_text(r), *text = json_object_get(j, "stderr"), *exact = json_object_get(j, "stderr_base64");

                assert_int_equal(json_string_length(text), c->readable_size);
                assert_memory_equal(json_string_value(text), c->readable, c->readable_size);
                assert_int_equal(exact != NULL, c->lossy);
                if (exact) {
                        _cleanup_free_ void *bytes = NULL;
                        size_t size;
                        assert_int_equal(base64_decode(json_string_value(exact), json_string_length(exact), &bytes, &size), 0);
                        assert_int_equal(size, c->size);
                        assert_memory_equal(bytes, c->bytes, size);
                }
                json_decref(j);
        }
}

static void test_output_not_kept(void **state)
{
        _cleanup_result_ struct result *r = new_result();
        buffer_init(&r->out, 0);
        buffer_init(&r->err, 0);
        json_t *j = through_text(r);

        assert_null(json_object_get(j, "stdout"));
        assert_null(json_object_get(j, "stderr"));
        json_decref(j);
}

static void test_set_bytes(void **state)
{
        json_t *j = json_object();

        assert_int_equal(json_set_bytes(j, "data", "a\0b", 3), 0);
        assert_int_equal(json_set_bytes(j, "empty", NULL, 0), 0);
        assert_int_equal(json_set_bytes(j, "raw", "\xff", 1), 0);
        _cleanup_free_ char *text = json_dumps(j, JSON_COMPACT);
        assert_string_equal(text, "{\"data\":\"a\\u0000b\",\"empty\":\"\",\"raw_base64\":\"/w==\"}");
        json_decref(j);
}

static void expect_note(const struct result *r, size_t n, const char *note)
{
        json_t *j = through_text(r), *notes = json_object_get(j, "notes");

        assert_int_equal(json_array_size(notes), n);
        if (n > 0)
                assert_string_equal(json_string_value(json_array_get(notes, n - 1)), note);
        json_decref(j);
}

static void test_notes(void **state)
{
        _cleanup_result_ struct result *r = new_result();

        r->facts.pids_refused = 3;
        expect_note(r, 1, "3 forks were refused by the task limit");
        r->verdict.kind = VERDICT_PIDS; /* the verdict tells it already */
        expect_note(r, 0, NULL);
        r->facts.oom_kills = 1;
        expect_note(r, 1, "1 process was killed by the memory limit");
        r->facts.disk_full = true;
        expect_note(r, 2, "a writable place had no room left at the end");
        r->facts.disk_full_before = true;
        expect_note(r, 2, "a writable place was full before the run and at its end (workspace 256 MB, /tmp 64 MB, peak 0 bytes): no more can be written there "
                          "until something is deleted");
        r->truncated = true;
        expect_note(r, 3, "the output was cut at its limit");
        r->controls.status[CONTROL_MEMORY] = (struct control_status){CONTROL_WEAKER, "rlimit only"};
        expect_note(r, 4, "the control memory was weaker: rlimit only");
        r->controls.status[CONTROL_PIDS] = (struct control_status){CONTROL_OFF, ""};
        expect_note(r, 5, "the control pids was off");
}

/* A path of the host may be any bytes. */
static void test_text_of_the_host(void **state)
{
        _cleanup_result_ struct result *r = new_result();
        free(r->policy_origin);
        r->policy_origin = strdup("/etc/p\xff.yaml");
        free(r->trust);
        r->trust = NULL;
        memset(r->controls.status[0].how, 0xff, sizeof(r->controls.status[0].how)); /* and no end */
        r->controls.status[0].state = CONTROL_WEAKER;
        json_t *j = through_text(r);

        assert_string_equal(string_of(json_object_get(j, "policy"), "origin"), "/etc/p\xef\xbf\xbd.yaml");
        assert_true(json_is_null(json_object_get(json_object_get(j, "policy"), "trust")));
        json_decref(j);
}

/* A run in a context: what the code gave and said. */
static void fill_context(struct result *r)
{
        static const char png[] = "\x89PNG";
        const struct frame_part value[] = {{"text/plain", "42", 2}, {"text/html", "a\xff", 2}, {"image/png", png, 4}, {"image/svg+xml", "<svg/>", 6}};
        const struct frame_part shown[] = {{"application/pdf", "%PDF", 4}, {"application/json", "[1]", 3}, {"text/plain", "a\0b", 3}};

        strcpy(r->session, "fedcba9876543210fedcba9876543210");
        strcpy(r->context, "7");
        r->facts.ending = (struct ending){0};
        r->facts.claimed = true;
        r->state_kept = true;
        assert_int_equal(result_add_value(r, true, value, ARRAY_SIZE(value)), 0);
        assert_int_equal(result_add_value(r, false, shown, ARRAY_SIZE(shown)), 0);
        assert_int_equal(result_set_text(&r->error.name, "E", 1), 0);
        assert_int_equal(result_set_text(&r->error.value, "v\xff", 2), 0);
        assert_int_equal(result_set_text(&r->error.traceback, "", 0), 0);
        r->has_error = true;
        r->values_dropped = 3;
}

static void test_context(void **state)
{
        _cleanup_result_ struct result *r = new_result();
        fill_context(r);
        verdict_decide(&r->facts, &policy, &r->verdict);
        json_t *j = through_text(r);
        static const char wanted[] =
                "[{\"main\":true,\"data\":{\"text/plain\":\"42\",\"text/html\":{\"base64\":\"Yf8=\"},\"image/png\":{\"base64\":\"iVBORw==\"},"
                "\"image/svg+xml\":\"<svg/>\"}},"
                "{\"main\":false,\"data\":{\"application/pdf\":{\"base64\":\"JVBERg==\"},\"application/json\":\"[1]\",\"text/plain\":\"a\\u0000b\"}}]";

        _cleanup_free_ char *results = json_dumps(json_object_get(j, "results"), JSON_COMPACT);
        _cleanup_free_ char *error = json_dumps(json_object_get(j, "error"), JSON_COMPACT | JSON_ENSURE_ASCII);
        _cleanup_free_ char *kept = json_dumps(json_object_get(j, "state"), JSON_COMPACT);
        assert_string_equal(results, wanted);
        assert_string_equal(error, "{\"name\":\"E\",\"value\":\"v\\uFFFD\",\"traceback\":\"\"}");
        assert_string_equal(kept, "{\"kept\":true,\"restarted\":false}");
        assert_string_equal(string_of(j, "session"), r->session);
        assert_string_equal(string_of(j, "context"), "7");
        assert_int_equal(json_integer_value(json_object_get(j, "results_dropped")), 3);
        assert_true(json_is_null(json_object_get(j, "exit_code")));
        expect_note(r, 1, "3 results were dropped, because of result_count or result_limit of the policy");
        json_decref(j);

        /* In a session, but not in a context. */
        r->context[0] = '\0';
        j = through_text(r);
        assert_true(json_is_null(json_object_get(j, "context")));
        assert_null(json_object_get(j, "results"));
        assert_null(json_object_get(j, "error"));
        json_decref(j);
}

static void test_many_values(void **state)
{
        _cleanup_result_ struct result *r = new_result();

        for (int i = 0; i < 1000; i++) {
                struct frame_part part = {"text/plain", (const char *)&i, sizeof(i)};
                assert_int_equal(result_add_value(r, false, &part, 1), 0);
        }
        for (int i = 0; i < 1000; i++)
                assert_memory_equal(r->values[i]->parts[0].bytes, &i, sizeof(i));
        /* A text is cut, and not inside a character. */
        char *text = malloc(ERROR_TEXT_MAX + 2);
        memset(text, 'x', ERROR_TEXT_MAX + 2);
        memcpy(text + ERROR_TEXT_MAX - 1, "\xc3\xa4", 2);
        assert_int_equal(result_set_text(&r->error.name, text, ERROR_TEXT_MAX + 2), 0);
        assert_int_equal(r->error.name.size, ERROR_TEXT_MAX - 1);
        free(text);
}

static long allocations_left;

static void *failing_malloc(size_t size)
{
        return allocations_left-- > 0 ? malloc(size) : NULL;
}

/* Each allocation of jansson fails in turn: NULL comes back, and nothing is lost (as the address
 * sanitizer sees). */
static void test_out_of_memory(void **state)
{
        _cleanup_result_ struct result *r = new_result();
        assert_int_equal(buffer_add(&r->out, "\xff", 1), 0);
        r->facts.pids_refused = 1;
        fill_context(r);
        json_t *j = NULL;

        json_object_seed(1); /* what jansson makes once is not of this test */
        json_set_alloc_funcs(failing_malloc, free);
        long n = 0;
        for (; !j && n < 10000; n++) {
                allocations_left = n;
                j = result_to_json(r, &policy);
        }
        json_decref(j);
        json_set_alloc_funcs(malloc, free);
        assert_non_null(j);
        assert_true(n > 100);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_keys),
                cmocka_unit_test(test_times_have_three_decimals),
                cmocka_unit_test(test_unknown_amounts),
                cmocka_unit_test(test_ends),
                cmocka_unit_test(test_output),
                cmocka_unit_test(test_output_not_kept),
                cmocka_unit_test(test_set_bytes),
                cmocka_unit_test(test_notes),
                cmocka_unit_test(test_text_of_the_host),
                cmocka_unit_test(test_context),
                cmocka_unit_test(test_many_values),
                cmocka_unit_test(test_out_of_memory),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
