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
#include "base/json.h"
#include "base/quote.h"
#include "engine/warm.h"
#include "cli/command.h"
#include "cli/events.h"
#include "cli/output.h"
#include "cli/settings.h"
#include "cli/signals.h"
#include "cli/source.h"
#include "cli/weaker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define USER_DEFAULT "1000:1000"
#define LANGUAGE_DEFAULT "python" /* of -c and - */
#define TEMPLATE_DEFAULT "python"
#define STATUS_BROKEN_PIPE (128 + 13)

/* Where output goes while the program runs. */
struct show {
        bool json, events_wanted, quiet;
        struct sink sinks[2]; /* by enum run_stream */
        struct events events;
        uint64_t timeout_usec;
};

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

/* Nobody reads, or the disk is full: the run has no purpose any more. */
static void note_failure(int r)
{
        if (r < 0)
                signals_cancel(2);
}

static void on_started(void *data, uint64_t t_usec)
{
        struct show *s = data;

        for (size_t i = 0; i < ARRAY_SIZE(s->sinks); i++)
                s->sinks[i].deadline_usec = monotonic_usec() + s->timeout_usec;
        if (s->events_wanted)
                note_failure(events_started(&s->events, t_usec));
}

static void on_output(void *data, enum run_stream stream, const void *bytes, size_t size, uint64_t t_usec)
{
        struct show *s = data;

        if (s->json || s->sinks[s->events_wanted ? RUN_STDOUT : stream].error < 0)
                return;
        note_failure(s->events_wanted ? events_output(&s->events, stream, bytes, size, t_usec)
                                      : sink_write(&s->sinks[stream], bytes, size));
}

static void show_init(struct show *s, const struct arguments *a, const struct policy *p, int cancel_fd)
{
        *s = (struct show){
                .json = arguments_has(a, OPT_JSON),
                .events_wanted = arguments_has(a, OPT_EVENTS),
                .quiet = arguments_has(a, OPT_QUIET),
                .events = {.sink = &s->sinks[RUN_STDOUT]},
                .timeout_usec = p->timeout_usec,
        };
        sink_init(&s->sinks[RUN_STDOUT], STDOUT_FILENO, arguments_has(a, OPT_RAW));
        sink_init(&s->sinks[RUN_STDERR], STDERR_FILENO, arguments_has(a, OPT_RAW));
        for (size_t i = 0; i < ARRAY_SIZE(s->sinks); i++)
                s->sinks[i].cancel_fd = cancel_fd;
}

static void show_done(struct show *s)
{
        for (size_t i = 0; i < ARRAY_SIZE(s->sinks); i++)
                sink_done(&s->sinks[i]);
}

static void say_verdict(const struct show *s, const struct result *result)
{
        enum verdict_kind kind = result->verdict.kind;
        bool terminal = s->sinks[RUN_STDERR].is_terminal;

        if (kind == VERDICT_OK || (kind == VERDICT_ERROR && !terminal))
                return;
        for (size_t i = 0; terminal && i < ARRAY_SIZE(s->sinks); i++)
                if (s->sinks[i].neutralise && s->sinks[i].terminal.in_line) {
                        if (fd_write_all(STDERR_FILENO, "\n", 1) < 0)
                                return;
                        break;
                }
        message_print(MESSAGE_ERROR, "%s: %s", verdict_name(kind), result->verdict.message);
}

