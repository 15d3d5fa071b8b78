/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls: what they are told as, and what those give whose arguments are constant. */
#include "guard/reader/state.h"

#include "base/macro.h"

#include <string.h>

/* ---- the text of a call ---- */

struct writer {
        char *out;
        size_t used;
};

static void put(struct writer *w, const char *text, size_t size)
{
        size_t n = MIN(size, READER_CALL_BYTES_MAX - w->used);

        memcpy(w->out + w->used, text, n);
        w->used += n;
}

static void put_quoted(struct writer *w, const struct value *v)
{
        put(w, "\"", 1);
        for (uint32_t i = 0; i < v->size && w->used < READER_CALL_BYTES_MAX; i++) {
                if (v->text[i] == '"' || v->text[i] == '\\')
                        put(w, "\\", 1);
                put(w, v->text + i, 1);
        }
        put(w, "\"", 1);
}

static void put_argument(struct writer *w, const struct value *v)
{
        if (v->flags & VALUE_KEYWORD && v->path) {
                put(w, v->path, v->path_size);
                put(w, "=", 1);
        }
        if (v->kind == VALUE_TEXT)
                put_quoted(w, v);
        else if (v->kind == VALUE_NAME && v->call)
                put(w, v->call, v->call_size); /* what it was made of */
        else if (v->kind == VALUE_NAME && !(v->flags & VALUE_STAR) && !memchr(v->text, '(', v->size) && !memchr(v->text, '{', MIN(v->size, 1u)))
                put(w, v->text, v->size);
        else
                put(w, "{}", 2);
}

/* Returns what was told, and its size; NULL: nothing was. */
static const char *tell_call(struct reader *r, const struct value *callee, const char *name, size_t size, const struct value *args, uint32_t n,
                             size_t *ret_size)
{
        struct writer w = {.out = r->call};

        if (callee->kind == VALUE_TEXT)
                put_quoted(&w, callee);
        else if (callee->kind == VALUE_NAME)
                put(&w, callee->text, callee->size);
        else
                put(&w, "{}", 2);
        if (name) {
                put(&w, ".", 1);
                put(&w, name, size);
        } else if (callee->kind != VALUE_NAME) {
                return NULL; /* the result of something, called */
        }
        put(&w, "(", 1);
        for (uint32_t i = 0; i < n && w.used < READER_CALL_BYTES_MAX; i++) {
                if (i > 0)
                        put(&w, ", ", 2);
                put_argument(&w, &args[i]);
        }
        put(&w, ")", 1);
        char *p = reader_allocate(r, w.used);
        if (!p)
                return NULL;
        memcpy(p, w.out, w.used);
        reader_tell(r, READER_CALL, callee->place, p, w.used);
        *ret_size = w.used;
        return p;
}

/* ---- functions ---- */

/* Each gives its result in args[0], and has shown what did not go into it; false: the call gives something else. */
typedef bool function(struct reader *r, struct value *args, uint32_t n);

static void show_from(struct reader *r, struct value *args, uint32_t n, uint32_t first)
{
        for (uint32_t i = first; i < n; i++)
                reader_show(r, &args[i]);
}

static bool as_text(struct reader *r, struct value *args, uint32_t n)
{
        show_from(r, args, n, 1);
        return n > 0 && args[0].kind == VALUE_TEXT;
}

static bool as_it_is(struct reader *r, struct value *args, uint32_t n)
{
        show_from(r, args, n, 1);
        return n == 1 && (args[0].kind == VALUE_TEXT || args[0].kind == VALUE_LIST);
}

static bool join_path(struct reader *r, struct value *args, uint32_t n)
{
        bool text = false;

        for (uint32_t i = 0; i < n; i++)
                text |= args[i].kind == VALUE_TEXT;
        if (!text)
                return false;
        for (uint32_t i = 1; i < n; i++)
                fold_join_path(r, &args[0], &args[i]);
        return true;
}

static bool expand_variables(struct reader *r, struct value *args, uint32_t n)
{
        static const char *const homes[] = {"$HOME", "${HOME}"};

        if (!as_text(r, args, n))
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(homes); i++) {
                size_t size = strlen(homes[i]);
                if (args[0].size < size || memcmp(args[0].text, homes[i], size) != 0)
                        continue;
                struct value home = value_text("~", 1, args[0].place);
                text_append(r, &home, args[0].text + size, args[0].size - size);
                args[0] = home;
        }
        return true;
}

static bool environment(struct reader *r, struct value *args, uint32_t n)
{
        bool home = n > 0 && value_is_exact(&args[0]) && args[0].size == 4 && memcmp(args[0].text, "HOME", 4) == 0;

        show_from(r, args, n, 0);
        if (home)
                args[0] = value_text("~", 1, args[0].place);
        return home;
}

