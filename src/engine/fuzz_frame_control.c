/* SPDX-License-Identifier: Apache-2.0
 *
 * The control channel as hostile code can write to it. The first byte says in which pieces the rest comes. */
#include "engine/channel.h"
#include "engine/frame.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct summary {
        size_t frames, bytes, parts;
        int end;
};

static void check_parts(const struct frame *frame, struct summary *s)
{
        const char *at = frame->payload;
        size_t left = frame->size;
        struct frame_part part;
        int r;

        while ((r = frame_next_part(&at, &left, &part)) > 0) {
                size_t n = strlen(part.name);
                if (n == 0 || n > FRAME_NAME_MAX || part.bytes < frame->payload || part.size > frame->size)
                        abort();
                if (part.bytes + part.size > frame->payload + frame->size || at != part.bytes + part.size)
                        abort();
                s->parts++;
        }
        if (r != 0 && r != -EPROTO)
                abort();
}

/* What was taken must be written again as the same line. */
static void check_frame(const struct frame *frame, struct summary *s)
{
        char header[FRAME_HEADER_MAX + 1];

        if (frame->kind < 'A' || frame->kind > 'Z' || frame->seq > FRAME_SEQ_MAX || frame->size > FRAME_BYTES_MAX)
                abort();
        if (frame_write_header(header, frame->kind, frame->seq, frame->size) > FRAME_HEADER_MAX)
                abort();
        s->frames++;
        s->bytes += frame->size + strlen(header);
        check_parts(frame, s);
}

static struct summary decode(const char *bytes, size_t size, size_t piece)
{
        struct summary s = {0};
        struct frame_decoder d;
        struct frame frame;

        frame_decoder_init(&d);
        for (size_t at = 0; at < size && s.end >= 0; at += piece) {
                const char *next = bytes + at;
                size_t left = MIN(piece, size - at);
                while (left > 0 && s.end >= 0) {
                        s.end = frame_decoder_feed(&d, &next, &left, &frame);
                        if (s.end > 0)
                                check_frame(&frame, &s);
                }
        }
        frame_decoder_done(&d);
        return s;
}

/* The same bytes in the middle of a run: what is kept is within its limits. */
static void check_claims(const struct result *r, const struct channel *c, const struct policy *policy)
{
        uint64_t kept = 0;
        size_t mains = 0;

        for (size_t i = 0; i < r->n_values; i++) {
                mains += r->values[i]->main;
                for (size_t k = 0; k < r->values[i]->n_parts; k++) {
                        const struct result_part *part = &r->values[i]->parts[k];
                        if (part->bytes[part->size] != '\0')
                                abort();
                        kept += part->size;
                }
        }
        if (r->n_values > policy->result_count || kept > policy->result_limit_bytes || mains > 1)
                abort();
        if (r->has_error && (r->error.name.size > ERROR_TEXT_MAX || r->error.value.size > ERROR_TEXT_MAX || r->error.traceback.size > ERROR_TEXT_MAX))
                abort();
        if (r->facts.claimed != c->claims.done)
                abort();
}

static void take_run(const char *bytes, size_t size, size_t piece)
{
        static const struct policy policy = {.result_count = 3, .result_limit_bytes = 300};
        static const struct session_callbacks callbacks;
        struct result *r = calloc(1, sizeof(*r));
        struct channel c;

        if (!r || channel_init(&c) < 0)
                abort();
        c.greeted = true;
        c.seq = 1;
        c.stage = CHANNEL_RUNNING;
        c.claims = (struct claims){.result = r, .policy = &policy, .callbacks = &callbacks};
        for (size_t at = 0; at < size && !c.broken; at += piece) {
                size_t n = MIN(piece, size - at);
                memcpy(c.chunk.data, bytes + at, n);
                channel_take(&c, n);
        }
        check_claims(r, &c, &policy);
        channel_done(&c);
        result_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size == 0)
                return 0;
        const char *bytes = (const char *)data + 1;
        take_run(bytes, size - 1, (size_t)data[0] + 1);
        struct summary whole = decode(bytes, size - 1, SIZE_MAX / 2), pieces = decode(bytes, size - 1, (size_t)data[0] + 1);

        /* The pieces make no difference, and no byte is counted twice. */
        if (whole.frames != pieces.frames || whole.parts != pieces.parts || (whole.end < 0 ? whole.end : 0) != (pieces.end < 0 ? pieces.end : 0))
                abort();
        if (whole.bytes > size - 1)
                abort();
        return 0;
}
