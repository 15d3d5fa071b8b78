/* SPDX-License-Identifier: Apache-2.0
 *
 * The examples of FIPS 180-4, and every way to divide a text. */
#include "base/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
        const char *text, *hash;
} rows[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
};

static void test_examples(void **state)
{
        char text[SHA256_TEXT_MAX];
        struct sha256 s;

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                sha256_init(&s);
                sha256_add(&s, rows[i].text, strlen(rows[i].text));
                sha256_text(&s, text);
                assert_string_equal(text, rows[i].hash);
        }
}

static void test_pieces(void **state)
{
        char bytes[300], whole[SHA256_TEXT_MAX], text[SHA256_TEXT_MAX];
        struct sha256 s;

        (void)state;
        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (char)(i * 7);
        sha256_init(&s);
        sha256_add(&s, bytes, sizeof(bytes));
        sha256_text(&s, whole);
        for (size_t piece = 1; piece < sizeof(bytes); piece++) {
                sha256_init(&s);
                for (size_t at = 0; at < sizeof(bytes); at += piece)
                        sha256_add(&s, bytes + at, at + piece > sizeof(bytes) ? sizeof(bytes) - at : piece);
                sha256_text(&s, text);
                assert_string_equal(text, whole);
        }
}

/* A million times "a". */
static void test_long(void **state)
{
        char bytes[1000], text[SHA256_TEXT_MAX];
        struct sha256 s;

        (void)state;
        memset(bytes, 'a', sizeof(bytes));
        sha256_init(&s);
        for (int i = 0; i < 1000; i++)
                sha256_add(&s, bytes, sizeof(bytes));
        sha256_text(&s, text);
        assert_string_equal(text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_examples),
                cmocka_unit_test(test_pieces),
                cmocka_unit_test(test_long),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
