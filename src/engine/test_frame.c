/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/frame.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Feeds all of it at once; the last answer, and how many frames came. */
static int feed_all(struct frame_decoder *d, const char *bytes, size_t size, int *ret_frames)
{
        struct frame frame;
        int r = 0;

        *ret_frames = 0;
        while (size > 0 && r >= 0) {
                r = frame_decoder_feed(d, &bytes, &size, &frame);
                *ret_frames += r > 0;
        }
        return r;
}

struct header_case {
        const char *bytes;
        int r, frames;
};

static const struct header_case headers[] = {
        {"D 1 0\n", 1, 1},
        {"D 1 0\nD 2 0\n", 1, 2},
        {"D 9999999999 0\n", 1, 1},
        {"D 0 3\nabc", 1, 1},
        {"D 0 3\nab", 0, 0},
        {"D 0 3\nabcD", 0, 1},
        {"D 1", 0, 0},
        {"D 12345678901 0\n", -EPROTO, 0},
        {"D 1 16777216\n", 0, 0},
        {"D 1 16777217\n", -EMSGSIZE, 0},
        {"D 1 4294967296\n", -EMSGSIZE, 0},
        {"D 1 9999999999\n", -EMSGSIZE, 0},
        {"D 1 18446744073709551617\n", -EPROTO, 0},
        {"D 1 -1\n", -EPROTO, 0},
        {"D 1 +1\n", -EPROTO, 0},
        {"D 1 0x1\n", -EPROTO, 0},
        {"D 01 1\n", -EPROTO, 0},
        {"D 1 00\n", -EPROTO, 0},
        {"D  1 0\n", -EPROTO, 0},
        {"D 1  0\n", -EPROTO, 0},
        {"D 1 0 \n", -EPROTO, 0},
        {"D 1 0\r\n", -EPROTO, 0},
        {" D 1 0\n", -EPROTO, 0},
        {"D\t1 0\n", -EPROTO, 0},
        {"DD 1 0\n", -EPROTO, 0},
        {"d 1 0\n", -EPROTO, 0},
        {"1 1 0\n", -EPROTO, 0},
        {"D 1\n", -EPROTO, 0},
        {"D\n", -EPROTO, 0},
        {"\n", -EPROTO, 0},
        {"Traceback (most recent call last):\n", -EPROTO, 0},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", -EPROTO, 0},
};

static void test_headers(void **state)
{
        for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
                struct frame_decoder d;
                int frames;
                frame_decoder_init(&d);
                int r = feed_all(&d, headers[i].bytes, strlen(headers[i].bytes), &frames);
                if (r != headers[i].r || frames != headers[i].frames)
                        fail_msg("\"%s\": %d with %d frames, not %d with %d", headers[i].bytes, r, frames, headers[i].r, headers[i].frames);
                frame_decoder_done(&d);
        }
}

/* A NUL is no end of anything. */
static void test_nul_in_header(void **state)
{
        static const char bytes[] = "D 1\0 0\n";
        struct frame_decoder d;
        int frames;

        frame_decoder_init(&d);
        assert_int_equal(feed_all(&d, bytes, sizeof(bytes) - 1, &frames), -EPROTO);
        frame_decoder_done(&d);
}

/* Memory is taken for what came, not for what was announced. */
static void test_memory_follows_bytes(void **state)
{
        static const char bytes[] = "P 1 16777216\nabc";
        struct frame_decoder d;
        int frames;

        frame_decoder_init(&d);
        assert_int_equal(feed_all(&d, bytes, sizeof(bytes) - 1, &frames), 0);
        assert_true(d.payload.allocated <= 4096);
        frame_decoder_done(&d);
}

