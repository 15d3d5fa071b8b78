/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled rules out of memory. The shipped ones are part of the program and trusted; others come from a file, and each number in them is checked before
 * it is used. */
#include "guard/rules.h"

#include "base/sha256.h"
#include "guard/rules_state.h"

#include <errno.h>
#include <hs/hs_runtime.h>
#include <string.h>

/* ---- checking ---- */

static bool piece_fits(const struct rules_head *h, const struct rules_piece *p, size_t each)
{
        uint64_t bytes = (uint64_t)p->size * each;

        return p->at >= sizeof(*h) && p->at % 4 == 0 && p->at <= h->size && bytes <= h->size - p->at;
}

static bool text_fits(const struct rules_head *h, uint32_t at)
{
        return at < h->texts.size; /* the last byte of the texts is NUL */
}

/* Names, each with its NUL, and an empty one at the end. */
static bool list_fits(const struct rules *r, uint32_t at)
{
        const struct rules_head *h = r->head;

        while (text_fits(h, at) && *rules_text(r, at))
                at += (uint32_t)strlen(rules_text(r, at)) + 1;
        return text_fits(h, at);
}

static bool code_fits(const struct rules *r)
{
        for (size_t i = 0; i < r->n_code; i++) {
                const struct code_rule *c = &r->code[i];
                if (!text_fits(r->head, c->id) || !text_fits(r->head, c->set) || !text_fits(r->head, c->message) || !text_fits(r->head, c->remedy) ||
                    !list_fits(r, c->languages) || !list_fits(r, c->imports) || c->action > GUARD_BLOCK)
                        return false;
        }
        for (size_t i = 0; i < r->n_patterns; i++)
                if (r->patterns[i].rule >= r->n_code)
                        return false;
        return true;
}

static bool shapes_fit(const struct rules *r)
{
        for (size_t i = 0; i < r->n_shapes; i++) {
                const struct shape_rule *s = &r->shapes[i];
                if (!text_fits(r->head, s->id) || !text_fits(r->head, s->set) || !text_fits(r->head, s->about) || !text_fits(r->head, s->end) ||
                    !text_fits(r->head, s->needs) || !list_fits(r, s->except) || s->check >= SHAPE_CHECK_COUNT || s->max > SHAPE_BYTES_MAX)
                        return false;
        }
        for (size_t i = 0; i < r->n_starts; i++) {
                const struct shape_start *s = &r->starts[i];
                if (s->rule >= r->n_shapes || !text_fits(r->head, s->text) || s->size < SHAPE_START_MIN || s->size != strlen(rules_text(r, s->text)))
                        return false;
        }
        return true;
}

static bool examples_fit(const struct rules *r)
{
        for (size_t i = 0; i < r->n_examples; i++) {
                const struct rule_example *e = &r->examples[i];
                if (e->rule >= (e->is_shape ? r->n_shapes : r->n_code) || !text_fits(r->head, e->language) || !text_fits(r->head, e->text) ||
                    e->size > r->head->texts.size - e->text)
                        return false;
        }
        return true;
}

static bool head_fits(const struct rules_head *h, size_t size)
{
        return size >= sizeof(*h) && h->size == size && size <= RULES_BYTES_MAX && piece_fits(h, &h->texts, 1) && h->texts.size > 0 &&
               ((const char *)h)[h->texts.at + h->texts.size - 1] == '\0' && piece_fits(h, &h->code, sizeof(struct code_rule)) &&
               piece_fits(h, &h->patterns, sizeof(struct code_pattern)) && piece_fits(h, &h->shapes, sizeof(struct shape_rule)) &&
               piece_fits(h, &h->starts, sizeof(struct shape_start)) && piece_fits(h, &h->examples, sizeof(struct rule_example)) &&
               piece_fits(h, &h->code_db, 1) && piece_fits(h, &h->start_db, 1) && piece_fits(h, &h->shape_db, 1);
}

