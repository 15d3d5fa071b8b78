/* SPDX-License-Identifier: Apache-2.0
 *
 * What vectorscan makes of patterns. For any processor that it supports: what is built here may run elsewhere. */
#include "guard/compile/compile.h"

#include "base/quote.h"

#include <errno.h>
#include <hs/hs.h>
#include <string.h>

static const hs_platform_info_t any_platform = {0};

/* ^ and $ are those of lines in code. In a candidate there is only its beginning, and every end is wanted. */
static unsigned flags_of(enum expression_mode mode, bool tells_begin)
{
        if (mode == EXPRESSION_BLOCK)
                return HS_FLAG_DOTALL;
        return HS_FLAG_MULTILINE | (tells_begin ? HS_FLAG_SOM_LEFTMOST : 0);
}

static unsigned mode_of(enum expression_mode mode)
{
        return mode == EXPRESSION_STREAM ? HS_MODE_STREAM | HS_MODE_SOM_HORIZON_LARGE : HS_MODE_BLOCK;
}

static int say(const struct place *at, hs_compile_error_t *e, const char *kind, gb_error *err)
{
        int r = place_error(at, "pattern", err, "%s; this pattern cannot be used%s", e ? quote(e->message).text : "out of memory", kind);

        (void)hs_free_compile_error(e);
        return r;
}

static int try_alone(const char *text, unsigned flags, enum expression_mode mode, hs_compile_error_t **ret)
{
        hs_database_t *db = NULL;

        hs_error_t e = hs_compile(text, flags, mode_of(mode), &any_platform, &db, ret);
        if (e == HS_SUCCESS)
                (void)hs_free_database(db);
        return e == HS_SUCCESS ? 0 : -EINVAL;
}

int expression_check(const char *text, enum expression_mode mode, const struct place *at, struct expression_facts *ret, gb_error *err)
{
        const char *kind = mode == EXPRESSION_STREAM ? " on code that comes in pieces" : "";
        hs_compile_error_t *e = NULL;
        hs_expr_info_t *info = NULL;

        if (strlen(text) > PATTERN_BYTES_MAX)
                return place_error(at, "pattern", err, "too long; at most %d bytes", PATTERN_BYTES_MAX);
        if (hs_expression_info(text, flags_of(mode, false), &info, &e) != HS_SUCCESS)
                return say(at, e, kind, err);
        uint32_t min = info->min_width;
        *ret = (struct expression_facts){.max = info->max_width, .tells_begin = mode == EXPRESSION_STREAM};
        free(info);
        if (min == 0)
                return place_error(at, "pattern", err, "it matches the empty text, and so everywhere");
        /* To know where a match begins takes more states than some patterns leave. */
        if (ret->tells_begin && try_alone(text, flags_of(mode, true), mode, &e) < 0) {
                (void)hs_free_compile_error(e);
                e = NULL;
                ret->tells_begin = false;
        }
        return ret->tells_begin || try_alone(text, flags_of(mode, false), mode, &e) == 0 ? 0 : say(at, e, kind, err);
}

static int serialize(hs_database_t *db, struct buffer *out, gb_error *err)
{
        char *bytes = NULL;
        size_t size;

        hs_error_t e = hs_serialize_database(db, &bytes, &size);
        int r = e == HS_SUCCESS ? buffer_add(out, bytes, size) : -ENOMEM;
        free(bytes);
        (void)hs_free_database(db);
        return r < 0 ? error_set(err, GB_E_INTERNAL, -r, "out of memory") : 0;
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
                flags[n] = flags_of(mode, l->rows[i].tells_begin);
                ids[n++] = (unsigned)i;
        }
        if (n == 0)
                return 0;
        if (hs_compile_multi(texts, flags, ids, n, mode_of(mode), &any_platform, &db, &e) == HS_SUCCESS)
                return serialize(db, out, err);
        size_t bad = e && e->expression >= 0 && (unsigned)e->expression < n ? ids[e->expression] : ids[0];
        return say(&l->rows[bad].at, e, " together with the others", err);
}

int literal_build(const struct buffer *texts, const struct shape_start *starts, size_t n, struct buffer *out, gb_error *err)
{
        _cleanup_free_ const char **literals = calloc(n + 1, sizeof(*literals));
        _cleanup_free_ unsigned *flags = calloc(n + 1, sizeof(*flags)), *ids = calloc(n + 1, sizeof(*ids));
        _cleanup_free_ size_t *sizes = calloc(n + 1, sizeof(*sizes));
        hs_compile_error_t *e = NULL;
        hs_database_t *db = NULL;

        if (!literals || !flags || !ids || !sizes)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        for (size_t i = 0; i < n; i++) {
                literals[i] = texts->data + starts[i].text;
                sizes[i] = starts[i].size;
                ids[i] = (unsigned)i;
        }
        if (n == 0)
                return 0;
        if (hs_compile_lit_multi(literals, flags, ids, sizes, (unsigned)n, HS_MODE_STREAM, &any_platform, &db, &e) == HS_SUCCESS)
                return serialize(db, out, err);
        int r = error_set(err, GB_E_POLICY, EINVAL, "the starts of the secrets cannot be used: %s", e ? e->message : "out of memory");
        (void)hs_free_compile_error(e);
        return r;
}

const char *expression_version(void)
{
        return hs_version();
}
