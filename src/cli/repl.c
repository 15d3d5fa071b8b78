/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox repl: an interpreter in a box, and a prompt before it.
 *
 * Theory of operation. Lines come from a terminal or a pipe (lines.c) and are put together until they are a whole
 * block (block.c), which runs in the session's context (repl_session.c) and shows what it gives while it lasts
 * (repl_show.c). Signals only count on an eventfd (signals.c): at the prompt a Ctrl-C drops the input, in a
 * run the engine takes it. One thread does all of it. */
#include "cli/repl.h"

#include "base/json.h"
#include "base/parse.h"
#include "base/quote.h"
#include "cli/block.h"
#include "cli/command.h"
#include "cli/editor.h"
#include "cli/events.h"
#include "cli/settings.h"
#include "cli/signals.h"
#include "engine/warm.h"
#include "image/choose.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define USER_DEFAULT "1000:1000"
#define LANGUAGE_DEFAULT "python"
#define TEMPLATE_DEFAULT "python"
#define STATUS_BROKEN_PIPE (128 + 13)
#define STATUS_INTERRUPTED 130

/* By what has the context. */
static const struct prompts {
        const char *context, *first, *more;
} prompts[] = {{"python", ">>> ", "... "}, {"bash", "$ ", "> "}, {"node", "> ", "... "}};

/* What was typed and is not whole yet. */
struct input {
        struct buffer code;
        struct block block;
};

static void repl_done(struct repl *r)
{
        repl_close(r);
        lines_done(&r->lines);
        for (size_t i = 0; i < ARRAY_SIZE(r->sinks); i++)
                sink_done(&r->sinks[i]);
        watch_close(r->watch);
        policy_free(r->policy);
        languages_free(r->languages);
        templates_free(r->templates);
        free(r->workspace);
        free(r->root);
        if (r->cancel_fd >= 0)
                close(r->cancel_fd);
}

/* ---- what was asked for ---- */

static int find_language(struct repl *r, const struct arguments *a, gb_error *err)
{
        const char *name = arguments_get(a, OPT_LANG);
        char list[256] = "";

        int e = languages_load(NULL, &r->languages, err);
        if (e == 0)
                e = language_by_name(r->languages, name ? name : LANGUAGE_DEFAULT, &r->language, err);
        if (e < 0 || r->language->context)
                return e;
        for (size_t i = 0, n = 0; i < r->languages->n && n < sizeof(list); i++)
                if (r->languages->rows[i].context)
                        n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", n > 0 ? ", " : "", r->languages->rows[i].name);
        return error_set(err, GB_E_USAGE, ENOTSUP, "%s keeps no state from one input to the next; those that do: %s", r->language->name, list);
}

/* The one that was asked for, or the usual one if somebody keeps it warm: to start it for one session would take longer
 * than what it saves. */
static int find_template(struct repl *r, const struct option_set *set, const struct arguments *a, gb_error *err)
{
        const char *name = arguments_get_or_env(set, a, OPT_TEMPLATE);
        bool is_python = strcmp(r->language->context, TEMPLATE_DEFAULT) == 0;

        if (arguments_has(a, OPT_TEMPLATE) && !is_python)
                return error_set(err, GB_E_USAGE, EINVAL, "--template is for Python, and --lang is %s: leave one of them out", r->language->name);
        if (!is_python || (!name && (!r->policy->warm || r->policy->backend != BACKEND_NATIVE || r->options.rootfs || !warm_is_served())))
                return 0;
        int e = templates_load(NULL, &r->templates, err);
        for (size_t i = 0; e == 0 && !name && i < r->templates->n; i++)
                if (strcmp(r->templates->rows[i].name, TEMPLATE_DEFAULT) == 0)
                        r->options.template = &r->templates->rows[i];
        return e < 0 || !name ? e : template_by_name(r->templates, name, &r->options.template, err);
}

static int find_root(struct repl *r, const struct option_set *set, const struct arguments *a, gb_error *err)
{
        int e = image_choose(r->policy, arguments_get_or_env(set, a, OPT_ROOTFS), arguments_get_or_env(set, a, OPT_TEMPLATE), &r->root, err);

        r->options.rootfs = r->root;
        return e;
}

static int find_workspace(struct repl *r, const char *path, gb_error *err)
{
        r->options.workspace = path;
        if (!path)
                return 0;
        r->workspace = realpath(path, NULL);
        if (!r->workspace)
                return error_set(err, errno == EACCES ? GB_E_DENIED : GB_E_NOT_FOUND, errno, "cannot open the workspace %s: %s", quote(path).text, strerror(errno));
        return 0;
}

