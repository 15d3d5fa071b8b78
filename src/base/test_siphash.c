/* SPDX-License-Identifier: Apache-2.0 */
#include "base/siphash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The vectors of its authors: key 00 01 .. 0f, inputs of 0, 1, 8, 15 bytes 00 01 ... */
static void test_vectors(void **state)
{
        static const struct {
                size_t size;
                uint64_t tag;
        } rows[] = {{0, 0x726fdb47dd0e0e31ULL}, {1, 0x74f839c593dc67fdULL}, {8, 0x93f5f5799a932462ULL}, {15, 0xa129ca6149be45e5ULL}};
        const uint64_t key[2] = {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};
        unsigned char input[16];

        for (size_t i = 0; i < sizeof(input); i++)
                input[i] = (unsigned char)i;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                assert_int_equal(siphash(key, NULL, 0, input, rows[i].size), rows[i].tag);
}

static void test_a_head_is_the_bytes_before(void **state)
{
        const uint64_t key[2] = {1, 2}, head[2] = {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};
        unsigned char input[21];

        for (size_t i = 0; i < sizeof(input); i++)
                input[i] = (unsigned char)i;
        assert_int_equal(siphash(key, head, 2, input + 16, 5), siphash(key, NULL, 0, input, 21));
        assert_int_not_equal(siphash(key, head, 1, input + 16, 5), siphash(key, head, 2, input + 16, 5));
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors), cmocka_unit_test(test_a_head_is_the_bytes_before)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
