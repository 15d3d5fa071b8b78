/* SPDX-License-Identifier: Apache-2.0
 *
 * Whatever a server says: it is taken or refused, the cuts between pieces change nothing, and no more of a body comes out than went
 * in. */
#include "client/response.h"

#include "base/limits.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
        if (!condition)
                abort();
}

/* Where it ended; negative: refused. */
static long feed(struct response *r, struct buffer *body, const uint8_t *data, size_t size, size_t piece)
{
        size_t at = 0;

        response_init(r);
        buffer_init(body, MIB);
        while (at < size && r->stage != RESPONSE_DONE) {
                size_t end = MIN(at - at % piece + piece, size);
                long n = response_take(r, (const char *)data + at, end - at, body);
                if (n < 0)
                        return n;
                require(n > 0 && (size_t)n <= end - at);
                at += (size_t)n;
        }
        require(body->size <= size);
        require(r->stage == RESPONSE_HEAD || (r->status >= 200 && r->status <= 599));
        return (long)at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const size_t pieces[] = {1, 2, 3, 7};
        struct response whole, cut;
        struct buffer whole_body, cut_body;

        if (size == 0)
                return 0;
        long end = feed(&whole, &whole_body, data, size, size);
        for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
                require(feed(&cut, &cut_body, data, size, pieces[i]) == end);
                require(cut.stage == whole.stage && cut.status == whole.status);
                require(end < 0 || (cut_body.size == whole_body.size &&
                                    (cut_body.size == 0 || memcmp(cut_body.data, whole_body.data, cut_body.size) == 0)));
                response_done(&cut);
                buffer_done(&cut_body);
        }
        response_done(&whole);
        buffer_done(&whole_body);
        return 0;
}
