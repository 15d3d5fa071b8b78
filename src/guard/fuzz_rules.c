/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of rules into the compiler, up to where vectorscan would put all patterns together: taken, or refused with the place of what is wrong. */
#include "guard/compile/compile.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_rules(struct entries *entries, struct piece *piece, const struct document *doc, gb_error *err)
{
        int r = entries_add(entries, doc, false, err);

        for (size_t i = 0; r == 0 && i < entries->n; i++)
                r = entries->rows[i].is_shape ? piece_add_shape(piece, &entries->rows[i], err) : piece_add_code(piece, &entries->rows[i], err);
        return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_document_ struct document *doc = NULL;
        struct entries entries = {0};
        struct piece piece = {0};
        struct buffer *all[] = {&piece.texts, &piece.code, &piece.code_patterns, &piece.shapes, &piece.starts, &piece.examples};
        gb_error err = {0};

        for (size_t i = 0; i < ARRAY_SIZE(all); i++)
                buffer_init(all[i], RULES_BYTES_MAX);
        int r = document_parse("f", (const char *)data, size, &doc, &err);
        if (r == 0)
                r = read_rules(&entries, &piece, doc, &err);
        if (r < 0 && strncmp(err.message, "f:", 2) != 0)
                abort();
        for (size_t i = 0; r == 0 && i < piece.shapes.size / sizeof(struct shape_rule); i++) {
                const struct shape_rule *s = (const struct shape_rule *)(const void *)piece.shapes.data + i;
                if (s->max > SHAPE_BYTES_MAX || s->min == 0 || s->min > s->max || s->keep_end >= s->min)
                        abort();
        }
        piece_done(&piece);
        free(entries.rows);
        return 0;
}
