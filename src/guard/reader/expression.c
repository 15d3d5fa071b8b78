/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions, by precedence. Every way from one into the next counts a level; below the last everything up to the end of the bracket is passed over. */
#include "guard/reader/state.h"

#include "base/macro.h"

#include <string.h>

void reader_next(struct reader *r)
{
        lexer_next(&r->lexer, &r->token);
}

bool reader_at(const struct reader *r, uint32_t op)
{
        return r->token.kind == TOKEN_OPERATOR && r->token.op == op;
}

bool reader_at_word(const struct reader *r, enum word word)
{
        return r->token.kind == TOKEN_NAME && r->token.word == word;
}

bool reader_at_stop(const struct reader *r)
{
        return r->token.kind == TOKEN_END || r->token.kind == TOKEN_NEWLINE || r->full;
}

static bool at_closer(const struct reader *r)
{
        return reader_at_stop(r) || reader_at(r, ')') || reader_at(r, ']') || reader_at(r, '}');
}

/* What is too deep: up to the bracket that ends where we are, or to the end of the line. */
static void skip_rest(struct reader *r)
{
        uint32_t depth = r->lexer.depth;

        r->too_much = true;
        if (r->token.kind == TOKEN_OPERATOR && r->token.size == 1 && strchr("([{", (int)r->token.op))
                depth--;
        while (!reader_at_stop(r) && r->lexer.depth >= depth && !(r->lexer.depth == 0 && at_closer(r))) {
                if (r->token.kind == TOKEN_STRING && r->token.formatted) {
                        lexer_skip_string(&r->lexer, &r->token);
                        r->lexer.at += r->lexer.at < r->lexer.end;
                }
                reader_next(r);
        }
}

/* ---- members of brackets ---- */

void forget_targets(struct reader *r, const struct value *v)
{
        reader_forget_name(r, v->path, v->path_size);
        for (uint32_t i = 0; v->kind == VALUE_LIST && !v->path && i < v->size; i++)
                reader_forget_name(r, v->members[i].path, v->members[i].path_size);
}

/* [chr(c) for c in numbers] */
static bool map_characters(struct reader *r, struct value *v, const struct value *target, struct value *list)
{
        if (v->kind != VALUE_UNKNOWN || !(v->flags & VALUE_CHR) || !v->path || list->kind != VALUE_LIST || !target->path || target->path_size != v->path_size ||
            memcmp(target->path, v->path, v->path_size) != 0 || !reader_spend(r, list->size * sizeof(*v)))
                return false;
        struct value args[2] = {value_name("chr", 3, v->place), *list};
        struct value callee = value_name("map", 3, v->place);
        uint32_t n = r->n_items, told = r->n_told;
        uint64_t bytes = r->told_bytes;
        *v = fold_call(r, &callee, NULL, 0, args, 2);
        r->n_items = n; /* nobody has written that call */
        r->n_told = told;
        r->told_bytes = bytes;
        if (v->kind == VALUE_LIST)
                v->flags |= VALUE_CHR; /* the list itself, not a member of one */
        return v->kind == VALUE_LIST;
}

/* for x in y if z, as often as it comes. v: what stands before it. */
static void read_comprehension(struct reader *r, struct value *v)
{
        while (!at_closer(r) && (reader_at_word(r, WORD_FOR) || reader_at_word(r, WORD_ASYNC))) {
                if (reader_at_word(r, WORD_ASYNC))
                        reader_next(r);
                if (reader_at_word(r, WORD_FOR))
                        reader_next(r);
                r->no_in++;
                struct value target = read_expressions(r);
                r->no_in--;
                forget_targets(r, &target);
                if (reader_at_word(r, WORD_IN))
                        reader_next(r);
                struct value list = read_expression(r);
                if (!map_characters(r, v, &target, &list)) {
                        reader_show(r, v);
                        reader_show(r, &list);
                        *v = value_unknown(v->place);
                }
        }
}

