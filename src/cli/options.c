/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"

#include "base/quote.h"
#include "base/suggest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLAGS_MAX 64     /* of one verb, when the nearest is looked for */
#define FLAG_NAME_MAX 64 /* of one that somebody typed; longer ones are cut */

/* A policy row as an option of the command line; false when only the file can set it. */
static bool policy_row(const struct policy_option *row, struct option *ret)
{
        if (!row->flag)
                return false;
        *ret = (struct option){
                .id = OPT_POLICY_KEY,
                .name = row->flag,
                .value = row->type == OPTION_BOOL ? VALUE_OPTIONAL : VALUE_REQUIRED,
                .placeholder = row->type == OPTION_BOOL ? "BOOL" : row->placeholder,
                .env = row->env,
                .key = row->key,
                .help = row->help,
                .fallback = strcmp(row->fallback, NAME_DEFAULT) == 0 ? NULL : row->fallback, /* the help has said it */
        };
        ret->words = policy_option_words(row);
        if (ret->words)
                ret->completion = COMPLETE_WORDS;
        return true;
}

bool options_next(const struct option_set *set, size_t *i, struct option *ret)
{
        if (*i < set->n_rows) {
                *ret = set->rows[(*i)++];
                return true;
        }
        while (set->policy && *i - set->n_rows < n_policy_options)
                if (policy_row(&policy_options[(*i)++ - set->n_rows], ret))
                        return true;
        return false;
}

/* The flag that was meant, or NULL. Its beginning is enough: "--mem" finds "--memory". */
static const char *nearest_flag(const struct option_set *set, const char *name)
{
        const char *names[FLAGS_MAX];
        struct option o;
        size_t n = 0, length = strlen(name);

        for (size_t i = 0; n < ARRAY_SIZE(names) && options_next(set, &i, &o);) {
                if (!o.name || o.hidden)
                        continue;
                if (length >= 3 && strncmp(o.name, name, length) == 0)
                        return o.name;
                names[n++] = o.name;
        }
        return length > 0 ? suggest_nearest(name, names, n) : NULL;
}

static int unknown_flag(const struct option_set *set, const struct arguments *a, const char *word, gb_error *err)
{
        char name[FLAG_NAME_MAX];

        snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + strspn(word, "-"), "="), word + strspn(word, "-"));
        const char *near = word[1] == '-' ? nearest_flag(set, name) : NULL;
        if (!near)
                return error_set(err, GB_E_USAGE, 0, "unknown flag %s%s", quote(word).text,
                                 a->n_words > 0 ? "; did you mean to pass it to the program? put -- before it" : "");
        return error_set(err, GB_E_USAGE, 0, "unknown flag %s; did you mean --%s?%s", quote(word).text, near,
                         a->n_words > 0 ? " (to pass it to the program, put -- before it)" : "");
}

/* "--name", "--name=value"; *ret_value points behind the "=" or is NULL. */
static bool find_long(const struct option_set *set, const char *word, struct option *ret, const char **ret_value)
{
        size_t length = strcspn(word, "=");

        for (size_t i = 0; options_next(set, &i, ret);)
                if (ret->name && strlen(ret->name) == length && strncmp(ret->name, word, length) == 0) {
                        *ret_value = word[length] == '=' ? word + length + 1 : NULL;
                        return true;
                }
        return false;
}

/* "-c", "-cCODE"; letters without a value stand alone. */
static bool find_letter(const struct option_set *set, const char *word, struct option *ret, const char **ret_value)
{
        for (size_t i = 0; options_next(set, &i, ret);)
                if (ret->letter && ret->letter == word[0] && (!word[1] || ret->value == VALUE_REQUIRED)) {
                        *ret_value = word[1] ? word + 1 : NULL;
                        return true;
                }
        return false;
}

/* One word that begins with "-"; moves *argv when the next word is its value. */
static int parse_flag(const struct option_set *set, char ***argv, struct arguments *a, gb_error *err)
{
        const char *word = **argv, *value = NULL;
        struct option o;

        bool is_long = word[1] == '-';
        if (is_long ? !find_long(set, word + 2, &o, &value) : !find_letter(set, word + 1, &o, &value))
                return unknown_flag(set, a, word, err);
        if (value && o.value == VALUE_NONE)
                return error_set(err, GB_E_USAGE, 0, "--%s takes no value", o.name);
        if (!value && o.value == VALUE_REQUIRED) {
                value = (*argv)[1];
                if (!value)
                        return error_set(err, GB_E_USAGE, 0, "%s needs a value: %s %s", word, word, o.placeholder);
                (*argv)++;
        }
        a->uses[a->n_uses++] = (struct option_use){o, value};
        return 0;
}

int options_parse(const struct option_set *set, char **argv, struct arguments *ret, gb_error *err)
{
        size_t n = 0;

        *ret = (struct arguments){0};
        while (argv[n])
                n++;
        if (n == 0)
                return 0;
        ret->uses = calloc(n, sizeof(*ret->uses));
        ret->words = calloc(n, sizeof(*ret->words));
        if (!ret->uses || !ret->words)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");

        for (; *argv; argv++) {
                if (strcmp(*argv, "--") == 0) {
                        ret->rest = argv + 1;
                        return 0;
                }
                if ((*argv)[0] != '-' || (*argv)[1] == '\0') {
                        ret->words[ret->n_words++] = *argv;
                        continue;
                }
                int r = parse_flag(set, &argv, ret, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

void arguments_done(struct arguments *a)
{
        free(a->uses);
        free(a->words);
        *a = (struct arguments){0};
}

static const struct option_use *last_use(const struct arguments *a, enum option_id id)
{
        for (size_t i = a->n_uses; i > 0; i--)
                if (a->uses[i - 1].option.id == id)
                        return &a->uses[i - 1];
        return NULL;
}

bool arguments_has(const struct arguments *a, enum option_id id)
{
        return last_use(a, id) != NULL;
}

const char *arguments_get(const struct arguments *a, enum option_id id)
{
        const struct option_use *use = last_use(a, id);

        return use ? use->value : NULL;
}

size_t arguments_count(const struct arguments *a, enum option_id id)
{
        size_t n = 0;

        for (size_t i = 0; i < a->n_uses; i++)
                n += a->uses[i].option.id == id;
        return n;
}

const char *arguments_get_or_env(const struct option_set *set, const struct arguments *a, enum option_id id)
{
        const char *value = arguments_get(a, id);
        struct option o;

        for (size_t i = 0; !value && options_next(set, &i, &o);)
                if (o.id == id && o.env) {
                        value = getenv(o.env);
                        if (value && !*value)
                                value = NULL;
                }
        return value;
}