static bool character(struct reader *r, struct value *args, uint32_t n)
{
        char *p;

        if (n != 1)
                return false;
        if (args[0].kind == VALUE_NAME && args[0].path) {
                args[0].kind = VALUE_UNKNOWN;
                args[0].flags = VALUE_CHR;
                return true;
        }
        if (args[0].kind != VALUE_NUMBER || args[0].number < 0 || args[0].number > 0x10ffff || !(p = reader_allocate(r, 4)))
                return false;
        size_t size = utf8_put((uint32_t)args[0].number, p);
        r->top -= 4 - size;
        args[0] = value_text(p, size, args[0].place);
        return true;
}

/* map(chr, [..]) */
static bool map(struct reader *r, struct value *args, uint32_t n)
{
        if (n != 2 || !value_is(&args[0], "chr") || args[1].kind != VALUE_LIST || !reader_spend(r, args[1].size * sizeof(*args)))
                return false;
        uint32_t base = r->n_stack;
        for (uint32_t i = 0; i < args[1].size; i++) {
                struct value v = args[1].members[i];
                if (v.kind != VALUE_NUMBER || !character(r, &v, 1))
                        v = value_unknown(v.place);
                reader_push(r, &v);
        }
        uint8_t cut = args[1].flags & VALUE_CUT;
        args[0] = value_list(r, base, args[0].place);
        args[0].flags |= cut;
        return true;
}

static bool bytes(struct reader *r, struct value *args, uint32_t n)
{
        if (n == 0 || args[0].kind != VALUE_LIST)
                return as_text(r, args, n);
        struct value *list = &args[0];
        char *p = reader_spend(r, list->size) ? reader_allocate(r, list->size) : NULL;
        if (!p || list->flags & VALUE_CUT)
                return false;
        for (uint32_t i = 0; i < list->size; i++) {
                if (list->members[i].kind != VALUE_NUMBER)
                        return false;
                p[i] = (char)(list->members[i].number & 0xff);
        }
        args[0] = value_text(p, list->size, list->place);
        return true;
}

static bool ordinal(struct reader *r, struct value *args, uint32_t n)
{
        if (n != 1 || !value_is_exact(&args[0]) || args[0].size != 1)
                return false;
        args[0] = value_number((unsigned char)args[0].text[0], args[0].place);
        return true;
}

static bool from_base64(struct reader *r, struct value *args, uint32_t n)
{
        return as_text(r, args, n) && decode_base64(r, &args[0]);
}

static bool from_base32(struct reader *r, struct value *args, uint32_t n)
{
        return as_text(r, args, n) && decode_base32(r, &args[0]);
}

static bool from_hex(struct reader *r, struct value *args, uint32_t n)
{
        return as_text(r, args, n) && decode_hex(r, &args[0]);
}

static bool from_percent(struct reader *r, struct value *args, uint32_t n)
{
        return as_text(r, args, n) && decode_percent(r, &args[0]);
}

static bool codec(struct reader *r, struct value *args, uint32_t n)
{
        return n > 0 && args[0].kind == VALUE_TEXT && fold_codec(r, &args[0], n > 1 ? &args[1] : NULL);
}

static bool reverse(struct reader *r, struct value *args, uint32_t n)
{
        return n == 1 && fold_reverse(r, &args[0]);
}

static bool import(struct reader *r, struct value *args, uint32_t n, bool whole)
{
        show_from(r, args, n, 0);
        if (n == 0 || !value_is_exact(&args[0]) || args[0].size > READER_NAME_BYTES_MAX)
                return false;
        const char *name = args[0].text;
        size_t size = args[0].size;
        while (size > 0 && *name == '.') { /* relative */
                name++;
                size--;
        }
        reader_tell(r, READER_IMPORT, args[0].place, name, size);
        const char *dot = memchr(name, '.', size);
        args[0] = value_name(name, dot && !whole ? (size_t)(dot - name) : size, args[0].place);
        return true;
}

static bool import_module(struct reader *r, struct value *args, uint32_t n)
{
        return import(r, args, n, true);
}

static bool import_top(struct reader *r, struct value *args, uint32_t n)
{
        return import(r, args, n, n > 3); /* with a list of names it is the module itself */
}

