/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox run: one program in a box of its own, from the command line.
 *
 * Theory of operation. run_prepare() forks what needs privilege as soon as the flags are known to
 * be well-formed; while that comes up, this process reads the languages, the policy and the code.
 * run_execute() then does not return until the box is gone, and calls back with output, which
 * goes to one of three places: the streams of the same name, lines of events, or (with --json)
 * nowhere, because the result keeps it. Signals only count on an eventfd (signals.c). */
#include "engine/run.h"

#include "base/fd.h"
#include "base/quote.h"
#include "engine/warm.h"
#include "image/choose.h"
#include "cli/command.h"
#include "cli/run_server.h"
#include "cli/settings.h"
#include "cli/show.h"
#include "cli/signals.h"
#include "cli/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define USER_DEFAULT "1000:1000"
#define LANGUAGE_DEFAULT "python" /* of -c and - */
#define TEMPLATE_DEFAULT "python"

/* What a run is made of, wherever it runs. */
struct parts {
        struct templates *templates;
        struct languages *languages;
        struct policy *policy;
        struct source source;
        char *root; /* directory of the image or of --rootfs; NULL: the host's */
        struct run_request request; /* points into the others */
};

static void parts_done(struct parts *p)
{
        templates_free(p->templates);
        languages_free(p->languages);
        policy_free(p->policy);
        source_done(&p->source);
        free(p->root);
}

static int check_usage(const struct arguments *a, gb_error *err)
{
        bool code = arguments_has(a, OPT_CODE);
        size_t n_args = 0;

        if (arguments_count(a, OPT_CODE) > 1)
                return error_set(err, GB_E_USAGE, 0, "-c was given twice; one run has one program");
        if (code && a->n_words > 0)
                return error_set(err, GB_E_USAGE, 0, "both -c and %s were given; arguments for the program go after --",
                                 quote(a->words[0]).text);
        if (arguments_has(a, OPT_JSON) && arguments_has(a, OPT_EVENTS))
                return error_set(err, GB_E_USAGE, 0, "--json and --events exclude each other");
        if (!code && a->n_words == 0) {
                if (isatty(STDIN_FILENO))
                        return error_set(err, GB_E_USAGE, 0,
                                         "nothing to run: give a FILE, -c CODE, or - to type the program here; "
                                         "'glovebox run --help' has examples");
                return error_set(err, GB_E_USAGE, 0,
                                 "nothing to run: give a FILE or -c CODE; use - to read the program from standard input");
        }
        while (a->rest && a->rest[n_args])
                n_args++;
        if (n_args > ARG_COUNT_MAX)
                return error_set(err, GB_E_LIMIT, E2BIG, "%zu arguments for the program; the most is %d", n_args,
                                 ARG_COUNT_MAX);
        return arguments_has(a, OPT_NAME) ? source_check_name(arguments_get(a, OPT_NAME), err) : 0;
}

static int find_language(const struct option_set *set, const struct arguments *a, const struct languages *languages,
                         const struct language **ret, gb_error *err)
{
        const char *file = a->n_words > 0 && strcmp(a->words[0], "-") != 0 ? a->words[0] : NULL;
        const char *name = arguments_get(a, OPT_LANG);

        if (!name && arguments_has(a, OPT_NAME))
                file = arguments_get(a, OPT_NAME);
        /* A variable of the environment is a habit; the file's extension is about this file. */
        if (!name && file && language_by_file(languages, file, ret, err) == 0)
                return 0;
        if (!name)
                name = arguments_get_or_env(set, a, OPT_LANG);
        if (!name && file)
                return -EINVAL; /* err says which extension it was */
        return language_by_name(languages, name ? name : LANGUAGE_DEFAULT, ret, err);
}

static int read_source(const struct arguments *a, struct source *ret, gb_error *err)
{
        return a->n_words > 0 ? source_read(a->words[0], ret, err) : source_text(arguments_get(a, OPT_CODE), ret, err);
}

static int check_source(const struct arguments *a, const struct source *s, const struct language *language, gb_error *err)
{
        const char *file = a->n_words > 0 ? a->words[0] : NULL;

        if (!file || strcmp(file, "-") == 0)
                return source_check(s, language, file ? "standard input" : "the code of -c", err);
        return source_check(s, language, quote(file).text, err);
}

/* Standard input for the program; the engine copies it into a pipe, so anything readable will do. */
static int find_input(int *ret, gb_error *err)
{
        int flags = fcntl(STDIN_FILENO, F_GETFL);
        struct stat st;

        *ret = -1;
        if (flags < 0 || (flags & O_ACCMODE) == O_WRONLY || fstat(STDIN_FILENO, &st) < 0)
                return 0;
        if (S_ISDIR(st.st_mode))
                return error_set(err, GB_E_USAGE, EISDIR, "standard input is a directory; a program cannot read that");
        *ret = STDIN_FILENO;
        return 0;
}

/* The template that it could come from: the one that was asked for, or the usual one if somebody keeps it warm. Who
 * asks for one by name is told when it is not to be had, and has its image. */
static int find_template(const struct option_set *set, const struct arguments *a, bool served, struct templates **ret_all,
                         struct run_request *request, gb_error *err)
{
        const char *name = arguments_get_or_env(set, a, OPT_TEMPLATE);
        const struct language *l = request->language;

