/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mcp_events.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define EVENT_MAX 64

/* All data that came, each piece in brackets. */
static int collect(void *data, const char *text, size_t size)
{
        assert_int_equal(text[size], '\0');
        return buffer_printf(data, "[%s]", text);
}

/* In pieces of every size. */
static void expect(const char *stream, const char *wanted, const char *id, uint64_t retry_usec)
{
        for (size_t piece = 1; piece <= strlen(stream); piece++) {
                struct event_reader r;
                _cleanup_buffer_ struct buffer got;

                buffer_init(&got, 4096);
                event_reader_init(&r, EVENT_MAX);
                for (size_t i = 0; i < strlen(stream); i += piece)
                        assert_int_equal(event_reader_take(&r, stream + i, MIN(piece, strlen(stream) - i), collect, &got), 0);
                assert_string_equal(got.data ? got.data : "", wanted);
                assert_string_equal(r.id, id);
                assert_int_equal(r.retry_usec, retry_usec);
                event_reader_done(&r);
        }
}

static void test_events(void **state)
{
        expect("data: {\"a\": 1}\n\n", "[{\"a\": 1}]", "", 0);
        expect("event: message\nid: 3-1\ndata: one\n\nid: 3-2\ndata: two\n\n", "[one][two]", "3-2", 0);
        expect("data:x\n\ndata:  y\n\n", "[x][ y]", "", 0);
        expect("data: one\ndata: two\n\n", "[one two]", "", 0);
        expect("data: one\r\n\r\ndata: two\r\rdata: three\n\n", "[one][two][three]", "", 0);
        expect(": ping\n\n: ping\ndata: x\n\n", "[x]", "", 0);
        expect("other: x\ndata\n\nid\n\n", "", "", 0);
}

static void test_what_only_says_where_we_are(void **state)
{
        expect("id: 1-start\nretry: 250\ndata: \n\n", "", "1-start", 250000);
        expect("retry: soon\nretry: 99999999999\ndata: x\n\n", "[x]", "", 60000000);
}

/* An id counts when its event is whole: otherwise the event would be lost. */
static void test_an_event_that_is_cut_off(void **state)
{
        expect("id: 1\ndata: one\n\nid: 2\ndata: tw", "[one]", "1", 0);
        expect("id: 1\ndata: one\n\nid: 2\ndata: two\n", "[one]", "1", 0);
}

/* It goes into a header. */
static void test_ids_that_are_none(void **state)
{
        char stream[EVENT_ID_MAX + 64];

        expect("id: 1\n\nid: a b\ndata: x\n\n", "[x]", "", 0);
        expect("id: 1\n\nid: \xc3\xa4\ndata: x\n\n", "[x]", "", 0);
        memset(stream, 'x', sizeof(stream));
        memcpy(stream, "id: ", 4);
        memcpy(stream + sizeof(stream) - 3, "\n\n", 3);
        struct event_reader r;
        _cleanup_buffer_ struct buffer got;
        buffer_init(&got, 4096);
        event_reader_init(&r, sizeof(stream));
        assert_int_equal(event_reader_take(&r, stream, strlen(stream), collect, &got), 0);
        assert_string_equal(r.id, "");
        event_reader_done(&r);
}

static void test_another_connection(void **state)
{
        struct event_reader r;
        _cleanup_buffer_ struct buffer got;

        buffer_init(&got, 4096);
        event_reader_init(&r, EVENT_MAX);
        assert_int_equal(event_reader_take(&r, "id: 1\ndata: a\n\nid: 2\ndata: b\nda", 32, collect, &got), 0);
        event_reader_restart(&r);
        assert_int_equal(event_reader_take(&r, "data: c\n\n", 9, collect, &got), 0);
        assert_string_equal(got.data, "[a][c]");
        assert_string_equal(r.id, "1");
        event_reader_done(&r);
}

static int stop(void *data, const char *text, size_t size)
{
        return -ECANCELED;
}

static void test_bounds(void **state)
{
        struct event_reader r;
        char large[EVENT_MAX + 2];

        memset(large, 'x', sizeof(large));
        event_reader_init(&r, EVENT_MAX);
        assert_int_equal(event_reader_take(&r, large, sizeof(large), stop, NULL), -EFBIG);
        event_reader_restart(&r);
        assert_int_equal(event_reader_take(&r, "data: x\n\ndata: y\n\n", 18, stop, NULL), -ECANCELED);
        event_reader_done(&r);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_events),
                cmocka_unit_test(test_what_only_says_where_we_are),
                cmocka_unit_test(test_an_event_that_is_cut_off),
                cmocka_unit_test(test_ids_that_are_none),
                cmocka_unit_test(test_another_connection),
                cmocka_unit_test(test_bounds),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
