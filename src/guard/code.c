/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules against code. Python is told by its reader, and patterns see what is in it: a string is whole however it was put together, and comments are not
 * there. Of other languages patterns see the text. */
#include "guard/code.h"

#include "guard/reader.h"

#include <errno.h>
#include <hs/hs_runtime.h>
#include <stdio.h>
#include <string.h>

#define PYTHON "python"

struct check {
        const struct rules *rules;
        const struct guard_settings *settings;
        const char *language;
        struct guard_findings *findings;
        hs_stream_t *stream;
        hs_scratch_t *scratch;

        /* What is scanned now */
        uint32_t places;
        const char *text; /* the code, where a match has to be found in it; else NULL, and line and column are those of the item */
        uint32_t line, column;
        size_t counted;   /* bytes of text that line and column are behind */
};

/* ---- what is found ---- */

static bool is_stronger(const struct guard_finding *a, const struct guard_finding *b)
{
        if (a->action != b->action)
                return a->action > b->action;
        return a->line != b->line ? a->line < b->line : a->column < b->column;
}

void guard_add(struct guard_findings *f, const struct guard_finding *row)
{
        size_t i = f->n;

        for (size_t k = 0; k < f->n; k++)
                if (strcmp(f->rows[k].rule, row->rule) == 0 && f->rows[k].line == row->line)
                        return;
        if (f->n == GUARD_FINDINGS_MAX && !is_stronger(row, &f->rows[f->n - 1])) {
                f->more++;
                return;
        }
        if (f->n == GUARD_FINDINGS_MAX) {
                f->more++;
                i--;
        } else {
                f->n++;
        }
        for (; i > 0 && is_stronger(row, &f->rows[i - 1]); i--)
                f->rows[i] = f->rows[i - 1];
        f->rows[i] = *row;
}

const struct guard_finding *guard_blocks(const struct guard_findings *f)
{
        return f->n > 0 && f->rows[0].action == GUARD_BLOCK ? &f->rows[0] : NULL;
}

/* What the policy makes of a rule's action. */
static enum guard_action action_of(const struct guard_settings *s, const char *rule, const char *set, enum guard_action own)
{
        enum guard_action action = own;
        bool by_rule = false;

        for (size_t i = 0; i < s->n_switches; i++) {
                if (strcmp(s->switches[i].name, rule) == 0) {
                        action = s->switches[i].action;
                        by_rule = true;
                } else if (!by_rule && strcmp(s->switches[i].name, set) == 0) {
                        action = s->switches[i].action;
                }
        }
        return s->mode == GUARD_MODE_STRICT && action == GUARD_WARN ? GUARD_BLOCK : action;
}

static void add_rule(struct check *c, const struct code_rule *rule, uint32_t line, uint32_t column)
{
        const struct rules *r = c->rules;
        struct guard_finding f = {.line = line, .column = column};

        f.action = action_of(c->settings, rules_text(r, rule->id), rules_text(r, rule->set), (enum guard_action)rule->action);
        if (f.action == GUARD_OFF)
                return;
        snprintf(f.rule, sizeof(f.rule), "%s", rules_text(r, rule->id));
        snprintf(f.set, sizeof(f.set), "%s", rules_text(r, rule->set));
        snprintf(f.message, sizeof(f.message), "%s", rules_text(r, rule->message));
        snprintf(f.remedy, sizeof(f.remedy), "%s", rules_text(r, rule->remedy));
        guard_add(c->findings, &f);
}

static bool list_has(const struct rules *r, uint32_t list, const char *name)
{
        if (list == 0)
                return true;
        for (const char *text = rules_text(r, list); *text; text += strlen(text) + 1)
                if (strcmp(text, name) == 0)
                        return true;
        return false;
}

/* ---- patterns ---- */

/* Matches come by where they end, so mostly forward. */
static void find_place(struct check *c, size_t at, uint32_t *ret_line, uint32_t *ret_column)
{
        if (at < c->counted) {
                c->counted = 0;
                c->line = c->column = 1;
        }
        for (; c->counted < at; c->counted++) {
                c->column++;
                if (c->text[c->counted] == '\n') {
                        c->line++;
                        c->column = 1;
                }
        }
        *ret_line = c->line;
        *ret_column = c->column;
}

/* The first that is no blank of the line in which a match ends. */
static size_t line_begin(const char *text, size_t to)
{
        size_t at = to > 0 ? to - 1 : 0;

        while (at > 0 && text[at - 1] != '\n')
                at--;
        while (at < to && (text[at] == ' ' || text[at] == '\t'))
                at++;
        return at;
}

static int on_match(unsigned id, unsigned long long from, unsigned long long to, unsigned flags, void *data)
{
        struct check *c = data;
        const struct code_pattern *p = &c->rules->patterns[id];
        const struct code_rule *rule = &c->rules->code[p->rule];
        uint32_t line = c->line, column = c->column;

        if (!(p->places & c->places) || !list_has(c->rules, rule->languages, c->language))
                return 0;
        if (c->text)
                find_place(c, p->tells_begin ? (size_t)from : line_begin(c->text, (size_t)to), &line, &column);
        add_rule(c, rule, line, column);
        return 0;
}

static int scan(struct check *c, uint32_t places, const char *text, size_t size)
{
        c->places = places;
        if (!c->stream || size == 0)
                return 0;
        hs_error_t e = hs_scan_stream(c->stream, text, (unsigned)size, 0, c->scratch, on_match, c);
        if (e == HS_SUCCESS)
                e = hs_reset_stream(c->stream, 0, c->scratch, on_match, c);
        return e == HS_SUCCESS ? 0 : -ENOMEM;
}

