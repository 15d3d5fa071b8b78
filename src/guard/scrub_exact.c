/* SPDX-License-Identifier: Apache-2.0
 *
 * Every form of a secret is a literal of at least eight bytes. Wherever it stands, five bytes of its first eight begin at every fourth byte of the text: those
 * five, in each of the four ways, are hashed into a bitmap, so four bytes of text cost one look there. Its first eight are hashed into another. The key of the
 * hashes is random: nobody can write text that looks like a secret to them everywhere.
 *
 * Behind the bitmap are the heads: the first HEAD_MAX bytes of the literals, sorted. A literal that is longer is taken to be there when its head is, for as far
 * as the text is the same. So what was cut off behind its head is found as well. Others may begin inside of what was found and go on behind it, so the search goes
 * on at the next byte; but in a literal in which many begin, such as one that repeats itself, it goes on near the end of what was found: each byte would be
 * compared for each of them. */
#include "guard/scrub_exact.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define KEY_BYTES 8
_Static_assert(SCRUB_SECRET_MIN >= KEY_BYTES, "a literal has a key");
#define HEAD_MAX 64
#define CROWD_MAX 16
#define STRIDE 4
#define BITMAP_BITS_MIN 12
#define BITMAP_BITS_MAX 21
#define BITMAP_SPARE_BITS 6 /* one bit of so many powers of two is set */

struct literal {
        const unsigned char *bytes;
        size_t size;
        size_t secret;
        bool crowded; /* more than CROWD_MAX heads begin in it */
};

struct head {
        size_t first, n; /* of the literals that begin with it, all of them longer unless it is one itself */
        size_t size;
        size_t parent;   /* the longest other head that this one begins with; NO_HEAD */
};
#define NO_HEAD SIZE_MAX

struct exact {
        unsigned char *arena; /* the bytes of all literals */
        size_t arena_size;
        struct literal *literals; /* sorted, each once */
        size_t n_literals;
        struct head *heads; /* in the order of the literals */
        size_t n_heads;
        uint64_t key;
        unsigned shift;    /* 64 less the bits of the bitmaps' indexes */
        uint64_t *bitmap;  /* of keys */
        uint64_t *parts;   /* of five bytes of them */
        unsigned char first[32]; /* bitmap of the first bytes of literals */
};

/* ---- building ---- */

struct gathering {
        struct buffer arena;
        struct literal *literals; /* bytes: offsets into the arena until that stands still */
        size_t n, allocated;
        size_t secret;
};

static int gather(void *data, const char *name, const void *bytes, size_t size)
{
        struct gathering *g = data;

        if (g->n == g->allocated) {
                size_t more = g->allocated ? 2 * g->allocated : 64;
                struct literal *grown = reallocarray(g->literals, more, sizeof(*grown));
                if (!grown)
                        return -ENOMEM;
                g->literals = grown;
                g->allocated = more;
        }
        int r = buffer_add(&g->arena, bytes, size);
        if (r < 0)
                return r;
        g->literals[g->n++] = (struct literal){.size = size, .secret = g->secret};
        return 0;
}

static void gathering_done(struct gathering *g)
{
        buffer_done(&g->arena);
        free(g->literals);
}

static int compare_bytes(const unsigned char *a, size_t a_size, const unsigned char *b, size_t b_size)
{
        int c = memcmp(a, b, MIN(a_size, b_size));

        return c ? c : (a_size > b_size) - (a_size < b_size);
}

static int compare_literals(const void *a, const void *b)
{
        const struct literal *x = a, *y = b;
        int c = compare_bytes(x->bytes, x->size, y->bytes, y->size);

        return c ? c : (x->secret > y->secret) - (x->secret < y->secret);
}

/* Each once; of secrets that are alike the first has the name. */
static void sort_literals(struct exact *e)
{
        size_t n = 0;

        qsort(e->literals, e->n_literals, sizeof(*e->literals), compare_literals);
        for (size_t i = 0; i < e->n_literals; i++)
                if (n == 0 || compare_bytes(e->literals[n - 1].bytes, e->literals[n - 1].size, e->literals[i].bytes, e->literals[i].size) != 0)
                        e->literals[n++] = e->literals[i];
        e->n_literals = n;
}

static const unsigned char *head_bytes(const struct exact *e, const struct head *h)
{
        return e->literals[h->first].bytes;
}

static bool begins_with(const unsigned char *text, size_t size, const unsigned char *with, size_t with_size)
{
        return with_size <= size && memcmp(text, with, with_size) == 0;
}

