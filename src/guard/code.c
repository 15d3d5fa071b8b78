/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules against code. Python is told by its reader, and patterns see what is in it: a string is whole however it was put together, and comments are not
 * there. Of other languages patterns see the text. */
#include "guard/code.h"

#include "guard/reader.h"

#include <errno.h>
#include <hs/hs_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PYTHON "python"
#define BATCH_BYTES (32u << 10)
#define BATCH_ROWS 1024u
#define HITS_MAX 256u       /* of one scan, whose beginning is looked for; of others the line is enough */
#define BEGIN_BYTES_MAX 1024u /* before its end, where it is looked for */

/* What the reader tells comes in small pieces. They are scanned together, each in lines of its own, with something in between that no blank is. */
static const char between[] = {'\n', '\0', '\n'};

struct batch {
        size_t used, n;
        struct batch_row {
                size_t at; /* in text */
                uint32_t places, line, column;
        } rows[BATCH_ROWS];
        char text[BATCH_BYTES];
};

/* A place in the code, and the line that it is in. */
struct position {
        size_t at, line_at;
        uint32_t line;
};

/* What was found in the code, by where it ends. */
struct hit {
        uint32_t pattern, line;
        size_t line_at, to;
};

struct check {
        const struct rules *rules;
        const struct guard_settings *settings;
        const char *language;
        struct guard_findings *findings;
        hs_stream_t *stream;
        hs_scratch_t *scratch;
        bool failed; /* something could not be scanned */
        bool told;   /* the caller did what he does meanwhile */

        struct batch *batch; /* of Python */
        const char *code;
        size_t size;

        /* What is scanned now */
        uint32_t places;
        const char *text; /* the code; NULL: the batch */
        struct position at;
        uint32_t last_lines[RULES_MAX]; /* by rule: where it was found last. Once in a line is enough */
        const struct batch_row *last_rows[RULES_MAX]; /* the same of the batch */
        struct hit hits[HITS_MAX];
        size_t n_hits;
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

enum guard_action guard_action_of(const struct guard_settings *s, const char *rule, const char *set, enum guard_action own)
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

