/* SPDX-License-Identifier: Apache-2.0
 *
 * A run goes to a server when one listens at the default socket and the whole of it can be said there; then it is among what
 * `ps`, `logs` and `audit` show. Otherwise it is done here, without a word: the outcome is the same. Who names a server gets that
 * one or an error. Once a server has begun a run it is never done a second time. */
#include "cli/run_server.h"

#include "base/fd.h"
#include "cli/remote.h"
#include "cli/request.h"
#include "cli/secrets.h"
#include "cli/show.h"
#include "cli/signals.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What a server cannot be told. */
static const enum option_id not_said[] = {OPT_WORKSPACE, OPT_ROOTFS, OPT_USER, OPT_POLICY};

/* Variables that say which of glovebox's own files and groups are to be used: a server has its own. */
static const char *const own_files[] = {"GLOVEBOX_CONFIG_DIR", "GLOVEBOX_LIBEXEC_DIR", "GLOVEBOX_RUNNER_DIR", "GLOVEBOX_CGROUP"};

/* The flag or variable that stands in the way, or NULL. */
static const char *obstacle(const struct option_set *set, const struct arguments *a)
{
        for (size_t i = 0; i < ARRAY_SIZE(not_said); i++)
                if (arguments_get_or_env(set, a, not_said[i])) {
                        struct option o;
                        for (size_t k = 0; options_next(set, &k, &o);)
                                if (o.id == not_said[i])
                                        return arguments_has(a, not_said[i]) ? o.name : o.env;
                }
        for (size_t i = 0; i < a->n_uses; i++)
                if (a->uses[i].option.key && strcmp(a->uses[i].option.key, "mounts") == 0)
                        return "mount";
        return NULL;
}

int run_find_server(const struct option_set *set, const struct arguments *a, struct service *ret, gb_error *err)
{
        bool named = service_is_named(set, a);
        const char *what = obstacle(set, a);

        *ret = (struct service){.client = {.fd = -1}};
        if (arguments_has(a, OPT_EMBEDDED) && arguments_has(a, OPT_SERVER))
                return error_set(err, GB_E_USAGE, 0, "--embedded and --server exclude each other");
        if (arguments_has(a, OPT_EMBEDDED))
                return 0;
        if (named && what)
                return error_set(err, GB_E_USAGE, EOPNOTSUPP, "%s%s cannot be asked of a server; with --embedded the run is done without one",
                                 what[0] == 'G' ? "" : "--", what);
        if (named) {
                int r = service_open(set, a, ret, err);
                return r < 0 ? r : 1;
        }
        for (size_t i = 0; !what && i < ARRAY_SIZE(own_files); i++) {
                const char *value = getenv(own_files[i]);
                what = value && *value ? own_files[i] : NULL;
        }
        return what ? 0 : service_try(ret);
}

/* ---- the request ---- */

static int fill(json_t *body, const struct option_set *set, const struct arguments *a, const struct run_request *q,
                const struct request_input *input)
{
        const char *template = arguments_get_or_env(set, a, OPT_TEMPLATE);

        int r = request_set_text(body, "code", q->code, q->code_size);
        if (r == 0)
                r = request_set_text(body, "language", q->language->name, strlen(q->language->name));
        if (r == 0 && q->code_name)
                r = request_set_text(body, "name", q->code_name, strlen(q->code_name));
        if (r == 0 && template)
                r = request_set_text(body, "template", template, strlen(template));
        if (r == 0 && q->args && q->args[0])
                r = request_set_words(body, "args", q->args);
        if (r == 0)
                r = request_set_input(body, input);
        if (r == 0)
                r = json_object_set_new(body, "on_disconnect", json_string("cancel")) < 0 ? -ENOMEM : 0;
        return r;
}

static int make_body(const struct option_set *set, const struct arguments *a, const struct run_request *q, const struct request_input *input,
                     json_t **ret, gb_error *err)
{
        _cleanup_json_ json_t *body = json_object(), *policy = NULL;

        int r = request_policy(set, a, &policy, err);
        if (r < 0)
                return r;
        r = fill(body, set, a, q, input);
        if (r == -EILSEQ)
                return error_set(err, GB_E_USAGE, EILSEQ,
                                 "code and arguments that go to a server are UTF-8 without NUL; with --embedded the run is done without one");
        if (r == 0 && (r = secrets_set_request(body, a, q->policy, err)) < 0)
                return r;
        /* The time is of the run; the rest of its box. */
        json_t *timeout = json_object_get(policy, "timeout");
        if (r == 0 && timeout)
                r = json_object_set(body, "timeout", timeout) < 0 || json_object_del(policy, "timeout") < 0 ? -ENOMEM : 0;
        if (r == 0 && json_object_size(policy) > 0)
                r = json_object_set(body, "policy", policy) < 0 ? -ENOMEM : 0;
        if (r < 0)
                return service_out_of_memory(err);
        *ret = TAKE_PTR(body);
        return 0;
}

