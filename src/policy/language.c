/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/language.h"

#include "base/parse.h"
#include "base/suggest.h"
#include "base/quote.h"
#include "base/document.h"
#include "policy/list.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define NAME_BYTES_MAX 32

/* Used when no file is installed. */
static const char builtin_text[] =
        "languages:\n"
        "  python: {aliases: [python3, py], extensions: [py], file: main.py, run: [python3, '{file}'],\n"
        "    env: {PYTHONDONTWRITEBYTECODE: 1, PYTHONPATH: '{workspace}', PYTHONSAFEPATH: 1}, etc: [fonts, matplotlibrc],\n"
        "    memory_min: 16m, context: python}\n"
        "  bash: {extensions: [bash], file: main.bash, run: [bash, '{file}'], context: bash}\n"
        "  sh: {extensions: [sh], file: main.sh, run: [sh, '{file}']}\n";

struct reader {
        const struct document *doc;
        struct language *row;
        gb_error *err;
};

static void words_free(char **words)
{
        for (; *words; words++)
                free(*words);
}

void languages_free(struct languages *l)
{
        if (!l)
                return;
        for (size_t i = 0; i < l->n; i++) {
                struct language *row = &l->rows[i];
                free(row->name);
                free(row->file);
                free(row->context);
                words_free(row->aliases);
                words_free(row->extensions);
                words_free(row->etc);
                words_free(row->compile);
                words_free(row->run);
                words_free(row->env);
        }
        free(l);
}

static int no_memory(gb_error *err)
{
        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
}

static bool is_name(const char *text)
{
        size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789+#_-");

        return n > 0 && n <= NAME_BYTES_MAX && text[n] == '\0' && islower((unsigned char)text[0]);
}

static bool is_extension(const char *text)
{
        size_t n = 0;

        while (isalnum((unsigned char)text[n]) || text[n] == '+' || text[n] == '_')
                n++;
        return n > 0 && n <= NAME_BYTES_MAX && text[n] == '\0';
}

static bool is_word(const char *text)
{
        return *text != '\0' && strlen(text) < HOST_PATH_MAX;
}

static int read_aliases(struct reader *rd, const struct place *at)
{
        return place_read_words(at, rd->row->aliases, LANGUAGE_EXTENSIONS_MAX, is_name, "names in small letters", rd->err);
}

static int read_extensions(struct reader *rd, const struct place *at)
{
        return place_read_words(at, rd->row->extensions, LANGUAGE_EXTENSIONS_MAX, is_extension, "extensions without the dot", rd->err);
}

/* A name in /etc: parts of plain characters, none of them hidden or a way up. */
static bool is_etc_name(const char *text)
{
        size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-/");

        return n > 0 && n <= 64 && text[n] == '\0' && text[0] != '/' && text[0] != '.' && !strstr(text, "/.") && !strstr(text, "//") &&
               text[n - 1] != '/';
}

static int read_etc(struct reader *rd, const struct place *at)
{
        return place_read_words(at, rd->row->etc, LANGUAGE_ETC_MAX, is_etc_name, "names in /etc, such as fonts or ssl/certs", rd->err);
}

static int read_compile(struct reader *rd, const struct place *at)
{
        return place_read_words(at, rd->row->compile, COMMAND_WORDS_MAX, is_word, "words of a command", rd->err);
}

static int read_run(struct reader *rd, const struct place *at)
{
        return place_read_words(at, rd->row->run, COMMAND_WORDS_MAX, is_word, "words of a command", rd->err);
}

static int read_file_name(struct reader *rd, const struct place *at)
{
        const char *text = place_text(at);

        if (!text)
                return place_error(at, NULL, rd->err, "%s; allowed: a file name", place_kind(at));
        size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-");
        if (n == 0 || n > 64 || text[n] != '\0' || text[0] == '.' || text[0] == '-')
                return place_error(at, NULL, rd->err, "%s; allowed: letters, digits and . _ + -, at most 64", quote(text).text);
        rd->row->file = strdup(text);
        return rd->row->file ? 0 : no_memory(rd->err);
}

