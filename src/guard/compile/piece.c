/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/compile/compile.h"

#include "base/sha256.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int piece_text(struct piece *p, const char *text, uint32_t *ret)
{
        /* 0 stands for "none", so no text is there. */
        int r = p->texts.size == 0 ? buffer_add(&p->texts, "", 1) : 0;

        *ret = (uint32_t)p->texts.size;
        return r < 0 ? r : buffer_add(&p->texts, text, strlen(text) + 1);
}

int patterns_add(struct patterns *l, const char *text, const struct place *at, bool tells_begin)
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
        l->rows[l->n++] = (struct pattern){copy, *at, tells_begin};
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

static void digest(struct buffer *out)
{
        struct rules_head *h = (struct rules_head *)(void *)out->data;
        struct sha256 s;

        sha256_init(&s);
        sha256_add(&s, out->data + sizeof(*h), out->size - sizeof(*h));
        sha256_text(&s, h->digest);
}

static int put_all(struct piece *p, const struct buffer dbs[static 3], struct buffer *out)
{
        struct rules_head h = {.magic = {'g', 'b', 'r', 'u', 'l', 'e', 's', '1'}};

        snprintf(h.made_by, sizeof(h.made_by), GLOVEBOX_VERSION "; %s", expression_version());
        const struct {
                const struct buffer *part;
                size_t each;
                struct rules_piece *at;
        } rows[] = {
                {&p->texts, 1, &h.texts}, {&p->code, sizeof(struct code_rule), &h.code}, {&p->code_patterns, sizeof(struct code_pattern), &h.patterns},
                {&p->shapes, sizeof(struct shape_rule), &h.shapes}, {&p->starts, sizeof(struct shape_start), &h.starts},
                {&p->examples, sizeof(struct rule_example), &h.examples}, {&dbs[0], 1, &h.code_db}, {&dbs[1], 1, &h.start_db}, {&dbs[2], 1, &h.shape_db},
        };
        int r = buffer_add(out, &h, sizeof(h));
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rows); i++)
                r = put(out, rows[i].part, rows[i].each, rows[i].at);
        if (r < 0)
                return r;
        h.size = out->size;
        memcpy(out->data, &h, sizeof(h));
        digest(out);
        return 0;
}

int piece_write(struct piece *p, struct buffer *out, gb_error *err)
{
        struct buffer dbs[3] = {0};
        uint32_t ignored;

        for (size_t i = 0; i < ARRAY_SIZE(dbs); i++)
                buffer_init(&dbs[i], RULES_BYTES_MAX);
        int r = piece_text(p, "", &ignored);
        if (r == 0)
                r = expression_build(&p->code_texts, EXPRESSION_STREAM, &dbs[0], err);
        if (r == 0)
                r = literal_build(&p->texts, (const struct shape_start *)(const void *)p->starts.data, p->starts.size / sizeof(struct shape_start), &dbs[1], err);
        if (r == 0)
                r = expression_build(&p->shape_texts, EXPRESSION_BLOCK, &dbs[2], err);
        if (r == 0 && put_all(p, dbs, out) < 0)
                r = error_set(err, GB_E_LIMIT, EFBIG, "the rules are too large");
        for (size_t i = 0; i < ARRAY_SIZE(dbs); i++)
                buffer_done(&dbs[i]);
        return r;
}
