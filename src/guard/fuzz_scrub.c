/* SPDX-License-Identifier: Apache-2.0
 *
 * A text, cut as the input says, with secrets that the input gives: what comes out is what the whole text gives, and has no secret in it. */
#include "guard/rules_state.h"
#include "guard/scrub.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct rules *rules(void)
{
        static const struct rules *all;

        if (!all && rules_get_shipped(&all, NULL) < 0)
                abort();
        return all;
}

static int to_buffer(void *data, const void *bytes, size_t size)
{
        return buffer_add(data, bytes, size);
}

static void check(bool right)
{
        if (!right)
                abort();
}

static void scrub_cut(const struct scrub *s, const uint8_t *cuts, size_t n_cuts, const uint8_t *text, size_t size, struct buffer *out)
{
        _cleanup_scrub_stream_ struct scrub_stream *st = NULL;

        check(scrub_stream_new(s, to_buffer, out, NULL, &st) == 0);
        for (size_t at = 0, i = 0, n; at < size; at += n, i++) {
                n = n_cuts > 0 ? cuts[i % n_cuts] % 32u + 1 : 1;
                n = MIN(n, size - at);
                check(scrub_stream_write(st, text + at, n) == 0);
        }
        check(scrub_stream_end(st) == 0);
}

/* The first byte: how many bytes of the rest are cuts, how long the secret is behind them, and whether it is there. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_scrub_ struct scrub *s = NULL;
        _cleanup_buffer_ struct buffer whole = {0}, cut = {0};
        uint8_t how = size > 0 ? data[0] : 0;
        size_t n_cuts = how % 8, secret = how & 8 ? 8 + how / 16 : 0;

        if (size < 1 + n_cuts + secret)
                return 0;
        struct scrub_secret row = {"S", data + 1 + n_cuts, secret};
        const uint8_t *text = data + 1 + n_cuts + secret;
        size_t text_size = size - 1 - n_cuts - secret;
        check(scrub_new(rules(), SCRUB_STRICT, &row, secret > 0, &s, NULL) == 0);
        buffer_init(&whole, SIZE_MAX / 2);
        buffer_init(&cut, SIZE_MAX / 2);
        int r = scrub_text(s, text, text_size, &whole, NULL);
        check(r >= 0);
        if (r == 0)
                check(buffer_add(&whole, text, text_size) == 0);
        scrub_cut(s, data + 1, n_cuts, text, text_size, &cut);
        check(whole.size == cut.size && (whole.size == 0 || memcmp(whole.data, cut.data, whole.size) == 0));
        /* A mark may have letters of the secret around it, and so may the text. */
        if (r == 0 && secret > 0)
                check(!memmem(whole.data, whole.size, row.bytes, secret));
        return 0;
}
