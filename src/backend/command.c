/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/command.h"

#include "base/buffer.h"
#include "policy/network.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMPILED_FILE "glovebox-program"

static const char *const base_env[] = {
        "PATH=/usr/local/bin:/usr/bin:/bin", "HOME={tmp}", "USER=sandbox", "LOGNAME=sandbox", "LANG=C.UTF-8", "TMPDIR={tmp}",
        "TERM=dumb",
};

/* What stands in a word for something else. */
struct fill {
        const char *file, *out, *runner;
};

struct command *command_new(void)
{
        return calloc(1, sizeof(struct command));
}

/* Some of the variables are secrets. */
static void word_free(char *word)
{
        if (word)
                explicit_bzero(word, strlen(word));
        free(word);
}

static void words_done(struct words *w)
{
        for (size_t i = 0; i < w->n; i++)
                word_free(w->list[i]);
}

void command_free(struct command *c)
{
        if (!c)
                return;
        words_done(&c->compile);
        words_done(&c->run);
        words_done(&c->env);
        free(c);
}

static int words_add(struct words *w, char *word, gb_error *err)
{
        if (!word)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (w->n >= ARRAY_SIZE(w->list) - 1) {
                word_free(word);
                return error_set(err, GB_E_LIMIT, E2BIG, "the program has more than %d arguments", ARG_COUNT_MAX);
        }
        w->list[w->n++] = word;
        return 0;
}

/* A new string with {file}, {out} and {runner} replaced. */
static char *expand(const char *word, const struct fill *fill)
{
        const struct {
                const char *name, *text;
        } places[] = {{"{file}", fill->file}, {"{out}", fill->out}, {"{runner}", fill->runner}};
        struct buffer b;

        buffer_init(&b, BOX_PATH_MAX * 4);
        for (const char *at = word; *at;) {
                const char *text = NULL;
                for (size_t i = 0; i < ARRAY_SIZE(places) && !text; i++)
                        if (places[i].text && strncmp(at, places[i].name, strlen(places[i].name)) == 0) {
                                text = places[i].text;
                                at += strlen(places[i].name);
                        }
                int r = text ? buffer_add_string(&b, text) : buffer_add(&b, at++, 1);
                if (r < 0) {
                        buffer_done(&b);
                        return NULL;
                }
        }
        return b.data ? b.data : strdup("");
}

static int add_words(struct words *w, char *const *template, const struct fill *fill, char *const *args, gb_error *err)
{
        int r = 0;

        for (size_t i = 0; r == 0 && template[i]; i++)
                r = words_add(w, expand(template[i], fill), err);
        for (size_t i = 0; r == 0 && args && args[i]; i++)
                r = words_add(w, strdup(args[i]), err);
        return r;
}

/* Adds NAME=value, in the place of an earlier one of the same name. */
static int env_put(struct words *w, char *text, gb_error *err)
{
        if (!text)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        size_t name = (size_t)(strchrnul(text, '=') - text);
        for (size_t i = 0; i < w->n; i++)
                if (strncmp(w->list[i], text, name) == 0 && w->list[i][name] == '=') {
                        word_free(w->list[i]);
                        w->list[i] = text;
                        return 0;
                }
        return words_add(w, text, err);
}

static int set_env(struct command *c, const struct language *language, const struct policy *policy, gb_error *err)
{
        struct words *w = &c->env;
        int r = 0;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(base_env); i++)
                r = env_put(w, policy_fill_places(policy, base_env[i]), err);
        for (size_t i = 0; r == 0 && language->env[i]; i++)
                r = env_put(w, policy_fill_places(policy, language->env[i]), err);
        for (const char *const *e = network_env(policy); r == 0 && *e; e++)
                r = env_put(w, strdup(*e), err);
        for (size_t i = 0; r == 0 && i < policy->n_env; i++) {
                char *text = NULL;
                if (asprintf(&text, "%s=%s", policy->env[i].name, policy->env[i].value) < 0)
                        text = NULL;
                r = env_put(w, text, err);
        }
        for (size_t i = 0; r == 0 && i < policy->n_secrets; i++) {
                char *text = NULL;
                if (policy->secrets[i].path || network_uses_secret(policy, policy->secrets[i].name))
                        continue;
                if (asprintf(&text, "%s=%s", policy->secrets[i].name, policy->secrets[i].value) < 0)
                        text = NULL;
                r = env_put(w, text, err);
        }
        if (r == 0 && w->n > ENV_COUNT_MAX)
                r = error_set(err, GB_E_LIMIT, E2BIG, "more than %d environment variables", ENV_COUNT_MAX);
        return r;
}