static int make_heads(struct exact *e)
{
        e->heads = calloc(e->n_literals, sizeof(*e->heads));
        if (!e->heads)
                return -ENOMEM;
        for (size_t i = 0; i < e->n_literals; i++) {
                struct head *last = e->n_heads > 0 ? &e->heads[e->n_heads - 1] : NULL;
                size_t size = MIN(e->literals[i].size, (size_t)HEAD_MAX);
                if (last && last->size == size && memcmp(head_bytes(e, last), e->literals[i].bytes, size) == 0) {
                        last->n++;
                        continue;
                }
                e->heads[e->n_heads++] = (struct head){.first = i, .n = 1, .size = size, .parent = NO_HEAD};
        }
        for (size_t i = 1; i < e->n_heads; i++) {
                size_t p = i - 1;
                while (p != NO_HEAD && !begins_with(head_bytes(e, &e->heads[i]), e->heads[i].size, head_bytes(e, &e->heads[p]), e->heads[p].size))
                        p = e->heads[p].parent;
                e->heads[i].parent = p;
        }
        return 0;
}

static uint64_t key_of(const unsigned char *bytes)
{
        uint64_t key;

        memcpy(&key, bytes, sizeof(key));
        return key;
}

static size_t slot_of(const struct exact *e, const unsigned char *bytes)
{
        return (size_t)(key_of(bytes) * e->key >> e->shift);
}

/* The first five. */
static size_t part_slot(const struct exact *e, uint64_t key)
{
        return (size_t)((key << 24) * e->key >> e->shift);
}

static void set_bit(uint64_t *bitmap, size_t slot)
{
        bitmap[slot / 64] |= (uint64_t)1 << slot % 64;
}

static bool has_bit(const uint64_t *bitmap, size_t slot)
{
        return bitmap[slot / 64] >> slot % 64 & 1;
}

static int make_bitmap(struct exact *e)
{
        unsigned bits = BITMAP_BITS_MIN;

        while (bits < BITMAP_BITS_MAX && (size_t)1 << bits < e->n_heads << BITMAP_SPARE_BITS)
                bits++;
        e->shift = 64 - bits;
        if (getrandom(&e->key, sizeof(e->key), 0) != sizeof(e->key))
                return -EIO;
        e->key |= 1;
        e->bitmap = calloc((size_t)1 << (bits - 6), sizeof(*e->bitmap));
        e->parts = calloc((size_t)1 << (bits - 6), sizeof(*e->parts));
        if (!e->bitmap || !e->parts)
                return -ENOMEM;
        for (size_t i = 0; i < e->n_heads; i++) {
                const unsigned char *bytes = head_bytes(e, &e->heads[i]);
                set_bit(e->bitmap, slot_of(e, bytes));
                for (unsigned k = 0; k < STRIDE; k++)
                        set_bit(e->parts, part_slot(e, key_of(bytes) >> 8 * k));
                e->first[bytes[0] / 8] |= (unsigned char)(1 << bytes[0] % 8);
        }
        return 0;
}

static bool is_candidate(const struct exact *e, const unsigned char *text)
{
        return has_bit(e->bitmap, slot_of(e, text));
}

