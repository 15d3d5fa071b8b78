/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled rules out of memory. The shipped ones are part of the program and trusted; others come from a file, and each number in them is checked before
 * it is used. */
#include "guard/rules.h"

#include "guard/rules_state.h"
#include "guard/rules_wire.h"
#include "guard/scrub_starts.h"

#include <errno.h>
#include <hs/hs_runtime.h>
#include <stdio.h>
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
                    !list_fits(r, c->languages) || !list_fits(r, c->imports) || !list_fits(r, c->files[RULE_FILES_HIDDEN]) ||
                    !list_fits(r, c->files[RULE_FILES_SHOWN]) || !list_fits(r, c->files[RULE_FILES_KEYS]) || c->action > GUARD_BLOCK)
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
                    !text_fits(r->head, s->needs) || !list_fits(r, s->except) || s->check >= SHAPE_CHECK_COUNT || s->max > SHAPE_BYTES_MAX || s->keep_end > s->max)
                        return false;
        }
        for (size_t i = 0; i < r->n_starts; i++) {
                const struct shape_start *s = &r->starts[i];
                if (s->rule >= r->n_shapes || !text_fits(r->head, s->text) || s->size < SHAPE_START_MIN || s->size != strlen(rules_text(r, s->text)) ||
                    (i > 0 && strcmp(rules_text(r, s[-1].text), rules_text(r, s->text)) > 0))
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
               ((const char *)h)[h->texts.at + h->texts.size - 1] == '\0' && piece_fits(h, &h->code, sizeof(struct code_rule)) && h->code.size <= RULES_MAX && h->shapes.size <= RULES_MAX &&
               piece_fits(h, &h->patterns, sizeof(struct code_pattern)) && piece_fits(h, &h->shapes, sizeof(struct shape_rule)) &&
               piece_fits(h, &h->starts, sizeof(struct shape_start)) && piece_fits(h, &h->examples, sizeof(struct rule_example)) &&
               h->starts.size <= UINT16_MAX && piece_fits(h, &h->code_db, 1) && piece_fits(h, &h->shape_db, 1);
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
}

/* They are used where they lie, and never changed: compile/expression.c. */
static hs_database_t *database_at(const struct rules *r, const struct rules_piece *p)
{
        return p->size > 0 ? (hs_database_t *)(uintptr_t)((const char *)r->head + p->at) : NULL;
}

int rules_open(const void *bytes, struct rules **ret, gb_error *err)
{
        _cleanup_rules_ struct rules *r = calloc(1, sizeof(*r));

        if (r)
                r->index = calloc(1, sizeof(*r->index));
        int e = r && r->index ? 0 : -ENOMEM;
        if (e == 0) {
                set_pieces(r, bytes);
                e = starts_index(r);
        }
        if (e == 0) {
                r->code_db = database_at(r, &r->head->code_db);
                r->shape_db = database_at(r, &r->head->shape_db);
        }
        if (e < 0)
                return error_set(err, GB_E_INTERNAL, -e, "cannot open the rules: %s", strerror(-e));
        *ret = TAKE_PTR(r);
        return 0;
}

int rules_file_names(const struct rules *r, char **ret)
{
        static const char letters[RULE_FILES_KINDS] = {[RULE_FILES_HIDDEN] = 'h', [RULE_FILES_SHOWN] = 's', [RULE_FILES_KEYS] = 'k'};
        size_t size = 0;

        FILE *out = open_memstream(ret, &size);
        if (!out)
                return -ENOMEM;
        for (size_t i = 0; i < r->n_code; i++)
                for (int kind = 0; kind < RULE_FILES_KINDS; kind++) {
                        const char *name = r->code[i].files[kind] ? rules_text(r, r->code[i].files[kind]) : "";
                        for (; *name; name += strlen(name) + 1)
                                fprintf(out, "%c%s\n", letters[kind], name);
                }
        return fclose(out) != 0 ? -ENOMEM : 0;
}

struct hs_scratch *rules_scratch_get(const struct rules *r, enum rules_kind kind)
{
        const hs_database_t *db = kind == RULES_CODE ? r->code_db : r->shape_db;
        struct hs_scratch *scratch = NULL;

        for (size_t i = 0; i < RULES_SCRATCH_KEPT; i++) {
                scratch = atomic_exchange(&r->index->kept[kind][i], NULL);
                if (scratch)
                        return scratch;
        }
        return db && hs_alloc_scratch(db, &scratch) == HS_SUCCESS ? scratch : NULL;
}

void rules_scratch_put(const struct rules *r, enum rules_kind kind, struct hs_scratch *scratch)
{
        for (size_t i = 0; scratch && i < RULES_SCRATCH_KEPT; i++) {
                struct hs_scratch *none = NULL;
                if (atomic_compare_exchange_strong(&r->index->kept[kind][i], &none, scratch))
                        return;
        }
        (void)hs_free_scratch(scratch);
}

/* vectorscan looks at the checksum of a database, and at the processor, when it makes the first scratch for it. */
static bool tries_database(const struct rules *r, enum rules_kind kind)
{
        struct hs_scratch *scratch = rules_scratch_get(r, kind);
        bool there = (kind == RULES_CODE ? r->code_db : r->shape_db) != NULL;

        rules_scratch_put(r, kind, scratch);
        return scratch || !there;
}

int rules_from_memory(const void *bytes, size_t size, struct rules **ret, gb_error *err)
{
        _cleanup_rules_ struct rules *r = NULL;
        _cleanup_free_ void *copy = NULL;
        struct rules look = {0};
        static const char wrong[] = "the compiled rules are damaged";

        if (posix_memalign(&copy, RULES_ALIGN, size + RULES_ALIGN) != 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        memcpy(copy, bytes, size);
        if (!rules_memory_is_current(copy, size))
                return error_set(err, GB_E_POLICY, EINVAL, "the compiled rules are of another version");
        if (!head_fits(copy, size) || rules_checksum(copy, size) != ((const struct rules_head *)copy)->checksum)
                return error_set(err, GB_E_POLICY, EINVAL, "%s", wrong);
        set_pieces(&look, copy);
        if (!code_fits(&look) || !shapes_fit(&look) || !examples_fit(&look))
                return error_set(err, GB_E_POLICY, EINVAL, "%s", wrong);
        int e = rules_open(copy, &r, err);
        if (e < 0)
                return e;
        r->memory = TAKE_PTR(copy);
        for (enum rules_kind kind = 0; kind < RULES_KINDS; kind++)
                if (!tries_database(r, kind))
                        return error_set(err, GB_E_POLICY, EINVAL, "the compiled rules cannot be used on this processor or by this version");
        *ret = TAKE_PTR(r);
        return 0;
}

void rules_free(struct rules *r)
{
        if (!r)
                return;
        for (size_t i = 0; r->index && i < RULES_KINDS * RULES_SCRATCH_KEPT; i++)
                (void)hs_free_scratch(r->index->kept[i / RULES_SCRATCH_KEPT][i % RULES_SCRATCH_KEPT]);
        if (r->index)
                free(r->index->rows);
        free(r->index);
        free(r->memory);
        free(r);
}
