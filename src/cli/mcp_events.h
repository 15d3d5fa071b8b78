/* SPDX-License-Identifier: Apache-2.0
 *
 * Events that a server sends (text/event-stream), read as they come. */
#ifndef CLI_MCP_EVENTS_H
#define CLI_MCP_EVENTS_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stdint.h>

#define EVENT_ID_MAX 128

struct event_reader {
        struct buffer line; /* as far as it has come */
        struct buffer data; /* of the event */
        bool after_cr;      /* a line feed that comes next belongs to the line before */
        bool has_data;
        char id[EVENT_ID_MAX];      /* of the last whole event that had one, as it may stand in a header; empty: none */
        char next_id[EVENT_ID_MAX]; /* of the one that is coming */
        uint64_t retry_usec;   /* to wait before coming back; 0: nothing was said */
};

/* max: bytes of one event. */
void event_reader_init(struct event_reader *r, size_t max);
void event_reader_done(struct event_reader *r);
/* Another connection, which goes on after the last whole event. */
void event_reader_restart(struct event_reader *r);

/* Called with the data of each event that has some, its lines joined by spaces, NUL-terminated. Negative: it ends there. */
typedef int event_function(void *data, const char *text, size_t size);
/* 0, what the function returned, -ENOMEM, or -EFBIG. */
int event_reader_take(struct event_reader *r, const char *bytes, size_t size, event_function *function, void *data);

#endif
