/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the first words of TLS. Once something is decided about a beginning of them, the rest changes nothing; and a ClientHello is the same in other
 * records. */
#include "egress/hello.h"

#include "base/limits.h"
#include "base/macro.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
        if (!holds)
                abort();
}

/* The message in the records of a ClientHello, put into records of other sizes. Their bytes, and 0 when they would be too many. */
static size_t cut_again(const uint8_t *data, size_t size, uint8_t ret[static EGRESS_HELLO_MAX])
{
        uint8_t message[EGRESS_HELLO_MAX];
        size_t have = 0, whole = 4, n = 0;

        for (size_t at = 0; have < whole && at + 5 <= size;) {
                size_t length = (size_t)data[at + 3] << 8 | data[at + 4];
                memcpy(message + have, data + at + 5, length);
                have += length;
                at += 5 + length;
                if (have >= 4)
                        whole = 4 + ((size_t)message[2] << 8 | message[3]);
        }
        for (size_t at = 0, length; at < have; at += length, n += 5 + length) {
                length = MIN((size_t)message[at] + 1, have - at);
                if (n + 5 + length > EGRESS_HELLO_MAX)
                        return 0;
                memcpy(ret + n, (const uint8_t[]){22, 3, 3, (uint8_t)(length >> 8), (uint8_t)length}, 5);
                memcpy(ret + n + 5, message + at, length);
        }
        return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct hello hello = {}, other = {};
        enum hello_result r = hello_parse(data, size, &hello), before = HELLO_MORE;

        check(r != HELLO_MORE || size < EGRESS_HELLO_MAX);
        if (r == HELLO_DONE) {
                check(hello.has_name == (hello.name[0] != '\0') && memchr(hello.name, '\0', sizeof(hello.name)));
                check(strpbrk(hello.name, " \r\n\t\x7f") == NULL);

                uint8_t records[EGRESS_HELLO_MAX];
                size_t n = cut_again(data, size, records);
                check(n == 0 || (hello_parse(records, n, &other) == HELLO_DONE && memcmp(&hello, &other, sizeof(hello)) == 0));
        }
        for (size_t cut = 0; cut < size; cut += cut < 64 ? 1 : data[cut] + 1U) {
                enum hello_result now = hello_parse(data, cut, &other);
                check(before == HELLO_MORE || now == before);
                check(now == HELLO_MORE || now == r);
                check(now != HELLO_DONE || memcmp(&hello, &other, sizeof(hello)) == 0);
                before = now;
        }
        return 0;
}