static void test_trim(void **state)
{
        static char big[1 * MIB];
        struct frame_decoder d;
        char header[FRAME_HEADER_MAX + 1];
        int frames;

        frame_decoder_init(&d);
        size_t n = frame_write_header(header, 'P', 1, sizeof(big));
        assert_int_equal(feed_all(&d, header, n, &frames), 0);
        frame_decoder_trim(&d); /* in the middle: nothing */
        assert_int_equal(feed_all(&d, big, sizeof(big), &frames), 1);
        assert_true(d.payload.allocated >= sizeof(big));
        frame_decoder_trim(&d);
        assert_int_equal(d.payload.allocated, 0);
        assert_int_equal(feed_all(&d, "D 1 2\nok", 8, &frames), 1);
        frame_decoder_done(&d);
}

struct part_case {
        const char *payload;
        int r;
        size_t n;
};

static const struct part_case parts_cases[] = {
        {"", 0, 0},
        {"status 2\nok", 0, 1},
        {"text/plain 0\nimage/svg+xml 3\nabc", 0, 2},
        {"a 1\n\na 1\n\n", 0, 2},
        {"text/plain;charset=utf-8 1\nx", 0, 1},
        {"a 2\nx", -EPROTO, 0},
        {"a 1\nxy", -EPROTO, 0},
        {"a 1\nx ", -EPROTO, 0},
        {"a 9999999999\nx", -EPROTO, 0},
        {"a 99999999999\nx", -EPROTO, 0},
        {"a -1\nx", -EPROTO, 0},
        {"a 01\nx", -EPROTO, 0},
        {" 1\nx", -EPROTO, 0},
        {"a b 1\nx", -EPROTO, 0},
        {"a\"b 1\nx", -EPROTO, 0},
        {"\xc3\xa4 1\nx", -EPROTO, 0},
        {"a", -EPROTO, 0},
        {"a 1", -EPROTO, 0},
        {"a 0", -EPROTO, 0},
};

static void test_parts(void **state)
{
        struct frame_part parts[FRAME_PARTS_MAX];
        size_t n;

        for (size_t i = 0; i < ARRAY_SIZE(parts_cases); i++) {
                const struct part_case *c = &parts_cases[i];
                struct frame frame = {.payload = c->payload, .size = strlen(c->payload)};
                int r = frame_read_parts(&frame, parts, ARRAY_SIZE(parts), &n);
                if (r != c->r || (r == 0 && n != c->n))
                        fail_msg("\"%s\": %d with %zu parts, not %d with %zu", c->payload, r, n, c->r, c->n);
        }
}

static void test_names_of_parts(void **state)
{
        struct frame_part parts[2];
        char payload[FRAME_NAME_MAX + 32];
        size_t n;

        for (int extra = 0; extra < 2; extra++) {
                int size = snprintf(payload, sizeof(payload), "%0*d 1\nx", FRAME_NAME_MAX + extra, 7);
                struct frame frame = {.payload = payload, .size = (size_t)size};
                assert_int_equal(frame_read_parts(&frame, parts, 2, &n), extra == 0 ? 0 : -EPROTO);
        }
        struct buffer b;
        buffer_init(&b, 100);
        assert_int_equal(frame_add_part(&b, "", "x", 1), -EINVAL);
        assert_int_equal(frame_add_part(&b, "a b", "x", 1), -EINVAL);
        assert_int_equal(frame_add_part(&b, "a\n", "x", 1), -EINVAL);
        buffer_done(&b);
}

/* More parts than anybody wants are read to their end, and left out. */
static void test_many_parts(void **state)
{
        struct frame_part parts[FRAME_PARTS_MAX];
        struct buffer b;
        size_t n;

        buffer_init(&b, 1 * MIB);
        for (int i = 0; i < 1000; i++)
                assert_int_equal(frame_add_part(&b, "text/plain", &i, sizeof(i)), 0);
        struct frame frame = {.payload = b.data, .size = b.size};
        assert_int_equal(frame_read_parts(&frame, parts, FRAME_PARTS_MAX, &n), 0);
        assert_int_equal(n, FRAME_PARTS_MAX);
        frame.size--;
        assert_int_equal(frame_read_parts(&frame, parts, FRAME_PARTS_MAX, &n), -EPROTO);
        buffer_done(&b);
}

/* decode(encode(x)) is x, in whatever pieces it comes. The seed is fixed: a failure can be seen again. */