        f.action = guard_action_of(c->settings, rules_text(r, rule->id), rules_text(r, rule->set), (enum guard_action)rule->action);
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

/* Forward only: matches come by where they end. */
static void move_to(struct position *p, const char *text, size_t at)
{
        const char *found;

        while (p->at < at && (found = memchr(text + p->at, '\n', at - p->at))) {
                p->line++;
                p->line_at = p->at = (size_t)(found - text) + 1;
        }
        p->at = MAX(p->at, at);
}

/* The last that begins at the place or before; the line break before a piece belongs to it. */
static const struct batch_row *find_row(const struct batch *b, size_t at)
{
        size_t low = 0, high = b->n;

        while (high - low > 1) {
                size_t middle = (low + high) / 2;
                if (b->rows[middle].at <= at + 1)
                        low = middle;
                else
                        high = middle;
        }
        return &b->rows[low];
}

static void note_hit(struct check *c, unsigned id, size_t to)
{
        uint32_t rule = c->rules->patterns[id].rule;

        move_to(&c->at, c->text, to - 1);
        if (c->last_lines[rule] == c->at.line)
                return;
        c->last_lines[rule] = c->at.line;
        if (c->n_hits == HITS_MAX)
                add_rule(c, &c->rules->code[rule], c->at.line, 1);
        else
                c->hits[c->n_hits++] = (struct hit){.pattern = id, .line = c->at.line, .line_at = c->at.line_at, .to = to};
}

static int on_match(unsigned id, unsigned long long from, unsigned long long to, unsigned flags, void *data)
{
        struct check *c = data;
        const struct code_pattern *p = &c->rules->patterns[id];
        const struct code_rule *rule = &c->rules->code[p->rule];
        const struct batch_row *row = c->text ? NULL : find_row(c->batch, (size_t)to - 1);

        if (!(p->places & (row ? row->places : c->places)) || !list_has(c->rules, rule->languages, c->language))
                return 0;
        if (row && c->last_rows[p->rule] != row) {
                c->last_rows[p->rule] = row;
                add_rule(c, rule, row->line, row->column);
        } else if (!row) {
                note_hit(c, id, (size_t)to);
        }
        return 0;
}

static int scan(struct check *c, const char *text, size_t size)
{
        if (!c->stream || size == 0)
                return 0;
        hs_error_t e = hs_scan_stream(c->stream, text, (unsigned)size, 0, c->scratch, on_match, c);
        if (e == HS_SUCCESS)
                e = hs_reset_stream(c->stream, 0, c->scratch, on_match, c);
        return e == HS_SUCCESS ? 0 : -ENOMEM;
}

/* ---- where a match begins ---- */

struct trial {
        unsigned pattern;
        size_t to;
        bool found;
};

static int on_trial(unsigned id, unsigned long long from, unsigned long long to, unsigned flags, void *data)
{
        struct trial *t = data;

        t->found |= id == t->pattern && to == t->to;
        return 0;
}

static bool matches_from(struct check *c, const char *code, size_t from, const struct hit *h)
{
        struct trial t = {.pattern = h->pattern, .to = h->to - from};

        if (hs_scan_stream(c->stream, code + from, (unsigned)t.to, 0, c->scratch, on_trial, &t) != HS_SUCCESS)
                c->failed = true;
        if (hs_reset_stream(c->stream, 0, c->scratch, on_trial, &t) != HS_SUCCESS)
                c->failed = true;
        return t.found;
}

/* Vectorscan tells only the end: to know the beginning it needs more states than many patterns leave. What is found from a place on is found from
 * every place before it, so the last such place is soon known. When there is none within reach, the line has to do. */
static size_t find_begin(struct check *c, const char *code, const struct hit *h)
{
        size_t low = h->to > BEGIN_BYTES_MAX ? h->to - BEGIN_BYTES_MAX : 0, high = h->to;

        if (!matches_from(c, code, low, h)) {
                for (low = h->line_at; low < h->to - 1 && (code[low] == ' ' || code[low] == '\t');)
                        low++;
                return low;
        }
        while (high - low > 1) {
                size_t middle = low + (high - low) / 2;
                if (matches_from(c, code, middle, h))
                        low = middle;
                else
                        high = middle;
        }
        return low;
}

static void add_hit(struct check *c, const char *code, const struct hit *h)
{
        size_t begin = find_begin(c, code, h), line_at = h->line_at;
        uint32_t line = h->line;

        while (begin < line_at) { /* it began in an earlier line */
                const char *before = memrchr(code, '\n', line_at - 1);
                line_at = before ? (size_t)(before - code) + 1 : 0;
                line--;
        }
        add_rule(c, &c->rules->code[c->rules->patterns[h->pattern].rule], line, (uint32_t)(begin - line_at) + 1);
}

static int scan_code(struct check *c, uint32_t places, const char *code, size_t size)
{
        c->text = code;
        c->places = places;
        c->at = (struct position){.line = 1};
        c->n_hits = 0;
        memset(c->last_lines, 0, c->rules->n_code * sizeof(c->last_lines[0]));
        int r = scan(c, code, size);
        for (size_t i = 0; r == 0 && i < c->n_hits; i++)
                add_hit(c, code, &c->hits[i]);
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

static void forget_rows(struct check *c)
{
        memset(c->last_rows, 0, c->rules->n_code * sizeof(c->last_rows[0])); /* NOLINT: pointers are meant */
}

static void scan_batch(struct check *c)
{
        struct batch *b = c->batch;

        if (b->n > 0 && scan(c, b->text, b->used) < 0)
                c->failed = true;
        forget_rows(c);
        b->n = b->used = 0;
}

static void take_item(void *data, const struct reader_item *item)
{
        static const uint32_t places[] = {[READER_IMPORT] = GUARD_IN_IMPORT, [READER_STRING] = GUARD_IN_STRING, [READER_CALL] = GUARD_IN_CALL};
        struct check *c = data;
        struct batch *b = c->batch;

        if (item->kind == READER_IMPORT)
                look_at_import(c, item);
        if (b->n == BATCH_ROWS || b->used + sizeof(between) + item->size > sizeof(b->text))
                scan_batch(c);
        if (b->n > 0) {
                memcpy(b->text + b->used, between, sizeof(between));
                b->used += sizeof(between);
        }
        b->rows[b->n++] = (struct batch_row){.at = b->used, .places = places[item->kind], .line = item->line, .column = item->column};
        if (item->size > sizeof(b->text)) { /* by itself, and where it is */
                if (scan(c, item->text, item->size) < 0)
                        c->failed = true;
                forget_rows(c);
                b->n = 0;
                return;
        }
        memcpy(b->text + b->used, item->text, item->size);
        b->used += item->size;
}

static void say_unreadable(struct check *c)
{
        struct guard_finding f = {.rule = GUARD_UNREADABLE_RULE, .set = GUARD_UNREADABLE_RULE};

        f.action = guard_action_of(c->settings, f.rule, f.set, GUARD_WARN);
        snprintf(f.message, sizeof(f.message),
                 "The code could not be read to its end: it is too large, too deeply nested, or took too long.");
        snprintf(f.remedy, sizeof(f.remedy), "Put data into files, and split the code into smaller pieces.");
        if (f.action != GUARD_OFF)
                guard_add(c->findings, &f);
}

static void scan_text(void *data)
{
        struct check *c = data;

        if (c->settings->meanwhile)
                c->settings->meanwhile(c->settings->data);
        c->told = true;
        if (scan_code(c, GUARD_IN_TEXT, c->code, c->size) < 0)
                c->failed = true;
}

static int check_python(struct check *c, const char *code, size_t size, gb_error *err)
{
        c->code = code;
        c->size = size;
        c->batch = malloc(sizeof(*c->batch));
        if (!c->batch)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "cannot look at the code: out of memory");
        c->batch->n = c->batch->used = 0;
        int r = reader_ask_meanwhile(code, size, take_item, scan_text, c, err);
        scan_batch(c);
        free(c->batch);
        if (r >= 0 && c->failed)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "cannot look at the code: out of memory");
        if (r == 1) {
                say_unreadable(c);
                if (scan_code(c, GUARD_IN_STRING | GUARD_IN_OTHERS, code, size) < 0) /* what can be seen without */
                        return error_set(err, GB_E_INTERNAL, ENOMEM, "cannot look at the code: out of memory");
                r = 0;
        }
        return r;
}

