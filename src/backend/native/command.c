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
static char *expand(const char *word, const char *file, const char *out)
{
        struct buffer b;

        buffer_init(&b, BOX_PATH_MAX * 4);
        for (const char *at = word; *at;) {
                int r;
                if (strncmp(at, "{file}", 6) == 0) {
                        r = buffer_add_string(&b, file);
                        at += 6;
                } else if (strncmp(at, "{out}", 5) == 0) {
                        r = buffer_add_string(&b, out);
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

static int plan_command(struct box_plan *p, char *const *template, const char *file, const char *out, char *const *args, gb_error *err)
{
        _cleanup_(words_free_ptr) struct words *w = calloc(1, sizeof(*w));
        int r = w ? 0 : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");

        for (size_t i = 0; r == 0 && template[i]; i++)
                r = words_add(w, expand(template[i], file, out), err);
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

/* Compiles file where the language wants that, runs it; with the environment. */
static int plan_run(struct box_plan *p, const struct box_request *request, const char *file, const char *out, gb_error *err)
{
        int r = 0;

        p->cwd = BOX_WORKSPACE;
        if (request->language->compile[0])
                r = plan_command(p, request->language->compile, file, out, NULL, err);
        if (r == 0)
                r = plan_command(p, request->language->run, file, out, request->args, err);
        if (r == 0)
                r = plan_env(p, request, err);
        if (r == 0 && p->commands[p->n_commands - 1].size + p->env.size > ARG_BYTES_MAX)
                r = error_set(err, GB_E_LIMIT, E2BIG, "the arguments and variables of the program are more than %llu KB together",
                              ARG_BYTES_MAX / KIB);
        return r;
}

int command_plan(struct box_plan *p, const struct box_request *request, gb_error *err)
{
        char file[BOX_PATH_MAX];

        if ((size_t)snprintf(file, sizeof(file), BOX_CODE_DIR "/%s", request->code_name) >= sizeof(file))
                return error_set(err, GB_E_LIMIT, ENAMETOOLONG, "the name of the code is too long");
        return plan_run(p, request, file, COMPILED_FILE, err);
}

int command_plan_once(struct box_plan *p, const struct box_request *request, int slot, gb_error *err)
{
        char dir[64] = BOX_CODE_DIR, file[BOX_PATH_MAX], out[64] = COMPILED_FILE;

        if (slot >= 0) {
                snprintf(dir, sizeof(dir), BOX_CODE_DIR "/%d", slot);
                snprintf(out, sizeof(out), COMPILED_FILE "-%d", slot);
        }
        if ((size_t)snprintf(file, sizeof(file), "%s/%s", dir, request->code_name) >= sizeof(file))
                return error_set(err, GB_E_LIMIT, ENAMETOOLONG, "the name of the code is too long");
        int r = slot >= 0 ? plan_dir(p, dir, 0755, 0, err) : 0;
        if (r == 0)
                r = plan_file(p, file, request->code, request->code_size, 0444, err);
        return r < 0 ? r : plan_run(p, request, file, out, err);
}

/* How each runner is started; the first word is in the place of the language's own. */
static const struct {
        const char *name;
        char *words[8];
} runners[] = {
        {"python", {NULL, (char *)(uintptr_t)"-c", (char *)(uintptr_t)"import sys; sys.path.insert(0, '" BOX_RUNNER_DIR "'); "
                    "import glovebox_runner; glovebox_runner.main(['', '20'])", NULL}},
        {"bash", {NULL, (char *)(uintptr_t)"--norc", (char *)(uintptr_t)"--noprofile", (char *)(uintptr_t)"-c",
                  (char *)(uintptr_t)". " BOX_RUNNER_DIR "/bash_runner.bash; eval \"$__gb_loop\"", (char *)(uintptr_t)"bash", NULL}},
        {"node", {NULL, (char *)(uintptr_t)BOX_RUNNER_DIR "/node_runner.js", NULL}},
};

int command_plan_context(struct box_plan *p, const struct box_request *request, gb_error *err)
{
        const struct language *l = request->language;

        p->cwd = BOX_WORKSPACE;
        for (size_t i = 0; l->context && i < ARRAY_SIZE(runners); i++) {
                if (strcmp(runners[i].name, l->context) != 0)
                        continue;
                char *words[ARRAY_SIZE(runners[i].words)];
                memcpy(words, runners[i].words, sizeof(words));
                words[0] = l->run[0];
                int r = plan_command(p, words, "", "", NULL, err);
                return r < 0 ? r : plan_env(p, request, err);
        }
        return error_set(err, GB_E_USAGE, EINVAL, "%s keeps no state from run to run; languages with contexts are python, bash and node", l->name);
}

int command_plan_template(struct box_plan *p, const struct box_request *request, const struct template *template, gb_error *err)
{
        char *words[] = {template->python, (char *)(uintptr_t)BOX_RUNNER_DIR "/glovebox_template.py", NULL};

        p->cwd = BOX_WORKSPACE;
        int r = plan_command(p, words, "", "", template->modules, err);
        return r < 0 ? r : plan_env(p, request, err);
}
