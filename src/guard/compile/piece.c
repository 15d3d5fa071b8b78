/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/compile/compile.h"

#include "guard/rules_wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int piece_text(struct piece *p, const char *text, uint32_t *ret)
{
        /* 0 stands for "none", so no text is there. */
        int r = p->texts.size == 0 ? buffer_add(&p->texts, "", 1) : 0;

        *ret = (uint32_t)p->texts.size;
        return r < 0 ? r : buffer_add(&p->texts, text, strlen(text) + 1);
}

int patterns_add(struct patterns *l, const char *text, const struct place *at)
{
        if (l->n == l->allocated) {
                size_t more = l->allocated ? 2 * l->allocated : 64;
                struct pattern *grown = reallocarray(l->rows, more, sizeof(*grown));
                if (!grown)
                        return -ENOMEM;
                l->rows = grown;
                l->allocated = more;
        }
        char *copy = text ? strdup(text) : NULL;
        if (text && !copy)
                return -ENOMEM;
        l->rows[l->n++] = (struct pattern){copy, *at};
        return 0;
}

static void patterns_done(struct patterns *l)
{
        for (size_t i = 0; i < l->n; i++)
                free(l->rows[i].text);
        free(l->rows);
}

void piece_done(struct piece *p)
{
        struct buffer *all[] = {&p->texts, &p->code, &p->code_patterns, &p->shapes, &p->starts, &p->examples};

        for (size_t i = 0; i < ARRAY_SIZE(all); i++)
                buffer_done(all[i]);
        patterns_done(&p->code_texts);
        patterns_done(&p->shape_texts);
}

/* At the next boundary. */
static int put(struct buffer *out, const struct buffer *part, size_t each, struct rules_piece *ret)
{
        static const char zeros[RULES_ALIGN];

        int r = buffer_add(out, zeros, (RULES_ALIGN - out->size % RULES_ALIGN) % RULES_ALIGN);
        *ret = (struct rules_piece){(uint32_t)out->size, (uint32_t)(part->size / each)};
        return r < 0 || part->size == 0 ? r : buffer_add(out, part->data, part->size);
}

static int put_all(struct piece *p, const struct buffer dbs[static 2], struct buffer *out)
{
        struct rules_head h = {.magic = {'g', 'b', 'r', 'u', 'l', 'e', 's', '4'}};

        snprintf(h.made_by, sizeof(h.made_by), GLOVEBOX_VERSION "; %s", expression_version());
        const struct {
                const struct buffer *part;
                size_t each;
                struct rules_piece *at;
        } rows[] = {
                {&p->texts, 1, &h.texts}, {&p->code, sizeof(struct code_rule), &h.code}, {&p->code_patterns, sizeof(struct code_pattern), &h.patterns},
                {&p->shapes, sizeof(struct shape_rule), &h.shapes}, {&p->starts, sizeof(struct shape_start), &h.starts},
                {&p->examples, sizeof(struct rule_example), &h.examples}, {&dbs[0], 1, &h.code_db}, {&dbs[1], 1, &h.shape_db},
        };
        int r = buffer_add(out, &h, sizeof(h));
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rows); i++)
                r = put(out, rows[i].part, rows[i].each, rows[i].at);
        if (r < 0)
                return r;
        h.size = out->size;
        memcpy(out->data, &h, sizeof(h));
        h.checksum = rules_checksum(out->data, out->size);
        memcpy(out->data, &h, sizeof(h));
        return 0;
}

/* By their texts, so that who has one byte of text finds them. */
static int compare_starts(const void *a, const void *b, void *data)
{
        const struct shape_start *x = a, *y = b;
        const char *texts = data;
        int c = strcmp(texts + x->text, texts + y->text);

        return c ? c : (x->rule > y->rule) - (x->rule < y->rule);
}

int piece_write(struct piece *p, struct buffer *out, gb_error *err)
{
        struct buffer dbs[2] = {0};
        uint32_t ignored;

        for (size_t i = 0; i < ARRAY_SIZE(dbs); i++)
                buffer_init(&dbs[i], RULES_BYTES_MAX);
        int r = piece_text(p, "", &ignored);
        if (p->starts.size > 0)
                qsort_r(p->starts.data, p->starts.size / sizeof(struct shape_start), sizeof(struct shape_start), compare_starts, p->texts.data);
        if (r == 0)
                r = expression_build(&p->code_texts, EXPRESSION_STREAM, &dbs[0], err);
        if (r == 0)
                r = expression_build(&p->shape_texts, EXPRESSION_BLOCK, &dbs[1], err);
        if (r == 0 && put_all(p, dbs, out) < 0)
                r = error_set(err, GB_E_LIMIT, EFBIG, "the rules are too large");
        for (size_t i = 0; i < ARRAY_SIZE(dbs); i++)
                buffer_done(&dbs[i]);
        return r;
}