/* ---- the run ---- */

static int on_event(void *data, const char *kind, const json_t *event)
{
        uint64_t t_usec = (uint64_t)json_integer_value(json_object_get(event, "t_usec"));
        _cleanup_free_ void *decoded = NULL;
        const char *bytes;
        size_t size;

        if (strcmp(kind, "started") == 0)
                show_started(data, t_usec);
        else if (strcmp(kind, "stdout") == 0 || strcmp(kind, "stderr") == 0) {
                if (remote_bytes(event, &bytes, &size, &decoded) < 0)
                        return -EBADMSG;
                show_output(data, kind[3] == 'o' ? RUN_STDOUT : RUN_STDERR, bytes, size, t_usec);
        }
        return 0;
}

/* With --json: the result object, which holds the output. Otherwise what the last event has, which does not. */
static int get_object(struct service *s, const struct remote *remote, bool whole, json_t *last, json_t **ret, gb_error *err)
{
        if (!whole) {
                json_object_del(last, "event");
                json_object_del(last, "seq");
                *ret = json_incref(last);
                return 0;
        }
        return remote_get_result(s, remote->run, ret, err);
}

/* What a server lets callers choose is its own affair: what it does not can be had here. */
static bool has_choice(const json_t *body)
{
        const json_t *policy = json_object_get(body, "policy");

        return json_object_get(policy, "backend") || json_object_get(policy, "runtime") || json_object_get(policy, "image");
}

/* A refusal before anything was begun, which says nothing about the run itself. */
static bool may_be_done_here(const struct service *s, const struct remote *remote, const gb_error *err)
{
        return !s->named && !remote->run[0] &&
               (err->code == GB_E_UNAVAILABLE || err->code == GB_E_TOO_LARGE || (err->code == GB_E_DENIED && has_choice(remote->body)));
}

static int execute(struct service *s, const struct arguments *a, const json_t *body, const struct run_request *request, int stdin_fd, bool *ret_here,
                   gb_error *err)
{
        _cleanup_show_ struct show show = {0};
        _cleanup_json_ json_t *last = NULL, *object = NULL;
        _cleanup_close_ int cancel_fd = signals_start();
        struct remote remote = {.service = s, .target = "/v1/runs", .body = body, .stdin_fd = stdin_fd, .cancel_fd = cancel_fd, .sinks = show.sinks,
                                .event = on_event, .data = &show};
        struct result result;

        if (cancel_fd < 0)
                return error_set(err, GB_E_INTERNAL, -cancel_fd, "cannot make an eventfd: %s", strerror(-cancel_fd));
        show_init(&show, a, 0, cancel_fd);
        show_waits_not(&show);
        show.view = (struct findings_view){.code = request->code, .size = request->code_size};
        int r = remote_run(&remote, &last, err);
        signals_stop();
        if (r == 0)
                r = get_object(s, &remote, show.json, last, &object, err);
        if (r < 0) {
                for (size_t i = 0; i < ARRAY_SIZE(show.sinks); i++)
                        sink_finish(&show.sinks[i]);
                *ret_here = may_be_done_here(s, &remote, err);
                return r;
        }
        remote_result(object, &result);
        return show_report(&show, &result, request->policy, TAKE_PTR(object));
}

int run_on_server(struct service *s, const struct option_set *set, const struct arguments *a, const struct run_request *request, int input_fd,
                  bool *ret_here, gb_error *err)
{
        _cleanup_(request_input_done) struct request_input input = {.fd = -1};
        _cleanup_json_ json_t *body = NULL;

        int r = request_input_read(input_fd, &input, err);
        if (r == 0)
                r = make_body(set, a, request, &input, &body, err);
        *ret_here = r == -EILSEQ && !s->named;
        if (r < 0)
                return r;
        secrets_warn(body, &s->client.address);
        r = execute(s, a, body, request, input.fd, ret_here, err);
        if (r >= 0 && input.bytes)
                (void)lseek(input_fd, 0, SEEK_END); /* it was read */
        return r;
}
