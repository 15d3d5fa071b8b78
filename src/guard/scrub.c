/* SPDX-License-Identifier: Apache-2.0
 *
 * A stream finds where secrets stand by two ways that know nothing of each other: exact ones (scrub_exact.h), and shapes, whose beginnings one vectorscan stream
 * finds and scrub_shape.c decides about. What both found is one set of regions; those that overlap are one.
 *
 * Text is handed on up to the first byte about which more text could still decide, and the rest is held. Each of the two ways decides by the text alone
 * and not by how it came, so the regions are those of the whole text. */
#include "guard/scrub.h"

#include "guard/scrub_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MARK "[scrubbed:"

/* Where a shape may begin. */
struct beginning {
        uint64_t at;
        uint32_t start;
};

struct region {
        uint64_t from, to;
        size_t name;
};

/* In order; those of one list do not overlap. */
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
        hs_stream_t *starts; /* NULL: there are no shapes */
        hs_scratch_t *scratch;

        unsigned char *held;
        size_t n_held, allocated;
        uint64_t base;  /* of the first byte that was not handed on */
        int before;     /* the byte before that; -1: none */
        size_t shown;   /* bytes from base on that were, by a pause */

        uint64_t exact_at; /* exact secrets were looked for up to here */
        struct beginning *beginnings; /* by `at`, not decided about yet */
        size_t n_beginnings, n_beginnings_allocated;
        uint64_t shapes_at; /* what begins before is in a shape that was found */
        struct shape_run *runs; /* of each shape; in the text at hand */
        struct regions exact, shapes; /* found, and not handed on */
        struct buffer out;
        bool no_memory; /* for what a callback found */
};

/* ---- what is looked for ---- */

static int compare_starts(const void *a, const void *b, void *data)
{
        const struct rules *r = data;
        const struct shape_start *x = &r->starts[*(const uint32_t *)a], *y = &r->starts[*(const uint32_t *)b];

        return strcmp(rules_text(r, x->text), rules_text(r, y->text));
}

static int sort_starts(struct scrub *s)
{
        const struct rules *r = s->rules;

        s->starts = calloc(r->n_starts + 1, sizeof(*s->starts));
        if (!s->starts)
                return -ENOMEM;
        for (uint32_t i = 0; i < r->n_starts; i++)
                s->starts[i] = i;
        qsort_r(s->starts, r->n_starts, sizeof(*s->starts), compare_starts, (void *)(uintptr_t)r);
        for (unsigned b = 0, i = 0; b <= 256; b++) {
                while (i < r->n_starts && (unsigned char)*rules_text(r, r->starts[s->starts[i]].text) < b)
                        i++;
                s->starts_of[b] = i;
        }
        return 0;
}

static int copy_names(struct scrub *s, const struct scrub_secret *secrets, size_t n)
{
        s->names = calloc(n + 1, sizeof(*s->names));
        if (!s->names)
                return -ENOMEM;
        s->n_secrets = n;
        for (size_t i = 0; i < n; i++)
                snprintf(s->names[i], sizeof(s->names[i]), "%s", secrets[i].name);
        return 0;
}

int scrub_new(const struct rules *rules, enum scrub_mode mode, const struct scrub_secret *secrets, size_t n_secrets, struct scrub **ret, gb_error *err)
{
        _cleanup_scrub_ struct scrub *s = calloc(1, sizeof(*s));
        int r = s ? 0 : -ENOMEM;

        if (r == 0) {
                s->mode = mode;
                s->rules = mode != SCRUB_OFF && rules && rules->start_db ? rules : NULL;
                r = copy_names(s, secrets, n_secrets);
        }
        if (r == 0 && s->rules)
                r = sort_starts(s);
        if (r == 0 && mode != SCRUB_OFF)
                r = exact_new(secrets, n_secrets, &s->exact);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot prepare the scrubber: %s", strerror(-r));
        *ret = TAKE_PTR(s);
        return 0;
}

void scrub_free(struct scrub *s)
{
        if (!s)
                return;
        exact_free(s->exact);
        free(s->names);
        free(s->starts);
        free(s);
}

/* Secrets come first, then shapes. */
const char *scrub_name(const struct scrub *s, size_t number)
{
        if (number < s->n_secrets)
                return s->names[number];
        number -= s->n_secrets;
        return s->rules && number < s->rules->n_shapes ? rules_text(s->rules, s->rules->shapes[number].id) : NULL;
}

/* ---- counting ---- */

void scrub_tally_done(struct scrub_tally *t)
{
        free(t->counts);
        *t = (struct scrub_tally){0};
}

static int tally_grow(struct scrub_tally *t, size_t n)
{
        if (n <= t->n)
                return 0;
        uint64_t *grown = reallocarray(t->counts, n, sizeof(*grown));
        if (!grown)
                return -ENOMEM;
        memset(grown + t->n, 0, (n - t->n) * sizeof(*grown));
        t->counts = grown;
        t->n = n;
        return 0;
}