/* One member, with what belongs to it. */
static void read_member(struct reader *r, bool *ret_pairs)
{
        bool star = reader_at(r, '*') || reader_at(r, OP2('*', '*'));

        if (star)
                reader_next(r);
        struct value v = read_expression(r);
        v.flags &= (uint8_t)~(VALUE_KEYWORD | VALUE_STAR);
        if (star)
                v.flags |= VALUE_STAR;
        if (reader_at(r, '=')) {
                const char *name = v.path;
                uint32_t size = v.path_size;
                reader_show(r, &v);
                reader_next(r);
                v = read_expression(r);
                v.flags &= (uint8_t)~(VALUE_KEYWORD | VALUE_STAR | VALUE_CHR);
                v.path = name;
                v.path_size = size;
                v.flags |= name ? VALUE_KEYWORD : 0;
        } else if (reader_at(r, ':')) {
                reader_next(r);
                struct value key = v;
                v = at_closer(r) || reader_at(r, ',') ? value_unknown(r->token.place) : read_expression(r);
                if (reader_at(r, '=')) { /* a parameter with an annotation */
                        reader_show(r, &v);
                        reader_next(r);
                        v = read_expression(r);
                        v.flags &= (uint8_t)~(VALUE_KEYWORD | VALUE_STAR | VALUE_CHR);
                        v.path = key.path;
                        v.path_size = key.path_size;
                        v.flags |= key.path ? VALUE_KEYWORD : 0;
                } else {
                        reader_push(r, &key);
                        v.path = NULL; /* an annotation is no name of a parameter */
                        *ret_pairs = true;
                }
        }
        if (reader_at_word(r, WORD_AS)) { /* with (open() as f): */
                reader_next(r);
                struct value target = read_expression(r);
                assign_value(r, &target, &v);
        }
        read_comprehension(r, &v);
        reader_push(r, &v);
}

void read_members(struct reader *r, bool *ret_comma, bool *ret_pairs)
{
        unsigned no_in = r->no_in;

        r->no_in = 0;
        *ret_comma = *ret_pairs = false;
        while (!at_closer(r)) {
                const char *at = r->token.text;
                if (reader_at(r, ',')) {
                        *ret_comma = true;
                        reader_next(r);
                        continue;
                }
                read_member(r, ret_pairs);
                if (r->token.text == at)
                        reader_next(r); /* nothing that an expression could begin with */
        }
        if (!reader_at_stop(r))
                reader_next(r);
        r->no_in = no_in;
}

static struct value read_bracket(struct reader *r)
{
        struct place place = r->token.place;
        uint32_t base = r->n_stack;
        bool round = reader_at(r, '('), curly = reader_at(r, '{'), comma, pairs;

        reader_next(r);
        read_members(r, &comma, &pairs);
        if (r->n_stack == base + 1 && !comma && (round || (r->stack[base].kind == VALUE_LIST && r->stack[base].flags & VALUE_CHR))) {
                struct value v = r->stack[--r->n_stack];
                if (v.flags & (VALUE_KEYWORD | VALUE_CHR))
                        v.path = NULL;
                v.flags &= (uint8_t)~(VALUE_CHR | VALUE_STAR | VALUE_KEYWORD);
                return v;
        }
        struct value list = value_list(r, base, place);
        if (list.kind == VALUE_LIST && curly)
                list.kind = VALUE_DICT;
        if (curly && !pairs && list.kind == VALUE_DICT) {
                reader_show(r, &list);
                return value_unknown(place);
        }
        return list;
}

/* ---- the rest of an operand ---- */

static struct value read_subscript(struct reader *r, struct value *v)
{
        struct value key = value_unknown(r->token.place);
        struct slice s = {0};
        unsigned part = 0, no_in = r->no_in;
        bool many = false;

