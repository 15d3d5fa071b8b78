/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8 and base64: the two forms in which output leaves as JSON. */
#include "base/base64.h"
#include "base/utf8.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FFFD "\xef\xbf\xbd"

struct utf8_case {
        const char *bytes;
        size_t size;
        bool valid;
        size_t tail;
        const char *replaced;
        size_t replaced_size;
};
#define CASE(bytes, valid, tail, replaced) {bytes, sizeof(bytes) - 1, valid, tail, replaced, sizeof(replaced) - 1}

static const struct utf8_case cases[] = {
        CASE("", true, 0, ""),
        CASE("plain", true, 0, "plain"),
        CASE("a\0b", true, 0, "a\0b"),
        CASE("\xc3\xa9", true, 0, "\xc3\xa9"),
        CASE("\xe2\x82\xac", true, 0, "\xe2\x82\xac"),
        CASE("\xf0\x9f\x98\x80", true, 0, "\xf0\x9f\x98\x80"),
        CASE("\xef\xbb\xbf", true, 0, "\xef\xbb\xbf"),         /* BOM */
        CASE("\xe2\x80\xa8", true, 0, "\xe2\x80\xa8"),         /* U+2028 */
        CASE("\xef\xbf\xbf", true, 0, "\xef\xbf\xbf"),         /* U+FFFF, a noncharacter */
        CASE("\xf4\x8f\xbf\xbf", true, 0, "\xf4\x8f\xbf\xbf"), /* U+10FFFF */
        CASE("\xed\x9f\xbf\xee\x80\x80", true, 0, "\xed\x9f\xbf\xee\x80\x80"), /* around the surrogates */

        /* Not complete yet. */
        CASE("x\xc3", false, 1, "x" FFFD),
        CASE("x\xe2\x82", false, 2, "x" FFFD),
        CASE("x\xf0\x9f\x98", false, 3, "x" FFFD),
        CASE("\xf0\x9f", false, 2, FFFD),
        CASE("\xff\xe2\x82", false, 2, FFFD FFFD),
        CASE("\xe2\x82\xe2", false, 1, FFFD FFFD),

        /* Never to be completed. */
        CASE("\x80", false, 0, FFFD),
        CASE("\xff\xfe", false, 0, FFFD FFFD),
        CASE("\xc0\x80", false, 0, FFFD FFFD),                 /* overlong NUL */
        CASE("\xc1", false, 0, FFFD),
        CASE("\xe0\x80\xaf", false, 0, FFFD FFFD FFFD),        /* overlong */
        CASE("\xe0\x9f", false, 0, FFFD FFFD),
        CASE("\xf0\x80\x80\xaf", false, 0, FFFD FFFD FFFD FFFD),
        CASE("\xf0\x8f", false, 0, FFFD FFFD),
        CASE("\xed\xa0\x80", false, 0, FFFD FFFD FFFD),        /* lone surrogate */
        CASE("\xed\xa0", false, 0, FFFD FFFD),
        CASE("\xf4\x90\x80\x80", false, 0, FFFD FFFD FFFD FFFD), /* above U+10FFFF */
        CASE("\xf5\x80\x80\x80", false, 0, FFFD FFFD FFFD FFFD),
        CASE("a\x80\x80\x80", false, 0, "a" FFFD FFFD FFFD),
        CASE("\x80\x80\x80\x80\x80", false, 0, FFFD FFFD FFFD FFFD FFFD),

        /* The example of the Unicode standard for maximal subparts. */
        CASE("a\xf1\x80\x80\xe1\x80\xc2"
             "b\x80"
             "c\x80\xbf"
             "d",
             false, 0, "a" FFFD FFFD FFFD "b" FFFD "c" FFFD FFFD "d"),
        /* Past the eight bytes that are looked at at once. */
        CASE("0123456789abcde\xff"
             "0123456789",
             false, 0, "0123456789abcde" FFFD "0123456789"),
};

