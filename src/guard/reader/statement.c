/* SPDX-License-Identifier: Apache-2.0
 *
 * Statements, as far as names are given and modules imported in them. What is not known is passed over, a word at a time. */
#include "guard/reader/state.h"

#include "base/macro.h"

#include <string.h>

static bool at_end(const struct reader *r)
{
        return r->token.kind == TOKEN_END || r->token.kind == TOKEN_NEWLINE || reader_at(r, ';') || r->full;
}

/* ---- names ---- */

void assign_value(struct reader *r, const struct value *target, struct value *v)
{
        reader_show(r, v);
        if (target->path) {
                if (v->kind == VALUE_UNKNOWN)
                        reader_forget_name(r, target->path, target->path_size);
                else
                        reader_assign(r, target->path, target->path_size, v);
                return;
        }
        if (target->kind != VALUE_LIST)
                return;
        bool fits = v->kind == VALUE_LIST && v->size == target->size && !(v->flags & VALUE_CUT);
        for (uint32_t i = 0; fits && i < target->size; i++)
                fits = !((target->members[i].flags | v->members[i].flags) & VALUE_STAR);
        for (uint32_t i = 0; i < target->size; i++) {
                struct value unknown = value_unknown(target->place);
                struct value flat = target->members[i];
                if (!flat.path)
                        continue; /* (a, (b, c)) = ...: not told apart */
                assign_value(r, &flat, fits ? &v->members[i] : &unknown);
        }
}

static void read_assignment(struct reader *r, struct value *first)
{
        struct value targets[READER_TARGETS_MAX] = {*first}, v = *first;
        uint32_t n = 1;

        while (reader_at(r, '=') && !r->full) {
                reader_next(r);
                v = read_expressions(r);
                if (!reader_at(r, '='))
                        break;
                if (n < READER_TARGETS_MAX)
                        targets[n++] = v;
        }
        for (uint32_t i = 0; i < n; i++)
                assign_value(r, &targets[i], &v);
}

/* += and its kin: the operator without =, or 0. */
static uint32_t augmented(const struct reader *r)
{
        const struct token *t = &r->token;

        if (t->kind != TOKEN_OPERATOR || t->size < 2 || t->text[t->size - 1] != '=' || strchr("=<>!:", t->text[0]))
                return t->kind == TOKEN_OPERATOR && (t->op == OP3('<', '<', '=') || t->op == OP3('>', '>', '=')) ? t->op & 0xffff : 0;
        return t->op & ((1u << (8 * (t->size - 1))) - 1);
}

static void read_augmented(struct reader *r, struct value *target)
{
        uint32_t op = augmented(r);
        struct value left = *target;

        reader_next(r);
        struct value right = read_expressions(r);
        struct value v = fold_binary(r, op, &left, &right);
        assign_value(r, target, &v);
}

/* ---- imports ---- */

/* a.b.c; its text is one even where it is written with blanks. */
static bool read_module(struct reader *r, struct value *ret)
{
        char *p = NULL;
        size_t size = 0;

        *ret = value_name("", 0, r->token.place);
        while (r->token.kind == TOKEN_NAME && !(r->token.word == WORD_IMPORT || r->token.word == WORD_AS)) {
                const char *text = r->token.text;
                size_t n = r->token.size;
                literal_name(r, &text, &n);
                if (size + n + 1 > READER_NAME_BYTES_MAX)
                        return false;
                char *grown = reader_allocate(r, size + n + 1);
                if (!grown)
                        return false;
                if (p) {
                        memcpy(grown, p, size);
                        grown[size++] = '.';
                }
                memcpy(grown + size, text, n);
                size += n;
                p = grown;
                reader_next(r);
                if (!reader_at(r, '.'))
                        break;
                reader_next(r);
        }
        ret->text = p ? p : "";
        ret->size = (uint32_t)size;
        return size > 0;
}

/* as x: the name that is given; without it own. */
static void read_alias(struct reader *r, const char **name, size_t *size)
{
        if (!reader_at_word(r, WORD_AS))
                return;
        reader_next(r);
        if (r->token.kind != TOKEN_NAME)
                return;
        *name = r->token.text;
        *size = r->token.size;
        literal_name(r, name, size);
        reader_next(r);
}

static void read_import(struct reader *r)
{
        reader_next(r);
        while (!at_end(r)) {
                struct value module;
                const char *at = r->token.text;
                if (read_module(r, &module)) {
                        const char *dot = memchr(module.text, '.', module.size), *name = module.text;
                        size_t size = dot ? (size_t)(dot - name) : module.size;
                        bool alias = reader_at_word(r, WORD_AS);
                        reader_tell(r, READER_IMPORT, module.place, module.text, module.size);
                        read_alias(r, &name, &size);
                        if (!alias)
                                module.size = (uint32_t)size;
                        reader_assign(r, name, size, &module);
                }
                if (reader_at(r, ',') || r->token.text == at)
                        reader_next(r);
                else if (!at_end(r))
                        break;
        }
}