        reader_next(r);
        r->no_in = 0;
        while (!at_closer(r)) {
                const char *at = r->token.text;
                if (reader_at(r, ':') || reader_at(r, ',')) {
                        many |= reader_at(r, ',');
                        s.is_slice |= reader_at(r, ':');
                        part += reader_at(r, ':');
                        reader_next(r);
                        continue;
                }
                bool empty = part > 2 || s.has[part];
                reader_show(r, &key);
                key = read_expression(r);
                if (!empty && key.kind == VALUE_NUMBER) {
                        s.has[part] = true;
                        s.number[part] = key.number;
                } else if (!value_is(&key, "None")) {
                        many |= s.is_slice || reader_at(r, ':');
                }
                if (r->token.text == at)
                        reader_next(r);
        }
        if (!reader_at_stop(r))
                reader_next(r);
        r->no_in = no_in;
        if (!many)
                return fold_subscript(r, v, &key, &s);
        reader_show(r, v);
        reader_show(r, &key);
        return value_unknown(v->place);
}

static struct value read_call(struct reader *r, struct value *callee, const char *name, size_t size)
{
        uint32_t base = r->n_stack;
        bool comma, pairs;

        reader_next(r);
        read_members(r, &comma, &pairs);
        struct value v = fold_call(r, callee, name, size, &r->stack[base], r->n_stack - base);
        r->n_stack = base;
        return v;
}

/* a.b: written side by side it is there already. */
static bool join_name(struct reader *r, const char **text, uint32_t *size, const char *name, size_t name_size)
{
        size_t all = (size_t)*size + 1 + name_size;

        if (!*text || all > READER_NAME_BYTES_MAX)
                return false;
        if (*text + *size + 1 == name && (*text)[*size] == '.') {
                *size = (uint32_t)all;
                return true;
        }
        char *p = reader_allocate(r, all);
        if (!p)
                return false;
        memcpy(p, *text, *size);
        p[*size] = '.';
        memcpy(p + *size + 1, name, name_size);
        *text = p;
        *size = (uint32_t)all;
        return true;
}