static int read_settings(struct repl *r, const struct option_set *set, const struct arguments *a, gb_error *err)
{
        const char *user = arguments_get_or_env(set, a, OPT_USER);

        r->json = arguments_has(a, OPT_JSON);
        r->quiet = arguments_has(a, OPT_QUIET);
        r->banner = !r->json && !arguments_has(a, OPT_NO_BANNER);
        int e = settings_user(user ? user : USER_DEFAULT, &r->options.uid, &r->options.gid, err);
        if (e == 0)
                e = settings_policy(set, a, &r->policy, err);
        if (e == 0)
                e = find_language(r, a, err);
        if (e == 0)
                e = find_root(r, set, a, err);
        if (e == 0)
                e = find_template(r, set, a, err);
        if (e == 0)
                e = find_workspace(r, arguments_get_or_env(set, a, OPT_WORKSPACE), err);
        r->options.policy = r->policy;
        r->options.languages = r->languages;
        return e;
}

/* ---- the prompt ---- */

static void show_banner(struct repl *r)
{
        char memory[FORMAT_MAX], timeout[FORMAT_MAX];

        if (!r->banner || !r->asks)
                return;
        repl_print(r, "glovebox %s, %s%s%s: %s of memory, %s for each input, %s.\n", GLOVEBOX_VERSION, r->language->name,
                   r->options.template ? " from the template " : "", r->options.template ? r->options.template->name : "",
                   format_size(r->policy->mem_limit_bytes, memory), format_duration(r->policy->timeout_usec, timeout),
                   r->policy->network_mode == NETWORK_NONE ? "no network" : r->policy->network_mode == NETWORK_HOST ? "the host's network" : "a network of what is allowed");
        repl_print(r, "%%help tells more, Ctrl-D leaves.\n");
        repl_show_end(r);
}

static const struct prompts *prompts_of(const struct repl *r)
{
        for (size_t i = 0; i < ARRAY_SIZE(prompts); i++)
                if (strcmp(prompts[i].context, r->language->context) == 0)
                        return &prompts[i];
        return &prompts[0];
}

static void input_clear(struct repl *r, struct input *in)
{
        in->code.size = 0;
        block_init(&in->block, r->language->context);
}

static bool is_blank(const char *text, size_t size)
{
        for (size_t i = 0; i < size; i++)
                if (!strchr(" \t\r\n", text[i]) || text[i] == '\0')
                        return false;
        return true;
}

/* The same in all languages: SystemExit of Python does not end a context. */
static bool asks_to_leave(const char *line)
{
        static const char *const words[] = {"exit", "quit", "exit()", "quit()", "exit();", "quit();", ".exit"};
        size_t size = strlen(line);

        while (size > 0 && strchr(" \t\r", line[size - 1]))
                size--;
        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
                if (strlen(words[i]) == size && memcmp(words[i], line, size) == 0)
                        return true;
        return false;
}

static void show_error(struct repl *r, const gb_error *err)
{
        r->failed = true;
        repl_say(r, MESSAGE_ERROR, "%s", err->message);
        if (r->json) {
                _cleanup_json_ json_t *json = error_to_json(err, false);
                sink_write_json(&r->sinks[RUN_STDOUT], json, JSON_COMPACT);
        }
        repl_show_end(r);
}

static void run_input(struct repl *r, struct input *in)
{
        gb_error err = {0};

        if (!is_blank(in->code.data, in->code.size) && repl_run(r, in->code.data, in->code.size, &err) < 0)
                show_error(r, &err);
        input_clear(r, in);
}

/* Returns false when the line says to leave. */
static bool take_line(struct repl *r, struct input *in, const char *line, size_t size)
{
        gb_error err = {0};

        if (in->code.size == 0 && asks_to_leave(line))
                return false;
        if (in->code.size == 0 && line[0] == '%') {
                if (repl_command(r, line, &err) < 0)
                        show_error(r, &err);
                repl_show_end(r);
                return true;
        }
        if (buffer_add(&in->code, line, size) < 0 || buffer_add(&in->code, "\n", 1) < 0) {
                error_set(&err, GB_E_LIMIT, EFBIG, "the input is bigger than %llu MB, the most that code may have", CODE_BYTES_MAX / MIB);
                show_error(r, &err);
                input_clear(r, in);
        } else if (block_add_line(&in->block, line, size)) {
                run_input(r, in);
        }
        return true;
}