/* Tells the end of the run; the exit status. */
static int report(struct show *s, const struct result *result, const struct policy *policy)
{
        struct sink *out = &s->sinks[RUN_STDOUT];
        int status = verdict_exit_status(&result->verdict, &result->facts);

        if (s->json) {
                _cleanup_json_ json_t *json = result_to_json(result, policy);
                sink_write_json(out, json, out->is_terminal ? JSON_INDENT(2) : JSON_COMPACT);
        } else if (s->events_wanted) {
                int r = events_verdict(&s->events, result_to_json(result, policy));
                if (r < 0 && out->error == 0)
                        out->error = r;
        }
        for (size_t i = 0; i < ARRAY_SIZE(s->sinks); i++) {
                int r = sink_finish(&s->sinks[i]);
                if (r == -EPIPE)
                        status = STATUS_BROKEN_PIPE;
        }
        if (out->error < 0 && out->error != -EPIPE) {
                message_print(MESSAGE_ERROR, "cannot write to standard output: %s", strerror(-out->error));
                return error_exit_status(GB_E_INTERNAL);
        }
        if (!s->quiet && status != STATUS_BROKEN_PIPE) {
                weaker_warn(&result->controls, policy);
                if (!s->json && !s->events_wanted)
                        say_verdict(s, result);
        }
        return status;
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

        if (!name && (!served || !request->policy->warm || request->rootfs || !l->context || strcmp(l->context, TEMPLATE_DEFAULT) != 0))
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

/* Everything is read and right: runs it. */
static int execute(struct run_request *request, const struct arguments *a, gb_error *err)
{
        int input = -1;
        _cleanup_result_ struct result *result = NULL;
        _cleanup_(show_done) struct show show = {0};

        _cleanup_close_ int cancel_fd = signals_start();
        if (cancel_fd < 0)
                return error_set(err, GB_E_INTERNAL, -cancel_fd, "cannot make an eventfd: %s", strerror(-cancel_fd));
        /* When the code came from standard input, nothing is left there for the program. */
        if (a->n_words == 0 || strcmp(a->words[0], "-") != 0) {
                int r = find_input(&input, err);
                if (r < 0)
                        return r;
        }
        show_init(&show, a, request->policy, cancel_fd);
        request->stdin_fd = input;
        request->cancel_fd = cancel_fd;
        request->keep_output = show.json;
        request->callbacks = (struct run_callbacks){.started = on_started, .output = on_output, .data = &show};

        int r = run_execute(request, &result, err);
        /* From here a signal ends us: what is left to do is to write, and that may take long. */
        signals_stop();
        return r < 0 ? r : report(&show, result, request->policy);
}

static int prepare_and_execute(const struct option_set *set, const struct arguments *a, bool served, gb_error *err)
{
        _cleanup_templates_ struct templates *templates = NULL;
        _cleanup_languages_ struct languages *languages = NULL;
        _cleanup_policy_ struct policy *policy = NULL;
        _cleanup_source_ struct source source = {0};
        const char *user = arguments_get_or_env(set, a, OPT_USER);
        struct run_request request = {
                .args = a->rest,
                .workspace = arguments_get_or_env(set, a, OPT_WORKSPACE),
                .rootfs = arguments_get_or_env(set, a, OPT_ROOTFS),
        };

        int r = settings_user(user ? user : USER_DEFAULT, &request.uid, &request.gid, err);
        if (r == 0)
                r = settings_policy(set, a, &policy, err);
        if (r == 0)
                r = languages_load(NULL, &languages, err);
        /* Before the language: a directory has no language, and that is not what is wrong with it. */
        if (r == 0)
                r = read_source(a, &source, err);
        if (r == 0)
                r = find_language(set, a, languages, &request.language, err);
        if (r == 0)
                r = check_source(a, &source, request.language, err);
        request.policy = policy;
        request.languages = languages;
        if (r == 0)
                r = find_template(set, a, served, &templates, &request, err);
        if (r < 0)
                return r;
        if (served && !request.template)
                run_prepare();
        request.code = source.code;
        request.code_size = source.size;
        request.code_name = arguments_get(a, OPT_NAME);
        if (!request.code_name && a->n_words > 0)
                request.code_name = source_name_in_box(a->words[0], request.language);
        return execute(&request, a, err);
}

int command_run(const struct command *command, const struct arguments *arguments)
{
        gb_error err = {.code = GB_E_INTERNAL, .message = "unknown failure"};

        int r = check_usage(arguments, &err);
        if (r == 0) {
                /* Where templates are warm, what is to be prepared shows later. */
                bool served = warm_is_served();
                if (!served)
                        run_prepare();
                r = prepare_and_execute(&command->options, arguments, served, &err);
                run_forget();
        }
        return r < 0 ? command_fail(arguments, &err) : r;
}
