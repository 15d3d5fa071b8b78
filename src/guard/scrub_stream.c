/* SPDX-License-Identifier: Apache-2.0
 *
 * A stream finds where secrets stand by two ways that know nothing of each other: exact ones (scrub_exact.h), and shapes, which scrub_shape.c decides about where a
 * start of theirs stands. What both found are regions of the text; of those that overlap the first has the mark, and the rest goes.
 *
 * Text is handed on up to the first byte about which more text could still decide, and the rest is held. Each of the two ways decides by the text alone
 * and not by how it came, so the regions are those of the whole text. A region that has begun before that byte is marked at once, so a text that is one secret
 * after the other is not held for ever. */
#include "guard/rules_state.h"
#include "guard/scrub_starts.h"
#include "guard/scrub_state.h"

#include <errno.h>
#include <string.h>

#define MARK "[scrubbed:"
/* What is looked at in one go: it stays in the processor's cache from one way to the other. */
#define PIECE_BYTES (32 * KIB)

struct region {
        uint64_t from, to;
        size_t name;
};

/* By where they begin; of those that begin together the longest is first. */
struct regions {
        struct region *rows;
        size_t n, allocated;
};

/* Positions are counted from the begin of the stream. */
struct scrub_stream {
        const struct scrub *scrub;
        scrub_sink *sink;
        void *data;
        struct scrub_tally *tally;
        hs_scratch_t *scratch; /* while something is looked at, when a shape needs it */

        unsigned char *held;
        size_t n_held, allocated;
        uint64_t base;    /* of the first byte that was not handed on */
        struct shape_context context; /* what stood before that */
        uint64_t covered; /* up to here the text is part of what was marked already */
        size_t shown;     /* bytes from base on that were handed on by a pause */

        uint64_t exact_at; /* exact secrets were looked for up to here */
        uint64_t shapes_at; /* and shapes up to here */
        uint64_t shapes_to; /* what begins before is in a shape that was marked */
        uint64_t found_to;  /* behind the last shape that was found */
        struct shape_run *runs; /* of each shape; made with the first candidate */
        struct regions exact, shapes; /* found, and not marked */
        struct buffer out;
};

int scrub_stream_new(const struct scrub *s, scrub_sink *sink, void *data, struct scrub_tally *tally, struct scrub_stream **ret)
{
        _cleanup_scrub_stream_ struct scrub_stream *st = calloc(1, sizeof(*st));

        if (!st)
                return -ENOMEM;
        st->scrub = s;
        st->sink = sink;
        st->data = data;
        st->tally = tally;
        buffer_init(&st->out, SIZE_MAX / 2);
        *ret = TAKE_PTR(st);
        return 0;
}

static void wipe(void *memory, size_t size)
{
        if (memory)
                explicit_bzero(memory, size);
        free(memory);
}

void scrub_stream_free(struct scrub_stream *st)
{
        if (!st)
                return;
        wipe(st->held, st->allocated);
        free(st->runs);
        free(st->exact.rows);
        free(st->shapes.rows);
        buffer_done(&st->out);
        wipe(st, sizeof(*st));
}

/* ---- what was found ---- */

static struct region *regions_grow(struct regions *l)
{
        if (l->n == l->allocated) {
                size_t more = l->allocated ? 2 * l->allocated : 8;
                struct region *grown = reallocarray(l->rows, more, sizeof(*grown));
                if (!grown)
                        return NULL;
                l->rows = grown;
                l->allocated = more;
        }
        return &l->rows[l->n++];
}

static int regions_add(struct regions *l, struct region found)
{
        struct region *at = regions_grow(l);

        if (!at)
                return -ENOMEM;
        for (; at > l->rows && (at[-1].from > found.from || (at[-1].from == found.from && at[-1].to < found.to)); at--)
                *at = at[-1];
        *at = found;
        return 0;
}

static void regions_drop(struct regions *l, size_t n)
{
        if (n > 0)
                memmove(l->rows, l->rows + n, (l->n - n) * sizeof(*l->rows));
        l->n -= n;
}

static bool regions_have(const struct regions *l, uint64_t at)
{
        for (size_t i = l->n; i > 0; i--)
                if (at >= l->rows[i - 1].from && at < l->rows[i - 1].to)
                        return true;
        return false;
}

/* ---- exact secrets ---- */

/* Returns the first position that is not decided. They come in order, and there may be one at every byte: those that overlap are one. */
static int64_t look_exact(struct scrub_stream *st, const unsigned char *text, size_t size, bool final)
{
        size_t at = (size_t)(st->exact_at - st->base);
        struct exact_hit hit;
        enum exact_answer a;

        if (!st->scrub->exact)
                return (int64_t)(st->base + size);
        while ((a = exact_next(st->scrub->exact, text, size, final, &at, &hit)) == EXACT_HIT) {
                struct region *last = st->exact.n > 0 ? &st->exact.rows[st->exact.n - 1] : NULL;
                if (last && st->base + hit.from < last->to)
                        last->to = MAX(last->to, st->base + hit.to);
                else if (regions_add(&st->exact, (struct region){st->base + hit.from, st->base + hit.to, hit.secret}) < 0)
                        return -ENOMEM;
        }
        st->exact_at = st->base + (a == EXACT_WAIT ? hit.from : size);
        return (int64_t)st->exact_at;
}