/* At the prompt: Ctrl-C drops what was typed. Returns false when the command is to end. */
static bool take_interrupt(struct repl *r, struct input *in)
{
        if (!r->asks || signals_must_end())
                return false;
        signals_clear();
        dprintf(r->terminal_fd, "^C\n");
        input_clear(r, in);
        return true;
}

/* What was read may be a part of a block: it is not run. */
static int fail_reading(struct repl *r, int errnum)
{
        gb_error err = {0};

        if (errnum == EFBIG)
                error_set(&err, GB_E_LIMIT, EFBIG, "a line of the input is bigger than %llu MB, the most that code may have",
                          CODE_BYTES_MAX / MIB);
        else
                error_set(&err, errnum == EISDIR ? GB_E_USAGE : GB_E_INTERNAL, errnum, "cannot read standard input: %s",
                          strerror(errnum));
        show_error(r, &err);
        return error_exit_status(err.code);
}

/* Until the end of the input; the exit status. */
static int work(struct repl *r, struct input *in)
{
        const struct prompts *p = prompts_of(r);
        const char *line = NULL;
        size_t size = 0;

        for (;;) {
                if (r->sinks[RUN_STDOUT].error == -EPIPE)
                        return STATUS_BROKEN_PIPE;
                if (signals_pending() && (!r->asks || signals_must_end()))
                        return STATUS_INTERRUPTED;
                signals_clear();
                int n = lines_read(&r->lines, in->code.size > 0 ? p->more : p->first, &line, &size);
                if (n == -EINTR) {
                        if (!take_interrupt(r, in))
                                return STATUS_INTERRUPTED;
                        continue;
                }
                bool was_open = in->code.size > 0;
                if (n > 0 && !take_line(r, in, line, size))
                        break;
                if (n > 0)
                        continue;
                if (r->asks)
                        dprintf(r->terminal_fd, "\n");
                if (n < 0)
                        return fail_reading(r, -n);
                if (was_open)
                        run_input(r, in); /* the end of the input ends the block, too */
                if (!was_open || !r->asks)
                        break;
        }
        return r->asks || !r->failed ? 0 : 1;
}

/* The terminal to ask at, or -1. With --json standard output is for machines. */
static int find_terminal(const struct repl *r)
{
        if (!isatty(STDIN_FILENO))
                return -1;
        if (!r->json && isatty(STDOUT_FILENO))
                return STDOUT_FILENO;
        return isatty(STDERR_FILENO) ? STDERR_FILENO : -1;
}

/* When it cannot be said it is not kept. */
static bool has_secret(void *data, const char *line, size_t size)
{
        const struct scrub *scrub = watch_scrub(data);
        _cleanup_buffer_ struct buffer out = {0};

        buffer_init(&out, 2 * size + SCRUB_NAME_MAX);
        return scrub && scrub_text(scrub, line, size, &out, NULL) != 0;
}

static int start(struct repl *r, gb_error *err)
{
        sink_init(&r->sinks[RUN_STDOUT], STDOUT_FILENO, false);
        sink_init(&r->sinks[RUN_STDERR], STDERR_FILENO, false);
        r->terminal_fd = find_terminal(r);
        r->asks = r->terminal_fd >= 0;
        /* A template may take its time, and until now a signal just ends us. */
        int e = repl_open(r, err);
        if (e < 0)
                return e;
        r->cancel_fd = signals_start();
        if (r->cancel_fd < 0)
                return error_set(err, GB_E_INTERNAL, -r->cancel_fd, "cannot make an eventfd: %s", strerror(-r->cancel_fd));
        lines_init(&r->lines, r->terminal_fd, r->cancel_fd);
        if (!r->lines.editor)
                return 0;
        e = watch_open(r->policy, &r->watch, err);
        if (e == 0)
                editor_keep_out(r->lines.editor, has_secret, r->watch);
        return e;
}

int command_repl(const struct command *command, const struct arguments *arguments)
{
        _cleanup_(repl_done) struct repl r = {.cancel_fd = -1};
        gb_error err = {.code = GB_E_INTERNAL, .message = "unknown failure"};
        struct input in = {0};

        int e = read_settings(&r, &command->options, arguments, &err);
        if (e == 0)
                e = start(&r, &err);
        if (e < 0)
                return command_fail(arguments, &err);
        show_banner(&r);
        buffer_init(&in.code, CODE_BYTES_MAX);
        input_clear(&r, &in);
        int status = work(&r, &in);
        buffer_done(&in.code);
        return status;
}
