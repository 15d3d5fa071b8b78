/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/server_exec.h"

#include "base/limits.h"
#include "base/path.h"
#include "base/quote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM "glovebox-server"

/* Options whose value is a path of the host: what reads them may be elsewhere by then. */
static const enum option_id paths[] = {OPT_CONFIG, OPT_DIRECTORY, OPT_POLICY, OPT_TLS_CERT, OPT_TLS_KEY, OPT_WORKSPACES};

struct argv {
        char **words; /* owned, and so is each of them */
        size_t n;
};

static void argv_done(struct argv *v)
{
        for (size_t i = 0; i < v->n; i++)
                free(v->words[i]);
        free(v->words);
}

static int add(struct argv *v, char *word)
{
        if (!word)
                return -ENOMEM;
        v->words[v->n++] = word;
        return 0;
}

static bool is_path(enum option_id id)
{
        for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
                if (paths[i] == id)
                        return true;
        return false;
}

static char *absolute(const char *path)
{
        _cleanup_free_ char *cwd = path[0] == '/' ? NULL : getcwd(NULL, 0);
        char *joined;

        if (path[0] == '/' || !cwd)
                return strdup(path);
        return asprintf(&joined, "%s/%s", cwd, path) < 0 ? NULL : joined;
}

/* "--name=value": a value that begins with - stays a value. */
static char *flag(const struct option_use *use)
{
        _cleanup_free_ char *value = use->value ? is_path(use->option.id) ? absolute(use->value) : strdup(use->value) : NULL;
        char *text;

        if (use->value && !value)
                return NULL;
        return asprintf(&text, "--%s%s%s", use->option.name, value ? "=" : "", value ? value : "") < 0 ? NULL : text;
}

static int fill(struct argv *v, const struct command *command, const struct arguments *a)
{
        v->words = calloc(a->n_uses + a->n_words + 4, sizeof(*v->words));
        int r = v->words ? add(v, strdup(PROGRAM)) : -ENOMEM;
        if (r == 0)
                r = add(v, strdup(command->name));
        if (r == 0 && command->sub)
                r = add(v, strdup(command->sub));
        for (size_t i = 0; i < a->n_uses && r == 0; i++)
                r = add(v, flag(&a->uses[i]));
        for (size_t i = 0; i < a->n_words && r == 0; i++)
                r = add(v, strdup(a->words[i]));
        return r;
}

int server_exec(const struct command *command, const struct arguments *arguments)
{
        _cleanup_(argv_done) struct argv v = {0};
        _cleanup_free_ char *path = NULL;
        gb_error err = {0};

        if (path_libexec(PROGRAM, &path) < 0 || fill(&v, command, arguments) < 0)
                error_set(&err, GB_E_INTERNAL, ENOMEM, "out of memory");
        else {
                execv(path, v.words);
                error_set(&err, GB_E_INTERNAL, errno, "cannot start %s: %s; it belongs to the installation (GLOVEBOX_LIBEXEC_DIR says where that is)",
                          quote(path).text, strerror(errno));
        }
        return command_fail(arguments, &err);
}