/* ---- shapes ---- */

static enum shape_answer look_at_start(struct scrub_stream *st, const unsigned char *text, size_t size, bool final, size_t at, const struct shape_start *start,
                                       struct region *best)
{
        size_t name = st->scrub->n_secrets + start->rule;
        struct shape_candidate c = {
                .scrub = st->scrub, .scratch = &st->scratch, .text = text, .size = size, .base = st->base, .at = at,
                .context = &st->context, .final = final, .start = start, .run = &st->runs[start->rule],
        };
        struct shape_found found;

        enum shape_answer a = shape_look(&c, &found);
        uint64_t to = st->base + found.to;
        if (a == SHAPE_FOUND && (to > best->to || (to == best->to && name < best->name)))
                *best = (struct region){st->base + found.from, to, name};
        return a;
}

/* All that begin at one place; the longest counts, then the first rule. */
static enum shape_answer look_at_place(struct scrub_stream *st, const unsigned char *text, size_t size, bool final, size_t at, struct region *ret)
{
        const struct rules *r = st->scrub->rules;
        const struct start_row *row = starts_at(r, text + at, size - at);

        *ret = (struct region){0};
        for (const struct start_row *first = row; row->hash == first->hash; row++) {
                const struct shape_start *start = &r->starts[row->start];
                size_t n = MIN((size_t)start->size, size - at);
                if (memcmp(rules_text(r, start->text), text + at, n) != 0 || (r->shapes[start->rule].strict && st->scrub->mode != SCRUB_STRICT))
                        continue;
                if (n < start->size && !final)
                        return SHAPE_WAIT;
                if (n == start->size && look_at_start(st, text, size, final, at, start, ret) == SHAPE_WAIT)
                        return SHAPE_WAIT;
        }
        return ret->to > 0 ? SHAPE_FOUND : SHAPE_NONE;
}

/* As look_exact(). What begins in a shape that was found is part of it; what begins in the lead of one, which stays in the text, is looked at. */
static int64_t look_shapes(struct scrub_stream *st, const unsigned char *text, size_t size, bool final)
{
        const struct rules *rules = st->scrub->rules;
        enum shape_answer a = SHAPE_NONE;
        struct region found;

        if (!rules)
                return (int64_t)(st->base + size);
        for (size_t at = (size_t)(st->shapes_at - st->base); a != SHAPE_WAIT; at++) {
                at = starts_next(rules, st->scrub->mode == SCRUB_STRICT, text, size, final, at);
                st->shapes_at = st->base + at;
                if (at == size)
                        break;
                if (st->shapes_at < st->shapes_to || (st->shapes_at < st->found_to && regions_have(&st->shapes, st->shapes_at)))
                        continue;
                if (size - at < SHAPE_START_MIN) /* too little to tell which */
                        break;
                if (!st->runs && !(st->runs = calloc(rules->n_shapes, sizeof(*st->runs))))
                        return -ENOMEM;
                a = look_at_place(st, text, size, final, at, &found);
                if (a == SHAPE_FOUND && regions_add(&st->shapes, found) < 0)
                        return -ENOMEM;
                st->found_to = a == SHAPE_FOUND ? MAX(st->found_to, found.to) : st->found_to;
        }
        return (int64_t)st->shapes_at;
}

/* ---- handing on ---- */

static int add_text(struct scrub_stream *st, const unsigned char *text, uint64_t from, uint64_t to)
{
        from = MAX(from, st->base + st->shown); /* a pause has handed that on */
        return from < to ? buffer_add(&st->out, text + (from - st->base), (size_t)(to - from)) : 0;
}

static int add_mark(struct scrub_stream *st, size_t name)
{
        const char *text = scrub_name(st->scrub, name);
        int r = buffer_add_string(&st->out, MARK);

        if (r == 0)
                r = buffer_add_string(&st->out, text ? text : "secret");
        if (r == 0)
                r = buffer_add(&st->out, "]", 1);
        return r < 0 ? r : scrub_tally_count(st->tally, name);
}

/* The text up to `to`, with the marks of all that begin before. */
static int hand_on(struct scrub_stream *st, const unsigned char *text, uint64_t to)
{
        uint64_t at = MAX(st->base, st->covered);
        size_t e = 0, s = 0;
        int r = 0;

        if (to == st->base)
                return 0;
        if (st->exact.n + st->shapes.n == 0 && st->shown == 0 && at == st->base)
                return st->sink(st->data, text, (size_t)(to - st->base));
        st->out.size = 0;
        while (r == 0) {
                const struct region *exact = e < st->exact.n ? &st->exact.rows[e] : NULL, *shape = s < st->shapes.n ? &st->shapes.rows[s] : NULL;
                bool is_exact = exact && (!shape || exact->from < shape->from || (exact->from == shape->from && exact->to >= shape->to));
                const struct region *next = is_exact ? exact : shape;
                if (!next || next->from >= to)
                        break;
                e += is_exact;
                s += !is_exact;
                if (!is_exact)
                        st->shapes_to = MAX(st->shapes_to, next->to);
                if (next->from >= st->covered) {
                        r = add_text(st, text, at, next->from);
                        if (r == 0)
                                r = add_mark(st, next->name);
                }
                at = st->covered = MAX(st->covered, next->to);
        }
        regions_drop(&st->exact, e);
        regions_drop(&st->shapes, s);
        if (r == 0)
                r = add_text(st, text, at, to);
        return r < 0 || st->out.size == 0 ? r : st->sink(st->data, st->out.data, st->out.size);
}