static int read_env(struct reader *rd, const struct place *at)
{
        const json_t *map = place_value(at);
        const char *key;
        json_t *value;
        size_t n = 0;

        if (!json_is_object(map))
                return place_error(at, NULL, rd->err, "%s; allowed: a mapping of NAME: value", place_kind(at));
        if (json_object_size(map) > LANGUAGE_ENV_MAX)
                return place_error(at, NULL, rd->err, "too many; at most %d", LANGUAGE_ENV_MAX);
        json_object_foreach((json_t *)map, key, value) {
                struct place item = {rd->doc, map, key, 0};

                if (env_check_name(key, rd->err) < 0)
                        return place_fail(&item, "env", rd->err);
                if (!place_text(&item))
                        return place_error(&item, "env", rd->err, "%s is %s; allowed: a text or number, \"\" for an empty one",
                                           quote(key).text, place_kind(&item));
                if (asprintf(&rd->row->env[n], "%s=%s", key, place_text(&item)) < 0) {
                        rd->row->env[n] = NULL;
                        return no_memory(rd->err);
                }
                n++;
        }
        return 0;
}

static int read_memory_min(struct reader *rd, const struct place *at)
{
        const char *text = place_text(at);

        if (!text || parse_size(text, &rd->row->memory_min_bytes) < 0)
                return place_error(at, NULL, rd->err, "%s is not a size; allowed: a size such as 16m",
                                   text ? quote(text).text : place_kind(at));
        return 0;
}

/* Only what glovebox ships a runner for. */
static int read_context(struct reader *rd, const struct place *at)
{
        static const char *const runners[] = {"python", "bash", "node"};
        const char *text = place_text(at);

        for (size_t i = 0; text && i < ARRAY_SIZE(runners); i++)
                if (strcmp(text, runners[i]) == 0) {
                        rd->row->context = strdup(text);
                        return rd->row->context ? 0 : no_memory(rd->err);
                }
        return place_error(at, NULL, rd->err, "%s; allowed: python, bash or node", text ? quote(text).text : place_kind(at));
}

static const char *const key_names[] = {"aliases", "extensions", "file", "compile", "run", "env", "etc", "memory_min", "context"};
static int (*const key_readers[])(struct reader *, const struct place *) = {
        read_aliases, read_extensions, read_file_name, read_compile, read_run, read_env, read_etc, read_memory_min, read_context,
};

static int read_key(struct reader *rd, const struct place *at)
{
        for (size_t i = 0; i < ARRAY_SIZE(key_names); i++)
                if (strcmp(key_names[i], at->key) == 0)
                        return key_readers[i](rd, at);
        return place_unknown_key(at, key_names, ARRAY_SIZE(key_names), rd->err);
}

static bool has_placeholder(char *const *words, const char *placeholder)
{
        for (; *words; words++)
                if (strstr(*words, placeholder))
                        return true;
        return false;
}

static int check_row(const struct language *row, const struct place *at, gb_error *err)
{
        if (!row->run[0])
                return place_error(at, NULL, err, "no command; give run, such as [python3, \"{file}\"]");
        if (!row->file)
                return place_error(at, NULL, err, "no file; give the name of the code in the box, such as main.py");
        if (row->compile[0] && !(has_placeholder(row->compile, "{out}") && has_placeholder(row->compile, "{file}")))
                return place_error(at, NULL, err, "compile must hold {file} and {out}");
        if (!row->compile[0] && !has_placeholder(row->run, "{file}"))
                return place_error(at, NULL, err, "run must hold {file}");
        if (!row->compile[0] && has_placeholder(row->run, "{out}"))
                return place_error(at, NULL, err, "run holds {out}, but there is no compile that makes it");
        return 0;
}

static const struct language *find_name(const struct languages *l, const char *name)
{
        for (size_t i = 0; i < l->n; i++) {
                if (strcasecmp(l->rows[i].name, name) == 0)
                        return &l->rows[i];
                for (char *const *alias = l->rows[i].aliases; *alias; alias++)
                        if (strcasecmp(*alias, name) == 0)
                                return &l->rows[i];
        }
        return NULL;
}

static const struct language *find_extension(const struct languages *l, const char *extension)
{
        for (size_t i = 0; i < l->n; i++)
                for (char *const *e = l->rows[i].extensions; *e; e++)
                        if (strcmp(*e, extension) == 0)
                                return &l->rows[i];
        return NULL;
}

/* A name, alias or extension belongs to one row; which one wins must not be a matter of order. */
static int check_unique(const struct languages *l, const struct language *row, const struct place *at, gb_error *err)
{
        for (char *const *alias = row->aliases; *alias; alias++)
                if (find_name(l, *alias) != row)
                        return place_error(at, NULL, err, "the alias %s is already that of another language", quote(*alias).text);
        if (find_name(l, row->name) != row)
                return place_error(at, NULL, err, "the name is already the alias of another language");
        for (char *const *e = row->extensions; *e; e++)
                if (find_extension(l, *e) != row)
                        return place_error(at, NULL, err, "the extension %s is already that of another language", quote(*e).text);
        return 0;
}

