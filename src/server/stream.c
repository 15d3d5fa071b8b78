/* SPDX-License-Identifier: Apache-2.0
 *
 * Events, one object each. Text of programs is inside of JSON strings, which have no raw line ends: it cannot end an event or begin one. */
#include "server/reply.h"

#include "base/json.h"
#include "server/reply_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int reply_stream_begin(struct request *r)
{
        bool sse = r->answer == ANSWER_SSE;

        if (sse)
                (void)reply_header(r, "X-Accel-Buffering", "no");
        return reply_begin(r, 200, sse ? "text/event-stream" : "application/x-ndjson", -1);
}

static int write_event(struct request *r, const char *prefix, const char *text, const char *suffix)
{
        _cleanup_free_ char *whole = NULL;
        int n = asprintf(&whole, "%s%s%s", prefix, text, suffix);

        if (n < 0) {
                whole = NULL;
                reply_abort(r);
                return -EPIPE;
        }
        return reply_write(r, whole, (size_t)n);
}

int reply_stream_event(struct request *r, int64_t seq, const char *kind, json_t *object)
{
        _cleanup_free_ char *text = json_print(object, REPLY_JSON_FLAGS);
        char prefix[128], id[40] = "";

        if (!text) {
                reply_abort(r);
                return -EPIPE;
        }
        if (r->answer != ANSWER_SSE)
                return write_event(r, "", text, "\n");
        if (seq >= 0)
                snprintf(id, sizeof(id), "id: %lld\n", (long long)seq);
        snprintf(prefix, sizeof(prefix), "%sevent: %s\ndata: ", id, kind);
        return write_event(r, prefix, text, "\n\n");
}

int reply_stream_ping(struct request *r)
{
        const char *text = r->answer == ANSWER_SSE ? ": ping\n\n" : "{\"event\":\"ping\"}\n";

        return reply_write(r, text, strlen(text));
}
