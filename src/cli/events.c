/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/events.h"
#include "base/json.h"

#include <errno.h>

static const char *const stream_names[] = {[RUN_STDOUT] = "stdout", [RUN_STDERR] = "stderr"};

static json_int_t since_first(struct events *e, uint64_t t_usec)
{
        if (!e->has_zero)
                e->zero_usec = t_usec;
        e->has_zero = true;
        return t_usec > e->zero_usec ? (json_int_t)(t_usec - e->zero_usec) : 0;
}

int events_started(struct events *e, uint64_t t_usec)
{
        _cleanup_json_ json_t *event =
                json_pack("{s:s, s:I}", "event", "started", "t_usec", since_first(e, t_usec));

        return event ? sink_write_json(e->sink, event, JSON_COMPACT) : -ENOMEM;
}

static int write_bytes(struct events *e, enum run_stream stream, const struct buffer *bytes)
{
        if (bytes->size == 0)
                return 0;

        _cleanup_json_ json_t *event = json_pack("{s:s, s:I}", "event", stream_names[stream], "t_usec",
                                                 since_first(e, e->last_usec[stream]));
        if (!event || json_set_bytes(event, "data", bytes->data, bytes->size) < 0)
                return -ENOMEM;
        return sink_write_json(e->sink, event, JSON_COMPACT);
}

int events_output(struct events *e, enum run_stream stream, const void *bytes, size_t size, uint64_t t_usec)
{
        _cleanup_buffer_ struct buffer whole;

        buffer_init(&whole, size + UTF8_SEQUENCE_MAX);
        int r = utf8_splitter_add(&e->splitters[stream], &whole, bytes, size);
        if (r < 0)
                return r;
        e->last_usec[stream] = t_usec;
        return write_bytes(e, stream, &whole);
}

static int flush_stream(struct events *e, enum run_stream stream)
{
        _cleanup_buffer_ struct buffer rest;

        buffer_init(&rest, UTF8_SEQUENCE_MAX);
        int r = utf8_splitter_flush(&e->splitters[stream], &rest);
        return r < 0 ? r : write_bytes(e, stream, &rest);
}

int events_verdict(struct events *e, json_t *result)
{
        _cleanup_json_ json_t *event = json_pack("{s:s}", "event", "verdict"), *owned = result;

        int r = flush_stream(e, RUN_STDOUT);
        if (r == 0)
                r = flush_stream(e, RUN_STDERR);
        if (r < 0)
                return r;
        if (!event || !owned || json_object_update(event, owned) < 0)
                return -ENOMEM;
        return sink_write_json(e->sink, event, JSON_COMPACT);
}

json_t *error_to_json(const gb_error *err, bool as_event)
{
        json_t *message = json_string(err->message);

        /* A message may quote what a user typed, which need not be UTF-8. */
        if (!message) {
                char ascii[sizeof(err->message)];
                size_t n = 0;
                for (; n < sizeof(ascii) - 1 && err->message[n]; n++)
                        ascii[n] = (unsigned char)err->message[n] < 0x80 ? err->message[n] : '?';
                ascii[n] = '\0';
                message = json_string(ascii);
        }
        json_t *error = json_pack("{s:s, s:o}", "code", error_code_name(err->code), "message", message);
        return as_event ? json_pack("{s:s, s:o}", "event", "error", "error", error) : json_pack("{s:o}", "error", error);
}
