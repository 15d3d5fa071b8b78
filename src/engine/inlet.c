/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/inlet.h"

static int drop(void *data, const void *bytes, size_t size)
{
        return 0;
}

int inlet_see(void *data, const void *bytes, size_t size)
{
        struct inlet *i = data;
        const struct scrub *scrub = watch_scrub(i->watch);

        if (!scrub || i->error < 0)
                return i->error;
        if (!i->stream)
                i->error = scrub_stream_new(scrub, drop, NULL, &i->tally, &i->stream);
        if (i->error == 0)
                i->error = scrub_stream_write(i->stream, bytes, size);
        return i->error;
}

int inlet_end(struct inlet *i, struct result *result)
{
        if (i->stream && i->error == 0)
                i->error = scrub_stream_end(i->stream);
        int r = i->tally.total > 0 ? watch_note_input(i->watch, result) : 0;
        return i->error < 0 ? i->error : r;
}

void inlet_done(struct inlet *i)
{
        scrub_stream_free(i->stream);
        scrub_tally_done(&i->tally);
        *i = (struct inlet){0};
}
