/* SPDX-License-Identifier: Apache-2.0
 *
 * What vectorscan makes of patterns. For any processor that it supports: what is built here may run elsewhere. */
#include "guard/compile/compile.h"

#include "base/quote.h"

#include <errno.h>
#include <hs/hs.h>
#include <stdlib.h>
#include <string.h>

static const hs_platform_info_t any_platform = {0};

/* ^ and $ are those of lines in code. In a candidate there is only its beginning, and every end is wanted. */
static unsigned flags_of(enum expression_mode mode)
{
        return mode == EXPRESSION_STREAM ? HS_FLAG_MULTILINE : HS_FLAG_DOTALL;
}

static unsigned mode_of(enum expression_mode mode)
{
        return mode == EXPRESSION_STREAM ? HS_MODE_STREAM : HS_MODE_BLOCK;
}

static const char *kind_of(enum expression_mode mode)
{
        return mode == EXPRESSION_STREAM ? " on code that comes in pieces" : "";
}

static int say(const struct place *at, hs_compile_error_t *e, const char *kind, gb_error *err)
{
        int r = place_error(at, "pattern", err, "%s; this pattern cannot be used%s", e ? quote(e->message).text : "out of memory", kind);

        (void)hs_free_compile_error(e);
        return r;
}

int expression_check(const char *text, enum expression_mode mode, const struct place *at, struct expression_facts *ret, gb_error *err)
{
        hs_compile_error_t *e = NULL;
        hs_expr_info_t *info = NULL;

        if (strlen(text) > PATTERN_BYTES_MAX)
                return place_error(at, "pattern", err, "too long; at most %d bytes", PATTERN_BYTES_MAX);
        if (hs_expression_info(text, flags_of(mode), &info, &e) != HS_SUCCESS)
                return say(at, e, kind_of(mode), err);
        *ret = (struct expression_facts){.min = info->min_width, .max = info->max_width};
        free(info);
        return ret->min == 0 ? place_error(at, "pattern", err, "it matches the empty text, and so everywhere") : 0;
}

/* The database as it lies in memory: it has no pointers, and its parts are where they should be wherever a line of the cache begins (RULES_ALIGN). So who uses
 * it copies nothing and checks nothing, which at each start would take longer than everything else. It is the same library that made it (made_by). */
static int add_image(hs_database_t *db, struct buffer *out, gb_error *err)
{
        _cleanup_free_ char *bytes = NULL;
        _cleanup_free_ void *image = NULL;
        size_t size, image_size = 0;

        hs_error_t e = hs_serialize_database(db, &bytes, &size);
        (void)hs_free_database(db);
        if (e == HS_SUCCESS)
                e = hs_serialized_database_size(bytes, size, &image_size);
        if (e == HS_SUCCESS && posix_memalign(&image, RULES_ALIGN, image_size) != 0)
                e = HS_NOMEM;
        if (e != HS_SUCCESS)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        memset(image, 0, image_size);
        if (hs_deserialize_database_at(bytes, size, image) != HS_SUCCESS || buffer_add(out, image, image_size) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "the compiled rules are too large");
        return 0;
}

int expression_build(const struct patterns *l, enum expression_mode mode, struct buffer *out, gb_error *err)
{
        _cleanup_free_ const char **texts = calloc(l->n + 1, sizeof(*texts));
        _cleanup_free_ unsigned *flags = calloc(l->n + 1, sizeof(*flags)), *ids = calloc(l->n + 1, sizeof(*ids));
        hs_compile_error_t *e = NULL;
        hs_database_t *db = NULL;
        unsigned n = 0;

        if (!texts || !flags || !ids)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        for (size_t i = 0; i < l->n; i++) {
                if (!l->rows[i].text)
                        continue;
                texts[n] = l->rows[i].text;
                flags[n] = flags_of(mode);
                ids[n++] = (unsigned)i;
        }
        if (n == 0)
                return 0;
        if (hs_compile_multi(texts, flags, ids, n, mode_of(mode), &any_platform, &db, &e) == HS_SUCCESS)
                return add_image(db, out, err);
        size_t bad = e && e->expression >= 0 && (unsigned)e->expression < n ? ids[e->expression] : ids[0];
        return say(&l->rows[bad].at, e, kind_of(mode), err);
}

const char *expression_version(void)
{
        return hs_version();
}