/* from os import *: the names that matter to anybody who reads this. */
static void import_all(struct reader *r, const struct value *module)
{
        static const struct {
                const char *module, *names;
        } known[] = {
                {"os", "system popen environ getenv path sep open execv execve execl execlp execvp spawnl spawnv posix_spawn chroot dup2 walk listdir"},
                {"os.path", "join expanduser expandvars abspath realpath normpath"},
                {"pathlib", "Path PurePath PosixPath"},
                {"subprocess", "run Popen call check_call check_output getoutput getstatusoutput"},
                {"base64", "b64decode urlsafe_b64decode b32decode b16decode decodebytes"},
                {"importlib", "import_module"},
                {"socket", "socket create_connection"},
                {"ctypes", "CDLL PyDLL cdll"},
                {"requests", "get post put patch request"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
                if (!value_is(module, known[i].module))
                        continue;
                for (const char *name = known[i].names; *name; name += strspn(name, " ")) {
                        size_t size = strcspn(name, " "), before = module->size + 1u;
                        char *p = reader_allocate(r, before + size);
                        if (!p)
                                return;
                        memcpy(p, module->text, before - 1);
                        p[before - 1] = '.';
                        memcpy(p + before, name, size);
                        struct value whole = value_name(p, before + size, module->place);
                        reader_assign(r, name, size, &whole);
                        name += size;
                }
        }
}

/* One name of a from. */
static void import_member(struct reader *r, const struct value *module)
{
        struct value own;
        struct place place = r->token.place;

        if (reader_at(r, '*')) {
                reader_next(r);
                import_all(r, module);
                return;
        }
        if (!read_module(r, &own))
                return;
        const char *name = own.text;
        size_t size = own.size, before = module->size ? (size_t)module->size + 1 : 0;
        read_alias(r, &name, &size);
        char *p = before + own.size <= READER_NAME_BYTES_MAX ? reader_allocate(r, before + own.size) : NULL;
        if (!p)
                return;
        if (before > 0) {
                memcpy(p, module->text, before - 1);
                p[before - 1] = '.';
        }
        memcpy(p + before, own.text, own.size);
        struct value whole = value_name(p, before + own.size, place);
        reader_tell(r, READER_IMPORT, place, whole.text, whole.size);
        if (module->size == 8 && memcmp(module->text, "builtins", 8) == 0)
                whole = own;
        reader_assign(r, name, size, &whole);
}

static void read_from(struct reader *r)
{
        struct value module;

        reader_next(r);
        while (reader_at(r, '.') || reader_at(r, OP3('.', '.', '.')))
                reader_next(r);
        (void)read_module(r, &module);
        reader_tell(r, READER_IMPORT, module.place, module.text, module.size);
        if (!reader_at_word(r, WORD_IMPORT))
                return;
        reader_next(r);
        while (!at_end(r)) {
                const char *at = r->token.text;
                if (reader_at(r, '(') || reader_at(r, ',') || reader_at(r, ')')) {
                        reader_next(r);
                        continue;
                }
                import_member(r, &module);
                if (r->token.text == at)
                        reader_next(r);
        }
}

/* ---- words that begin something ---- */

static void read_for(struct reader *r)
{
        reader_next(r);
        r->no_in++;
        struct value target = read_expressions(r);
        r->no_in--;
        forget_targets(r, &target);
        if (reader_at_word(r, WORD_IN))
                reader_next(r);
        struct value list = read_expressions(r);
        reader_show(r, &list);
}

/* def name[T](parameters), class name(bases) */
static void read_definition(struct reader *r)
{
        uint32_t base = r->n_stack;
        bool comma, pairs, function = reader_at_word(r, WORD_DEF);

        reader_next(r);
        if (r->token.kind == TOKEN_NAME) {
                const char *name = r->token.text;
                size_t size = r->token.size;
                literal_name(r, &name, &size);
                reader_forget_name(r, name, size);
                r->own_print |= size == 5 && memcmp(name, "print", 5) == 0;
                reader_next(r);
        }
        for (int i = 0; i < 2 && (reader_at(r, '(') || reader_at(r, '[')); i++) {
                reader_next(r);
                read_members(r, &comma, &pairs);
        }
        for (uint32_t i = base; i < r->n_stack; i++) {
                struct value *v = &r->stack[i];
                reader_show(r, v);
                if (!function)
                        continue;
                if (v->flags & VALUE_KEYWORD)
                        reader_assign(r, v->path, v->path_size, v); /* what it is unless it is said */
                else
                        reader_forget_name(r, v->path, v->path_size);
        }
        r->n_stack = base;
}

/* Whether the word was one that is read here. *begins: whether a statement may still begin behind it. */
static bool read_word(struct reader *r, bool *begins)
{
        if (r->token.kind != TOKEN_NAME)
                return false;
        switch (r->token.word) {
        case WORD_IMPORT:
                read_import(r);
                break;
        case WORD_FROM:
                if (*begins)
                        read_from(r);
                else
                        reader_next(r); /* raise .. from .. */
                break;
        case WORD_FOR:
                read_for(r);
                break;
        case WORD_DEF:
        case WORD_CLASS:
                read_definition(r);
                break;
        case WORD_NONE:
        case WORD_LAMBDA:
        case WORD_NOT:
        case WORD_AWAIT:
        case WORD_YIELD:
                return false;
        case WORD_ASYNC:
                reader_next(r);
                return true;
        default:
                reader_next(r);
                break;
        }
        *begins = false;
        return true;
}

/* ---- statements ---- */

/* An expression, and what is made of it. */
static void read_simple(struct reader *r, bool begins)
{
        struct value v = read_expressions(r);

        if (reader_at(r, '=')) {
                read_assignment(r, &v);
        } else if (augmented(r)) {
                read_augmented(r, &v);
        } else if (begins && v.path && reader_at(r, ':')) { /* x: str = ".." */
                reader_next(r);
                struct value annotation = read_expression(r);
                reader_show(r, &annotation);
                if (reader_at(r, '='))
                        read_assignment(r, &v);
        } else if (reader_at_word(r, WORD_AS)) {
                reader_next(r);
                r->no_in++;
                struct value target = read_expression(r);
                r->no_in--;
                assign_value(r, &target, &v);
        } else if (!(begins && v.flags & VALUE_LONE && at_end(r))) { /* a lone string says something to who reads it */
                reader_show(r, &v);
        }
}

/* A line, or what is before its ; */
static void read_statement(struct reader *r)
{
        bool begins = true;

        while (!at_end(r)) {
                const char *at = r->token.text;
                if (r->token.kind == TOKEN_COMMAND) {
                        reader_tell(r, READER_STRING, r->token.place, r->token.text, r->token.size);
                        reader_next(r);
                } else if (reader_at(r, ':')) {
                        reader_next(r);
                        begins = true;
                } else if (!read_word(r, &begins)) {
                        read_simple(r, begins);
                        begins = false;
                }
                if (r->token.text == at && !at_end(r))
                        reader_next(r);
        }
}

void read_statements(struct reader *r)
{
        reader_next(r);
        while (r->token.kind != TOKEN_END && !r->full) {
                read_statement(r);
                bool line = r->token.kind != TOKEN_OPERATOR;
                if (r->code_depth == 0 && line)
                        reader_flush(r);
                if (r->token.kind != TOKEN_END)
                        reader_next(r);
        }
        if (r->code_depth == 0)
                reader_flush(r);
}

void read_code(struct reader *r, const struct value *text)
{
        struct lexer lexer = r->lexer;
        struct token token = r->token;
        unsigned no_in = r->no_in;
        uint32_t format_depth = r->format_depth;

        if (r->code_depth >= READER_CODE_DEPTH_MAX || !reader_spend(r, 16 * (size_t)text->size)) {
                r->too_much = true;
                return;
        }
        struct place place = text->place;
        lexer_init(&r->lexer, text->text, text->size);
        r->lexer.fixed = true;
        r->lexer.fixed_place = place;
        r->no_in = 0;
        r->format_depth = 0;
        r->code_depth++;
        read_statements(r);
        r->code_depth--;
        r->lexer = lexer;
        r->token = token;
        r->no_in = no_in;
        r->format_depth = format_depth;
}

/* ---- the whole ---- */

size_t reader_memory_size(void)
{
        return sizeof(struct reader) + READER_ARENA_BYTES;
}

void reader_touch(void *memory)
{
        struct reader *r = memory;

        memset(r, 0, sizeof(*r) - sizeof(r->stack) - sizeof(r->items) - sizeof(r->sorted) - sizeof(r->names));
        memset(r->stack, 0, READER_TOUCH_BYTES);
        memset(r->items, 0, READER_TOUCH_BYTES);
        memset(r->sorted, 0, READER_TOUCH_BYTES);
        memset(r->names, 0, READER_NAMES_MIN * sizeof(r->names[0]));
        memset((char *)memory + sizeof(*r), 0, READER_TOUCH_BYTES);
}

int reader_read(const char *code, size_t size, void *memory, reader_sink *sink, void *data)
{
        struct reader *r = memory;

        if (size > READER_CODE_BYTES_MAX)
                return 1;
        memset(r->names, 0, r->named * sizeof(r->names[0]));
        memset(r, 0, offsetof(struct reader, call));
        r->name_mask = READER_NAMES_MIN - 1;
        while (r->name_mask < size / 4 && r->name_mask < READER_NAMES_MAX - 1) /* of four bytes there is no name more than one */
                r->name_mask = 2 * r->name_mask + 1;
        r->sink = sink;
        r->data = data;
        r->work = READER_WORK_MAX;
        r->arena = r->top = r->mark = (char *)memory + sizeof(struct reader);
        r->end = r->arena + READER_ARENA_BYTES;
        r->too_much = lexer_is_encoded(code, size);
        lexer_init(&r->lexer, code, size);
        read_statements(r);
        return r->too_much;
}
