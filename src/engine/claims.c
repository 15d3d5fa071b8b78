/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/claims.h"

#include "base/fd.h"
#include "base/parse.h"
#include "engine/outlet.h"

#include <stdio.h>
#include <string.h>

const char claims_no_memory[] = "a frame for which the host had no memory";

#define MALFORMED "a malformed payload"
#define FRAME_COST_BYTES 1024 /* what a dropped frame counts besides its payload: empty ones make work, too */

const char *claims_drop(struct claims *c, const struct frame *frame)
{
        c->dropped_bytes += frame->size + FRAME_COST_BYTES;
        return c->dropped_bytes > CONTROL_DROPPED_MAX ? "a flood of frames" : NULL;
}

/* Texts that stand in the place of what was scrubbed; the parts point to them. */
struct scrubbed {
        struct buffer texts[2 * FRAME_PARTS_MAX];
        size_t n;
};

static void scrubbed_done(struct scrubbed *s)
{
        for (size_t i = 0; i < MIN(s->n + 1, ARRAY_SIZE(s->texts)); i++)
                buffer_done(&s->texts[i]); /* the last one may be left from a failure */
}

/* The names of parts are the code's own as well. Pictures stay as they are. */
static int scrub_parts(struct claims *c, struct frame_part *parts, size_t n, struct scrubbed *ret)
{
        int r = 0;

        for (size_t i = 0; r >= 0 && i < n; i++) {
                bool binary = result_is_binary(parts[i].name);
                r = watch_text(c->watch, parts[i].name, strlen(parts[i].name), c->result, &ret->texts[ret->n]);
                if (r == 1)
                        snprintf(parts[i].name, sizeof(parts[i].name), "%s", ret->texts[ret->n++].data);
                if (r < 0 || binary)
                        continue;
                r = watch_text(c->watch, parts[i].bytes, parts[i].size, c->result, &ret->texts[ret->n]);
                if (r != 1)
                        continue;
                parts[i].bytes = ret->texts[ret->n].data;
                parts[i].size = ret->texts[ret->n++].size;
        }
        return r;
}

/* Not before every frame: at the end of a run there is nothing that could come too late. */
static void tell_output(struct claims *c)
{
        if (c->outlet)
                outlet_pause(c->outlet);
}

static const char *take_value(struct claims *c, const struct frame *frame, bool main)
{
        _cleanup_(scrubbed_done) struct scrubbed scrubbed = {0};
        struct frame_part parts[FRAME_PARTS_MAX];
        size_t n;

        if (frame_read_parts(frame, parts, FRAME_PARTS_MAX, &n) < 0)
                return MALFORMED;
        if (main && c->main_seen)
                return "two results of one run";
        c->main_seen |= main;
        bool fits = c->count < c->policy->result_count && frame->size <= c->policy->result_limit_bytes - c->bytes;
        if (!fits) {
                c->result->values_dropped++;
                return claims_drop(c, frame);
        }
        if (scrub_parts(c, parts, n, &scrubbed) < 0 || result_add_value(c->result, main, parts, n) < 0)
                return claims_no_memory;
        c->count++;
        c->bytes += frame->size;
        tell_output(c);
        if (c->callbacks->result)
                c->callbacks->result(c->callbacks->data, c->result->values[c->result->n_values - 1], monotonic_usec() - c->asked_usec);
        return NULL;
}

/* The first part of that name; NULL when there is none. */
static const struct frame_part *find_part(const struct frame_part *parts, size_t n, const char *name)
{
        for (size_t i = 0; i < n; i++)
                if (strcmp(parts[i].name, name) == 0)
                        return &parts[i];
        return NULL;
}

static const char *take_error(struct claims *c, const struct frame *frame)
{
        struct result_error *e = &c->result->error;
        const struct {
                const char *name;
                struct result_text *text;
        } rows[] = {{"name", &e->name}, {"value", &e->value}, {"traceback", &e->traceback}};
        _cleanup_(scrubbed_done) struct scrubbed scrubbed = {0};
        struct frame_part parts[FRAME_PARTS_MAX];
        size_t n;

        if (frame_read_parts(frame, parts, FRAME_PARTS_MAX, &n) < 0)
                return MALFORMED;
        if (c->result->has_error)
                return claims_drop(c, frame); /* the first is the one that counts */
        if (scrub_parts(c, parts, n, &scrubbed) < 0)
                return claims_no_memory;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                const struct frame_part *part = find_part(parts, n, rows[i].name);
                if (result_set_text(rows[i].text, part ? part->bytes : "", part ? part->size : 0) < 0)
                        return claims_no_memory;
        }
        c->result->has_error = true;
        tell_output(c);
        if (c->callbacks->error)
                c->callbacks->error(c->callbacks->data, e, monotonic_usec() - c->asked_usec);
        return NULL;
}

static bool is_text(const struct frame_part *part, const char *text)
{
        return part && part->size == strlen(text) && memcmp(part->bytes, text, part->size) == 0;
}

/* "0" to "255". */
static bool read_exit(const struct frame_part *part, struct ending *ret)
{
        char text[4];
        uint64_t status;

        if (part->size == 0 || part->size >= sizeof(text))
                return false;
        memcpy(text, part->bytes, part->size);
        text[part->size] = '\0';
        if (parse_count(text, &status) < 0 || status > UINT8_MAX)
                return false;
        *ret = ENDING_OF_EXIT((uint32_t)status);
        return true;
}

static const char *take_done(struct claims *c, const struct frame *frame)
{
        struct frame_part parts[FRAME_PARTS_MAX];
        struct ending ending = {0};
        size_t n;

        if (frame_read_parts(frame, parts, FRAME_PARTS_MAX, &n) < 0)
                return MALFORMED;
        const struct frame_part *status = find_part(parts, n, "status"), *code = find_part(parts, n, "exit");
        bool ok = is_text(status, "ok");
        /* An interrupt that we did not send is an exception like any other. */
        if (!ok && !is_text(status, "error") && !is_text(status, "interrupted"))
                return "an end without a status";
        if (code && !read_exit(code, &ending))
                return "an end with an exit status that no process can have";
        if (code && ok != (ending.value == 0))
                return "an end whose exit status says something else";
        c->done = true;
        c->result->facts.claimed = true;
        c->result->facts.claimed_error = !ok;
        c->result->facts.claimed_ending = ending;
        return NULL;
}

const char *claims_take(struct claims *c, const struct frame *frame)
{
        switch (frame->kind) {
        case 'R':
        case 'P':
                return take_value(c, frame, frame->kind == 'R');
        case 'X':
                return take_error(c, frame);
        case 'D':
                return take_done(c, frame);
        default:
                return "a frame of an unknown kind";
        }
}