static int scan_code(struct check *c, uint32_t places, const char *code, size_t size)
{
        c->text = code;
        c->line = c->column = 1;
        c->counted = 0;
        int r = scan(c, places, code, size);
        c->text = NULL;
        return r;
}

/* ---- Python ---- */

static bool is_module(const char *module, const char *name, size_t size)
{
        size_t n = strlen(module);

        return n <= size && memcmp(module, name, n) == 0 && (n == size || name[n] == '.');
}

static void look_at_import(struct check *c, const struct reader_item *item)
{
        const struct rules *r = c->rules;

        for (size_t i = 0; i < r->n_code; i++) {
                const struct code_rule *rule = &r->code[i];
                bool own = c->settings->imports && strcmp(rules_text(r, rule->id), GUARD_IMPORTS_RULE) == 0;
                bool found = false;
                if (!rule->imports || !list_has(r, rule->languages, c->language))
                        continue;
                for (size_t k = 0; own && c->settings->imports[k]; k++)
                        found |= is_module(c->settings->imports[k], item->text, item->size);
                for (const char *m = rules_text(r, rule->imports); !own && *m; m += strlen(m) + 1)
                        found |= is_module(m, item->text, item->size);
                if (found)
                        add_rule(c, rule, item->line, item->column);
        }
}

static void take_item(void *data, const struct reader_item *item)
{
        struct check *c = data;

        c->line = item->line;
        c->column = item->column;
        if (item->kind == READER_IMPORT)
                look_at_import(c, item);
        (void)scan(c, item->kind == READER_IMPORT ? GUARD_IN_IMPORT : item->kind == READER_STRING ? GUARD_IN_STRING : GUARD_IN_CALL, item->text, item->size);
}

static void say_unreadable(struct check *c)
{
        struct guard_finding f = {.rule = GUARD_UNREADABLE_RULE, .set = GUARD_UNREADABLE_RULE};

        f.action = action_of(c->settings, f.rule, f.set, GUARD_WARN);
        snprintf(f.message, sizeof(f.message), "The code is too large or too deeply nested to be looked at to its end.");
        snprintf(f.remedy, sizeof(f.remedy), "Put data into files, and split the code into smaller pieces.");
        if (f.action != GUARD_OFF)
                guard_add(c->findings, &f);
}

static int check_python(struct check *c, const char *code, size_t size, gb_error *err)
{
        int r = scan_code(c, GUARD_IN_TEXT, code, size);

        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot look at the code: %s", strerror(-r));
        r = reader_ask(code, size, take_item, c, err);
        if (r == 1) {
                say_unreadable(c);
                r = scan_code(c, GUARD_IN_STRING | GUARD_IN_OTHERS, code, size); /* what can be seen without */
        }
        return r;
}

/* ---- secrets ---- */

/* The first byte that is not the same: there the first of them stood. */
static void find_difference(struct check *c, const char *code, size_t size, const struct buffer *scrubbed, struct guard_finding *f)
{
        size_t at = 0;

        while (at < size && at < scrubbed->size && code[at] == scrubbed->data[at])
                at++;
        c->text = code;
        c->line = c->column = 1;
        c->counted = 0;
        find_place(c, at, &f->line, &f->column);
        c->text = NULL;
}

static int check_secrets(struct check *c, const char *code, size_t size)
{
        _cleanup_buffer_ struct buffer scrubbed = {0};
        struct guard_finding f = {.rule = GUARD_SECRET_RULE, .set = "secrets", .action = c->settings->strict_scrub ? GUARD_BLOCK : GUARD_WARN};

        buffer_init(&scrubbed, 2 * size + 4096);
        int r = c->settings->scrub ? scrub_text(c->settings->scrub, code, size, &scrubbed, NULL) : 0;
        if (r <= 0)
                return r;
        f.action = action_of(c->settings, f.rule, f.set, f.action);
        find_difference(c, code, size, &scrubbed, &f);
        snprintf(f.message, sizeof(f.message), "The code carries what looks like a secret.");
        snprintf(f.remedy, sizeof(f.remedy), "Give secrets to the session (\"secrets\", --secret) and read them from the environment.");
        if (f.action != GUARD_OFF)
                guard_add(c->findings, &f);
        return 0;
}

static int check_code(struct check *c, const char *code, size_t size, gb_error *err)
{
        const struct rules *r = c->rules;

        if (c->settings->mode == GUARD_MODE_OFF)
                return 0;
        if (r->code_db && (hs_clone_scratch(r->scratch, &c->scratch) != HS_SUCCESS || hs_open_stream(r->code_db, 0, &c->stream) != HS_SUCCESS))
                return error_set(err, GB_E_INTERNAL, ENOMEM, "cannot look at the code: out of memory");
        if (strcmp(c->language, PYTHON) == 0)
                return check_python(c, code, size, err);
        int e = scan_code(c, GUARD_IN_TEXT | GUARD_IN_OTHERS, code, size);
        return e < 0 ? error_set(err, GB_E_INTERNAL, -e, "cannot look at the code: %s", strerror(-e)) : 0;
}

int guard_check(const struct rules *rules, const struct guard_settings *settings, const char *language, const char *code, size_t size,
                struct guard_findings *ret, gb_error *err)
{
        struct check c = {.rules = rules, .settings = settings, .language = language, .findings = ret};

        ret->n = 0;
        ret->more = 0;
        int r = check_code(&c, code, size, err);
        if (c.stream)
                (void)hs_close_stream(c.stream, NULL, NULL, NULL);
        (void)hs_free_scratch(c.scratch);
        if (r == 0 && check_secrets(&c, code, size) < 0)
                r = error_set(err, GB_E_INTERNAL, ENOMEM, "cannot look for secrets in the code: out of memory");
        return r;
}
