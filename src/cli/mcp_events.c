/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mcp_events.h"

#include "base/parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_USEC_MAX 60000000ULL

void event_reader_init(struct event_reader *r, size_t max)
{
        *r = (struct event_reader){0};
        buffer_init(&r->line, max);
        buffer_init(&r->data, max);
}

void event_reader_done(struct event_reader *r)
{
        buffer_done(&r->line);
        buffer_done(&r->data);
}

void event_reader_restart(struct event_reader *r)
{
        r->line.size = r->data.size = 0;
        r->after_cr = r->has_data = false;
        memcpy(r->next_id, r->id, sizeof(r->id));
}

/* One that could not stand in a header is none: without it nobody can come back. */
static void take_id(struct event_reader *r, const char *value)
{
        size_t length = strlen(value);

        r->next_id[0] = '\0';
        if (length >= sizeof(r->next_id))
                return;
        for (const char *p = value; *p; p++)
                if (*p <= ' ' || *p >= 0x7f)
                        return;
        memcpy(r->next_id, value, length + 1);
}

static void take_retry(struct event_reader *r, const char *value)
{
        uint64_t msec;

        if (parse_count(value, &msec) == 0)
                r->retry_usec = msec > RETRY_USEC_MAX / 1000 ? RETRY_USEC_MAX : msec * 1000;
}

/* An empty line ends an event. One without data only says where we are. */
static int end_event(struct event_reader *r, event_function *function, void *data)
{
        bool has_data = r->has_data && r->data.size > 0;

        r->has_data = false;
        int e = has_data ? function(data, r->data.data, r->data.size) : 0;
        r->data.size = 0;
        memcpy(r->id, r->next_id, sizeof(r->id));
        return e;
}

static int take_line(struct event_reader *r, event_function *function, void *data)
{
        char *name = r->line.data, *value = r->line.size > 0 ? memchr(name, ':', r->line.size) : NULL;
        size_t size = r->line.size;
        int e = 0;

        if (size == 0)
                return end_event(r, function, data);
        if (value == name)
                return 0; /* a comment */
        if (value) {
                *value++ = '\0';
                value += *value == ' ';
        } else
                value = name + size;
        if (strcmp(name, "data") == 0) {
                if (r->has_data)
                        e = buffer_add(&r->data, " ", 1);
                if (e == 0)
                        e = buffer_add(&r->data, value, (size_t)(name + size - value));
                r->has_data = true;
        } else if (strcmp(name, "id") == 0)
                take_id(r, value);
        else if (strcmp(name, "retry") == 0)
                take_retry(r, value);
        return e;
}

int event_reader_take(struct event_reader *r, const char *bytes, size_t size, event_function *function, void *data)
{
        while (size > 0) {
                if (r->after_cr && *bytes == '\n') {
                        bytes++;
                        size--;
                }
                r->after_cr = false;
                size_t n = 0;
                while (n < size && bytes[n] != '\n' && bytes[n] != '\r')
                        n++;
                int e = buffer_add(&r->line, bytes, n);
                if (e < 0)
                        return e;
                if (n == size)
                        return 0;
                r->after_cr = bytes[n] == '\r';
                bytes += n + 1;
                size -= n + 1;
                e = take_line(r, function, data);
                r->line.size = 0;
                if (e < 0)
                        return e;
        }
        return 0;
}
