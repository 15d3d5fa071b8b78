/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/outlet.h"

#include "base/fd.h"

#include <errno.h>

static int hand_on(void *data, const void *bytes, size_t size)
{
        struct outlet_stream *s = data;
        struct outlet *o = s->outlet;
        size_t fits = (size_t)MIN((uint64_t)size, o->limit_bytes - o->handed);

        o->handed += fits;
        o->result->truncated |= fits < size;
        size = fits;
        if (size == 0)
                return 0;
        if (o->keep) {
                long n = buffer_add_some(s->stream == RUN_STDOUT ? &o->result->out : &o->result->err, bytes, size);
                if (n < 0)
                        return (int)n;
                o->result->truncated |= (size_t)n < size;
        }
        if (o->output)
                o->output(o->data, s->stream, bytes, size, monotonic_usec() - o->asked_usec);
        return 0;
}

static int pass(struct outlet *o, enum run_stream stream, const void *bytes, size_t size)
{
        struct outlet_stream *s = &o->streams[stream];

        s->outlet = o;
        s->stream = stream;
        if (!o->scrub)
                return hand_on(s, bytes, size);
        int r = s->scrub ? 0 : scrub_stream_new(o->scrub, hand_on, s, &o->result->scrubbed, &s->scrub);
        if (r == 0)
                r = scrub_stream_write(s->scrub, bytes, size);
        if (r == 0)
                o->pause_usec = scrub_stream_holds(s->scrub) ? monotonic_usec() + OUTLET_PAUSE_USEC : o->pause_usec;
        return r;
}

int outlet_write(struct outlet *o, enum run_stream stream, const void *bytes, size_t size)
{
        struct run_facts *facts = &o->result->facts;
        uint64_t room = facts->output_bytes < o->limit_bytes ? o->limit_bytes - facts->output_bytes : 0;
        size_t kept = (size_t)MIN((uint64_t)size, room);

        facts->output_bytes += size;
        int r = kept > 0 && !o->failed ? pass(o, stream, bytes, kept) : 0;
        o->failed |= r < 0;
        if (r < 0)
                return r;
        bool first = kept < size && !o->over;
        o->over |= kept < size;
        o->result->truncated |= o->over;
        return first;
}

void outlet_pause(struct outlet *o)
{
        o->pause_usec = 0;
        for (size_t i = 0; i < ARRAY_SIZE(o->streams); i++)
                if (o->streams[i].scrub && !o->failed)
                        o->failed = scrub_stream_pause(o->streams[i].scrub) < 0; /* outlet_end() tells */
}

int outlet_end(struct outlet *o)
{
        int r = o->failed ? -ENOMEM : 0;

        for (size_t i = 0; i < ARRAY_SIZE(o->streams); i++) {
                struct scrub_stream *s = o->streams[i].scrub;
                /* What was cut has not ended: it may have been the beginning of a secret, and is not shown. */
                int e = !s || o->failed ? 0 : o->over ? scrub_stream_pause(s) : scrub_stream_end(s);
                r = r < 0 ? r : e;
        }
        return r;
}

void outlet_done(struct outlet *o)
{
        for (size_t i = 0; i < ARRAY_SIZE(o->streams); i++) {
                scrub_stream_free(o->streams[i].scrub);
                o->streams[i].scrub = NULL;
        }
}