static int hold_room(struct scrub_stream *st, size_t size)
{
        if (size <= st->allocated)
                return 0;
        size_t more = MAX(size, 2 * st->allocated);
        unsigned char *grown = malloc(more);
        if (!grown)
                return -ENOMEM;
        if (st->n_held > 0)
                memcpy(grown, st->held, st->n_held);
        wipe(st->held, st->allocated); /* which realloc() would not */
        st->held = grown;
        st->allocated = more;
        return 0;
}

/* The last bytes before the base. */
static void remember(struct shape_context *c, const unsigned char *text, size_t n)
{
        size_t all = sizeof(c->bytes);

        if (n < all && c->n > all - n) {
                memmove(c->bytes, c->bytes + (c->n - (all - n)), all - n);
                c->n = all - n;
        }
        if (n >= all)
                c->n = 0;
        size_t more = MIN(n, all);
        if (more > 0)
                memcpy(c->bytes + c->n, text + n - more, more);
        c->n += more;
}

/* From now on the text begins n bytes later, and is held. */
static int move_on(struct scrub_stream *st, const unsigned char *text, size_t size, size_t n)
{
        remember(&st->context, text, n);
        st->base += n;
        st->shown -= MIN(st->shown, n);
        if (text != st->held) {
                st->n_held = 0;
                int r = hold_room(st, size - n);
                if (r < 0)
                        return r;
        }
        if (size > n && text + n != st->held)
                memmove(st->held, text + n, size - n);
        st->n_held = size - n;
        return 0;
}

static int step(struct scrub_stream *st, const unsigned char *text, size_t size, bool final)
{
        int64_t exact = look_exact(st, text, size, final), shapes = exact < 0 ? exact : look_shapes(st, text, size, final);

        if (shapes < 0)
                return (int)shapes;
        uint64_t to = (uint64_t)MIN(exact, shapes);
        int r = hand_on(st, text, to), moved = move_on(st, text, size, (size_t)(to - st->base));
        return r < 0 ? r : moved;
}

static int write_piece(struct scrub_stream *st, const unsigned char *bytes, size_t size)
{
        if (st->n_held == 0)
                return step(st, bytes, size, false);
        int r = hold_room(st, st->n_held + size);
        if (r < 0)
                return r;
        memcpy(st->held + st->n_held, bytes, size);
        return step(st, st->held, st->n_held + size, false);
}

/* Who only holds a stream has no scratch: there are more of them than of threads. */
static void give_scratch(struct scrub_stream *st)
{
        if (st->scratch)
                rules_scratch_put(st->scrub->rules, RULES_SHAPES, TAKE_PTR(st->scratch));
}

int scrub_stream_write(struct scrub_stream *st, const void *bytes, size_t size)
{
        const unsigned char *at = bytes;
        int r = 0;

        for (size_t n; r == 0 && size > 0; at += n, size -= n) {
                n = MIN(size, (size_t)PIECE_BYTES);
                r = write_piece(st, at, n);
        }
        give_scratch(st);
        return r;
}

/* What a pause may hand on: bytes of what is held, from *ret_from to the returned one. */
static size_t find_shown(const struct scrub_stream *st, size_t *ret_from)
{
        *ret_from = MAX(st->shown, st->covered > st->base ? (size_t)(st->covered - st->base) : 0);
        return MIN(st->n_held, (size_t)SCRUB_SHOWN_MAX);
}

bool scrub_stream_holds(const struct scrub_stream *st)
{
        size_t from, to = find_shown(st, &from);

        return from < to;
}

int scrub_stream_pause(struct scrub_stream *st)
{
        size_t from, to = find_shown(st, &from);

        if (from >= to)
                return 0;
        st->shown = to;
        return st->sink(st->data, st->held + from, to - from);
}

int scrub_stream_end(struct scrub_stream *st)
{
        int r = 0;

        if (st->n_held > 0)
                r = step(st, st->held, st->n_held, true);
        give_scratch(st);
        if (st->runs)
                memset(st->runs, 0, st->scrub->rules->n_shapes * sizeof(*st->runs));
        st->base = st->covered = st->exact_at = st->shapes_at = st->shapes_to = st->found_to = 0;
        st->n_held = st->shown = st->exact.n = st->shapes.n = st->context.n = 0;
        return r;
}
