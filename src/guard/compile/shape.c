/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/compile/compile.h"

#include "base/parse.h"
#include "base/quote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which bytes ---- */

static int hex_digit(char c)
{
        return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One byte of the text, with its escapes; -1 when it is none. */
static int take_byte(const char **text)
{
        const char *c = *text;

        if (*c != '\\') {
                *text = c + 1;
                return (unsigned char)*c;
        }
        if (c[1] == 'x' && hex_digit(c[2]) >= 0 && hex_digit(c[3]) >= 0) {
                *text = c + 4;
                return hex_digit(c[2]) << 4 | hex_digit(c[3]);
        }
        *text = c + 2;
        return c[1] == 'n' ? '\n' : c[1] == 'r' ? '\r' : c[1] == 't' ? '\t' : c[1] == '\\' || c[1] == '-' ? c[1] : -1;
}

static int read_chars(const struct entry *e, uint8_t set[static 32], bool *ret_any, gb_error *err)
{
        struct place at = entry_place(e, "chars");
        const char *text;

        int r = entry_text(e, "chars", true, &text, err);
        if (r < 0)
                return r;
        *ret_any = strcmp(text, "any") == 0;
        if (*ret_any) {
                memset(set, 0xff, 32);
                return 0;
        }
        while (*text) {
                const char *begin = text;
                int from = take_byte(&text), to = from;
                if (from >= 0 && text[0] == '-' && text[1]) {
                        text++;
                        to = take_byte(&text);
                }
                if (from < 0 || to < from)
                        return place_error(&at, NULL, err, "%s is no byte or range of bytes; a - by itself is \\-", quote(begin).text);
                for (int b = from; b <= to; b++)
                        set[b / 8] |= (uint8_t)(1 << b % 8);
        }
        return 0;
}

/* ---- where it begins ---- */

struct start_taker {
        struct piece *piece;
        uint32_t rule;
};

static int take_start(void *data, const struct place *at, const char *text, gb_error *err)
{
        struct start_taker *t = data;
        struct shape_start s = {.rule = t->rule, .size = (uint32_t)strlen(text)};

        if (s.size < SHAPE_START_MIN || s.size > SHAPE_START_MAX)
                return place_error(at, "start", err, "%s: %d to %d bytes are wanted", quote(text).text, SHAPE_START_MIN, SHAPE_START_MAX);
        if (piece_text(t->piece, text, &s.text) < 0 || buffer_add(&t->piece->starts, &s, sizeof(s)) < 0)
                return error_set(err, GB_E_LIMIT, EFBIG, "the rules are too large");
        return 0;
}

/* ---- what it looks like ---- */

/* Anchored: from the candidate's first byte on. */
static int add_pattern(struct piece *p, const struct entry *e, const char *lead, const char *text, struct expression_facts *ret, gb_error *err)
{
        struct place at = entry_place(e, "pattern"), lead_at = entry_place(e, "lead");
        _cleanup_free_ char *whole = NULL, *first = NULL;
        struct expression_facts lead_facts;

        if (asprintf(&whole, "^(?:%s)(?:%s)", lead ? lead : "", text) < 0 || asprintf(&first, "^(?:%s)", lead ? lead : "") < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        int r = lead ? expression_check(first, EXPRESSION_BLOCK, &lead_at, &lead_facts, err) : 0;
        if (r == 0)
                r = expression_check(whole, EXPRESSION_BLOCK, &at, ret, err);
        if (r == 0)
                r = patterns_add(&p->shape_texts, whole, &at);
        if (r == 0)
                r = patterns_add(&p->shape_texts, lead ? first : NULL, &lead_at);
        return r == -ENOMEM ? error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory") : r;
}

/* A number; `otherwise` when the key is not there. */
static int read_number(const struct entry *e, const char *key, uint32_t min, uint32_t max, uint32_t otherwise, uint32_t *ret, gb_error *err)
{
        struct place at = entry_place(e, key);
        const char *text;
        uint64_t number;

        int r = entry_text(e, key, false, &text, err);
        if (r < 0)
                return r;
        if (text && (parse_count(text, &number) < 0 || number < min || number > max))
                return place_error(&at, NULL, err, "%s; a number from %u to %u is wanted", quote(text).text, min, max);
        *ret = text ? (uint32_t)number : otherwise;
        return 0;
}

static int read_pattern(struct piece *p, const struct entry *e, struct shape_rule *s, bool any, gb_error *err)
{
        struct place at = entry_place(e, "pattern"), keep_at = entry_place(e, "keep_end");
        struct expression_facts facts = {0};
        const char *lead, *text;

        int r = entry_text(e, "lead", false, &lead, err);
        if (r == 0)
                r = entry_text(e, "pattern", true, &text, err);
        if (r == 0)
                r = add_pattern(p, e, lead, text, &facts, err);
        if (r == 0)
                r = read_number(e, "max", SHAPE_START_MIN, SHAPE_BYTES_MAX, facts.max, &s->max, err);
        if (r == 0)
                r = read_number(e, "keep_end", 1, SHAPE_BYTES_MAX, 0, &s->keep_end, err);
        if (r < 0)
                return r;
        s->lead = lead != NULL;
        s->min = facts.min;
        if (s->max > SHAPE_BYTES_MAX)
                return place_error(&at, NULL, err, "it has no end that is near enough; say how many bytes a candidate may have at most: \"max\", up to %d", SHAPE_BYTES_MAX);
        if (s->min > s->max)
                return place_error(&at, NULL, err, "it matches no text of at most %u bytes (\"max\")", s->max);
        if (s->keep_end >= s->min)
                return place_error(&keep_at, NULL, err, "nothing would be left to scrub: the pattern matches %u bytes", s->min);
        if (any && !s->end)
                return entry_error(e, err, "a candidate of any bytes needs an \"end\"");
        return 0;
}

/* ---- what else must be true ---- */

static int take_word(void *data, const struct place *at, const char *text, gb_error *err)
{
        struct shape_rule *s = data;

        if (strcmp(text, "before") == 0)
                s->word_before = 1;
        else if (strcmp(text, "after") == 0)
                s->word_after = 1;
        else if (strcmp(text, "none") != 0)
                return place_error(at, "word", err, "%s; allowed: before, after, none", quote(text).text);
        return 0;
}

static int read_check(const struct entry *e, uint32_t *ret, gb_error *err)
{
        static const char *const names[] = {[SHAPE_CHECK_NONE] = "none", [SHAPE_CHECK_GITHUB] = "github", [SHAPE_CHECK_JWT] = "jwt"};
        struct place at = entry_place(e, "check");
        const char *text;

        int r = entry_text(e, "check", false, &text, err);
        if (r < 0 || !text)
                return r;
        for (uint32_t i = 0; i < ARRAY_SIZE(names); i++)
                if (strcmp(text, names[i]) == 0) {
                        *ret = i;
                        return 0;
                }
        return place_error(&at, NULL, err, "%s; allowed: none, github, jwt", quote(text).text);
}

static int read_entropy(const struct entry *e, uint32_t *ret, gb_error *err)
{
        struct place at = entry_place(e, "entropy");
        const json_t *value = json_object_get(e->rule, "entropy");
        double bits = json_number_value(value);

        if (!value)
                return 0;
        if (!json_is_number(value) || !(bits > 0 && bits <= 8))
                return place_error(&at, NULL, err, "a number of bits above 0 and up to 8 is wanted");
        *ret = (uint32_t)(bits * 1000);
        return 0;
}

static int read_literal(struct piece *p, const struct entry *e, const char *key, uint32_t *ret, gb_error *err)
{
        const char *text;

        int r = entry_text(e, key, false, &text, err);
        if (r == 0 && text && piece_text(p, text, ret) < 0)
                r = error_set(err, GB_E_LIMIT, EFBIG, "the rules are too large");
        return r;
}

static int read_tests(struct piece *p, const struct entry *e, struct shape_rule *s, gb_error *err)
{
        bool strict = false;

        int r = read_literal(p, e, "needs", &s->needs, err);
        if (r == 0)
                r = entry_list(p, e, "except", &s->except, err);
        if (r == 0)
                r = read_check(e, &s->check, err);
        if (r == 0)
                r = read_entropy(e, &s->entropy_milli, err);
        if (r == 0 && !json_object_get(e->rule, "word"))
                s->word_before = s->word_after = 1;
        if (r == 0)
                r = entry_texts(e, "word", false, take_word, s, err);
        if (r == 0)
                r = entry_bool(e, "strict", &strict, err);
        s->strict = r == 0 && strict;
        return r;
}

int piece_add_shape(struct piece *p, const struct entry *e, gb_error *err)
{
        static const char *const keys[] = {"id", "about", "start", "chars", "end", "keep_end", "max", "lead", "pattern", "needs", "except", "word", "check", "entropy",
                                           "strict", "examples"};
        struct start_taker t = {.piece = p, .rule = (uint32_t)(p->shapes.size / sizeof(struct shape_rule))};
        struct shape_rule s = {0};
        bool any = false;

        int r = entry_check_keys(e, keys, ARRAY_SIZE(keys), err);
        if (r == 0 && (piece_text(p, e->id, &s.id) < 0 || piece_text(p, e->set, &s.set) < 0))
                r = error_set(err, GB_E_LIMIT, EFBIG, "the rules are too large");
        if (r == 0)
                r = read_literal(p, e, "about", &s.about, err);
        if (r == 0)
                r = entry_texts(e, "start", true, take_start, &t, err);
        if (r == 0)
                r = read_chars(e, s.chars, &any, err);
        if (r == 0)
                r = read_literal(p, e, "end", &s.end, err);
        if (r == 0)
                r = read_pattern(p, e, &s, any, err);
        if (r == 0)
                r = read_tests(p, e, &s, err);
        if (r == 0)
                r = piece_add_examples(p, e, t.rule, err);
        if (r == 0 && buffer_add(&p->shapes, &s, sizeof(s)) < 0)
                r = error_set(err, GB_E_LIMIT, EFBIG, "the rules are too large");
        return r;
}
