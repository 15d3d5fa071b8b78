/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/native/command.h"

#include "backend/native/root.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define COMPILED_FILE "/tmp/glovebox-program"
#define BOX_HOME_VARIABLE "HOME=" BOX_HOME

static const char *const base_env[] = {
        "PATH=/usr/local/bin:/usr/bin:/bin", BOX_HOME_VARIABLE, "USER=sandbox", "LOGNAME=sandbox", "LANG=C.UTF-8", "TMPDIR=/tmp",
        "TERM=dumb",
};

/* A list of strings it owns, with a fixed number of places. */
struct words {
        char *list[ARG_COUNT_MAX + COMMAND_WORDS_MAX + 1];
        size_t n;
};

static void words_free(struct words *w)
{
        for (size_t i = 0; i < w->n; i++)
                free(w->list[i]);
        free(w);
}
DEFINE_CLEANUP(struct words, words_free)

static int words_add(struct words *w, char *word, gb_error *err)
{
        if (!word)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (w->n >= ARRAY_SIZE(w->list) - 1) {
                free(word);
                return error_set(err, GB_E_LIMIT, E2BIG, "the program has more than %d arguments", ARG_COUNT_MAX);
        }
        w->list[w->n++] = word;
        return 0;
}

/* A new string with {file} and {out} replaced. */
static char *expand(const char *word, const char *file)
{
        struct buffer b;

        buffer_init(&b, BOX_PATH_MAX * 4);
        for (const char *at = word; *at;) {
                int r;
                if (strncmp(at, "{file}", 6) == 0) {
                        r = buffer_add_string(&b, file);
                        at += 6;
                } else if (strncmp(at, "{out}", 5) == 0) {
                        r = buffer_add_string(&b, COMPILED_FILE);
                        at += 5;
                } else {
                        r = buffer_add(&b, at++, 1);
                }
                if (r < 0) {
                        buffer_done(&b);
                        return NULL;
                }
        }
        return b.data ? b.data : strdup("");
}

static int plan_command(struct box_plan *p, char *const *template, const char *file, char *const *args, gb_error *err)
{
        _cleanup_(words_free_ptr) struct words *w = calloc(1, sizeof(*w));
        int r = w ? 0 : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");

        for (size_t i = 0; r == 0 && template[i]; i++)
                r = words_add(w, expand(template[i], file), err);
        for (size_t i = 0; r == 0 && args && args[i]; i++)
                r = words_add(w, strdup(args[i]), err);
        if (r == 0)
                r = plan_words(p, w->list, &p->commands[p->n_commands], err);
        if (r == 0)
                p->n_commands++;
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
                        free(w->list[i]);
                        w->list[i] = text;
                        return 0;
                }
        return words_add(w, text, err);
}

static int plan_env(struct box_plan *p, const struct box_request *request, gb_error *err)
{
        const struct policy *policy = request->policy;
        _cleanup_(words_free_ptr) struct words *w = calloc(1, sizeof(*w));
        int r = w ? 0 : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(base_env); i++)
                r = env_put(w, strdup(base_env[i]), err);
        for (size_t i = 0; r == 0 && request->language->env[i]; i++)
                r = env_put(w, strdup(request->language->env[i]), err);
        for (size_t i = 0; r == 0 && i < policy->n_env; i++) {
                char *text = NULL;
                if (asprintf(&text, "%s=%s", policy->env[i].name, policy->env[i].value) < 0)
                        text = NULL;
                r = env_put(w, text, err);
        }
        if (r == 0 && w->n > ENV_COUNT_MAX)
                r = error_set(err, GB_E_LIMIT, E2BIG, "more than %d environment variables", ENV_COUNT_MAX);
        return r < 0 ? r : plan_words(p, w->list, &p->env, err);
}

int command_plan(struct box_plan *p, const struct box_request *request, gb_error *err)
{
        char file[BOX_PATH_MAX];
        int r = 0;

        if ((size_t)snprintf(file, sizeof(file), BOX_CODE_DIR "/%s", request->code_name) >= sizeof(file))
                return error_set(err, GB_E_LIMIT, ENAMETOOLONG, "the name of the code is too long");
        p->cwd = BOX_WORKSPACE;
        if (request->language->compile[0])
                r = plan_command(p, request->language->compile, file, NULL, err);
        if (r == 0)
                r = plan_command(p, request->language->run, file, request->args, err);
        if (r == 0)
                r = plan_env(p, request, err);
        if (r == 0 && p->commands[p->n_commands - 1].size + p->env.size > ARG_BYTES_MAX)
                r = error_set(err, GB_E_LIMIT, E2BIG, "the arguments and variables of the program are more than %llu KB together",
                              ARG_BYTES_MAX / KIB);
        return r;
}
