/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/usage.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_io(void **state)
{
        static const struct {
                const char *text;
                int r;
                uint64_t read, written;
        } rows[] = {
                {"", 0, 0, 0},
                {"8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n", 0, 4096, 8192},
                {"8:0 rbytes=1 wbytes=2\n254:0 rbytes=10 wbytes=20 rios=1\n9:1 wbytes=200\n", 0, 11, 222},
                {"8:0 \n8:16 rbytes=7", 0, 7, 0},
                {"8:0 rbytes=18446744073709551615 wbytes=0\n", 0, UINT64_MAX, 0},
                {"8:0 rbytes=18446744073709551615\n8:1 rbytes=1\n", -EINVAL, 0, 0},
                {"8:0 rbytes=99999999999999999999\n", -EINVAL, 0, 0},
                {"8:0 rbytes=-1\n", -EINVAL, 0, 0},
                {"8:0 rbytes=\n", -EINVAL, 0, 0},
                {"8:0 rbytes=1x\n", -EINVAL, 0, 0},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                uint64_t read = 0, written = 0;
                if (usage_parse_io(rows[i].text, &read, &written) != rows[i].r || read != rows[i].read || written != rows[i].written)
                        fail_msg("\"%s\"", rows[i].text);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_io)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