int scrub_tally_add(struct scrub_tally *t, const struct scrub_tally *more)
{
        int r = tally_grow(t, more->n);

        for (size_t i = 0; r == 0 && i < more->n; i++)
                t->counts[i] += more->counts[i];
        t->total += r == 0 ? more->total : 0;
        return r;
}

static int tally_count(struct scrub_tally *t, size_t name)
{
        if (!t)
                return 0;
        int r = tally_grow(t, name + 1);
        if (r < 0)
                return r;
        t->counts[name]++;
        t->total++;
        return 0;
}

/* ---- a stream ---- */

int scrub_stream_new(const struct scrub *s, scrub_sink *sink, void *data, struct scrub_tally *tally, struct scrub_stream **ret)
{
        _cleanup_scrub_stream_ struct scrub_stream *st = calloc(1, sizeof(*st));

        if (!st)
                return -ENOMEM;
        *st = (struct scrub_stream){.scrub = s, .sink = sink, .data = data, .tally = tally, .before = -1};
        buffer_init(&st->out, SIZE_MAX / 2);
        if (s->rules) {
                st->runs = calloc(s->rules->n_shapes, sizeof(*st->runs));
                if (!st->runs || hs_clone_scratch(s->rules->scratch, &st->scratch) != HS_SUCCESS ||
                    hs_open_stream(s->rules->start_db, 0, &st->starts) != HS_SUCCESS)
                        return -ENOMEM;
        }
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
        if (st->starts)
                (void)hs_close_stream(st->starts, NULL, NULL, NULL);
        if (st->scratch)
                (void)hs_free_scratch(st->scratch);
        wipe(st->held, st->allocated);
        free(st->beginnings);
        free(st->runs);
        free(st->exact.rows);
        free(st->shapes.rows);
        buffer_done(&st->out);
        free(st);
}

/* ---- what was found ---- */

static int regions_add(struct regions *l, uint64_t from, uint64_t to, size_t name)
{
        struct region *last = l->n > 0 ? &l->rows[l->n - 1] : NULL;

        if (last && from < last->to) {
                last->to = MAX(last->to, to);
                return 0;
        }
        if (l->n == l->allocated) {
                size_t more = l->allocated ? 2 * l->allocated : 8;
                struct region *grown = reallocarray(l->rows, more, sizeof(*grown));
                if (!grown)
                        return -ENOMEM;
                l->rows = grown;
                l->allocated = more;
        }
        l->rows[l->n++] = (struct region){from, to, name};
        return 0;
}

static void regions_drop(struct regions *l, size_t n)
{
        memmove(l->rows, l->rows + n, (l->n - n) * sizeof(*l->rows));
        l->n -= n;
}

/* The last that begins before; regions do not overlap, so no other can reach over it. */
static const struct region *regions_over(const struct regions *l, uint64_t at)
{
        for (size_t i = l->n; i > 0; i--)
                if (l->rows[i - 1].from < at)
                        return l->rows[i - 1].to > at ? &l->rows[i - 1] : NULL;
        return NULL;
}

/* ---- exact secrets ---- */

/* Returns the first position that is not decided. */
static int64_t look_exact(struct scrub_stream *st, const unsigned char *text, size_t size, bool final)
{
        size_t at = (size_t)(st->exact_at - st->base);
        struct exact_hit hit;
        enum exact_answer a;

        if (!st->scrub->exact)
                return (int64_t)(st->base + size);
        while ((a = exact_next(st->scrub->exact, text, size, final, &at, &hit)) == EXACT_HIT)
                if (regions_add(&st->exact, st->base + hit.from, st->base + hit.to, hit.secret) < 0)
                        return -ENOMEM;
        st->exact_at = st->base + (a == EXACT_WAIT ? hit.from : size);
        return (int64_t)st->exact_at;
}

/* ---- shapes ---- */

static int on_start(unsigned id, unsigned long long from, unsigned long long to, unsigned flags, void *data)
{
        struct scrub_stream *st = data;
        const struct rules *rules = st->scrub->rules;
        const struct shape_start *start = &rules->starts[id];
        uint64_t at = to - start->size;

        if ((rules->shapes[start->rule].strict && st->scrub->mode != SCRUB_STRICT) || at < st->shapes_at)
                return 0;
        if (st->n_beginnings == st->n_beginnings_allocated) {
                size_t more = st->n_beginnings_allocated ? 2 * st->n_beginnings_allocated : 16;
                struct beginning *grown = reallocarray(st->beginnings, more, sizeof(*grown));
                st->no_memory |= !grown;
                if (!grown)
                        return 1;
                st->beginnings = grown;
                st->n_beginnings_allocated = more;
        }
        /* They come by where they end; a long one may begin before a short one that was told already. */
        size_t i = st->n_beginnings++;
        for (; i > 0 && st->beginnings[i - 1].at > at; i--)
                st->beginnings[i] = st->beginnings[i - 1];
        st->beginnings[i] = (struct beginning){at, id};
        return 0;
}