static bool attribute(struct reader *r, struct value *args, uint32_t n)
{
        show_from(r, args, n, 0);
        if (n < 2 || args[0].kind != VALUE_NAME || !value_is_exact(&args[1]))
                return false;
        bool builtin = value_is(&args[0], "builtins") || value_is(&args[0], "__builtins__");
        size_t before = builtin ? 0 : args[0].size + 1, size = before + args[1].size;
        char *p = size <= READER_NAME_BYTES_MAX ? reader_allocate(r, size) : NULL;
        if (!p)
                return false;
        if (!builtin) {
                memcpy(p, args[0].text, before - 1);
                p[before - 1] = '.';
        }
        memcpy(p + before, args[1].text, args[1].size);
        args[0] = value_name(p, size, args[0].place);
        return true;
}

static bool run_code(struct reader *r, struct value *args, uint32_t n)
{
        show_from(r, args, n, 0);
        if (n > 0 && args[0].kind == VALUE_TEXT)
                read_code(r, &args[0]);
        return false;
}

static bool home(struct reader *r, struct value *args, uint32_t n)
{
        show_from(r, args, n, 0);
        return false;
}

/* ---- what is only said, and what is run ---- */

static bool ends_with(const char *text, size_t size, const char *end)
{
        size_t n = strlen(end);

        return size >= n && memcmp(text + size - n, end, n) == 0;
}

static bool begins_with(const struct value *v, const char *begin)
{
        size_t n = strlen(begin);

        return v->kind == VALUE_NAME && v->size >= n && memcmp(v->text, begin, n) == 0;
}

/* Whether its texts go to somebody who reads them, and to nothing else. */
static bool is_said(const struct reader *r, const struct value *callee)
{
        static const char *const levels[] = {".debug", ".info", ".warning", ".error", ".critical", ".exception"};

        if (callee->kind != VALUE_NAME)
                return false;
        if (value_is(callee, "print"))
                return !r->own_print;
        if (value_is(callee, "_") || value_is(callee, "warnings.warn") || value_is(callee, "sys.exit") || ends_with(callee->text, callee->size, "Error") ||
            ends_with(callee->text, callee->size, "Exception"))
                return true;
        bool log = memmem(callee->text, callee->size, "log", 3);
        for (size_t i = 0; log && i < ARRAY_SIZE(levels); i++)
                if (ends_with(callee->text, callee->size, levels[i]))
                        return true;
        return false;
}

/* Rules are about what code does with a text: nobody reads a file by naming it in a message. */
static void say_nothing(struct reader *r, const struct value *callee, struct value *args, uint32_t n)
{
        bool said = is_said(r, callee);

        for (uint32_t i = 0; said && i < n; i++)
                said = !(args[i].flags & VALUE_KEYWORD && args[i].path_size == 4 && memcmp(args[i].path, "file", 4) == 0);
        for (uint32_t i = 0; i < n; i++) {
                bool help = args[i].flags & VALUE_KEYWORD && ((args[i].path_size == 4 && memcmp(args[i].path, "help", 4) == 0) ||
                                                              (args[i].path_size == 11 && memcmp(args[i].path, "description", 11) == 0));
                if ((said || help) && args[i].kind == VALUE_TEXT)
                        args[i].flags |= VALUE_SHOWN;
        }
}

/* A command that is given in pieces is told as the line it would be in a shell, too. */
static void tell_command(struct reader *r, const struct value *callee, const struct value *args, uint32_t n)
{
        static const char *const lists[] = {"subprocess.", "os.posix_spawn", "os.execv", "os.spawnv", "pty.spawn", "Popen", "check_output", "check_call", "run"};
        static const char *const rows[] = {"os.execl", "os.spawnl", "asyncio.create_subprocess_exec", "asyncio.subprocess.create_subprocess_exec"};
        struct value line = value_text("", 0, callee->place);
        bool list = false, row = false;
        uint32_t pieces = 0;

        for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
                list |= i < 5 ? begins_with(callee, lists[i]) : value_is(callee, lists[i]);
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                row |= begins_with(callee, rows[i]);
        for (uint32_t i = 0; (list || row) && i < n && pieces == 0; i++) {
                bool members = args[i].kind == VALUE_LIST;
                const struct value *from = members ? args[i].members : &args[i];
                uint32_t k = members ? args[i].size : row ? n - i : 0;
                if ((row && i > 0) || !reader_spend(r, k * sizeof(*from)))
                        break;
                for (; pieces < k && line.size < READER_TEXT_BYTES_MAX / 2; pieces++) {
                        struct value piece = from[pieces];
                        piece.flags |= VALUE_SHOWN; /* as itself it is told elsewhere */
                        if (pieces > 0)
                                text_append(r, &line, " ", 1);
                        text_append_value(r, &line, &piece);
                }
        }
        if (pieces > 1)
                reader_show(r, &line);
}

