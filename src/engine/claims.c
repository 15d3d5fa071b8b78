/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/claims.h"

#include "base/fd.h"

#include <string.h>

#define MALFORMED "a malformed payload"
#define FRAME_COST_BYTES 1024 /* what a dropped frame counts besides its payload: empty ones make work, too */

const char *claims_drop(struct claims *c, const struct frame *frame)
{
        c->dropped_bytes += frame->size + FRAME_COST_BYTES;
        return c->dropped_bytes > CONTROL_DROPPED_MAX ? "a flood of frames" : NULL;
}

static const char *take_value(struct claims *c, const struct frame *frame, bool main)
{
        struct frame_part parts[FRAME_PARTS_MAX];
        size_t n;

        if (frame_read_parts(frame, parts, FRAME_PARTS_MAX, &n) < 0)
                return MALFORMED;
        if (main && c->main_seen)
                return "two results of one run";
        c->main_seen |= main;
        bool fits = c->count < c->policy->result_count && frame->size <= c->policy->result_limit_bytes - c->bytes;
        if (!fits || result_add_value(c->result, main, parts, n) < 0) {
                c->result->values_dropped++;
                return claims_drop(c, frame);
        }
        c->count++;
        c->bytes += frame->size;
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
        struct frame_part parts[FRAME_PARTS_MAX];
        size_t n;

        if (frame_read_parts(frame, parts, FRAME_PARTS_MAX, &n) < 0)
                return MALFORMED;
        if (c->result->has_error)
                return claims_drop(c, frame); /* the first is the one that counts */
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                const struct frame_part *part = find_part(parts, n, rows[i].name);
                if (result_set_text(rows[i].text, part ? part->bytes : "", part ? part->size : 0) < 0)
                        return claims_drop(c, frame);
        }
        c->result->has_error = true;
        if (c->callbacks->error)
                c->callbacks->error(c->callbacks->data, e, monotonic_usec() - c->asked_usec);
        return NULL;
}

static bool is_text(const struct frame_part *part, const char *text)
{
        return part && part->size == strlen(text) && memcmp(part->bytes, text, part->size) == 0;
}

static const char *take_done(struct claims *c, const struct frame *frame)
{
        struct frame_part parts[FRAME_PARTS_MAX];
        size_t n;

        if (frame_read_parts(frame, parts, FRAME_PARTS_MAX, &n) < 0)
                return MALFORMED;
        const struct frame_part *status = find_part(parts, n, "status");
        bool ok = is_text(status, "ok");
        /* An interrupt that we did not send is an exception like any other. */
        if (!ok && !is_text(status, "error") && !is_text(status, "interrupted"))
                return "an end without a status";
        c->done = true;
        c->result->facts.claimed = true;
        c->result->facts.claimed_error = !ok;
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