static size_t bytes_of(const struct words *w)
{
        size_t bytes = 0;

        for (size_t i = 0; i < w->n; i++)
                bytes += strlen(w->list[i]) + 1;
        return bytes;
}

int command_place(struct code_place *ret, const struct policy *policy, const char *code_name, int slot, gb_error *err)
{
        snprintf(ret->dir, sizeof(ret->dir), BOX_CODE_DIR);
        snprintf(ret->out, sizeof(ret->out), "%s/" COMPILED_FILE, policy_tmp(policy));
        if (slot >= 0) {
                snprintf(ret->dir, sizeof(ret->dir), BOX_CODE_DIR "/%d", slot);
                snprintf(ret->out, sizeof(ret->out), "%s/" COMPILED_FILE "-%d", policy_tmp(policy), slot);
        }
        if ((size_t)snprintf(ret->file, sizeof(ret->file), "%s/%s", ret->dir, code_name) >= sizeof(ret->file))
                return error_set(err, GB_E_LIMIT, ENAMETOOLONG, "the name of the code is too long");
        return 0;
}

int command_set_program(struct command *c, const struct language *language, const struct policy *policy, const struct code_place *place,
                        char *const *args, gb_error *err)
{
        struct fill fill = {.file = place->file, .out = place->out};
        int r = 0;

        if (language->compile[0])
                r = add_words(&c->compile, language->compile, &fill, NULL, err);
        if (r == 0)
                r = add_words(&c->run, language->run, &fill, args, err);
        if (r == 0)
                r = set_env(c, language, policy, err);
        if (r == 0 && bytes_of(&c->run) + bytes_of(&c->env) > ARG_BYTES_MAX)
                r = error_set(err, GB_E_LIMIT, E2BIG, "the arguments and variables of the program are more than %llu KB together",
                              ARG_BYTES_MAX / KIB);
        return r;
}

/* How each runner is started; the first word is in the place of the language's own. */
static const struct {
        const char *name;
        char *words[8];
} runners[] = {
        {"python", {NULL, (char *)(uintptr_t)"-c", (char *)(uintptr_t)"import sys; sys.path.insert(0, '{runner}'); "
                    "import glovebox_runner; glovebox_runner.main(['', '20'])", NULL}},
        {"bash", {NULL, (char *)(uintptr_t)"--norc", (char *)(uintptr_t)"--noprofile", (char *)(uintptr_t)"-c",
                  (char *)(uintptr_t)". {runner}/bash_runner.bash; eval \"$__gb_loop\"", (char *)(uintptr_t)"bash", NULL}},
        {"node", {NULL, (char *)(uintptr_t)"{runner}/node_runner.js", NULL}},
};

int command_set_context(struct command *c, const struct language *l, const struct policy *policy, const char *runner_dir, gb_error *err)
{
        struct fill fill = {.runner = runner_dir};

        for (size_t i = 0; l->context && i < ARRAY_SIZE(runners); i++) {
                if (strcmp(runners[i].name, l->context) != 0)
                        continue;
                char *words[ARRAY_SIZE(runners[i].words)];
                memcpy(words, runners[i].words, sizeof(words));
                words[0] = l->run[0];
                int r = add_words(&c->run, words, &fill, NULL, err);
                return r < 0 ? r : set_env(c, l, policy, err);
        }
        return error_set(err, GB_E_USAGE, EINVAL, "%s keeps no state from run to run; languages with contexts are python, bash and node", l->name);
}

int command_set_words(struct command *c, const struct language *language, const struct policy *policy, char *const *words, char *const *more,
                      gb_error *err)
{
        struct fill fill = {0};
        int r = add_words(&c->run, words, &fill, more, err);

        return r < 0 ? r : set_env(c, language, policy, err);
}