/* The first position from which on the text may be the begin of a start. */
static size_t find_part_of_start(const struct scrub *s, const unsigned char *text, size_t size)
{
        const struct rules *r = s->rules;
        size_t at = size >= r->start_max ? size - r->start_max + 1 : 0;

        for (; at < size; at++)
                for (uint32_t i = s->starts_of[text[at]]; i < s->starts_of[text[at] + 1]; i++) {
                        const struct shape_start *start = &r->starts[s->starts[i]];
                        if (start->size > size - at && memcmp(rules_text(r, start->text), text + at, size - at) == 0)
                                return at;
                }
        return size;
}

/* All that begin at the same place; the longest counts. *ret_n: how many those are. */
static enum shape_answer look_at_place(struct scrub_stream *st, const unsigned char *text, size_t size, bool final, size_t first, size_t *ret_n,
                                       struct region *ret)
{
        enum shape_answer answer = SHAPE_NONE;
        uint64_t at = st->beginnings[first].at;
        struct shape_found found;

        *ret = (struct region){0};
        for (*ret_n = 0; first + *ret_n < st->n_beginnings && st->beginnings[first + *ret_n].at == at; (*ret_n)++) {
                const struct shape_start *start = &st->scrub->rules->starts[st->beginnings[first + *ret_n].start];
                struct shape_candidate c = {
                        .scrub = st->scrub, .scratch = st->scratch, .text = text, .size = size, .at = (size_t)(at - st->base), .before = st->before,
                        .final = final, .start = start, .run = &st->runs[start->rule],
                };
                enum shape_answer a = shape_look(&c, &found);
                if (a == SHAPE_WAIT)
                        return SHAPE_WAIT;
                if (a == SHAPE_NONE || st->base + found.to <= ret->to)
                        continue;
                answer = SHAPE_FOUND;
                *ret = (struct region){st->base + found.from, st->base + found.to, st->scrub->n_secrets + start->rule};
        }
        return answer;
}

/* As look_exact(). */
static int64_t look_shapes(struct scrub_stream *st, const unsigned char *text, size_t size, bool final)
{
        if (!st->starts)
                return (int64_t)(st->base + size);
        uint64_t open = st->base + (final ? size : find_part_of_start(st->scrub, text, size));
        size_t i = 0, n = 0;
        struct region found;

        for (; i < st->n_beginnings && st->beginnings[i].at < open; i += n) {
                n = 1;
                if (st->beginnings[i].at < st->shapes_at)
                        continue;
                enum shape_answer a = look_at_place(st, text, size, final, i, &n, &found);
                if (a == SHAPE_WAIT) {
                        open = st->beginnings[i].at;
                        break;
                }
                if (a == SHAPE_NONE)
                        continue;
                if (regions_add(&st->shapes, found.from, found.to, found.name) < 0)
                        return -ENOMEM;
                st->shapes_at = found.to;
        }
        st->n_beginnings -= i;
        memmove(st->beginnings, st->beginnings + i, st->n_beginnings * sizeof(*st->beginnings));
        return (int64_t)open;
}

/* ---- handing on ---- */

/* The first that was found by either way, with all that overlap it; takes them out. */
static bool take_region(struct scrub_stream *st, uint64_t before, struct region *ret)
{
        struct regions *lists[] = {&st->exact, &st->shapes};
        size_t used[2] = {0};
        bool found = false;

        for (bool more = true; more;) {
                more = false;
                for (size_t i = 0; i < 2; i++) {
                        const struct region *r = used[i] < lists[i]->n ? &lists[i]->rows[used[i]] : NULL;
                        const struct region *other = used[!i] < lists[!i]->n ? &lists[!i]->rows[used[!i]] : NULL;
                        if (!r || r->from >= before || (found && r->from >= ret->to))
                                continue;
                        if (!found && other && (other->from < r->from || (other->from == r->from && other->to > r->to)))
                                continue;
                        ret->to = found ? MAX(ret->to, r->to) : r->to;
                        if (!found)
                                *ret = *r;
                        found = more = true;
                        used[i]++;
                }
        }
        for (size_t i = 0; i < 2; i++)
                regions_drop(lists[i], used[i]);
        return found;
}

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
        return r < 0 ? r : tally_count(st->tally, name);
}