/* ---- secrets ---- */

/* The first byte that is not the same: there the first of them stood. */
static void find_difference(const char *code, size_t size, const struct buffer *scrubbed, struct guard_finding *f)
{
        size_t at = 0;

        while (at < size && at < scrubbed->size && code[at] == scrubbed->data[at])
                at++;
        struct position p = {.line = 1};
        move_to(&p, code, at);
        f->line = p.line;
        f->column = (uint32_t)(at - p.line_at) + 1;
}

static int check_secrets(struct check *c, const char *code, size_t size)
{
        _cleanup_buffer_ struct buffer scrubbed = {0};
        struct guard_finding f = {.rule = GUARD_SECRET_RULE, .set = GUARD_SECRETS_SET, .action = c->settings->strict_scrub ? GUARD_BLOCK : GUARD_WARN};

        buffer_init(&scrubbed, SIZE_MAX / 2);
        int r = c->settings->scrub ? scrub_text(c->settings->scrub, code, size, &scrubbed, NULL) : 0;
        if (r <= 0)
                return r;
        f.action = guard_action_of(c->settings, f.rule, f.set, f.action);
        find_difference(code, size, &scrubbed, &f);
        snprintf(f.message, sizeof(f.message), "The code carries what looks like a secret.");
        snprintf(f.remedy, sizeof(f.remedy), "%s", GUARD_SECRET_REMEDY);
        if (f.action != GUARD_OFF)
                guard_add(c->findings, &f);
        return 0;
}

static int check_code(struct check *c, const char *code, size_t size, gb_error *err)
{
        const struct rules *r = c->rules;

        if (c->settings->mode == GUARD_MODE_OFF)
                return 0;
        if (r->code_db && (!(c->scratch = rules_scratch_get(r, RULES_CODE)) || hs_open_stream(r->code_db, 0, &c->stream) != HS_SUCCESS))
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
        rules_scratch_put(rules, RULES_CODE, c.scratch);
        if (r == 0 && check_secrets(&c, code, size) < 0)
                r = error_set(err, GB_E_INTERNAL, ENOMEM, "cannot look for secrets in the code: out of memory");
        if (r == 0 && settings->meanwhile && !c.told)
                settings->meanwhile(settings->data);
        return r;
}