#define STREAM_FRAMES 60

struct sent {
        char kind;
        uint64_t seq;
        char *payload;
        size_t size;
};

static size_t random_size(unsigned *seed)
{
        switch (rand_r(seed) % 4) {
        case 0:
                return 0;
        case 1:
                return (size_t)rand_r(seed) % 8;
        case 2:
                return (size_t)rand_r(seed) % 300;
        default:
                return (size_t)rand_r(seed) % 20000;
        }
}

static void make_stream(unsigned *seed, struct sent sent[STREAM_FRAMES], struct buffer *stream)
{
        static const char kinds[] = "CIE";

        for (int i = 0; i < STREAM_FRAMES; i++) {
                struct buffer payload;
                char header[FRAME_HEADER_MAX + 1];
                buffer_init(&payload, 1 * MIB);
                for (int part = rand_r(seed) % 4; part > 0; part--) {
                        size_t size = random_size(seed);
                        char *bytes = malloc(size + 1);
                        for (size_t k = 0; k < size; k++)
                                bytes[k] = (char)rand_r(seed);
                        assert_int_equal(frame_add_part(&payload, part == 1 ? "text/html" : "image/png", bytes, size), 0);
                        free(bytes);
                }
                uint64_t seq = ((uint64_t)(unsigned)rand_r(seed) << 20 | (unsigned)rand_r(seed)) % (FRAME_SEQ_MAX + 1);
                sent[i] = (struct sent){kinds[rand_r(seed) % 3], seq, payload.data, payload.size};
                size_t n = frame_write_header(header, sent[i].kind, seq, payload.size);
                assert_int_equal(buffer_add(stream, header, n), 0);
                assert_int_equal(buffer_add(stream, payload.data ? payload.data : "", payload.size), 0);
        }
}

static void check_frame(const struct frame *got, const struct sent *want)
{
        struct frame_part parts[FRAME_PARTS_MAX];
        size_t n;

        assert_int_equal(got->kind, want->kind);
        assert_true(got->seq == want->seq);
        assert_int_equal(got->size, want->size);
        if (want->size > 0)
                assert_memory_equal(got->payload, want->payload, want->size);
        assert_int_equal(frame_read_parts(got, parts, FRAME_PARTS_MAX, &n), 0);
}

static void test_any_pieces(void **state)
{
        for (unsigned round = 1; round <= 40; round++) {
                unsigned seed = round;
                struct sent sent[STREAM_FRAMES];
                struct buffer stream;
                struct frame_decoder d;
                buffer_init(&stream, 64 * MIB);
                frame_decoder_init(&d);
                make_stream(&seed, sent, &stream);
                size_t at = 0, frames = 0;
                while (at < stream.size) {
                        size_t piece = round == 1 ? 1 : 1 + random_size(&seed);
                        piece = MIN(piece, stream.size - at);
                        /* A copy of just that size, so that a sanitizer sees a read beyond it. */
                        char *copy = malloc(piece);
                        memcpy(copy, stream.data + at, piece);
                        const char *bytes = copy;
                        size_t left = piece;
                        struct frame frame;
                        while (left > 0) {
                                int r = frame_decoder_feed(&d, &bytes, &left, &frame);
                                assert_true(r >= 0);
                                if (r > 0)
                                        check_frame(&frame, &sent[frames++]);
                        }
                        free(copy);
                        at += piece;
                }
                assert_int_equal(frames, STREAM_FRAMES);
                for (int i = 0; i < STREAM_FRAMES; i++)
                        free(sent[i].payload);
                buffer_done(&stream);
                frame_decoder_done(&d);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_headers),
                cmocka_unit_test(test_nul_in_header),
                cmocka_unit_test(test_memory_follows_bytes),
                cmocka_unit_test(test_trim),
                cmocka_unit_test(test_parts),
                cmocka_unit_test(test_names_of_parts),
                cmocka_unit_test(test_many_parts),
                cmocka_unit_test(test_any_pieces),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
