/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox session exec: code in a session that lives on a server. What it prints goes to the streams of the same name; values of
 * expressions to standard output, as at a prompt; what ended it to standard error. */
#include "cli/command.h"
#include "cli/ids.h"
#include "cli/remote.h"
#include "cli/request.h"
#include "cli/show.h"
#include "cli/signals.h"
#include "cli/source.h"

#include "base/fd.h"
#include "base/quote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LANGUAGE_DEFAULT "python"

struct exec {
        struct show show;
        bool in_line[2]; /* something was written since the last newline, by enum run_stream */
};

/* ---- what is shown ---- */

static void write_some(struct exec *x, enum run_stream stream, const char *bytes, size_t size)
{
        if (size == 0 || x->show.json)
                return;
        show_output(&x->show, stream, bytes, size, 0);
        x->in_line[stream] = bytes[size - 1] != '\n';
}

static void write_line(struct exec *x, enum run_stream stream, const char *bytes, size_t size)
{
        if (x->in_line[stream])
                write_some(x, stream, "\n", 1);
        write_some(x, stream, bytes, size);
        if (x->in_line[stream])
                write_some(x, stream, "\n", 1);
}

/* As text where it has such a form, otherwise what forms there are. */
static void show_value(struct exec *x, const json_t *value)
{
        const json_t *data = json_object_get(value, "data"), *text = json_object_get(data, "text/plain");
        _cleanup_buffer_ struct buffer list;
        const char *mime;
        json_t *part;

        buffer_init(&list, 4096);
        if (json_is_string(text)) {
                write_line(x, RUN_STDOUT, json_string_value(text), json_string_length(text));
                return;
        }
        json_object_foreach((json_t *)data, mime, part) {
                (void)buffer_printf(&list, "%s%s", list.size > 0 ? " " : "(", mime);
        }
        if (list.size > 0 && buffer_add_string(&list, ": --json has it)") == 0)
                write_line(x, RUN_STDOUT, list.data, list.size);
}

static void show_exception(struct exec *x, const json_t *error)
{
        const json_t *traceback = json_object_get(error, "traceback");
        _cleanup_buffer_ struct buffer line;

        buffer_init(&line, 2 * ERROR_TEXT_MAX + 16);
        if (json_string_length(traceback) > 0) {
                write_line(x, RUN_STDERR, json_string_value(traceback), json_string_length(traceback));
                return;
        }
        if (buffer_printf(&line, "%s: %s", json_member(error, "name", "error"), json_member(error, "value", "")) == 0)
                write_line(x, RUN_STDERR, line.data, line.size);
}

static int on_event(void *data, const char *kind, const json_t *event)
{
        struct exec *x = data;
        _cleanup_free_ void *decoded = NULL;
        const char *bytes;
        size_t size;

        if (x->show.events_wanted) {
                if (sink_write_json(&x->show.sinks[RUN_STDOUT], event, JSON_COMPACT) < 0)
                        signals_cancel(2);
        } else if (strcmp(kind, "stdout") == 0 || strcmp(kind, "stderr") == 0) {
                if (remote_bytes(event, &bytes, &size, &decoded) < 0)
                        return -EBADMSG;
                write_some(x, kind[3] == 'o' ? RUN_STDOUT : RUN_STDERR, bytes, size);
        } else if (strcmp(kind, "result") == 0)
                show_value(x, json_object_get(event, "value"));
        else if (strcmp(kind, "exception") == 0)
                show_exception(x, json_object_get(event, "error"));
        return 0;
}

/* ---- the request ---- */

static int check_usage(const struct arguments *a, gb_error *err)
{
        bool code = arguments_has(a, OPT_CODE), context = arguments_has(a, OPT_CONTEXT), fresh = arguments_has(a, OPT_FRESH);

        if (a->n_words == 0)
                return error_set(err, GB_E_USAGE, 0, "give the session: its id, the beginning of that, or its name");
        if (code == (a->n_words > 1))
                return error_set(err, GB_E_USAGE, 0, code ? "both -c and a file were given" : "nothing to run: give -c CODE, a FILE, or - for standard input");
        if (arguments_has(a, OPT_JSON) && arguments_has(a, OPT_EVENTS))
                return error_set(err, GB_E_USAGE, 0, "--json and --events exclude each other");
        if (context && fresh)
                return error_set(err, GB_E_USAGE, 0, "--context and --fresh exclude each other");
        if (a->rest && a->rest[0] && !fresh)
                return error_set(err, GB_E_USAGE, 0, "arguments after -- are for programs of their own: with --fresh");
        return 0;
}

/* By the flag, or the extension of the file, which is also its name in the box. */
static int set_language(json_t *body, const struct arguments *a, const char *file, gb_error *err)
{
        _cleanup_languages_ struct languages *languages = NULL;
        const struct language *language = NULL;
        const char *name = arguments_get(a, OPT_LANG);

        if (file && strcmp(file, "-") != 0) {
                int r = languages_load(NULL, &languages, err);
                if (r == 0 && !name)
                        r = language_by_file(languages, file, &language, err);
                if (r < 0)
                        return r;
        }
        const char *in_box = language && arguments_has(a, OPT_FRESH) ? source_name_in_box(file, language) : NULL;
        const char *text = name ? name : language ? language->name : LANGUAGE_DEFAULT;
        int r = request_set_text(body, "language", text, strlen(text));
        if (r == 0 && in_box)
                r = request_set_text(body, "name", in_box, strlen(in_box));
        return r < 0 ? error_set(err, GB_E_USAGE, -r, "the name of the language or the file is not UTF-8") : 0;
}