static bool digest_is_right(const struct rules_head *h)
{
        char text[SHA256_TEXT_MAX];
        struct sha256 s;

        sha256_init(&s);
        sha256_add(&s, h + 1, (size_t)h->size - sizeof(*h));
        sha256_text(&s, text);
        return strncmp(text, h->digest, sizeof(text)) == 0;
}

bool rules_memory_is_current(const void *bytes, size_t size)
{
        const struct rules_head *h = bytes, *own = (const struct rules_head *)(const void *)rules_shipped_text;

        return size >= sizeof(*h) && memcmp(h->magic, RULES_MAGIC, sizeof(h->magic)) == 0 && memcmp(h->made_by, own->made_by, sizeof(h->made_by)) == 0;
}

/* ---- opening ---- */

static void set_pieces(struct rules *r, const void *bytes)
{
        const struct rules_head *h = bytes;
        const char *base = bytes;

        r->head = h;
        r->code = (const void *)(base + h->code.at);
        r->patterns = (const void *)(base + h->patterns.at);
        r->shapes = (const void *)(base + h->shapes.at);
        r->starts = (const void *)(base + h->starts.at);
        r->examples = (const void *)(base + h->examples.at);
        r->n_code = h->code.size;
        r->n_patterns = h->patterns.size;
        r->n_shapes = h->shapes.size;
        r->n_starts = h->starts.size;
        r->n_examples = h->examples.size;
        for (size_t i = 0; i < r->n_starts; i++)
                r->start_max = MAX(r->start_max, (size_t)r->starts[i].size);
}

static int open_database(struct rules *r, const struct rules_piece *p, hs_database_t **ret)
{
        if (p->size == 0)
                return 0;
        hs_error_t e = hs_deserialize_database((const char *)r->head + p->at, p->size, ret);
        if (e == HS_SUCCESS)
                e = hs_alloc_scratch(*ret, &r->scratch);
        return e == HS_SUCCESS ? 0 : e == HS_NOMEM ? -ENOMEM : -EINVAL;
}

static int open_databases(struct rules *r)
{
        int e = open_database(r, &r->head->code_db, &r->code_db);

        if (e == 0)
                e = open_database(r, &r->head->start_db, &r->start_db);
        return e < 0 ? e : open_database(r, &r->head->shape_db, &r->shape_db);
}

int rules_open(const void *bytes, struct rules **ret, gb_error *err)
{
        _cleanup_rules_ struct rules *r = calloc(1, sizeof(*r));

        int e = r ? 0 : -ENOMEM;
        if (e == 0) {
                set_pieces(r, bytes);
                e = open_databases(r);
        }
        if (e < 0)
                return error_set(err, e == -ENOMEM ? GB_E_INTERNAL : GB_E_POLICY, -e, "the compiled rules cannot be used on this processor or by this version: %s",
                                 strerror(-e));
        *ret = TAKE_PTR(r);
        return 0;
}

int rules_from_memory(const void *bytes, size_t size, struct rules **ret, gb_error *err)
{
        _cleanup_free_ void *copy = NULL;
        struct rules look = {0};
        static const char wrong[] = "the compiled rules are damaged";

        if (posix_memalign(&copy, RULES_ALIGN, size + RULES_ALIGN) != 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        memcpy(copy, bytes, size);
        if (!rules_memory_is_current(copy, size))
                return error_set(err, GB_E_POLICY, EINVAL, "the compiled rules are of another version");
        if (!head_fits(copy, size) || !digest_is_right(copy))
                return error_set(err, GB_E_POLICY, EINVAL, "%s", wrong);
        set_pieces(&look, copy);
        if (!code_fits(&look) || !shapes_fit(&look) || !examples_fit(&look))
                return error_set(err, GB_E_POLICY, EINVAL, "%s", wrong);
        int r = rules_open(copy, ret, err);
        if (r == 0)
                (*ret)->memory = TAKE_PTR(copy);
        return r;
}

void rules_free(struct rules *r)
{
        if (!r)
                return;
        (void)hs_free_database(r->code_db);
        (void)hs_free_database(r->start_db);
        (void)hs_free_database(r->shape_db);
        (void)hs_free_scratch(r->scratch);
        free(r->memory);
        free(r);
}