/* The text up to `to`, which no region reaches over. */
static int hand_on(struct scrub_stream *st, const unsigned char *text, uint64_t to)
{
        struct region region = {0};
        uint64_t at = st->base;
        int r = 0;

        if (to == st->base)
                return 0;
        if (st->exact.n + st->shapes.n == 0 && st->shown == 0)
                return st->sink(st->data, text, (size_t)(to - st->base));
        st->out.size = 0;
        while (r == 0 && take_region(st, to, &region)) {
                r = add_text(st, text, at, region.from);
                if (r == 0)
                        r = add_mark(st, region.name);
                at = region.to;
        }
        if (r == 0)
                r = add_text(st, text, at, to);
        return r < 0 || st->out.size == 0 ? r : st->sink(st->data, st->out.data, st->out.size);
}

static uint64_t shorten(const struct scrub_stream *st, uint64_t to)
{
        for (;;) {
                const struct region *over = regions_over(&st->exact, to);
                if (!over)
                        over = regions_over(&st->shapes, to);
                if (!over)
                        return to;
                to = over->from;
        }
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

/* From now on the text begins n bytes later, and is held. */
static int move_on(struct scrub_stream *st, const unsigned char *text, size_t size, size_t n)
{
        if (n > 0)
                st->before = text[n - 1];
        if (text != st->held) {
                st->n_held = 0;
                int r = hold_room(st, size - n);
                if (r < 0)
                        return r;
        }
        if (size > n)
                memmove(st->held, text + n, size - n);
        st->n_held = size - n;
        st->base += n;
        st->shown -= MIN(st->shown, n);
        for (size_t i = 0; st->runs && n > 0 && i < st->scrub->rules->n_shapes; i++) {
                struct shape_run *run = &st->runs[i];
                *run = run->from < n ? (struct shape_run){0} : (struct shape_run){run->from - n, run->to - n};
        }
        return 0;
}

static int step(struct scrub_stream *st, const unsigned char *text, size_t size, bool final)
{
        int64_t exact = look_exact(st, text, size, final), shapes = exact < 0 ? exact : look_shapes(st, text, size, final);

        if (shapes < 0)
                return (int)shapes;
        uint64_t to = shorten(st, (uint64_t)MIN(exact, shapes));
        int r = hand_on(st, text, to), moved = move_on(st, text, size, (size_t)(to - st->base));
        return r < 0 ? r : moved;
}

int scrub_stream_write(struct scrub_stream *st, const void *bytes, size_t size)
{
        const unsigned char *text = bytes;

        if (size == 0)
                return 0;
        if (st->starts && (hs_scan_stream(st->starts, bytes, (unsigned)size, 0, st->scratch, on_start, st) != HS_SUCCESS || st->no_memory))
                return -ENOMEM;
        if (st->n_held > 0) {
                int r = hold_room(st, st->n_held + size);
                if (r < 0)
                        return r;
                memcpy(st->held + st->n_held, bytes, size);
                size += st->n_held;
                text = st->held;
        }
        return step(st, text, size, false);
}

bool scrub_stream_holds(const struct scrub_stream *st)
{
        return st->n_held > st->shown && st->shown < SCRUB_SHOWN_MAX;
}

int scrub_stream_pause(struct scrub_stream *st)
{
        size_t from = st->shown, to = MIN(st->n_held, (size_t)SCRUB_SHOWN_MAX);

        if (!scrub_stream_holds(st))
                return 0;
        st->shown = to;
        return st->sink(st->data, st->held + from, to - from);
}

int scrub_stream_end(struct scrub_stream *st)
{
        int r = st->n_held > 0 ? step(st, st->held, st->n_held, true) : 0;

        if (st->starts)
                (void)hs_reset_stream(st->starts, 0, NULL, NULL, NULL);
        st->base = st->exact_at = st->shapes_at = 0;
        st->n_held = st->shown = st->n_beginnings = st->exact.n = st->shapes.n = 0;
        st->before = -1;
        return r;
}

/* ---- a whole text ---- */

static int to_buffer(void *data, const void *bytes, size_t size)
{
        return buffer_add(data, bytes, size);
}

int scrub_text(const struct scrub *s, const void *bytes, size_t size, struct buffer *out, struct scrub_tally *tally)
{
        _cleanup_scrub_stream_ struct scrub_stream *st = NULL;
        _cleanup_buffer_ struct buffer text = {0};
        struct scrub_tally own = {0};

        buffer_init(&text, SIZE_MAX / 2);
        int r = scrub_stream_new(s, to_buffer, &text, &own, &st);
        if (r == 0)
                r = scrub_stream_write(st, bytes, size);
        if (r == 0)
                r = scrub_stream_end(st);
        if (r == 0 && own.total > 0)
                r = buffer_add(out, text.data, text.size);
        if (r == 0 && own.total > 0 && tally)
                r = scrub_tally_add(tally, &own);
        bool found = own.total > 0;
        scrub_tally_done(&own);
        return r < 0 ? r : found;
}