/* The first head that sorts behind the text. */
static size_t heads_behind(const struct exact *e, const unsigned char *text, size_t size)
{
        size_t low = 0, high = e->n_heads;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                if (compare_bytes(head_bytes(e, &e->heads[middle]), e->heads[middle].size, text, size) <= 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

/* The longest head that the text begins with; NO_HEAD. behind: heads_behind() of it. */
static size_t longest_head(const struct exact *e, const unsigned char *text, size_t size, size_t behind)
{
        size_t i = behind > 0 ? behind - 1 : NO_HEAD;

        while (i != NO_HEAD && !begins_with(text, size, head_bytes(e, &e->heads[i]), e->heads[i].size))
                i = e->heads[i].parent;
        return i;
}

static void find_crowds(struct exact *e)
{
        for (size_t i = 0; i < e->n_literals; i++) {
                struct literal *l = &e->literals[i];
                unsigned n = 0;
                for (size_t at = 1; at + HEAD_MAX < l->size && n <= CROWD_MAX; at++)
                        n += is_candidate(e, l->bytes + at) &&
                             longest_head(e, l->bytes + at, l->size - at, heads_behind(e, l->bytes + at, l->size - at)) != NO_HEAD;
                l->crowded = n > CROWD_MAX;
        }
}

static int build(struct exact *e, struct gathering *g)
{
        size_t at = 0;

        e->arena_size = g->arena.size;
        e->arena = malloc(g->arena.size);
        if (!e->arena)
                return -ENOMEM;
        memcpy(e->arena, g->arena.data, g->arena.size);
        e->literals = TAKE_PTR(g->literals);
        e->n_literals = g->n;
        for (size_t i = 0; i < e->n_literals; i++) {
                e->literals[i].bytes = e->arena + at;
                at += e->literals[i].size;
        }
        sort_literals(e);
        int r = make_heads(e);
        if (r == 0)
                r = make_bitmap(e);
        if (r == 0)
                find_crowds(e);
        return r;
}

int exact_new(const struct scrub_secret *secrets, size_t n, struct exact **ret)
{
        _cleanup_(gathering_done) struct gathering g = {0};
        int r = 0;

        buffer_init(&g.arena, SIZE_MAX / 2);
        g.arena.secret = true;
        for (g.secret = 0; r == 0 && g.secret < n; g.secret++)
                r = scrub_encodings(secrets[g.secret].bytes, secrets[g.secret].size, gather, &g);
        *ret = NULL;
        if (r < 0 || g.n == 0)
                return r;
        struct exact *e = calloc(1, sizeof(*e));
        if (!e)
                return -ENOMEM;
        r = build(e, &g);
        if (r < 0)
                exact_free(e);
        else
                *ret = e;
        return r;
}

void exact_free(struct exact *e)
{
        if (!e)
                return;
        if (e->arena)
                explicit_bzero(e->arena, e->arena_size);
        free(e->arena);
        free(e->literals);
        free(e->heads);
        free(e->bitmap);
        free(e->parts);
        free(e);
}

/* ---- looking ---- */

static size_t same_bytes(const unsigned char *a, const unsigned char *b, size_t size)
{
        size_t i = 0;

        while (i + 64 <= size && memcmp(a + i, b + i, 64) == 0)
                i += 64;
        while (i < size && a[i] == b[i])
                i++;
        return i;
}

/* What begins at a byte of the text. */
struct reach {
        size_t size; /* 0: nothing */
        const struct literal *literal;
        bool open; /* a literal may go further than the text does */
};

/* How far the literals of a head go along with the text. */
static void follow(const struct exact *e, const struct head *h, const unsigned char *text, size_t size, struct reach *ret)
{
        for (size_t i = h->first; i < h->first + h->n; i++) {
                const struct literal *l = &e->literals[i];
                size_t n = h->size + same_bytes(l->bytes + h->size, text + h->size, MIN(l->size, size) - h->size);
                ret->open |= n == size && n < l->size;
                if (n <= ret->size)
                        continue;
                ret->size = n;
                ret->literal = l;
        }
}

static enum exact_answer look(const struct exact *e, const unsigned char *text, size_t size, bool final, struct reach *ret)
{
        size_t behind = heads_behind(e, text, size), i = longest_head(e, text, size, behind);

        *ret = (struct reach){.open = behind < e->n_heads && begins_with(head_bytes(e, &e->heads[behind]), e->heads[behind].size, text, size)};
        if (i != NO_HEAD)
                follow(e, &e->heads[i], text, size, ret);
        if (ret->open && !final)
                return EXACT_WAIT;
        return ret->size > 0 ? EXACT_HIT : EXACT_NONE;
}

/* The next that the bitmap of keys knows; or the first that has not KEY_BYTES behind it. */
static size_t skip(const struct exact *e, const unsigned char *text, size_t size, size_t at)
{
        size_t next = at; /* what begins before was looked at */

        for (; at + 3 * STRIDE + KEY_BYTES <= size; at += 4 * STRIDE) {
                bool found[4];
                for (size_t i = 0; i < 4; i++)
                        found[i] = has_bit(e->parts, part_slot(e, key_of(text + at + i * STRIDE)));
                if (!(found[0] | found[1] | found[2] | found[3]))
                        continue;
                for (size_t i = 0; i < 4; i++) {
                        size_t last = at + i * STRIDE, first = last < next + STRIDE ? next : last - STRIDE + 1;
                        for (; found[i] && first <= last; first++)
                                if (is_candidate(e, text + first))
                                        return first;
                }
                next = at + 3 * STRIDE + 1;
        }
        at = at < next + STRIDE ? next : at - STRIDE + 1;
        while (at + KEY_BYTES <= size && !is_candidate(e, text + at))
                at++;
        return at;
}

enum exact_answer exact_next(const struct exact *e, const unsigned char *text, size_t size, bool final, size_t *at, struct exact_hit *ret)
{
        struct reach reach;

        for (;;) {
                *at = skip(e, text, size, *at);
                if (*at + KEY_BYTES > size)
                        break;
                enum exact_answer a = look(e, text + *at, size - *at, final, &reach);
                *ret = (struct exact_hit){*at, *at + reach.size, reach.literal ? reach.literal->secret : 0};
                if (a == EXACT_HIT)
                        *at += reach.size > HEAD_MAX && reach.literal->crowded ? reach.size - HEAD_MAX + 1 : 1;
                if (a != EXACT_NONE)
                        return a;
                (*at)++;
        }
        for (; !final && *at < size; (*at)++) {
                if (!(e->first[text[*at] / 8] >> text[*at] % 8 & 1))
                        continue;
                if (look(e, text + *at, size - *at, false, &reach) != EXACT_WAIT)
                        continue;
                *ret = (struct exact_hit){*at, *at, 0};
                return EXACT_WAIT;
        }
        *at = size;
        return EXACT_NONE;
}
