/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes, cut at places their own values choose: the splitter loses nothing, what was made
 * readable is valid, and base64 gives back what it took. */
#include "base/base64.h"
#include "base/utf8.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
        if (!holds)
                abort();
}

static void check_splitter(const uint8_t *data, size_t size)
{
        bool valid = utf8_is_valid(data, size);
        struct utf8_splitter splitter = {0};
        _cleanup_buffer_ struct buffer all = {0};
        buffer_init(&all, size);

        for (size_t i = 0; i < size;) {
                size_t chunk = MIN((size_t)data[i] % 5 + 1, size - i), before = all.size;
                check(utf8_splitter_add(&splitter, &all, data + i, chunk) == 0);
                check(!valid || all.size == before || utf8_is_valid(all.data + before, all.size - before));
                i += chunk;
        }
        check(utf8_splitter_flush(&splitter, &all) == 0);
        check(all.size == size && (size == 0 || memcmp(all.data, data, size) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_buffer_ struct buffer text = {0};
        buffer_init(&text, 3 * size);
        check(utf8_replace(&text, data, size) == 0);
        check(utf8_is_valid(text.data, text.size));
        check(utf8_incomplete_tail(data, size) == 0 || !utf8_is_valid(data, size));

        check_splitter(data, size);

        _cleanup_free_ char *encoded = NULL;
        _cleanup_free_ void *decoded = NULL, *other = NULL;
        size_t length, n;
        check(base64_encode(data, size, &encoded, &length) == 0);
        check(base64_decode(encoded, length, &decoded, &n) == 0);
        check(n == size && (size == 0 || memcmp(decoded, data, size) == 0));
        (void)base64_decode((const char *)data, size, &other, &n);
        return 0;
}