static bool known_name(struct value *v)
{
        static const char *const texts[][2] = {
                {"os.sep", "/"}, {"os.path.sep", "/"}, {"posixpath.sep", "/"}, {"os.linesep", "\n"}, {"os.curdir", "."}, {"os.pardir", ".."},
                {"string.ascii_lowercase", "abcdefghijklmnopqrstuvwxyz"}, {"string.ascii_uppercase", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"},
                {"string.ascii_letters", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"}, {"string.digits", "0123456789"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                if (v->text[0] != texts[i][0][0] || !value_is(v, texts[i][0]))
                        continue;
                *v = value_text(texts[i][1], strlen(texts[i][1]), v->place);
                v->flags = VALUE_SHOWN;
                return true;
        }
        return false;
}

static struct value read_attribute(struct reader *r, struct value *v)
{
        const char *name, *path = v->path;
        uint32_t path_size = v->path_size;
        struct value found;

        reader_next(r);
        if (r->token.kind != TOKEN_NAME)
                return *v;
        name = r->token.text;
        size_t size = r->token.size;
        literal_name(r, &name, &size);
        reader_next(r);
        if (v->kind != VALUE_NAME && reader_at(r, '(')) {
                bool list = v->kind == VALUE_LIST || v->kind == VALUE_DICT;
                struct value callee = *v;
                if (list && path) { /* it may change */
                        reader_forget_name(r, path, path_size);
                        callee = value_name(path, path_size, v->place);
                }
                return read_call(r, &callee, name, size);
        }
        if (!join_name(r, &path, &path_size, name, size))
                path = NULL;
        if (path && reader_find(r, path, path_size, &found)) {
                found.place = v->place;
                found.path = path;
                found.path_size = path_size;
                return found;
        }
        if (v->kind != VALUE_NAME) {
                reader_show(r, v);
                *v = value_name("{}", 2, v->place);
        }
        if (value_is(v, "builtins") || value_is(v, "__builtins__")) {
                *v = value_name(name, size, v->place);
        } else if (!join_name(r, &v->text, &v->size, name, size)) {
                *v = value_unknown(v->place);
        } else if (known_name(v)) {
                return *v;
        }
        v->path = path;
        v->path_size = path_size;
        return *v;
}

/* ---- operands ---- */

static struct value read_lambda(struct reader *r)
{
        struct place place = r->token.place;

        reader_next(r);
        while (!at_closer(r) && !reader_at(r, ':')) {
                const char *at = r->token.text;
                struct value v = value_unknown(place);
                if (reader_at(r, ',') || reader_at(r, '=') || reader_at(r, '*') || reader_at(r, OP2('*', '*')) || reader_at(r, '/'))
                        reader_next(r);
                else
                        v = read_expression(r);
                reader_show(r, &v);
                if (r->token.text == at)
                        reader_next(r);
        }
        if (reader_at(r, ':'))
                reader_next(r);
        struct value body = read_expression(r);
        reader_show(r, &body);
        return value_unknown(place);
}

static struct value read_name(struct reader *r)
{
        struct place place = r->token.place;
        const char *text = r->token.text;
        size_t size = r->token.size;
        struct value v;

        literal_name(r, &text, &size);
        reader_next(r);
        if (size > READER_NAME_BYTES_MAX)
                return value_unknown(place);
        if (!reader_find(r, text, size, &v))
                v = value_name(text, size, place);
        v.place = place;
        v.path = text;
        v.path_size = (uint32_t)size;
        return v;
}

static struct value read_operand(struct reader *r)
{
        struct place place = r->token.place;

        if (r->token.kind == TOKEN_STRING)
                return read_strings(r);
        if (r->token.kind == TOKEN_NUMBER) {
                struct value v = literal_number(&r->token);
                reader_next(r);
                return v;
        }
        if (reader_at(r, '(') || reader_at(r, '[') || reader_at(r, '{'))
                return read_bracket(r);
        if (reader_at(r, '!') && r->format_depth == 0) { /* IPython: files = !ls */
                const char *text;
                size_t size;
                lexer_rest_of_line(&r->lexer, &text, &size);
                reader_tell(r, READER_STRING, place, text, size);
                reader_next(r);
                return value_unknown(place);
        }
        if (reader_at_word(r, WORD_LAMBDA))
                return read_lambda(r);
        if (reader_at_word(r, WORD_YIELD)) {
                reader_next(r);
                if (reader_at_word(r, WORD_FROM))
                        reader_next(r);
                struct value v = read_expression(r);
                v.flags &= (uint8_t)~VALUE_LONE;
                return v;
        }
        if (r->token.kind == TOKEN_NAME && r->token.word == WORD_NONE)
                return read_name(r);
        if (reader_at(r, OP3('.', '.', '.')))
                reader_next(r);
        return value_unknown(place);
}

static struct value read_postfix(struct reader *r)
{
        struct value v = read_operand(r);

        while (!r->full) {
                if (reader_at(r, '.'))
                        v = read_attribute(r, &v);
                else if (reader_at(r, '('))
                        v = read_call(r, &v, NULL, 0);
                else if (reader_at(r, '['))
                        v = read_subscript(r, &v);
                else
                        break;
        }
        return v;
}

static struct value read_unary(struct reader *r)
{
        bool minus = false, other = false;

        for (;; reader_next(r)) {
                if (reader_at(r, '-'))
                        minus = !minus;
                else if (reader_at_word(r, WORD_NOT) || reader_at(r, '~'))
                        other = true;
                else if (!reader_at(r, '+') && !reader_at_word(r, WORD_AWAIT))
                        break;
        }
        struct value v = read_postfix(r);
        if (other) {
                reader_show(r, &v);
                return value_unknown(v.place);
        }
        if (minus && v.kind == VALUE_NUMBER && v.number != INT64_MIN)
                v.number = -v.number;
        return v;
}

/* ---- operators ---- */

static unsigned precedence(const struct reader *r)
{
        if (r->token.kind == TOKEN_NAME)
                switch (r->token.word) {
                case WORD_OR:
                        return 1;
                case WORD_AND:
                        return 2;
                case WORD_IN:
                        return r->no_in ? 0 : 4;
                case WORD_IS:
                case WORD_NOT:
                        return 4;
                default:
                        return 0;
                }
        if (r->token.kind != TOKEN_OPERATOR)
                return 0;
        switch (r->token.op) {
        case '<': case '>': case OP2('<', '='): case OP2('>', '='): case OP2('=', '='): case OP2('!', '='): case OP2('<', '>'):
                return 4;
        case '|':
                return 5;
        case '^':
                return 6;
        case '&':
                return 7;
        case OP2('<', '<'): case OP2('>', '>'):
                return 8;
        case '+': case '-':
                return 9;
        case '*': case '/': case '%': case '@': case OP2('/', '/'):
                return 10;
        case OP2('*', '*'):
                return 11;
        default:
                return 0;
        }
}

static struct value read_binary(struct reader *r, unsigned least)
{
        struct value left = read_unary(r);

        for (unsigned p; (p = precedence(r)) >= least && p > 0 && !r->full;) {
                uint32_t op = r->token.kind == TOKEN_OPERATOR ? r->token.op : 0;
                bool is = reader_at_word(r, WORD_IS), not = reader_at_word(r, WORD_NOT);
                reader_next(r);
                if ((is && reader_at_word(r, WORD_NOT)) || (not && reader_at_word(r, WORD_IN)))
                        reader_next(r);
                struct value right = read_binary(r, p + 1);
                left = fold_binary(r, op, &left, &right);
        }
        return left;
}

static bool at_walrus(const struct reader *r)
{
        return reader_at(r, OP2(':', '=')) && (r->format_depth == 0 || r->lexer.depth > r->format_depth);
}

struct value read_expression(struct reader *r)
{
        if (r->depth >= READER_DEPTH_MAX) {
                struct place place = r->token.place;
                skip_rest(r);
                return value_unknown(place);
        }
        r->depth++;
        struct value v = read_binary(r, 1);
        while (!r->full) {
                if (reader_at_word(r, WORD_IF)) {
                        reader_next(r);
                        struct value condition = read_binary(r, 1);
                        reader_show(r, &condition);
                        if (!reader_at_word(r, WORD_ELSE))
                                continue; /* of a comprehension */
                        reader_next(r);
                        struct value other = read_binary(r, 1);
                        reader_show(r, &v);
                        reader_show(r, &other);
                        v = value_unknown(v.place);
                } else if (at_walrus(r)) {
                        struct value target = v;
                        reader_next(r);
                        v = read_binary(r, 1);
                        assign_value(r, &target, &v);
                        v.flags &= (uint8_t)~VALUE_LONE;
                } else {
                        break;
                }
        }
        r->depth--;
        return v;
}

struct value read_expressions(struct reader *r)
{
        struct value v = reader_at(r, '*') ? value_unknown(r->token.place) : read_expression(r);
        uint32_t base = r->n_stack;

        if (!reader_at(r, ',') && !reader_at(r, '*'))
                return v;
        if (!reader_at(r, '*'))
                reader_push(r, &v);
        struct place place = v.place;
        while (reader_at(r, ',') || reader_at(r, '*')) {
                const char *at = r->token.text;
                reader_next(r);
                if (at_closer(r) || reader_at(r, '=') || reader_at(r, ':') || reader_at(r, '*') || reader_at_word(r, WORD_IN))
                        continue;
                v = read_expression(r);
                if (*at == '*')
                        v.flags |= VALUE_STAR;
                reader_push(r, &v);
        }
        return value_list(r, base, place);
}
