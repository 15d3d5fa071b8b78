/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/compile/compile.h"

#include "base/quote.h"

#include <errno.h>
#include <string.h>

static const struct {
        const char *name;
        uint32_t place;
} places[] = {{"text", GUARD_IN_TEXT}, {"string", GUARD_IN_STRING}, {"import", GUARD_IN_IMPORT}, {"call", GUARD_IN_CALL}};

static int take_place(void *data, const struct place *at, const char *text, gb_error *err)
{
        uint32_t *set = data;

        for (size_t i = 0; i < ARRAY_SIZE(places); i++)
                if (strcmp(text, places[i].name) == 0) {
                        *set |= places[i].place;
                        return 0;
                }
        return place_error(at, "in", err, "%s; allowed: text, string, import, call", quote(text).text);
}

struct pattern_taker {
        struct piece *piece;
        struct code_pattern row;
        size_t n;
};

static int take_pattern(void *data, const struct place *at, const char *text, gb_error *err)
{
        struct pattern_taker *t = data;
        struct expression_facts facts;

        int r = expression_check(text, EXPRESSION_STREAM, at, &facts, err);
        if (r < 0)
                return r;
        r = patterns_add(&t->piece->code_texts, text, at);
        if (r == 0)
                r = buffer_add(&t->piece->code_patterns, &t->row, sizeof(t->row));
        t->n++;
        return r < 0 ? error_set(err, GB_E_LIMIT, -r, "the rules are too large") : 0;
}

static int read_patterns(struct piece *p, const struct entry *e, uint32_t rule, bool has_imports, gb_error *err)
{
        struct pattern_taker t = {.piece = p, .row = {.rule = rule}};

        int r = entry_texts(e, "in", false, take_place, &t.row.places, err);
        if (r == 0 && t.row.places == 0)
                t.row.places = GUARD_IN_STRING | GUARD_IN_OTHERS;
        if (r == 0)
                r = entry_texts(e, "pattern", false, take_pattern, &t, err);
        if (r == 0)
                r = entry_texts(e, "patterns", false, take_pattern, &t, err);
        if (r == 0 && t.n == 0 && !has_imports)
                r = entry_error(e, err, "what it looks for is missing: \"pattern\", \"patterns\" or \"imports\"");
        return r;
}

static int read_action(const struct entry *e, uint32_t *ret, gb_error *err)
{
        struct place at = entry_place(e, "action");
        enum guard_action action = GUARD_OFF;
        const char *text;

        int r = entry_text(e, "action", true, &text, err);
        if (r < 0)
                return r;
        if (guard_action_parse(text, &action) < 0 || action == GUARD_OFF)
                return place_error(&at, NULL, err, "%s; allowed: block, warn, log", quote(text).text);
        *ret = action;
        return 0;
}

static int read_text(struct piece *p, const struct entry *e, const char *key, size_t max, uint32_t *ret, gb_error *err)
{
        struct place at = entry_place(e, key);
        const char *text;

        int r = entry_text(e, key, true, &text, err);
        if (r == 0 && strlen(text) > max)
                r = place_error(&at, NULL, err, "too long; at most %zu bytes", max);
        if (r == 0 && piece_text(p, text, ret) < 0)
                r = error_set(err, GB_E_LIMIT, EFBIG, "the rules are too large");
        return r;
}

int piece_add_code(struct piece *p, const struct entry *e, gb_error *err)
{
        static const char *const keys[] = {"id", "languages", "pattern", "patterns", "in", "imports", "files", "files_shown", "files_with_keys", "action", "message", "remedy", "examples"};
        uint32_t number = (uint32_t)(p->code.size / sizeof(struct code_rule));
        struct code_rule c = {0};

        int r = entry_check_keys(e, keys, ARRAY_SIZE(keys), err);
        if (r == 0 && (piece_text(p, e->id, &c.id) < 0 || piece_text(p, e->set, &c.set) < 0))
                r = error_set(err, GB_E_LIMIT, EFBIG, "the rules are too large");
        if (r == 0)
                r = entry_list(p, e, "languages", &c.languages, err);
        if (r == 0)
                r = entry_list(p, e, "imports", &c.imports, err);
        if (r == 0)
                r = read_patterns(p, e, number, c.imports > 0, err);
        if (r == 0)
                r = entry_files(p, e, &c, err);
        if (r == 0)
                r = read_action(e, &c.action, err);
        if (r == 0)
                r = read_text(p, e, "message", GUARD_TEXT_MAX - 1, &c.message, err);
        if (r == 0)
                r = read_text(p, e, "remedy", GUARD_TEXT_MAX - 1, &c.remedy, err);
        if (r == 0)
                r = piece_add_examples(p, e, number, err);
        if (r == 0 && buffer_add(&p->code, &c, sizeof(c)) < 0)
                r = error_set(err, GB_E_LIMIT, EFBIG, "the rules are too large");
        return r;
}
