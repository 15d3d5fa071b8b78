/* SPDX-License-Identifier: Apache-2.0
 *
 * Whatever an engine says, as an answer or as a stream of values: it is taken or refused, the cuts between pieces change nothing, and nothing deeper
 * or larger than the bounds reaches the parser. The first byte says which. */
#include "backend/docker/engine.h"
#include "backend/docker/values.h"
#include "base/json.h"
#include "base/limits.h"
#include "client/response.h"

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

/* ---- an answer ---- */

/* Where it ended; negative: refused. The connection is closed after the last byte. */
static long feed(struct response *r, struct buffer *body, const char *data, size_t size, size_t piece)
{
        size_t at = 0;

        response_init(r);
        r->foreign = true;
        buffer_init(body, MIB);
        while (at < size && r->stage != RESPONSE_DONE) {
                size_t end = MIN(at - at % piece + piece, size);
                long n = response_take(r, data + at, end - at, body);
                if (n < 0)
                        return n;
                require(n > 0 && (size_t)n <= end - at);
                at += (size_t)n;
        }
        response_end(r);
        require(body->size <= size);
        require(r->stage == RESPONSE_HEAD || r->status == 101 || (r->status >= 200 && r->status <= 599));
        require(r->stage != RESPONSE_BODY || !r->until_close);
        return (long)at;
}

static void try_answer(const char *data, size_t size)
{
        static const size_t pieces[] = {1, 2, 3, 7};
        struct response whole, cut;
        struct buffer whole_body, cut_body;
        const char *why = NULL;

        long end = feed(&whole, &whole_body, data, size, size);
        for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
                require(feed(&cut, &cut_body, data, size, pieces[i]) == end);
                require(cut.stage == whole.stage && cut.status == whole.status);
                require(end < 0 || (cut_body.size == whole_body.size &&
                                    (cut_body.size == 0 || memcmp(cut_body.data, whole_body.data, cut_body.size) == 0)));
                response_done(&cut);
                buffer_done(&cut_body);
        }
        if (end >= 0 && whole.stage == RESPONSE_DONE && whole_body.size > 0) {
                _cleanup_json_ json_t *value = NULL;
                int r = value_parse(whole_body.data, whole_body.size, &value, &why);
                require(r == 0 ? !value || json_is_object(value) || json_is_array(value) : why != NULL);
                require(!value || engine_refusal(&(struct engine){0}, 500, value, "x", &(gb_error){0}) < 0);
        }
        response_done(&whole);
        buffer_done(&whole_body);
}

/* ---- a stream of values ---- */

static size_t depth_of(const json_t *value)
{
        size_t deepest = 0, i;
        const char *key;
        json_t *item;

        json_array_foreach(value, i, item)
                deepest = MAX(deepest, depth_of(item));
        json_object_foreach((json_t *)value, key, item)
                deepest = MAX(deepest, depth_of(item));
        return json_is_array(value) || json_is_object(value) ? deepest + 1 : 0;
}

/* How many whole values come, and where it stopped. */
static size_t count_values(const char *data, size_t size, size_t piece, long *ret_end)
{
        struct value_scan scan = {0};
        size_t begin = 0, known = 0, values = 0;

        for (;;) {
                const char *why = NULL;
                if (scan.at == 0)
                        begin += value_skip(data + begin, known - begin);
                long n = begin < known ? value_scan(&scan, data + begin, known - begin, &why) : 0;
                require(n >= 0 || why);
                if (n < 0 || (n == 0 && known == size)) {
                        *ret_end = n < 0 ? n : (long)begin;
                        return values;
                }
                if (n == 0) {
                        known = MIN(known + piece, size);
                        continue;
                }
                _cleanup_json_ json_t *value = NULL;
                require((size_t)n <= known - begin);
                if (value_load(data + begin, (size_t)n, &value, &why) == 0)
                        require(depth_of(value) <= ENGINE_JSON_DEPTH_MAX);
                begin += (size_t)n;
                values++;
        }
}

static void try_stream(const char *data, size_t size)
{
        static const size_t pieces[] = {1, 2, 5, 64};
        long end, other;
        size_t values = count_values(data, size, size, &end);

        for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
                require(count_values(data, size, pieces[i], &other) == values);
                require(other == end);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size < 2)
                return 0;
        if (data[0] == 'S')
                try_stream((const char *)data + 1, size - 1);
        else
                try_answer((const char *)data + 1, size - 1);
        /* A version is a text of it. */
        char text[ENGINE_VERSION_MAX];
        size_t n = MIN(size, sizeof(text) - 1);
        memcpy(text, data, n);
        text[n] = '\0';
        int old = engine_runc_is_old(text);
        require(old >= -1 && old <= 1);
        return 0;
}