static void test_table(void **state)
{
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const struct utf8_case *c = &cases[i];
                _cleanup_buffer_ struct buffer out = {0};
                buffer_init(&out, 3 * c->size);

                if (utf8_is_valid(c->bytes, c->size) != c->valid)
                        fail_msg("row %zu: validity", i);
                if (utf8_incomplete_tail(c->bytes, c->size) != c->tail)
                        fail_msg("row %zu: tail", i);
                assert_int_equal(utf8_replace(&out, c->bytes, c->size), 0);
                if (out.size != c->replaced_size || (out.size > 0 && memcmp(out.data, c->replaced, out.size) != 0))
                        fail_msg("row %zu: replaced", i);
        }
}

/* Every code point, encoded by hand, is valid exactly when it is a scalar value, and each cut
 * inside it is a tail exactly then. */
static void test_all_code_points(void **state)
{
        for (uint32_t c = 0x80; c < 0x200000; c++) {
                unsigned char s[4];
                size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
                for (size_t i = n; i-- > 1;)
                        s[i] = (unsigned char)(0x80 | (c >> 6 * (n - 1 - i) & 0x3f));
                s[0] = (unsigned char)((0xf00 >> n & 0xff) | c >> 6 * (n - 1));

                bool scalar = c < 0x110000 && (c < 0xd800 || c > 0xdfff);
                if (utf8_is_valid(s, n) != scalar)
                        fail_msg("U+%04X", c);
                for (size_t cut = 1; scalar && cut < n; cut++)
                        if (utf8_incomplete_tail(s, cut) != cut)
                                fail_msg("U+%04X cut at %zu", c, cut);
        }
}

static uint64_t random_state = 0x9e3779b97f4a7c15ULL;

static uint32_t random_next(uint32_t below)
{
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        random_state ^= random_state << 17;
        return (uint32_t)((random_state >> 32) % below);
}