        if (!name && (!served || !request->policy->warm || request->policy->backend != BACKEND_NATIVE || request->rootfs || !l->context || strcmp(l->context, TEMPLATE_DEFAULT) != 0))
                return 0;
        int r = templates_load(NULL, ret_all, err);
        if (r < 0)
                return r;
        for (size_t i = 0; !name && i < (*ret_all)->n; i++)
                if (strcmp((*ret_all)->rows[i].name, TEMPLATE_DEFAULT) == 0)
                        request->template = &(*ret_all)->rows[i];
        if (!name)
                return 0;
        r = template_by_name(*ret_all, name, &request->template, err);
        if (r == 0 && !request->rootfs)
                request->rootfs = request->template->rootfs;
        return r;
}

/* When the code came from standard input, nothing is left there for the program. */
static int find_program_input(const struct arguments *a, int *ret, gb_error *err)
{
        *ret = -1;
        return a->n_words == 0 || strcmp(a->words[0], "-") != 0 ? find_input(ret, err) : 0;
}

/* Everything is read and right: runs it. */
static int execute(struct run_request *request, const struct arguments *a, gb_error *err)
{
        _cleanup_result_ struct result *result = NULL;
        _cleanup_show_ struct show show = {0};

        _cleanup_close_ int cancel_fd = signals_start();
        if (cancel_fd < 0)
                return error_set(err, GB_E_INTERNAL, -cancel_fd, "cannot make an eventfd: %s", strerror(-cancel_fd));
        int r = find_program_input(a, &request->stdin_fd, err);
        if (r < 0)
                return r;
        show_init(&show, a, request->policy->timeout_usec, cancel_fd);
        show.view = (struct findings_view){.code = request->code, .size = request->code_size};
        request->cancel_fd = cancel_fd;
        request->keep_output = show.json;
        request->callbacks = (struct run_callbacks){.started = show_started, .output = show_output, .data = &show};

        r = run_execute(request, &result, err);
        /* From here a signal ends us: what is left to do is to write, and that may take long. */
        signals_stop();
        return r < 0 ? r : show_report(&show, result, request->policy, NULL);
}

/* with_policy: that of this host; a server that was named has its own. */
static int read_parts(const struct option_set *set, const struct arguments *a, bool with_policy, struct parts *p, gb_error *err)
{
        const char *user = arguments_get_or_env(set, a, OPT_USER);
        struct run_request *request = &p->request;

        *request = (struct run_request){
                .args = a->rest,
                .workspace = arguments_get_or_env(set, a, OPT_WORKSPACE),
                .rootfs = arguments_get_or_env(set, a, OPT_ROOTFS),
                .stdin_fd = -1,
        };
        int r = settings_user(user ? user : USER_DEFAULT, &request->uid, &request->gid, err);
        if (r == 0 && with_policy)
                r = settings_policy(set, a, &p->policy, err);
        if (r == 0)
                r = languages_load(NULL, &p->languages, err);
        /* Before the language: a directory has no language, and that is not what is wrong with it. */
        if (r == 0)
                r = read_source(a, &p->source, err);
        if (r == 0)
                r = find_language(set, a, p->languages, &request->language, err);
        if (r == 0)
                r = check_source(a, &p->source, request->language, err);
        if (r < 0)
                return r;
        request->policy = p->policy;
        request->languages = p->languages;
        request->code = p->source.code;
        request->code_size = p->source.size;
        request->code_name = arguments_get(a, OPT_NAME);
        if (!request->code_name && a->n_words > 0)
                request->code_name = source_name_in_box(a->words[0], request->language);
        return 0;
}

static int run_here(const struct option_set *set, const struct arguments *a, bool served, struct parts *p, gb_error *err)
{
        int r = p->request.code ? 0 : read_parts(set, a, true, p, err);
        if (r == 0)
                r = image_choose(p->policy, p->request.rootfs, arguments_get_or_env(set, a, OPT_TEMPLATE), &p->root, err);
        if (r < 0)
                return r;
        p->request.rootfs = p->root;
        r = find_template(set, a, served, &p->templates, &p->request, err);
        if (r < 0)
                return r;
        if (served && !p->request.template)
                run_prepare(true);
        return execute(&p->request, a, err);
}

static int run_there(struct service *s, const struct option_set *set, const struct arguments *a, struct parts *p, bool *ret_here, gb_error *err)
{
        int input = -1;

        *ret_here = false;
        int r = read_parts(set, a, !s->named, p, err);
        if (r == 0)
                r = find_program_input(a, &input, err);
        return r < 0 ? r : run_on_server(s, set, a, &p->request, input, ret_here, err);
}

int command_run(const struct command *command, const struct arguments *arguments)
{
        const struct option_set *set = &command->options;
        _cleanup_service_ struct service service = {.client = {.fd = -1}};
        _cleanup_(parts_done) struct parts parts = {0};
        gb_error err = {.code = GB_E_INTERNAL, .message = "unknown failure"};

        bool here = false;

        int r = check_usage(arguments, &err);
        if (r == 0)
                r = run_find_server(set, arguments, &service, &err);
        if (r > 0) {
                r = run_there(&service, set, arguments, &parts, &here, &err);
                if (!here)
                        return r < 0 ? command_fail(arguments, &err) : r;
        }
        if (r == 0 || here) {
                /* Where templates are warm, what is to be prepared shows later. */
                bool served = warm_is_served();
                run_prepare(!served);
                r = run_here(set, arguments, served, &parts, &err);
                run_forget();
        }
        return r < 0 ? command_fail(arguments, &err) : r;
}