static int make_body(const struct arguments *a, const struct source *source, const struct request_input *input, json_t **ret, gb_error *err)
{
        _cleanup_json_ json_t *body = json_object();
        const char *context = arguments_get(a, OPT_CONTEXT), *timeout = arguments_get(a, OPT_TIMEOUT);

        int r = set_language(body, a, a->n_words > 1 ? a->words[1] : NULL, err);
        if (r == 0 && timeout)
                r = request_set_duration(body, "timeout", timeout, "--timeout", err);
        if (r < 0)
                return r;
        r = request_set_text(body, "code", source->code, source->size);
        if (r == 0 && context)
                r = request_set_text(body, "context", context, strlen(context));
        if (r == 0 && arguments_has(a, OPT_FRESH))
                r = json_object_set_new(body, "context", json_null()) < 0 ? -ENOMEM : 0;
        if (r == 0 && a->rest && a->rest[0])
                r = request_set_words(body, "args", a->rest);
        if (r == 0)
                r = request_set_input(body, input);
        if (r == 0)
                r = json_object_set_new(body, "on_disconnect", json_string("cancel")) < 0 ? -ENOMEM : 0;
        if (r == -EILSEQ)
                return error_set(err, GB_E_USAGE, EILSEQ, "code and arguments that go to a server are UTF-8 without NUL");
        if (r < 0)
                return service_out_of_memory(err);
        *ret = TAKE_PTR(body);
        return 0;
}

/* ---- the run ---- */

/* Whether the variables are there: what somebody at a prompt would otherwise find out by a NameError. */
static void warn_of_state(const struct exec *x, const json_t *last)
{
        const json_t *state = json_object_get(last, "state");

        if (x->show.quiet || x->show.json)
                return;
        if (json_is_true(json_object_get(state, "restarted")))
                message_print(MESSAGE_WARNING, "the interpreter had ended since the last run: this one ran in a new one, without the variables of before");
        if (json_is_false(json_object_get(state, "kept")))
                message_print(MESSAGE_WARNING, "the interpreter was ended: its variables are lost, the next run starts a new one");
}

static int report(struct exec *x, struct service *s, const char *run, json_t *last, gb_error *err)
{
        json_t *object = NULL;
        struct result result;

        if (x->show.json) {
                int r = remote_get_result(s, run, &object, err);
                if (r < 0)
                        return r;
        } else {
                object = json_incref(last);
        }
        remote_result(last, &result);
        if (x->show.events_wanted) {
                sink_write_json(&x->show.sinks[RUN_STDOUT], last, JSON_COMPACT);
                x->show.events_wanted = false; /* the last line is written */
                x->show.quiet = true;
        }
        int status = show_report(&x->show, &result, NULL, object);
        warn_of_state(x, last);
        return status;
}

static int run(struct service *s, const struct arguments *a, const json_t *body, const struct source *source, int stdin_fd, const char *session, gb_error *err)
{
        struct exec x = {0};
        _cleanup_json_ json_t *last = NULL;
        _cleanup_close_ int cancel_fd = signals_start();
        char target[96];
        struct remote remote = {.service = s, .target = target, .body = body, .stdin_fd = stdin_fd, .cancel_fd = cancel_fd,
                                .sinks = x.show.sinks, .event = on_event, .data = &x};

        if (cancel_fd < 0)
                return error_set(err, GB_E_INTERNAL, -cancel_fd, "cannot make an eventfd: %s", strerror(-cancel_fd));
        snprintf(target, sizeof(target), "/v1/sessions/%s/runs", session);
        show_init(&x.show, a, 0, cancel_fd);
        show_waits_not(&x.show);
        x.show.view = (struct findings_view){.code = source->code, .size = source->size};
        int r = remote_run(&remote, &last, err);
        signals_stop();
        if (r == 0)
                r = report(&x, s, remote.run, last, err);
        else
                for (size_t i = 0; i < ARRAY_SIZE(x.show.sinks); i++)
                        sink_finish(&x.show.sinks[i]);
        show_done(&x.show);
        return r;
}

int command_session_exec(const struct command *command, const struct arguments *arguments)
{
        const struct arguments *a = arguments;
        _cleanup_service_ struct service s = {.client = {.fd = -1}};
        _cleanup_source_ struct source source = {0};
        _cleanup_(request_input_done) struct request_input input = {.fd = -1};
        _cleanup_json_ json_t *body = NULL;
        char session[RESPONSE_ID_MAX];
        gb_error err = {0};

        int r = check_usage(a, &err);
        if (r == 0)
                r = service_open(&command->options, a, &s, &err);
        if (r == 0)
                r = ids_find_session(&s, a->words[0], session, &err);
        if (r == 0)
                r = a->n_words > 1 ? source_read(a->words[1], &source, &err) : source_text(arguments_get(a, OPT_CODE), &source, &err);
        if (r == 0)
                r = request_input_read(arguments_has(a, OPT_STDIN) ? STDIN_FILENO : -1, &input, &err);
        if (r == 0)
                r = make_body(a, &source, &input, &body, &err);
        if (r == 0)
                r = run(&s, a, body, &source, input.fd, session, &err);
        return r < 0 ? command_fail(a, &err) : r;
}