/* Half pieces of UTF-8, half any bytes: pure noise would hardly ever make a tail. */
static size_t random_bytes(unsigned char *p, size_t max)
{
        static const char *const pieces[] = {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf0\x9f", "\xed\xa0\x80"};
        size_t n = 0, want = random_next((uint32_t)max - 4);

        while (n < want) {
                const char *piece = pieces[random_next(ARRAY_SIZE(pieces))];
                if (random_next(2) == 0) {
                        memcpy(p + n, piece, strlen(piece));
                        n += strlen(piece);
                } else {
                        p[n++] = (unsigned char)random_next(256);
                }
        }
        return n;
}

/* In any chunks the same bytes come out, and text that is valid as a whole is valid in each piece. */
static void test_splitter_property(void **state)
{
        for (int round = 0; round < 20000; round++) {
                unsigned char bytes[64];
                size_t size = random_bytes(bytes, sizeof(bytes));
                bool valid = utf8_is_valid(bytes, size);
                struct utf8_splitter splitter = {0};
                _cleanup_buffer_ struct buffer all = {0};
                buffer_init(&all, sizeof(bytes));

                for (size_t i = 0; i < size;) {
                        size_t chunk = MIN((size_t)random_next(7), size - i), before = all.size;
                        assert_int_equal(utf8_splitter_add(&splitter, &all, bytes + i, chunk), 0);
                        if (valid && all.size > before)
                                assert_true(utf8_is_valid(all.data + before, all.size - before));
                        assert_true(splitter.n_held < UTF8_SEQUENCE_MAX);
                        i += chunk;
                }
                assert_int_equal(utf8_splitter_flush(&splitter, &all), 0);
                assert_int_equal(all.size, size);
                if (size > 0)
                        assert_memory_equal(all.data, bytes, size);
        }
}

static void test_splitter_full(void **state)
{
        struct utf8_splitter splitter = {0};
        _cleanup_buffer_ struct buffer out = {0};
        buffer_init(&out, 4);

        assert_int_equal(utf8_splitter_add(&splitter, &out, "ab\xe2\x82", 4), 0);
        assert_int_equal(out.size, 2);
        assert_int_equal(utf8_splitter_add(&splitter, &out, NULL, 0), 0);
        assert_int_equal(utf8_splitter_add(&splitter, &out, "\xac", 1), -EFBIG);
        assert_int_equal(out.size, 2);
        assert_int_equal(splitter.n_held, 2);
        assert_int_equal(utf8_splitter_flush(&splitter, &out), 0);
        assert_string_equal(out.data, "ab\xe2\x82");
}

static void test_replace_property(void **state)
{
        for (int round = 0; round < 20000; round++) {
                unsigned char bytes[64];
                size_t size = random_bytes(bytes, sizeof(bytes));
                _cleanup_buffer_ struct buffer out = {0};
                buffer_init(&out, 3 * sizeof(bytes));

                assert_int_equal(utf8_replace(&out, bytes, size), 0);
                assert_true(utf8_is_valid(out.data, out.size));
                if (utf8_is_valid(bytes, size) && size > 0)
                        assert_memory_equal(out.data, bytes, size);
        }
}

static void test_base64_vectors(void **state)
{
        static const struct {
                const char *bytes, *text;
        } rows[] = {
                {"", ""},         {"f", "Zg=="},         {"fo", "Zm8="},         {"foo", "Zm9v"},
                {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}, {"\xfb\xff\xfe", "+//+"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_free_ char *text = NULL;
                size_t size;
                assert_int_equal(base64_encode(rows[i].bytes, strlen(rows[i].bytes), &text, &size), 0);
                assert_string_equal(text, rows[i].text);
                assert_int_equal(size, strlen(text));
        }
}

static void test_base64_round_trip(void **state)
{
        for (int round = 0; round < 5000; round++) {
                unsigned char bytes[64];
                size_t size = random_bytes(bytes, sizeof(bytes)), length, n;
                _cleanup_free_ char *text = NULL;
                _cleanup_free_ void *back = NULL;

                assert_int_equal(base64_encode(bytes, size, &text, &length), 0);
                assert_int_equal(base64_decode(text, length, &back, &n), 0);
                assert_int_equal(n, size);
                if (size > 0)
                        assert_memory_equal(back, bytes, size);
        }
}

static void test_base64_refuses(void **state)
{
        static const char *const wrong[] = {"Z", "Zg", "Zg=", "Zh==", "Zm9=", "====", "=g==", "Zg==Zg==", "Zm-v", "Zm9v\n", "Z=9v"};

        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                void *bytes = NULL;
                size_t size;
                if (base64_decode(wrong[i], strlen(wrong[i]), &bytes, &size) != -EINVAL)
                        fail_msg("\"%s\" was taken", wrong[i]);
                assert_null(bytes);
        }
}

static void test_decode(void **state)
{
        static const struct {
                const char *text;
                size_t n;
                uint32_t c;
        } rows[] = {
                {"a", 1, 'a'}, {"\xc3\xbc", 2, 0xfc}, {"\xe2\x82\xac", 3, 0x20ac}, {"\xf0\x9f\x90\xb1", 4, 0x1f431},
                {"\xc3", 0, 0}, {"\xc3(", 0, 0}, {"\x80", 0, 0}, {"\xff", 0, 0}, {"\xc0\x80", 0, 0},
                {"\xe0\x80\x80", 0, 0}, {"\xed\xa0\x80", 0, 0}, {"\xf4\x90\x80\x80", 0, 0}, {"", 0, 0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                uint32_t c = 0;
                assert_int_equal(utf8_decode(rows[i].text, strlen(rows[i].text), &c), rows[i].n);
                assert_int_equal(c, rows[i].c);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_decode),
                cmocka_unit_test(test_table),
                cmocka_unit_test(test_all_code_points),
                cmocka_unit_test(test_splitter_property),
                cmocka_unit_test(test_splitter_full),
                cmocka_unit_test(test_replace_property),
                cmocka_unit_test(test_base64_vectors),
                cmocka_unit_test(test_base64_round_trip),
                cmocka_unit_test(test_base64_refuses),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