#define ROW(name, call) {name, sizeof(name) - 1, call}
static const struct row {
        const char *name;
        size_t size;
        function *call;
} functions[] = {
        ROW("exec", run_code), ROW("eval", run_code), ROW("compile", run_code), ROW("__import__", import_top), ROW("importlib.__import__", import_top),
        ROW("importlib.import_module", import_module), ROW("getattr", attribute), ROW("chr", character), ROW("unichr", character), ROW("map", map),
        ROW("bytes", bytes), ROW("bytearray", bytes), ROW("str", as_text), ROW("ord", ordinal), ROW("reversed", reverse), ROW("list", as_it_is),
        ROW("tuple", as_it_is),
        ROW("bytes.fromhex", from_hex), ROW("bytearray.fromhex", from_hex), ROW("binascii.unhexlify", from_hex), ROW("binascii.a2b_hex", from_hex),
        ROW("base64.b16decode", from_hex), ROW("base64.b32decode", from_base32), ROW("base64.b64decode", from_base64),
        ROW("base64.standard_b64decode", from_base64), ROW("base64.urlsafe_b64decode", from_base64), ROW("base64.decodebytes", from_base64),
        ROW("binascii.a2b_base64", from_base64), ROW("codecs.decode", codec), ROW("codecs.encode", codec), ROW("os.path.join", join_path),
        ROW("posixpath.join", join_path), ROW("pathlib.Path", join_path), ROW("pathlib.PurePath", join_path), ROW("pathlib.PosixPath", join_path),
        ROW("pathlib.PurePosixPath", join_path), ROW("os.path.expanduser", as_text), ROW("posixpath.expanduser", as_text), ROW("os.path.abspath", as_text),
        ROW("os.path.realpath", as_text), ROW("os.path.normpath", as_text), ROW("os.path.expandvars", expand_variables), ROW("os.fspath", as_text),
        ROW("os.fsencode", as_text), ROW("os.fsdecode", as_text), ROW("pathlib.Path.home", home), ROW("os.getenv", environment),
        ROW("os.environ.get", environment),
        ROW("os.getenvb", environment), ROW("os.environb.get", environment), ROW("os.environ.__getitem__", environment),
        ROW("urllib.parse.unquote", from_percent), ROW("urllib.parse.unquote_plus", from_percent),
        /* imported before, by other code of the same session */
        ROW("Path", join_path), ROW("PurePath", join_path), ROW("Path.home", home), ROW("expanduser", as_text), ROW("import_module", import_module),
        ROW("b64decode", from_base64), ROW("unhexlify", from_hex), ROW("unquote", from_percent),
};

static const struct row *find_function(const struct value *callee)
{
        for (size_t i = 0; callee->kind == VALUE_NAME && callee->size > 0 && i < ARRAY_SIZE(functions); i++)
                if (functions[i].size == callee->size && memcmp(functions[i].name, callee->text, callee->size) == 0)
                        return &functions[i];
        return NULL;
}

/* name(): what a method of the result is called by. */
static struct value result_name(struct reader *r, const struct value *callee, const char *name, size_t size)
{
        size_t before = callee->size, all = before + (name ? 1 + size : 0) + 2;
        char *p = callee->kind == VALUE_NAME && all <= READER_NAME_BYTES_MAX ? reader_allocate(r, all) : NULL;

        if (!p)
                return value_unknown(callee->place);
        memcpy(p, callee->text, before);
        if (name) {
                p[before++] = '.';
                memcpy(p + before, name, size);
        }
        p[all - 2] = '(';
        p[all - 1] = ')';
        return value_name(p, all, callee->place);
}

struct value fold_call(struct reader *r, struct value *callee, const char *name, size_t size, struct value *args, uint32_t n)
{
        const struct row *row = name ? NULL : find_function(callee);
        struct value before = *callee;
        size_t call_size = 0;

        if (name && callee->kind == VALUE_TEXT && fold_method(r, callee, name, size, args, n))
                return *callee;
        const char *call = tell_call(r, callee, name, size, args, n, &call_size);
        say_nothing(r, callee, args, n);
        tell_command(r, callee, args, n);
        if (row && row->call == home)
                return value_text("~", 1, callee->place);
        if (row && row->call(r, args, n)) {
                struct value v = args[0];
                v.place = callee->place;
                v.flags &= (uint8_t)~(VALUE_KEYWORD | VALUE_LONE | VALUE_STAR | (v.kind == VALUE_TEXT ? VALUE_SHOWN : 0));
                if (!(v.flags & VALUE_CHR))
                        v.path = NULL;
                return v;
        }
        reader_show(r, callee);
        show_from(r, args, n, 0);
        struct value result = result_name(r, &before, name, size);
        if (call && call_size <= READER_INNER_BYTES_MAX) {
                result.call = call;
                result.call_size = (uint8_t)call_size;
        }
        return result;
}