static int read_language(void *into, const struct place *at, gb_error *err)
{
        struct languages *l = into;
        const json_t *map = place_value(at);
        const char *key;
        json_t *value;

        if (!is_name(at->key))
                return place_error(at, "languages", err, "%s is not a name; allowed: a small letter, then small letters, digits, + # _ -, at most %d in all",
                                   quote(at->key).text, NAME_BYTES_MAX);
        if (!json_is_object(map))
                return place_error(at, NULL, err, "%s; allowed: a mapping of keys", place_kind(at));
        if (l->n == LANGUAGE_COUNT_MAX)
                return place_error(at, "languages", err, "too many; at most %d", LANGUAGE_COUNT_MAX);

        struct reader rd = {at->doc, &l->rows[l->n++], err};
        rd.row->name = strdup(at->key);
        if (!rd.row->name)
                return no_memory(err);
        json_object_foreach((json_t *)map, key, value) {
                int r = read_key(&rd, &(struct place){at->doc, map, key, 0});
                if (r < 0)
                        return r;
        }
        int r = check_row(rd.row, at, err);
        return r < 0 ? r : check_unique(l, rd.row, at, err);
}

int languages_parse(const char *name, const char *text, size_t size, struct languages **ret, gb_error *err)
{
        _cleanup_languages_ struct languages *l = calloc(1, sizeof(*l));
        _cleanup_document_ struct document *doc = NULL;

        if (!l)
                return no_memory(err);
        int r = document_parse(name, text, size, &doc, err);
        if (r == 0)
                r = document_rows(doc, "languages", read_language, l, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(l);
        return 0;
}

int languages_load(const char *file, struct languages **ret, gb_error *err)
{
        _cleanup_languages_ struct languages *l = calloc(1, sizeof(*l));

        if (!l)
                return no_memory(err);
        int r = document_rows_load(file, "languages", builtin_text, read_language, l, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(l);
        return 0;
}

int language_by_name(const struct languages *l, const char *name, const struct language **ret, gb_error *err)
{
        const char *names[LANGUAGE_COUNT_MAX * (LANGUAGE_EXTENSIONS_MAX + 1)];
        char list[240] = "", *end = list;
        size_t n = 0;

        const struct language *row = find_name(l, name);
        if (row) {
                *ret = row;
                return 0;
        }
        for (size_t i = 0; i < l->n; i++) {
                names[n++] = l->rows[i].name;
                if (strlen(l->rows[i].name) + 3 < (size_t)(list + sizeof(list) - end))
                        end += sprintf(end, "%s%s", i ? ", " : "", l->rows[i].name);
                for (char *const *alias = l->rows[i].aliases; *alias; alias++)
                        names[n++] = *alias;
        }
        const char *nearest = suggest_nearest(name, names, n);
        return error_set(err, GB_E_NOT_FOUND, ENOENT, "there is no language %s%s%s%s%s", quote(name).text,
                         nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"? There are: " : "; there are: ", list);
}

int language_by_file(const struct languages *l, const char *file_name, const struct language **ret, gb_error *err)
{
        const char *slash = strrchr(file_name, '/'), *base = slash ? slash + 1 : file_name;
        const char *dot = strrchr(base, '.');
        const struct language *row = dot && dot > base ? find_extension(l, dot + 1) : NULL;

        if (!row)
                return error_set(err, GB_E_NOT_FOUND, ENOENT, "the language of %s is not known by its name; say it with --lang, such as --lang python",
                                 quote(base).text);
        *ret = row;
        return 0;
}

static bool is_found(const char *word)
{
        static const char *const directories[] = {"/usr/local/bin", "/usr/bin", "/usr/local/sbin", "/usr/sbin"};
        char path[PATH_MAX];

        if (strchr(word, '/'))
                return access(word, X_OK) == 0;
        for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
                snprintf(path, sizeof(path), "%s/%s", directories[i], word);
                if (access(path, X_OK) == 0)
                        return true;
        }
        return false;
}

bool language_is_found(const struct language *l)
{
        const char *word = l->compile[0] ? l->compile[0] : l->run[0];

        return word && is_found(word);
}
